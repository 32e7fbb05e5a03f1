"""The machine that owns an application: asks that may preempt, and that lose their nodes."""

from __future__ import annotations

from itertools import count

import attrs
import pytest

from muster_core.owners.app_messages import (
    AddAsks,
    AddPlaced,
    AppReport,
    AppRequest,
    Close,
    CommitApp,
    LoseNode,
    Parked,
    Pending,
    Placed,
    UnparkAsks,
    Values,
)
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Allocation, Ask, Origin
from muster_core.snapshots import AskPlace
from muster_core.values.application_states import AppState
from tests.core.admission.objects import members
from tests.core.building import identity, wish

BOUND, PARKED, PENDING = AskPlace.BOUND, AskPlace.PARKED, AskPlace.PENDING


class Application:
    """An application of which ``x-0`` and ``x-1`` are bound, ``m-0`` too, and ``m-1`` waits."""

    def __init__(self) -> None:
        self.machine = ApplicationMachine(identity())
        self._seq, self._epochs, self._numbers = count(10), count(1), count(1)
        self.asks: dict[str, Ask] = {}
        self.tell(AddAsks(self.origin(), wish(count=2, priority=3), 3))
        self.tell(AddAsks(self.origin(), members("g", "m", 2, app="app"), 0))
        self.held = {name: self.hold(name) for name in ("x-0", "x-1", "m-0", "m-1")}
        bound = [self.held[name] for name in ("x-0", "x-1", "m-0")]
        self.commit(CommitApp(bound=tuple(bound), waiting=(self.held["m-1"],)))

    def origin(self, at_us: int = 0) -> Origin:
        return Origin(next(self._seq), at_us=at_us)

    def hold(self, name: str, node: str = "n") -> Allocation:
        return Allocation(self.asks[name], node, next(self._numbers))

    def tell(self, *requests: AppRequest) -> AppReport:
        for request in requests:
            assert self.machine.handle(request) is None
        report = self.machine.handle(Close(next(self._epochs)))
        assert report is not None
        self.machine.check()
        for action in report.actions:
            if isinstance(action, Pending):
                self.asks.update((ask.name, ask) for ask in action.asks)
        return report

    def commit(self, commit: CommitApp) -> None:
        assert self.machine.handle(commit) is None
        self.machine.check()

    def places(self) -> dict[str, tuple[AskPlace, str | None]]:
        return {ask.name: (ask.place, ask.node) for ask in self.machine.snapshot().asks}

    def state(self) -> AppState:
        return self.machine.snapshot().state


# What an ask knows of itself


@pytest.mark.parametrize("preempts", [False, True])
def test_asks_know_whether_they_may_preempt_and_when_they_came(preempts: bool) -> None:
    app = Application()
    request = AddAsks(app.origin(77), wish(name="y", count=2), 5, preempts=preempts)
    (pending,) = (one for one in app.tell(request).actions if isinstance(one, Pending))

    assert [(ask.preempts, ask.came_us) for ask in pending.asks] == [(preempts, 77)] * 2


def test_so_does_one_that_comes_bound() -> None:
    app = Application()
    request = AddPlaced(app.origin(77), wish(name="y"), 5, "n", 9, preempts=True)
    (ask,) = [one.allocation.ask for one in app.tell(request).actions if isinstance(one, Placed)]

    assert (ask.preempts, ask.came_us, ask.priority) == (True, 77, 5)


def test_what_it_knows_outlasts_the_loss_of_its_node() -> None:
    app = Application()
    app.tell(AddPlaced(app.origin(77), wish(name="y"), 5, "m", 9, preempts=True))
    app.tell(LoseNode(app.origin(99), "m"))

    assert (app.asks["y"].preempts, app.asks["y"].came_us) == (True, 77)


# A lost node


def lose(app: Application, *timed_out: str) -> dict[str, bool]:
    """Give for each ask that lost its node whether its delay begins anew."""
    report = app.tell(LoseNode(app.origin(), "n", frozenset(timed_out)))
    found = [action for action in report.actions if isinstance(action, Pending | Parked)]
    return {
        ask.name: action.was_bound
        for action in found
        for ask in (action.asks if isinstance(action, Pending) else (action.ask,))
    }


def test_the_delay_of_what_was_bound_begins_anew() -> None:
    assert lose(Application()) == {"x-0": True, "x-1": True, "m-0": True, "m-1": False}


def test_so_it_does_for_what_is_parked() -> None:
    app = Application()

    assert lose(app, "default/g") == {"x-0": True, "x-1": True, "m-0": True, "m-1": False}
    assert {name: place for name, (place, _) in app.places().items()} == {
        **dict.fromkeys(("x-0", "x-1"), PENDING),
        **dict.fromkeys(("m-0", "m-1"), PARKED),
    }


def test_it_goes_on_for_what_comes_or_is_unparked() -> None:
    app = Application()
    report = app.tell(AddAsks(app.origin(), members("g", "late", app="app"), 0, parked=True))
    (parked,) = [action for action in report.actions if isinstance(action, Parked)]
    report = app.tell(UnparkAsks(app.origin(), ("late",)), AddAsks(app.origin(), wish(), 0))

    pending = [action for action in report.actions if isinstance(action, Pending)]
    assert not parked.was_bound
    assert [action.was_bound for action in pending] == [False] * len(pending)


# What a batch takes


def test_a_bound_ask_that_was_taken_is_pending() -> None:
    app = Application()
    app.commit(CommitApp(released=("x-1",)))

    assert app.places()["x-1"] == (PENDING, None)
    assert app.machine.values() == Values(3, {"vcore": 1}, {"vcore": 3})
    assert app.state() is AppState.RUNNING


def test_bound_and_waiting_ones_in_one_commit() -> None:
    app = Application()
    app.commit(CommitApp(released=("m-1", "m-0", "x-0")))

    assert {name: place for name, (place, _) in app.places().items()} == {
        **dict.fromkeys(("x-0", "m-0", "m-1"), PENDING),
        "x-1": BOUND,
    }
    assert app.machine.values() == Values(3, {"vcore": 3}, {"vcore": 1})


def test_one_that_was_taken_and_bound_elsewhere() -> None:
    app = Application()
    app.commit(CommitApp(released=("x-0",), bound=(app.hold("x-0", "m"),)))

    assert app.places()["x-0"] == (BOUND, "m")
    assert app.machine.values().allocated == {"vcore": 4}
    assert app.machine.values().pending == {}


def test_one_that_was_taken_and_waits_elsewhere() -> None:
    app = Application()
    app.commit(CommitApp(released=("m-0",), waiting=(app.hold("m-0", "m"),)))

    assert app.places()["m-0"] == (AskPlace.WAITING, "m")


def test_one_that_was_taken_and_is_parked() -> None:
    app = Application()
    app.commit(CommitApp(released=("m-0", "x-0"), parked=("m-0",)))

    assert app.places()["m-0"] == (PARKED, None)
    assert app.places()["x-0"] == (PENDING, None)
    assert app.machine.values() == Values(3, {"vcore": 1}, {"vcore": 2})


def test_what_was_taken_keeps_its_place_in_the_order() -> None:
    app = Application()
    before = app.held["x-1"].ask
    app.commit(CommitApp(released=("x-1",)))
    app.commit(CommitApp(bound=(attrs.evolve(app.hold("x-1"), node="m"),)))
    (again,) = [action for action in lose_on(app, "m") if isinstance(action, Pending)]

    assert again.asks == (before,)


def lose_on(app: Application, node: str) -> list[object]:
    return list(app.tell(LoseNode(app.origin(), node)).actions)
