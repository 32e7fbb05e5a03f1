"""Small programs of asyncio for the tests of what runs beside trio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import pytest

import muster.asyncio
from muster import Announced, Kind
from muster.asyncio import Mode
from muster.asyncio._bridge import Bridge, open_bridge

T = TypeVar("T")

both_modes = pytest.mark.parametrize("mode", list(Mode))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a program; fail if it hangs, or leaves a thread of a scheduler behind."""

    async def watched() -> T:
        # In a task of its own: the program may cancel itself.
        return await asyncio.wait_for(asyncio.create_task(main()), 30)

    try:
        return asyncio.run(watched())
    finally:
        assert [one.name for one in threading.enumerate() if one.name == "muster"] == []


@asynccontextmanager
async def _nothing() -> AsyncGenerator[None, None]:
    yield


@asynccontextmanager
async def bridged(
    mode: Mode, block: Callable[[], AbstractAsyncContextManager[object]] = _nothing
) -> AsyncGenerator[Bridge, None]:
    """Open a bridge to a block of trio."""
    async with open_bridge(mode, lambda _: block()) as (bridge, _):
        yield bridge


async def turns(times: int) -> None:
    """Let the loop go round."""
    for _ in range(times):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go round until a condition holds; the caller limits the time."""
    while not condition():  # noqa: ASYNC110 - what it waits for may happen in trio
        await asyncio.sleep(0)


async def outcome(awaitable: Awaitable[object]) -> object:
    """Await something and return its value, or the error that it raises."""
    try:
        return await awaitable
    except BaseException as error:  # noqa: BLE001 - it is looked at
        return error


async def small(scheduler: muster.asyncio.Scheduler, vcore: int = 1) -> None:
    """Add a node with so many cores, and an application."""
    await scheduler.add_node("n", {"vcore": vcore})
    await scheduler.add_app("a", "root.q")


def names(asks: Sequence[muster.asyncio.Ask]) -> list[str]:
    return [ask.name for ask in asks]


async def read(decisions: AsyncIterator[Announced]) -> list[Kind]:
    """Return the kinds of all decisions, up to the end."""
    return [one.decision.kind async for one in decisions]
