"""Announcement of batches: to the store, the journal, observers, handles and callers.

A batch is announced at once, or with a store after its commit. With a store this is a task of its
own, so that the coordinator decides the next batch while the one before is written. At most one
batch is written, and one is decided and waits. At the start several batches are written together,
since no caller waits for the first of them.

The journal of a program gets decisions, and its record gets events. A companion is an object of the
program that observes every batch and whose state is kept with the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol, final

import trio

from muster._runtime.calls import AnyCall, Note, refuse
from muster._runtime.clock import Meter, Pace
from muster._runtime.observers import Observers
from muster._runtime.owners import broken_error
from muster._runtime.tracking import AllocationStatus, TrackedAsk
from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.structures.steps import Steps
from muster_core.values.records import record

if TYPE_CHECKING:
    from muster._runtime.batches import DecidedBatch


async def finish_within(awaitable: Awaitable[None], grace_s: float) -> None:
    """Await something, for some time even after the caller was cancelled.

    If it ends in that time, this returns, and the cancellation comes at the next checkpoint.

    Args:
        awaitable: What to wait for.
        grace_s: When to cancel it, in seconds of trio's clock after the caller was cancelled.

    Raises:
        BaseException: What the awaitable raises, unchanged.
        Cancelled: If the caller was cancelled and the time is over.
    """
    scope = trio.CancelScope(shield=True)
    error: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_limit, scope, grace_s)
        try:
            with scope:
                await awaitable
        except BaseException as raised:  # noqa: BLE001 - raised below, and not in a group
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        try:
            raise error
        finally:
            del error  # avoids a reference cycle through the traceback
    if scope.cancelled_caught:
        await trio.lowlevel.checkpoint_if_cancelled()


async def _limit(scope: trio.CancelScope, grace_s: float) -> None:
    """Limit a scope when this task is cancelled."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled:
        # It is not raised: a child that is cancelled from outside would end its nursery so.
        scope.deadline = trio.current_time() + grace_s


WRITE_GRACE_S: Final = 5.0
"""How long an asynchronous journal may write after the program was cancelled, in seconds."""


class Journal(Protocol):
    """An object of a program that receives all decisions.

    ``write`` may be asynchronous (``async def``): then other tasks run while it waits. With
    :mod:`muster.asyncio` it runs in the program's loop. It must not call the scheduler, which waits
    for it. When the block of the scheduler is cancelled or left by an exception, ``write`` may go
    on, so that a batch is not cut short. After five more seconds it is cancelled, and that batch is
    not announced. Callers wait for it, also those that are cancelled. So if it may hang, it needs a
    time limit of its own.

    A ``write`` that is not asynchronous stops the whole scheduler while it works. So a journal may
    have a method ``write_in_steps`` instead, as :class:`muster.feeds.DecisionLog` has. It is called
    instead of ``write``, and does the same as a generator, which yields wherever other tasks may
    run. It is not cancelled there.
    """

    def write(self, batch: Sequence[Announced], /) -> Awaitable[None] | None:
        """Receive the decisions of one batch, in order, before callers and observers do."""


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
class ForeignErrors:
    """Tells errors of the objects of a program, and of its disk, from errors of Muster."""

    def __init__(self) -> None:
        #: The last foreign exception, which ends the scheduler; None without one.
        self.error: Exception | None = None

    def __enter__(self) -> None:
        """Begin a block that calls objects of the program, or writes to disk."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Record an exception in the block as a foreign one."""
        if isinstance(error, Exception):
            self.error = error

    def is_for(self, error: Exception) -> bool:
        """Return whether an error is a foreign one."""
        # A coroutine cannot raise StopIteration: Python makes it the cause of a RuntimeError.
        ours = self.error
        return ours is not None and (error is ours or error.__cause__ is ours)


