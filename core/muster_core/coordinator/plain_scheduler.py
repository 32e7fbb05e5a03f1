"""A scheduler without tasks: one loop drives all state machines of the core, in virtual time.

It makes the same decisions as the actors, since the machines make every decision. It drives
explanations, dry runs, history, ``compare`` and ``export``, and tells bugs of the tasks from bugs
of the machines.

:func:`forecast` finds when a pending ask starts if nothing more comes: a copy of the state runs on,
and is watched. The copy is made from the facts of a checkpoint in which every ask runs for as long
as it is expected to. So the rules of the scheduler need not know that this is a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, assert_never, final

import attrs

from muster_core.admission.routes import (
    AnyRoute,
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.config import default_configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.reports import Facts, ReportRequests
from muster_core.owners.app_messages import AppFacts, AppReport, EnterState
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Allocation, Ask
from muster_core.owners.gang import GangMachine
from muster_core.owners.queue import QueueMachine, QueueReport
from muster_core.structures.steps import Steps, all_at_once, freed
from muster_core.values.application_states import AppState
from muster_core.values.configuration import Configuration, Settings
from muster_core.values.decisions import Announced, Kind
from muster_core.values.events import Event
from muster_core.values.reasons import Code, Explanation, Forecast, PendingReason
from muster_core.values.snapshots import AppSnapshot, Snapshot
from muster_core.view.facts import CompletionFacts
from muster_core.view.tree.leaf import estimate_now_us, estimate_us


# ROUND-4
def pass_time(machine: CoordinatorMachine, until_us: int | None) -> Iterator[int]:
    """Let virtual time pass while no batch is open.

    Args:
        machine: The coordinator's state machine.
        until_us: The last instant, in microseconds, including its timers; None: until no timer
            is left.

    Yields:
        Each instant with due timers, in microseconds, which is then the present one. The caller
        begins and ends a batch before it continues.
    """
    while (due_us := machine.next_deadline_us()) is not None:
        if until_us is not None and due_us > until_us:
            break
        machine.now_us = due_us
        yield due_us
    if until_us is not None and until_us > machine.now_us:
        machine.now_us = until_us


@final
class PlainScheduler:
    """A synchronous scheduler in virtual time.

    Args:
        configuration: The first configuration; default: only ``root``, without limits.
        facts: A checkpoint to go on from, instead of a first configuration. The decisions before
            it are not in ``announced``.
    """

    def __init__(
        self, configuration: Configuration | None = None, facts: Facts | None = None
    ) -> None:
        first = configuration or default_configuration()
        #: The state machine of the coordinator, only for reading.
        self.machine = CoordinatorMachine(first if facts is None else facts.configuration)
        self._apps: dict[int, ApplicationMachine] = {}
        self._queues: dict[int, QueueMachine] = {}
        self._gangs: dict[int, GangMachine] = {}
        #: All decisions so far.
        self.announced: list[Announced] = []
        self._open = False
        if facts is None:
            self._deliver(self.machine.start())
        else:
            self._load(facts)

    # CHECKPOINT-5
    def _load(self, facts: Facts) -> None:
        self._deliver(all_at_once(self.machine.load(facts)))
        if facts.has_begun:
            self._collect_reports()
            all_at_once(self.machine.end_loading(facts))

    def facts(self) -> Facts:
        """Return the facts of a checkpoint. Between two batches."""
        return Facts(
            coordinator=all_at_once(self.machine.facts()),
            queues=tuple(queue.facts() for _, queue in sorted(self._queues.items())),
            apps=tuple(app.facts() for _, app in sorted(self._apps.items())),
            gangs=tuple(gang.facts() for _, gang in sorted(self._gangs.items())),
        )

    def submit(
        self,
        event: Event | str,
        at_us: int | None = None,
        index: int | None = None,
        line: int | None = None,
    ) -> None:
        """Submit an event, or the message of a refusal.

        Args:
            event: The event, or the message.
            at_us: When, in microseconds, not earlier than before; default: now.
            index: Its index in a feed, or None.
            line: Its line in a feed, or None.
        """
        self.advance(at_us)
        self._begin()
        if self.machine.must_hear_first(event):
            self._collect_reports()
        if isinstance(event, str):
            self.machine.refuse(event, index, line)
        else:
            self._deliver(self.machine.enter(event, index, line))

    def collect_reports(self) -> None:
        """Bring the effects of the events so far into the view, within a batch."""
        if self._open:
            self._collect_reports()

    def settle(self, at_us: int | None = None) -> None:
        """Close the batch and run its rounds.

        Args:
            at_us: The instant of the batch, in microseconds; default: now.
        """
        self.advance(at_us)
        self._begin()
        self._end()

    def finish(self) -> None:
        """Close the batch and let time pass until no timer is left."""
        self._end()
        self._run_timers(None)

    def pass_until(self, until_us: int) -> None:
        """Close the batch and let time pass up to an instant.

        Args:
            until_us: The instant, in microseconds, including its timers.
        """
        self._end()
        self._run_timers(until_us)

    # ROUND-1
    def advance(self, at_us: int | None) -> None:
        """Close the batch and let time pass up to an instant, if there is one that comes later.

        Args:
            at_us: The instant, in microseconds; its timers are still due.
        """
        if at_us is not None and at_us > self.machine.now_us:
            self._end()
            self._run_timers(at_us - 1)
            self.machine.now_us = at_us

    def free(self) -> Steps[None]:
        """Free the memory in pieces; nothing may follow."""
        for owners in (self._apps, self._queues, self._gangs):
            yield from freed(owners)
        yield from self.machine.free()

    # Reading, between two batches

    def app(self, name: str) -> AppSnapshot | None:
        """Return a snapshot of an application, or None if it is unknown or has completed."""
        key = self.machine.registry.locate(name)
        return None if key is None else self._apps[key].snapshot()

    def pending(self) -> Iterator[tuple[str, str]]:
        """Yield all asks that are pending, parked or waiting, as ``(application, ask)``."""
        return self.machine.pending()

    def explain(self, app: str, ask: str) -> Explanation | None:
        """Explain why an ask is not running; return None if it is bound or unknown."""
        return self.machine.explain(app, ask)

    def explain_fully(self, app: str, ask: str) -> Explanation | None:
        """Explain why an ask is not running, with what it lacks and its outlook without a forecast.

        Returns:
            All that the state says; None if it is bound or unknown.
        """
        return all_at_once(self.machine.explain_fully(app, ask))

    def expected_end_us(self, app: str, ask: str) -> int | None:
        """Return when an ask is expected to end, in microseconds.

        Returns:
            None if that is not known, or if the ask is not bound.
        """
        key, now_us = self.machine.registry.locate(app), self.machine.now_us
        return None if key is None else self.machine.view.expected_end_us(key, ask, now_us)

    def gone_at_us(self, app: str, ask: str) -> int | None:
        """Return when an ask is gone because of its times, in microseconds; None if it is not."""
        key = self.machine.registry.locate(app)
        return None if key is None else self.machine.view.gone_at_us(key, ask)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the whole state; the first batch must have ended."""
        for key, commit in self.machine.settle_cycles().items():
            self._gangs[key].handle(commit)
        return all_at_once(
            self.machine.snapshot(
                (app.snapshot() for app in self._apps.values()),
                (queue.snapshot() for queue in self._queues.values()),
                (gang.snapshot() for gang in self._gangs.values()),
            )
        )

    def _run_timers(self, until_us: int | None) -> None:
        for _ in pass_time(self.machine, until_us):
            self._begin()
            self._end()

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._deliver(all_at_once(self.machine.begin(self.machine.now_us)))

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        self._collect_reports()
        outcome = all_at_once(self.machine.decide())
        self.announced.extend(outcome.announced)
        for key, app_commit in outcome.apps.items():
            self._apps[key].handle(app_commit)
        for key, queue_commit in outcome.queues.items():
            self._queues[key].handle(queue_commit)
        for key, gang_commit in outcome.gangs.items():
            if gang_commit is None:
                del self._gangs[key]
            else:
                self._gangs[key].handle(gang_commit)

    def _collect_reports(self) -> None:
        closing = self.machine.close()
        if closing is not None:
            self._report(all_at_once(closing))
        closes = self.machine.close_gangs()
        if not closes:
            return
        reports = [self._gangs[key].handle(close) for key, close in closes.items()]
        gangs = [report for report in reports if report is not None]
        all_at_once(self.machine.apply_gangs(gangs))
        for gang in gangs:
            if gang.gone:
                del self._gangs[gang.key]

    def _report(self, closing: ReportRequests) -> None:
        """Carry the reports of an epoch from the applications up to the coordinator."""
        direct: list[AppReport] = []
        root: QueueReport | None = None
        for key, commit in closing.commits.items():
            self._queues[key].handle(commit)
        for key, expect in closing.queues.items():
            root = self._pass_up(self._queues[key].handle(expect)) or root
        for key, close in closing.apps.items():
            report = self._apps[key].handle(close)
            if report is not None:
                if report.gone:
                    del self._apps[key]
                if report.direct:
                    direct.append(report)
                else:
                    leaf = self._queues[report.identity.leaf]
                    root = self._pass_up(leaf.handle(report)) or root
        collected = all_at_once(closing.collect(root, direct))
        self._deliver(all_at_once(self.machine.apply(collected)))

    def _pass_up(self, report: QueueReport | None) -> QueueReport | None:
        """Pass a report on to the queues above; return that of the root if it is complete."""
        while report is not None:
            summary = report.summary
            if summary.gone:
                del self._queues[summary.key]
            if summary.parent is None:
                break
            report = self._queues[summary.parent].handle(report)
        return report

    def _deliver(self, routes: list[AnyRoute]) -> None:
        for route in routes:
            match route:
                case TellApp():
                    self._apps[route.key].handle(route.message)
                case EnterState(key, AppState.COMPLETED):
                    del self._apps[key]
                case EnterState():
                    self._apps[route.key].handle(route)
                case StartApp(identity):
                    self._apps[identity.key] = ApplicationMachine(identity)
                case StartQueue():
                    self._queues[route.key] = QueueMachine(route.key, route.parent, route.config)
                case TellQueue():
                    self._queues[route.key].handle(route.message)
                case StartGang():
                    self._gangs[route.key] = GangMachine(route.key, route.name)
                case TellGang():
                    self._gangs[route.key].handle(route.message)
                case _:
                    assert_never(route)


