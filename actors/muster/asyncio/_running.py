"""Bodies of asyncio that last as long as a block of trio says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import trio

from muster._errors import AllocationEndedError, AllocationLostError, ClosedSchedulerError
from muster.asyncio._block import raise_as_it_is
from muster.asyncio._bridge import Bridge, Call
from muster.asyncio._landing import BodyGuard, Landing


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
    entered = Landing(bridge.loop)

    async def keep() -> None:
        async with block():
            bridge.link.to_host(entered.land)
            await leave.wait()

    call = bridge.begin(keep, entered.land)
    interruption = await entered.wait(call.cancel)
    if interruption is not None:
        call.cancel()
        await call.end(_wait_on)
        raise interruption.error
    if call.has_ended:
        await call.result()  # which raises
    guard = BodyGuard()
    call.on_end = guard.fire
    leaving: BaseException | None = None
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - it is raised again below
        leaving = error
    outside = guard.leave(leaving)
    with suppress(ClosedSchedulerError):
        bridge.post(leave.set)
    failure = await _end(call)
    if isinstance(leaving, asyncio.CancelledError) and outside is None:
        raise_as_it_is(failure)
    if leaving is not None:
        raise_as_it_is(leaving)
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
    late = await call.end(_wait_on)
    if late is not None:
        late.defer()
    return call.take_error()


def _wait_on() -> None:
    """Do nothing about a cancellation."""
