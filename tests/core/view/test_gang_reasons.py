"""Why a member of a gang is not running, its topology included."""

from __future__ import annotations

from muster_core.events import AddNode, FailBind, RemoveGang, UpdateNode
from muster_core.gangs import GangMode
from muster_core.reasons import Code
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from tests.core.admission.objects import LOOSE, gang, members, tree_with_app
from tests.core.building import configuration, queue, wish
from tests.core.tree import BLOCKING, Tree, codes, explain, facts, make_tree, message_of, why
from tests.core.view.sites import AT_MOST_ONE, SAME, cluster, gang_within, racked

S = 1_000_000


def limited(most: str) -> Tree:
    """Return a tree with two nodes, and an application in a queue with this ``max``."""
    small = queue("a", resources={"max": {"vcore": most}})
    tree = make_tree("n", "m", config=configuration(small, queue("b")))
    tree.add_app("p")
    tree.add_app("q", "root.b")
    tree.settle()
    return tree


# PermitWaiting, GangTimedOut


def test_a_waiting_member_waits_for_the_rest_of_its_group() -> None:
    tree = tree_with_app(vcore=3)
    tree.settle(gang("g", 5, "h", mode=LOOSE, wait_us=60 * S), members("g", "x", 5))

    explanation = explain(tree, "p/x-0", 18 * S)
    assert explanation.place is AskPlace.WAITING
    assert [reason.code for reason in explanation.reasons] == [Code.PERMIT_WAITING]
    assert str(explanation) == (
        "PermitWaiting: 3 of 5 members hold nodes, 42 s left; the group waits for "
        "2 more of default/g, default/h, which is not defined"
    )
    assert dict(explanation.dominant.facts) == {
        "gang": "default/g",
        "held": 3,
        "min_member": 5,
        "lacking": {"default/g": 2, "default/h": -1},
        "left_us": 42 * S,
    }
    assert explanation.levels == ()


def test_a_group_waits_until_the_first_of_its_gangs_times_out() -> None:
    tree = tree_with_app(vcore=2)
    tree.settle(
        gang("g", 2, "h", mode=LOOSE, wait_us=60 * S),
        gang("h", 2, mode=LOOSE, wait_us=10 * S),
        members("g", "x", 1),
        members("g", "wide", 1, vcore=5),
        members("h", "y", 1),
        members("h", "broad", 1, vcore=5),
    )

    assert "1 of 2 members hold nodes, 7 s left, until default/h times out;" in why(
        tree, "p/x-0", 3 * S
    )
    assert facts(tree, Code.PERMIT_WAITING, "p/x-0")["left_us"] == 10 * S
    assert "1 of 2 members hold nodes, 7 s left; " in why(tree, "p/y-0", 3 * S)


def test_what_a_gang_does_not_say_about_its_wait_the_configuration_says() -> None:
    tree = make_tree(
        "n", config=configuration(queue("a"), props={"gang.wait.time": "90s"}), vcore=1
    )
    tree.add_app("p")
    tree.settle(gang("g", 2, mode=LOOSE), members("g", "x", 2))

    assert why(tree, "p/x-0") == (
        "PermitWaiting: 1 of 2 members hold nodes, 90 s left; "
        "the group waits for 1 more of default/g"
    )
    assert ", 0.5 s left;" in why(tree, "p/x-0", 89_500_000)


def test_members_of_a_gang_that_is_gone_are_pending_in_a_placeholder() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(gang("g", 2, mode=LOOSE), members("g", "x", 2))
    tree.settle(RemoveGang("default/g"))

    assert codes(tree, "p/x-0") == [Code.GANG_UNDEFINED]


def test_a_parked_member() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(gang("g", 2, mode=LOOSE, wait_us=S), members("g", "x", 2))
    tree.pass_time(S + 1)

    explanation = explain(tree, "p/x-1")
    assert explanation.place is AskPlace.PARKED
    assert [str(reason) for reason in explanation.reasons] == [
        (
            "GangTimedOut: gang default/g has timed out; "
            "its members are tried again once it is removed and defined anew"
        )
    ]
    assert explanation.first is None


# What PreFilter says


def test_a_member_whose_gang_is_not_defined() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(members("g", "x", vcore=2))

    assert codes(tree) == [Code.GANG_UNDEFINED, Code.NEVER_FITS, Code.NO_NODE_FITS]
    assert why(tree) == (
        "GangUndefined: gang default/g is not defined: nothing says how many members it needs"
    )


