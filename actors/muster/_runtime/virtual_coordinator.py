"""The coordinator in virtual time: callers decide when batches end and time moves."""

from __future__ import annotations

from typing import Any, assert_never, final

import trio

from muster._runtime.announcer import ForeignErrors
from muster._runtime.batches import Batches
from muster._runtime.clock import Pace
from muster._runtime.entry import EntryQueue
from muster._runtime.owners import broken_error
from muster._runtime.requests import (
    Examine,
    Finish,
    Request,
    Settle,
    Submit,
    refuse_unanswered,
)
from muster_core.errors import RefusedError
from muster_core.facts import Facts


# FEED-12
@final
class VirtualCoordinator:
    """Carries out requests one after the other; only requests move the time.

    Args:
        batches: The batches, which only this task uses.
        pace: The pace of all tasks of the scheduler.
        entry: The queue of requests.
        blame: Knows the exceptions of the journal.
        facts: A checkpoint to go on from, or None.
    """

    def __init__(
        self,
        batches: Batches,
        pace: Pace,
        entry: EntryQueue[Request],
        blame: ForeignErrors,
        facts: Facts | None = None,
    ) -> None:
        self._batches = batches
        self._blame = blame
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
            if self._blame.is_for(error):
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
            self._batches.start(nursery)
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
            await batches.hear_owners()
        batches.let_in(event, request.index, request.line)
        if request.reply is not None:
            await batches.hear_owners()
            refusal = batches.machine.refusal_of(batches.machine.entered)
            if refusal is None:
                request.reply.give(None)
            else:
                request.reply.fail(RefusedError(refusal))
