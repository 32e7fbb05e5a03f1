"""What reclaim, preemption, node services and reservations have to do with it that an ask is not
running.
"""

from __future__ import annotations

import pytest

from muster_core.events import AddApp, AddNode, AddPriorityClass, Configure, Release
from muster_core.reasons import Code, Explanation, Reserved
from muster_core.resources import Resources
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, configuration, queue, wish
from tests.core.tree import BLOCKING, Tree, codes, explain, facts, message_of, props, why
from tests.core.view.eviction.contest import Contest, contest, share, share_of, urgent
from tests.core.view.eviction.test_services import ask_of_b, service, service_leaf
from tests.core.view.sites import S, Site, gang_of, job

SECOND_US = 1_000_000


def owed(delay: str = "10s", policy: str = "default") -> Queue:
    properties = {"preemption_delay": delay, "preemption_policy": policy}
    return share_of("a", properties, guaranteed={"vcore": 4})


def make_tree(*queues: Queue, enabled: bool = True) -> Tree:
    """Return a tree of one node that an application in ``root.b`` has."""
    tree = Tree(
        configuration(
            *queues, share("b", queue_reclaimable="false"), preemption={"enabled": enabled}
        )
    )
    tree.enter(AddPriorityClass("high", 10, preempts=True))
    tree.add_nodes("n", vcore=4)
    tree.add_app("q", "root.b")
    tree.settle(wish("q", "y", 20, vcore=4))
    tree.add_app("p", "root.a")
    return tree


def test_the_delay_of_one_that_may_reclaim() -> None:
    tree = make_tree(owed())
    tree.pass_time(5 * SECOND_US)
    tree.settle(wish("p"))

    assert codes(tree) == [Code.NO_NODE_FITS, Code.PREEMPTION_DELAY]
    assert (
        message_of(tree, Code.PREEMPTION_DELAY)
        == "in 10 s it may reclaim what root.a is guaranteed"
    )
    assert message_of(tree, Code.PREEMPTION_DELAY, at_us=12_500_000).startswith("in 2.5 s it may")
    assert facts(tree, Code.PREEMPTION_DELAY) == {
        "claimant": "root.a",
        "preempts": False,
        "left_us": 10 * SECOND_US,
    }


def test_the_delay_of_one_that_may_preempt() -> None:
    tree = make_tree(share("a", preemption_delay="10s"))
    tree.settle(urgent("p"), wish("p", "z", 10))

    assert (
        message_of(tree, Code.PREEMPTION_DELAY) == "in 10 s it may preempt asks of lower priority"
    )
    assert Code.PREEMPTION_DELAY not in codes(tree, "p/z")


def test_no_plan_once_the_delay_is_over() -> None:
    tree = make_tree(owed())
    tree.settle(wish("p"), urgent("p", "z"))
    tree.pass_time(10 * SECOND_US + 1)

    assert codes(tree, "p/z") == [Code.NO_NODE_FITS, Code.RECLAIM_INSUFFICIENT]
    assert message_of(tree, Code.RECLAIM_INSUFFICIENT, "p/z") == (
        "it may reclaim what root.a is guaranteed and preempt asks of lower priority, "
        "but no victims that may be taken make room for it"
    )
    assert facts(tree, Code.RECLAIM_INSUFFICIENT, "p/z") == {"claimant": "root.a", "preempts": True}
    assert facts(tree, Code.RECLAIM_INSUFFICIENT) == {"claimant": "root.a", "preempts": False}


def test_the_delay_ends_at_that_very_instant() -> None:
    tree = make_tree(owed())
    tree.settle(wish("p"))
    tree.pass_time(10 * SECOND_US - 1)
    assert Code.PREEMPTION_DELAY in codes(tree)
    tree.pass_time(10 * SECOND_US + 1)

    assert Code.RECLAIM_INSUFFICIENT in codes(tree)


def test_who_would_be_over_what_is_guaranteed_has_no_claim() -> None:
    tree = make_tree(owed("0s"))
    tree.settle(wish("p", vcore=5), wish("p", "z", gpu=1))

    eviction_reason = {Code.PREEMPTION_DELAY, Code.RECLAIM_INSUFFICIENT}
    assert not eviction_reason & {*codes(tree), *codes(tree, "p/z")}


@pytest.mark.parametrize("enabled", [True, False])
def test_who_may_not_take_anything(*, enabled: bool) -> None:
    policy = "disabled" if enabled else "default"
    tree = make_tree(owed("0s", policy), enabled=enabled)
    tree.settle(urgent("p"))

    assert codes(tree) == [Code.NO_NODE_FITS]


