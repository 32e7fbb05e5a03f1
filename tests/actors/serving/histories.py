"""Schedulers for tests of the ledger and of the history: with a ledger, and with a store as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import final

import attrs

from muster.service.ask_index import AskIndex
from muster.service.endpoints.schemas import row_of
from muster.service.input.leases import Leases
from muster.service.ledger.ledger import Ledger
from muster.service.ledger.reconciliation import note_queues, reconcile
from muster.service.ledger.records import AskEntry
from muster.service.queries.apps import APPS, GANGS, AppFilter, GangRow, row_of_app, select_apps
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import ASKS
from muster.service.queries.nodes import NODES, NodeRow
from muster.service.queries.queues import QUEUES, QueueRow
from muster.service.queries.reader import ReadContext
from muster.store import StateReader
from muster_core.config.model import Configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.snapshots import AskPlace, Snapshot
from muster_core.structures.steps import all_at_once
from tests.actors.state_directories import Keeper, batches
from tests.naive.harness import Step

ObservedBatch = tuple[int, int, int, Sequence[Event], Sequence[Announced]]
"""A batch as observers get it: number, instant, index, events and decisions."""


@final
class LedgerScheduler:
    """A scheduler, and a ledger that observes its batches.

    Attributes:
        plain: The scheduler.
        ledger: Its ledger.
        batches: The batches that the ledger observed.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.plain = PlainScheduler(configuration)
        self.ledger = Ledger()
        self.batches: list[ObservedBatch] = []
        self._number = 0
        self._index = 0

    def batch(self, at_us: int, events: Iterable[Event]) -> None:
        """Run the timers up to an instant, each in its own batch, and then one of events."""
        self._timers(at_us)
        events = list(events)
        before = len(self.plain.announced)
        for number, event in enumerate(events):
            self.plain.submit(event, at_us, self._index + number)
        self.plain.settle(at_us)
        self._observe(at_us, events, self.plain.announced[before:])
        self._index += len(events)

    def finish(self) -> None:
        """Let time pass until no timer is left."""
        self._timers(None)

    def _timers(self, until_us: int | None) -> None:
        machine = self.plain.machine
        while (due_us := machine.next_deadline_us()) is not None:
            if until_us is not None and due_us > until_us:
                break
            before = len(self.plain.announced)
            self.plain.pass_until(due_us)
            announced = self.plain.announced[before:]
            for at_us, some in groupby(announced, attrgetter("at_us")):
                self._observe(at_us, (), list(some))

    def _observe(self, at_us: int, events: Sequence[Event], announced: Sequence[Announced]) -> None:
        self._number += 1
        batch = (self._number, at_us, self._index, events, announced)
        self.batches.append(batch)
        all_at_once(self.ledger.observe(*batch))


def play(scenario: Sequence[Step], check: Callable[[LedgerScheduler], None]) -> LedgerScheduler:
    """Play a scenario, and check something after each batch.

    Args:
        scenario: The scenario; a step that is no event ends a batch.
        check: Called after each batch.
    """
    scheduler = LedgerScheduler()
    events: list[Event] = []
    now_us = 0
    for step in scenario:
        if step.at_us > now_us:
            if events:
                scheduler.batch(now_us, events)
                check(scheduler)
            events, now_us = [], step.at_us
        if isinstance(step.what, str):
            continue
        if isinstance(step.what, Event):
            events.append(step.what)
            continue
        scheduler.batch(now_us, events)
        check(scheduler)
        events = []
    scheduler.batch(now_us, events)
    check(scheduler)
    scheduler.finish()
    check(scheduler)
    return scheduler


Known = dict[tuple[str, ...], object]


def in_state(snapshot: Snapshot) -> Known:
    """Return all nodes, applications and asks of a snapshot, with the fields that a ledger has."""
    known: Known = {("node", name): dict(node.capacity) for name, node in snapshot.nodes.items()}
    sums: dict[str, int] = {}
    for node in snapshot.nodes.values():
        for kind, amount in node.capacity.items():
            sums[kind] = sums.get(kind, 0) + amount
    places = Counter(ask.place for app in snapshot.apps.values() for ask in app.asks)
    known["capacity",] = sums
    known["asks",] = places[AskPlace.PENDING] + places[AskPlace.PARKED]
    known["held",] = places[AskPlace.WAITING], places[AskPlace.BOUND]
    total: Counter[str] = Counter()
    for name, app in snapshot.apps.items():
        used: dict[str, int] = {}
        for ask in app.asks:
            is_bound = ask.place is AskPlace.BOUND
            known["ask", name, ask.name] = ask.node, ask.retries, is_bound, dict(ask.resources)
            if ask.node is not None:
                for kind, amount in ask.resources.items():
                    used[kind] = used.get(kind, 0) + amount
        known["app", name] = app.queue, str(app.state), app.user, used
        total.update(used)
    known["used",] = dict(total)
    return known


def in_ledger(ledger: Ledger) -> Known:
    """Return the same from a ledger."""
    known: Known = {
        ("node", name): dict(node.event.room) for name, node in ledger.book.nodes.items()
    }
    series = ledger.book.history.series
    known["capacity",] = series.capacity
    known["asks",] = series.asks - series.held
    known["held",] = series.held - series.bound, series.bound
    known["used",] = series.used
    for name, app in ledger.book.apps.items():
        known["app", name] = app.queue, app.state, app.event.user, app.used
        for ask, entry in app.asks.items():
            resources = dict(entry.event.wanted)
            is_bound = entry.node is not None and entry.is_bound
            known["ask", name, ask] = entry.node, entry.retries, is_bound, resources
    return known


