"""Where a program's calls go in, and their answers come out."""

from __future__ import annotations

from typing import NoReturn, TypeVar, final

import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.clients.calls import Answer, Call, Enter, Entered, Note
from muster._runtime.entry import Entry, closed
from muster._runtime.pace import Pace
from muster_core.events import Event

A = TypeVar("A")


async def raise_closed() -> NoReturn:
    """Tell a caller that the scheduler is closed, unless it is cancelled as well.

    Raises:
        ClosedSchedulerError: Always.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    raise closed()


@final
class Client:
    """The entry of a running scheduler, as callers see it.

    Args:
        entry: Where calls go in; a caller beyond its bound waits for a place.
        pace: That of all tasks of the scheduler, for callers with much to say.
    """

    def __init__(self, entry: Entry[Call | Note], pace: Pace) -> None:
        self._entry = entry
        self.pace = pace

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
            await self._entry.put(call)
        except ClosedSchedulerError:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise
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
        if refusal is None:
            return entered
        try:
            raise refusal
        finally:
            del refusal, entered, call  # Else it would hold itself, by its own traceback.
