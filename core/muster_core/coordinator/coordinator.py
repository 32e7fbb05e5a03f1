"""The coordinator's state machine: a batch from its input to the announced decisions.

A batch has five steps; the actor that drives the machine only carries messages between them:

1. ``begin``: due timers become requests, or end states of applications.
2. ``enter``: each event is admitted or refused, and becomes requests to owners.
3. ``close``: the owners with requests get the message to report, and their reports meet here, by way
   of the queues if one of these got a message. Then the gangs whose members have moved get
   messages, and report as well.
4. ``apply`` and ``apply_gangs``: the view takes over the changes.
5. ``decide``: the rounds run, decisions get their numbers, and owners get their commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, assert_never, final

import attrs

from muster_core.admission.admission import Admission
from muster_core.admission.objects import Objects
from muster_core.admission.registry import application_reasons
from muster_core.admission.routes import AnyRoute, GangRoute, TellApp, TellGang
from muster_core.coordinator.reports import (
    CoordinatorFacts,
    Epoch,
    EpochReport,
    Facts,
    ReportRequests,
    take_snapshot,
)
from muster_core.gangs import GangState
from muster_core.owners.app_messages import (
    Close,
    CommitApp,
    Complete,
    DecisionMade,
    EnterState,
    FinishAsk,
    MemberMoved,
    rejection,
)
from muster_core.owners.asks import Origin
from muster_core.owners.gang import CommitGang, GangReport, MemberKey, MoveMember
from muster_core.owners.queue import CommitQueue
from muster_core.structures.steps import SIZE, Steps, in_order, in_pieces, taken
from muster_core.values.application_states import STATE_NAMES, AppState
from muster_core.values.configuration import Configuration
from muster_core.values.decisions import (
    Announced,
    Decision,
    Kind,
    announce,
    decision_on_app,
)
from muster_core.values.errors import RefusedError
from muster_core.values.events import AddAsk, Apply, Configure, Delete, Event, SetUsage
from muster_core.values.reasons import Explanation, Outlook
from muster_core.values.records import record
from muster_core.values.snapshots import (
    AppSnapshot,
    GangSnapshot,
    QueueSnapshot,
    Snapshot,
    Statistics,
)
from muster_core.view import DecisionView
from muster_core.view.state.timers import Completion, GangRetry, StateEnd, TimeUp, WaitEnd
from muster_core.view.tree.application import ViewApp

_ORDER: Final = attrgetter("order")


@final
@record
class BatchResult:
    """The result of a batch.

    Attributes:
        gangs: The commits of gangs; None for one that is gone.
    """

    announced: Sequence[Announced]
    apps: Mapping[int, CommitApp]
    queues: Mapping[int, CommitQueue]
    gangs: Mapping[int, CommitGang | None]


@final
class CoordinatorMachine:
    """The coordinator's state machine."""

    def __init__(self, configuration: Configuration) -> None:
        self.view = DecisionView()
        self.view.configure(configuration)
        self.admission = Admission(configuration, self.view, self._next_seq)
        self.registry = self.admission.registry
        self._objects = Objects(self.admission)
        self.view.rounds.report_leaving(self.admission.member_left)
        #: How many events there were so far; the index of the next one in a running scheduler.
        self.requests = 0
        #: How many batches have begun so far; the number of the present or the last one.
        self.batches = 0
        self._bound = self._refusals = 0
        #: The instant of the batch, in microseconds.
        self.now_us = 0
        self._seq = 0
        #: The position of the latest event.
        self.entered = 0
        self._announced = 0
        self._epoch = Epoch()
        #: The decisions about the input of this batch so far.
        self._pending_decisions: list[DecisionMade] = []
        for number, warning in enumerate(configuration.warnings):
            self._announce_first(
                DecisionMade((0, 0, number), Decision(Kind.WARNING, message=warning))
            )
        #: Whether this batch has events, or due timers that become requests.
        self._is_new = False
        #: The messages of refused events of this batch, by position in the input.
        self._refused_at: dict[int, str] = {}

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self.registry.configuration

    def start(self) -> list[AnyRoute]:
        """Return the messages that start the queues of the first configuration."""
        return self._note(list(self.registry.tree.first_routes))

    # Checkpoints

    # CHECKPOINT-1, CHECKPOINT-3
    def facts(self) -> Steps[CoordinatorFacts]:
        """Return the facts that the coordinator owns and cannot compute. Between two batches."""
        admission = yield from self.admission.facts()
        view = yield from self.view.facts()
        return CoordinatorFacts(
            now_us=self.now_us,
            seq=self._seq,
            requests=self.requests,
            batches=self.batches,
            bound=self._bound,
            refused=self._refusals,
            announced=self._announced,
            admission=admission,
            view=view,
        )

    # CHECKPOINT-5
    def load(self, facts: Facts) -> Steps[list[AnyRoute]]:
        """Begin to load a checkpoint, instead of :meth:`start`.

        The machine must be new, with the configuration in force of these facts. The owners are
        started and get their facts; when they have reported as in any epoch, :meth:`end_loading`
        has to follow. If there was no batch before the checkpoint, this only starts the queues, and
        the owners report with the first batch.

        Returns:
            The messages that start all owners, each with its own facts.
        """
        own = facts.coordinator
        self.now_us = own.now_us
        if not facts.has_begun:
            return self.start()
        self._pending_decisions.clear()
        self._seq, self._announced = own.seq, own.announced
        self.requests, self.batches = own.requests, own.batches
        self._bound, self._refusals = own.bound, own.refused
        yield from self.admission.load(own.admission, facts.queues, facts.apps, facts.gangs)
        yield from self.view.begin_to_load(own.view, facts.apps)
        routes: list[AnyRoute] = []
        for piece in in_pieces(facts.routes()):
            yield
            routes += self._note(piece)
        return routes

    # CHECKPOINT-5
    def end_loading(self, facts: Facts) -> Steps[None]:
        """End to load a checkpoint: everything is as it was when the facts were taken."""
        yield from self.view.end_loading(facts.coordinator.view)

    def next_deadline_us(self) -> int | None:
        """Return the instant of the next timer, at least the present one; between two batches."""
        next_us = self.view.timers.next_us()
        return None if next_us is None else max(next_us, self.now_us)

    # Input

    def begin(self, now_us: int) -> Steps[list[AnyRoute]]:
        """Begin a batch.

        Args:
            now_us: Its instant, in microseconds; not before the instant of an earlier batch.

        Returns:
            The requests of due timers.
        """
        self.now_us = now_us
        self.batches += 1
        self._is_new = False
        self._refused_at.clear()
        routes: list[AnyRoute] = []
        # USAGE-3
        if self.view.usages.active:
            self.view.pass_to(now_us)
        # ROUND-2
        for number, due in enumerate(self.view.timers.due(now_us)):
            if number:
                yield
            # EVICTION-46
            self._is_new = True
            origin = Origin(self._next_seq(), at_us=now_us)
            match due:
                case Completion():
                    routes.append(TellApp(due.app, Complete(origin, due.ask)))
                case WaitEnd():
                    routes.extend(self.admission.time_out(due.gang, origin))
                case StateEnd():
                    routes.extend(self._end_state(due.app, origin))
                case TimeUp():
                    routes.append(TellApp(due.app, FinishAsk(origin, due.ask, due.reason)))
                case GangRetry():
                    routes.extend(self.admission.retry_gang(due.gang, origin))
                case _:
                    assert_never(due)
        return self._note(routes)

    # APP-5, APP-10
    def _end_state(self, key: int, origin: Origin) -> Iterator[AnyRoute]:
        """Let an application enter the next state, since its time is up; no owner has to report."""
        identity = self.view.apps[key].identity
        after = self.view.intake.end_state(key, self.now_us)
        decision = decision_on_app(identity.name, identity.path, STATE_NAMES[after])
        self._announce_first(DecisionMade((origin.seq, 0, 1), decision))
        yield EnterState(key, after)
        if after is AppState.COMPLETED:
            yield from self.registry.complete(key)

    def must_hear_first(self, event: Event | str) -> bool:
        """Return whether the owners must report before an event can be admitted."""
        return self.admission.unreported.must_hear_first(event)

    # FEED-14
    def enter(
        self, event: Event, index: int | None = None, line: int | None = None
    ) -> list[AnyRoute]:
        """Admit or refuse an event; a refusal is a decision.

        Returns:
            The requests that it leads to.
        """
        origin = self._next_origin(index, line)
        # FEED-16
        try:
            routes = self._admit(event, origin)
        except RefusedError as refusal:
            self._announce_first(rejection(origin, str(refusal)))
            return []
        self._epoch.note(routes)
        self.admission.unreported.note(routes)
        return routes

    def refuse(self, message: str, index: int | None = None, line: int | None = None) -> None:
        """Refuse an event that could not be read."""
        self._announce_first(rejection(self._next_origin(index, line), message))

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _next_origin(self, index: int | None, line: int | None) -> Origin:
        # EVICTION-46
        self._is_new = True
        self.requests += 1
        self._seq += 1
        self.entered = self._seq
        return Origin(self.entered, index, line, at_us=self.now_us)

    def _announce_first(self, made: DecisionMade) -> None:
        self._pending_decisions.append(made)
        if made.decision.kind is Kind.REJECTED:
            self._refused_at[made.order[0]] = made.decision.message or ""

    def _admit(self, event: Event, origin: Origin) -> list[AnyRoute]:
        match event:
            case AddAsk():  # Most events are asks.
                if event.start_by_us is not None:
                    self.admission.check_start(event, origin)
                return self.admission.admit(event, origin)
            case Apply():
                return self._objects.apply(event.objects, origin)
            case Delete():
                return self._objects.delete(event.objects, origin)
            case SetUsage():
                self.admission.set_usage(event)
                return []
            case Configure():
                routes = self.admission.admit(event, origin)
                self._configured(event.config, origin)
                return routes
            case _:
                return self.admission.admit(event, origin)

    # DECISION-5
    def _configured(self, config: Configuration, origin: Origin) -> None:
        self.view.configure(config)
        message = f"partition {config.partition!r} is in force"
        decisions = [Decision(Kind.CONFIG, message=message, index=origin.index, line=origin.line)]
        decisions.extend(
            Decision(Kind.WARNING, message=warning, index=origin.index, line=origin.line)
            for warning in config.warnings
        )
        for number, decision in enumerate(decisions):
            self._announce_first(DecisionMade((origin.seq, 0, number), decision))

    def _note(self, routes: list[AnyRoute]) -> list[AnyRoute]:
        """Record which owners have to report."""
        if routes:
            self._epoch.note(routes)
            self.admission.unreported.note(routes)
        return routes

    def close(self) -> Steps[ReportRequests] | None:
        """Close the input of the batch.

        Returns:
            Steps to the owners that have to report; None if no application and queue has to.
        """
        return self._epoch.close(self.view.intake.reported)

    # Decisions

    def apply(self, report: EpochReport) -> Steps[list[AnyRoute]]:
        """Apply all changes of an epoch to the view.

        Returns:
            The messages to gangs.
        """
        yield from self.view.intake.apply(report.queues, report.apps, self.now_us)
        moves: list[tuple[MemberKey, MemberMoved]] = []
        number = 0
        for app in report.apps:
            for action in app.actions:
                if isinstance(action, DecisionMade):
                    self._announce_first(action)
                elif isinstance(action, MemberMoved):
                    key = app.identity.key, app.identity.name, action.ask.name
                    moves.append((MemberKey(*key), action))
                number += 1
                if not number % SIZE:
                    yield
        self._epoch.forget(report)
        if not moves:
            return []
        moves.sort(key=lambda move: (move[1].order, move[0].key))
        return self._note([route for move in moves for route in self._move(*move)])

    def _move(self, member: MemberKey, moved: MemberMoved) -> Iterator[GangRoute]:
        """Yield the messages to a gang about the new place of a member."""
        name = moved.ask.gang
        assert name is not None, "what is no member has moved"
        gangs = self.admission.gangs
        if self.admission.unreported.has_message(member, moved.order[0]):
            return
        yield TellGang(gangs.gangs[name].key, MoveMember(member, moved.place, moved.lost))
        if moved.place is None:
            yield from gangs.leave(name, member)

    def close_gangs(self) -> Mapping[int, Close]:
        """Return the messages to the gangs that have to report, after the applications have.

        With the reports of these gangs, all owners have reported.
        """
        closes = self._epoch.close_gangs()
        self.admission.unreported.clear()
        return closes

    def apply_gangs(self, reports: Iterable[GangReport]) -> Steps[None]:
        """Apply the reports of gangs to the view.

        Args:
            reports: One report of each gang that had to report, in any order.
        """
        # ROUND-8
        for report in sorted(reports, key=lambda report: report.key):
            assert report.epoch == self._epoch.number, "a report of another epoch"
            yield
            self.view.intake.apply_gang(report)
            for made in report.decisions:
                self._announce_first(made)
            entry = self.admission.gangs.gangs[report.name]
            entry.timed_out = report.state is GangState.TIMED_OUT
            if report.gone:
                self.admission.gangs.gone(report.name)

    def decide(self) -> Steps[BatchResult]:
        """Run the rounds, and end the batch; return its result."""
        decisions: deque[Decision] = deque()
        for decided in self.view.decide(self.now_us, is_new=self._is_new):
            decisions += decided or ()
            yield
        return (yield from self._finish(decisions))

    def _finish(self, decisions: deque[Decision]) -> Steps[BatchResult]:
        """End the batch with the decisions of its rounds, and return its result."""
        if decisions:
            decisions = self.view.rounds.without_detours(decisions)
        # The decisions of the rounds are by far the most, so they are not copied.
        yield from self._prepend_pending(decisions)
        decisions += self.view.changed_priorities()
        decisions += self.view.changed_reservations()
        announced: list[Announced] = []
        for piece in taken(decisions):
            # DECISION-2
            announced += announce(piece, self._announced + 1, self.now_us)
            self._announced += len(piece)
            for decision in piece:
                kind = decision.kind
                if kind is Kind.BOUND:
                    self._bound += 1
                elif kind is Kind.REJECTED:
                    self._refusals += 1
            if decisions:
                yield
        apps, queues, gangs = yield from self.view.rounds.commits(
            self.now_us, self.view.intake.reported
        )
        return BatchResult(announced=announced, apps=apps, queues=queues, gangs=gangs)

    # ROUND-8
    def _prepend_pending(self, decisions: deque[Decision]) -> Steps[None]:
        """Put the decisions about the input before others, in the order of the input."""
        about_input, self._pending_decisions = self._pending_decisions, []
        if len(about_input) > 1:
            about_input = yield from in_order(about_input, _ORDER)
        while about_input:
            decisions.extendleft(
                [about_input.pop().decision for _ in range(min(SIZE, len(about_input)))]
            )
            if about_input:
                yield

    # Reading

    def app(self, name: str) -> ViewApp | None:
        """Return an application of the view; None if it is not there, or not yet."""
        key = self.registry.locate(name)
        return None if key is None else self.view.apps.get(key)

    def refusal_of(self, entered: int) -> str | None:
        """Return why an event of the present or the last batch was refused, or None.

        The owners concerned must have reported.

        Args:
            entered: The value of :attr:`entered` after the event.
        """
        return self._refused_at.get(entered)

    def settle_cycles(self) -> Mapping[int, CommitGang]:
        """Compute which cycles of gangs are invalid, and return commits for a snapshot."""
        return self.view.rounds.settle_cycles()

    def explain(self, app: str, ask: str, now_us: int | None = None) -> Explanation | None:
        """Explain why an ask is not running. Between two batches; it changes nothing.

        Args:
            app: Its application.
            ask: Its name.
            now_us: The present instant, in microseconds; default: that of the last batch.

        Returns:
            All reasons that hold, or None if the ask is bound or unknown.
        """
        key = self.registry.locate(app)
        if key is None:
            return None
        found = self.view.apps[key]
        about_app = tuple(application_reasons(self.registry, found.identity))
        at_us = self.now_us if now_us is None else now_us
        return self.view.explainer.explain(found, ask, at_us, about_app)

    # OUTLOOK-1
    def outlook(self, app: str, ask: str) -> Steps[Outlook | None]:
        """Return the outlook of a pending ask, without a forecast; between two batches.

        It costs little: a forecast needs a copy of the state.

        Returns:
            Its outlook, without a forecast; None if it is not pending.
        """
        key = self.registry.locate(app)
        if key is None:
            return None
        return (yield from self.view.explainer.outlook(self.view.apps[key], ask))

    def explain_fully(self, app: str, ask: str) -> Steps[Explanation | None]:
        """Explain an ask that is not running with all that the state says; between two batches.

        Returns:
            All reasons, what there is too little of, and the outlook without a forecast; None if
            the ask is bound or unknown.
        """
        explanation = self.explain(app, ask)
        if explanation is None:
            return None
        outlook = yield from self.outlook(app, ask)
        found = self.view.apps[self.registry.app_key(app)]
        lacks = yield from self.view.explainer.shortfalls(found, ask)
        return attrs.evolve(explanation, outlook=outlook, shortfalls=lacks)

    def pending(self) -> Iterator[tuple[str, str]]:
        """Iterate over all asks that are pending, parked or waiting. Between two batches.

        Yields:
            Application and ask: applications by creation, the asks of each one in order.
        """
        return self.view.explainer.pending()

    def snapshot(
        self,
        apps: Iterable[AppSnapshot],
        queues: Iterable[QueueSnapshot],
        gangs: Iterable[GangSnapshot],
    ) -> Steps[Snapshot]:
        """Build a snapshot. Between two batches."""
        known = self.registry.completed.seen()
        return (yield from take_snapshot(self.view, self.now_us, known, apps, queues, gangs))

    def statistics(self) -> Statistics:
        """Return the statistics since the start."""
        return Statistics(
            requests=self.requests,
            batches=self.batches,
            steps=self.view.rounds.steps,
            bound=self._bound,
            refused=self._refusals,
            decisions=self._announced,
        )

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends.

        Nothing may follow, except :meth:`statistics` and reading the settings of queues.
        """
        return self.view.free()

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        self.admission.check()
        self.view.check()
        # The view has all and only the queues and applications of the registry.
        queues = {entry.key: entry.config for entry in self.registry.queues.values()}
        assert queues == {key: queue.config for key, queue in self.view.queues.items()}
        assert self.registry.apps() == {
            app.identity.name: key for key, app in self.view.apps.items()
        }
        self._epoch.check(self.view)
        # Nothing is left over from the last batch.
        assert not self._pending_decisions