def test_a_gang_with_too_few_members() -> None:
    tree = tree_with_app()
    tree.settle(gang("g", 3), members("g", "x"))

    assert codes(tree) == [Code.GANG_TOO_FEW_MEMBERS]
    assert why(tree) == "GangTooFewMembers: gang default/g has 1 member, and needs 3"
    assert facts(tree, Code.GANG_TOO_FEW_MEMBERS) == {
        "gang": "default/g",
        "min_member": 3,
        "members": 1,
    }


def test_a_surplus_member() -> None:
    tree = tree_with_app()
    tree.settle(gang("g", 1, "h"), gang("h", 2), members("g", "x", 2), members("h", "y"))

    assert codes(tree, "p/x-1") == [Code.GANG_SURPLUS]
    assert why(tree, "p/x-1") == (
        "GangSurplus: gang default/g holds 1 node and needs 1, but the group waits for "
        "2 more of default/h"
    )
    assert codes(tree, "p/y") == [Code.GANG_TOO_FEW_MEMBERS]


def test_a_member_of_a_satisfied_gang_is_a_plain_ask() -> None:
    tree = tree_with_app(vcore=2)
    tree.settle(gang("g", 2), members("g", "x", 3))

    assert codes(tree, "p/x-2") == [Code.NO_NODE_FITS]


def test_a_member_of_a_satisfied_gang_in_a_group_that_gave_up_is_a_plain_ask() -> None:
    tree = tree_with_app(vcore=3)
    tree.settle(gang("g", 1), members("g", "x"))
    tree.settle(gang("h", 3, "g"), members("h", "y", 3), members("g", "z", priority=1, vcore=3))

    assert not tree.snapshot().gangs["default/g"].cycle_valid
    assert Code.GANG_CYCLE_INVALID in codes(tree, "p/y-0")
    assert codes(tree, "p/z") == [Code.NO_NODE_FITS]


def test_what_prefilter_refuses_has_no_turn() -> None:
    tree = tree_with_app()
    tree.settle(gang("g", 2), members("g", "x"), wish("p", "y", -1, vcore=11))

    assert Code.NOT_YOUR_TURN not in codes(tree)
    assert explain(tree).first == "p/y"
    assert explain(tree).levels == ()


# GangCycleInvalid


def test_the_member_that_fitted_no_node_beside_others() -> None:
    tree = tree_with_app("n", "m", vcore=2)
    tree.settle(gang("g", 3), members("g", "x", 2, vcore=1), members("g", "y", vcore=2))

    for ask in ("p/x-0", "p/y"):
        assert why(tree, ask) == (
            "GangCycleInvalid: the Strict group of gang default/g gave up: no node had room for "
            "p/y (2m vcore) while 2 members held nodes"
        )
    assert codes(tree, "p/x-1") == [Code.GANG_CYCLE_INVALID, Code.NOT_YOUR_TURN]
    assert facts(tree, Code.GANG_CYCLE_INVALID, "p/y") == {
        "gang": "default/g",
        "failed": "p/y",
        "held": 2,
        "queue": None,
    }


def test_the_first_of_equal_members_for_which_nodes_have_no_room() -> None:
    tree = tree_with_app("n", "m", vcore=2)
    tree.settle(gang("g", 4), members("g", "x", 4, vcore=2))

    assert why(tree, "p/x-0") == (
        "GangCycleInvalid: the Strict group of gang default/g gave up: 4 members of 2m vcore "
        "are needed and nodes have room for 2: p/x-2 is the first that fits nowhere"
    )
    assert facts(tree, Code.GANG_CYCLE_INVALID, "p/x-0") == {
        "gang": "default/g",
        "failed": "p/x-2",
        "needed": 4,
        "room": 2,
    }
    tree.snapshot()  # This sends the cycle to the owners.
    assert codes(tree, "p/x-0") == [Code.GANG_CYCLE_INVALID]


def test_members_for_which_a_queue_has_no_room() -> None:
    tree = limited("5m")
    tree.settle(wish("q", "y", vcore=8), wish("q", "z", vcore=6))
    tree.settle(gang("g", 3), members("g", "x", 3, vcore=2))

    # Of nodes there are just enough.
    assert why(tree, "p/x-2") == (
        "GangCycleInvalid: the Strict group of gang default/g gave up: all that it needs is "
        "1m vcore over the max of root.a: p/x-2 is the first that fits nowhere"
    )
    assert facts(tree, Code.GANG_CYCLE_INVALID, "p/x-2") == {
        "gang": "default/g",
        "failed": "p/x-2",
        "queue": "root.a",
        "lacks": {"vcore": 1},
    }


