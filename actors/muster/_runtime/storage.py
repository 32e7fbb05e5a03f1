"""The store of a running scheduler: batches are written before they are announced.

SQLite runs in a thread, one call at a time. The announcer writes batches; checkpoints are written
beside that, in parts, so that no batch waits long for one. ``trio.to_thread`` would take a place at
a limiter and start or find a thread for each call. One call of a caller waits for that twice, so
the thread of a store is kept at hand instead.

Recovery lets in the events after the checkpoint again, and must decide the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, TypeVarTuple, final

import attrs
import outcome
import trio

from muster._errors import DecidedOtherwiseError, StoreError
from muster._runtime.clock import PIECE, Clock, Pace
from muster._runtime.store_options import StoreOptions
from muster._version import __version__
from muster.store._codec import facts_of, state_in_parts
from muster.store._copies import BatchGroup
from muster.store._errors import damaged
from muster.store._msgpack import CodecError, pack
from muster.store._reader import StateReader
from muster.store._rows import BatchRow, KeptBatch, ReplayDifference, row_of
from muster.store._sql import CompanionState, RequestRow
from muster.store._writer import NewState, StateWriter
from muster_core.config.loader import DEFAULT_PARTITION
from muster_core.decisions import Announced
from muster_core.facts import Facts

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

    from muster._runtime.announcer import BatchObserver
    from muster._runtime.batches import Batches, DecidedBatch


R = TypeVar("R")
A = TypeVarTuple("A")


class RunInThread(Protocol):
    """Runs a call in the thread of the store."""

    def __call__(self, call: Callable[[*A], R], /, *args: *A) -> Awaitable[R]:
        """Return the result of the call."""
        ...


@final
class StoreThread:
    """A thread that carries out calls one by one, in the order in which they came."""

    def __init__(self) -> None:
        self._soon = trio.lowlevel.current_trio_token().run_sync_soon
        # It has no bound of its own: each waiting task has at most one call in it.
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Nothing waits for it at the end of the process, should trio itself have failed before.
        self._thread = threading.Thread(target=self._work, name="muster store", daemon=True)
        self._thread.start()

    async def run(self, call: Callable[[*A], R], /, *args: *A) -> R:
        """Run a call in the thread.

        A task that is cancelled before has not made the call; afterwards it waits for the result.

        Raises:
            Exception: What the call raises.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        task = trio.lowlevel.current_task()
        results: list[outcome.Outcome[R]] = []

        def work() -> None:
            results.append(outcome.capture(call, *args))
            with suppress(trio.RunFinishedError):  # Trio itself has failed; no task waits any more.
                self._soon(trio.lowlevel.reschedule, task)

        self._calls.put(work)
        await trio.lowlevel.wait_task_rescheduled(_refuse_abort)
        return results[0].unwrap()

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            work()
            del work  # Otherwise what it holds would stay until the next call.

    def end(self) -> None:
        """End the thread after the calls that wait."""
        self._calls.put(None)


def _refuse_abort(_: RaiseCancelT) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


@asynccontextmanager
async def store_thread() -> AsyncGenerator[RunInThread]:
    """Keep a thread for the time of a block; yield the function that runs calls in it."""
    thread = StoreThread()
    try:
        yield thread.run
    finally:
        thread.end()


_AT_ONCE: Final = 64
"""How many batches are read at once."""


@final
@attrs.frozen
class StoredState:
    """The content of a store at its opening.

    Attributes:
        reader: Reads the file.
        checkpoint: The batch after which the checkpoint was taken; 0 without one.
        facts: The checkpoint, or None.
        damaged: The batches of newer checkpoints, which are damaged.
        written_by: The version of Muster that wrote last.
    """

    reader: StateReader
    checkpoint: int
    facts: Facts | None
    damaged: tuple[int, ...]
    written_by: str

    @classmethod
    def look(cls, directory: Path, written_by: str) -> StoredState:
        """Look into a state directory.

        Args:
            directory: The directory.
            written_by: The version of Muster that wrote last.

        Raises:
            StoreError: If it is damaged, or a newer version wrote what this one does not know.
        """
        reader = StateReader(directory)
        try:
            return cls._of(reader, written_by)
        except BaseException:
            reader.close()
            raise

    @classmethod
    def _of(cls, reader: StateReader, written_by: str) -> StoredState:
        found = reader.newest_checkpoint()
        after = -1 if found is None else found.batch
        broken = tuple(one.batch for one in reader.checkpoints() if one.batch > after)
        if found is None:
            anchor = reader.meta.anchor
            if anchor.batch:
                what = f"batches up to {anchor.batch} were removed, and there is no checkpoint"
                raise damaged(reader.path, what)
            return cls(reader, 0, None, broken, written_by)
        try:
            facts = facts_of(found.parts)
        except CodecError as error:
            what = f"the checkpoint of batch {found.batch}: {error}"
            raise damaged(reader.path, what) from error
        return cls(reader, found.batch, facts, broken, written_by)


