"""The entry of a scheduler, and the ``async with`` block in which all its tasks run.

The entry is a bounded queue from many callers to the coordinator, in order. It works like a memory
channel of trio, but costs less: the coordinator is woken once, and then takes everything that has
come. Each ``put`` lets other tasks run, because a replay of a pipe may block the whole program
while it waits for the next line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import outcome
import trio

from muster._errors import BrokenSchedulerError, ClosedSchedulerError

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT


T = TypeVar("T")

BOUND: Final = 1024
"""How many requests an entry holds; further callers wait for a place."""


@final
class EntryQueue(Generic[T]):
    """A bounded queue of requests."""

    __slots__ = ("_cause", "_is_closed", "_items", "_parked", "_taker")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        #: The tasks that wait for a place, each with its request, in order.
        self._parked: dict[trio.lowlevel.Task, T] = {}
        self._taker: trio.lowlevel.Task | None = None
        self._is_closed = False
        self._cause: Exception | None = None

    # For callers

    async def put(self, item: T) -> None:
        """Put a request into the entry; wait for a place if it is full.

        A caller that is cancelled while it waits has put nothing in.

        Raises:
            ClosedSchedulerError: If the entry is closed, or is closed while this waits.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise closed_error(self._cause)
        if len(self._items) >= BOUND:
            await self._put_later(item)
            return
        self._items.append(item)
        self._wake()
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def _put_later(self, item: T) -> None:
        task = trio.lowlevel.current_task()
        self._parked[task] = item

        def abort(_: RaiseCancelT) -> trio.lowlevel.Abort:
            del self._parked[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def close(self, cause: Exception | None = None) -> None:
        """Refuse further requests; the coordinator can still take those inside.

        Args:
            cause: The error because of which it is closed, or None.
        """
        self._is_closed = True
        self._cause = self._cause or cause
        for task in self._parked:
            trio.lowlevel.reschedule(task, outcome.Error(closed_error(self._cause)))
        self._parked.clear()
        self._wake()

    # For the coordinator

    async def wait(self) -> bool:
        """Wait for a request; return False if the entry is closed and empty."""
        if self._items or self._is_closed:
            await trio.lowlevel.checkpoint()
        else:
            self._taker = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        return bool(self._items)

    def _leave(self, _: RaiseCancelT) -> trio.lowlevel.Abort:
        self._taker = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        if self._taker is not None:
            trio.lowlevel.reschedule(self._taker)
            self._taker = None

    def __len__(self) -> int:
        """Return how many requests can be taken at once."""
        return len(self._items)

    def first(self) -> T:
        """Return the oldest request, which stays."""
        return self._items[0]

    def take(self) -> T:
        """Take the oldest request; its place goes to the caller that has waited longest."""
        item = self._items.popleft()
        if self._parked:
            task = next(iter(self._parked))
            self._items.append(self._parked.pop(task))
            trio.lowlevel.reschedule(task)
        return item


def closed_error(cause: Exception | None = None) -> ClosedSchedulerError:
    """Create the error of a call to a closed scheduler.

    Args:
        cause: The error because of which it is closed, or None.
    """
    error = ClosedSchedulerError("the scheduler is closed")
    error.__cause__ = cause
    return error


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
