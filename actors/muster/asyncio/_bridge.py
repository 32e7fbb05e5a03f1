"""The bridge between asyncio and trio: calls in both directions, and blocks that keep it open.

A call from asyncio is carried out by a trio task. It costs one wake-up of each side. Calls or
answers that are sent before the other side has woken up share a wake-up. In the other direction a
trio task waits for a task of the host. Blocks of asyncio keep a block of trio open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, NoReturn, TypeVar, cast, final

import trio
from typing_extensions import override

from muster._errors import AllocationEndedError, AllocationLostError, ClosedSchedulerError
from muster._runtime.entry import closed_error
from muster.asyncio._links import (
    BlockCanceller,
    Callback,
    CompletionEvent,
    DeferredCancellation,
    GuestLink,
    Link,
    Mode,
    ThreadLink,
)

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
        self.landing = CompletionEvent(then)

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
            assert interruption is not None, "nothing else cancels it alone"
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
            self.finish(closed_error() if failed is None else failed)
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
        self.opened = CompletionEvent()
        #: Set when the trio side has ended.
        self.over = CompletionEvent()
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
            raise closed_error()

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
            raise closed_error() from None

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
            call.finish(closed_error())
        else:
            context.run(self._nursery.start_soon, call.run)


def split_off_cancelled(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split an error into trio's cancellations, which must stay in their run, and other errors."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        cancelled, others = group.split(trio.Cancelled)
        return (None, group) if cancelled is None else (cancelled, others)
    return (error, None) if isinstance(error, trio.Cancelled) else (None, error)


@asynccontextmanager
async def open_bridge(
    mode: Mode,
    open_block: Callable[[Bridge], AbstractAsyncContextManager[T]],
) -> AsyncGenerator[tuple[Bridge, T], None]:
    """Run trio for the time of an ``async with`` block of asyncio.

    Args:
        mode: Where trio runs.
        open_block: Returns a block of trio, which stays open for the same time.

    Yields:
        The bridge for calls, and the value of the trio block.

    Raises:
        BaseException: The exception of the body, or the failure of the trio side, which cancels
            the body; unchanged.
    """
    bridge = Bridge(asyncio.get_running_loop(), mode)
    values: list[T] = []
    await bridge.link.start(
        partial(bridge.serve, partial(open_block, bridge), values.append), bridge.ended
    )
    leaving: BaseException | None = None
    outside = await bridge.opened.wait_out(bridge.cancel)
    if outside is not None:
        leaving = outside.error
    elif not bridge.over.is_set():
        guard = BlockCanceller()
        bridge.over.then = guard.fire
        with guard:
            yield bridge, values[0]
        leaving, outside = guard.leaving, guard.outside
    bridge.close(cancel=leaving is not None)
    late = await bridge.over.wait_out(bridge.cancel)
    broken = await bridge.link.end()
    _raise_foremost(bridge.error or broken, leaving, outside, late)


def _raise_foremost(
    failure: BaseException | None,
    leaving: BaseException | None,
    outside: DeferredCancellation | None,
    late: DeferredCancellation | None,
) -> None:
    """Raise the most important of the exceptions that end the block, if there is any.

    Args:
        failure: The failure of the trio side; it comes first.
        leaving: The exception of the body.
        outside: The cancellation from outside that ended the body; it must not get lost.
        late: A cancellation that came after the body.
    """
    if failure is None and leaving is None:
        if late is not None:
            raise late.error
        return
    for interruption in (outside if failure is not None else None, late):
        if interruption is not None:
            interruption.defer()
    raise_as_it_is(failure or leaving)


@asynccontextmanager
async def hold(
    bridge: Bridge, block: Callable[[], AbstractAsyncContextManager[object]]
) -> AsyncGenerator[None, None]:
    """Keep a block of trio open for the time of a block of asyncio.

    If the trio block ends by itself, the body of the asyncio block is cancelled, and the
    exception of the trio block is raised. Entering and leaving cost one call each.

    Args:
        bridge: The bridge.
        block: Returns the block of trio.
    """
    leave = trio.Event()
    entered = CompletionEvent()

    async def keep() -> None:
        async with block():
            bridge.link.to_host(entered.set)
            await leave.wait()

    call = bridge.begin(keep, entered.set)
    interruption = await entered.wait_out(call.cancel)
    if interruption is not None:
        call.cancel()
        await call.landing.wait_out(_continue_waiting)
        raise interruption.error
    if call.landing.is_set():
        await call.result()  # raises, as the trio block was never entered
    guard = BlockCanceller()
    call.landing.then = guard.fire
    with guard:
        yield
    with suppress(ClosedSchedulerError):
        bridge.post(leave.set)
    failure = await _end_call(call)
    if isinstance(guard.leaving, asyncio.CancelledError) and guard.outside is None:
        raise_as_it_is(failure)
    if guard.leaving is not None:
        raise_as_it_is(guard.leaving)
    if failure is not None and not _may_be_ignored(failure):
        raise_as_it_is(failure)


def _may_be_ignored(failure: BaseException) -> bool:
    """Return whether a body that has ended normally may ignore a failure of the trio block."""
    if isinstance(failure, AllocationLostError):
        return False
    return isinstance(failure, AllocationEndedError | ClosedSchedulerError)


async def _end_call(call: Call[None]) -> BaseException | None:
    """Wait until the trio block has ended, and return its failure, or None."""
    # This is short, and must not be cancelled: the allocation is being released.
    late = await call.landing.wait_out(_continue_waiting)
    if late is not None:
        late.defer()
    return call.take_error()


def _continue_waiting() -> None:
    """Do nothing when the waiting task is cancelled."""


def raise_as_it_is(error: BaseException | None) -> NoReturn:
    """Raise an error that was caught elsewhere, with its original context."""
    assert error is not None
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context  # `raise` has replaced it
        del error


async def run_in_host(
    bridge: Bridge, function: Callable[[], Coroutine[Any, Any, None]], context: Context, name: str
) -> None:
    """Run a function as an asyncio task of the host, from the trio side, and wait for its end.

    If the caller is cancelled, this cancels the task and waits for its end.

    Args:
        bridge: The bridge to the host.
        function: The function to run.
        context: The task runs in a copy of this context.
        name: The name of the task.

    Raises:
        RuntimeError: If the task was cancelled in another way, or the host's loop is closed.
        Exception: What the function raises, unchanged.
    """
    own_context = context.copy()
    over = trio.Event()
    tasks: list[asyncio.Task[None]] = []
    errors: list[Exception | None] = []

    # These functions run in the host.

    def start() -> None:
        try:
            task = bridge.loop.create_task(function(), name=name, context=own_context)
        except Exception as error:  # noqa: BLE001 - it is raised on the other side
            end(error)
        else:
            tasks.append(task)
            task.add_done_callback(lambda task: end(_task_failure(task, name)))

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    def end(error: Exception | None) -> None:
        errors.append(error)
        bridge.link.to_trio(over.set)

    if not bridge.link.to_host(partial(bridge.loop.call_soon, start)):
        msg = "the host's event loop is closed"
        raise RuntimeError(msg)
    try:
        await over.wait()
    except trio.Cancelled:
        bridge.link.to_host(partial(bridge.loop.call_soon, cancel))
        with trio.CancelScope(shield=True):
            await over.wait()
        raise
    error = errors.pop()
    if error is not None:
        raise error


def _task_failure(task: asyncio.Task[None], name: str) -> Exception | None:
    """Return the error to raise on the trio side for a task that has ended, or None."""
    if task.cancelled():
        return RuntimeError(f"the task {name!r} was cancelled")
    error = task.exception()
    if error is None or isinstance(error, Exception):
        return error
    # Such an error (SystemExit) ends the host's loop already, and must not end trio as well.
    return RuntimeError(f"the task {name!r} ended by {error!r}")


@final
class StartNotice(trio.TaskStatus[None]):
    """Calls a function of the program when a task has started."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    @override
    def started(self, value: None = None) -> None:
        self._notify()


def in_host(bridge: Bridge, function: Callable[[], object] | None) -> Callable[[], None]:
    """Return a function for the trio side that calls one in the program's loop."""

    def call() -> None:
        if function is not None:
            bridge.link.to_host(function)

    return call
