"""All that streams of decisions share: the latest decisions, the store, and what is counted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, final

import trio

from muster.service.limits.counting import Slots
from muster.service.problems import Problem
from muster.service.streaming.cursor import Cursor
from muster.service.streaming.history import Gone, History
from muster.service.streaming.tail import Tail

_THREADS: Final = 2
"""How many threads read decisions from the store at the same time."""


@final
class Broadcast:
    """What all streams share.

    Args:
        directory: The state directory, or None without one.
        slots: The limit on how many streams there are.
        patience_s: How long a stream may send nothing because nobody reads, in seconds.

    Attributes:
        tail: The latest decisions.
        slots: The limit on how many streams there are, and how many there are.
        opened: How many streams there were since the start.
        lagged: How many of them were cut off because they read too slowly.
        stalled: How many of them were cut off because they did not read at all.
    """

    def __init__(self, directory: Path | None, slots: Slots, patience_s: float) -> None:
        self._directory = directory
        self.slots = slots
        self._limiter = trio.CapacityLimiter(_THREADS)
        self.patience_s: Final = patience_s
        self.tail = Tail()
        self.opened = 0
        self.lagged = 0
        self.stalled = 0

    # STREAM-8
    @asynccontextmanager
    async def running(self, ends: trio.Event) -> AsyncGenerator[None, None]:
        """Serve streams for the time of a block.

        Args:
            ends: When it is set, all streams end when they have sent what was announced.
        """

        async def end() -> None:
            await ends.wait()
            self.tail.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.tail.run)
            nursery.start_soon(end)
            yield
            nursery.cancel_scope.cancel()

    def cursor(self, after: int, *, lags: bool) -> Cursor:
        """Return a cursor after a decision; see :class:`Cursor`."""
        return Cursor(self.tail, self._history(), after, lags=lags)

    def _history(self) -> History | None:
        return None if self._directory is None else History(self._directory, self._limiter)

    async def first(self) -> int:
        """Return the number of the first decision that is kept.

        Raises:
            StoreError: If the store cannot be read.
        """
        history = self._history()
        if history is None or self.tail.first == 1:
            return self.tail.first
        try:
            return await history.first()
        finally:
            history.close()

    # STREAM-4
    async def check(self, after: int) -> None:
        """Check that the decisions after a number are there, or will be.

        Raises:
            Problem: 409 if the number itself was not announced yet; 410 if they are not kept.
            StoreError: If the store cannot be read.
        """
        if after > self.tail.last:
            told = f"decision {after} is not announced yet: the last one is {self.tail.last}"
            raise Problem(409, f"after: {told}", last=self.tail.last)
        if after + 1 < self.tail.first:
            first = await self.first()
            if after + 1 < first:
                raise gone(Gone(first))

    # STREAM-7
    def check_room(self) -> None:
        """Check that there may be one more stream.

        Raises:
            Problem: 503 if there may not.
        """
        with self.slots.taken():
            pass

    @contextmanager
    def one_more(self) -> Generator[None]:
        """Count a stream for the time of a block.

        Raises:
            Problem: 503 if there are too many already.
        """
        with self.slots.taken():
            self.opened += 1
            yield


def gone(error: Gone) -> Problem:
    """Return the problem of decisions that are not kept any more."""
    return Problem(410, f"after: {error}", first=error.first)
