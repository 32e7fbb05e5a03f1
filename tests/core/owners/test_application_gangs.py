"""The machine that owns an application, where its asks are members of gangs."""

from __future__ import annotations

from itertools import count

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.decisions import Decision, Kind, Reason
from muster_core.owners.app_messages import (
    AddAsks,
    AddPlaced,
    AllocationAdded,
    AppReport,
    AppRequest,
    AskParked,
    AsksPending,
    Close,
    CommitApp,
    DecisionMade,
    Dismiss,
    FinishAsk,
    LoseNode,
    MemberMoved,
    ParkAsks,
    ReleaseAsk,
    RollBack,
    SpoilBinds,
    UndoBind,
    UnparkAsks,
    WithdrawAsk,
)
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Allocation, Ask, Origin
from muster_core.snapshots import AskPlace
from muster_core.values.application_states import AppState
from tests.core.admission.objects import members
from tests.core.building import identity

PENDING, PARKED = AskPlace.PENDING, AskPlace.PARKED
WAITING, BOUND = AskPlace.WAITING, AskPlace.BOUND


class Application:
    """An application with members of gangs, driven as a coordinator drives it."""

    def __init__(self) -> None:
        self.machine = ApplicationMachine(identity())
        self.asks: dict[str, Ask] = {}
        self._seq = count(10)
        self._epochs = count(1)
        self._numbers = count(1)

    def origin(self) -> Origin:
        return Origin(next(self._seq))

    def tell(self, *requests: AppRequest) -> AppReport:
        for request in requests:
            assert self.machine.handle(request) is None
        report = self.machine.handle(Close(next(self._epochs)))
        assert report is not None
        self.machine.check()
        for action in report.actions:
            if isinstance(action, AsksPending):
                self.asks.update((ask.name, ask) for ask in action.asks)
        return report

    def add(self, name: str, count: int | None = None, *, parked: bool = False) -> AppReport:
        event = members("g", name, count, app="app")
        return self.tell(AddAsks(self.origin(), event, 0, parked))

    def held(self, *names: str, node: str = "n") -> tuple[Allocation, ...]:
        return tuple(Allocation(self.asks[name], node, next(self._numbers)) for name in names)

    def commit(self, **fields: tuple[Allocation, ...] | tuple[str, ...]) -> None:
        self.machine.handle(CommitApp(**fields))  # type: ignore[arg-type]
        self.machine.check()

    def wait(self, *names: str, node: str = "n") -> None:
        self.commit(waiting=self.held(*names, node=node))

    def roll_back(self, *names: str, park: bool = False) -> AppReport:
        asks = tuple(enumerate(names))
        return self.tell(RollBack(self.origin(), asks, Reason.GANG_ROLLBACK, park))

    def places(self) -> dict[str, AskPlace]:
        return {ask.name: ask.place for ask in self.machine.snapshot().asks}

    def state(self) -> AppState:
        return self.machine.snapshot().state

    def allocated(self) -> dict[str, int]:
        return dict(self.machine.values().allocated)


def lines_of(report: AppReport) -> list[str]:
    """Return decisions about asks and moves of members, in short and in order."""
    found: list[tuple[tuple[int, int, int], str]] = []
    for action in report.actions:
        match action:
            case DecisionMade(
                order, Decision(kind=Kind.RELEASED | Kind.BOUND | Kind.REJECTED) as one
            ):
                words = (one.kind, one.ask, one.node, one.reason)
                found.append((order, " ".join(filter(None, words))))
            case MemberMoved(order, ask, place, lost):
                lost_ = " lost" if lost else ""
                found.append((order, f"{ask.name} {place or 'gone'}{lost_}"))
            case _:
                pass
    return [line for _, line in sorted(found, key=lambda pair: pair[0])]


def waiting_one() -> Application:
    """Return an application of which ``x-0`` waits and ``x-1`` is pending."""
    app = Application()
    app.add("x", 2)
    app.wait("x-0")
    return app


# Waiting


def test_what_waits_is_allocated_and_changes_no_state() -> None:
    app = waiting_one()

    assert app.places() == {"x-0": WAITING, "x-1": PENDING}
    assert (app.allocated(), app.state()) == ({"vcore": 1}, AppState.ACCEPTED)


