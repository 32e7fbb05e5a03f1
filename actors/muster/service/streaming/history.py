"""Decisions from the store: what is not in memory any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import trio

from muster._errors import StoreError
from muster._runtime.pace import slices
from muster.service.streaming.blocks import Block
from muster.store import StateReader

if TYPE_CHECKING:
    from muster.store import KeptBatch

_AT_ONCE: Final = 2_000
"""After how many decisions a read ends."""


@final
class Gone(Exception):  # noqa: N818 - not an error of Muster: a client hears of it as a problem
    """Decisions that are wanted are not kept any more.

    Args:
        first: The number of the first decision that there is.
    """

    def __init__(self, first: int) -> None:
        super().__init__(f"the decisions before {first} are not kept any more")
        self.first = first


# STREAM-2
@final
class History:
    """Reads the decisions of a state directory in order, in a thread and in pieces.

    Args:
        directory: The state directory.
        limiter: Limits how many threads read at the same time.
    """

    def __init__(self, directory: Path, limiter: trio.CapacityLimiter) -> None:
        self._directory = directory
        self._limiter = limiter
        self._reader: StateReader | None = None
        #: The decisions that were read, and not taken yet.
        self._read: deque[Block] = deque()

    async def first(self) -> int:
        """Return the number of the first decision that is kept.

        Raises:
            StoreError: If the store cannot be read.
        """
        return await trio.to_thread.run_sync(self._first, limiter=self._limiter)

    async def after(self, seq: int, until_batch: int) -> Block | None:
        """Return the decisions after a number, which is that of the last one that was taken.

        Args:
            seq: The number.
            until_batch: The last batch to read.

        Returns:
            A block in which the next one is; None if there is none up to that batch.

        Raises:
            Gone: If some of them are not kept any more.
            StoreError: If the store cannot be read.
        """
        while self._read and self._read[0].last <= seq:
            self._read.popleft()
        if not self._read:
            found = await trio.to_thread.run_sync(
                self._blocks, seq, until_batch, limiter=self._limiter
            )
            self._read.extend(found)
        return self._read[0] if self._read else None

    def close(self) -> None:
        """Close the store."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # In a thread

    def _opened(self) -> StateReader:
        if self._reader is None:
            self._reader = StateReader(self._directory)
        return self._reader

    def _first(self) -> int:
        reader = self._opened()
        reader.batch_before_seq(1)  # looks at the file, so that `meta` is what holds now
        return reader.meta.anchor.seq + 1

    def _blocks(self, seq: int, until_batch: int) -> list[Block]:
        reader = self._opened()
        before = reader.batch_before_seq(seq + 1)
        if reader.meta.anchor.seq > seq:
            raise Gone(reader.meta.anchor.seq + 1)
        found: list[Block] = []
        try:
            for batch in reader.batches(before, until_batch, verify=False):
                found.extend(_after(batch, seq))
                if sum(map(len, found)) >= _AT_ONCE:
                    break
        except StoreError:
            if self._first() > seq + 1:  # They were removed since.
                raise Gone(reader.meta.anchor.seq + 1) from None
            raise
        for block in found:
            _ = block.lines  # encoded here, not in the service's loop
        return found


def _after(batch: KeptBatch, seq: int) -> Iterator[Block]:
    """Yield the decisions of a batch after a number, in blocks."""
    if batch.last_seq > seq:
        decisions = batch.decisions
        yield from map(Block, slices(decisions[max(0, seq + 1 - batch.first_seq) :]))
