"""The coordinator of a running scheduler: batches of waiting calls, and timers by a clock.

With a store, a batch is announced after it is on disk, and meanwhile the next one is decided. What
a call reads is what was announced: such a call waits until the batches before it are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.announcer import (
    Announcement,
    Announcer,
    BatchObserver,
    ForeignErrors,
    Journal,
    JournalWriter,
    ProgramSink,
    Record,
)
from muster._runtime.answers import NOWHERE, Answers, DryRunResult, try_events
from muster._runtime.batches import Batches, DecidedBatch, KeptRequest
from muster._runtime.bindings import Bindings
from muster._runtime.calls import (
    AnyCall,
    Changing,
    EndAllocation,
    Enter,
    Follow,
    Guard,
    Inspect,
    Lead,
    Note,
    StartFailed,
    TakeCheckpoint,
    WithdrawAsk,
    WorkEnded,
    refuse,
)
from muster._runtime.clock import Meter, Pace, Timekeeper
from muster._runtime.entry import EntryQueue
from muster._runtime.observers import Immediate, Observers, Staged
from muster._runtime.owners import Interleave, broken_error
from muster._runtime.tracking import AllocationStatus, TrackedAsk, Tracker
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import MusterError, RefusedError
from muster_core.events import BindFailed, Configure, Event, Release, RemoveAsk
from muster_core.facts import Facts
from muster_core.snapshots import Statistics
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster._runtime.storage import Storage
    from muster_core.config.model import Configuration


_TOGETHER: Final = 256
"""How many batches of the start are written in one transaction at most."""

_BEGINS_AGAIN: Final = "the program has started again, and its binder does not resume work"
"""Why the work of an allocation from an earlier run of the program begins again."""


_READING: Final = (Inspect, TakeCheckpoint)
"""The calls that read the state when everything before them is announced."""


@final
class LiveCoordinator:
    """Runs a batch of all calls that wait at the entry, as soon as the last batch has ended.

    Args:
        machine: The machine, which only this task uses.
        journal: Receives the decisions, or None.
        interleave: See :data:`muster._runtime.owners.Interleave`.
        pace: The pace of all tasks of the scheduler.
        entry: The queue of calls and notes.
        timekeeper: Knows the time, and reports when a timer is due.
        observers: The observers.
        bindings: Runs the binder, or None without one.
        attempts: How often in a row an ask may end as ``bind_failed``; None for no limit.
        record: Receives accepted events and ends of batches, or None.
        storage: Keeps the events and decisions, or None.
        first: The configuration to begin with; None for that of the machine.
        comes_in: Tells whether ``first`` comes in, where the store has another one; None: it does.
        companion: Observes every batch, or None.
        meter: Measures batches, or None.
        follows: Whether the batches of a leader are decided again, until :class:`Lead` comes.

    Attributes:
        ready: Set when what is in the store was loaded, and the first batch is announced.
    """

    def __init__(  # noqa: PLR0913 - the parts of a running scheduler
        self,
        *,
        machine: CoordinatorMachine,
        journal: Journal | None,
        interleave: Interleave | None,
        pace: Pace,
        entry: EntryQueue[AnyCall | Note],
        timekeeper: Timekeeper,
        observers: Observers,
        bindings: Bindings | None,
        attempts: int | None,
        record: Record | None,
        storage: Storage | None = None,
        first: Configuration | None = None,
        comes_in: Callable[[Configuration], bool] | None = None,
        companion: BatchObserver | None = None,
        meter: Meter | None = None,
        follows: bool = False,
    ) -> None:
        self._follows = follows
        self._foreign_errors = ForeignErrors()
        self._batches = Batches(
            machine,
            interleave,
            pace,
            self._announce,
            keeps=storage is not None or companion is not None,
        )
        self._companion = companion
        self._meter = meter
        self._pace = pace
        self._entry = entry
        self._timekeeper = timekeeper
        self._observers = observers
        self._bindings = bindings
        self._attempts = attempts
        self._record = record
        self._storage = storage
        self._first = first
        self._comes_in = comes_in
        self.ready = trio.Event()
        #: What was announced so far, if announcing comes later than deciding.
        self._statistics: Statistics | None = None
        self._nursery: trio.Nursery
        self._sink = ProgramSink(
            JournalWriter(journal, self._foreign_errors, pace),
            record,
            observers,
            None if bindings is None else self._start_work,
            self._foreign_errors,
            keeps_events=storage is not None,
            companion=companion,
        )
        #: The values of a batch that is not on disk yet; None without a store.
        self._staged = None if storage is None else Staged()
        self._announcer = (
            None
            if storage is None
            else Announcer(storage.write, self._sink, self._foreign_errors, pace, meter)
        )
        #: The batches of the start that are not handed to the announcer; None after the start.
        self._gathered: list[Announcement] | None = None
        self._tracker = Tracker(
            machine, self._staged or Immediate(), all_bound=bindings is not None
        )
        self._answers = Answers(machine, self._tracker)
        #: The calls and notes that were taken from the entry, and that only this task can answer.
        self._serving: list[AnyCall | Note] = []
        #: How many events were accepted; the index of the next event.
        self._index = machine.requests
        #: The index of the first event of this batch.
        self._first_index = self._index
        #: The requests of clients in this batch that have a key.
        self._requests: list[KeptRequest] = []
        #: The allocations that events of this batch end.
        self._ended: set[AllocationStatus] = set()
        #: Whether the view contains the effects of all events of callers in this batch.
        self._is_view_current = True
        #: Trials never wait for the threads of others.
        self._trials = trio.CapacityLimiter(1)

    async def run(self, nursery: trio.Nursery, done: trio.Event) -> None:
        """Serve calls until the entry is closed.

        Args:
            nursery: The nursery of the owners of state and of the binder.
            done: Set when everything that was accepted has been carried out.

        Raises:
            RefusedError: If the configuration to begin with is refused.
            BrokenSchedulerError: If the coordinator itself fails because of a bug.
            StoreError: If the store cannot be read or written.
            Exception: What the journal or the record raises, unchanged.
        """
        self._nursery = nursery
        ended: MusterError | None = ClosedSchedulerError("the scheduler did not end as it should")
        try:
            await self._open()
            self.ready.set()
            while await self._entry.wait():
                await self._serve(list(self._next_batch()))
            await self._close()
            ended = None
            done.set()
        except Exception as error:
            if self._foreign_errors.is_for(error):
                raise
            raise broken_error("coordinator", "", self._serving) from error
        finally:
            self._entry.close(self._foreign_errors.error)
            for call in (*self._serving, *self._waiting()):
                refuse(call, self._foreign_errors.error)
            if self._announcer is None:
                self._publish_end(ended)
            else:
                # A batch that is being written may still be announced; nothing follows the end.
                self._announcer.at_end(partial(self._publish_end, ended))

    def _publish_end(self, ended: MusterError | None) -> None:
        """Notify handles and observers that the scheduler has ended.

        Args:
            ended: The error with which observers end, or None.
        """
        self._tracker.close()
        self._observers.close(ended)

    def _waiting(self) -> Iterator[AnyCall | Note]:
        """Yield all calls and notes that wait at the entry."""
        while self._entry:
            yield self._entry.take()

    # INPUT-30
    def _next_batch(self) -> Iterator[AnyCall | Note]:
        """Yield the calls of the next batch: all that wait, but an atomic one begins a batch."""
        yield self._entry.take()
        while self._entry and not _is_atomic(self._entry.first()):
            yield self._entry.take()

    # Opening and closing

    async def _open(self) -> None:
        """Start the owners, with what the store holds, and run the first batch."""
        storage, announcer = self._storage, self._announcer
        if storage is None or announcer is None:
            await self._batches.start(self._nursery)
            self._nursery.start_soon(self._timekeeper.run)
            if self._companion is not None:
                self._companion.begin()
            await self._run_batch(())
            return
        with self._foreign_errors:
            await storage.restore(self._batches, self._nursery)
            if self._companion is not None:
                await storage.retell(self._companion, self._batches)
                self._companion.begin()
        self._index = self._batches.machine.requests
        self._statistics = self._batches.machine.statistics()
        announcer.start(self._nursery)
        self._nursery.start_soon(self._timekeeper.run)
        if not self._follows:
            await self._begin(storage, announcer)

    async def _begin(self, storage: Storage, announcer: Announcer) -> None:
        """Begin to decide, where what was kept ends: with the first batch."""
        # With a binder, the work of what was bound when the last process ended is to be resumed.
        bound = await self._pace.take(self._tracker.adopt()) if self._bindings is not None else []
        self._pace.start()
        # No caller waits for a batch of the start, so many of them share one commit.
        self._gathered = []
        # Timers that came due while no process ran go off before anything else.
        await self._batches.run_timers(self._now_us())
        if self._first is not None and self._first_comes_in(is_new=storage.is_new):
            await self._run_batch([Configure(self._first)])
        elif storage.is_new:
            await self._run_batch(())
        await self._resume(bound)
        await self._hand_over()
        self._gathered = None
        await announcer.catch_up()
        self._timekeeper.aim(self._batches.machine.next_deadline_us())

    def _first_comes_in(self, *, is_new: bool) -> bool:
        """Return whether the configuration to begin with is to come in.

        Args:
            is_new: Whether nothing was kept before.
        """
        kept = self._batches.machine.configuration
        if self._first == kept:
            return False
        if is_new or self._comes_in is None:
            return True
        with self._foreign_errors:
            return self._comes_in(kept)

    async def _run_batch(self, events: Sequence[Event]) -> None:
        """Run a batch of events of the scheduler itself.

        Raises:
            RefusedError: If the first of several events, or the only one, is refused.
        """
        now_us = self._now_us()
        self._batches.begin()
        self._first_index = self._index
        positions = list[int]()
        for event in events:
            if self._pace.is_up():
                await self._pace.rest()
            positions.append(await self._let_in(event, now_us))
        await self._batches.end_and_announce()
        refusal = self._batches.machine.refusal_of(positions[0]) if positions else None
        if refusal is not None:
            if self._announcer is not None:
                await self._hand_over()
                await self._announcer.catch_up()
            with self._foreign_errors:
                raise RefusedError(refusal)

    async def _resume(self, bound: Sequence[tuple[TrackedAsk, AllocationStatus]]) -> None:
        """Resume the work of asks that were bound when the last process ended."""
        if self._bindings is None:
            return
        lasting = [(ask, held) for ask, held in bound if held.ended.decided is None]
        if self._bindings.can_resume:
            for ask, held in lasting:
                if self._pace.is_up():
                    await self._pace.rest()
                self._bindings.start(self._nursery, ask, held, resume=True)
        elif lasting:
            # The binder knows nothing of this work, so it begins again.
            await self._run_batch(
                [BindFailed(ask.app, ask.name, _BEGINS_AGAIN) for ask, _ in lasting]
            )

    async def _close(self) -> None:
        """Take the last checkpoint, and end the owners."""
        if self._storage is not None and self._announcer is not None:
            await self._announcer.close()
            with self._foreign_errors:
                beside = await self._state_of_companion()
                taken = [await self._batches.facts()]
                await self._storage.keep_checkpoint(taken, self._now_us(), beside)
        await self._batches.close()

    def _now_us(self) -> int:
        """Return the present instant, which never goes back, even if the clock does."""
        clock_us, last_us = self._timekeeper.now_us(), self._batches.machine.now_us
        if self._storage is not None:
            self._storage.notice_time(clock_us, last_us)
        return max(clock_us, last_us)

    # Serving

    async def _serve(self, calls: list[AnyCall | Note]) -> None:
        """Run a batch for calls, then answer them."""
        if self._follows:
            calls = await self._serve_as_follower(calls)
            if not calls:
                return
        self._serving = [call for call in calls if _take(call)]
        for call in self._serving:
            if isinstance(call, (Follow, Lead)):
                call.answer.fail(RefusedError("this server leads already"))
        began = perf_counter()
        self._pace.start()
        # Timers run first, in batches of their own: a call about something that a timer ends now
        # comes too late.
        now_us = self._now_us()
        await self._batches.run_timers(now_us)
        before = self._first_index = self._index
        for call in self._serving:
            await self._enter(call, now_us)
        decided = None
        if self._index != before:
            self._batches.begin()
            decided = await self._batches.end()
            if self._meter is not None:
                self._meter.decide.note(perf_counter() - began)
        reading = [call for call in self._serving if isinstance(call, _READING)]
        await self._announce(
            decided,
            [call for call in self._serving if not isinstance(call, (*_READING, Follow, Lead))],
        )
        # The others are answered, or the announcer answers them: their batch may be on disk.
        self._serving = [*reading]
        for call in reading:
            await self._show(call)
        self._serving = []
        self._answers.forget()
        self._ended.clear()
        self._is_view_current = True
        self._timekeeper.aim(self._batches.machine.next_deadline_us())
        if self._storage is not None and self._storage.wants_checkpoint:
            await self._take_checkpoint(None)

    # Following

    # REPLICA-5, REPLICA-6
    async def _serve_as_follower(self, calls: list[AnyCall | Note]) -> list[AnyCall | Note]:
        """Serve calls while another server leads; return those that come after :class:`Lead`."""
        self._serving = [*calls]
        self._pace.start()
        while self._serving and self._follows:
            call = self._serving[0]
            if _take(call):
                await self._serve_one_as_follower(call)
            del self._serving[0]
        if self._storage is not None and self._storage.wants_checkpoint:
            await self._take_checkpoint(None)
        left, self._serving = self._serving, []
        return left

    async def _serve_one_as_follower(self, call: AnyCall | Note) -> None:
        match call:
            case Follow():
                await self._decide_again(call)
            case Lead():
                await self._take_lead(call)
            case Inspect() | TakeCheckpoint():
                await self._show(call)
            case Enter() if not call.events:
                self._answers.note(call, [], self._index, {})
                await self._announce(None, [call])
                self._answers.forget()
            case Enter() | EndAllocation() | WithdrawAsk():
                call.answer.fail(RefusedError("this server follows another one, which decides"))
            case _:
                pass  # Notes of work, of which there is none, and of timers, which the leader has.

    async def _decide_again(self, call: Follow) -> None:
        """Decide batches of the leader again, and write them as the leader did."""
        storage, announcer = self._storage, self._announcer
        assert storage is not None, "a follower without a store"
        assert announcer is not None, "a follower without a store"
        if call.term > storage.term:
            with self._foreign_errors:
                await storage.begin_term(call.term)
        self._gathered = []
        for kept in call.batches:
            self._first_index = self._index
            decided = await self._batches.run_again(kept.at_us, kept.events)
            self._index = self._batches.machine.requests
            error = await storage.difference(kept, decided, call.version)
            if error is not None:
                call.answer.fail(error)
                with self._foreign_errors:
                    raise error
            requests = [one for one in call.requests if one.batch == kept.number]
            decided.copied = kept.row(), requests
            await self._announce(decided)
        await self._hand_over()
        self._gathered = None
        await announcer.catch_up()
        call.answer.give(None)

    # REPLICA-12
    async def _take_lead(self, call: Lead) -> None:
        """Lead from now on; the term is on disk before anything is decided."""
        storage, announcer = self._storage, self._announcer
        assert storage is not None, "a follower without a store"
        assert announcer is not None, "a follower without a store"
        await announcer.catch_up()
        with self._foreign_errors:
            await storage.begin_term(call.term)
        self._follows = False
        call.begins()
        # With `--sync strict` its first batch waits for a follower, which waits for this answer.
        call.answer.give(None)
        await self._begin(storage, announcer)

    async def _take_checkpoint(self, call: TakeCheckpoint | None) -> None:
        """Take the facts of a checkpoint now, and write them while batches go on.

        Args:
            call: The call that waits for it, or None.
        """
        if self._announcer is None:
            assert call is not None, "a checkpoint without a reason"
            call.answer.fail(RefusedError("there is no store: pass `store` to open_scheduler"))
            return
        await self._announcer.catch_up()
        beside = await self._state_of_companion()
        taken = [await self._batches.facts()]
        self._nursery.start_soon(self._keep_checkpoint, taken, beside, call)

    async def _state_of_companion(self) -> Sequence[bytes]:
        """Return the state of the companion, after all batches that were decided."""
        if self._companion is None:
            return ()
        return await self._pace.take(self._companion.save())

    async def _keep_checkpoint(
        self, taken: list[Facts], beside: Sequence[bytes], call: TakeCheckpoint | None
    ) -> None:
        assert self._storage is not None, "a checkpoint without a store"
        try:
            await self._storage.keep_checkpoint(taken, self._now_us(), beside)
            if call is not None:
                call.answer.give(None)
        finally:
            if call is not None:
                refuse(call, self._foreign_errors.error)  # unless it was answered

    # Before the batch is closed

    async def _enter(self, call: AnyCall | Note, now_us: int) -> None:
        """Submit the events of a call."""
        events = await self._events_of(call)
        if events is None:
            return
        positions = list[int]()
        denied: dict[int, str] = {}
        first, guard = self._index, call.guard if isinstance(call, Enter) else None
        if isinstance(call, Enter) and call.is_atomic:
            refused = await self._try(call, now_us)
            if refused:
                self._answers.note(call, [NOWHERE] * len(events), first, refused)
                return
            guard = None  # It has judged them all, in the state in which they are let in now.
        for event in events:
            if self._pace.is_up():
                await self._pace.rest()
            if guard is not None and (message := await self._judge(event, guard)) is not None:
                denied[len(positions)] = message
                positions.append(NOWHERE)
            else:
                positions.append(await self._let_in(event, now_us))
        self._answers.note(call, positions, first, denied)
        count = self._index - first
        if isinstance(call, Enter) and call.request is not None and count:
            self._requests.append(KeptRequest(call.request, first, count, denied))

    async def _events_of(self, call: AnyCall | Note) -> Sequence[Event] | None:
        """Return the events of a call; None if it never has any."""
        match call:
            case Enter():
                self._is_view_current = False
                return call.events
            case EndAllocation(ask, held, outcome, message, exited):
                release = Release(ask.app, ask.name, outcome, message, exited)
                return await self._end(ask, held, release)
            case WorkEnded(ask, held, failure):
                events = await self._end(ask, held, call.release())
                if events:
                    held.error = failure
                return events
            case WithdrawAsk(ask):
                await self._update_view()
                return [RemoveAsk(ask.app, ask.name)] if self._tracker.has(ask) else []
            case StartFailed(ask, held, error, counts):
                events = await self._end(ask, held, call.undo())
                if (
                    events
                    and counts
                    and self._tracker.count_failed_bind(ask, error, self._attempts)
                ):
                    return [*events, RemoveAsk(ask.app, ask.name)]
                return events
            case _:
                return None

    # INPUT-30
    async def _try(self, call: Enter, now_us: int) -> Mapping[int, str]:
        """Return why events of an atomic call would be refused, by their place in the call.

        No event of this batch was submitted before, and nothing else happens meanwhile.
        """
        assert self._index == self._first_index, "an atomic call that does not begin its batch"
        facts = [await self._batches.facts()]
        tried = await trio.to_thread.run_sync(_tried, facts, now_us, call, limiter=self._trials)
        return tried.errors

    async def _judge(self, event: Event, guard: Guard) -> str | None:
        """Return why an event is not let in, or None."""
        if guard.must_hear_first(event, self._batches.machine):
            self._is_view_current = False
            await self._update_view()
        return guard.refusal(event, self._batches.machine)

    async def _end(self, ask: TrackedAsk, held: AllocationStatus, event: Event) -> Sequence[Event]:
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
            await self._batches.collect_reports()
            self._is_view_current = True

    async def _let_in(self, event: Event, now_us: int) -> int:
        """Submit an event and return its position."""
        if self._record is not None and self._storage is None:
            with self._foreign_errors:
                self._record.enter(now_us, event)
        await self._batches.enter(event, self._index)
        self._index += 1
        return self._batches.machine.entered

    # After the batch has ended

    async def _announce(
        self, decided: DecidedBatch | None, calls: Sequence[Changing | Note] = ()
    ) -> None:
        """Announce a batch and answer calls: now, or when the batch is on disk.

        No cancellation comes between the announcement of a batch and its answers.
        """
        pace = self._pace
        if decided is not None:
            self._answers.seqs = decided.seqs()
            decided.first = self._first_index
            decided.requests, self._requests = self._requests, []
        if self._announcer is None or self._staged is None:
            if decided is not None:
                await self._sink.before(decided)
                bound = await pace.take(self._update(decided), shield=True)
                await pace.take(self._sink.after(decided, bound), shield=True)
            await pace.take(self._answers.give(calls), shield=True)
            if decided is not None:
                await decided.let_go(pace)
            return
        new = () if decided is None else await pace.take(self._update(decided), shield=True)
        answers = await pace.take(self._answers.prepare(calls), shield=True)
        publish = self._staged.take()
        if decided is not None:
            publish.append(partial(self._count, self._batches.machine.statistics()))
        announcement = Announcement(decided, publish, new, answers, calls)
        if self._gathered is not None:
            self._gathered.append(announcement)
            if len(self._gathered) >= _TOGETHER:
                await self._hand_over()
        elif decided is not None or announcement.publish or answers:
            await self._announcer.put(announcement)

    async def _hand_over(self) -> None:
        """Hand the gathered batches of the start to the announcer."""
        if self._announcer is not None and self._gathered:
            gathered, self._gathered = self._gathered, []
            await self._announcer.put(*gathered)

    def _count(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def statistics(self) -> Statistics:
        """Return how much was announced so far."""
        if self._statistics is None:
            return self._batches.machine.statistics()
        return self._statistics

    def _update(self, decided: DecidedBatch) -> Steps[list[tuple[TrackedAsk, AllocationStatus]]]:
        return self._tracker.update(decided.announced, decided.gangs)

    def _start_work(self, ask: TrackedAsk, held: AllocationStatus) -> None:
        assert self._bindings is not None, "work without a binder"
        # REPLICA-7
        if self._follows:
            return  # The leader has it run.
        self._bindings.start(self._nursery, ask, held)

    async def _show(self, call: Inspect[Any] | TakeCheckpoint) -> None:
        """Answer a call that reads the state and changes nothing."""
        if self._announcer is not None:
            await self._announcer.catch_up()
        if isinstance(call, TakeCheckpoint):
            await self._take_checkpoint(call)
            return
        try:
            call.answer.give(await call.look(self._batches, self._tracker))
        except MusterError as error:
            call.answer.fail(error)


def _is_atomic(call: AnyCall | Note) -> bool:
    """Return whether the events of a call are let in together or not at all."""
    return isinstance(call, Enter) and call.is_atomic


def _tried(facts: list[Facts], now_us: int, call: Enter) -> DryRunResult:
    """Return the result of a dry run; in a thread, which also frees the facts."""
    return try_events(facts.pop(), now_us, call.events, call.guard, decides=False)


def _take(call: AnyCall | Note) -> bool:
    """Begin a call, and return whether it was not withdrawn."""
    return isinstance(call, Note) or call.answer.take()
