"""All that streams of decisions share: the latest decisions, the store, and what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

import trio

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

    Attributes:
        tail: The latest decisions.
        opened: How many streams there were since the start.
        lagged: How many of them were cut off because they read too slowly.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._limiter = trio.CapacityLimiter(_THREADS)
        self.tail = Tail()
        self.opened = 0
        self.lagged = 0

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


def gone(error: Gone) -> Problem:
    """Return the problem of decisions that are not kept any more."""
    return Problem(410, f"after: {error}", first=error.first)