@final
class JournalWriter:
    """Writes decisions to a journal, which may be missing.

    Args:
        journal: The journal, or None.
        foreign_errors: Records its exceptions.
        pace: The pace of all tasks of the scheduler.
    """

    def __init__(self, journal: Journal | None, foreign_errors: ForeignErrors, pace: Pace) -> None:
        self._foreign_errors = foreign_errors
        self._pace = pace
        self._journal = journal
        in_steps: Callable[[Sequence[Announced]], Steps[None]] | None
        in_steps = getattr(journal, "write_in_steps", None)
        self._in_steps = in_steps

    async def write(self, announced: Sequence[Announced]) -> None:
        """Write the decisions of one batch; this is not cancelled at once."""
        if not announced or self._journal is None:
            return
        with self._foreign_errors:
            if self._in_steps is not None:
                await self._pace.take(self._in_steps(announced), shield=True)
                return
            written = self._journal.write(announced)
            if written is not None and isawaitable(written):
                await finish_within(written, WRITE_GRACE_S)


class BatchObserver(Protocol):
    """Observes every batch once, in order, before callers and observers of decisions do.

    Its state must follow from these batches. With a store it is kept with each checkpoint; at the
    next start it is loaded, and gets the batches after the checkpoint again.

    All methods are called in the scheduler's tasks, and yield wherever others may run.
    """

    def observe(
        self,
        number: int,
        at_us: int,
        first: int,
        events: Sequence[Event],
        announced: Sequence[Announced],
        /,
    ) -> Steps[None]:
        """Take a batch.

        Args:
            number: Its number, from 1.
            at_us: Its instant, in microseconds since the origin.
            first: The index of its first event, from 0, among all events that were let in.
            events: Its events, also those that were refused.
            announced: Its decisions.
        """
        ...

    def begin(self) -> None:
        """Record that all kept batches were passed to it: what follows happens from now on."""
        ...

    def save(self) -> Steps[Sequence[bytes]]:
        """Return its state, in parts of some hundred kilobytes."""
        ...

    def load(self, parts: Sequence[bytes], /) -> Steps[None]:
        """Load a state that was saved, perhaps by another version.

        Args:
            parts: The parts; empty if no state was kept: then it gets all kept batches.

        Raises:
            ValueError: If it does not know this state; then it gets all kept batches.
        """
        ...


@final
@record(eq=False)
class Announcement:
    """One batch to announce, with the functions that announce it.

    Attributes:
        decided: The batch; None if there are only answers.
        publish: Publish the changed values, in order.
        bound: The asks whose work begins, with their allocations.
        answers: Answer the callers, in order.
        calls: The calls to refuse if the batch cannot be announced.
    """

    decided: DecidedBatch | None = None
    publish: Sequence[Callable[[], None]] = ()
    bound: Sequence[tuple[TrackedAsk, AllocationStatus]] = ()
    answers: Sequence[Callable[[], None]] = ()
    calls: Sequence[AnyCall | Note] = ()


class BatchSink(Protocol):
    """Announces a batch to the objects of a program, besides its callers."""

    async def before(self, decided: DecidedBatch, /) -> None:
        """Pass the batch to the journal and the record."""

    def after(
        self, decided: DecidedBatch, bound: Sequence[tuple[TrackedAsk, AllocationStatus]], /
    ) -> Steps[None]:
        """Pass the decisions to the observers, and start the work of bound asks."""
        ...


@final
class ProgramSink:
    """The journal, the record, the observers and the binder.

    Args:
        journal: Writes to the journal of the program.
        record: The record of the program, or None.
        observers: The observers.
        start: Starts the work of an allocation, or None without a binder.
        foreign_errors: Records the exceptions of the record.
        keeps_events: Whether the record gets the events of a batch now; otherwise it has got them
            when they were let in.
        companion: Observes every batch, or None.
    """

    def __init__(
        self,
        journal: JournalWriter,
        record: Record | None,
        observers: Observers,
        start: Callable[[TrackedAsk, AllocationStatus], None] | None,
        foreign_errors: ForeignErrors,
        *,
        keeps_events: bool,
        companion: BatchObserver | None = None,
    ) -> None:
        self._journal = journal
        self._record = record
        self._observers = observers
        self._start = start
        self._foreign_errors = foreign_errors
        self._keeps_events = keeps_events
        self._companion = companion

    async def before(self, decided: DecidedBatch, /) -> None:
        """Pass the batch to the journal and the record; this is not cancelled."""
        await self._journal.write(decided.announced)
        if self._record is not None:
            with self._foreign_errors:
                for event in decided.events if self._keeps_events else ():
                    self._record.enter(decided.at_us, event)
                self._record.close(decided.at_us)

    def after(
        self, decided: DecidedBatch, bound: Sequence[tuple[TrackedAsk, AllocationStatus]], /
    ) -> Steps[None]:
        """Pass the decisions to the observers, and start the work of bound asks."""
        if self._companion is not None:
            yield from self._companion.observe(
                decided.number, decided.at_us, decided.first, decided.events, decided.announced
            )
        yield from self._observers.publish(decided.announced)
        if self._start is not None:
            for ask, held in bound:
                self._start(ask, held)
                yield


