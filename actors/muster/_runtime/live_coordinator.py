"""The coordinator of a running scheduler: batches of waiting calls, and timers by a clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, assert_never, final

import trio

from muster._errors import ClosedSchedulerError, WorkFailedError
from muster._runtime.batches import Batches, Journal
from muster._runtime.clients.binding import Bindings
from muster._runtime.clients.calls import (
    Call,
    EndAllocation,
    Enter,
    Entered,
    LookInto,
    Note,
    SettleNow,
    StartFailed,
    Survey,
    TimeIsUp,
    TrackAsk,
    TrackGang,
    Why,
    WithdrawAsk,
    WorkEnded,
    WorkStarted,
    refuse,
)
from muster._runtime.clients.observers import Observers
from muster._runtime.clients.tracking import Held, TrackedAsk, Tracker
from muster._runtime.entry import Entry
from muster._runtime.owners import broken
from muster._runtime.pace import Pace
from muster._runtime.timekeeper import Timekeeper
from muster_core.decisions import Announced
from muster_core.errors import MusterError, RefusedError
from muster_core.events import AddAsk, BindFailed, Event, Outcome, Release, RemoveAsk
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster._runtime.mailbox import Interleave
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps


class Record(Protocol):
    """An object of a program that receives all accepted events and the ends of batches, in order.

    A :class:`muster.Simulation` makes the same decisions if it gets the same events at the same
    instants, and its batches are closed at the same places.
    """

    def enter(self, at_us: int, event: Event, /) -> None:
        """Receive an event and its instant, in microseconds since the opening."""
        ...

    def close(self, at_us: int, /) -> None:
        """Receive the end of a batch and its instant, in microseconds since the opening."""
        ...


@final
class LiveCoordinator:
    """Runs a batch of all calls that wait at the entry, as soon as the last batch has ended.

    Args:
        machine: The machine, which only this task uses.
        journal: Receives the decisions, or None.
        interleave: See :data:`muster._runtime.mailbox.Interleave`.
        pace: The pace of all tasks of the scheduler.
        entry: The queue of calls and notes.
        timekeeper: Knows the time, and reports when a timer is due.
        tracker: Tracks asks and gangs.
        observers: The observers.
        bindings: Runs the binder, or None without one.
        attempts: How often in a row an ask may end as ``bind_failed``; None for no limit.
        record: Receives accepted events and ends of batches, or None.
    """

    def __init__(
        self,
        *,
        machine: CoordinatorMachine,
        journal: Journal | None,
        interleave: Interleave | None,
        pace: Pace,
        entry: Entry[Call | Note],
        timekeeper: Timekeeper,
        tracker: Tracker,
        observers: Observers,
        bindings: Bindings | None,
        attempts: int | None,
        record: Record | None,
    ) -> None:
        self._batches = Batches(machine, journal, interleave, pace, self._after)
        self._pace = pace
        self._entry = entry
        self._timekeeper = timekeeper
        self._tracker = tracker
        self._observers = observers
        self._bindings = bindings
        self._attempts = attempts
        self._record = record
        self._nursery: trio.Nursery
        #: The calls and notes that were taken from the entry and are not answered.
        self._serving: list[Call | Note] = []
        #: How many events were accepted; the index of the next event.
        self._index = 0
        #: The positions of the events of each call in this batch.
        self._positions: dict[Call | Note, list[int]] = {}
        #: The allocations that events of this batch end.
        self._ended: set[Held] = set()
        #: Whether the view contains the effects of all events of callers in this batch.
        self._is_view_current = True

    async def run(self, nursery: trio.Nursery, done: trio.Event) -> None:
        """Serve calls until the entry is closed.

        Args:
            nursery: The nursery of the owners of state and of the binder.
            done: Set when everything that was accepted has been carried out.

        Raises:
            BrokenSchedulerError: If the coordinator itself fails because of a bug.
            Exception: What the journal or the record raises, unchanged.
        """
        self._nursery = nursery
        ended: MusterError | None = ClosedSchedulerError("the scheduler did not end as it should")
        try:
            self._batches.start(nursery)
            nursery.start_soon(self._timekeeper.run)
            await self._close()
            while await self._entry.wait():
                await self._serve(list(self._waiting()))
            await self._batches.close()
            ended = None
            done.set()
        except Exception as error:
            if self._batches.is_foreign(error):
                raise
            raise broken("coordinator", "", self._serving) from error
        finally:
            self._entry.close()
            for call in (*self._serving, *self._waiting()):
                refuse(call)
            self._tracker.close()
            self._observers.close(ended)

    def _waiting(self) -> Iterator[Call | Note]:
        """Yield all calls and notes that wait at the entry."""
        while self._entry:
            yield self._entry.take()

    async def _serve(self, calls: list[Call | Note]) -> None:
        """Run a batch for calls, then answer them."""
        self._serving = [call for call in calls if _take(call)]
        self._pace.start()
        # Instants never go back, even if a faulty clock does.
        now_us = max(self._timekeeper.now_us(), self._batches.machine.now_us)
        # Timers run first, in batches of their own: a call about something that a timer ends now
        # comes too late.
        await self._batches.run_timers(now_us)
        before = self._index
        for call in self._serving:
            await self._enter(call, now_us)
        if self._index != before:
            await self._close()
        # No cancellation comes between the announcement of a batch and its answers.
        await self._pace.take(self._answer_all(), shield=True)
        for call in self._serving:
            await self._show(call)
        self._serving = []
        self._positions.clear()
        self._ended.clear()
        self._is_view_current = True
        self._timekeeper.aim(self._batches.machine.next_deadline_us())

    async def _close(self) -> None:
        self._batches.begin()
        await self._batches.end()

    # Before the batch is closed

    async def _enter(self, call: Call | Note, now_us: int) -> None:
        """Submit the events of a call."""
        match call:
            case Enter():
                events: Sequence[Event] = call.events
                self._is_view_current = False
            case EndAllocation(ask, held, outcome, message):
                events = await self._end(ask, held, Release(ask.app, ask.name, outcome, message))
            case WorkEnded(ask, held, failure):
                events = await self._end(ask, held, _release(ask, failure))
                if events:
                    held.error = failure
            case WithdrawAsk(ask):
                await self._update_view()
                there = self._tracker.has(ask)
                events = [RemoveAsk(ask.app, ask.name)] if there else []
            case StartFailed(ask, held, error, counts):
                events = await self._end(ask, held, BindFailed(ask.app, ask.name))
                if (
                    events
                    and counts
                    and self._tracker.count_failed_bind(ask, error, self._attempts)
                ):
                    events = [*events, RemoveAsk(ask.app, ask.name)]
            case _:
                return
        positions = self._positions[call] = list[int]()
        for event in events:
            if self._pace.is_up():
                await self._pace.rest()
            positions.append(await self._let_in(event, now_us))

    async def _end(self, ask: TrackedAsk, held: Held, event: Event) -> Sequence[Event]:
        """Return the event that ends an allocation; nothing if the allocation has ended already.

        The name of the ask is not enough: the ask may be bound again by now, or another ask may
        have its name.
        """
        await self._update_view()
        if held in self._ended or not self._tracker.holds(ask, held):
            return []
        self._ended.add(held)
        return [event]

    async def _update_view(self) -> None:
        """Bring the effects of the callers' events into the view."""
        if not self._is_view_current:
            await self._batches.hear_owners()
            self._is_view_current = True

    async def _let_in(self, event: Event, now_us: int) -> int:
        """Submit an event and return its position."""
        if self._record is not None:
            with self._batches.blamed():
                self._record.enter(now_us, event)
        await self._batches.enter(event, self._index)
        self._index += 1
        return self._batches.machine.entered

    # After the batch has ended

    def _after(self, announced: Sequence[Announced], gangs: set[str]) -> Steps[None]:
        """Publish what a batch has decided, also a batch of a timer, and start bound work."""
        if self._record is not None:
            with self._batches.blamed():
                self._record.close(self._batches.machine.now_us)
        bound = yield from self._tracker.update(announced, gangs)
        yield from self._observers.publish(announced)
        if self._bindings is not None:
            for ask in bound:
                held = ask.status.value.held
                assert held is not None, "an ask is bound to nothing"
                self._bindings.start(self._nursery, ask, held)
                yield

    def _answer_all(self) -> Steps[None]:
        for call in self._serving:
            yield
            if isinstance(call, Enter):
                call.answer.give((yield from self._entered(call)))
            else:
                self._answer(call)

    def _answer(self, call: Call | Note) -> None:
        match call:
            case Enter():
                pass
            case EndAllocation():
                call.answer.give(any(one is None for one in self._refusals(call)))
            case WithdrawAsk():
                self._answer_withdrawal(call)
            case SettleNow():
                call.answer.give(None)
            case TrackAsk():
                try:
                    call.answer.give(self._tracker.track(call.app, call.ask))
                except RefusedError as error:
                    call.answer.fail(error)
            case TrackGang():
                call.answer.give(self._tracker.track_gang(call.gang))
            case WorkStarted():
                self._tracker.started(call.ask, call.held)
            case TimeIsUp() | WorkEnded() | StartFailed() | Survey() | Why() | LookInto():
                pass
            case _:
                assert_never(call)

    async def _show(self, call: Call | Note) -> None:
        """Answer a call that reads the state and changes nothing."""
        match call:
            case Survey():
                call.answer.give(await self._batches.snapshot())
            case Why():
                call.answer.give(self._batches.explain(call.app, call.ask))
            case LookInto():
                call.answer.give(await self._batches.examine(call.examiner))
            case _:
                pass

    def _answer_withdrawal(self, call: WithdrawAsk) -> None:
        ask = call.ask
        gone = RefusedError(f"ask: {ask.name!r} of application {ask.app!r} is gone")
        refusal = next(self._refusals(call), gone)
        if refusal is None:
            call.answer.give(None)
        else:
            call.answer.fail(refusal)

    def _refusals(self, call: Call | Note) -> Iterator[RefusedError | None]:
        """Yield, for each event of a call, the error with which it was refused, or None."""
        for position in self._positions[call]:
            message = self._batches.machine.refusal_of(position)
            yield None if message is None else RefusedError(message)

    def _entered(self, call: Enter) -> Steps[Entered]:
        refusals: list[RefusedError | None] = []
        for piece in in_pieces(self._refusals(call)):
            refusals.extend(piece)
            yield
        asks: list[TrackedAsk] = []
        if call.track:
            for event, seq, refusal in zip(
                call.events, self._positions[call], refusals, strict=True
            ):
                if isinstance(event, AddAsk) and refusal is None:
                    asks.extend((yield from self._tracker.track_new(event.app, event.names(), seq)))
        return Entered(tuple(refusals), tuple(asks))


def _release(ask: TrackedAsk, failure: WorkFailedError | None) -> Release:
    """Return the event that says how the work of an ask has ended."""
    if failure is None:
        return Release(ask.app, ask.name)
    return Release(ask.app, ask.name, Outcome.FAILED, str(failure) or None)


def _take(call: Call | Note) -> bool:
    """Begin a call, and return whether it was not withdrawn."""
    return isinstance(call, Note) or call.answer.take()
