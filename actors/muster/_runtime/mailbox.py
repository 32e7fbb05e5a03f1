"""Mailboxes, through which owners of state receive messages.

Any task may put messages; one task takes them, always all at once, which makes many messages
cheap. A message can be put without waking the owner, which then reads it, in its place, when
another message wakes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar, final

import trio

if TYPE_CHECKING:
    from trio.lowlevel import RaiseCancelT

T = TypeVar("T")

Interleave = Callable[[], Awaitable[None]]
"""Awaited by an owner before it reads its mailbox; tests use it to change the order of tasks."""


@final
class Mailbox(Generic[T]):
    """The queue of messages of one task.

    It has no bound of its own. Its size depends on the requests of one batch, which the bounded
    entry of the scheduler and the batches of callers limit, and on the commits for the owner, at
    most one for each round of decisions.

    Args:
        interleave: Awaited before each reading, or None.
    """

    __slots__ = ("_interleave", "_messages", "_waiter")

    def __init__(self, interleave: Interleave | None = None) -> None:
        self._messages: list[T] = []
        self._waiter: trio.lowlevel.Task | None = None
        self._interleave = interleave

    def __len__(self) -> int:
        """Return how many messages have not been read."""
        return len(self._messages)

    def put(self, message: T, *, wake: bool = True) -> None:
        """Put a message in.

        Args:
            message: The message.
            wake: Whether to wake the owner now; otherwise it reads the message with a later one.
        """
        self._messages.append(message)
        if wake and self._waiter is not None:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def wake(self) -> None:
        """Wake the owner if there are messages."""
        if self._waiter is not None and self._messages:
            trio.lowlevel.reschedule(self._waiter)
            self._waiter = None

    def drain(self) -> list[T]:
        """Remove and return the unread messages, when the scheduler ends."""
        messages, self._messages = self._messages, []
        return messages

    async def take_all(self) -> list[T]:
        """Wait until the owner is woken, and take all messages in order.

        If there are messages already, also such as did not wake the owner, this takes them at
        once: no message can get lost between two calls.
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
