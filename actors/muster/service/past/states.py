"""Past states: made again from a checkpoint and the events since, with the asks that had ended.

Each is made once for all its readers. A ledger observes the batches between two checkpoints again,
as that of the running service did, and keeps all asks that end meanwhile.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event as Flag, Lock
from typing import TYPE_CHECKING, Final, TypeVar, cast, final

import attrs
import trio

from muster.feeds._state_directory import run_again
from muster.service.ask_index import AskIndex
from muster.service.input.dry_runs import ClientGoneError, in_thread
from muster.service.ledger.ledger import Ledger
from muster.service.ledger.reconciliation import note_queues, reconcile
from muster.service.ledger.records import EndedAsk, EndedAskFilter, EndedAsks
from muster.service.listeners import parts_of_ledger
from muster.service.past.spans import AcceptedEvents, HistoryExtent, history_extent
from muster.service.payloads import Problem
from muster.store import KeptBatch, StateReader
from muster.store._codec import facts_of
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import GONE, Announced, Kind
from muster_core.facts import Facts
from muster_core.structures.steps import Steps, all_at_once

if TYPE_CHECKING:
    from starlette.requests import Request


T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class PastState:
    """The state after a batch of the past, with what the lists knew then.

    Attributes:
        number: The number of the batch.
        at_us: Its instant, in microseconds since the origin.
        ledger: What was let in and decided until then.
        ask_index: All asks in the order in which they were added.
    """

    number: int
    at_us: int
    ledger: Ledger
    ask_index: AskIndex
    _scheduler: PlainScheduler

    def machine_at(self, at_us: int) -> CoordinatorMachine:
        """Return the machine at an instant before the next batch, which is its present.

        Args:
            at_us: The instant, in microseconds since the origin.
        """
        machine = self._scheduler.machine
        machine.now_us = at_us
        return machine

    @property
    def size(self) -> int:
        """How many things it holds, for a bound of memory."""
        book = self.ledger.book
        return len(book.nodes) + sum(1 + len(app.asks) for app in book.apps.values())

    def free(self) -> None:
        """Free its memory; it must have no reader any more."""
        for number, _ in enumerate(self._scheduler.free()):
            if not number % 16:
                time.sleep(0)  # Lets the service's own thread run.


# PAGE-60
def rebuild_state(
    directory: Path, number: int, gone: Flag, progress: Callable[[float], None] = lambda _: None
) -> PastState:
    """Make the state after a batch again, as it was then.

    The ledger observes the batches as that of the running service did.

    Args:
        directory: The state directory.
        number: The number of the batch, which is kept.
        gone: Set when the client has gone.
        progress: Called with the share that is done, from 0 to 1.

    Raises:
        Problem: 410 if too much was removed meanwhile; 409 if this version decides otherwise.
        StoreError: If the directory is damaged, or cannot be read.
        ClientGoneError: If the client has gone.
    """
    with StateReader(directory) as reader:
        built = _StateRebuild(reader, number)
        first = min(built.decided, built.observed)
        for batch in reader.batches(after=first, until=number):
            if gone.is_set():
                raise ClientGoneError
            built.replay(batch)
            progress((batch.number - first) / (number - first))
            time.sleep(0)  # Lets the service's own thread run.
    return built.end()


@final
class _StateRebuild:
    """A state between the checkpoint and the batch that is wanted.

    Attributes:
        decided: The last batch that the scheduler has decided.
        observed: The last batch that the ledger has observed.
    """

    def __init__(self, reader: StateReader, number: int) -> None:
        self.decided, facts = _facts(reader, number)
        self.ledger, self.observed, self._is_whole = ledger_at(reader, number)
        self._scheduler = PlainScheduler(facts=facts)
        self._at_us = self._scheduler.machine.now_us
        # The index of the next event among all that were let in.
        self._index = 0 if facts is None else facts.coordinator.requests
        if self.observed < self.decided:
            between = reader.batches(after=self.observed, until=self.decided, verify=False)
            self._index -= sum(batch.event_count for batch in between)

    def replay(self, batch: KeptBatch) -> None:
        """Replay a batch where it is not known yet."""
        index, self._index = self._index, self._index + batch.event_count
        decisions = None
        if batch.number > self.decided:
            decisions = self._decide(batch, index)
        if batch.number > self.observed:
            known = batch.decisions if decisions is None else decisions
            observing = self.ledger.observe(batch.number, batch.at_us, index, batch.events, known)
            all_at_once(observing)
            self.observed = batch.number
        self._at_us = batch.at_us

    def _decide(self, batch: KeptBatch, index: int) -> list[Announced]:
        run_again(self._scheduler, batch, index)
        decided = self._scheduler.announced
        self._scheduler.announced = []
        difference = batch.first_difference(decided)
        if difference is not None:
            raise Problem(409, f"this past cannot be shown: {difference}")
        self.decided = batch.number
        return decided

    def end(self) -> PastState:
        """Return the state."""
        machine = self._scheduler.machine
        if not self._is_whole or self.ledger.book.is_stale:
            all_at_once(reconcile(self.ledger, machine))
        note_queues(self.ledger, machine)
        return PastState(self.decided, self._at_us, self.ledger, AskIndex(), self._scheduler)


def _facts(reader: StateReader, number: int) -> tuple[int, Facts | None]:
    """Return the newest checkpoint up to a batch, and that batch; 0 and None for the beginning."""
    found = reader.newest_checkpoint(number)
    anchor = reader.meta.anchor.batch
    if found is not None and found.batch >= anchor:
        return found.batch, facts_of(found.parts)
    if anchor:
        raise Problem(410, f"this past is not kept any more: batches up to {anchor} were removed")
    return 0, None


def ledger_at(reader: StateReader, number: int) -> tuple[Ledger, int, bool]:
    """Return the newest ledger up to a batch, that batch, and whether it is complete."""
    anchor = reader.meta.anchor.batch
    state = reader.observer_state(number)
    ledger = Ledger()
    if state is not None and state.batch >= anchor:
        try:
            all_at_once(ledger.load(parts_of_ledger(state.parts)))
        except ValueError:  # Another version wrote it: it is made again from the batches.
            ledger = Ledger()
        else:
            return ledger, state.batch, True
    all_at_once(ledger.load(()))
    return ledger, anchor, anchor == 0


def read_all(steps: Steps[T], gone: Flag) -> T:
    """Run steps in a thread, so that others run meanwhile.

    Raises:
        ClientGoneError: If the client has gone.
    """
    try:
        while True:
            next(steps)
            if gone.is_set():
                raise ClientGoneError
            time.sleep(0)
    except StopIteration as end:
        return cast("T", end.value)


MOST_ENDED: Final = 100_000
"""How many lives between two checkpoints are kept, the latest ones."""

_PARTS: Final = 2
"""Of how many spans between checkpoints the lives are kept for the next page."""

_FAR: Final = 100_000
"""In how many batches a single ask is looked for."""

_WINDOW: Final = 2_000
"""How many batches are read at once on the way back."""


@final
@attrs.frozen
class EndedAskQuery:
    """Which lives are wanted.

    Attributes:
        filter: The filter.
        before_seq: Only those that ended before this decision.
        most: How many at most.
        entered: The number of the last batch, and how many events were let in until then.
    """

    filter: EndedAskFilter
    before_seq: int
    most: int
    entered: tuple[int, int]


@final
@attrs.frozen
class _LivesOfSpan:
    """The lives that ended in a span of batches, latest first."""

    after: int
    until: int
    lives: Sequence[EndedAsk]


# LISTS-16
@final
class KeptEndedAsks:
    """Finds lives in the kept batches.

    Args:
        directory: The state directory, or None without one.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory: Final = directory
        self._parts: OrderedDict[int, _LivesOfSpan] = OrderedDict()
        self._lock = Lock()

    def find(self, wanted: EndedAskQuery, gone: Flag) -> list[EndedAsk]:
        """Return lives, latest first; in a thread.

        Raises:
            StoreError: If the directory cannot be read.
            ClientGoneError: If the client has gone.
        """
        assert self.directory is not None, "there is a history"
        with self._lock, StateReader(self.directory) as reader:
            return self._find(reader, wanted, gone)

    def _find(self, reader: StateReader, wanted: EndedAskQuery, gone: Flag) -> list[EndedAsk]:
        found: list[EndedAsk] = []
        anchor, since_us = reader.meta.anchor.batch, wanted.filter.since_us
        until = min(reader.batch_before_seq(wanted.before_seq) + 1, reader.last().batch)
        while until > anchor and len(found) < wanted.most:
            part = self._part(reader, until, wanted.entered, gone)
            most = wanted.most - len(found)
            found += wanted.filter.latest(part.lives, wanted.before_seq, most)
            until = part.after
            if since_us is not None and until > anchor:
                (begin,) = reader.places([until])
                if begin.at_us < since_us:
                    break
        return found

    # LISTS-18
    def last(self, app: str, ask: str, wanted: EndedAskQuery, gone: Flag) -> EndedAsk | None:
        """Return the last life of an ask, which must not be too long ago; in a thread.

        Raises:
            StoreError: If the directory cannot be read.
            ClientGoneError: If the client has gone.
        """
        assert self.directory is not None, "there is a history"
        with self._lock, StateReader(self.directory) as reader:
            for batch, seq in _ends(reader, app, ask, wanted.before_seq, gone):
                only = attrs.evolve(wanted.filter, since_us=batch.at_us)
                query = attrs.evolve(wanted, filter=only, before_seq=seq + 1, most=1)
                for life in self._find(reader, query, gone):
                    return life
        return None

    def _part(
        self, reader: StateReader, until: int, entered: tuple[int, int], gone: Flag
    ) -> _LivesOfSpan:
        """Return the lives of the span between checkpoints that has a batch, or ends with it."""
        for known in self._parts.values():
            if known.after < until <= known.until:
                return known
        whole = [one.batch for one in reader.checkpoints() if one.complete]
        until = min((batch for batch in whole if batch >= until), default=until)
        part = _replayed_lives(reader, until, entered, gone)
        self._parts[part.after] = part
        self._parts.move_to_end(part.after)
        if len(self._parts) > _PARTS:
            self._parts.popitem(last=False)
        return part


