"""Announces batches: at once, or with a store after the commit of each.

With a store this is a task of its own, so that the coordinator decides the next batch while the
one before is written. At most one batch is written, and one is decided and waits. At the start
several batches are written together, since nobody waits for the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, final

import attrs
import trio

from muster._runtime.clients.calls import refuse
from muster._runtime.owners import broken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from muster._runtime.announcing.companion import Companion
    from muster._runtime.announcing.journal import Blame, JournalWriter, Record
    from muster._runtime.batches import Decided
    from muster._runtime.clients.calls import Call, Note
    from muster._runtime.clients.observers import Observers
    from muster._runtime.clients.tracking import Held, TrackedAsk
    from muster._runtime.meter import Meter
    from muster._runtime.pace import Pace
    from muster_core.structures.steps import Steps


@final
@attrs.frozen(eq=False)
class Announcement:
    """What the outside hears of one batch.

    Attributes:
        decided: The batch; None if there was none, but somebody waits for an answer.
        publish: Publish the changed values, in order.
        bound: The asks whose work begins, with their allocations.
        answers: Answer the callers, in order.
        calls: The calls to refuse if the batch cannot be announced.
    """

    decided: Decided | None = None
    publish: Sequence[Callable[[], None]] = ()
    bound: Sequence[tuple[TrackedAsk, Held]] = ()
    answers: Sequence[Callable[[], None]] = ()
    calls: Sequence[Call | Note] = ()


class Ears(Protocol):
    """Whoever hears of a batch besides its callers."""

    async def before(self, decided: Decided, /) -> None:
        """Tell the journal and the record."""

    def after(self, decided: Decided, bound: Sequence[tuple[TrackedAsk, Held]], /) -> Steps[None]:
        """Tell the observers, and start the work of bound asks."""
        ...


@final
class Outside:
    """The journal, the record, the observers and the binder.

    Args:
        journal: Writes to the journal of the program.
        record: The record of the program, or None.
        observers: The observers.
        start: Starts the work of an allocation, or None without a binder.
        blame: Remembers the exceptions of the record.
        keeps_events: Whether the record gets the events of a batch now; otherwise it has got them
            when they were let in.
        companion: Hears of every batch, or None.
    """

    def __init__(
        self,
        journal: JournalWriter,
        record: Record | None,
        observers: Observers,
        start: Callable[[TrackedAsk, Held], None] | None,
        blame: Blame,
        *,
        keeps_events: bool,
        companion: Companion | None = None,
    ) -> None:
        self._journal = journal
        self._record = record
        self._observers = observers
        self._start = start
        self._blame = blame
        self._keeps_events = keeps_events
        self._companion = companion

    async def before(self, decided: Decided, /) -> None:
        """Tell the journal and the record; this is not cancelled."""
        await self._journal.write(decided.announced)
        if self._record is not None:
            with self._blame.taken():
                for event in decided.events if self._keeps_events else ():
                    self._record.enter(decided.at_us, event)
                self._record.close(decided.at_us)

    def after(self, decided: Decided, bound: Sequence[tuple[TrackedAsk, Held]], /) -> Steps[None]:
        """Tell the observers, and start the work of bound asks."""
        if self._companion is not None:
            yield from self._companion.hear(
                decided.number,
                decided.at_us,
                decided.first,
                decided.events,
                decided.announced,
                decided.passed,
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
        outside: Whoever hears of a batch besides its callers.
        blame: Tells errors from outside from errors of Muster.
        pace: The pace of all tasks of the scheduler.
        meter: Measures how long it takes to write, or None.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Decided]], Awaitable[None]],
        outside: Ears,
        blame: Blame,
        pace: Pace,
        meter: Meter | None = None,
    ) -> None:
        self._write = write
        self._outside = outside
        self._blame = blame
        self._pace = pace
        self._meter = meter
        # Without a buffer: whoever puts something waits until all before it is announced.
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
            if self._blame.is_for(error):
                raise
            raise broken("announcer", "", "a batch") from error
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
                with self._blame.taken():
                    await self._write(decided)
                if self._meter is not None:
                    self._meter.commit.note(perf_counter() - began)
                self._pace.start()
            for announcement in announcements:
                await self._announce_one(announcement)
        finally:
            for announcement in announcements:
                for call in announcement.calls:
                    refuse(call, self._blame.error)  # Those that have an answer keep it.

    async def _announce_one(self, announcement: Announcement) -> None:
        if announcement.decided is not None:
            await self._outside.before(announcement.decided)
        await self._pace.take(self._tell(announcement), shield=True)
        if announcement.decided is not None:
            await announcement.decided.let_go(self._pace)

    def _tell(self, announcement: Announcement) -> Steps[None]:
        for publish in announcement.publish:
            publish()
            yield
        if announcement.decided is not None:
            yield from self._outside.after(announcement.decided, announcement.bound)
        for answer in announcement.answers:
            answer()
            yield


def _nothing() -> None:
    """Do nothing."""
