"""The coordinator in virtual time: callers decide when batches end and time moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar, assert_never, final

import attrs
import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.announcer import ForeignErrors
from muster._runtime.batches import Batches
from muster._runtime.clock import Pace
from muster._runtime.entry import EntryQueue
from muster._runtime.owners import broken_error
from muster._runtime.requests import Answer
from muster_core.errors import RefusedError
from muster_core.events import Event
from muster_core.facts import Facts
from muster_core.values.records import record

A = TypeVar("A")


@final
@record
class Submit:
    """Submit an event, or the refusal of an input that could not be read.

    Attributes:
        event: The event, or the message of the refusal.
        at_us: Its instant in microseconds, or None for the present instant.
        index: Its index in the feed, or None.
        line: Its line in the feed, or None.
        reply: The reply for a caller that waits until it is accepted or refused, or None.
    """

    event: Event | str
    at_us: int | None = None
    index: int | None = None
    line: int | None = None
    reply: Answer[None] | None = None


@final
@attrs.frozen
class Settle:
    """Close the batch, at ``at_us`` or the present instant."""

    at_us: int | None
    reply: Answer[None]


@final
@attrs.frozen
class Finish:
    """Close the batch and run all timers, or those up to ``until_us``."""

    until_us: int | None
    reply: Answer[None]


@final
@attrs.frozen
class Examine(Generic[A]):
    """Close the batch and read the state."""

    look: Callable[[Batches], Awaitable[A]]
    reply: Answer[A] = attrs.field(factory=Answer[Any])


Request: TypeAlias = "Submit | Settle | Finish | Examine[Any]"
"""All requests to the coordinator in virtual time."""


def refuse_unanswered(request: Request) -> None:
    """Answer a request with the error that the scheduler is closed."""
    if request.reply is not None:
        request.reply.fail(ClosedSchedulerError("the scheduler was closed before it answered"))


# FEED-12
@final
class VirtualCoordinator:
    """Carries out requests one after the other; only requests move the time.

    Args:
        batches: The batches, which only this task uses.
        pace: The pace of all tasks of the scheduler.
        entry: The queue of requests.
        foreign_errors: Knows the exceptions of the journal.
        facts: A checkpoint to go on from, or None.
    """

    def __init__(
        self,
        batches: Batches,
        pace: Pace,
        entry: EntryQueue[Request],
        foreign_errors: ForeignErrors,
        facts: Facts | None = None,
    ) -> None:
        self._batches = batches
        self._foreign_errors = foreign_errors
        self._pace = pace
        self._entry = entry
        self._facts = facts
        #: The request that was taken from the entry and is not answered, or None.
        self._serving: Request | None = None

    async def run(self, nursery: trio.Nursery, done: trio.Event) -> None:
        """Serve requests until the entry is closed; then end the open batch.

        Args:
            nursery: The nursery of the owners.
            done: Set when everything has been carried out.

        Raises:
            BrokenSchedulerError: If the coordinator itself fails because of a bug.
            Exception: What the journal raises, unchanged.
        """
        try:
            await self._start(nursery)
            await self._serve_all()
            await self._batches.close()
            done.set()
        except Exception as error:
            if self._foreign_errors.is_for(error):
                raise
            raise broken_error("coordinator", "", self._serving) from error
        finally:
            self._entry.close()
            if self._serving is not None:
                refuse_unanswered(self._serving)
            while self._entry:
                refuse_unanswered(self._entry.take())

    async def _start(self, nursery: trio.Nursery) -> None:
        """Start the owners, and the first batch unless batches came before."""
        facts, self._facts = self._facts, None
        if facts is None:
            await self._batches.start(nursery)
        else:
            await self._batches.load(nursery, facts)
        if facts is None or not facts.has_begun:
            self._batches.begin()

    async def _serve_all(self) -> None:
        while await self._entry.wait():
            self._pace.start()
            while self._entry:
                request = self._serving = self._entry.take()
                if isinstance(request, Submit):  # first, as most requests are of this kind
                    await self._submit(request)
                else:
                    await self._serve(request)
                self._serving = None
                if self._pace.is_up():
                    await self._pace.rest()
        await self._batches.end_and_announce()

    async def _serve(self, request: Settle | Finish | Examine[Any]) -> None:
        batches = self._batches
        match request:
            case Settle(at_us, reply):
                # FEED-11
                if at_us is None or await batches.advance(at_us):
                    batches.begin()
                    await batches.end_and_announce()
                    reply.give(None)
                else:
                    reply.fail(RefusedError(batches.too_early(at_us)))
            case Finish(until_us, reply):
                await batches.end_and_announce()
                await batches.run_timers(until_us)
                reply.give(None)
            case Examine(look, reply):
                await batches.end_and_announce()
                reply.give(await look(batches))
            case _:
                assert_never(request)

    async def _submit(self, request: Submit) -> None:
        batches, event = self._batches, request.event
        at_us = request.at_us
        now_us = batches.machine.now_us
        if at_us is not None and at_us != now_us and not await batches.advance(at_us):
            event = batches.too_early(at_us)
        if batches.must_hear_first(event):
            await batches.collect_reports()
        batches.let_in(event, request.index, request.line)
        if request.reply is not None:
            await batches.collect_reports()
            refusal = batches.machine.refusal_of(batches.machine.entered)
            if refusal is None:
                request.reply.give(None)
            else:
                request.reply.fail(RefusedError(refusal))
