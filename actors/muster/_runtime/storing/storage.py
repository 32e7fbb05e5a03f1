"""The store of a running scheduler.

SQLite runs in a thread, one call at a time. The announcer writes batches; checkpoints are written
beside that, in parts, so that no batch waits long for one.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster._errors import StoreError
from muster._runtime.pace import Pace
from muster._runtime.storing.options import StoreOptions
from muster._runtime.storing.recovery import Kept, decoded_batches, recover
from muster._runtime.storing.thread import store_thread
from muster.store._msgpack import pack
from muster.store._reader import StateReader
from muster.store._rows import row_of
from muster.store._sql.beside import CompanionState, RequestRow
from muster.store._state import state_in_parts
from muster.store._writer import NewState, StateWriter
from muster_core.config.dynamic import DEFAULT_PARTITION

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from muster._runtime.announcing.companion import Companion
    from muster._runtime.batches import Batches, Decided
    from muster._runtime.clock import Clock
    from muster._runtime.passing import PassedByAsk
    from muster._runtime.storing.thread import Threaded
    from muster.store._rows import BatchRow
    from muster_core.facts import Facts

REQUESTS_US: Final = 86_400_000_000
"""How long the keys of requests are kept: a day, in microseconds."""

_LOG: Final = logging.getLogger("muster.store")

_SPANS: Final = 10
"""Into how many spans checkpoints divide the history that is kept."""

_thread = store_thread
"""Offers a thread. Fuzzing puts another function here: no seed determines threads."""


@final
class Storage:
    """The store of a running scheduler. Make one by :func:`open_storage`.

    Args:
        writer: Writes the file.
        options: How it is kept.
        kept: What was in it.
        pace: The pace of all tasks of the scheduler.
        run: Runs a call in the store's thread; it is not given up when this task is cancelled.

    Attributes:
        origin_us: The origin of time, in microseconds since 1970 in UTC.
    """

    def __init__(
        self,
        writer: StateWriter,
        options: StoreOptions,
        kept: Kept,
        pace: Pace,
        run: Threaded,
    ) -> None:
        self._writer = writer
        self._options = options
        self._kept = kept
        self._pace = pace
        self._run = run
        self._checkpointing = trio.Lock()
        #: How many events were written since the last checkpoint.
        self._events = 0
        #: The batch after which the last checkpoint was taken.
        self._covered = kept.checkpoint
        #: What asks passed in the batches after the checkpoint, until the companion has heard it.
        self._passed: Mapping[int, PassedByAsk] = {}
        self._is_behind = False
        self.origin_us = writer.meta.origin_us

    @property
    def is_new(self) -> bool:
        """Whether nothing was written yet."""
        return self._writer.last.batch == 0

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
            batches.start(nursery)
        else:
            await batches.load(nursery, self._kept.facts)
        self._events, self._passed = await recover(batches, self._kept, self._pace, self._run)
        self._kept = attrs.evolve(self._kept, facts=None)  # It is in the owners now.
        if self._kept.damaged:
            batches_of = ", ".join(map(str, self._kept.damaged))
            _LOG.warning("damaged checkpoints are removed: those of batches %s", batches_of)
            await self._run(self._writer.remove_checkpoints, self._kept.damaged)

    async def write(self, decided: Sequence[Decided]) -> None:
        """Write batches in one transaction; when this returns, they are on disk.

        Raises:
            StoreError: If they cannot be written; none of them must be announced then.
        """
        await self._run(self._append, decided)
        self._events += sum(len(batch.events) for batch in decided)

    def _append(self, decided: Sequence[Decided]) -> None:
        """Write batches in one transaction. In the thread, which is handed them once."""
        rows: list[BatchRow] = []
        requests: list[RequestRow] = []
        seq = self._writer.last.seq
        for batch in decided:
            rows.append(row_of(batch.number, batch.at_us, batch.events, batch.announced, seq))
            requests += _requests_of(batch)
            seq = rows[-1].last_seq
        partition = decided[-1].partition
        changed = None if partition == self._writer.meta.partition else partition
        self._writer.append(rows, requests, partition=changed)

    async def retell(self, companion: Companion, requests: int) -> None:
        """Load a companion, and let it hear again of the batches after its state.

        Args:
            companion: The companion, which knows nothing yet.
            requests: How many events were let in so far.

        Raises:
            StoreError: If the store cannot be read.
        """
        with StateReader(self._options.directory) as reader:
            state = await self._run(reader.companion)
            after = await self._load(companion, state, reader.meta.anchor.batch)
            first = requests - await self._run(reader.event_count, after)
            found = reader.batches(after=after)
            while some := await self._run(decoded_batches, found):
                for batch in some:
                    steps = companion.hear(
                        batch.number,
                        batch.at_us,
                        first,
                        batch.events,
                        batch.decisions,
                        self._passed.get(batch.number, {}),
                    )
                    await self._pace.take(steps)
                    first += len(batch.events)
        self._passed = {}

    async def _load(self, companion: Companion, state: CompanionState | None, anchor: int) -> int:
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

    @property
    def wants_checkpoint(self) -> bool:
        """Whether so much came in that a checkpoint is due, and none is being written."""
        due = self._events >= self._options.checkpoint_every
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
            if facts.coordinator.batches != self._covered:
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
        self._events = 0
        parts = await self._pace.take(state_in_parts(facts))
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            await self._run(self._put_part, batch, number, part, last)
        self._covered = batch

    def _put_part(self, batch: int, number: int, part: bytes, last: bool) -> None:
        self._writer.put_part(batch, number, part, last=last)

    # STORE-16, STORE-19
    async def _drop_history(self, now_us: int) -> None:
        """Remove what is older than `keep` says, and checkpoints that nobody needs any more."""
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
            clock_us: What the clock says, in microseconds since the origin.
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


def _requests_of(batch: Decided) -> list[RequestRow]:
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
    options: StoreOptions, partition: str | None, clock: Clock, pace: Pace
) -> AsyncGenerator[Storage, None]:
    """Open the store of a scheduler, or make it, for the time of a block.

    Args:
        options: How it is kept.
        partition: The partition that is to run; None for the one that the store has, or
            ``default``.
        clock: The clock; the origin of a new one is now.
        pace: The pace of all tasks of the scheduler.

    Raises:
        StoreError: If it cannot be opened, another process has it, it is damaged, or it is that
            of another partition.
    """
    new = NewState(partition or DEFAULT_PARTITION, clock.now_us())

    def opened() -> tuple[StateWriter, Kept]:
        writer = StateWriter.open(options.directory, durability=options.durability, new=new)
        try:
            _check_partition(writer, partition)
            return writer, Kept.look(options.directory, writer.wrote_last)
        except BaseException:
            writer.close()
            raise

    async with _thread() as run:
        writer, kept = await run(opened)
        for told in writer.privacy:
            _LOG.warning("%s", told)
        storage = Storage(writer, options, kept, pace, run)
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