MOST_BATCHES: Final = 10_000
"""How many batches a copy runs at most."""

MOST_WORK: Final = 30_000
"""How many asks a copy tries, and how many decisions it makes, at most."""


def forecast(
    facts: Facts,
    app: str,
    ask: str,
    now_us: int | None = None,
    *,
    most_batches: int = MOST_BATCHES,
    most_work: int = MOST_WORK,
) -> Forecast | None:
    """Return the forecast for the start of a pending ask, from a copy of the state.

    Counts and not a clock limit the search, so that the same state gives the same answer.

    Args:
        facts: The state, between two batches.
        app: The application of the ask.
        ask: Its name.
        now_us: The present instant, in microseconds; default: that of the last batch.
        most_batches: How many batches the copy runs at most.
        most_work: How many asks it tries, and how many decisions it makes, at most.

    Returns:
        The forecast; None if the ask is not pending.
    """
    if now_us is None:
        now_us = facts.coordinator.now_us
    expected = _as_expected(facts, now_us)
    copy = PlainScheduler(facts=expected)
    key = copy.machine.registry.locate(app)
    found = None if key is None else copy.machine.view.apps[key].pending_ask(ask)
    if key is None or found is None:
        return None
    # A Strict group is rolled back first, and owners are not informed, so that copy cannot run on.
    view = copy.machine.view
    if found.gang is not None:
        view = PlainScheduler(facts=expected).machine.view
        found = view.apps[key].pending_ask(ask)
        assert found is not None, "a copy of the same facts differs"
    fits_at, fits_now = view.fits_at(key, found, now_us), view.fits_now(key, found)
    run = _run_copy(copy, app, ask, most_batches, _work_left(copy) + most_work)
    return Forecast(fits_at, *run, fits_now)


