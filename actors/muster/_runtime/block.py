"""The ``async with`` block of a scheduler, in which all its tasks run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from muster._errors import BrokenSchedulerError


@asynccontextmanager
async def run_for_block(
    run: Callable[[trio.Nursery, trio.Event], Awaitable[None]],
    close: Callable[[], None],
    ready: trio.Event | None = None,
) -> AsyncGenerator[None, None]:
    """Run a coordinator for the time of the block.

    Args:
        run: Runs the coordinator. It gets the nursery for all tasks, and an event to set when
            everything that was accepted has been carried out.
        close: Called when the block ends; the coordinator must not accept anything any more.

        ready: The body begins when the coordinator has set it; None: at once.

    Raises:
        BaseException: The exception that ended the block, or that of a task; unchanged.
    """
    leaving: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            done = trio.Event()
            nursery.start_soon(run, nursery, done)
            try:
                if ready is not None:
                    await ready.wait()
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
            # Keep its context: the exception group that contained it did not cause it.
            leaving.__context__ = context
            del leaving


def _foremost(
    group: BaseExceptionGroup[BaseException], leaving: BaseException | None
) -> BaseException:
    """Return what to raise when tasks have failed and ``leaving`` has ended the body."""
    failures = [error for error in group.exceptions if not isinstance(error, trio.Cancelled)]
    if not failures:  # All were cancelled from outside; an error of the body comes first.
        return group if leaving is None else leaving
    # What failed only because of another failure says nothing new, such as a second write.
    failures = [error for error in failures if error.__cause__ not in failures]
    if len(failures) == 1 or all(isinstance(one, BrokenSchedulerError) for one in failures):
        return failures[0]
    return group.derive(failures)
