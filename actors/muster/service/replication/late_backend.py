"""The backend of a server that follows: it is opened when the server leads."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import trio

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation, Binder
    from muster.service.options import Backend

    _Resume = Callable[[Allocation, Callable[[], None]], Awaitable[None]]


@final
class LateBackend:
    """A binder whose work waits until a backend is open. Make one by :meth:`of`."""

    def __init__(self) -> None:
        self._wanted = trio.Event()
        self._opened = trio.Event()
        self._binder: Binder

    @classmethod
    @asynccontextmanager
    async def of(cls, backend: Backend) -> AsyncGenerator[LateBackend]:
        """Yield a binder; the backend stays open to the end of the block, once it is."""
        made = cls()
        async with trio.open_nursery() as nursery:
            over = trio.Event()
            nursery.start_soon(made._hold, backend, over)
            try:
                yield made
            finally:
                over.set()
                if not made._opened.is_set():
                    nursery.cancel_scope.cancel()

    async def _hold(self, backend: Backend, over: trio.Event) -> None:
        await self._wanted.wait()
        async with backend.opened() as binder:
            self._binder = binder
            self._opened.set()
            await over.wait()

    # REPLICA-13
    async def open(self) -> None:
        """Open the backend, and let work run.

        Raises:
            MusterError: If it cannot be opened; this ends the block of :meth:`of`.
        """
        self._wanted.set()
        await self._opened.wait()

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Do the work of an allocation; see :class:`muster.Binder`."""
        await self._opened.wait()
        await self._binder.run(allocation, started)

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the work that the old leader had started, where the backend can."""
        await self._opened.wait()
        resume: _Resume | None = getattr(self._binder, "resume", None)
        await (resume or self._binder.run)(allocation, started)
