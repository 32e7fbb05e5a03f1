"""The latest decisions in memory, which all streams read together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

import trio

from muster._runtime.pace import slices
from muster.service.streaming.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.decisions import Announced
    from muster_core.structures.steps import Steps

MOST: Final = 100_000
"""How many decisions are kept in memory at most."""

MOST_BYTES: Final = 128 * 1024 * 1024
"""How many bytes they take at most, about."""

PAUSE_S: Final = 0.02
"""How often streams are woken at most, in seconds: so they send more at a time when there is much."""


# STREAM-2
@final
class Tail:
    """The latest decisions, oldest first.

    Args:
        most: How many decisions are kept at most.
        most_bytes: How many bytes they take at most, about.

    Attributes:
        batch: The number of the last batch; with a store it is on disk.
        last: The number of the last decision that was announced.
        is_over: Whether no decision follows.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._blocks: deque[Block] = deque()
        self._count = 0
        self._bytes = 0
        self.batch = 0
        self.last = 0
        self.is_over = False
        self._fresh = trio.Event()
        self._news = trio.Event()

    @property
    def first(self) -> int:
        """The number of the first decision in memory; that of the next one if there is none."""
        return self._blocks[0].first if self._blocks else self.last + 1

    # Filled by the scheduler

    def begin(self, batch: int, last: int) -> None:
        """Say where it begins, if nothing was heard since the start.

        Args:
            batch: The number of the last batch.
            last: The number of the last decision.
        """
        if not self._blocks:
            self.batch, self.last = batch, last

    def hear(self, number: int, announced: Sequence[Announced]) -> Steps[None]:
        """Hear of a batch, in steps.

        Args:
            number: Its number.
            announced: Its decisions.
        """
        self.batch = number
        for piece in slices(announced):
            self._append(piece)
            self._fresh.set()
            yield

    def _append(self, piece: Sequence[Announced]) -> None:
        if not self._blocks or not self._blocks[-1].add(piece):
            self._blocks.append(Block(piece, self._grow))
        self._count += len(piece)
        self.last = piece[-1].seq
        self._forget()

    def _grow(self, size: int) -> None:
        self._bytes += size

    def _forget(self) -> None:
        while len(self._blocks) > 1 and (
            self._count > self._most or self._bytes > self._most_bytes
        ):
            gone = self._blocks.popleft()
            self._count -= len(gone)
            self._bytes -= gone.size

    async def run(self) -> None:
        """Wake whoever waits for news, at most once in :data:`PAUSE_S`."""
        while True:
            await self._fresh.wait()
            self._fresh = trio.Event()
            self._wake()
            await trio.sleep(PAUSE_S)

    def close(self) -> None:
        """Say that no decision follows."""
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # Read by streams

    async def wait(self, after: int) -> None:
        """Wait until there is a decision after a number, or none will follow."""
        while self.last <= after and not self.is_over:
            await self._news.wait()

    def after(self, seq: int) -> Block | None:
        """Return the block with the decision after a number; None if there is none in memory."""
        if not self.first <= seq + 1 <= self.last:
            return None
        low, high = 0, len(self._blocks) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._blocks[middle].first <= seq + 1:
                low = middle
            else:
                high = middle - 1
        return self._blocks[low]
