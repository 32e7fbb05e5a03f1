"""Asks in the machine of an application.

How they come to be and move, binds and work that fail, back-offs and retries, and what
evictions do to them.
"""

from __future__ import annotations

from itertools import count, product

import attrs
import pytest

from muster_core.decisions import Decision, Kind, Reason
from muster_core.owners.app_messages import (
    AddAsks,
    AddPlaced,
    AllocationAdded,
    AllocationEnded,
    AppReport,
    AppRequest,
    AskParked,
    AsksPending,
    AskUnparked,
    AskWithdrawn,
    BindsWillFail,
    Close,
    CommitApp,
    DecisionMade,
    FailAsk,
    FailureCount,
    GroupChanged,
    LoseNode,
    MemberMoved,
    ReleaseAsk,
    SpoilBinds,
    UndoBind,
    UnparkAsks,
    Values,
)
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.ask_moves import SPOILT_LIMIT, AskMessages, AskMoves, asks_of
from muster_core.owners.asks import Allocation, Ask, AskPlaces, FailedBinds, Origin, one_more
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import PART
from muster_core.values.application_states import AppState
from tests.core.admission.objects import members
from tests.core.building import Application, allocation, ask, decisions_of, identity, wish


def two_asks(
    seq: int, priority: int = 0, *, event: int | None = None, gang: str | None = None
) -> list[Ask]:
    """Return two asks that come in one event."""
    name = f"x{seq}"
    request = wish(name=name, count=2) if gang is None else members(gang, name, 2)
    return list(asks_of(AddAsks(Origin(seq, event=event), request, priority)).values())


def test_an_ask_says_by_name_what_its_place_is_made_of() -> None:
    first, second = two_asks(7, 3, event=5, gang="g")

    assert (second.rank, second.creation, second.group) == (-3, 5, second.gang)
    assert (first.seq, second.seq) == (7, 7)
    assert (first.number, second.number) == (0, 1)
    assert second.order == (-3, 5, second.gang, 7, 1)


def test_the_place_of_a_member_has_the_creation_of_its_gang() -> None:
    ask, _ = two_asks(7, 3, gang="g")

    assert ask.order_in(2) == (-3, 2, ask.group, 7, 0)
    assert ask.order_in(0) == (-3, 0, ask.group, 7, 0)
    assert ask.order_in(None) == ask.order


def test_asks_compare_as_their_places_do() -> None:
    # Each has another name than its place would give it.
    asks = [
        *two_asks(9, 1),
        *two_asks(8, 2),
        *two_asks(7, 1),
        *two_asks(6, 1, event=2),
        *two_asks(5),
        *two_asks(4, 1, gang="g"),
    ]

    for one, other in product(asks, asks):
        assert (one < other) is (one.order < other.order)
    assert [ask.seq for ask in sorted(asks)][::2] == [8, 6, 4, 7, 9, 5]


ORDER = (3, 1, 0)


def moves_of(*pending: Ask) -> tuple[AskMoves, AskPlaces]:
    """Return the moves and the places of an application that has reported its pending asks."""
    places = AskPlaces()
    moves = AskMoves(places, AskMessages(identity(), places))
    moves.add({one.name: one for one in pending})
    moves.end_row()
    moves.actions.clear()
    return moves, places


def member(name: str) -> Ask:
    """Return a member of a gang."""
    return ask(name, vcore=1)._replace(gang="default/g")


def test_asks_added_in_a_row_are_one_action_before_the_next() -> None:
    moves, places = moves_of()
    first, second = ask("a", vcore=1), ask("b", vcore=2)

    moves.add({"a": first})
    moves.add({"b": second})
    assert moves.actions == []
    moves.act(GroupChanged("staff"))

    assert moves.actions == [AsksPending((first, second)), GroupChanged("staff")]
    assert places.pending_total == {"vcore": 3}


