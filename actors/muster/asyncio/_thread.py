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
"""How long trio works before it lets the host have the interpreter, in seconds."""

PAUSE_S: Final = 0.000_05
"""How long it is let go for, in seconds: long enough for the other thread to wake up."""


@final
class Courtesy(trio.abc.Instrument):
    """Lets the host's thread have the interpreter during long rounds.

    Trio lets go of it each time it looks for I/O, but takes it back before another thread has
    woken up; then the host waits for :func:`sys.getswitchinterval`, each time it wakes. A short
    pause now and then halves the lag of its loop. Single calls are over before there is one.

    Args:
        pause: Lets go of the interpreter for so many seconds.
    """

    def __init__(self, pause: Callable[[float], object] = sleep) -> None:
        self._pause = pause
        #: Since when there has been something to do all the time; None while there is not.
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
    """Trio in a thread of its own; it touches no signal.

    Args:
        loop: The host's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._inbox = Lane(self._wake_trio)
        self._outbox = Lane(loop.call_soon_threadsafe)
        self._outbox.serve()  # the host is there from the beginning
        self._token: trio.lowlevel.TrioToken | None = None
        self._thread: Thread | None = None

    @override
    async def start(
        self, main: Callable[[], Awaitable[None]], ended: Callable[[BaseException | None], None]
    ) -> None:
        # A daemon: should the host's loop be given up with the block still open, the program
        # can end all the same.
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
        # Nobody is woken before `_main` has served for the first time.
        assert self._token is not None
        self._token.run_sync_soon(callback)

    @override
    def to_trio(self, callback: Callback, /) -> None:
        self._inbox.put(callback)

    @override
    def to_host(self, callback: Callback, /) -> bool:
        try:
            self._outbox.put(callback)
        except RuntimeError:  # The loop is closed.
            return False
        return True

    @override
    async def end(self) -> BaseException | None:
        # It has said its last word, so this takes no time worth mentioning.
        if self._thread is not None:
            self._thread.join()
        return None
