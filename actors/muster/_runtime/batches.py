"""The steps of a batch: messages between the coordinator's machine and the owners of state.

A coordinator (in virtual time, or by a clock) submits events, and says when a batch begins and
ends; this module does everything in between.
"""

from __future__ import annotations

from contextlib import contextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, assert_never, final

import trio

from muster._runtime.grace import finished
from muster._runtime.mailbox import Interleave, Mailbox
from muster._runtime.owners import ApplicationOwner, GangOwner, Leave, Owner, QueueOwner, Survey
from muster._runtime.pace import PIECE, PORTION, Pace, slices
from muster._runtime.requests import Examined
from muster_core.admission.routes import (
    AnyRoute,
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.epoch import Closing
from muster_core.coordinator.instants import pass_time
from muster_core.decisions import Announced, seconds
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine
from muster_core.owners.messages.gangs import GangReport
from muster_core.owners.messages.queues import QueueReport
from muster_core.owners.queue import QueueMachine
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot, Snapshot
from muster_core.structures.steps import all_at_once, freed, in_pieces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence

    from muster_core.coordinator.coordinator import Outcome
    from muster_core.events import Event
    from muster_core.reasons import Explanation
    from muster_core.structures.steps import Steps


T = TypeVar("T")

WRITE_GRACE_S: Final = 5.0
"""How long an asynchronous journal may write after the program was cancelled, in seconds."""


class Journal(Protocol):
    """An object of a program that receives all decisions.

    ``write`` may be asynchronous (``async def``): then other tasks run while it waits. With
    :mod:`muster.asyncio` it runs in the program's loop. It must not call the scheduler, which waits
    for it. When the block of the scheduler is cancelled or left by an exception, ``write`` may go
    on, so that a batch is not cut short. After five more seconds it is cancelled, and nobody
    learns of that batch. Callers wait for it, also those that are cancelled. So if it may hang, it
    needs a time limit of its own.

    A ``write`` that is not asynchronous stops the whole scheduler while it works. So a journal may
    have a method ``write_in_steps`` instead, as :class:`muster.feeds.DecisionLog` has. It is called
    instead of ``write``, and does the same as a generator, which yields wherever other tasks may
    run. It is not cancelled there.
    """

    def write(self, batch: Sequence[Announced], /) -> Awaitable[None] | None:
        """Receive the decisions of one batch, in order, before owners and callers do."""


def _writer(
    journal: Journal | None, pace: Pace
) -> Callable[[Sequence[Announced]], Awaitable[None]]:
    """Return the function that writes a batch to a journal, or does nothing without one."""
    in_steps: Callable[[Sequence[Announced]], Steps[None]] | None
    in_steps = getattr(journal, "write_in_steps", None)

    async def write(batch: Sequence[Announced]) -> None:
        if in_steps is not None:
            await pace.take(in_steps(batch), shield=True)
        elif journal is not None:
            written = journal.write(batch)
            if isawaitable(written):
                await finished(written, WRITE_GRACE_S)

    return write


@final
class Batches:
    """The state of the coordinator's task, and the steps of a batch.

    Args:
        machine: The machine, which only this task uses.
        journal: Receives the decisions, or None.
        interleave: See :data:`muster._runtime.mailbox.Interleave`.
        pace: The pace of all tasks of the scheduler.
        after: Called at the end of each batch with its decisions, and with the names of the
            gangs that it may have changed; or None.

    Attributes:
        machine: The machine.
    """

    def __init__(
        self,
        machine: CoordinatorMachine,
        journal: Journal | None,
        interleave: Interleave | None,
        pace: Pace,
        after: Callable[[Sequence[Announced], set[str]], Steps[None]] | None = None,
    ) -> None:
        self.machine = machine
        self._pace = pace
        self._after = after
        #: The gangs that have reported in this batch.
        self._heard: set[str] = set()
        #: Gives the decisions of a batch to the journal.
        self._write = _writer(journal, pace)
        self._interleave = interleave
        self._reports: Mailbox[QueueReport] = Mailbox(interleave)
        self._gang_reports: Mailbox[GangReport] = Mailbox(interleave)
        self._apps: dict[int, ApplicationOwner] = {}
        self._queues: dict[int, QueueOwner] = {}
        self._gangs: dict[int, GangOwner] = {}
        self._nursery: trio.Nursery
        #: The exception of the journal or the record, or None.
        self._foreign_error: Exception | None = None
        #: Whether a batch has begun and not ended.
        self._open = False

    def start(self, nursery: trio.Nursery) -> None:
        """Start the owners of the queues of the first configuration.

        Args:
            nursery: The nursery in which all owners run.
        """
        self._nursery = nursery
        self._deliver(self.machine.start())

    @contextmanager
    def blamed(self) -> Generator[None, None, None]:
        """Remember an exception in the block as one of the journal or the record."""
        try:
            yield
        except Exception as error:
            self._foreign_error = error
            raise

    def is_foreign(self, error: Exception) -> bool:
        """Return whether an error comes from the journal or the record."""
        # A coroutine cannot raise StopIteration: Python makes it the cause of a RuntimeError.
        foreign = self._foreign_error
        return foreign is not None and (error is foreign or error.__cause__ is foreign)

    # Time

    async def advance(self, at_us: int) -> bool:
        """Move the time to ``at_us``: end the batch, then run the timers before that instant.

        Returns:
            False if that instant is in the past; then nothing was done.
        """
        machine = self.machine
        if at_us < machine.now_us:
            return False
        # ROUND-1
        if at_us > machine.now_us:
            await self.end()
            await self.run_timers(at_us - 1)
            machine.now_us = at_us
        return True

    async def run_timers(self, until_us: int | None) -> None:
        """Run one batch for each instant at which a timer is due, ``until_us`` included."""
        for due_us in pass_time(self.machine, until_us):
            self._open = True
            self._deliver(await self._pace.take(self.machine.begin(due_us)))
            await self.end()

    async def close(self) -> None:
        """End the task of every owner, and free the memory in pieces; no batch may follow."""
        owners: list[ApplicationOwner | QueueOwner | GangOwner] = [
            *self._apps.values(),
            *self._queues.values(),
            *self._gangs.values(),
        ]
        for number, owner in enumerate(owners, 1):
            owner.mailbox.drain()  # The last commits are not needed any more.
            owner.mailbox.put(Leave())
            if not number % PORTION:
                await self._pace.rest()
        # Each owner frees its own memory.
        del owners
        await self._pace.take(self.machine.free(), shield=True)
        for known in (self._apps, self._queues, self._gangs):
            await self._pace.take(freed(known), shield=True)

    # Steps

    def begin(self) -> None:
        """Begin a batch at the present instant, unless one is open."""
        if not self._open:
            self._open = True
            self._deliver(all_at_once(self.machine.begin(self.machine.now_us)))

    async def enter(
        self, event: Event | str, index: int | None = None, line: int | None = None
    ) -> None:
        """Add an event to the batch; begin a batch if none is open.

        Args:
            event: The event, or the message of a refusal.
            index: Its index in the feed, or None.
            line: Its line in the feed, or None.
        """
        if self.must_hear_first(event):
            await self.hear_owners()
        self.let_in(event, index, line)

    def must_hear_first(self, event: Event | str) -> bool:
        """Begin a batch, unless one is open; return whether an event needs the owners' reports."""
        if not self._open:
            self.begin()
        return self.machine.must_hear_first(event)

    def let_in(self, event: Event | str, index: int | None, line: int | None) -> None:
        """Add an event that does not need the owners' reports first; see :meth:`enter`."""
        if isinstance(event, str):
            self.machine.refuse(event, index, line)
        else:
            self._deliver(self.machine.enter(event, index, line))

    def too_early(self, at_us: int) -> str:
        """Return the message that refuses an instant in the past."""
        now = seconds(self.machine.now_us)
        return f"at: {seconds(at_us)} is earlier than the present instant, {now}"

    async def end(self) -> None:
        """Close the open batch, if any: decide, announce, and send the commits to the owners."""
        if not self._open:
            return
        self._open = False
        await self.hear_owners()
        pace = self._pace
        for _ in self.machine.decide():
            if pace.is_up():
                await pace.rest()
        outcome = await pace.take(self.machine.finish())
        # ROUND-16
        # No cancellation from here on, before the journal, the owners and `after` are done.
        with self.blamed():
            if outcome.announced:
                await self._write(outcome.announced)
        await pace.take(self._commit(outcome), shield=True)
        if self._after is not None:
            changed = {self._gangs[key].machine.name for key in outcome.gangs}
            await pace.take(self._after(outcome.announced, changed | self._heard), shield=True)
        self._heard.clear()
        announced: list[Announced] = []
        for piece in slices(outcome.announced):  # The journal may keep the sequence itself.
            announced += piece
            if pace.is_up():
                await pace.rest(shield=True)
        del outcome
        await pace.let_go(announced, shield=True)

    def _commit(self, outcome: Outcome) -> Steps[None]:
        """Send the commits to the owners."""
        # The owners are not woken: each reads its commit before its next message.
        for piece in in_pieces(outcome.apps.items()):
            yield
            for key, app_commit in piece:
                self._apps[key].mailbox.put(app_commit, wake=False)
        for key, queue_commit in outcome.queues.items():
            self._queues[key].mailbox.put(queue_commit, wake=False)
        for key, gang_commit in outcome.gangs.items():
            self._gangs[key].mailbox.put(gang_commit, wake=False)

    # Owners

    def _deliver(self, routes: list[AnyRoute]) -> None:
        for route in routes:
            match route:
                case TellApp():
                    self._apps[route.key].mailbox.put(route.message, wake=False)
                case StartApp(identity):
                    machine = ApplicationMachine(identity)
                    app: ApplicationOwner = Owner(
                        "application",
                        identity.name,
                        machine,
                        self._queues[identity.leaf].mailbox,
                        Mailbox(self._interleave),
                        self._pace,
                        machine.in_steps,
                    )
                    self._apps[identity.key] = app
                    self._nursery.start_soon(app.run)
                case StartQueue():
                    queue: QueueOwner = Owner(
                        "queue",
                        route.config.path,
                        QueueMachine(route.key, route.parent, route.config),
                        self._reports
                        if route.parent is None
                        else self._queues[route.parent].mailbox,
                        Mailbox(self._interleave),
                        self._pace,
                    )
                    self._queues[route.key] = queue
                    self._nursery.start_soon(queue.run)
                case TellQueue():
                    self._queues[route.key].mailbox.put(route.message, wake=False)
                case StartGang():
                    gang: GangOwner = Owner(
                        "gang",
                        route.name,
                        GangMachine(route.key, route.name),
                        self._gang_reports,
                        Mailbox(self._interleave),
                        self._pace,
                    )
                    self._gangs[route.key] = gang
                    self._nursery.start_soon(gang.run)
                case TellGang():
                    self._gangs[route.key].mailbox.put(route.message, wake=False)
                case _:
                    assert_never(route)

    async def hear_owners(self) -> None:
        """Close an epoch: collect the reports of all changed owners, and apply them."""
        closing = await self._pace.take(self.machine.close())
        if closing is not None:
            await self._hear_applications(closing)
        closes = self.machine.close_gangs()
        await self._tell((self._gangs[key].mailbox, close) for key, close in closes.items())
        reports = await _collect(self._gang_reports, len(closes))
        await self._pace.take(self.machine.apply_gangs(reports))
        for gang in reports:
            self._heard.add(gang.name)
            if gang.gone:
                del self._gangs[gang.key]

    async def _hear_applications(self, closing: Closing) -> None:
        for key, expect in closing.queues.items():
            self._queues[key].mailbox.put(expect, wake=not expect.children)
        await self._tell((self._apps[key].mailbox, close) for key, close in closing.apps.items())
        (report,) = await self._reports.take_all()
        assert report.credits == closing.credits, "a request was not answered"
        self._deliver(await self._pace.take(self.machine.apply(report)))
        for key in [app.identity.key for app in report.apps if app.gone]:
            del self._apps[key]
        for key in [queue.key for queue in report.queues if queue.gone]:
            del self._queues[key]
        # A report with very many actions is freed in pieces as well.
        long = [app for app in report.apps if len(app.actions) > PIECE]
        actions = [action for app in long for action in app.actions]
        del long
        apps = list(report.apps)
        del report
        await self._pace.let_go(apps)
        await self._pace.let_go(actions)

    async def _tell(self, messages: Iterable[tuple[Mailbox[T], T]]) -> None:
        """Send messages to owners, and let them read whenever a portion of messages waits."""
        waiting = 0
        for mailbox, message in messages:
            mailbox.put(message)
            waiting += len(mailbox)
            if waiting >= PORTION:
                waiting = 0
                await self._pace.rest()

    # Reading

    def explain(self, app: str, ask: str) -> Explanation | None:
        """Return why an ask is not running; None if it is bound or unknown. Between two batches."""
        return self.machine.explain(app, ask)

    def _settle_cycles(self) -> None:
        for key, commit in self.machine.settle_cycles().items():
            self._gangs[key].mailbox.put(commit, wake=False)

    async def snapshot(self) -> Snapshot:
        """Collect a snapshot from every owner. Between two batches."""
        self._settle_cycles()
        apps: Mailbox[AppSnapshot] = Mailbox()
        queues: Mailbox[QueueSnapshot] = Mailbox()
        gangs: Mailbox[GangSnapshot] = Mailbox()
        await self._tell((app.mailbox, Survey(apps)) for app in self._apps.values())
        await self._tell((queue.mailbox, Survey(queues)) for queue in self._queues.values())
        await self._tell((gang.mailbox, Survey(gangs)) for gang in self._gangs.values())
        steps = self.machine.snapshot(
            await _collect(apps, len(self._apps)),
            await _collect(queues, len(self._queues)),
            await _collect(gangs, len(self._gangs)),
        )
        return await self._pace.take(steps)

    async def examine(self, examiner: Callable[[Examined], None]) -> Exception | None:
        """Call an examiner with the whole state; return its exception, or None. Between batches."""
        snapshot = await self.snapshot()  # Now every owner has read all its messages.
        examined = Examined(
            machine=self.machine,
            apps={key: app.machine for key, app in self._apps.items()},
            queues={key: queue.machine for key, queue in self._queues.items()},
            gangs={key: gang.machine for key, gang in self._gangs.items()},
            snapshot=snapshot,
        )
        try:
            examiner(examined)
        except Exception as error:  # noqa: BLE001 - the caller of the examiner gets it
            return error
        return None


async def _collect(mailbox: Mailbox[T], expected: int) -> list[T]:
    """Read a mailbox until the expected number of messages has come."""
    messages: list[T] = []
    while len(messages) < expected:
        messages.extend(await mailbox.take_all())
    return messages