def _replayed_lives(
    reader: StateReader, until: int, entered: tuple[int, int], gone: Flag
) -> _LivesOfSpan:
    """Return the lives that a ledger finds in the batches since the checkpoint before one."""
    ledger, after, _ = ledger_at(reader, until - 1)
    ledger.book.lives = EndedAsks(MOST_ENDED)
    let_in, index = AcceptedEvents(reader, entered), -1
    for batch in reader.batches(after=after, until=until, verify=False):
        if gone.is_set():
            raise ClientGoneError
        index = let_in.index_of(batch) if index < 0 else index
        observing = ledger.observe(batch.number, batch.at_us, index, batch.events, batch.decisions)
        all_at_once(observing)
        index += batch.event_count
        time.sleep(0)  # Lets the service's own thread run.
    return _LivesOfSpan(after, until, [*reversed(ledger.book.lives.kept)])


def _ends(
    reader: StateReader, app: str, ask: str, before_seq: int, gone: Flag
) -> Iterator[tuple[KeptBatch, int]]:
    """Yield the batches in which an ask may have ended, latest first, with the decision."""
    anchor, needles = reader.meta.anchor.batch, [_needle(one) for one in (app, ask)]
    end = newest = min(reader.batch_before_seq(before_seq) + 1, reader.last().batch)
    while end > anchor and newest - end < _FAR:
        begin = max(end - _WINDOW, anchor)
        batches = [
            batch
            for batch in reader.batches(after=begin, until=end, verify=False)
            if all(needle in batch.packed_decisions for needle in needles)
        ]
        if gone.is_set():
            raise ClientGoneError
        for batch in reversed(batches):
            for one in reversed(batch.decisions):
                decision = one.decision
                is_it = decision.kind is Kind.RELEASED and (decision.app, decision.ask) == (
                    app,
                    ask,
                )
                if is_it and decision.reason in GONE and one.seq < before_seq:
                    yield batch, one.seq
        end = begin
        time.sleep(0)  # Lets the service's own thread run.


