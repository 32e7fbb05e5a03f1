"""Calls from asyncio to trio, and the trio task that carries them out.

A call costs one wake-up of each side. Calls or answers that are sent before the other side has
woken up share a wake-up.
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
    """A call that is under way; :meth:`Bridge.begin` creates it.

    Attributes:
        landing: Set when the call has ended.
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
        """Return the error of the call, or None, and forget it."""
        error, self._error = self._error, None
        return error

    async def result(self) -> T:
        """Wait for the result.

        If the waiting task is cancelled, this cancels the call and waits for its end. If it is
        too late to cancel the call, this returns its result, and the task is cancelled where it
        waits next.

        Raises:
            CancelledError: If the call was cancelled; then it has done nothing.
            BaseException: What the called function raises, unchanged.
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
            del error, interruption  # avoids a reference cycle through the traceback

    def cancel(self) -> None:
        """Cancel the call; its result says whether that was in time."""
        with suppress(trio.RunFinishedError):  # then the end of the call is on its way
            self._bridge.link.to_trio(self._scope.cancel)

    # On the trio side

    async def run(self) -> None:
        """Carry the call out."""
        try:
            with self._scope:
                self._values.append(await self._function())
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            cancelled, failed = split_off_cancelled(error)
            # Not cancelled by the caller: the whole trio side is ending.
            self.finish(closed() if failed is None else failed)
            if cancelled is not None:
                raise cancelled from None
        else:
            self.finish(None)

    def finish(self, error: BaseException | None) -> None:
        """Report the end of the call to the host."""
        self._error = error
        self._bridge.link.to_host(self.landing.set)


@final
class Bridge:
    """Connects an asyncio loop, the host, with a trio run.

    Args:
        loop: The host's loop.
        mode: Where trio runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, mode: Mode) -> None:
        self.loop = loop
        self.link: Link = ThreadLink(loop) if mode is Mode.THREAD else GuestLink(loop)
        #: Set when the trio block is open, or when the trio side has ended without that.
        self.opened = Landing()
        #: Set when the trio side has ended.
        self.over = Landing()
        #: The error that ended the trio side, or None.
        self.error: BaseException | None = None
        self._closed = False
        # Only the trio side uses the following attributes.
        self._scope = trio.CancelScope()
        self._leave = trio.Event()
        self._nursery: trio.Nursery | None = None

    # In the host

    def check(self) -> None:
        """Check that a call is possible.

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
        """Start a call on the trio side, in a copy of the caller's context.

        Args:
            function: The function to call.
            then: Called in the host's loop when the call has ended.

        Raises:
            RuntimeError: See :meth:`check`.
            ClosedSchedulerError: See :meth:`check`.
        """
        self.check()
        call = Call(self, function, then)
        self.post(partial(self._spawn, call, copy_context()))
        return call

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call a function on the trio side, and wait for its result; see :meth:`Call.result`."""
        return await self.begin(function).result()

    def post(self, callback: Callback) -> None:
        """Schedule a callback on the trio side, after all earlier calls and callbacks.

        Raises:
            RuntimeError: See :meth:`check`.
            ClosedSchedulerError: If the trio side has ended.
        """
        self._check_loop()
        try:
            self.link.to_trio(callback)
        except trio.RunFinishedError:
            raise closed() from None

    def close(self, *, cancel: bool) -> None:
        """Begin to end the trio side; further calls are refused."""
        self._closed = True
        with suppress(trio.RunFinishedError):
            self.link.to_trio(self._scope.cancel if cancel else self._leave.set)

    def cancel(self) -> None:
        """Cancel the trio side; further calls are refused."""
        self.close(cancel=True)

    def ended(self, error: BaseException | None) -> None:
        """Record that the trio side has ended; called in the host's loop."""
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
        """Keep a trio block open, and carry out calls, until the host closes the bridge.

        Args:
            open_block: Returns the block.
            opened: Called on the trio side with the value of the block.
        """
        with self._scope:
            # The calls outlive the block: at its end, the block answers calls that still wait.
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
    """Split an error into trio's cancellations, which must stay in their run, and other errors."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        cancelled, others = group.split(trio.Cancelled)
        return (None, group) if cancelled is None else (cancelled, others)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)
