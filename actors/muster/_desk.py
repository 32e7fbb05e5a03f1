"""Where a program's calls go in, and their answers come out."""

from __future__ import annotations

from typing import TypeVar, final

import trio

from muster._calls import Answer, Call, Enter, Entered, Note
from muster._errors import ClosedSchedulerError
from muster_core.events import Event

A = TypeVar("A")


def closed() -> ClosedSchedulerError:
    """Make the error of whoever asks too late."""
    return ClosedSchedulerError("the scheduler is closed")


@final
class Desk:
    """The entry of a running scheduler, as callers see it.

    Args:
        entry: Where calls go in; a caller beyond its bound waits for a slot.
    """

    def __init__(self, entry: trio.MemorySendChannel[Call | Note]) -> None:
        self._entry = entry

    async def call(self, call: Call, answer: Answer[A]) -> A:
        """Ask the coordinator.

        Args:
            call: What is asked.
            answer: Its answer, which says what type it has.

        Raises:
            MusterError: What the coordinator answers.
            ClosedSchedulerError: If the scheduler is closed.
        """
        try:
            await self._entry.send(call)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint_if_cancelled()
            raise closed() from None
        return await answer.wait()

    async def enter(self, event: Event, *, track: bool = False) -> Entered:
        """Let an event in.

        Args:
            event: The event.
            track: Whether the asks that come with it are to be tracked.

        Raises:
            RefusedError: If it makes no sense now.
            ClosedSchedulerError: If the scheduler is closed.
        """
        call = Enter((event,), track)
        entered = await self.call(call, call.answer)
        (refusal,) = entered.refusals
        if refusal is not None:
            raise refusal
        return entered
