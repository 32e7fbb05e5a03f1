"""Recovery: what was let in after the checkpoint is let in again, and must decide the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs

from muster._errors import StoreError
from muster._runtime.pace import PIECE
from muster._version import __version__
from muster.store._msgpack import CodecError
from muster.store._reader import StateReader
from muster.store._state import facts_of
from muster.store._trouble import damaged

if TYPE_CHECKING:
    from muster._runtime.batches import Batches
    from muster._runtime.pace import Pace
    from muster._runtime.passing import PassedByAsk
    from muster._runtime.storing.thread import Threaded
    from muster.store._rows import KeptBatch, Otherwise
    from muster_core.decisions import Announced
    from muster_core.facts import Facts

_AT_ONCE: Final = 64
"""How many batches are read at once."""


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


async def recover(
    batches: Batches, kept: Kept, pace: Pace, threaded: Threaded
) -> tuple[int, dict[int, PassedByAsk]]:
    """Let in again what came after the checkpoint.

    Args:
        batches: The batches, loaded from the checkpoint.
        kept: What the store holds.
        pace: The pace of all tasks of the scheduler.
        threaded: Runs a call in the thread of the store.

    Returns:
        How many events were let in again; and what asks passed when they got nodes, by the number
        of the batch, which the store does not keep.

    Raises:
        StoreError: If a batch is damaged, or if it decides otherwise today.
    """
    found = kept.reader.batches(after=kept.checkpoint)
    events = 0
    passed: dict[int, PassedByAsk] = {}
    while some := await threaded(decoded_batches, found):
        for batch in some:
            events += len(batch.events)
            decided = await batches.run_again(batch.at_us, batch.events)
            difference = await _compared(batch, decided.announced, threaded)
            if difference is not None:
                raise _differs(kept, difference)
            if decided.passed:
                passed[batch.number] = decided.passed
            await decided.let_go(pace)
    kept.reader.close()
    return events, passed


async def _compared(
    batch: KeptBatch, decided: Sequence[Announced], threaded: Threaded
) -> Otherwise | None:
    """Return the first decision that is another one today, or None if all are the same."""
    if len(decided) > PIECE:  # Others run while many are compared.
        return await threaded(batch.first_difference, decided)
    return batch.first_difference(decided)


def decoded_batches(found: Iterator[KeptBatch]) -> list[KeptBatch]:
    """Return the next batches, with their events decoded."""
    some = list(islice(found, _AT_ONCE))
    for batch in some:
        _ = batch.events  # decoded here, not in the coordinator's task
    return some


def _differs(kept: Kept, difference: Otherwise) -> StoreError:
    """Return the error for a batch that decides otherwise today."""
    what = (
        f"{difference}. Muster {kept.written_by} wrote it, and this is Muster {__version__}: "
        f"start the version that wrote it, or begin in a new directory"
    )
    return StoreError(what, kept.reader.path)
