"""Blocks of asyncio that are open as long as a block of trio is."""

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
        open_block: Gives a block of trio, which is open for as long.

    Yields:
        What calls are made by, and what the block of trio gives.

    Raises:
        BaseException: What the block was left by, or what the trio side has failed with, which
            cancels the body; as it is.
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
    """Raise what is to come out of the block, if anything.

    Args:
        failure: What the trio side has failed with; it outdoes everything.
        leaving: What the body was left by.
        outside: The cancellation by somebody else that it was left by, which is not to be lost.
        late: A cancellation that came afterwards.
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

    When the one of trio ends by itself, the body of the other is cancelled, and what ended it
    is raised. Entering and leaving take a call each, and nothing goes across in between.

    Args:
        bridge: The bridge.
        block: Gives the block of trio.
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
        await call.result()  # which raises
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
    if failure is not None and not _is_of_no_interest(failure):
        raise_as_it_is(failure)


def _is_of_no_interest(failure: BaseException) -> bool:
    """Say whether a body that has come to its end need not be told: the ask is done, or gone."""
    if isinstance(failure, AllocationLostError):
        return False
    return isinstance(failure, AllocationEndedError | ClosedSchedulerError)


async def _end(call: Call[None]) -> BaseException | None:
    """Wait until the block of trio has been left; give what it has failed with."""
    # It will not be long, and it is not to be broken off: what was held is being given back.
    late = await call.landing.wait_out(_wait_on)
    if late is not None:
        late.defer()
    return call.take_error()


def _wait_on() -> None:
    """Do nothing about a cancellation."""


def raise_as_it_is(error: BaseException | None) -> NoReturn:
    """Raise an error that was caught elsewhere."""
    assert error is not None
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context  # it comes out as it was
        del error