def test_what_waited_is_bound_without_counting_twice() -> None:
    app = waiting_one()
    app.commit(bound=app.held("x-0", "x-1"))

    assert (app.allocated(), app.state()) == ({"vcore": 2}, AppState.RUNNING)


def test_what_waited_is_pending_again() -> None:
    app = waiting_one()
    app.commit(released=("x-0",), waiting=app.held("x-1"))

    assert app.places() == {"x-0": PENDING, "x-1": WAITING}


def test_what_waited_waits_on_another_node() -> None:
    app = waiting_one()
    app.commit(released=("x-0",), waiting=app.held("x-0", node="m"))

    (shown,) = (ask for ask in app.machine.snapshot().asks if ask.name == "x-0")
    assert (shown.place, shown.node) == (WAITING, "m")


def test_what_waits_can_be_removed_but_has_not_finished() -> None:
    app = waiting_one()

    assert lines_of(app.tell(ReleaseAsk(app.origin(), "x-0"))) == ["rejected"]
    assert lines_of(app.tell(WithdrawAsk(app.origin(), "x-0"))) == [
        "released x-0 n removed",
        "x-0 gone",
    ]
    assert app.allocated() == {}


def test_an_application_that_waits_is_not_completing() -> None:
    app = waiting_one()
    app.tell(WithdrawAsk(app.origin(), "x-1"))
    assert app.state() is AppState.ACCEPTED
    app.tell(WithdrawAsk(app.origin(), "x-0"))

    assert app.state() is AppState.COMPLETING


def test_waiting_members_of_a_lost_node_are_pending() -> None:
    app = waiting_one()
    app.wait("x-1", node="m")

    assert lines_of(app.tell(LoseNode(app.origin(), "n"))) == [
        "released x-0 n node_lost",
        "x-0 pending lost",
    ]
    assert app.places() == {"x-0": PENDING, "x-1": WAITING}


def test_members_of_a_gang_that_has_timed_out_are_parked_when_their_node_is_lost() -> None:
    app = Application()
    app.add("x")
    app.commit(bound=app.held("x"))
    app.tell(LoseNode(app.origin(), "n", frozenset({"default/g"})))

    assert app.places() == {"x": PARKED}


def test_a_member_that_was_not_started_is_lost_to_its_gang() -> None:
    app = Application()
    app.add("x", 2)
    app.commit(bound=app.held("x-0", "x-1"))

    assert lines_of(app.tell(UndoBind(app.origin(), "x-0"))) == [
        "released x-0 n bind_failed",
        "x-0 pending lost",
    ]
    assert app.places() == {"x-0": PENDING, "x-1": BOUND}


@pytest.mark.parametrize(
    ("timed_out", "place"), [("default/g", PARKED), ("default/h", PENDING), (None, PENDING)]
)
def test_a_member_that_was_not_started_is_parked_if_its_gang_has_timed_out(
    timed_out: str | None, place: AskPlace
) -> None:
    app = Application()
    app.add("x")
    app.commit(bound=app.held("x"))
    report = app.tell(UndoBind(app.origin(), "x", timed_out=timed_out))

    assert app.places() == {"x": place}
    (action,) = (one for one in report.actions if isinstance(one, AsksPending | AskParked))
    assert action.was_bound


def test_what_waits_was_not_bound_and_cannot_fail_to_start() -> None:
    app = waiting_one()

    assert lines_of(app.tell(UndoBind(app.origin(), "x-0"))) == ["rejected"]
    assert app.places() == {"x-0": WAITING, "x-1": PENDING}


# Rolling back, parking


def test_members_give_up_their_nodes_in_the_order_that_is_asked_for() -> None:
    app = waiting_one()
    app.wait("x-1")

    assert lines_of(app.roll_back("x-1", "x-0")) == [
        "released x-1 n gang_rollback",
        "x-1 pending",
        "released x-0 n gang_rollback",
        "x-0 pending",
    ]
    assert (app.allocated(), dict(app.machine.values().pending)) == ({}, {"vcore": 2})


