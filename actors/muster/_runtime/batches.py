"""The steps of a batch: messages between the coordinator's machine and the owners of state.

A coordinator (in virtual time, or by a clock) submits events, and says when a batch begins and
ends; this module does everything in between. After a batch it also collects which reservations its
asks did not delay when they got their nodes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar, assert_never, final

import attrs
import trio

from muster._runtime.clock import PIECE, PORTION, Pace, slices
from muster._runtime.owners import (
    ApplicationOwner,
    AppReportSink,
    EndTask,
    GangOwner,
    Interleave,
    Mailbox,
    Owner,
    QueueOwner,
    SendFacts,
    SendSnapshot,
)
from muster._runtime.requests import Examined, Explained, RequestKey
from muster_core.admission.routes import (
    AnyRoute,
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.coordinator.coordinator import BatchResult, CoordinatorMachine
from muster_core.coordinator.plain_scheduler import pass_time
from muster_core.coordinator.reports import EpochReport, ReportRequests
from muster_core.decisions import Announced, seconds
from muster_core.events import Event
from muster_core.facts import AppFacts, Facts, GangFacts, QueueFacts
from muster_core.owners.app_messages import AppReport, Close, EnterState
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine, GangReport
from muster_core.owners.queue import QueueMachine, QueueReport
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot, Snapshot
from muster_core.structures.steps import Steps, all_at_once, freed, in_order, in_pieces
from muster_core.values.application_states import AppState

if TYPE_CHECKING:
    from muster.store._rows import BatchRow
    from muster.store._sql import RequestRow

T = TypeVar("T")

COMMITS_KEPT: Final = 16
"""How many commits a queue leaves unread at most: to wake its task for each costs a pass of trio."""


@final
@attrs.frozen
class KeptRequest:
    """A request of a client that had a key of its own.

    Attributes:
        key: Its key.
        first: The index of its first event, from 0, among all events that were let in.
        count: How many of its events were let in.
        denied: Why others were not, by their index in the request.
    """

    key: RequestKey
    first: int
    count: int
    denied: Mapping[int, str]


@final
@attrs.define(eq=False)
class DecidedBatch:
    """A batch that was decided and is not announced yet.

    Attributes:
        number: Its number, from 1.
        at_us: Its instant, in microseconds.
        events: Its events, if they are kept.
        announced: Its decisions.
        gangs: The names of the gangs that it may have changed.
        partition: The partition that runs after it.
        first: The index of its first event, from 0, among all events that were let in.
        requests: The requests of clients whose events are in it.
        copied: The batch and its requests as another server wrote them; None if it was decided
            here first.
    """

    number: int
    at_us: int
    events: Sequence[Event]
    announced: Sequence[Announced]
    gangs: set[str]
    partition: str
    first: int = 0
    requests: Sequence[KeptRequest] = ()
    copied: tuple[BatchRow, Sequence[RequestRow]] | None = None

    def seqs(self) -> tuple[int, int] | None:
        """Return the numbers of its first and its last decision; None without any."""
        return (self.announced[0].seq, self.announced[-1].seq) if self.announced else None

    async def let_go(self, pace: Pace) -> None:
        """Free the memory of the batch in pieces, after its last use."""
        if len(self.events) <= PIECE >= len(self.announced):
            return  # It is freed at once.
        events, self.events = [*self.events], ()
        await pace.let_go(events, shield=True)
        kept, self.announced = self.announced, ()
        announced: list[Announced] = []
        for piece in slices(kept):  # The journal may keep the sequence itself.
            announced += piece
            if pace.is_up():
                await pace.rest(shield=True)
        del kept
        await pace.let_go(announced, shield=True)


@final
class Batches:
    """The state of the coordinator's task, and the steps of a batch.

    Args:
        machine: The machine, which only this task uses.
        interleave: See :data:`muster._runtime.owners.Interleave`.
        pace: The pace of all tasks of the scheduler.
        announce: Announces the batches that end by themselves, such as those of timers, and frees
            their memory.
        keeps: Whether the events of each batch are kept for its announcement.

    Attributes:
        machine: The machine.
    """

    def __init__(
        self,
        machine: CoordinatorMachine,
        interleave: Interleave | None,
        pace: Pace,
        announce: Callable[[DecidedBatch], Awaitable[None]],
        *,
        keeps: bool = False,
    ) -> None:
        self.machine = machine
        self._pace = pace
        self._announce = announce
        #: The events of this batch, if they are kept.
        self._events: list[Event] | None = [] if keeps else None
        #: The gangs that have reported in this batch.
        self._reported_gangs: set[str] = set()
        self._interleave = interleave
        self._reports: Mailbox[QueueReport] = Mailbox(interleave)
        self._app_reports: Mailbox[AppReport] = Mailbox(interleave)
        self._gang_reports: Mailbox[GangReport] = Mailbox(interleave)
        self._apps: dict[int, ApplicationOwner] = {}
        self._queues: dict[int, QueueOwner] = {}
        self._gangs: dict[int, GangOwner] = {}
        self._nursery: trio.Nursery
        #: Whether a batch has begun and not ended.
        self._open = False

    async def start(self, nursery: trio.Nursery) -> None:
        """Start the owners of the queues of the first configuration.

        Args:
            nursery: The nursery in which all owners run.
        """
        self._nursery = nursery
        await self._start_owners(self.machine.start())

    async def _start_owners(self, routes: list[AnyRoute]) -> None:
        for piece in in_pieces(routes):
            self._deliver(piece)
            if self._pace.is_up():
                await self._pace.rest()
        await self._pace.let_go(routes)

    # CHECKPOINT-5
    async def load(self, nursery: trio.Nursery, facts: Facts) -> None:
        """Start all owners of a checkpoint, instead of :meth:`start`.

        The machine must be new, with the configuration in force of these facts.

        Args:
            nursery: The nursery in which all owners run.
            facts: The facts of the checkpoint.
        """
        self._nursery = nursery
        await self._start_owners(await self._pace.take(self.machine.load(facts)))
        if facts.has_begun:
            await self.collect_reports()
            self._reported_gangs.clear()
            await self._pace.take(self.machine.end_loading(facts))

    async def run_again(self, at_us: int, events: Sequence[Event]) -> DecidedBatch:
        """Run a batch that was run before, from what was let in then.

        Args:
            at_us: Its instant, in microseconds.
            events: Its events, in order.

        Returns:
            The batch, which was announced before.
        """
        machine = self.machine
        machine.now_us = at_us
        self._open = True
        self._deliver(await self._pace.take(machine.begin(at_us)))
        for index, event in enumerate(events, machine.requests):
            if self._pace.is_up():
                await self._pace.rest()
            await self.enter(event, index)
        decided = await self.end()
        assert decided is not None, "a batch was begun and not ended"
        return decided

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
            await self.end_and_announce()
            await self.run_timers(at_us - 1)
            machine.now_us = at_us
        return True

    async def run_timers(self, until_us: int | None) -> None:
        """Run one batch for each instant at which a timer is due, ``until_us`` included."""
        for due_us in pass_time(self.machine, until_us):
            self._open = True
            self._deliver(await self._pace.take(self.machine.begin(due_us)))
            await self.end_and_announce()

    async def close(self) -> None:
        """End the task of every owner, and free the memory in pieces; no batch may follow."""
        owners: list[ApplicationOwner | QueueOwner | GangOwner] = [
            *self._apps.values(),
            *self._queues.values(),
            *self._gangs.values(),
        ]
        for number, owner in enumerate(owners, 1):
            owner.mailbox.drain()  # The last commits are not needed any more.
            owner.mailbox.put(EndTask())
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
            await self.collect_reports()
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
            return
        if self._events is not None:
            self._events.append(event)
        self._deliver(self.machine.enter(event, index, line))

    def too_early(self, at_us: int) -> str:
        """Return the message that refuses an instant in the past."""
        now = seconds(self.machine.now_us)
        return f"at: {seconds(at_us)} is earlier than the present instant, {now}"

    async def end_and_announce(self) -> None:
        """Close the open batch, if any, and announce it."""
        decided = await self.end()
        if decided is not None:
            await self._announce(decided)

    async def end(self) -> DecidedBatch | None:
        """Close the open batch, if any: decide, and send the commits to the owners.

        Returns:
            The batch, which the caller announces. None if no batch was open.
        """
        if not self._open:
            return None
        self._open = False
        await self.collect_reports()
        pace, machine = self._pace, self.machine
        outcome = await pace.take(machine.decide())
        changed = {self._gangs[key].machine.name for key in outcome.gangs}
        # ROUND-16
        # No cancellation from here on, until the batch is announced.
        await self._commit(outcome)
        reported, self._reported_gangs = self._reported_gangs, set()
        events: Sequence[Event] = ()
        if self._events is not None:
            events, self._events = self._events, []
        return DecidedBatch(
            machine.batches,
            machine.now_us,
            events,
            outcome.announced,
            changed | reported,
            machine.configuration.partition,
        )

    async def _commit(self, outcome: BatchResult) -> None:
        """Send the commits to the owners; this is not cancelled."""
        # The owners are not woken: each reads its commit before its next message.
        for number, (key, app_commit) in enumerate(outcome.apps.items(), 1):
            if not number % PORTION and self._pace.is_up():
                await self._pace.rest(shield=True)
            self._apps[key].mailbox.put(app_commit, wake=False)
        for key, queue_commit in outcome.queues.items():
            mailbox = self._queues[key].mailbox
            mailbox.put(queue_commit, wake=len(mailbox) >= COMMITS_KEPT)
        for key, gang_commit in outcome.gangs.items():
            if gang_commit is None:
                self._gangs.pop(key).mailbox.put(EndTask())
            else:
                self._gangs[key].mailbox.put(gang_commit, wake=False)

    # Owners

    def _deliver(self, routes: list[AnyRoute]) -> None:
        for route in routes:
            match route:
                case TellApp():
                    self._apps[route.key].mailbox.put(route.message, wake=False)
                case EnterState(key, AppState.COMPLETED):
                    self._apps.pop(key).mailbox.put(EndTask())
                case EnterState():
                    self._apps[route.key].mailbox.put(route, wake=False)
                case StartApp(identity):
                    machine = ApplicationMachine(identity)
                    app: ApplicationOwner = Owner(
                        "application",
                        identity.name,
                        machine,
                        AppReportSink(self._queues[identity.leaf].mailbox, self._app_reports),
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

    async def collect_reports(self) -> None:
        """Close an epoch: collect the reports of all changed owners, and apply them."""
        closing = self.machine.close()
        if closing is not None:
            await self._collect_app_reports(await self._pace.take(closing))
        closes = self.machine.close_gangs()
        if closes:
            await self._collect_gang_reports(closes)

    async def _collect_gang_reports(self, closes: Mapping[int, Close]) -> None:
        await self._send((self._gangs[key].mailbox, close) for key, close in closes.items())
        reports = await _collect(self._gang_reports, len(closes))
        await self._pace.take(self.machine.apply_gangs(reports))
        for gang in reports:
            self._reported_gangs.add(gang.name)
            if gang.gone:
                del self._gangs[gang.key]

    async def _collect_app_reports(self, closing: ReportRequests) -> None:
        for key, commit in closing.commits.items():
            self._queues[key].mailbox.put(commit, wake=False)
        for key, expect in closing.queues.items():
            self._queues[key].mailbox.put(expect, wake=not expect.children)
        await self._send((self._apps[key].mailbox, close) for key, close in closing.apps.items())
        root, direct = None, list[AppReport]()
        if closing.queues:
            (root,) = await self._reports.take_all()
        else:
            direct = await _collect(self._app_reports, len(closing.apps))
        report = await self._pace.take(closing.collect(root, direct))
        del root, direct
        self._deliver(await self._pace.take(self.machine.apply(report)))
        garbage = await self._forget_gone(report)
        del report
        if len(garbage) > PIECE:
            await self._pace.let_go(garbage)

    async def _forget_gone(self, report: EpochReport) -> list[object]:
        """Forget the owners that are gone; return what is to be freed in pieces.

        That is very many reports, and very many actions of one.
        """
        for queue in report.queues:
            if queue.gone:
                del self._queues[queue.key]
        garbage: list[object] = []
        for piece in slices(report.apps):
            for app in piece:
                if app.gone:
                    del self._apps[app.identity.key]
                if len(app.actions) > PIECE:
                    garbage += app.actions
            if self._pace.is_up():
                await self._pace.rest()
        garbage += report.apps
        return garbage

    async def _send(self, messages: Iterable[tuple[Mailbox[T], T]]) -> None:
        """Send messages to owners, and let them read whenever a portion of messages waits."""
        waiting = 0
        for mailbox, message in messages:
            mailbox.put(message)
            waiting += len(mailbox)
            if waiting >= PORTION:
                waiting = 0
                await self._pace.rest()

    # Reading

    async def read(self, read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        """Read the machine in steps. Between two batches."""
        return await self._pace.take(read(self.machine))

    async def explain(self, app: str, ask: str, *, with_facts: bool) -> Explained:
        """Return why an ask is not running. Between two batches.

        Args:
            app: Its application.
            ask: Its name.
            with_facts: Whether the facts of the state are wanted as well if it is pending.
        """
        explanation = await self._pace.take(self.machine.explain_fully(app, ask))
        if explanation is None or explanation.outlook is None:
            return Explained(explanation, None)
        return Explained(explanation, await self.facts() if with_facts else None)

    def _settle_cycles(self) -> None:
        for key, commit in self.machine.settle_cycles().items():
            self._gangs[key].mailbox.put(commit, wake=False)

    async def snapshot(self) -> Snapshot:
        """Collect a snapshot from every owner. Between two batches."""
        self._settle_cycles()
        apps: Mailbox[AppSnapshot] = Mailbox()
        queues: Mailbox[QueueSnapshot] = Mailbox()
        gangs: Mailbox[GangSnapshot] = Mailbox()
        await self._send((app.mailbox, SendSnapshot(apps)) for app in self._apps.values())
        await self._send((queue.mailbox, SendSnapshot(queues)) for queue in self._queues.values())
        await self._send((gang.mailbox, SendSnapshot(gangs)) for gang in self._gangs.values())
        steps = self.machine.snapshot(
            await _collect(apps, len(self._apps)),
            await _collect(queues, len(self._queues)),
            await _collect(gangs, len(self._gangs)),
        )
        return await self._pace.take(steps)

    # CHECKPOINT-1
    async def facts(self) -> Facts:
        """Collect the facts of a checkpoint from every owner. Between two batches."""
        apps: Mailbox[AppFacts] = Mailbox()
        queues: Mailbox[QueueFacts] = Mailbox()
        gangs: Mailbox[GangFacts] = Mailbox()
        await self._send((app.mailbox, SendFacts(apps)) for app in self._apps.values())
        await self._send((queue.mailbox, SendFacts(queues)) for queue in self._queues.values())
        await self._send((gang.mailbox, SendFacts(gangs)) for gang in self._gangs.values())
        pace = self._pace
        coordinator = await pace.take(self.machine.facts())
        of_apps = in_order(await _collect(apps, len(self._apps)), attrgetter("identity.key"))
        of_queues = in_order(await _collect(queues, len(self._queues)), attrgetter("key"))
        of_gangs = in_order(await _collect(gangs, len(self._gangs)), attrgetter("key"))
        return Facts(
            coordinator=coordinator,
            queues=tuple(await pace.take(of_queues)),
            apps=tuple(await pace.take(of_apps)),
            gangs=tuple(await pace.take(of_gangs)),
        )

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