def test_a_member_over_the_max_of_its_queue_beside_others() -> None:
    tree = limited("5m")
    tree.settle(gang("g", 3), members("g", "x", vcore=1), members("g", "y", vcore=2))
    assert codes(tree) == [Code.GANG_TOO_FEW_MEMBERS]
    tree.settle(members("g", "z", app="q", priority=-1), members("g", "w", vcore=3))

    # Three of the four are needed, and these in their order.
    assert message_of(tree, Code.GANG_CYCLE_INVALID, "p/x") == (
        "the Strict group of gang default/g gave up: p/w (3m vcore) "
        "was over the max of root.a while 2 members held nodes"
    )


def test_a_member_behind_another_in_a_blocking_leaf() -> None:
    tree = make_tree(
        "n", config=configuration(queue("a", properties=BLOCKING), queue("b")), vcore=2
    )
    tree.add_app("p")
    tree.add_app("q", "root.b")
    tree.settle(wish("p", "wide", 5, vcore=3), gang("g", 2))
    tree.settle(members("g", "x", app="q"), members("g", "x"))

    assert message_of(tree, Code.GANG_CYCLE_INVALID) == (
        "the Strict group of gang default/g gave up: an ask before p/x in root.a was not placed"
    )
    assert codes(tree, "q/x") == [Code.GANG_CYCLE_INVALID, Code.NOT_YOUR_TURN]


def test_a_group_of_several_gangs_that_does_not_fit() -> None:
    tree = tree_with_app(vcore=2)
    tree.settle(gang("g", 1, "h"), gang("h", 2))
    tree.settle(members("g", "x"), members("h", "y", 2))

    assert message_of(tree, Code.GANG_CYCLE_INVALID) == (
        "the Strict group of gang default/g gave up: 3 members of 1m vcore are needed "
        "and nodes have room for 2"
    )


def test_one_strict_gang_makes_the_group_strict() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(gang("g", 1, "h", mode=LOOSE), gang("h", 1, mode=GangMode.STRICT))
    tree.settle(members("g", "x"), members("h", "y"))

    assert Code.GANG_CYCLE_INVALID in codes(tree)


def test_a_loose_gang_has_no_cycle() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(gang("g", 2, mode=LOOSE), members("g", "x", 2))

    assert codes(tree, "p/x-1") == [Code.NO_NODE_FITS]


def test_a_cycle_is_invalid_until_there_is_room() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(gang("g", 2), members("g", "x", 2))
    assert Code.GANG_CYCLE_INVALID in codes(tree, "p/x-1")
    tree.settle(AddNode("k", Resources({"vcore": 1})), wish("p", "y", -1))

    assert codes(tree, "p/y") == [Code.NO_NODE_FITS]


def test_a_cycle_is_not_invalid_of_members_that_were_not_tried() -> None:
    tree = limited("1m")
    tree.settle(wish("p", "y", 9), gang("g", 2), members("g", "x", 2))

    # Its queue is overused and is not entered.
    assert codes(tree, "p/x-0") == [Code.QUEUE_MAX]


# BindFailed


def test_a_member_whose_bind_failed() -> None:
    tree = tree_with_app(vcore=2)
    tree.settle(gang("g", 2), members("g", "x", 2), wish("p", "y", -1), FailBind("p", "x-0"))

    # The gang is satisfied, and another ask has the place.
    assert codes(tree, "p/x-0") == [Code.BIND_FAILED, Code.NO_NODE_FITS]
    assert facts(tree, Code.BIND_FAILED, "p/x-0") == {"node": "n"}


def test_a_failed_bind_is_over_when_the_member_waits_again() -> None:
    tree = tree_with_app(vcore=1)
    tree.settle(gang("g", 1), members("g", "x"), FailBind("p", "x"), wish("p", "y", -1))
    # The gang is as if it had never been satisfied.
    assert codes(tree) == [Code.GANG_CYCLE_INVALID, Code.BIND_FAILED, Code.NO_NODE_FITS]
    tree.settle(
        RemoveGang("default/g"),
        gang("g", 2, mode=LOOSE),
        members("g", "z"),
        AddNode("k", Resources({"vcore": 1})),
    )
    assert codes(tree) == [Code.PERMIT_WAITING]
    tree.settle(RemoveGang("default/g"))

    assert codes(tree) == [Code.GANG_UNDEFINED]


G = {"gang": "default/g", "attribute": "rack"}


