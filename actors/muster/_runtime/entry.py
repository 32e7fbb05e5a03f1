"""The entry of a scheduler: a bounded queue from many callers to the coordinator, in order.

It works like a memory channel of trio, but costs less: the coordinator is woken once, and then
takes everything that has come. Each ``put`` lets other tasks run, because a replay of a pipe may
block the whole program while it waits for the next line.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import outcome
import trio

from muster._errors import ClosedSchedulerError

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

T = TypeVar("T")

BOUND: Final = 1024
"""How many requests an entry holds; further callers wait for a place."""


@final
class Entry(Generic[T]):
    """A bounded queue of requests."""

    __slots__ = ("_cause", "_is_closed", "_parked", "_taker", "_things")

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        #: The tasks that wait for a place, each with its request, in order.
        self._parked: dict[trio.lowlevel.Task, T] = {}
        self._taker: trio.lowlevel.Task | None = None
        self._is_closed = False
        self._cause: Exception | None = None

    # For callers

    async def put(self, thing: T) -> None:
        """Put a request into the entry; wait for a place if it is full.

        A caller that is cancelled while it waits has put nothing in.

        Raises:
            ClosedSchedulerError: If the entry is closed, or is closed while this waits.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise closed(self._cause)
        if len(self._things) >= BOUND:
            await self._put_later(thing)
            return
        self._things.append(thing)
        self._wake()
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def _put_later(self, thing: T) -> None:
        task = trio.lowlevel.current_task()
        self._parked[task] = thing

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
            trio.lowlevel.reschedule(task, outcome.Error(closed(self._cause)))
        self._parked.clear()
        self._wake()

    # For the coordinator

    async def wait(self) -> bool:
        """Wait for a request; return False if the entry is closed and empty."""
        if self._things or self._is_closed:
            await trio.lowlevel.checkpoint()
        else:
            self._taker = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        return bool(self._things)

    def _leave(self, _: RaiseCancelT) -> trio.lowlevel.Abort:
        self._taker = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _wake(self) -> None:
        if self._taker is not None:
            trio.lowlevel.reschedule(self._taker)
            self._taker = None

    def __len__(self) -> int:
        """Return how many requests can be taken at once."""
        return len(self._things)

    def first(self) -> T:
        """Return the oldest request, which stays."""
        return self._things[0]

    def take(self) -> T:
        """Take the oldest request; its place goes to the caller that has waited longest."""
        thing = self._things.popleft()
        if self._parked:
            task = next(iter(self._parked))
            self._things.append(self._parked.pop(task))
            trio.lowlevel.reschedule(task)
        return thing


def closed(cause: Exception | None = None) -> ClosedSchedulerError:
    """Create the error of a call to a closed scheduler.

    Args:
        cause: The error because of which it is closed, or None.
    """
    error = ClosedSchedulerError("the scheduler is closed")
    error.__cause__ = cause
    return error
