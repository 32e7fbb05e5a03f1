"""Trio in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from threading import Thread
from time import perf_counter, sleep
from typing import Final, final

import trio
from typing_extensions import override

from muster.asyncio._link import Callback, Lane, Link

BUSY_S: Final = 0.001
"""How long trio works before it releases the interpreter for the host, in seconds."""

PAUSE_S: Final = 0.000_05
"""How long trio releases the interpreter, in seconds: enough for the other thread to wake up."""


@final
class Courtesy(trio.abc.Instrument):
    """Releases the interpreter for the host's thread during long rounds.

    Trio releases it at each check for I/O, but takes it back before another thread has woken up.
    Then the host waits for :func:`sys.getswitchinterval` at each wake-up. Short pauses halve the
    lag of its loop. A single call ends before the first pause.

    Args:
        pause: Releases the interpreter for a number of seconds.
    """

    def __init__(self, pause: Callable[[float], object] = sleep) -> None:
        self._pause = pause
        #: Since when trio has had work without a break; None while it has none.
        self._since: float | None = None

    @override
    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self._since = None
            return
        now = perf_counter()
        if self._since is None:
            self._since = now
        elif now - self._since >= BUSY_S:
            self._pause(PAUSE_S)
            self._since = perf_counter()


@final
class ThreadLink(Link):
    """Trio in a thread of its own; it does not touch signal handlers.

    Args:
        loop: The host's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inbox = Lane(self._wake_trio)
        self._outbox = Lane(loop.call_soon_threadsafe)
        self._outbox.serve()  # the host can be woken from the beginning
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: Thread | None = None

    @override
    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        # A daemon, so that the program can end even if the host's loop stops with the block
        # still open.
        context = copy_context()
        run = partial(self._run, main, ended)
        self._thread = Thread(target=context.run, args=(run,), name="muster", daemon=True)
        self._thread.start()

    def _run(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._main, main, instruments=[Courtesy()])
        except BaseException as caught:  # noqa: BLE001 - it is raised in the host's block
            error = caught
        self.to_host(partial(ended, error))

    async def _main(self, main: Callable[[], Awaitable[None]]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._inbox.serve()
        await main()

    def _wake_trio(self, callback: Callback) -> None:
        # The lane wakes nobody before `_main` has served it for the first time.
        assert self._token is not None
        self._token.run_sync_soon(callback)

    @override
    def to_trio(self, callback: Callback, /) -> None:
        self._inbox.put(callback)

    @override
    def to_host(self, callback: Callback, /) -> bool:
        try:
            self._outbox.put(callback)
        except RuntimeError:  # the loop is closed
            return False
        return True

    @override
    async def end(self) -> BaseException | None:
        # The thread has called `ended` already, so it ends at once.
        if self._thread is not None:
            self._thread.join()
        return None
