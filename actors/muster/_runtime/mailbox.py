"""Mailboxes: how an owner of state is told something.

One task takes, any may put. Taking takes everything, which is what makes it
cheap to coalesce; and something can be put without waking the owner, who then
finds it, in its place, when woken by something else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar, final

import trio

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

T = TypeVar("T")

Interleave = Callable[[], Awaitable[None]]
"""Awaited by an owner before it reads its mailbox: lets tests disturb the order of tasks."""


@final
class Mailbox(Generic[T]):
    """The inbox of one task.

    It has no bound of its own. What is in it is bounded by what has been let in:
    requests of one batch, whose number the bounded entry of the scheduler and the
    caller's own batches limit, and at most one commit for each round of decisions
    that concern the owner.

    Args:
        interleave: Awaited before each reading, or None.
    """

    __slots__ = ("_interleave", "_messages", "_waiter")

    def __init__(self, interleave: Interleave | None = None) -> None:
        self._messages: list[T] = []
        self._waiter: trio.lowlevel.Task | None = None
        self._interleave = interleave

    def __len__(self) -> int:
        """Give how many messages there are that have not been read."""
        return len(self._messages)

    def put(self, message: T, *, wake: bool = True) -> None:
        """Put a message in.

        Args:
            message: The message.
            wake: Whether the owner is to read it now, not only with the next message.
        """
        self._messages.append(message)
        if wake and self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def wake(self) -> None:
        """Let the owner read what is there."""
        if self._waiter is not None and self._messages:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def drain(self) -> list[T]:
        """Take out what was never read; for the end."""
        messages, self._messages = self._messages, []
        return messages

    async def take_all(self) -> list[T]:
        """Wait until the owner is woken; take out everything, in the order of putting.

        An owner that comes back before it is woken again reads at once whatever has
        been put meanwhile with or without waking it: nothing can be lost in between.
        """
        if self._interleave is not None:
            await self._interleave()
        if self._messages:
            await trio.lowlevel.checkpoint()
        else:
            self._waiter = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        messages, self._messages = self._messages, []
        return messages

    def _abort(self, _: RaiseCancelT) -> trio.lowlevel.Abort:
        self._waiter = None
        return trio.lowlevel.Abort.SUCCEEDED