async def recover(batches: Batches, kept: StoredState, pace: Pace, threaded: RunInThread) -> int:
    """Let in the events after the checkpoint again.

    Args:
        batches: The batches, loaded from the checkpoint.
        kept: The content of the store.
        pace: The pace of all tasks of the scheduler.
        threaded: Runs a call in the thread of the store.

    Returns:
        How many events were let in again.

    Raises:
        StoreError: If a batch is damaged.
        DecidedOtherwiseError: If a batch is decided otherwise today.
    """
    found = kept.reader.batches(after=kept.checkpoint)
    events = 0
    while some := await threaded(decoded_batches, found):
        for batch in some:
            events += len(batch.events)
            decided = await batches.run_again(batch.at_us, batch.events)
            difference = await _compare_batches(batch, decided.announced, threaded)
            if difference is not None:
                raise _difference_error(kept.reader.path, kept.written_by, difference)
            await decided.let_go(pace)
    kept.reader.close()
    return events


async def _compare_batches(
    batch: KeptBatch, decided: Sequence[Announced], threaded: RunInThread
) -> ReplayDifference | None:
    """Return the first decision that differs from the kept one, or None."""
    if len(decided) > PIECE:  # Others run while many are compared.
        return await threaded(batch.first_difference, decided)
    return batch.first_difference(decided)


def decoded_batches(found: Iterator[KeptBatch]) -> list[KeptBatch]:
    """Return the next batches, with their events decoded."""
    some = list(islice(found, _AT_ONCE))
    for batch in some:
        _ = batch.events  # decoded here, not in the coordinator's task
    return some


def _difference_error(
    path: Path, version: str, difference: ReplayDifference
) -> DecidedOtherwiseError:
    """Return the error for a batch that decides otherwise today."""
    what = (
        f"{difference}. Muster {version} wrote it, and this is Muster {__version__}: "
        f"start the version that wrote it, or begin in a new directory"
    )
    return DecidedOtherwiseError(what, path)


REQUESTS_US: Final = 86_400_000_000
"""How long the keys of requests are kept: a day, in microseconds."""

_LOG: Final = logging.getLogger("muster.store")

_SPANS: Final = 10
"""Into how many spans checkpoints divide the history that is kept."""

_thread = store_thread
"""Offers a thread. Fuzzing puts another function here: no seed determines threads."""


class Mirror(Protocol):
    """Gets batches when they are on disk, before they are announced."""

    async def written(self, group: BatchGroup, /) -> None:
        """Take batches that were written together; they are announced when this returns."""


