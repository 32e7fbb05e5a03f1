"""The block of asyncio for whose time trio runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NoReturn, TypeVar

from muster.asyncio._bridge import Bridge
from muster.asyncio._landing import BodyGuard, Interruption
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
    outside: Interruption | None = await bridge.opened.wait(bridge.cancel)
    if outside is not None:
        leaving = outside.error
    elif not bridge.over.has_landed():
        guard = BodyGuard()
        bridge.on_over = guard.fire
        try:
            yield bridge, values[0]
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            leaving = error
        outside = guard.leave(leaving)
    bridge.close(cancel=leaving is not None)
    late = await bridge.over.wait(bridge.cancel)
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


def raise_as_it_is(error: BaseException | None) -> NoReturn:
    """Raise an error that was caught elsewhere."""
    assert error is not None
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context  # it comes out as it was
        del error