def test_members_that_give_up_their_nodes_may_be_parked() -> None:
    app = waiting_one()

    assert lines_of(app.roll_back("x-0", park=True))[-1] == "x-0 parked"
    assert app.places() == {"x-0": PARKED, "x-1": PENDING}


def test_who_does_not_wait_any_more_gives_up_nothing() -> None:
    app = waiting_one()

    assert lines_of(app.roll_back("x-1", "gone")) == []


def test_parked_asks_count_for_nothing_but_are_there() -> None:
    app = Application()
    app.add("x", parked=True)
    values = app.machine.values()

    assert (values.priority, values.pending, values.allocated) == (None, {}, {})
    assert app.state() is AppState.ACCEPTED


def test_asks_are_parked_and_pending_again() -> None:
    app = waiting_one()

    assert lines_of(app.tell(ParkAsks(app.origin(), ("x-1",)))) == ["x-1 parked"]
    assert app.machine.values().pending == {}
    assert lines_of(app.tell(UnparkAsks(app.origin(), ("x-1",)))) == ["x-1 pending"]
    assert app.machine.values().pending == {"vcore": 1}


def test_what_is_not_there_is_not_parked() -> None:
    app = waiting_one()

    assert lines_of(app.tell(ParkAsks(app.origin(), ("x-0", "gone")))) == []
    assert lines_of(app.tell(UnparkAsks(app.origin(), ("x-1", "gone")))) == []
    assert app.places() == {"x-0": WAITING, "x-1": PENDING}


@pytest.mark.parametrize("place", [PENDING, PARKED, WAITING, BOUND])
def test_a_name_is_taken_wherever_its_ask_is(place: AskPlace) -> None:
    app = Application()
    app.add("x", parked=place is PARKED)
    if place is WAITING:
        app.wait("x")
    elif place is BOUND:
        app.commit(bound=app.held("x"))

    assert lines_of(app.add("x")) == ["rejected"]
    assert app.places() == {"x": place}


# Coming and going


def test_an_ask_that_comes_bound() -> None:
    app = Application()
    report = app.tell(AddPlaced(app.origin(), members("g", "x", app="app"), 0, "n", 7))

    (placed,) = (action for action in report.actions if isinstance(action, AllocationAdded))
    assert (placed.allocation.node, placed.allocation.number) == ("n", 7)
    assert lines_of(report) == ["bound x n"]
    assert (app.places(), app.allocated()) == ({"x": BOUND}, {"vcore": 1})
    assert app.state() is AppState.STARTING


@pytest.mark.parametrize("place", [PENDING, PARKED, WAITING, BOUND])
def test_an_ask_is_over_wherever_it_is(place: AskPlace) -> None:
    app = Application()
    app.add("x", parked=place is PARKED)
    if place is WAITING:
        app.wait("x")
    elif place is BOUND:
        app.commit(bound=app.held("x"))
    app.tell(SpoilBinds(app.origin(), "x", 2))

    node = " n" if place in {WAITING, BOUND} else ""
    report = app.tell(FinishAsk(app.origin(), "x", Reason.REMOVED))
    assert lines_of(report) == [f"released x{node} removed", "x gone"]
    assert app.places() == {}
    assert app.state() is AppState.COMPLETING


def test_everything_goes_with_the_application_in_the_order_of_submission() -> None:
    app = Application()
    app.add("a")
    app.add("b")
    app.add("c", parked=True)
    app.add("d")
    app.wait("b")
    app.commit(bound=app.held("d"))
    report = app.tell(Dismiss(app.origin()))

    assert [line for line in lines_of(report) if line.startswith("released")] == [
        "released a removed",
        "released b n removed",
        "released c removed",
        "released d n removed",
    ]
    assert (report.gone, app.allocated()) == (True, {})


@attrs.define
class PlainAsk:
    place: AskPlace
    node: str | None = None