@final
class Storage:
    """The store of a running scheduler. Make one by :func:`open_storage`.

    Args:
        writer: Writes the file.
        options: How it is kept.
        kept: Its content at the opening.
        pace: The pace of all tasks of the scheduler.
        run: Runs a call in the store's thread; it is not given up when this task is cancelled.
        mirror: Gets the batches that were written, before they are announced; or None.

    Attributes:
        origin_us: The origin of time, in microseconds since 1970 in UTC.
    """

    def __init__(
        self,
        writer: StateWriter,
        options: StoreOptions,
        kept: StoredState,
        pace: Pace,
        run: RunInThread,
        mirror: Mirror | None = None,
    ) -> None:
        self._mirror = mirror
        self._writer = writer
        self._options = options
        self._kept = kept
        self._pace = pace
        self._run = run
        self._checkpointing = trio.Lock()
        #: How many events were written since the last checkpoint.
        self._events = 0
        #: The batch after which the last checkpoint was taken, and how many objects that holds.
        self._covered = kept.checkpoint
        self._objects = 0
        self._is_behind = False
        self.origin_us = writer.meta.origin_us

    @property
    def is_new(self) -> bool:
        """Whether nothing was written yet."""
        return self._writer.last.batch == 0

    @property
    def term(self) -> int:
        """The term of the leader."""
        return self._writer.meta.term

    @property
    def last(self) -> int:
        """The number of the last batch that is on disk."""
        return self._writer.last.batch

    @property
    def facts(self) -> Facts | None:
        """The checkpoint to begin with, or None to begin from nothing."""
        return self._kept.facts

    async def restore(self, batches: Batches, nursery: trio.Nursery) -> None:
        """Start all owners with what the store holds.

        Args:
            batches: Of a new machine, with the configuration of :attr:`facts`.
            nursery: The nursery in which all owners run.

        Raises:
            StoreError: If the store is damaged, or today's decisions differ from those in it.
        """
        if self._kept.facts is None:
            await batches.start(nursery)
        else:
            self._objects = await self._run(_count_objects, self._kept.facts)
            await batches.load(nursery, self._kept.facts)
        self._events = await recover(batches, self._kept, self._pace, self._run)
        self._kept = attrs.evolve(self._kept, facts=None)  # It is in the owners now.
        if self._kept.damaged:
            batches_of = ", ".join(map(str, self._kept.damaged))
            _LOG.warning("damaged checkpoints are removed: those of batches %s", batches_of)
            await self._run(self._writer.remove_checkpoints, self._kept.damaged)

    async def write(self, decided: Sequence[DecidedBatch]) -> None:
        """Write batches in one transaction; when this returns, they are on disk.

        Raises:
            StoreError: If they cannot be written; none of them must be announced then.
        """
        group = await self._run(self._append, decided)
        self._events += sum(len(batch.events) for batch in decided)
        if self._mirror is not None:
            await self._mirror.written(group)

    def _append(self, decided: Sequence[DecidedBatch]) -> BatchGroup:
        """Write batches in one transaction. In the thread, which is handed them once."""
        rows: list[BatchRow] = []
        requests: list[RequestRow] = []
        seq = self._writer.last.seq
        for batch in decided:
            if batch.copied is not None:
                # As the leader wrote them, so that the digests of both are the same.
                rows.append(batch.copied[0])
                requests += batch.copied[1]
            else:
                rows.append(row_of(batch.number, batch.at_us, batch.events, batch.announced, seq))
                requests += _requests_of(batch)
            seq = rows[-1].last_seq
        partition = decided[-1].partition
        changed = None if partition == self._writer.meta.partition else partition
        self._writer.append(rows, requests, partition=changed)
        return BatchGroup(tuple(rows), tuple(requests), self._writer.last.digest)

    # REPLICA-12
    async def begin_term(self, term: int) -> None:
        """Write the term of the leader from now on.

        Raises:
            StoreError: If it cannot be written.
        """
        await self._run(self._writer.begin_term, term)

    async def difference(
        self, kept: KeptBatch, decided: DecidedBatch, version: str
    ) -> DecidedOtherwiseError | None:
        """Return the error for a batch of the leader that is decided otherwise here, or None.

        Args:
            kept: The batch, as the leader wrote it.
            decided: The batch, as it was decided here.
            version: The version of Muster of the leader.
        """
        found = await _compare_batches(kept, decided.announced, self._run)
        return None if found is None else _difference_error(self._writer.path, version, found)

    async def retell(self, companion: BatchObserver, batches: Batches) -> None:
        """Load a companion, and pass it the batches after its state.

        If the store has no state of it that this version reads, or an old one because the process
        ended right after a checkpoint, one is written, with a checkpoint of the last batch.

        Args:
            companion: The companion, which knows nothing yet.
            batches: The batches, with what the store holds.

        Raises:
            StoreError: If the store cannot be read.
        """
        with StateReader(self._options.directory) as reader:
            state = await self._run(reader.observer_state)
            after = await self._load(companion, state, reader.meta.anchor.batch)
            first = batches.machine.requests - await self._run(reader.event_count, after)
            found = reader.batches(after=after)
            while some := await self._run(decoded_batches, found):
                for batch in some:
                    steps = companion.observe(
                        batch.number, batch.at_us, first, batch.events, batch.decisions
                    )
                    await self._pace.take(steps)
                    first += len(batch.events)
        if after < self._covered:
            # A follower begins with the newest checkpoint, and with the state after it.
            await self._write_checkpoint(await batches.facts())
            state = CompanionState(self._covered, tuple(await self._pace.take(companion.save())))
            await self._run(self._writer.put_companion, state)

    async def _load(
        self, companion: BatchObserver, state: CompanionState | None, anchor: int
    ) -> int:
        """Load a companion; return the last batch of which it knows."""
        if state is not None and state.batch >= anchor:
            try:
                await self._pace.take(companion.load(state.parts))
            except ValueError as error:
                _LOG.warning("the lists of the service are made again from the batches: %s", error)
            else:
                return state.batch
        await self._pace.take(companion.load(()))
        return anchor

    # Checkpoints

    # STORE-23
    @property
    def wants_checkpoint(self) -> bool:
        """Whether so much came in that a checkpoint is due, and none is being written.

        Each holds the whole state. If they came after a fixed number of events, a load would cost
        the square of its size.
        """
        due = self._events >= max(self._options.checkpoint_every, self._objects)
        return due and not self._checkpointing.locked()

    async def keep_checkpoint(
        self, taken: list[Facts], now_us: int, beside: Sequence[bytes] = ()
    ) -> None:
        """Write a checkpoint, and remove the history that it makes superfluous.

        Args:
            taken: The state after a batch that is on disk, and nothing else. It is taken out, so
                that its memory can be freed in pieces.
            now_us: The present instant, in microseconds since the origin.
            beside: The state of the companion after that batch; empty without one.

        Raises:
            StoreError: If it cannot be written.
        """
        facts = taken.pop()
        async with self._checkpointing:
            await self._write_checkpoint(facts)
            if beside:
                state = CompanionState(facts.coordinator.batches, tuple(beside))
                await self._run(self._writer.put_companion, state)
                await self._run(self._writer.forget_requests, now_us - REQUESTS_US)
            await self._drop_history(now_us)
        apps = [*facts.apps]
        del facts
        await self._pace.let_go(apps)

    async def _write_checkpoint(self, facts: Facts) -> None:
        batch = facts.coordinator.batches
        if batch == self._covered:
            return
        self._events = 0
        self._objects = await self._run(_count_objects, facts)
        parts = await self._pace.take(state_in_parts(facts))
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            await self._run(self._put_part, batch, number, part, last)
        self._covered = batch

    def _put_part(self, batch: int, number: int, part: bytes, last: bool) -> None:
        self._writer.put_part(batch, number, part, last=last)

    # STORE-16, STORE-19
    async def _drop_history(self, now_us: int) -> None:
        """Remove batches that are older than `keep` says, and superfluous checkpoints."""
        keep_us = self._options.keep_us
        if keep_us is not None:
            while await self._run(self._writer.prune, now_us - keep_us):
                pass
        apart_us = -(-(now_us if keep_us is None else keep_us) // _SPANS)
        while await self._run(partial(self._writer.drop_checkpoints, apart_us=apart_us)):
            pass

    # Time

    def notice_time(self, clock_us: int, now_us: int) -> None:
        """Warn once if the clock was set back, so that time stands still.

        Args:
            clock_us: The time of the clock, in microseconds since the origin.
            now_us: The present instant of the scheduler.
        """
        if clock_us >= now_us:
            self._is_behind = False
        elif not self._is_behind:
            self._is_behind = True
            _LOG.warning(
                "the clock was set back: time stands still for %.3f s, until it has caught up",
                (now_us - clock_us) / 1e6,
            )

    async def close(self) -> None:
        """Close the file.

        Raises:
            StoreError: If it cannot be closed; nothing that was written is lost.
        """
        with trio.CancelScope(shield=True):
            await self._run(self._writer.close)


def _count_objects(facts: Facts) -> int:
    """Return how many nodes, queues, gangs, applications and asks a checkpoint holds."""
    asks = sum(
        len(app.pending) + len(app.parked) + len(app.waiting) + len(app.bound) for app in facts.apps
    )
    others = (facts.coordinator.view.nodes, facts.queues, facts.gangs, facts.apps)
    return asks + sum(map(len, others))


def _requests_of(batch: DecidedBatch) -> list[RequestRow]:
    """Return the requests of clients whose events are in a batch, as they are kept."""
    return [
        RequestRow(
            user=one.key.user,
            key=one.key.key,
            digest=one.key.digest,
            batch=batch.number,
            first=one.first,
            count=one.count,
            at_us=batch.at_us,
            denied=pack([*one.denied.items()]),
        )
        for one in batch.requests
    ]


@asynccontextmanager
async def open_storage(
    options: StoreOptions,
    partition: str | None,
    clock: Clock,
    pace: Pace,
    mirror: Mirror | None = None,
) -> AsyncGenerator[Storage, None]:
    """Open the store of a scheduler, or make it, for the time of a block.

    Args:
        options: How it is kept.
        partition: The partition that is to run; None for the one that the store has, or
            ``default``.
        clock: The clock; the origin of a new one is now.
        pace: The pace of all tasks of the scheduler.
        mirror: Gets the batches that were written, before they are announced; or None.

    Raises:
        StoreError: If it cannot be opened, another process has it, it is damaged, or it is that
            of another partition.
    """
    new = NewState(partition or DEFAULT_PARTITION, clock.now_us())

    def opened() -> tuple[StateWriter, StoredState]:
        writer = StateWriter.open(options.directory, durability=options.durability, new=new)
        try:
            _check_partition(writer, partition)
            return writer, StoredState.look(options.directory, writer.wrote_last)
        except BaseException:
            writer.close()
            raise

    async with _thread() as run:
        writer, kept = await run(opened)
        for warning in writer.privacy:
            _LOG.warning("%s", warning)
        storage = Storage(writer, options, kept, pace, run, mirror)
        try:
            yield storage
        finally:
            kept.reader.close()
            await storage.close()


# STORE-20
def _check_partition(writer: StateWriter, partition: str | None) -> None:
    """Check that a store with batches has the partition that is to run.

    Raises:
        StoreError: If it has another one.
    """
    found = writer.meta.partition
    if partition not in {None, found} and writer.last.batch:
        what = f"has the state of partition {found!r}, and the configuration is of {partition!r}"
        right = f"name the directory of that partition, or a new one, or choose partition {found!r}"
        raise StoreError(f"{what}: {right}", writer.path.parent)
