"""An application as a round sees it."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.owners.app_messages import Values
from muster_core.owners.asks import Ask
from muster_core.structures.shapes import EVERY_SHAPE, Shape, bits_of
from muster_core.values.application_states import AppState
from muster_core.view.tree.application import ViewApp
from tests.core.building import ask, identity


def shaped(one: Ask, bit: int) -> Ask:
    """Give an ask whose shape is another one for each bit but the first."""
    return one if bit == 1 else one._replace(shape=Shape(one.resources, (("bit", str(bit)),)))


def view_app(*asks: tuple[Ask, int]) -> ViewApp:
    app = ViewApp(identity())
    for one, bit in asks:
        app.add(shaped(one, bit), bit)
    app.check()
    return app


def in_order(app: ViewApp, mask: int = EVERY_SHAPE) -> list[str]:
    """Try every ask of some shapes; give their names in the order in which they were tried."""
    names: list[str] = []
    while app.mask & mask:
        bit, best = app.best(mask)
        app.tried(best, bit)
        app.check()
        names.append(best.name)
    return names


def test_an_application_without_asks() -> None:
    app = view_app()

    assert app.mask == 0
    assert app.values() == Values(None, {}, {})


def test_the_best_is_by_priority_then_submission_whatever_the_shape() -> None:
    app = view_app(
        (ask("a", 1), 1), (ask("b", 5), 2), (ask("c", 1), 2), (ask("d", 5), 1), (ask("e", 9), 3)
    )

    assert in_order(app) == ["e", "b", "d", "a", "c"]


def test_only_the_shapes_that_are_asked_for_are_offered() -> None:
    app = view_app((ask("a", 9), 1), (ask("b", 5), 2), (ask("c", 1), 4))

    assert set(bits_of(app.mask)) == {1, 2, 4}
    assert in_order(app, 1 << 2 | 1 << 4) == ["b", "c"]
    assert app.mask == 1 << 1


def test_an_ask_that_was_tried_stays_pending_and_counted() -> None:
    app = view_app((ask("a", 9, vcore=3), 1))
    in_order(app)

    assert app.values() == Values(9, {"vcore": 3}, {})


def test_the_next_round_offers_everything_again() -> None:
    app = view_app((ask("a"), 1), (ask("b"), 2), (ask("c"), 1))
    before = in_order(app)
    app.start_round()

    assert in_order(app) == before == ["a", "b", "c"]


def test_an_ask_that_goes_after_it_was_tried_does_not_come_back() -> None:
    gone = ask("a")
    app = view_app((gone, 1), (ask("b"), 1))
    in_order(app)
    app.remove(gone, 1)
    app.start_round()

    assert in_order(app) == ["b"]


def test_a_name_that_comes_again_is_another_ask() -> None:
    old, new = ask("a", 9), ask("a", 1)
    app = view_app((old, 1), (ask("b", 5), 1))
    app.remove(old, 1)
    app.add(new, 1)

    assert in_order(app) == ["b", "a"]
    assert app.pending["a"] is new


def test_an_ask_behind_the_best_that_goes_is_not_offered() -> None:
    behind = ask("b", 5)
    app = view_app((ask("a", 9), 1), (behind, 1), (ask("c", 1), 1))
    app.remove(behind, 1)
    app.check()

    assert in_order(app) == ["a", "c"]


def test_what_comes_and_goes_behind_the_best_is_forgotten() -> None:
    app = view_app((ask("first", 9), 1))
    for _ in range(500):
        passing = ask("x")
        app.add(passing, 1)
        app.remove(passing, 1)
        app.check()

    assert in_order(app) == ["first"]


@pytest.mark.parametrize("state", AppState)
def test_who_counts_as_running(state: AppState) -> None:
    app = view_app()
    app.state = state

    assert app.running is (state in {AppState.STARTING, AppState.RUNNING})


class ViewApps(RuleBasedStateMachine):
    """An application beside a list of asks that is sorted for each look."""

    def __init__(self) -> None:
        super().__init__()
        self.app = ViewApp(identity())
        self.pending: dict[str, tuple[Ask, int]] = {}
        self.tried: set[str] = set()

    def best(self, mask: int) -> Ask | None:
        offered = [
            one
            for one, bit in self.pending.values()
            if one.name not in self.tried and mask >> bit & 1
        ]
        return min(offered, key=lambda one: one.order, default=None)

    @rule(name=st.integers(0, 30), priority=st.integers(-1, 1), bit=st.integers(1, 3))
    def add(self, name: int, priority: int, bit: int) -> None:
        new = shaped(ask(f"x{name}", priority), bit)
        if new.name not in self.pending:
            self.app.add(new, bit)
            self.pending[new.name] = (new, bit)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone, bit = self.pending.pop(data.draw(st.sampled_from(sorted(self.pending))))
        self.tried.discard(gone.name)
        self.app.remove(gone, bit)

    @rule(mask=st.integers(1, 7).map(lambda bits: bits << 1), bind=st.booleans())
    def try_the_best(self, mask: int, bind: bool) -> None:
        expected = self.best(mask)
        assert bool(self.app.mask & mask) == (expected is not None)
        if expected is None:
            return
        bit, best = self.app.best(mask)
        assert (best, bit) == self.pending[expected.name]
        if bind:
            del self.pending[best.name]
            self.app.remove(best, bit)
        else:
            self.tried.add(best.name)
            self.app.tried(best, bit)

    @rule()
    def start_round(self) -> None:
        self.tried.clear()
        self.app.start_round()

    @invariant()
    def agrees(self) -> None:
        self.app.check()
        priorities = [one.priority for one, _ in self.pending.values()]
        assert self.app.tally.top() == max(priorities, default=None)
        assert set(bits_of(self.app.mask)) == {
            bit for one, bit in self.pending.values() if one.name not in self.tried
        }


TestViewApps = ViewApps.TestCase
