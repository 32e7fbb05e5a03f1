"""Calls from asyncio to trio and back, and the block in which they can be made.

A call takes one hop in and one hop back. Calls that are made, and answers that come, before the
other side has looked share a hop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar, cast, final

import trio

from muster._runtime.entry import closed
from muster.asyncio._guest import GuestLink
from muster.asyncio._landing import Landing
from muster.asyncio._link import Callback, Link, Mode
from muster.asyncio._thread import ThreadLink

T = TypeVar("T")


@final
class Call(Generic[T]):
    """A call that has been made; made by :meth:`Bridge.begin`.

    Attributes:
        landing: Its end.
    """

    def __init__(
        self, bridge: Bridge, function: Callable[[], Awaitable[T]], then: Callback | None
    ) -> None:
        self._bridge = bridge
        self._function = function
        self._scope = trio.CancelScope()
        self._values: list[T] = []
        self._error: BaseException | None = None
        self.landing = Landing(then)

    def take_error(self) -> BaseException | None:
        """Give what it has failed with, once."""
        error, self._error = self._error, None
        return error

    async def result(self) -> T:
        """Wait for what comes of it.

        If the waiting task is cancelled, then so is the call, and its end is waited for. If
        that was in vain, then what came of the call is given as if nothing had happened, and
        the task is cancelled where it waits next.

        Raises:
            CancelledError: If the call was cancelled; it has done nothing then.
            BaseException: What the called function raises, as it is.
        """
        interruption = await self.landing.wait_out(self.cancel)
        error = self.take_error()
        if error is None and not self._values:
            assert interruption is not None, "nobody else cancels it alone"
            raise interruption.error
        if interruption is not None:
            interruption.defer()
        if error is None:
            return self._values[0]
        try:
            raise error
        finally:
            del error, interruption  # no circle by way of the traceback

    def cancel(self) -> None:
        """Cancel it; what comes of it says whether that was in time."""
        with suppress(trio.RunFinishedError):  # or else its end is on the way
            self._bridge.link.to_trio(self._scope.cancel)

    # On the trio side

    async def run(self) -> None:
        """Carry it out."""
        try:
            with self._scope:
                self._values.append(await self._function())
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            cancelled, failed = split_off_cancelled(error)
            # Cancelled by somebody else: the whole of this side is to end.
            self.finish(closed() if failed is None else failed)
            if cancelled is not None:
                raise cancelled from None
        else:
            self.finish(None)

    def finish(self, error: BaseException | None) -> None:
        """Report the end of it."""
        self._error = error
        self._bridge.link.to_host(self.landing.set)


@final
class Bridge:
    """One side of it is an asyncio loop, the other one a trio run.

    Args:
        loop: The host's loop.
        mode: Where trio runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, mode: Mode) -> None:
        self.loop = loop
        self.link: Link = ThreadLink(loop) if mode is Mode.THREAD else GuestLink(loop)
        #: Has been opened, or is over without that.
        self.opened = Landing()
        self.over = Landing()
        #: What the trio side was ended by, if not by us.
        self.error: BaseException | None = None
        self._closed = False
        # What follows is touched on the trio side only.
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        self._nursery: trio.Nursery | None = None

    # In the host

    def check(self) -> None:
        """Refuse what cannot be asked for.

        Raises:
            RuntimeError: If this is not the loop in which the scheduler was opened.
            ClosedSchedulerError: If the scheduler is closed.
        """
        self._check_loop()
        if self._closed:
            raise closed()

    def _check_loop(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not self.loop:
            msg = "the scheduler belongs to another event loop, in which it was opened"
            raise RuntimeError(msg)

    def begin(self, function: Callable[[], Awaitable[T]], then: Callback | None = None) -> Call[T]:
        """Call something on the trio side, in a copy of the caller's context.

        Args:
            function: What to call.
            then: Called in the host's loop when it has ended.

        Raises:
            RuntimeError: See :meth:`check`.
            ClosedSchedulerError: See :meth:`check`.
        """
        self.check()
        call = Call(self, function, then)
        self.post(partial(self._spawn, call, copy_context()))
        return call

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call something on the trio side, and wait for what comes of it; see :class:`Call`."""
        return await self.begin(function).result()

    def post(self, callback: Callback) -> None:
        """Have something called on the trio side, soon, after what was asked for before.

        Raises:
            RuntimeError: See :meth:`check`.
            ClosedSchedulerError: If that side is over.
        """
        self._check_loop()
        try:
            self.link.to_trio(callback)
        except trio.RunFinishedError:
            raise closed() from None

    def close(self, *, cancel: bool) -> None:
        """Begin to end the trio side; nothing more can be asked for."""
        self._closed = True
        with suppress(trio.RunFinishedError):
            self.link.to_trio(self._scope.cancel if cancel else self._leave.set)

    def cancel(self) -> None:
        """End the trio side at once; nothing more can be asked for."""
        self.close(cancel=True)

    def ended(self, error: BaseException | None) -> None:
        """The trio side is over. Called in the host's loop."""
        self._closed = True
        self.error = self.error or error
        self.opened.set()
        self.over.set()

    # On the trio side

    async def serve(
        self,
        open_block: Callable[[], AbstractAsyncContextManager[T]],
        opened: Callable[[T], None],
    ) -> None:
        """Keep a block open, and carry out calls, until the host has had enough.

        Args:
            open_block: Gives the block.
            opened: Called here with what the block gives.
        """
        with self._scope:
            # The calls outlive the block: when it ends, it answers those that still wait.
            async with trio.open_nursery() as nursery:
                try:
                    async with open_block() as value:
                        self._nursery = nursery
                        opened(value)
                        self.link.to_host(self.opened.set)
                        await self._leave.wait()
                except BaseException as error:  # noqa: BLE001 - it is raised in the host's block
                    cancelled, self.error = split_off_cancelled(error)
                    nursery.cancel_scope.cancel()
                    if cancelled is not None:
                        raise cancelled from None
                finally:
                    self._nursery = None

    def _spawn(self, call: Call[Any], context: Context) -> None:
        if self._nursery is None:
            call.finish(closed())
        else:
            context.run(self._nursery.start_soon, call.run)


def split_off_cancelled(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Tell trio's cancellations from other errors: the first may not leave their run."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        cancelled, others = group.split(trio.Cancelled)
        return (None, group) if cancelled is None else (cancelled, others)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)
