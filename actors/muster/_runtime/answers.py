"""Answers to the calls of a batch, and dry runs.

The answers have the result of each event of a call. A dry run tries events on a copy of the state,
and returns the refusals and decisions that would follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, assert_never, final

import attrs

from muster._runtime.calls import (
    AnyCall,
    Changing,
    EndAllocation,
    Enter,
    EventResults,
    Guard,
    Note,
    StartFailed,
    TimerDue,
    WithdrawAsk,
    WorkEnded,
    WorkStarted,
)
from muster._runtime.tracking import TrackedAsk, Tracker
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.errors import RefusedError
from muster_core.events import AddAsk, Event
from muster_core.facts import Facts
from muster_core.structures.steps import Steps, in_pieces

NOWHERE: Final = -1
"""The position of an event that was not let in."""


@final
class Answers:
    """The answers to the calls of one batch after the other.

    Args:
        machine: Knows which events were refused.
        tracker: Tracks the asks that calls want to track.

    Attributes:
        seqs: The numbers of the first and the last decision of the batch; None without any.
    """

    def __init__(self, machine: CoordinatorMachine, tracker: Tracker) -> None:
        self._machine = machine
        self._tracker = tracker
        #: The positions of the events of each call in this batch.
        self._positions: dict[AnyCall | Note, Sequence[int]] = {}
        #: The index of the first event of each call.
        self._firsts: dict[AnyCall | Note, int] = {}
        #: Why events of a call were not let in, by their place in the call.
        self._denied: dict[AnyCall | Note, Mapping[int, str]] = {}
        self.seqs: tuple[int, int] | None = None

    def note(
        self, call: AnyCall | Note, positions: Sequence[int], first: int, denied: Mapping[int, str]
    ) -> None:
        """Record the positions of the events of a call.

        Args:
            call: The call.
            positions: The position of each event, or :data:`NOWHERE`.
            first: The index of the first one.
            denied: Why some were not let in, by their place in the call; nothing of those that
                another one of their call kept out.
        """
        self._positions[call] = positions
        self._firsts[call] = first
        if denied:
            self._denied[call] = denied

    def forget(self) -> None:
        """Forget the calls of the batch, which are answered."""
        self._positions.clear()
        self._firsts.clear()
        self._denied.clear()

    def give(self, calls: Sequence[Changing | Note]) -> Steps[None]:
        """Answer calls."""
        for call in calls:
            yield
            answer = yield from self._answer(call)
            if answer is not None:
                answer()

    def prepare(self, calls: Sequence[Changing | Note]) -> Steps[list[Callable[[], None]]]:
        """Return the functions that answer calls."""
        answers: list[Callable[[], None]] = []
        for call in calls:
            yield
            answer = yield from self._answer(call)
            if answer is not None:
                answers.append(answer)
        return answers

    def _answer(self, call: Changing | Note) -> Steps[Callable[[], None] | None]:
        """Return the function that answers a call; None for a note, which gets no answer."""
        match call:
            case Enter():
                return partial(call.answer.give, (yield from self._entered(call)))
            case EndAllocation():
                ended = any(one is None for one in self._refusals(call))
                return partial(call.answer.give, ended)
            case WithdrawAsk():
                return self._answer_withdrawal(call)
            case WorkStarted():
                self._tracker.started(call.ask, call.held)
            case TimerDue() | WorkEnded() | StartFailed():
                pass
            case _:
                assert_never(call)
        return None

    def _answer_withdrawal(self, call: WithdrawAsk) -> Callable[[], None]:
        ask = call.ask
        gone = RefusedError(f"ask: {ask.name!r} of application {ask.app!r} is gone")
        refusal = next(self._refusals(call), gone)
        if refusal is None:
            return partial(call.answer.give, None)
        return partial(call.answer.fail, refusal)

    def _refusals(self, call: AnyCall | Note) -> Iterator[RefusedError | None]:
        """Yield, for each event of a call, the error with which it was refused, or None."""
        denied = self._denied.get(call, {})
        for index, position in enumerate(self._positions[call]):
            if position == NOWHERE:
                message = denied.get(index)
            else:
                message = self._machine.refusal_of(position)
            yield None if message is None else RefusedError(message)

    def _entered(self, call: Enter) -> Steps[EventResults]:
        refusals: list[RefusedError | None] = []
        for piece in in_pieces(self._refusals(call)):
            refusals.extend(piece)
            yield
        asks: list[TrackedAsk] = []
        positions = self._positions[call]
        if call.track:
            for event, seq, refusal in zip(call.events, positions, refusals, strict=True):
                if isinstance(event, AddAsk) and refusal is None:
                    asks.extend((yield from self._tracker.track_new(event.app, event.names(), seq)))
        is_in = any(position != NOWHERE for position in positions)
        batch, seqs = (self._machine.batches, self.seqs) if is_in else (0, None)
        return EventResults(tuple(refusals), tuple(asks), self._firsts[call], batch, seqs)


@final
@attrs.frozen
class DryRunResult:
    """The refusals and decisions that events would lead to.

    Attributes:
        errors: Why events would be refused, by their number.
        decisions: The decisions of their batch, as lines of the decision log.
    """

    errors: Mapping[int, str]
    decisions: Sequence[dict[str, object]] = ()


def try_events(
    facts: Facts, now_us: int, events: Sequence[Event], guard: Guard | None, *, decides: bool = True
) -> DryRunResult:
    """Return the refusals and decisions of events if they were let in now; it may take long.

    Args:
        facts: The state.
        now_us: The present instant, in microseconds.
        events: The events.
        guard: Judges which of them are let in, or None to let in all.
        decides: Whether to return the decisions, too, not only the refusals.
    """
    scheduler = PlainScheduler(facts=facts)
    machine = scheduler.machine
    scheduler.pass_until(now_us)  # Timers that are due go off before, in batches of their own.
    scheduler.announced = []
    index = facts.coordinator.requests
    denied: dict[int, str] = {}
    positions: dict[int, int] = {}
    for number, event in enumerate(events):
        if guard is not None:
            if guard.must_hear_first(event, machine):
                scheduler.collect_reports()
            if (refusal := guard.refusal(event, machine)) is not None:
                denied[number] = refusal
                continue
        scheduler.submit(event, index=index)
        index += 1
        positions[number] = machine.entered
    if positions and decides:
        scheduler.settle()
    elif positions:
        scheduler.collect_reports()
    refusals = {number: machine.refusal_of(position) for number, position in positions.items()}
    refused = {number: one for number, one in refusals.items() if one is not None}
    tried = DryRunResult(denied | refused, [one.as_map() for one in scheduler.announced])
    # Freeing all of it at once would hold up the other threads.
    for _ in scheduler.free():
        pass
    return tried