def test_very_many_asks_are_counted_at_once() -> None:
    moves, places = moves_of()

    moves.add({f"k-{number}": ask(f"k-{number}", vcore=1) for number in range(PART + 1)})

    assert moves.came == []
    assert places.pending_total == {"vcore": PART + 1}


def test_no_action_is_none() -> None:
    moves, _ = moves_of()

    moves.act_if(None)

    assert moves.actions == []


def test_a_pending_member_is_set_aside_and_taken_up() -> None:
    one = member("m")
    moves, places = moves_of(one)

    moves.set_aside("m", ORDER)
    assert (dict(places.parked), dict(places.pending)) == ({"m": one}, {})
    moves.set_aside("m", ORDER)  # It is not pending any more.
    moves.take_up("m", ORDER)
    moves.take_up("m", ORDER)

    assert (dict(places.parked), dict(places.pending)) == ({}, {"m": one})
    assert moves.actions == [
        AskWithdrawn(one),
        AskParked(one),
        MemberMoved(ORDER, one, AskPlace.PARKED),
        AskUnparked(one),
        AsksPending((one,)),
        MemberMoved(ORDER, one, AskPlace.PENDING),
    ]


def test_what_held_a_node_is_given_up_and_put_back() -> None:
    one = member("m")
    moves, places = moves_of(one)
    held = allocation(one)
    places.bind((held,))

    moves.give_up(held, Reason.NODE_LOST, ORDER)
    moves.put_back(one, ORDER, park=True, lost=True, was_bound=True)

    freed, made, *rest = moves.actions
    assert isinstance(made, DecisionMade)
    assert (freed, made.decision.reason) == (AllocationEnded(held), Reason.NODE_LOST)
    assert rest == [
        AskParked(one, was_bound=True),
        MemberMoved(ORDER, one, AskPlace.PARKED, lost=True),
    ]
    places.check()


def test_an_ask_is_removed_from_wherever_it_is() -> None:
    bound, parked, pending = member("b"), member("p"), ask("w", vcore=1)
    moves, places = moves_of(bound, parked, pending)
    places.bind((allocation(bound),))
    moves.set_aside("p", ORDER)

    for name in "bpw":
        moves.remove(name, Reason.REMOVED, ORDER)

    assert places.is_empty()
    places.check()
    ends = [action.ask.name for action in moves.actions if isinstance(action, MemberMoved)]
    assert ends == ["p", "b", "p"]  # set aside, then removed; what is no member moves for no gang


# Binds that will fail


def test_binds_that_will_fail_are_counted_down_by_commits() -> None:
    app = Application()
    app.add(wish())
    assert app.spoil("x", 2).actions == (BindsWillFail("x", 2),)
    app.commit(failed=("x",))
    assert app.spoil("x").actions == (BindsWillFail("x", 2),)
    app.commit("x", failed=("x", "x"))

    assert app.spoil("x").actions == (BindsWillFail("x", 1),)


def test_an_ask_that_does_not_exist_cannot_be_spoilt() -> None:
    app = Application()

    message = app.refused(SpoilBinds(app.origin(), "x", 1))
    assert message == "ask: 'x' is no ask of application 'app'"


def test_too_many_failing_binds_are_refused() -> None:
    app = Application()
    app.add(wish())
    app.spoil("x", SPOILT_LIMIT)

    assert app.refused(SpoilBinds(app.origin(), "x", 1)).startswith("times: 1 more")


def test_what_goes_takes_its_failing_binds_along() -> None:
    app = Application()
    app.add(wish())
    app.spoil("x", 5)
    app.withdraw("x")
    app.add(wish())

    assert app.spoil("x").actions == (BindsWillFail("x", 1),)


def test_what_completes_says_that_no_bind_will_fail() -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")
    app.spoil("x-0", 5)

    assert BindsWillFail("x-0", 0) in app.release("x-0").actions


# Work that was not started


