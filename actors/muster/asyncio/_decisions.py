"""Observers in asyncio: decisions come across in chunks, not one by one."""

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
    """An observer of the decisions of a scheduler; as :class:`muster.Decisions`.

    It gets what is announced from the moment when it is made, and ends when the scheduler
    is closed; what it has not read by then can be read afterwards. All that is there comes
    across at once and waits here, besides what waits in the buffer. One task reads it.

    Args:
        bridge: The bridge.
        inner: The one of trio. It is touched there only, until that side is over.
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
        if self._is_closed:
            return ()
        try:
            taken = await self._bridge.call(self._take)
        except ClosedSchedulerError:
            # What it has not read is still there when that side is over.
            await self._bridge.over.wait()
            taken = self._inner.take_now()
        if not isinstance(taken, Exception):
            return () if self._has_closed() else taken
        try:
            raise taken
        finally:
            del taken  # no circle by way of the traceback

    async def _take(self) -> Sequence[Announced] | Exception:
        """Take what is there, on the trio side; what it ends by is no failure of the call."""
        try:
            return await self._inner.take()
        except Exception as error:  # noqa: BLE001 - it is raised where the decisions are read
            return error

    def _has_closed(self) -> bool:
        """Say whether it was closed meanwhile."""
        return self._is_closed

    def close(self) -> None:
        """Stop observing; what is in the buffer is lost."""
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