@final
class Announcer:
    """The task that writes each batch to the store, and announces it then.

    Args:
        write: Writes batches to the store; it returns after the commit.
        sink: Announces a batch besides its callers.
        foreign_errors: Tells foreign errors from errors of Muster.
        pace: The pace of all tasks of the scheduler.
        meter: Measures how long it takes to write, or None.
    """

    def __init__(
        self,
        write: Callable[[Sequence[DecidedBatch]], Awaitable[None]],
        sink: BatchSink,
        foreign_errors: ForeignErrors,
        pace: Pace,
        meter: Meter | None = None,
    ) -> None:
        self._write = write
        self._sink = sink
        self._foreign_errors = foreign_errors
        self._pace = pace
        self._meter = meter
        # Without a buffer: to put something waits until all before it is announced.
        self._in, self._out = trio.open_memory_channel[Sequence[Announcement]](0)
        self._drained = trio.Event()
        self._is_running = False
        #: Called when the announcer ends.
        self._at_end: Callable[[], None] = _nothing

    def start(self, nursery: trio.Nursery) -> None:
        """Start the task."""
        self._is_running = True
        nursery.start_soon(self._run)

    def at_end(self, do: Callable[[], None]) -> None:
        """Call a function when nothing is announced any more; at once if that is so now."""
        if self._is_running:
            self._at_end = do
        else:
            do()

    async def put(self, *announcements: Announcement) -> None:
        """Hand over batches that are written together, when those before are announced."""
        try:
            await self._in.send(announcements)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # The announcer has failed. Its error ends the scheduler, and cancels this task.
            await trio.sleep_forever()

    async def catch_up(self) -> None:
        """Wait until everything that was handed over is announced."""
        await self.put(Announcement())

    async def close(self) -> None:
        """Wait until everything is announced; nothing may follow."""
        self._in.close()
        await self._drained.wait()

    async def _run(self) -> None:
        """Announce until the announcer is closed.

        Raises:
            Exception: What the store, the journal or the record raises, unchanged.
            BrokenSchedulerError: If this fails because of a bug.
        """
        try:
            async for announcements in self._out:
                await self._announce(announcements)
            self._drained.set()
        except Exception as error:
            if self._foreign_errors.is_for(error):
                raise
            raise broken_error("announcer", "", "a batch") from error
        finally:
            self._is_running = False
            self._in.close()
            self._out.close()
            self._at_end()

    # STORE-15
    async def _announce(self, announcements: Sequence[Announcement]) -> None:
        # No cancellation comes from the commit on: what is on disk is announced.
        try:
            decided = [one.decided for one in announcements if one.decided is not None]
            if decided:
                began = perf_counter()
                with self._foreign_errors:
                    await self._write(decided)
                if self._meter is not None:
                    self._meter.commit.note(perf_counter() - began)
                self._pace.start()
            for announcement in announcements:
                await self._announce_one(announcement)
        finally:
            for announcement in announcements:
                for call in announcement.calls:
                    refuse(call, self._foreign_errors.error)  # Those that have an answer keep it.

    async def _announce_one(self, announcement: Announcement) -> None:
        if announcement.decided is not None:
            await self._sink.before(announcement.decided)
        await self._pace.take(self._notify(announcement), shield=True)
        if announcement.decided is not None:
            await announcement.decided.let_go(self._pace)

    def _notify(self, announcement: Announcement) -> Steps[None]:
        for publish in announcement.publish:
            publish()
            yield
        if announcement.decided is not None:
            yield from self._sink.after(announcement.decided, announcement.bound)
        for answer in announcement.answers:
            answer()
            yield


def _nothing() -> None:
    """Do nothing."""
