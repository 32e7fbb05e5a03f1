"""Why the topology of its gang keeps an ask from the nodes that have room."""

from __future__ import annotations

from muster_core.events import UpdateNode
from muster_core.gangs import GangMode
from muster_core.reasons import Code
from tests.core.admission.objects import members
from tests.core.view.reasons.why import codes, facts, said, why
from tests.core.view.topology.racks import AT_MOST_ONE, SAME, cluster, gang, racked

G = {"gang": "default/g", "attribute": "rack"}


def test_no_domain_has_room_for_all() -> None:
    made = cluster(racked("a", 1, "x"), racked("b", 2, "y"), racked("c", 9))
    made.settle(gang(SAME, 3), members("g", "m", 3, vcore=1))

    assert why(made, "p/m-0") == (
        "Topology: gang default/g has the topology same: rack, and no rack has room for the 3 "
        "members that it needs together: there is room in x for 1, y for 2"
    )
    assert facts(made, Code.TOPOLOGY, "p/m-0") == {
        **G,
        "rule": "same",
        "needed": 3,
        "room": {"x": 1, "y": 2},
    }


def test_the_domain_of_the_others_has_no_room() -> None:
    made = cluster(racked("a", 1, "x"), racked("b", 1, "y"))
    made.settle(gang(SAME, 1), members("g", "m", 2, vcore=1))

    assert said(made, Code.TOPOLOGY, "p/m-1") == (
        "gang default/g has the topology same: rack, and its members are in rack x, where of 1 node "
        "1 has too little vcore; a is the closest and lacks 1m vcore"
    )
    assert facts(made, Code.TOPOLOGY, "p/m-1") == {**G, "rule": "same", "domain": "x"}
    assert Code.NO_NODE_FITS not in codes(made, "p/m-1")


def test_what_domains_hold() -> None:
    made = cluster(racked("a", 1, "x"), racked("b", 1, "y"), racked("c", 1))
    made.settle(gang(AT_MOST_ONE, 1), members("g", "m", 1, vcore=1))
    made.settle(UpdateNode("b", schedulable=False), members("g", "n", 1, vcore=1))

    assert said(made, Code.TOPOLOGY, "p/n-0") == (
        "gang default/g has the topology spread: rack, max: 1, and no rack takes one more: x holds "
        "1 member (as many as it may), y holds 0 members (of 1 node 1 is not schedulable)"
    )
    assert facts(made, Code.TOPOLOGY, "p/n-0") == {**G, "rule": "spread", "members": {"x": 1}}


def test_no_node_has_the_attribute() -> None:
    made = cluster(racked("a", 1))
    made.settle(gang(SAME, 1), members("g", "m", 1, vcore=1))

    assert said(made, Code.TOPOLOGY, "p/m-0").endswith("and no node has the attribute rack")


def test_a_single_member_that_has_room_only_outside_of_domains() -> None:
    made = cluster(racked("a", 2), racked("b", 1, "x"))
    made.settle(gang(SAME, 1), members("g", "m", 1, vcore=2))

    assert said(made, Code.TOPOLOGY, "p/m-0").endswith(
        "no rack has room for it: only nodes without the attribute have"
    )


def test_many_domains_are_not_all_named() -> None:
    made = cluster(*(racked(f"n{at:02}", 1, f"r{at:02}") for at in range(11)))
    made.settle(gang(SAME, 2), members("g", "m", 2, vcore=1))

    assert said(made, Code.TOPOLOGY, "p/m-0").endswith("r06 for 1, r07 for 1, 3 more")


def test_without_room_on_any_node_the_topology_is_no_reason() -> None:
    made = cluster(racked("a", 1, "x"))
    made.settle(gang(SAME, 2), members("g", "m", 2, vcore=2))

    assert Code.TOPOLOGY not in codes(made, "p/m-0")


def test_a_strict_group_that_lacks_room_anyway_names_no_member() -> None:
    made = cluster(racked("a", 2))
    made.settle(gang(AT_MOST_ONE, 3, mode=GangMode.STRICT), members("g", "m", 3, vcore=1))

    assert facts(made, Code.GANG_CYCLE_INVALID, "p/m-0") == {
        "gang": "default/g",
        "needed": 3,
        "room": 2,
    }


def test_a_strict_group_says_that_the_topology_was_it() -> None:
    made = cluster(racked("a", 1, "x"), racked("b", 1, "y"))
    made.settle(gang(SAME, 2, mode=GangMode.STRICT), members("g", "m", 2, vcore=1))

    assert codes(made, "p/m-0") == [Code.GANG_CYCLE_INVALID, Code.TOPOLOGY]
    assert said(made, Code.GANG_CYCLE_INVALID, "p/m-0") == (
        "the Strict group of gang default/g gave up: no node that the topology "
        "same: rack lets it take had room for p/m-0 (1m vcore)"
    )
