"""Tasks of the host that a task of the trio side waits for: calls in the other direction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, final

import trio

from muster.asyncio._bridge import Bridge


async def run_in_host(
    bridge: Bridge, function: Callable[[], Coroutine[Any, Any, None]], context: Context, name: str
) -> None:
    """Run something as an asyncio task of the host, from the trio side, until it ends.

    If the caller is cancelled, the task is, and its end is waited for.

    Args:
        bridge: The way there.
        function: What to run.
        context: The task runs in a copy of it.
        name: The name of the task.

    Raises:
        RuntimeError: If the task was cancelled by somebody else, or the host is gone.
        Exception: What the function raises, as it is.
    """
    job = _HostTask(bridge, function, context.copy(), name)
    if not bridge.link.to_host(partial(bridge.loop.call_soon, job.start)):
        msg = "the host's event loop is closed"
        raise RuntimeError(msg)
    try:
        await job.over.wait()
    except trio.Cancelled:
        bridge.link.to_host(partial(bridge.loop.call_soon, job.cancel))
        with trio.CancelScope(shield=True):
            await job.over.wait()
        raise
    if job.error is not None:
        raise job.error


@final
class _HostTask:
    """An asyncio task for which a trio task waits."""

    def __init__(
        self,
        bridge: Bridge,
        function: Callable[[], Coroutine[Any, Any, None]],
        context: Context,
        name: str,
    ) -> None:
        self._bridge = bridge
        self._function = function
        self._context = context
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        self.over = trio.Event()

    def start(self) -> None:
        try:
            work = self._function()
            task = self._bridge.loop.create_task(work, name=self._name, context=self._context)
        except Exception as error:  # noqa: BLE001 - it is raised on the other side
            self._end(error)
        else:
            self._task = task
            task.add_done_callback(self._done)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._end(RuntimeError(f"the task {self._name!r} was cancelled"))
            return
        error = task.exception()
        if error is None or isinstance(error, Exception):
            self._end(error)
        else:  # It goes through the loop by itself, and must not do so on the other side too.
            self._end(RuntimeError(f"the task {self._name!r} ended by {error!r}"))

    def _end(self, error: Exception | None) -> None:
        self.error = error
        self._bridge.link.to_trio(self.over.set)
