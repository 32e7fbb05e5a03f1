"""What is computed from what the view knows, and when it is computed anew."""

from __future__ import annotations

from muster_core.config.model import Configuration
from muster_core.events import AddNode, Configure, Release, RemoveApp, UpdateNode
from muster_core.resources import Resources
from muster_core.structures.shapes import KEPT_IDLE
from muster_core.view.state.view_state import ViewState
from tests.core.building import configuration, queue, wish
from tests.core.view.helpers import tree


def test_one_of_those_that_a_limit_lets_in_starts() -> None:
    here = tree("n", config=configuration(queue("a", maxapplications="1")))
    here.add_app("p")
    here.add_app("q")
    here.settle(wish("p", "x", 1), wish("q", "y", 2), wish("q", "z", 2))
    here.check()
    assert here.bound() == ["q/y n", "q/z n"]

    here.settle(RemoveApp("q"))
    here.check()
    assert here.bound()[2:] == ["p/x n"]


def test_capacity_that_shrinks_under_what_is_used_evicts_nobody() -> None:
    here = tree("n", vcore=4)
    here.add_app("p")
    here.settle(wish("p", vcore=4))
    here.settle(UpdateNode("n", Resources({"vcore": 2})), wish("p", "y"))
    here.check()
    assert here.bound() == ["p/x n"]

    here.settle(Release("p", "x"))
    assert here.bound() == ["p/x n", "p/y n"]


def test_a_max_that_is_lowered_under_what_is_allocated() -> None:
    def config(most: str) -> Configuration:
        return configuration(queue("a", resources={"max": {"vcore": most}}))

    here = tree("n", config=config("4m"), vcore=10, memory=10)
    here.add_app("p")
    here.settle(wish("p", vcore=4))
    here.settle(Configure(config("2m")), wish("p", "y", vcore=1), wish("p", "z", memory=1))
    here.check()

    assert here.bound() == ["p/x n", "p/z n"]


def test_shapes_are_forgotten_and_their_bits_used_again() -> None:
    here = tree("n", vcore=10_000)
    here.add_app("p")
    for amount in range(1, 3 * KEPT_IDLE):
        here.settle(wish("p", f"x{amount}", vcore=amount), wish("p", f"y{amount}", gpu=amount))
        here.settle(Release("p", f"x{amount}"))
        if amount % 40 == 0:
            here.check()

    assert len(here.bound()) == 3 * KEPT_IDLE - 1
    here.settle(AddNode("g", Resources({"gpu": 1})))
    assert here.bound()[-1] == "p/y1 g"
    here.check()


def test_it_has_so_few_attributes_that_they_are_found_quickly() -> None:
    assert len(vars(ViewState())) < 30