def test_a_bound_ask_that_was_not_started_is_pending_again() -> None:
    app = Application()
    app.add(wish(count=2, priority=4))
    app.commit("x-0", "x-1")
    before = app.asks["x-0"]
    report = app.undo("x-0")

    assert decisions_of(report) == [
        Decision(
            Kind.RELEASED,
            app="app",
            ask="x-0",
            node="n",
            queue="root.a",
            reason=Reason.BIND_FAILED,
        )
    ]
    assert report.values == Values(4, {"vcore": 1}, {"vcore": 1})
    assert (app.asks["x-0"], app.was_bound["x-0"]) == (before, True)
    assert not app.was_bound["x-1"]


def test_no_state_goes_back_when_nothing_was_started() -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")
    app.undo("x-0")
    assert app.state() is AppState.STARTING

    app.commit("x-0")
    app.undo("x-0")
    assert app.state() is AppState.RUNNING


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            "x-1",
            "ask: 'x-1' of application 'app' is not bound; use fail_bind to let its next bind fail",
        ),
        ("y", "ask: 'y' is no ask of application 'app'"),
    ],
)
def test_only_what_is_bound_can_fail_to_start(ask: str, message: str) -> None:
    app = Application()
    app.add(wish(count=2))
    app.commit("x-0")

    assert app.refused(UndoBind(app.origin(), ask)) == message


def test_what_is_not_started_keeps_the_binds_that_will_fail() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.spoil("x", 2)
    app.undo("x")

    assert app.spoil("x").actions == (BindsWillFail("x", 3),)


def fail(app: Application, ask: str = "x", message: str | None = None) -> AppReport:
    return app.tell(FailAsk(app.origin(), ask, message))


def row(report: AppReport) -> list[FailureCount]:
    return [action for action in report.actions if isinstance(action, FailureCount)]


def released(reason: Reason, message: str | None = None) -> Decision:
    return Decision(
        Kind.RELEASED,
        app="app",
        ask="x",
        node="n",
        queue="root.a",
        reason=reason,
        message=message,
    )


def test_an_ask_that_failed_is_pending_again_with_one_retry_less() -> None:
    app = Application()
    app.add(wish(retries=2, run_for_us=7))
    app.commit("x")
    before = app.asks["x"]
    report = fail(app, message="exit status 3")

    assert decisions_of(report) == [released(Reason.FAILED, "exit status 3")]
    assert app.asks["x"] == before._replace(retries=1)
    assert app.was_bound["x"]
    assert app.state() is AppState.STARTING
    assert row(report) == [FailureCount("x", FailedBinds(1, 0))]


def test_an_ask_without_a_retry_is_gone() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.spoil("x")
    report = fail(app, message="exit status 3")

    assert decisions_of(report)[0] == released(Reason.FAILED, "exit status 3")
    assert app.machine.snapshot().asks == ()
    assert app.state() is AppState.COMPLETING


def test_the_last_retry() -> None:
    app = Application()
    app.add(wish(retries=1))
    app.commit("x")
    fail(app)
    app.commit("x")

    assert row(fail(app)) == [FailureCount("x", None)]
    assert app.machine.snapshot().asks == ()


# BACKOFF-11
@pytest.mark.parametrize("message", ["all done", " a\n", ""])
def test_what_a_completed_ask_has_to_say(message: str) -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    report = app.tell(ReleaseAsk(app.origin(), "x", message))

    assert decisions_of(report)[0] == released(Reason.COMPLETED, message)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ("x-1", "ask: 'x-1' of application 'app' is not bound; use remove_ask"),
        ("y", "ask: 'y' is no ask of application 'app'"),
    ],
)
def test_only_what_is_bound_can_fail(ask: str, message: str) -> None:
    app = Application()
    app.add(wish(count=2, retries=1))
    app.commit("x-0")

    assert app.refused(FailAsk(app.origin(), ask)) == message
    assert [one.retries for one in app.machine.snapshot().asks] == [1, 1]


