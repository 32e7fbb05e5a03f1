"""The block of a scheduler: its tasks live as long as an ``async with``, and no longer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from muster._errors import BrokenSchedulerError


@asynccontextmanager
async def run_for_block(
    run: Callable[[trio.Nursery, trio.Event], Awaitable[None]], close: Callable[[], None]
) -> AsyncGenerator[None, None]:
    """Run a coordinator for the time of the block.

    Args:
        run: Gets the nursery of all tasks, and what it is to set when everything that
            was let in has been carried out.
        close: Called when the block is left; nothing more is to be let in.

    Raises:
        BaseException: What the block was left by, or what a task has failed with; as it is.
    """
    leaving: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            done = trio.Event()
            nursery.start_soon(run, nursery, done)
            try:
                yield
                close()
                await done.wait()
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                leaving = error
            close()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        leaving = _foremost(group, leaving)
    if leaving is not None:
        context = leaving.__context__
        try:
            raise leaving
        finally:
            # It comes out as it was: the group that it was in is not what led to it.
            leaving.__context__ = context
            del leaving


def _foremost(
    group: BaseExceptionGroup[BaseException], leaving: BaseException | None
) -> BaseException:
    """Give what to raise when tasks have failed and the body was left because of ``leaving``."""
    failures = [error for error in group.exceptions if not isinstance(error, trio.Cancelled)]
    if not failures:  # All were cancelled from outside; an error of the body outdoes that.
        return group if leaving is None else leaving
    if len(failures) == 1 or all(isinstance(one, BrokenSchedulerError) for one in failures):
        return failures[0]
    return group.derive(failures)