def test_only_the_first_of_a_blocking_leaf_is_looked_at() -> None:
    tree = make_tree({**owed("0s"), "properties": {**BLOCKING, **props(preemption_delay="0s")}})
    tree.settle(wish("p"), wish("p", "z"))

    assert codes(tree) == [Code.NO_NODE_FITS, Code.RECLAIM_INSUFFICIENT]
    assert codes(tree, "p/z") == [Code.BLOCKED, Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]


def test_overused_queues_are_looked_at() -> None:
    limited = share(
        "a", guaranteed={"vcore": 4}, most={"vcore": 4, "gpu": 1}, preemption_delay="0s"
    )
    tree = make_tree(limited)
    tree.add_nodes("m", gpu=2)
    tree.settle(wish("p", "y", gpu=1), wish("p", vcore=1, gpu=1))

    assert codes(tree) == [
        Code.NEVER_FITS,
        Code.QUEUE_MAX,
        Code.NO_NODE_FITS,
        Code.RECLAIM_INSUFFICIENT,
    ]


def test_members_take_for_their_whole_group_or_not_at_all() -> None:
    tree = make_tree(owed("0s"))
    tree.settle(gang("g", 2, "h"), gang("h", 1), members("g", "x", 2))
    assert codes(tree, "p/x-0") == [Code.GANG_CYCLE_INVALID, Code.NO_NODE_FITS]
    tree.settle(members("h", "z"))

    assert Code.RECLAIM_INSUFFICIENT in codes(tree, "p/x-0")


def test_a_refused_member_takes_nothing() -> None:
    tree = make_tree(owed("0s"))
    tree.settle(gang("g", 2), members("g", "x"))

    assert codes(tree) == [Code.GANG_TOO_FEW_MEMBERS, Code.NO_NODE_FITS]


def test_a_surplus_member_takes_nothing() -> None:
    tree = make_tree(owed("0s"))
    tree.add_nodes("m", vcore=1)
    tree.settle(gang("g", 1, "h", mode=LOOSE), gang("h", 1, mode=LOOSE))
    tree.settle(members("g", "x", 2), members("h", "z", vcore=2))

    assert codes(tree, "p/x-0") == [Code.PERMIT_WAITING]
    assert codes(tree, "p/x-1") == [Code.GANG_SURPLUS, Code.NO_NODE_FITS]
    assert Code.RECLAIM_INSUFFICIENT in codes(tree, "p/z")


def test_an_application_without_a_turn_takes_nothing() -> None:
    tree = make_tree({**owed("0s"), "maxapplications": "1"})
    tree.add_app("r", "root.a")
    tree.add_nodes("m", vcore=1)
    tree.settle(wish("r"))
    tree.settle(wish("p"))

    assert codes(tree) == [Code.QUEUE_MAX_APPS, Code.NO_NODE_FITS]


# Notes


def test_a_queue_that_drains() -> None:
    tree = make_tree(share("c", share("d")))
    tree.add_app("r", "root.c.d")
    tree.settle(wish("r"))
    tree.settle(Configure(configuration(share("b"))))

    assert codes(tree, "r/x") == [Code.NO_NODE_FITS, Code.DRAINING]
    assert message_of(tree, Code.DRAINING, "r/x") == (
        "root.c is draining: it takes no new application; what is there is served"
    )
    assert facts(tree, Code.DRAINING, "r/x") == {"queue": "root.c"}
    assert explain(tree, "r/x").queue == "root.c.d"


def with_kept_node() -> Contest:
    """Return a tree in which ``a/s`` keeps ``n``, of which one core of two is free."""
    tree = contest(service_leaf(), share("b"), n=2)
    tree.tell(ask_of_b("x", priority=9), ask_of_b("y", priority=9))
    tree.tell(service(vcore=2))
    tree.tell(Release("b", "y"))
    return tree


def test_who_keeps_the_node() -> None:
    tree = with_kept_node()
    tree.tell(ask_of_b("z"))

    assert why(tree, "b/z") == (
        "NodeKept: it would fit on n, which node service a/s keeps until it has room"
    )
    assert facts(tree, Code.NODE_KEPT, "b/z") == {"node": "n", "keeper": "a/s"}
    assert message_of(tree, Code.NO_NODE_FITS, "b/z") == "of 1 node 1 is kept for a node service"
    assert facts(tree, Code.NO_NODE_FITS, "b/z")["kept"] == 1


def test_a_kept_node_without_room_is_no_reason_of_its_own() -> None:
    tree = with_kept_node()
    tree.tell(ask_of_b("z", 2))

    assert Code.NODE_KEPT not in codes(tree, "b/z")
    assert message_of(tree, Code.NO_NODE_FITS, "b/z") == "of 1 node 1 is kept for a node service"


