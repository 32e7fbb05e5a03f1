"""Calls from trio to asyncio: a trio task waits for a task of the host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any

import trio

from muster.asyncio._bridge import Bridge


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