def whole(ledger: Ledger) -> tuple[object, ...]:
    """Return all fields of a ledger except its ring, to compare ledgers."""
    book = ledger.book
    asks = {
        (name, ask): [getattr(entry, field.name) for field in attrs.fields(AskEntry)]
        for name, app in book.apps.items()
        for ask, entry in app.asks.items()
    }
    apps = [
        {
            name: (
                *(app.event, app.came_us, app.queue, app.state, app.states, app.ran_us),
                *(app.used, app.most, list(app.asks), app.ended_us),
            )
            for name, app in apps.items()
        }
        for apps in (book.apps, book.completed)
    ]
    nodes = {name: (node.event, node.came_us) for name, node in book.nodes.items()}
    order = (list(book.apps), list(book.completed), list(book.nodes))
    history = book.history
    series = history.series
    ran = history.apps, history.minute, list(history.points), list(book.refused)
    samples = list(series.minutes), list(series.hours), series.now(0)
    position = ledger.batch, ledger.at_us, ledger.seq
    failures = list(book.failures.items())
    counts = book.counts, book.is_stale
    lives = list(book.lives.kept), book.lives.after_seq
    users = {
        name: (one.held, dict(one.base), one.ended, one.apps)
        for name, one in ledger.accounts().users.items()
    }
    marks = [one.marks for one in book.accounts.users.values()]
    accounts = list(users), users, marks, book.accounts.gone, book.accounts.changed_us
    return asks, apps, nodes, order, ran, samples, position, counts, failures, lives, accounts


def reconcile_ledger(scheduler: LedgerScheduler, ledger: Ledger) -> None:
    """Compare a ledger with the state, as a service does at its start."""
    all_at_once(reconcile(ledger, scheduler.plain.machine))


ListRows = dict[str, list[object]]
"""The rows of every list."""


def list_rows(context: ReadContext) -> ListRows:
    """Return the rows of every list, with all their fields."""
    view, machine = context.view, context.machine
    apps = all_at_once(select_apps(context, AppFilter(), None, 10**9))
    asks = all_at_once(select_asks(context, AskFilter(), None, 10**9))
    queues, gangs, nodes = machine.registry.queues, view.gangs, view.nodes.nodes
    return {
        "queues": [
            row_of(QUEUES.picked(None, single=True), QueueRow.of(context, queues[path]))
            for path in sorted(queues)
        ],
        "apps": [row_of(APPS.picked(None, single=True), row_of_app(context, app)) for app in apps],
        "asks": [row_of(ASKS.picked(None, single=True), ask) for ask in asks],
        "gangs": [
            row_of(GANGS.picked(None, single=True), GangRow(context, gangs[name]))
            for name in sorted(gangs)
        ],
        "nodes": [
            row_of(NODES.picked(None, single=True), NodeRow(context, nodes[name]))
            for name in sorted(nodes)
        ],
        "state": [
            machine.configuration,
            machine.batches,
            context.now_us,
            *_ledger_values(context.ledger),
        ],
    }


def _ledger_values(ledger: Ledger) -> Sequence[object]:
    history, counts = ledger.book.history, ledger.book.counts
    ran = [history.apps, history.containers, list(history.points)]
    samples = [
        ledger.samples(ledger.at_us, 0, hourly=False),
        ledger.samples(ledger.at_us, 0, hourly=True),
    ]
    known = [[*ledger.book.completed], [*ledger.book.refused], [*ledger.book.lives.kept]]
    used = ledger.accounts().since(0, ledger.at_us)
    return [ledger.batch, ledger.at_us, ledger.seq, *known, used, ran, deepcopy((counts, samples))]


@final
class StoredScheduler:
    """A scheduler with a store, and a ledger that observes each batch, as in a service.

    Args:
        directory: The state directory.
        checkpoints: After how many batches of events each checkpoint is taken.

    Attributes:
        rows: The rows of every list after the last batch of each instant.
    """

    def __init__(self, directory: Path, checkpoints: Collection[int] = ()) -> None:
        self.keeper = Keeper(directory)
        self.rows: dict[int, ListRows] = {}
        self.ledger, self._ask_index = Ledger(), AskIndex()
        all_at_once(self.ledger.load(()))
        self._index = self._runs = 0
        self._checkpoints = checkpoints
        self._reader = StateReader(directory)

    def run(self, at_us: int, events: Sequence[Event]) -> None:
        """Run a batch, after the timers before it."""
        self.keeper.run(at_us, events)
        for batch in self._reader.batches(after=self.ledger.batch):
            observed = (batch.number, batch.at_us, self._index, batch.events, batch.decisions)
            all_at_once(self.ledger.observe(*observed))
            self._ask_index.observe(batch.events)
            self._index += batch.event_count
        note_queues(self.ledger, self.machine)
        self.rows[at_us] = list_rows(ReadContext(self.machine, self.ledger, self._ask_index))
        self._runs += 1
        if self._runs in self._checkpoints:
            self.keeper.checkpoint()
            self.keeper.companion([Leases().save(), *all_at_once(self.ledger.save())])

    @property
    def machine(self) -> CoordinatorMachine:
        """The machine."""
        return self.keeper.scheduler.machine

    def play(self, steps: Sequence[Step]) -> None:
        """Run the batches of a scenario."""
        for at_us, events in batches(steps):
            self.run(at_us, events)

    def close(self) -> Path:
        """Close the directory and return it."""
        self._reader.close()
        return self.keeper.close()
