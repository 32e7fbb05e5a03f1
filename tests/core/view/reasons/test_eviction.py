"""What reclaim and preemption have to do with it that an ask is not running."""

from __future__ import annotations

import pytest

from muster_core.events import AddPriorityClass, Configure
from muster_core.reasons import Code
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, configuration, wish
from tests.core.tree import Tree
from tests.core.view.eviction.contest import share, share_of, urgent
from tests.core.view.helpers import BLOCKING, props
from tests.core.view.reasons.why import codes, explain, facts, said

S = 1_000_000


def owed(delay: str = "10s", policy: str = "default") -> Queue:
    properties = {"preemption_delay": delay, "preemption_policy": policy}
    return share_of("a", properties, guaranteed={"vcore": 4})


def tree(*queues: Queue, enabled: bool = True) -> Tree:
    """Give a tree of one node that an application in ``root.b`` has."""
    made = Tree(
        configuration(
            *queues, share("b", queue_reclaimable="false"), preemption={"enabled": enabled}
        )
    )
    made.enter(AddPriorityClass("high", 10, preempts=True))
    made.add_nodes("n", vcore=4)
    made.add_app("q", "root.b")
    made.settle(wish("q", "y", 20, vcore=4))
    made.add_app("p", "root.a")
    return made


def test_the_delay_of_one_that_may_reclaim() -> None:
    made = tree(owed())
    made.pass_time(5 * S)
    made.settle(wish("p"))

    assert codes(made) == [Code.NO_NODE_FITS, Code.PREEMPTION_DELAY]
    assert said(made, Code.PREEMPTION_DELAY) == "in 10 s it may reclaim what root.a is guaranteed"
    assert said(made, Code.PREEMPTION_DELAY, at_us=12_500_000).startswith("in 2.5 s it may")
    assert facts(made, Code.PREEMPTION_DELAY) == {
        "claimant": "root.a",
        "preempts": False,
        "left_us": 10 * S,
    }


def test_the_delay_of_one_that_may_preempt() -> None:
    made = tree(share("a", preemption_delay="10s"))
    made.settle(urgent("p"), wish("p", "z", 10))

    assert said(made, Code.PREEMPTION_DELAY) == "in 10 s it may preempt asks of lower priority"
    assert Code.PREEMPTION_DELAY not in codes(made, "p/z")


def test_no_plan_once_the_delay_is_over() -> None:
    made = tree(owed())
    made.settle(wish("p"), urgent("p", "z"))
    made.pass_time(10 * S + 1)

    assert codes(made, "p/z") == [Code.NO_NODE_FITS, Code.RECLAIM_INSUFFICIENT]
    assert said(made, Code.RECLAIM_INSUFFICIENT, "p/z") == (
        "it may reclaim what root.a is guaranteed and preempt asks of lower priority, "
        "but no victims that may be taken make room for it"
    )
    assert facts(made, Code.RECLAIM_INSUFFICIENT, "p/z") == {"claimant": "root.a", "preempts": True}
    assert facts(made, Code.RECLAIM_INSUFFICIENT) == {"claimant": "root.a", "preempts": False}


def test_the_delay_ends_at_that_very_instant() -> None:
    made = tree(owed())
    made.settle(wish("p"))
    made.pass_time(10 * S - 1)
    assert Code.PREEMPTION_DELAY in codes(made)
    made.pass_time(10 * S + 1)

    assert Code.RECLAIM_INSUFFICIENT in codes(made)


def test_who_would_be_over_what_is_guaranteed_has_no_claim() -> None:
    made = tree(owed("0s"))
    made.settle(wish("p", vcore=5), wish("p", "z", gpu=1))

    eviction_reason = {Code.PREEMPTION_DELAY, Code.RECLAIM_INSUFFICIENT}
    assert not eviction_reason & {*codes(made), *codes(made, "p/z")}


@pytest.mark.parametrize("enabled", [True, False])
def test_who_may_not_take_anything(*, enabled: bool) -> None:
    policy = "disabled" if enabled else "default"
    made = tree(owed("0s", policy), enabled=enabled)
    made.settle(urgent("p"))

    assert codes(made) == [Code.NO_NODE_FITS]


def test_only_the_first_of_a_blocking_leaf_is_looked_at() -> None:
    made = tree({**owed("0s"), "properties": {**BLOCKING, **props(preemption_delay="0s")}})
    made.settle(wish("p"), wish("p", "z"))

    assert codes(made) == [Code.NO_NODE_FITS, Code.RECLAIM_INSUFFICIENT]
    assert codes(made, "p/z") == [Code.BLOCKED, Code.NO_NODE_FITS, Code.NOT_YOUR_TURN]


def test_overused_queues_are_looked_at() -> None:
    limited = share(
        "a", guaranteed={"vcore": 4}, most={"vcore": 4, "gpu": 1}, preemption_delay="0s"
    )
    made = tree(limited)
    made.add_nodes("m", gpu=2)
    made.settle(wish("p", "y", gpu=1), wish("p", vcore=1, gpu=1))

    assert codes(made) == [
        Code.NEVER_FITS,
        Code.QUEUE_MAX,
        Code.NO_NODE_FITS,
        Code.RECLAIM_INSUFFICIENT,
    ]


def test_members_take_for_their_whole_group_or_not_at_all() -> None:
    made = tree(owed("0s"))
    made.settle(gang("g", 2, "h"), gang("h", 1), members("g", "x", 2))
    assert codes(made, "p/x-0") == [Code.GANG_CYCLE_INVALID, Code.NO_NODE_FITS]
    made.settle(members("h", "z"))

    assert Code.RECLAIM_INSUFFICIENT in codes(made, "p/x-0")


def test_a_refused_member_takes_nothing() -> None:
    made = tree(owed("0s"))
    made.settle(gang("g", 2), members("g", "x"))

    assert codes(made) == [Code.GANG_TOO_FEW_MEMBERS, Code.NO_NODE_FITS]


def test_a_surplus_member_takes_nothing() -> None:
    made = tree(owed("0s"))
    made.add_nodes("m", vcore=1)
    made.settle(gang("g", 1, "h", mode=LOOSE), gang("h", 1, mode=LOOSE))
    made.settle(members("g", "x", 2), members("h", "z", vcore=2))

    assert codes(made, "p/x-0") == [Code.PERMIT_WAITING]
    assert codes(made, "p/x-1") == [Code.GANG_SURPLUS, Code.NO_NODE_FITS]
    assert Code.RECLAIM_INSUFFICIENT in codes(made, "p/z")


def test_an_application_without_a_turn_takes_nothing() -> None:
    made = tree({**owed("0s"), "maxapplications": "1"})
    made.add_app("r", "root.a")
    made.add_nodes("m", vcore=1)
    made.settle(wish("r"))
    made.settle(wish("p"))

    assert codes(made) == [Code.QUEUE_MAX_APPS, Code.NO_NODE_FITS]


# Notes


def test_a_queue_that_drains() -> None:
    made = tree(share("c", share("d")))
    made.add_app("r", "root.c.d")
    made.settle(wish("r"))
    made.settle(Configure(configuration(share("b"))))

    assert codes(made, "r/x") == [Code.NO_NODE_FITS, Code.DRAINING]
    assert said(made, Code.DRAINING, "r/x") == (
        "root.c is draining: it takes no new application; what is there is served"
    )
    assert facts(made, Code.DRAINING, "r/x") == {"queue": "root.c"}
    assert explain(made, "r/x").queue == "root.c.d"
