"""Observers in asyncio, which fetch decisions from the trio side in chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, final

from muster._errors import ClosedSchedulerError

if TYPE_CHECKING:
    from typing import Self

    import muster
    from muster.asyncio._bridge import Bridge
    from muster_core.decisions import Announced


@final
class Decisions:
    """An observer of the decisions of a scheduler, like :class:`muster.Decisions`.

    It receives the decisions that are announced from its creation on, and ends when the
    scheduler is closed; its remaining decisions can still be read then. Each fetch takes all
    decisions from the buffer, so up to one more buffer of them can wait here. Only one task may
    read it.

    Args:
        bridge: The bridge.
        inner: The observer of trio. Only the trio side uses it, until that side has ended.
    """

    def __init__(self, bridge: Bridge, inner: muster.Decisions) -> None:
        self._bridge = bridge
        self._inner = inner
        self._taken: deque[Announced] = deque()
        self._is_closed = False

    @property
    def missed(self) -> int:
        """How many decisions were lost because the buffer was full."""
        return self._inner.missed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Announced:
        if not self._taken:
            self._taken.extend(await self._fetch())
        if not self._taken:
            raise StopAsyncIteration
        return self._taken.popleft()

    async def take(self) -> Sequence[Announced]:
        """Wait for decisions, and return all that are there; an empty sequence at the end.

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
        if self._is_closed:
            return ()
        taken: Sequence[Announced] | Exception | None = None
        with suppress(ClosedSchedulerError):
            taken = await self._bridge.call(self._take)
        if taken is None:
            # The inner observer keeps unread decisions after the trio side has ended. They are
            # taken here, and not in an `except`, so that no error gets a false context.
            await self._bridge.over.wait()
            taken = self._inner.take_now()
        if not isinstance(taken, Exception):
            return () if self._has_closed() else taken
        try:
            raise taken
        finally:
            del taken  # avoids a reference cycle through the traceback

    async def _take(self) -> Sequence[Announced] | Exception:
        """Take decisions on the trio side; return an error that ends the observer."""
        try:
            return await self._inner.take()
        except Exception as error:  # noqa: BLE001 - it is raised where the decisions are read
            return error

    def _has_closed(self) -> bool:
        """Return whether the observer was closed meanwhile."""
        return self._is_closed

    def close(self) -> None:
        """Stop observing; unread decisions are lost."""
        self._is_closed = True
        self._taken.clear()
        if self._bridge.over.is_set():
            self._inner.close()
        else:
            with suppress(ClosedSchedulerError):
                self._bridge.post(self._inner.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