def test_no_domain_has_room_for_all() -> None:
    tree = cluster(racked("a", 1, "x"), racked("b", 2, "y"), racked("c", 9))
    tree.settle(gang_within(SAME, 3), members("g", "m", 3, vcore=1))

    assert why(tree, "p/m-0") == (
        "Topology: gang default/g has the topology same: rack, and no rack has room for the 3 "
        "members that it needs together: there is room in x for 1, y for 2"
    )
    assert facts(tree, Code.TOPOLOGY, "p/m-0") == {
        **G,
        "rule": "same",
        "needed": 3,
        "room": {"x": 1, "y": 2},
    }


def test_the_domain_of_the_others_has_no_room() -> None:
    tree = cluster(racked("a", 1, "x"), racked("b", 1, "y"))
    tree.settle(gang_within(SAME, 1), members("g", "m", 2, vcore=1))

    assert message_of(tree, Code.TOPOLOGY, "p/m-1") == (
        "gang default/g has the topology same: rack, and its members are in rack x, where of 1 node "
        "1 has too little vcore; a is the closest and lacks 1m vcore"
    )
    assert facts(tree, Code.TOPOLOGY, "p/m-1") == {**G, "rule": "same", "domain": "x"}
    assert Code.NO_NODE_FITS not in codes(tree, "p/m-1")


def test_what_domains_hold() -> None:
    tree = cluster(racked("a", 1, "x"), racked("b", 1, "y"), racked("c", 1))
    tree.settle(gang_within(AT_MOST_ONE, 1), members("g", "m", 1, vcore=1))
    tree.settle(UpdateNode("b", schedulable=False), members("g", "n", 1, vcore=1))

    assert message_of(tree, Code.TOPOLOGY, "p/n-0") == (
        "gang default/g has the topology spread: rack, max: 1, and no rack takes one more: x holds "
        "1 member (as many as it may), y holds 0 members (of 1 node 1 is not schedulable)"
    )
    assert facts(tree, Code.TOPOLOGY, "p/n-0") == {**G, "rule": "spread", "members": {"x": 1}}


def test_no_node_has_the_attribute() -> None:
    tree = cluster(racked("a", 1))
    tree.settle(gang_within(SAME, 1), members("g", "m", 1, vcore=1))

    assert message_of(tree, Code.TOPOLOGY, "p/m-0").endswith("and no node has the attribute rack")


def test_a_single_member_that_has_room_only_outside_of_domains() -> None:
    tree = cluster(racked("a", 2), racked("b", 1, "x"))
    tree.settle(gang_within(SAME, 1), members("g", "m", 1, vcore=2))

    assert message_of(tree, Code.TOPOLOGY, "p/m-0").endswith(
        "no rack has room for it: only nodes without the attribute have"
    )


def test_many_domains_are_not_all_named() -> None:
    tree = cluster(*(racked(f"n{at:02}", 1, f"r{at:02}") for at in range(11)))
    tree.settle(gang_within(SAME, 2), members("g", "m", 2, vcore=1))

    assert message_of(tree, Code.TOPOLOGY, "p/m-0").endswith("r06 for 1, r07 for 1, 3 more")


def test_without_room_on_any_node_the_topology_is_no_reason() -> None:
    tree = cluster(racked("a", 1, "x"))
    tree.settle(gang_within(SAME, 2), members("g", "m", 2, vcore=2))

    assert Code.TOPOLOGY not in codes(tree, "p/m-0")


def test_a_strict_group_that_lacks_room_anyway_names_no_member() -> None:
    tree = cluster(racked("a", 2))
    tree.settle(gang_within(AT_MOST_ONE, 3, mode=GangMode.STRICT), members("g", "m", 3, vcore=1))

    assert facts(tree, Code.GANG_CYCLE_INVALID, "p/m-0") == {
        "gang": "default/g",
        "needed": 3,
        "room": 2,
    }


def test_a_strict_group_says_that_the_topology_was_it() -> None:
    tree = cluster(racked("a", 1, "x"), racked("b", 1, "y"))
    tree.settle(gang_within(SAME, 2, mode=GangMode.STRICT), members("g", "m", 2, vcore=1))

    assert codes(tree, "p/m-0") == [Code.GANG_CYCLE_INVALID, Code.TOPOLOGY]
    assert message_of(tree, Code.GANG_CYCLE_INVALID, "p/m-0") == (
        "the Strict group of gang default/g gave up: no node that the topology "
        "same: rack lets it take had room for p/m-0 (1m vcore)"
    )
