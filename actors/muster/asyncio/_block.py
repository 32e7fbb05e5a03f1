"""Blocks of asyncio that keep a block of trio open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import NoReturn, TypeVar

import trio

from muster._errors import AllocationEndedError, AllocationLostError, ClosedSchedulerError
from muster.asyncio._bridge import Bridge, Call
from muster.asyncio._landing import BodyGuard, Interruption, Landing
from muster.asyncio._link import Mode

T = TypeVar("T")


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
        guard = BodyGuard()
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
    outside: Interruption | None,
    late: Interruption | None,
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
    entered = Landing()

    async def keep() -> None:
        async with block():
            bridge.link.to_host(entered.set)
            await leave.wait()

    call = bridge.begin(keep, entered.set)
    interruption = await entered.wait_out(call.cancel)
    if interruption is not None:
        call.cancel()
        await call.landing.wait_out(_wait_on)
        raise interruption.error
    if call.landing.is_set():
        await call.result()  # raises, as the trio block was never entered
    guard = BodyGuard()
    call.landing.then = guard.fire
    with guard:
        yield
    with suppress(ClosedSchedulerError):
        bridge.post(leave.set)
    failure = await _end(call)
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


async def _end(call: Call[None]) -> BaseException | None:
    """Wait until the trio block has ended, and return its failure, or None."""
    # This is short, and must not be cancelled: the allocation is being released.
    late = await call.landing.wait_out(_wait_on)
    if late is not None:
        late.defer()
    return call.take_error()


def _wait_on() -> None:
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