def test_a_row_goes_on_until_the_ask_loses_its_node() -> None:
    app = Application()
    app.add(wish(retries=5))
    app.commit("x")
    assert row(app.undo("x")) == [FailureCount("x", FailedBinds(1, 0))]
    app.commit("x")
    assert row(fail(app)) == [FailureCount("x", FailedBinds(2, 0))]
    assert app.machine.snapshot().asks[0].failed_binds == 2

    app.commit("x")
    assert row(app.tell(LoseNode(app.origin(), "n"))) == [FailureCount("x", None)]
    app.commit("x")
    assert row(app.tell(UndoBind(app.origin(), "x"))) == [FailureCount("x", FailedBinds(1, 0))]


def test_commits_bring_the_rows_of_the_rounds() -> None:
    app = Application()
    app.add(wish())
    app.machine.handle(CommitApp(in_a_row=(("x", FailedBinds(3, 44)),)))
    shown = app.machine.snapshot().asks[0]
    assert (shown.failed_binds, shown.last_failed_us) == (3, 44)

    app.machine.handle(CommitApp(in_a_row=(("x", None),)))
    shown = app.machine.snapshot().asks[0]
    assert (shown.failed_binds, shown.last_failed_us) == (0, None)


def test_what_goes_takes_its_row_along() -> None:
    app = Application()
    app.add(wish())
    app.commit("x")
    app.undo("x")

    assert row(app.withdraw("x")) == [FailureCount("x", None)]
    app.add(wish())
    app.commit("x")
    assert row(app.undo("x")) == [FailureCount("x", FailedBinds(1, 0))]


S = 1_000_000


@pytest.mark.parametrize(
    ("times", "factor"),
    [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 64), (63, 64), (10**9, 64)],
)
def test_a_back_off_doubles_up_to_64_times_the_delay(times: int, factor: int) -> None:
    assert FailedBinds(times, 5).until_us(10 * S) == 5 + factor * 10 * S


def test_without_a_delay_it_is_over_at_once() -> None:
    assert FailedBinds(3, 5).until_us(0) == 5


def test_failures_are_counted_in_a_row() -> None:
    first = one_more(None, 7)

    assert first == FailedBinds(1, 7)
    assert one_more(first, 9) == FailedBinds(2, 9)


BOUND, PARKED, PENDING = AskPlace.BOUND, AskPlace.PARKED, AskPlace.PENDING


class ApplicationWithBinds:
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
            if isinstance(action, AsksPending):
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
    app = ApplicationWithBinds()
    request = AddAsks(app.origin(77), wish(name="y", count=2), 5, preempts=preempts)
    (pending,) = (one for one in app.tell(request).actions if isinstance(one, AsksPending))

    assert [(ask.preempts, ask.came_us) for ask in pending.asks] == [(preempts, 77)] * 2


def test_so_does_one_that_comes_bound() -> None:
    app = ApplicationWithBinds()
    request = AddPlaced(app.origin(77), wish(name="y"), 5, "n", 9, preempts=True)
    (ask,) = [
        one.allocation.ask for one in app.tell(request).actions if isinstance(one, AllocationAdded)
    ]

    assert (ask.preempts, ask.came_us, ask.priority) == (True, 77, 5)


def test_what_it_knows_outlasts_the_loss_of_its_node() -> None:
    app = ApplicationWithBinds()
    app.tell(AddPlaced(app.origin(77), wish(name="y"), 5, "m", 9, preempts=True))
    app.tell(LoseNode(app.origin(99), "m"))

    assert (app.asks["y"].preempts, app.asks["y"].came_us) == (True, 77)


# A lost node


def lose(app: ApplicationWithBinds, *timed_out: str) -> dict[str, bool]:
    """Return for each ask that lost its node whether its delay begins anew."""
    report = app.tell(LoseNode(app.origin(), "n", frozenset(timed_out)))
    found = [action for action in report.actions if isinstance(action, AsksPending | AskParked)]
    return {
        ask.name: action.was_bound
        for action in found
        for ask in (action.asks if isinstance(action, AsksPending) else (action.ask,))
    }


