"""Observers in asyncio: decisions come across in chunks, not one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, final
from weakref import WeakSet

import trio

import muster
from muster._errors import ClosedSchedulerError

if TYPE_CHECKING:
    from typing import Self

    from muster.asyncio._bridge import Bridge
    from muster_core.decisions import Announced


@final
class Reader:
    """The trio side of an observer. It is touched there only, until that side is over."""

    def __init__(self, observe: Callable[[], muster.Decisions]) -> None:
        self._observe = observe
        self._observer: muster.Decisions | None = None
        #: What had not been taken when the scheduler was closed.
        self.rest: Sequence[Announced] = ()
        #: What ended it, if not the end of the scheduler.
        self.error: Exception | None = None

    @property
    def missed(self) -> int:
        """How many decisions were lost because the buffer was full."""
        return 0 if self._observer is None else self._observer.missed

    def open(self) -> None:
        """Begin to observe."""
        self._observer = self._observe()

    def close(self) -> None:
        """Stop observing."""
        if self._observer is not None:
            self._observer.close()

    async def take(self) -> Sequence[Announced]:
        """Wait for decisions, and take all that are there; nothing at the end."""
        if self._observer is None:
            return ()
        try:
            return await self._observer.take()
        except trio.BusyResourceError:
            raise  # of a second reader, who has nothing to do with the first one
        except Exception as error:  # noqa: BLE001 - it is raised where the decisions are read
            self.error = error
            return ()

    async def finish(self) -> None:
        """Keep what is left; the scheduler is closed."""
        self.rest = await self.take()
        if self.rest:
            await self.take()  # what it ends by comes after what was left


@final
class Readers:
    """All observers of a scheduler that somebody still has."""

    def __init__(self) -> None:
        self._readers: WeakSet[Reader] = WeakSet()

    def open(self, reader: Reader) -> None:
        """Let one begin, on the trio side."""
        self._readers.add(reader)
        reader.open()

    async def finish(self) -> None:
        """Let everybody keep what is left; the scheduler is closed."""
        for reader in list(self._readers):
            await reader.finish()


@final
class Decisions:
    """An observer of the decisions of a scheduler; as :class:`muster.Decisions`.

    It gets what is announced from the moment when it is made, and ends when the scheduler
    is closed; what it has not read by then can be read afterwards. All that is there comes
    across at once and waits here, besides what waits in the buffer. One task reads it.

    Args:
        bridge: The bridge.
        reader: The trio side.
    """

    def __init__(self, bridge: Bridge, reader: Reader) -> None:
        self._bridge = bridge
        self._reader = reader
        self._taken: deque[Announced] = deque()
        self._is_closed = False

    @property
    def missed(self) -> int:
        """How many decisions were lost because the buffer was full."""
        return self._reader.missed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Announced:
        if not self._taken:
            self._taken.extend(await self._fetch())
        if not self._taken:
            raise StopAsyncIteration
        return self._taken.popleft()

    async def take(self) -> Sequence[Announced]:
        """Wait until there is anything, and take all that is there; nothing at the end.

        Raises:
            LaggedError: If the buffer was full and ``lag`` is :attr:`muster.Lag.DROP`.
            Exception: What the filter ``where`` has raised.
        """
        if not self._taken:
            return await self._fetch()
        taken = tuple(self._taken)
        self._taken.clear()
        return taken

    async def _fetch(self) -> Sequence[Announced]:
        reader = self._reader
        if self._has_closed():
            return ()
        with suppress(ClosedSchedulerError):
            taken = await self._bridge.call(reader.take)
            if taken:
                return taken
        if reader.error is None and not self._has_closed():
            # The scheduler is being closed, and the rest of it will be left with the reader.
            await self._bridge.gone.wait()
        rest, reader.rest = reader.rest, ()
        error = None
        if not rest:
            error, reader.error = reader.error, None
        if error is not None:
            self._is_closed = True
            raise error
        return () if self._has_closed() else rest

    def _has_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Stop observing; what is in the buffer is lost."""
        self._is_closed = True
        self._taken.clear()
        if not self._bridge.over.has_landed():
            with suppress(ClosedSchedulerError):
                self._bridge.post(self._reader.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def in_context(
    context: Context, where: Callable[[Announced], bool] | None
) -> Callable[[Announced], bool] | None:
    """Have a filter see the context variables of whoever gave it."""
    if where is None:
        return None

    def wants(announced: Announced) -> bool:
        return context.run(where, announced)

    return wants


def open_reader(
    bridge: Bridge, readers: Readers, observe: Callable[[], muster.Decisions]
) -> Decisions:
    """Make an observer; it sees what is decided because of any later call.

    Args:
        bridge: The bridge.
        readers: The observers of the scheduler.
        observe: Makes the observer on the trio side; it must not fail.

    Raises:
        RuntimeError: If this is not the loop of the scheduler.
        ClosedSchedulerError: If the scheduler is closed.
    """
    bridge.check()
    reader = Reader(observe)
    bridge.post(partial(readers.open, reader))
    return Decisions(bridge, reader)
