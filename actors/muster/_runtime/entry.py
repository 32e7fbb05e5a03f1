"""The entry of a scheduler: many put something in, one task takes it out, in order.

It is what a memory channel of trio would be, but for what it costs: the one that takes out is
woken once, and then finds all that has come meanwhile. A replay of a pipe may wait for its next
line, with the whole program: so whoever puts something in lets others run each time.
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
"""How much may wait at an entry; who comes then waits for a place."""


@final
class Entry(Generic[T]):
    """Where requests come in."""

    __slots__ = ("_is_closed", "_parked", "_taker", "_things")

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        #: Who waits for a place, with what it brings; in order.
        self._parked: dict[trio.lowlevel.Task, T] = {}
        self._taker: trio.lowlevel.Task | None = None
        self._is_closed = False

    # For those who put something in

    async def put(self, thing: T) -> None:
        """Put something in; wait for a place if there is none.

        Who is cancelled while it waits has put nothing in.

        Raises:
            ClosedSchedulerError: If the entry is closed, or is while this waits.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._is_closed:
            raise closed()
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

    def close(self) -> None:
        """Let nothing more in; what is inside is there to be taken."""
        self._is_closed = True
        for task in self._parked:
            trio.lowlevel.reschedule(task, outcome.Error(closed()))
        self._parked.clear()
        self._wake()

    # For the one who takes it out

    async def wait(self) -> bool:
        """Wait until there is something; False if there will be nothing more."""
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
        """Give how much there is to be taken at once."""
        return len(self._things)

    def take(self) -> T:
        """Take out what came first, which makes room for who has waited longest for a place."""
        thing = self._things.popleft()
        if self._parked:
            task = next(iter(self._parked))
            self._things.append(self._parked.pop(task))
            trio.lowlevel.reschedule(task)
        return thing


def closed() -> ClosedSchedulerError:
    """Make the error of whoever asks too late."""
    return ClosedSchedulerError("the scheduler is closed")
