"""Trio as a guest of the asyncio loop.

Trio allows one guest run for each thread, so all schedulers of a loop share a run. It begins with
the first scheduler and ends with the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary

import trio
from typing_extensions import override

from muster.asyncio._landing import Landing
from muster.asyncio._link import Callback, Link

if TYPE_CHECKING:
    from outcome import Outcome


@final
class _Run:
    """The guest run of a loop.

    Attributes:
        users: How many schedulers use it.
        error: The error that has ended it, or None.
        over: Set when it has ended.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.users = 0
        self.error: BaseException | None = None
        self._loop = loop
        self.over = Landing()
        self._stop = trio.Event()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )

    async def _main(self) -> None:
        try:
            await self._stop.wait()
        except BaseException as error:  # Ctrl-C, where the host leaves its handling to trio
            self.error = error
            raise

    def _done(self, outcome: Outcome[None]) -> None:
        try:
            outcome.unwrap()
        except BaseException as error:  # noqa: BLE001 - it is raised in the hosts' blocks
            self.error = error
        _RUNS.pop(self._loop, None)
        self.over.set()

    def stop(self) -> None:
        """Begin to end the run."""
        if not self.over.is_set():
            self._stop.set()


_RUNS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Run]] = WeakKeyDictionary()


@final
class GuestLink(Link):
    """Trio in the host's loop: each side calls the other's callbacks at once.

    Args:
        loop: The host's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._run: _Run | None = None
        self._over = False

    @override
    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        while (run := _RUNS.get(self._loop)) is not None and run.users == 0:
            await run.over.wait()
        if run is None:
            run = _RUNS[self._loop] = _Run(self._loop)

        async def serve() -> None:
            try:
                await main()
            finally:
                self._over = True
                ended(run.error)

        trio.lowlevel.spawn_system_task(serve, name="muster", context=copy_context())
        run.users += 1
        self._run = run

    @override
    def to_trio(self, callback: Callback, /) -> None:
        if self._over:
            msg = "the trio side is over"
            raise trio.RunFinishedError(msg)
        callback()

    @override
    def to_host(self, callback: Callback, /) -> bool:
        callback()
        return True

    @override
    async def end(self) -> BaseException | None:
        run = self._run
        if run is None:
            return None
        run.users -= 1
        if run.users:
            return None
        run.stop()
        interruption = await run.over.wait_out(lambda: None)
        if interruption is not None:
            interruption.defer()
        return run.error
