"""All state machines of the core, driven by one loop without tasks.

It makes the same decisions as the actors, since the machines make every decision. It serves to
measure what the tasks cost, and to tell bugs of the tasks from bugs of the machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

from muster_core.admission.routes import (
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.config import default_configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.facts import Facts
from muster_core.coordinator.instants import pass_time
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.gang import GangMachine
from muster_core.owners.queue import QueueMachine
from muster_core.structures.steps import all_at_once, freed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.admission.routes import AnyRoute
    from muster_core.coordinator.epoch import Closing
    from muster_core.owners.messages.queues import QueueReport
    from muster_core.structures.steps import Steps
    from muster_core.values.configuration.partition import Configuration
    from muster_core.values.decisions import Announced
    from muster_core.values.events import Event
    from muster_core.values.reasons import Explanation
    from muster_core.values.snapshots import AppSnapshot, Snapshot


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
        self._machine = CoordinatorMachine(first if facts is None else facts.configuration)
        self._apps: dict[int, ApplicationMachine] = {}
        self._queues: dict[int, QueueMachine] = {}
        self._gangs: dict[int, GangMachine] = {}
        #: All decisions so far.
        self.announced: list[Announced] = []
        self._open = False
        if facts is None:
            self._deliver(self._machine.start())
        else:
            self._load(facts)

    # CHECKPOINT-5
    def _load(self, facts: Facts) -> None:
        self._deliver(all_at_once(self._machine.load(facts)))
        if facts.has_begun:
            self._hear()
            all_at_once(self._machine.end_loading(facts))

    def facts(self) -> Facts:
        """Return the facts of a checkpoint. Between two batches."""
        return Facts(
            coordinator=all_at_once(self._machine.facts()),
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
        self._advance(at_us)
        self._begin()
        if self._machine.must_hear_first(event):
            self._hear()
        if isinstance(event, str):
            self._machine.refuse(event, index, line)
        else:
            self._deliver(self._machine.enter(event, index, line))

    def hear(self) -> None:
        """Bring the effects of the events so far into the view, within a batch."""
        if self._open:
            self._hear()

    def settle(self, at_us: int | None = None) -> None:
        """Close the batch and run its rounds.

        Args:
            at_us: The instant of the batch, in microseconds; default: now.
        """
        self._advance(at_us)
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

    def advance(self, at_us: int) -> None:
        """Close the batch and let time pass up to an instant that comes later.

        Args:
            at_us: The instant, in microseconds; its timers are still due.
        """
        self._advance(at_us)

    def free(self) -> Steps[None]:
        """Free the memory in pieces; nothing may follow."""
        for owners in (self._apps, self._queues, self._gangs):
            yield from freed(owners)
        yield from self._machine.free()

    # Reading, between two batches

    @property
    def machine(self) -> CoordinatorMachine:
        """The coordinator's state machine, only for reading."""
        return self._machine

    def app(self, name: str) -> AppSnapshot | None:
        """Return a snapshot of an application, or None if it is unknown or has completed."""
        key = self._machine.registry.locate(name)
        return None if key is None else self._apps[key].snapshot()

    def pending(self) -> Iterator[tuple[str, str]]:
        """Yield all asks that are pending, parked or waiting, as ``(application, ask)``."""
        return self._machine.pending()

    def explain(self, app: str, ask: str) -> Explanation | None:
        """Explain why an ask is not running; return None if it is bound or unknown."""
        return self._machine.explain(app, ask)

    def explain_fully(self, app: str, ask: str) -> Explanation | None:
        """Explain why an ask is not running, with what it lacks and its outlook without a forecast.

        Returns:
            All that the state says; None if it is bound or unknown.
        """
        return all_at_once(self._machine.explain_fully(app, ask))

    def expected_end_us(self, app: str, ask: str) -> int | None:
        """Return when an ask is expected to end, in microseconds.

        Returns:
            None if that is not known, or if the ask is not bound.
        """
        key, now_us = self._machine.registry.locate(app), self._machine.now_us
        return None if key is None else self._machine.view.expected_end_us(key, ask, now_us)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the whole state; the first batch must have ended."""
        for key, commit in self._machine.settle_cycles().items():
            self._gangs[key].handle(commit)
        return all_at_once(
            self._machine.snapshot(
                (app.snapshot() for app in self._apps.values()),
                (queue.snapshot() for queue in self._queues.values()),
                (gang.snapshot() for gang in self._gangs.values()),
            )
        )

    # ROUND-1
    def _advance(self, at_us: int | None) -> None:
        if at_us is not None and at_us > self._machine.now_us:
            self._end()
            self._run_timers(at_us - 1)
            self._machine.now_us = at_us

    def _run_timers(self, until_us: int | None) -> None:
        for _ in pass_time(self._machine, until_us):
            self._begin()
            self._end()

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._deliver(all_at_once(self._machine.begin(self._machine.now_us)))

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        self._hear()
        for _ in self._machine.decide():
            pass
        outcome = all_at_once(self._machine.finish())
        self.announced.extend(outcome.announced)
        for key, app_commit in outcome.apps.items():
            self._apps[key].handle(app_commit)
        for key, queue_commit in outcome.queues.items():
            self._queues[key].handle(queue_commit)
        for key, gang_commit in outcome.gangs.items():
            self._gangs[key].handle(gang_commit)

    def _hear(self) -> None:
        closing = all_at_once(self._machine.close())
        if closing is not None:
            self._report(closing)
        gangs = [
            report
            for key, close in self._machine.close_gangs().items()
            if (report := self._gangs[key].handle(close)) is not None
        ]
        all_at_once(self._machine.apply_gangs(gangs))
        for gang in gangs:
            if gang.gone:
                del self._gangs[gang.key]

    def _report(self, closing: Closing) -> None:
        """Carry the reports of an epoch from the applications up to the root."""
        reports: list[QueueReport] = []
        for key, expect in closing.queues.items():
            self._pass_up(self._queues[key].handle(expect), reports)
        for key, close in closing.apps.items():
            report = self._apps[key].handle(close)
            if report is not None:
                if report.gone:
                    del self._apps[key]
                self._pass_up(self._queues[report.identity.leaf].handle(report), reports)
        for top in reports:
            self._deliver(all_at_once(self._machine.apply(top)))

    def _pass_up(self, report: QueueReport | None, reports: list[QueueReport]) -> None:
        while report is not None:
            summary = report.queues[0]
            if summary.gone:
                del self._queues[summary.key]
            if summary.parent is None:
                reports.append(report)
                return
            report = self._queues[summary.parent].handle(report)

    def _deliver(self, routes: list[AnyRoute]) -> None:
        for route in routes:
            match route:
                case TellApp():
                    self._apps[route.key].handle(route.message)
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