def test_the_delay_of_what_was_bound_begins_anew() -> None:
    assert lose(ApplicationWithBinds()) == {"x-0": True, "x-1": True, "m-0": True, "m-1": False}


def test_so_it_does_for_what_is_parked() -> None:
    app = ApplicationWithBinds()

    assert lose(app, "default/g") == {"x-0": True, "x-1": True, "m-0": True, "m-1": False}
    assert {name: place for name, (place, _) in app.places().items()} == {
        **dict.fromkeys(("x-0", "x-1"), PENDING),
        **dict.fromkeys(("m-0", "m-1"), PARKED),
    }


def test_it_goes_on_for_what_comes_or_is_unparked() -> None:
    app = ApplicationWithBinds()
    report = app.tell(AddAsks(app.origin(), members("g", "late", app="app"), 0, parked=True))
    (parked,) = [action for action in report.actions if isinstance(action, AskParked)]
    report = app.tell(UnparkAsks(app.origin(), ("late",)), AddAsks(app.origin(), wish(), 0))

    pending = [action for action in report.actions if isinstance(action, AsksPending)]
    assert not parked.was_bound
    assert [action.was_bound for action in pending] == [False] * len(pending)


# What a batch takes


def test_a_bound_ask_that_was_taken_is_pending() -> None:
    app = ApplicationWithBinds()
    app.commit(CommitApp(released=("x-1",)))

    assert app.places()["x-1"] == (PENDING, None)
    assert app.machine.values() == Values(3, {"vcore": 1}, {"vcore": 3})
    assert app.state() is AppState.RUNNING


def test_bound_and_waiting_ones_in_one_commit() -> None:
    app = ApplicationWithBinds()
    app.commit(CommitApp(released=("m-1", "m-0", "x-0")))

    assert {name: place for name, (place, _) in app.places().items()} == {
        **dict.fromkeys(("x-0", "m-0", "m-1"), PENDING),
        "x-1": BOUND,
    }
    assert app.machine.values() == Values(3, {"vcore": 3}, {"vcore": 1})


def test_one_that_was_taken_and_bound_elsewhere() -> None:
    app = ApplicationWithBinds()
    app.commit(CommitApp(released=("x-0",), bound=(app.hold("x-0", "m"),)))

    assert app.places()["x-0"] == (BOUND, "m")
    assert app.machine.values().allocated == {"vcore": 4}
    assert app.machine.values().pending == {}


def test_one_that_was_taken_and_waits_elsewhere() -> None:
    app = ApplicationWithBinds()
    app.commit(CommitApp(released=("m-0",), waiting=(app.hold("m-0", "m"),)))

    assert app.places()["m-0"] == (AskPlace.WAITING, "m")


def test_one_that_was_taken_and_is_parked() -> None:
    app = ApplicationWithBinds()
    app.commit(CommitApp(released=("m-0", "x-0"), parked=("m-0",)))

    assert app.places()["m-0"] == (PARKED, None)
    assert app.places()["x-0"] == (PENDING, None)
    assert app.machine.values() == Values(3, {"vcore": 1}, {"vcore": 2})


def test_what_was_taken_keeps_its_place_in_the_order() -> None:
    app = ApplicationWithBinds()
    before = app.held["x-1"].ask
    app.commit(CommitApp(released=("x-1",)))
    app.commit(CommitApp(bound=(attrs.evolve(app.hold("x-1"), node="m"),)))
    (again,) = [action for action in lose_on(app, "m") if isinstance(action, AsksPending)]

    assert again.asks == (before,)


def lose_on(app: ApplicationWithBinds, node: str) -> list[object]:
    return list(app.tell(LoseNode(app.origin(), node)).actions)