# OUTLOOK-10
def held_back_later(
    facts: Facts, app: str, ask: str, fits_at_us: int, now_us: int
) -> PendingReason | None:
    """Return why a pending ask is held back when it would fit alone.

    Args:
        facts: The state, between two batches.
        app: The application of the ask.
        ask: Its name.
        fits_at_us: When it would fit alone, in microseconds; after the present instant.
        now_us: The present instant, in microseconds.

    Returns:
        The reason in a copy of the state that runs on up to then; None if the ask is not held back
        there, or if the copy was stopped before.
    """
    copy = PlainScheduler(facts=_as_expected(facts, now_us))
    most_work = _work_left(copy) + MOST_WORK
    for _ in range(MOST_BATCHES):
        due_us = copy.machine.next_deadline_us()
        if due_us is None or due_us > fits_at_us or _work_left(copy) > most_work:
            break
        copy.pass_until(due_us)
        copy.announced.clear()
    found = copy.explain(app, ask) if copy.machine.now_us == fits_at_us else None
    reasons = () if found is None else found.reasons
    return next((reason for reason in reasons if reason.code is Code.HELD_BACK), None)


# OUTLOOK-3, OUTLOOK-4
def _run_copy(
    copy: PlainScheduler, app: str, ask: str, most_batches: int, most_work: int
) -> tuple[int | None, int | None]:
    """Let a copy run on; return when an ask is bound, and where it was stopped before that."""
    for _ in range(most_batches):
        due_us = copy.machine.next_deadline_us()
        if due_us is None:
            return None, None
        copy.pass_until(due_us)
        if _binds_ask(copy.announced, app, ask):
            return due_us, None
        copy.announced.clear()
        if _work_left(copy) > most_work:
            break
    return None, copy.machine.now_us