def test_what_is_free_on_a_kept_node_is_no_fragment() -> None:
    tree = with_kept_node()
    tree.tell(AddNode("m", Resources({"vcore": 1})), ask_of_b("z", 2))

    assert Code.FRAGMENTED not in codes(tree, "b/z")


def test_what_a_node_service_lacks() -> None:
    tree = with_kept_node()

    assert codes(tree, "a/s")[:2] == [Code.NO_NODE_FITS, Code.RECLAIM_INSUFFICIENT]
    assert message_of(tree, Code.NO_NODE_FITS, "a/s") == (
        "of 1 node 1 has too little vcore; n is the closest and lacks 1m vcore"
    )
    assert message_of(tree, Code.RECLAIM_INSUFFICIENT, "a/s") == (
        "it may take room on n as a node service, but no victims that may be taken make room for it"
    )


def test_a_group_has_no_room_on_a_kept_node() -> None:
    tree = with_kept_node()
    tree.tell(gang("g", 2), members("g", "m", 2, app="b", vcore=1))

    assert message_of(tree, Code.GANG_CYCLE_INVALID, "b/m-0").startswith(
        "the Strict group of gang default/g gave up: 2 members of 1m vcore are needed and "
        "nodes have room for 0"
    )


def test_one_that_may_reclaim_too() -> None:
    leaf = share(
        "a",
        guaranteed={"vcore": 2},
        preemption_delay="0s",
        preemption_required_node="enabled",
    )
    tree = contest(leaf, share("b", preemption_policy="disabled"), n=2)
    tree.tell(ask_of_b("x", 2, priority=9))
    tree.tell(service(vcore=2))

    assert message_of(tree, Code.RECLAIM_INSUFFICIENT, "a/s") == (
        "it may reclaim what root.a is guaranteed and take room on n as a node service, but no "
        "victims that may be taken make room for it"
    )


def explained(site: Site, ask: str) -> Explanation:
    app, _, name = ask.partition("/")
    found = site.scheduler.machine.explain(app, name)
    assert found is not None
    return found


def test_whom_it_would_delay_and_until_when() -> None:
    # BACKFILL-28
    site = Site(4, 4)
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, 20, node="n2"))
    site.tell(gang_of(2), job("m", 4, gang="default/g", count=2), job("small", 1, 30))
    why = explained(site, "a/small").dominant

    assert str(why) == (
        "HeldBack: it fits on n1 and is held back: it would delay the reservation of a/m-0 and 1 "
        "other member on n1 and 1 other node, which starts at 20 s"
    )
    assert why.facts == {
        "node": "n1",
        "delays": "a/m-0",
        "reserved": "n1",
        "start_us": 20_000_000,
    }


def test_a_start_that_is_not_known() -> None:
    # BACKFILL-28
    site = Site(4)
    site.tell(job("w", 3), job("large", 4), job("small", 1))

    assert str(explained(site, "a/small").dominant).endswith("starts with an end that is not known")


def test_of_a_strict_gang_the_member_that_was_held_back() -> None:
    # BACKFILL-28
    site = Site(4)
    site.tell(job("w", 2, 10), job("large", 4), gang_of(1), job("m", 1, gang="default/g"))

    assert "m (1 vcore) was held back" in str(explained(site, "a/m").dominant)
    assert Code.HELD_BACK in [reason.code for reason in explained(site, "a/m").reasons]


def test_what_blocks_a_strict_scope() -> None:
    # BACKFILL-4
    site = Site(4, properties={"scheduling.order": "strict"})
    site.tell(job("large", 5, priority=1), job("small", 1), job("other", 1, app="b"))

    for ask in ("a/small", "b/other"):
        assert str(explained(site, ask).dominant) == (
            "Blocked: root keeps strict order, and a/large is before it and not placed"
        )
        app, _, name = ask.partition("/")
        view = site.scheduler.machine.view
        assert view.explainer.dominant(site.app(app), name, 0) is Code.BLOCKED


def test_who_has_no_turn_is_behind_what_blocks_a_strict_scope() -> None:
    # BACKFILL-4, LIMIT-10
    limit = {"limit": "", "users": ["u"], "maxresources": {"vcore": "1m"}}
    strict = {"scheduling.order": "strict"}
    scope = queue(
        "s",
        queue("b", maxapplications=1),
        queue("c", maxapplications=1),
        maxapplications=1,
        properties=strict,
        limits=[limit],
    )
    tree = Tree(configuration(scope))
    tree.add_nodes("n", vcore=4)
    tree.settle(AddApp("runs", "root.s.b"), wish("runs", vcore=4), wish("runs", "y", vcore=4))
    tree.settle(AddApp("waits", "root.s.c", user="u"), wish("waits", vcore=4))

    assert codes(tree, "waits/x") == [
        *(Code.USER_LIMIT, Code.QUEUE_MAX_APPS, Code.BLOCKED, Code.NO_NODE_FITS)
    ]


