"""Recovery: what was let in after the checkpoint is let in again, and must decide the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, TypeVarTuple, final

import attrs

from muster._errors import StoreError
from muster._runtime.pace import PIECE
from muster._version import __version__
from muster.store._decisions import encode_decisions
from muster.store._msgpack import CodecError
from muster.store._reader import StateReader
from muster.store._state import facts_of
from muster.store._trouble import damaged

if TYPE_CHECKING:
    from muster._runtime.batches import Batches
    from muster._runtime.pace import Pace
    from muster.store._rows import KeptBatch
    from muster_core.decisions import Announced
    from muster_core.facts import Facts

_AT_ONCE: Final = 64
"""How many batches are read at once."""

R = TypeVar("R")
A = TypeVarTuple("A")


class Threaded(Protocol):
    """Runs a call in the thread of the store."""

    def __call__(self, call: Callable[[*A], R], /, *args: *A) -> Awaitable[R]:
        """Return the result of the call."""
        ...


@final
@attrs.frozen
class Kept:
    """What a store holds.

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
    def look(cls, directory: Path, written_by: str) -> Kept:
        """Look into a state directory.

        Args:
            directory: The directory.
            written_by: The version of Muster that wrote last.

        Raises:
            StoreError: If it is damaged, or a newer version wrote what this one does not know.
        """
        reader = StateReader(directory)
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


async def recover(batches: Batches, kept: Kept, pace: Pace, threaded: Threaded) -> int:
    """Let in again what came after the checkpoint.

    Args:
        batches: The batches, loaded from the checkpoint.
        kept: What the store holds.
        pace: The pace of all tasks of the scheduler.
        threaded: Runs a call in the thread of the store.

    Returns:
        How many events were let in again.

    Raises:
        StoreError: If a batch is damaged, or if it decides otherwise today.
    """
    found = kept.reader.batches(after=kept.checkpoint)
    events = 0
    while some := await threaded(_read, found):
        for batch in some:
            events += len(batch.events)
            decided = await batches.run_again(batch.at_us, batch.events)
            if await _packed(decided.announced, threaded) != batch.packed_decisions:
                raise _difference(kept, batch, decided.announced)
            await decided.let_go(pace)
    kept.reader.close()
    return events


async def _packed(decided: Sequence[Announced], threaded: Threaded) -> bytes:
    if len(decided) > PIECE:  # Others run while many are packed.
        return await threaded(encode_decisions, decided)
    return encode_decisions(decided)


def _read(found: Iterator[KeptBatch]) -> list[KeptBatch]:
    some = list(islice(found, _AT_ONCE))
    for batch in some:
        _ = batch.events  # decoded here, not in the coordinator's task
    return some


def _difference(kept: Kept, batch: KeptBatch, decided: Sequence[Announced]) -> StoreError:
    """Return the error for a batch that decides otherwise today."""
    was, now = next(pair for pair in zip_longest(batch.decisions, decided) if pair[0] != pair[1])
    what = (
        f"batch {batch.number} decides otherwise today, from decision "
        f"{(was or now).seq if was or now else batch.first_seq} on: it was {_told(was)}, "
        f"and is now {_told(now)}. Muster {kept.written_by} wrote it, and this is Muster "
        f"{__version__}: start the version that wrote it, or begin in a new directory"
    )
    return StoreError(what, kept.reader.path)


def _told(announced: Announced | None) -> str:
    if announced is None:
        return "none"
    return " ".join(f"{name}={value!r}" for name, value in announced.as_map().items())
