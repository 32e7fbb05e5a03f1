"""The task that runs batches: it carries messages between callers, machine and owners."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, assert_never, final

import trio

from muster._mailbox import Interleave, Mailbox
from muster._owners import ApplicationOwner, GangOwner, QueueOwner, Survey, broken
from muster._requests import (
    AskWhy,
    Examine,
    Examined,
    Finish,
    Request,
    Settle,
    Submit,
    TakeSnapshot,
    refuse_unanswered,
)
from muster_core.admission import AnyRoute
from muster_core.application import ApplicationMachine
from muster_core.conductor import Closing, Conductor
from muster_core.decisions import Announced, seconds
from muster_core.directory import StartApp, StartQueue, TellApp, TellQueue
from muster_core.errors import RefusedError
from muster_core.gang import GangMachine
from muster_core.gang_messages import GangReport
from muster_core.messages import QueueReport
from muster_core.queue import QueueMachine
from muster_core.register import StartGang, TellGang
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SLICE_S: Final = 0.002
"""How long a round works before it lets other tasks run, in seconds."""


class Journal(Protocol):
    """Where decisions go."""

    def write(self, batch: Sequence[Announced], /) -> None:
        """Take the decisions of one batch, in order; owners learn of them only afterwards."""


@final
class Coordinator:
    """Runs the batches.

    Args:
        conductor: Its state, which only this task touches.
        journal: Where the decisions go, or None.
        interleave: See :data:`muster._mailbox.Interleave`.
    """

    def __init__(
        self,
        conductor: Conductor,
        journal: Journal | None,
        interleave: Interleave | None,
    ) -> None:
        self._conductor = conductor
        self._journal = journal
        self._interleave = interleave
        self._reports: Mailbox[QueueReport] = Mailbox(interleave)
        self._gang_reports: Mailbox[GangReport] = Mailbox(interleave)
        self._apps: dict[int, ApplicationOwner] = {}
        self._queues: dict[int, QueueOwner] = {}
        self._gangs: dict[int, GangOwner] = {}
        self._nursery: trio.Nursery
        #: The request that has been taken and not answered.
        self._serving: Request | None = None
        #: What the journal raised, if it did.
        self._journal_error: Exception | None = None
        #: Whether a batch has begun and not ended.
        self._open = False

    async def run(
        self,
        nursery: trio.Nursery,
        entry: trio.MemoryReceiveChannel[Request],
        done: trio.Event,
    ) -> None:
        """Serve requests until the entry is closed; then end the batch that is open.

        Args:
            nursery: Where the owners run.
            entry: Where requests come in.
            done: Set when everything has been carried out.

        Raises:
            BrokenSchedulerError: If it fails itself, which is a bug.
            Exception: What the journal raises, as it is.
        """
        self._nursery = nursery
        try:
            await self._serve_all(entry)
            done.set()
        except Exception as error:
            if error is self._journal_error:
                raise
            raise broken("coordinator", "", self._serving) from error
        finally:
            if self._serving is not None:
                refuse_unanswered(self._serving)
            while True:
                try:
                    refuse_unanswered(entry.receive_nowait())
                except (trio.WouldBlock, trio.EndOfChannel, trio.ClosedResourceError):
                    break
            entry.close()

    async def _serve_all(self, entry: trio.MemoryReceiveChannel[Request]) -> None:
        self._deliver(self._conductor.start())
        self._begin()
        async for request in entry:
            self._serving = request
            await self._serve(request)
            self._serving = None
        await self._end()

    async def _serve(self, request: Request) -> None:
        match request:
            case Submit():
                await self._submit(request)
            case Settle(at_us, reply):
                if at_us is None or await self._advance(at_us):
                    await self._settle()
                    reply.answer(None)
                else:
                    reply.fail(RefusedError(self._too_early(at_us)))
            case Finish(until_us, reply):
                await self._end()
                await self._run_timers(until_us)
                reply.answer(None)
            case TakeSnapshot(reply):
                await self._end()
                reply.answer(await self._snapshot())
            case AskWhy(app, ask, reply):
                await self._end()
                self._settle_cycles()
                reply.answer(self._conductor.why_pending(app, ask))
            case Examine(examiner, reply):
                await self._end()
                reply.answer(await self._examine(examiner))
            case _:
                assert_never(request)

    async def _submit(self, request: Submit) -> None:
        conductor = self._conductor
        event = request.event
        if request.at_us is not None and not await self._advance(request.at_us):
            event = self._too_early(request.at_us)
        self._begin()
        if conductor.must_hear_first(event):
            await self._hear_owners()
        if isinstance(event, str):
            conductor.refuse(event, request.index, request.line)
        else:
            self._deliver(conductor.enter(event, request.index, request.line))
        if request.reply is not None:
            await self._hear_owners()
            refusal = conductor.last_refusal()
            if refusal is None:
                request.reply.answer(None)
            else:
                request.reply.fail(RefusedError(refusal))

    def _too_early(self, at_us: int) -> str:
        now = seconds(self._conductor.now_us)
        return f"at: {seconds(at_us)} is earlier than the present instant, {now}"

    # Time

    async def _advance(self, at_us: int) -> bool:
        """Let time pass until ``at_us``: end the batch, then one batch for each timer before.

        Returns:
            False if that instant is over already; then nothing was done.
        """
        conductor = self._conductor
        if at_us < conductor.now_us:
            return False
        if at_us > conductor.now_us:
            await self._end()
            await self._run_timers(at_us - 1)
            conductor.now_us = at_us
        return True

    async def _run_timers(self, until_us: int | None) -> None:
        """Run one batch for each instant at which a timer is due, ``until_us`` included."""
        while True:
            due_us = self._conductor.next_deadline_us()
            if due_us is None or (until_us is not None and due_us > until_us):
                break
            self._conductor.now_us = due_us
            self._begin()
            await self._end()
        if until_us is not None and until_us > self._conductor.now_us:
            self._conductor.now_us = until_us

    async def _settle(self) -> None:
        self._begin()
        await self._end()

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._deliver(self._conductor.begin(self._conductor.now_us))

    async def _end(self) -> None:
        """Close the batch, decide, announce, and let the owners know."""
        if not self._open:
            return
        self._open = False
        await self._hear_owners()
        pause = perf_counter() + SLICE_S
        for _ in self._conductor.decide():
            if perf_counter() >= pause:
                await trio.lowlevel.checkpoint()
                pause = perf_counter() + SLICE_S
        outcome = self._conductor.finish()
        self._announce(outcome.announced)
        # Nobody waits for these: whatever an owner is told next comes after them.
        for key, app_commit in outcome.apps.items():
            self._apps[key].mailbox.put(app_commit, wake=False)
        for key, queue_commit in outcome.queues.items():
            self._queues[key].mailbox.put(queue_commit, wake=False)
        for key, gang_commit in outcome.gangs.items():
            self._gangs[key].mailbox.put(gang_commit, wake=False)

    def _announce(self, decisions: Sequence[Announced]) -> None:
        if self._journal is None or not decisions:
            return
        try:
            self._journal.write(decisions)
        except Exception as error:
            self._journal_error = error  # Not ours: it comes out of the block as it is.
            raise

    # Owners

    def _deliver(self, routes: list[AnyRoute]) -> None:
        for route in routes:
            match route:
                case TellApp():
                    self._apps[route.key].mailbox.put(route.message, wake=False)
                case StartApp(identity):
                    app = ApplicationOwner(
                        ApplicationMachine(identity),
                        self._queues[identity.leaf].mailbox,
                        self._interleave,
                    )
                    self._apps[identity.key] = app
                    self._nursery.start_soon(app.run)
                case StartQueue():
                    parent = (
                        self._reports
                        if route.parent is None
                        else self._queues[route.parent].mailbox
                    )
                    queue = QueueOwner(
                        QueueMachine(route.key, route.parent, route.config),
                        parent,
                        self._interleave,
                    )
                    self._queues[route.key] = queue
                    self._nursery.start_soon(queue.run)
                case TellQueue():
                    self._queues[route.key].mailbox.put(route.message, wake=False)
                case StartGang():
                    gang = GangOwner(
                        GangMachine(route.key, route.name), self._gang_reports, self._interleave
                    )
                    self._gangs[route.key] = gang
                    self._nursery.start_soon(gang.run)
                case TellGang():
                    self._gangs[route.key].mailbox.put(route.message, wake=False)
                case _:
                    assert_never(route)

    async def _hear_owners(self) -> None:
        """Close an epoch: have everybody report who was told something, and take it over."""
        closing = self._conductor.close()
        if closing is not None:
            await self._hear_applications(closing)
        closes = self._conductor.close_gangs()
        for key, close in closes.items():
            self._gangs[key].mailbox.put(close)
        reports = await _collect(self._gang_reports, len(closes))
        self._conductor.apply_gangs(reports)
        for gang in reports:
            if gang.gone:
                del self._gangs[gang.key]

    async def _hear_applications(self, closing: Closing) -> None:
        for key, expect in closing.queues.items():
            self._queues[key].mailbox.put(expect, wake=not expect.children)
        for key, close in closing.apps.items():
            self._apps[key].mailbox.put(close)
        (report,) = await self._reports.take_all()
        assert report.credits == closing.credits, "a request was not answered"
        self._deliver(self._conductor.apply(report))
        for app in report.apps:
            if app.gone:
                del self._apps[app.identity.key]
        for queue in report.queues:
            if queue.gone:
                del self._queues[queue.key]

    # Reading

    def _settle_cycles(self) -> None:
        for key, commit in self._conductor.settle_cycles().items():
            self._gangs[key].mailbox.put(commit, wake=False)

    async def _snapshot(self) -> Snapshot:
        self._settle_cycles()
        apps: Mailbox[AppSnapshot] = Mailbox()
        queues: Mailbox[QueueSnapshot] = Mailbox()
        gangs: Mailbox[GangSnapshot] = Mailbox()
        for app in self._apps.values():
            app.mailbox.put(Survey(apps))
        for queue in self._queues.values():
            queue.mailbox.put(Survey(queues))
        for gang in self._gangs.values():
            gang.mailbox.put(Survey(gangs))
        return self._conductor.snapshot(
            await _collect(apps, len(self._apps)),
            await _collect(queues, len(self._queues)),
            await _collect(gangs, len(self._gangs)),
        )

    async def _examine(self, examiner: Callable[[Examined], None]) -> AssertionError | None:
        snapshot = await self._snapshot()  # Now every owner has read everything it was told.
        examined = Examined(
            conductor=self._conductor,
            apps={key: app.machine for key, app in self._apps.items()},
            queues={key: queue.machine for key, queue in self._queues.items()},
            gangs={key: gang.machine for key, gang in self._gangs.items()},
            snapshot=snapshot,
        )
        try:
            examiner(examined)
        except AssertionError as error:
            return error
        return None


T = TypeVar("T")


async def _collect(mailbox: Mailbox[T], expected: int) -> list[T]:
    """Take messages until as many have come as are expected."""
    messages: list[T] = []
    while len(messages) < expected:
        messages.extend(await mailbox.take_all())
    return messages