def reserved(site: Site, ask: str) -> Reserved | None:
    app, _, name = ask.partition("/")
    explanation = site.scheduler.explain_fully(app, name)
    found = None if explanation is None else explanation.outlook
    assert found is not None
    return found.reserved


def test_the_asks_that_end_at_the_start_on_its_nodes() -> None:
    # OUTLOOK-6
    site = Site(4, 4)
    site.tell(job("w", 2, 10, node="n1"), job("x", 1, 10, node="n1"), job("y", 1, 5, node="n1"))
    site.tell(job("elsewhere", 4, 10, node="n2"), job("large", 4, 10, node="n1"), job("no", 9))

    ends = ("a/w", "n1"), ("a/x", "n1")
    assert reserved(site, "a/large") == Reserved("root", 10 * S, (("a/large", "n1"),), ends)
    assert reserved(site, "a/no") is None


def test_of_an_unknown_start_all_whose_end_is_not_known() -> None:
    # OUTLOOK-6
    site = Site(4, 4)
    site.tell(job("w", 2, node="n2"), job("y", 1, 5, node="n1"), job("x", 1, 5, node="n2"))
    site.tell(job("last", 1, node="n2"), gang_of(2), job("m", 4, gang="default/g", count=2))

    found = reserved(site, "a/m-0")
    assert found is not None
    assert found.start_us is None
    assert found.places == (("a/m-0", "n1"), ("a/m-1", "n2"))
    assert found.waits_for == (("a/w", "n2"), ("a/last", "n2"))


def test_an_ask_that_ends_elsewhere_and_leaves_a_quota() -> None:
    # OUTLOOK-6
    site = Site(4, 4, most=6)
    site.tell(job("w", 4, 10, node="n2"), job("next", 4, 10, node="n1"))
    site.tell(job("fits the quota", 1, node="n2"))

    assert reserved(site, "a/next") == Reserved(
        "root", 10 * S, (("a/next", "n1"),), (("a/w", "n2"),)
    )


def test_a_member_that_its_gang_does_not_need() -> None:
    # OUTLOOK-6
    site = Site(4)
    site.tell(job("w", 4, 10), gang_of(1), job("m", 4, gang="default/g", count=2))

    found = reserved(site, "a/m-1")
    assert found is not None
    assert found.places == (("a/m-0", "n1"),)


def test_the_reason_of_a_strict_gang_names_its_reservation() -> None:
    # OUTLOOK-6
    site = Site(*(4,) * 6)
    site.tell(*(job(f"w{n}", 3, 10 * n, node=f"n{n}") for n in range(1, 7)))
    site.tell(gang_of(6), job("m", 4, gang="default/g", count=6))
    why = explained(site, "a/m-0").dominant

    assert why.code is Code.GANG_CYCLE_INVALID
    assert why.message.endswith(
        "; n1, n2, n3 and 3 other nodes are reserved for it from 60 s, when a/w6 on n6 is expected "
        "to end"
    )
    assert why.facts["reserved"] == ("n1", "n2", "n3", "n4", "n5", "n6")
    assert (why.facts["start_us"], why.facts["waits_for"]) == (60 * S, ("a/w6",))


def test_what_a_strict_gang_lacks_in_all() -> None:
    # REASON-2
    site = Site(8, 8, 8, 8, properties={})
    site.tell(*(job(f"w{n}", 6, node=f"n{n}") for n in range(1, 5)))
    site.tell(gang_of(3), job("m", 8, gang="default/g", count=2), job("half", 4, gang="default/g"))
    fragmented = [one for one in explained(site, "a/m-0").reasons if one.code is Code.FRAGMENTED]

    (found,) = fragmented
    assert found.message == (
        "it asks for 8 vcore; 8 vcore are free on 4 nodes in all, but not on one; the 3 members "
        "that its group lacks ask for 20 vcore in all"
    )
    assert found.facts["lacks"] == {"vcore": 20_000}


def test_the_last_member_and_one_of_a_loose_gang_lack_nothing_else() -> None:
    # REASON-2
    site = Site(8, 8, properties={})
    site.tell(job("w", 4, node="n1"), job("x", 4, node="n2"))
    site.tell(gang_of(1), job("m", 8, gang="default/g"))
    site.tell(gang_of(2, name="default/h", loose=True), job("l", 8, gang="default/h", count=2))

    for ask in ("a/m", "a/l-0"):
        (found,) = [one for one in explained(site, ask).reasons if one.code is Code.FRAGMENTED]
        assert found.message.endswith("but not on one")
        assert "lacks" not in found.facts
