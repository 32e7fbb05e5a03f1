"""How the view takes over what the owners report."""

from __future__ import annotations

import pytest

from muster_core.config.model import Configuration
from muster_core.events import AddNode, Configure, Release, RemoveApp, RemoveNode
from muster_core.resources import Resources
from tests.core.building import MAY_CREATE, configuration, queue, wish
from tests.core.view.helpers import props, told, tree


def test_room_that_comes_free_is_used_at_once() -> None:
    here = tree("n", vcore=1)
    here.add_app("p")
    here.settle(wish("p", count=2))
    assert here.bound() == ["p/x-0 n"]

    here.settle(Release("p", "x-0"))
    here.check()
    assert here.bound() == ["p/x-0 n", "p/x-1 n"]


def test_a_lost_node_and_another_of_its_name_in_one_batch() -> None:
    here = tree("n", vcore=2)
    here.add_app("p")
    here.settle(wish("p", count=2))
    new = AddNode("n", Resources({"vcore": 1}))
    decisions = here.settle(RemoveNode("n"), new)
    here.check()

    assert told(decisions) == [
        *("released p/x-0 n", "released p/x-1 n", "assigned p/x-0 n", "bound p/x-0 n"),
        *("root 0", "root.a 0"),
    ]


def test_a_policy_that_changes_with_the_applications() -> None:
    def config(policy: str) -> Configuration:
        return configuration(queue("a", properties=props(application_sort_policy=policy)))

    here = tree(config=config("fifo"))
    here.add_app("p")
    here.settle(wish("p"))
    here.enter(Configure(config("fair")))
    here.add_app("q")
    here.settle(wish("q"), wish("p", "y"))
    here.check()

    assert here.settle(AddNode("n", Resources({"vcore": 2})))
    assert here.bound() == ["p/x n", "q/x n"]


@pytest.mark.parametrize("back", [False, True])
def test_a_leaf_becomes_a_parent_in_the_batch_in_which_it_empties(back: bool) -> None:
    leaf = configuration(queue("a"))
    parent = configuration(queue("a", parent="true", properties=MAY_CREATE))
    here = tree("n", config=parent if back else leaf)
    here.add_app("p", "a.x" if back else "a")
    here.settle(wish("p", vcore=99))
    here.enter(RemoveApp("p"), Configure(leaf if back else parent))
    here.add_app("p", "a" if back else "a.x")
    here.settle(wish("p"))
    here.check()

    assert here.bound() == ["p/x n"]


def test_a_queue_made_on_the_fly_twice_in_one_batch() -> None:
    here = tree("n", config=configuration())
    here.add_app("p", "made.up")
    here.settle(wish("p", "x", 5, vcore=99))
    here.enter(RemoveApp("p"))
    here.add_app("p", "made.up")
    here.enter(RemoveApp("p"))
    here.add_app("p", "made.up")
    here.settle(wish("p", "y", 6, vcore=99))
    here.check()

    assert here.snapshot().queues["root.made.up"].priority == 6