def _needle(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


MOST_PAST_STATES: Final = 3
"""How many past states are kept in memory."""

MOST_THINGS: Final = 500_000
"""How many asks, applications and nodes they have together, unless there is only one of them."""

_THREADS: Final = 2

_FRESH_S: Final = 30.0
"""How long what is known of the extent of the history holds, in seconds."""


@final
class _CacheEntry:
    """A past state, or the place for it while it is made."""

    def __init__(self) -> None:
        self.past: PastState | None = None
        self.lock = trio.Lock()
        self.users = 0
        #: How much of it is made, from 0 to 1.
        self.share = 0.0


# PAGE-61
@final
class PastStateCache:
    """Makes past states, and keeps the last ones.

    Args:
        directory: The state directory, or None without one.

    Attributes:
        lives: The asks that ended so long ago that they are not in memory.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory: Final = directory
        self._limiter = trio.CapacityLimiter(_THREADS)
        #: A short look does not wait until a past state is made.
        self._read_limiter = trio.CapacityLimiter(_THREADS)
        self._entries: OrderedDict[int, _CacheEntry] = OrderedDict()
        self.lives: Final = KeptEndedAsks(directory)
        self._kept: HistoryExtent | None = None
        self._kept_at = 0.0
        self._extent_lock = trio.Lock()

    async def extent(self) -> HistoryExtent | None:
        """Return the extent of the kept history; None if there is none.

        Raises:
            StoreError: If the directory cannot be read.
        """
        if self.directory is None:
            return None
        async with self._extent_lock:
            is_old = trio.current_time() > self._kept_at + _FRESH_S
            if self._kept is None or is_old:
                directory = self.directory
                self._kept = await trio.to_thread.run_sync(
                    lambda: history_extent(directory), limiter=self._read_limiter
                )
                self._kept_at = trio.current_time()
        return self._kept

    async def batch_at(self, at_us: int) -> int:
        """Return the number of the last batch at or before an instant.

        Raises:
            StoreError: If the directory cannot be read.
        """

        def find(reader: StateReader) -> int:
            return reader.batch_at(at_us)

        return await self.inspect_store(find)

    async def inspect_store(self, read: Callable[[StateReader], T]) -> T:
        """Read the state directory, which must exist, briefly and in a thread.

        Raises:
            StoreError: If the directory cannot be read.
        """
        directory = self.directory
        assert directory is not None, "there is a history"

        def work() -> T:
            with StateReader(directory) as reader:
                return read(reader)

        return await trio.to_thread.run_sync(work, limiter=self._read_limiter)

    async def work(self, request: Request, work: Callable[[Flag], T]) -> T:
        """Do longer work in a thread, until the browser leaves.

        Args:
            request: The request that it is for.
            work: The work; it ends soon after its flag was set.
        """
        return await in_thread(request, work, self._limiter)

    def under_way(self) -> float | None:
        """Return the progress of the past state that was begun last; None if none is being made."""
        shares = [entry.share for entry in self._entries.values() if entry.past is None]
        return shares[-1] if shares else None

    @property
    def numbers(self) -> Sequence[int]:
        """The batches whose states are in memory, or are being made."""
        return tuple(self._entries)

    async def read(self, request: Request, number: int, read: Callable[[PastState, Flag], T]) -> T:
        """Read the state after a batch, which is made if it is not there.

        Args:
            request: The request that it is for; if its browser leaves, the work ends.
            number: The number of the batch, which is kept.
            read: Reads it, in a thread, and ends soon after its flag was set.

        Raises:
            Problem: As for :func:`rebuild_state`, or if the browser has left.
            StoreError: Likewise.
        """
        async with self._using(number) as entry, entry.lock:
            past = entry.past
            if past is None:
                past = entry.past = await self._build(request, number, entry)
            found = past
            value = await self.work(request, lambda gone: read(found, gone))
        await self._trim()
        return value

    async def _build(self, request: Request, number: int, entry: _CacheEntry) -> PastState:
        directory = self.directory
        assert directory is not None, "there is a history"

        def progress(share: float) -> None:
            entry.share = share

        return await self.work(
            request, lambda gone: rebuild_state(directory, number, gone, progress)
        )

    @asynccontextmanager
    async def _using(self, number: int) -> AsyncGenerator[_CacheEntry]:
        entry = self._entries.get(number)
        if entry is None:
            entry = self._entries[number] = _CacheEntry()
        self._entries.move_to_end(number)
        entry.users += 1
        try:
            yield entry
        finally:
            entry.users -= 1
            if entry.past is None and not entry.users and self._entries.get(number) is entry:
                del self._entries[number]

    async def _trim(self) -> None:
        """Drop states without readers, as far as there are too many."""
        made = [
            (number, entry, entry.past) for number, entry in self._entries.items() if entry.past
        ]
        count, size = len(made), sum(past.size for _, _, past in made)
        for number, entry, past in made[:-1]:
            if count <= MOST_PAST_STATES and size <= MOST_THINGS:
                break
            if entry.users:
                continue
            del self._entries[number]
            count, size = count - 1, size - past.size
            entry.past = None
            await trio.to_thread.run_sync(past.free, limiter=self._limiter)
