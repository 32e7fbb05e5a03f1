"""The client, through which a program's calls reach the coordinator."""

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
    """Raise the error of a closed scheduler, or the cancellation of a cancelled caller.

    Raises:
        ClosedSchedulerError: Unless the caller is cancelled.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    raise closed()


@final
class Client:
    """Sends calls to a running scheduler.

    Args:
        entry: The queue of calls; callers wait for a place when it is full.
        pace: The pace of all tasks of the scheduler, for callers with many events.
        keeps: Whether the scheduler has a store.
    """

    def __init__(self, entry: Entry[Call | Note], pace: Pace, *, keeps: bool = False) -> None:
        self._entry = entry
        self.pace = pace
        self.keeps = keeps

    async def call(self, call: Call, answer: Answer[A]) -> A:
        """Send a call to the coordinator, and return its answer.

        Args:
            call: The call.
            answer: The answer of this call, for its type.

        Raises:
            MusterError: If the coordinator answers with this error.
            ClosedSchedulerError: If the scheduler is closed.
        """
        try:
            await self._entry.put(call)
        except ClosedSchedulerError:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise
        return await answer.wait()

    async def enter(self, event: Event, *, track: bool = False) -> Entered:
        """Submit an event.

        Args:
            event: The event.
            track: Whether to track the asks that the event adds.

        Raises:
            RefusedError: If the event is not possible now.
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
            del refusal, entered, call  # avoids a reference cycle through the traceback
