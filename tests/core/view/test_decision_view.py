"""The view as the coordinator uses it: what it announces at the end of a batch."""

from __future__ import annotations

from muster_core.events import AddAsk, AddGang, RemoveApp
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree
from tests.core.view.helpers import props, told, tree


def test_a_stuck_ask_keeps_lifting_its_queue() -> None:
    here = tree("n", vcore=2)
    here.add_app("p", "a")
    here.add_app("q", "b")
    here.enter(wish("p", "stuck", 9, vcore=5), wish("q", "y", 5), wish("p", "z", 1))
    decisions = here.settle()

    assert here.bound() == ["p/z n", "q/y n"]
    assert told(decisions)[-2:] == ["root 9", "root.a 9"]


def test_fences_and_offsets_are_announced_when_they_change() -> None:
    fence = props(priority_policy="fence", priority_offset="7")
    here = tree(config=configuration(queue("a", properties=fence), queue("b")))
    assert told(here.settle()) == ["root.a 7"]

    here.add_app("p", "a")
    assert told(here.settle(wish("p", "x", 100)))[-1:] == ["root 7"]
    assert told(here.settle(wish("p", "y", 200))) == []
    assert told(here.settle(RemoveApp("p")))[-1:] == ["root None"]


def test_nothing_happens_without_a_change() -> None:
    here = tree("n", vcore=1)
    here.add_app("p")
    here.settle(wish("p", count=2))

    assert here.settle() == []
    here.check()


def test_the_last_child_of_a_queue_stays_in_order_when_the_others_have_gone() -> None:
    made = Tree()
    made.add_app("p", "root.a")
    made.add_app("q", "root.b")
    made.add_nodes("n", vcore=1)
    # What competes is listed: a member that is visited, though there is room for nobody else.
    member = AddAsk("q", "m", Resources({"vcore": 1}), count=2, gang="default/g")
    made.settle(AddGang("default/g", GangFields(min_member=2)), wish("p"), member)

    made.settle(RemoveApp("p"))

    assert list(made.snapshot().queues) == ["root", "root.b"]
    made.machine.view.check()


def test_a_gang_over_a_limit_fails_though_the_nodes_have_room() -> None:
    limits = [{"users": ["*"], "maxresources": {"vcore": "1m"}}]
    made = Tree(configuration(queue("a", limits=limits)))
    made.add_nodes("n", vcore=9)
    made.add_app("p")
    member = AddAsk("p", "m", Resources({"vcore": 1}), count=2, gang="default/g")

    made.settle(AddGang("default/g", GangFields(min_member=2)), member)

    assert not made.snapshot().gangs["default/g"].cycle_valid
    made.machine.view.check()
