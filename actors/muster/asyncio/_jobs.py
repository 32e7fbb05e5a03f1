"""Calls from trio to asyncio: a trio task waits for a task of the host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

import trio
from typing_extensions import override

from muster.asyncio._bridge import Bridge

if TYPE_CHECKING:
    from muster.asyncio._scheduler import Scheduler
    from muster_core.errors import RefusedError
    from muster_core.events import Event
    from muster_core.snapshots import Snapshot

T = TypeVar("T")


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
            task.add_done_callback(lambda task: end(_failure(task, name)))

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


def _failure(task: asyncio.Task[None], name: str) -> Exception | None:
    """Return the error to raise on the trio side for a task that has ended, or None."""
    if task.cancelled():
        return RuntimeError(f"the task {name!r} was cancelled")
    error = task.exception()
    if error is None or isinstance(error, Exception):
        return error
    # Such an error (SystemExit) ends the host's loop already, and must not end trio as well.
    return RuntimeError(f"the task {name!r} ended by {error!r}")


@final
class Following(trio.TaskStatus[None]):
    """Tells the program that a task has started."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    @override
    def started(self, value: None = None) -> None:
        self._tell()


@final
class HostBooks:
    """The scheduler, which is called in the program's loop.

    Args:
        bridge: The bridge to what runs the work.
        scheduler: The scheduler, which has a bridge of its own.
    """

    def __init__(self, bridge: Bridge, scheduler: Scheduler) -> None:
        self._bridge = bridge
        self._scheduler = scheduler
        self._context = copy_context()

    async def submit_many(self, events: Iterable[Event], /) -> tuple[RefusedError | None, ...]:
        """Submit events."""
        return await self._call(partial(self._scheduler.submit_many, events))

    async def snapshot(self) -> Snapshot:
        """Return the state."""
        return await self._call(self._scheduler.snapshot)

    async def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        given: list[T] = []

        async def call() -> None:
            given.append(await function())

        await run_in_host(self._bridge, call, self._context, "muster nodes")
        return given[0]


def in_host(bridge: Bridge, function: Callable[[], object] | None) -> Callable[[], None]:
    """Return a function for the trio side that calls one in the program's loop."""

    def call() -> None:
        if function is not None:
            bridge.link.to_host(function)

    return call