def _work_left(copy: PlainScheduler) -> int:
    statistics = copy.machine.statistics()
    return statistics.steps + statistics.decisions


def _binds_ask(announced: Iterable[Announced], app: str, ask: str) -> bool:
    decisions = (one.decision for one in announced)
    return any(one.kind is Kind.BOUND and (one.app, one.ask) == (app, ask) for one in decisions)


def _as_expected(facts: Facts, now_us: int) -> Facts:
    """Return facts in which every ask completes when it is expected to, and not otherwise."""
    settings = {queue.key: queue.config.settings for queue in facts.queues}
    apps: list[AppFacts] = []
    ends: list[CompletionFacts] = []
    for app in facts.apps:
        key = app.identity.key
        expected = _expected_facts(app, settings[app.identity.leaf])
        ends += (
            (_end_us(held, length_us, now_us), held.number, key, held.ask.name)
            for held in expected.bound
            if (length_us := held.ask.run_for_us) is not None
        )
        # The ends of run limits are among those ends.
        bound = tuple(attrs.evolve(held, limit_us=None) for held in expected.bound)
        apps.append(attrs.evolve(expected, bound=bound))
    own = facts.coordinator
    timers = attrs.evolve(own.view.timers, completions=tuple(sorted(ends)))
    view = attrs.evolve(own.view, timers=timers)
    return attrs.evolve(facts, apps=tuple(apps), coordinator=attrs.evolve(own, view=view))


def _expected_facts(app: AppFacts, settings: Settings) -> AppFacts:
    """Return an application whose asks run for as long as they are expected to."""

    def asks(some: Iterable[Ask]) -> tuple[Ask, ...]:
        return tuple(_with_run_time(ask, estimate_now_us(settings, ask)) for ask in some)

    def waiting(held: Allocation) -> Allocation:
        return attrs.evolve(held, ask=_with_run_time(held.ask, estimate_now_us(settings, held.ask)))

    def bound(held: Allocation) -> Allocation:
        length_us = estimate_us(settings, held.ask, held.limit_us)
        return attrs.evolve(held, ask=_with_run_time(held.ask, length_us))

    return attrs.evolve(
        app,
        pending=asks(app.pending),
        parked=asks(app.parked),
        waiting=tuple(map(waiting, app.waiting)),
        bound=tuple(map(bound, app.bound)),
    )


def _with_run_time(ask: Ask, length_us: int | None) -> Ask:
    """Return an ask that runs for a number of microseconds, if that is known."""
    return ask if length_us == ask.run_for_us else ask._replace(run_for_us=length_us)


def _end_us(held: Allocation, length_us: int, now_us: int) -> int:
    """Return when a bound ask ends: after 1, 2, 4 … times its estimate, or at its run limit."""
    while held.bound_us + length_us <= now_us:
        length_us *= 2
    least_us = length_us if held.limit_us is None else min(length_us, held.limit_us)
    return max(held.bound_us + least_us, now_us)
