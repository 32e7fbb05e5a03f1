"""The past states that were looked at last, each made once for all who look at it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Final, TypeVar, final

import trio

from muster.service.input.looking_back import in_thread
from muster.service.past.building import Past, build
from muster.service.past.kept import Kept, kept_in
from muster.service.past.lives import PastLives
from muster.store import StateReader

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")

MOST: Final = 3
"""How many past states are kept in memory."""

MOST_THINGS: Final = 500_000
"""How many asks, applications and nodes they have together, unless there is only one of them."""

_THREADS: Final = 2

_FRESH_S: Final = 30.0
"""How long what is known of the extent of the history holds, in seconds."""


@final
class _Entry:
    """A past state, or the place for it while it is made."""

    def __init__(self) -> None:
        self.past: Past | None = None
        self.lock = trio.Lock()
        self.users = 0
        #: How much of it is made, from 0 to 1.
        self.share = 0.0


# PAGE-61
@final
class Moments:
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
        self._looks = trio.CapacityLimiter(_THREADS)
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self.lives: Final = PastLives(directory)
        self._kept: Kept | None = None
        self._kept_at = 0.0
        self._looking = trio.Lock()

    async def kept(self) -> Kept | None:
        """Return the extent of the kept history; None if there is none.

        Raises:
            StoreError: If the directory cannot be read.
        """
        if self.directory is None:
            return None
        async with self._looking:
            is_old = trio.current_time() > self._kept_at + _FRESH_S
            if self._kept is None or is_old:
                directory = self.directory
                self._kept = await trio.to_thread.run_sync(
                    lambda: kept_in(directory), limiter=self._looks
                )
                self._kept_at = trio.current_time()
        return self._kept

    async def batch_at(self, at_us: int) -> int:
        """Return the number of the last batch at or before an instant.

        Raises:
            StoreError: If the directory cannot be read.
        """

        def look(reader: StateReader) -> int:
            return reader.batch_at(at_us)

        return await self.look(look)

    async def look(self, read: Callable[[StateReader], T]) -> T:
        """Look into the state directory, which there is, for a moment and in a thread.

        Raises:
            StoreError: If the directory cannot be read.
        """
        directory = self.directory
        assert directory is not None, "there is a history"

        def look() -> T:
            with StateReader(directory) as reader:
                return read(reader)

        return await trio.to_thread.run_sync(look, limiter=self._looks)

    async def work(self, request: Request, work: Callable[[Flag], T]) -> T:
        """Do longer work in a thread, until the browser leaves.

        Args:
            request: The request that it is for.
            work: The work; it ends soon after its flag was set.
        """
        return await in_thread(request, work, self._limiter)

    def under_way(self) -> float | None:
        """Return how much is made of the past state that was begun last; None if none is."""
        shares = [entry.share for entry in self._entries.values() if entry.past is None]
        return shares[-1] if shares else None

    @property
    def numbers(self) -> Sequence[int]:
        """The batches whose states are in memory, or are being made."""
        return tuple(self._entries)

    async def read(self, request: Request, number: int, read: Callable[[Past, Flag], T]) -> T:
        """Read the state after a batch, which is made if it is not there.

        Args:
            request: The request that it is for; if its browser leaves, the work ends.
            number: The number of the batch, which is kept.
            read: Reads it, in a thread, and ends soon after its flag was set.

        Raises:
            Problem: As for :func:`build`, or if the browser has left.
            StoreError: Likewise.
        """
        async with self._using(number) as entry, entry.lock:
            past = entry.past
            if past is None:
                past = entry.past = await self._made(request, number, entry)
            found = past
            value = await self.work(request, lambda gone: read(found, gone))
        await self._trim()
        return value

    async def _made(self, request: Request, number: int, entry: _Entry) -> Past:
        directory = self.directory
        assert directory is not None, "there is a history"

        def tell(share: float) -> None:
            entry.share = share

        return await self.work(request, lambda gone: build(directory, number, gone, tell))

    @asynccontextmanager
    async def _using(self, number: int) -> AsyncGenerator[_Entry]:
        entry = self._entries.get(number)
        if entry is None:
            entry = self._entries[number] = _Entry()
        self._entries.move_to_end(number)
        entry.users += 1
        try:
            yield entry
        finally:
            entry.users -= 1
            if entry.past is None and not entry.users and self._entries.get(number) is entry:
                del self._entries[number]

    async def _trim(self) -> None:
        """Let go of the states that nobody reads, as far as there are too many."""
        made = [
            (number, entry, entry.past) for number, entry in self._entries.items() if entry.past
        ]
        count, size = len(made), sum(past.size for _, _, past in made)
        for number, entry, past in made[:-1]:
            if count <= MOST and size <= MOST_THINGS:
                break
            if entry.users:
                continue
            del self._entries[number]
            count, size = count - 1, size - past.size
            entry.past = None
            await trio.to_thread.run_sync(past.free, limiter=self._limiter)
