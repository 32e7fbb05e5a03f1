"""What node services have to do with it that an ask is not running."""

from __future__ import annotations

from muster_core.events import AddNode, Release
from muster_core.reasons import Code
from muster_core.resources import Resources
from tests.core.admission.objects import gang, members
from tests.core.view.eviction.contest import Contest, contest, share
from tests.core.view.eviction.test_services import low, service, serving
from tests.core.view.reasons.why import codes, facts, said, why


def keeping() -> Contest:
    """Give a tree in which ``a/s`` keeps ``n``, of which one core of two is free."""
    made = contest(serving(), share("b"), n=2)
    made.tell(low("x", priority=9), low("y", priority=9))
    made.tell(service(vcore=2))
    made.tell(Release("b", "y"))
    return made


def test_who_keeps_the_node() -> None:
    made = keeping()
    made.tell(low("z"))

    assert why(made, "b/z") == (
        "NodeKept: it would fit on n, which node service a/s keeps until it has room"
    )
    assert facts(made, Code.NODE_KEPT, "b/z") == {"node": "n", "keeper": "a/s"}
    assert said(made, Code.NO_NODE_FITS, "b/z") == "of 1 node 1 is kept for a node service"
    assert facts(made, Code.NO_NODE_FITS, "b/z")["kept"] == 1


def test_a_kept_node_without_room_is_no_reason_of_its_own() -> None:
    made = keeping()
    made.tell(low("z", 2))

    assert Code.NODE_KEPT not in codes(made, "b/z")
    assert said(made, Code.NO_NODE_FITS, "b/z") == "of 1 node 1 is kept for a node service"


def test_what_is_free_on_a_kept_node_is_no_fragment() -> None:
    made = keeping()
    made.tell(AddNode("m", Resources({"vcore": 1})), low("z", 2))

    assert Code.FRAGMENTED not in codes(made, "b/z")


def test_what_a_node_service_lacks() -> None:
    made = keeping()

    assert codes(made, "a/s")[:2] == [Code.NO_NODE_FITS, Code.RECLAIM_INSUFFICIENT]
    assert said(made, Code.NO_NODE_FITS, "a/s") == (
        "of 1 node 1 has too little vcore; n is the closest and lacks 1m vcore"
    )
    assert said(made, Code.RECLAIM_INSUFFICIENT, "a/s") == (
        "it may take room on n as a node service, but no victims that may be taken make room for it"
    )


def test_a_group_has_no_room_on_a_kept_node() -> None:
    made = keeping()
    made.tell(gang("g", 2), members("g", "m", 2, app="b", vcore=1))

    assert said(made, Code.GANG_CYCLE_INVALID, "b/m-0").startswith(
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
    made = contest(leaf, share("b", preemption_policy="disabled"), n=2)
    made.tell(low("x", 2, priority=9))
    made.tell(service(vcore=2))

    assert said(made, Code.RECLAIM_INSUFFICIENT, "a/s") == (
        "it may reclaim what root.a is guaranteed and take room on n as a node service, but no "
        "victims that may be taken make room for it"
    )