class Members(RuleBasedStateMachine):
    """An application of members beside a plain dictionary of where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.app = Application()
        self.plain: dict[str, PlainAsk] = {}
        self.names = count()

    def at(self, *places: AskPlace) -> list[str]:
        return [name for name, ask in self.plain.items() if ask.place in places]

    def draw_asks(self, data: st.DataObject, *places: AskPlace) -> tuple[str, ...]:
        names = self.at(*places)
        drawn = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        return tuple(drawn)

    @rule(parked=st.booleans(), members=st.integers(1, 3))
    def add(self, parked: bool, members: int) -> None:
        name = f"x{next(self.names)}"
        event = self.app.add(name, members, parked=parked)
        assert lines_of(event) == []
        place = PARKED if parked else PENDING
        self.plain |= {f"{name}-{number}": PlainAsk(place) for number in range(members)}
        if parked:
            self.keep_asks()

    def keep_asks(self) -> None:
        """Let parked asks be known too, by letting them be pending for a moment."""
        parked = tuple(self.at(PARKED))
        self.app.tell(UnparkAsks(self.app.origin(), parked))
        self.app.tell(ParkAsks(self.app.origin(), parked))

    @rule(data=st.data(), node=st.sampled_from("nm"))
    def a_round(self, data: st.DataObject, node: str) -> None:
        released = self.draw_asks(data, WAITING)
        waiting = self.draw_asks(data, PENDING)
        left = [name for name in self.at(WAITING) if name not in released]
        bound = tuple(data.draw(st.lists(st.sampled_from(left), unique=True))) if left else ()
        nodes = {name: self.plain[name].node or "" for name in bound}
        self.app.commit(
            released=released,
            waiting=self.app.held(*waiting, node=node),
            bound=tuple(self.app.held(name, node=nodes[name])[0] for name in bound),
        )
        self.plain |= {name: PlainAsk(PENDING) for name in released}
        self.plain |= {name: PlainAsk(WAITING, node) for name in waiting}
        self.plain |= {name: PlainAsk(BOUND, nodes[name]) for name in bound}

    @rule(data=st.data(), park=st.booleans())
    def roll_back(self, data: st.DataObject, park: bool) -> None:
        names = self.draw_asks(data, WAITING)
        self.app.roll_back(*names, park=park)
        self.plain |= {name: PlainAsk(PARKED if park else PENDING) for name in names}

    @rule(data=st.data(), park=st.booleans())
    def park(self, data: st.DataObject, park: bool) -> None:
        names = self.draw_asks(data, PENDING if park else PARKED)
        request = ParkAsks if park else UnparkAsks
        self.app.tell(request(self.app.origin(), names))
        self.plain |= {name: PlainAsk(PARKED if park else PENDING) for name in names}

    @rule(node=st.sampled_from("nm"))
    def lose_node(self, node: str) -> None:
        lost = [name for name, ask in self.plain.items() if ask.node == node]
        report = self.app.tell(LoseNode(self.app.origin(), node))
        moved = [action for action in report.actions if isinstance(action, MemberMoved)]
        assert sorted(action.ask.name for action in moved) == sorted(lost)
        self.plain |= {name: PlainAsk(PENDING) for name in lost}

    @rule(data=st.data(), park=st.booleans())
    def undo(self, data: st.DataObject, park: bool) -> None:
        names = self.draw_asks(data, BOUND)
        gang = "default/g" if park else None
        for name in names:
            report = self.app.tell(UndoBind(self.app.origin(), name, timed_out=gang))
            moved = [action for action in report.actions if isinstance(action, MemberMoved)]
            assert [(one.ask.name, one.lost) for one in moved] == [(name, True)]
        self.plain |= {name: PlainAsk(PARKED if park else PENDING) for name in names}

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        for name in self.draw_asks(data, *AskPlace):
            self.app.tell(FinishAsk(self.app.origin(), name, Reason.COMPLETED))
            del self.plain[name]

    @invariant()
    def agrees(self) -> None:
        shown = self.app.machine.snapshot()
        assert {ask.name: PlainAsk(ask.place, ask.node) for ask in shown.asks} == self.plain
        values = self.app.machine.values()
        assert values.pending.get("vcore", 0) == len(self.at(PENDING))
        assert values.allocated.get("vcore", 0) == len(self.at(WAITING, BOUND))
        empty = (AppState.NEW, AppState.COMPLETING)
        assert (shown.state in empty) == (not self.plain)


TestMembers = Members.TestCase
