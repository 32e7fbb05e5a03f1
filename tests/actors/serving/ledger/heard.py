"""A scheduler in virtual time whose ledger hears of every batch, as that of a service does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import final

import attrs

from muster.service.ledger.ledger import Ledger
from muster.service.ledger.reconciliation import reconcile
from muster.service.ledger.records import AskEntry
from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.snapshots import AskPlace, Snapshot
from muster_core.structures.steps import all_at_once
from tests.naive.harness import Step

Heard = tuple[int, int, int, Sequence[Event], Sequence[Announced]]
"""What a companion hears of a batch."""


@final
class HeardScheduler:
    """A scheduler and its ledger.

    Attributes:
        plain: The scheduler.
        ledger: Its ledger.
        heard: What the ledger has heard.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.plain = PlainScheduler(configuration)
        self.ledger = Ledger()
        self.heard: list[Heard] = []
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
        self._hear(at_us, events, self.plain.announced[before:])
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
                self._hear(at_us, (), list(some))

    def _hear(self, at_us: int, events: Sequence[Event], announced: Sequence[Announced]) -> None:
        self._number += 1
        heard = (self._number, at_us, self._index, events, announced)
        self.heard.append(heard)
        all_at_once(self.ledger.hear(*heard))


def play(scenario: Sequence[Step], check: Callable[[HeardScheduler], None]) -> HeardScheduler:
    """Play a scenario, and check something after each batch.

    Args:
        scenario: The scenario; a step that is no event ends a batch.
        check: Called after each batch.
    """
    heard = HeardScheduler()
    events: list[Event] = []
    now_us = 0
    for step in scenario:
        if step.at_us > now_us:
            if events:
                heard.batch(now_us, events)
                check(heard)
            events, now_us = [], step.at_us
        if isinstance(step.what, str):
            continue
        if isinstance(step.what, Event):
            events.append(step.what)
            continue
        heard.batch(now_us, events)
        check(heard)
        events = []
    heard.batch(now_us, events)
    check(heard)
    heard.finish()
    check(heard)
    return heard


Known = dict[tuple[str, ...], object]


def in_state(snapshot: Snapshot) -> Known:
    """Return everything that exists, with what a ledger knows of it too."""
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
    """Return the same of a ledger."""
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
    """Return all that a ledger knows but its ring, to be compared."""
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
    heard = ledger.batch, ledger.at_us, ledger.seq
    failures = list(book.failures.items())
    counts = book.counts, book.is_stale
    lives = list(book.lives.kept), book.lives.after_seq
    users = {
        name: (one.held, dict(one.base), one.ended, one.apps)
        for name, one in ledger.accounts().users.items()
    }
    marks = [one.marks for one in book.accounts.users.values()]
    accounts = list(users), users, marks, book.accounts.gone, book.accounts.changed_us
    return asks, apps, nodes, order, ran, samples, heard, counts, failures, lives, accounts


def look_again(heard: HeardScheduler, ledger: Ledger) -> None:
    """Compare a ledger with the state, as a service does at its start."""
    all_at_once(reconcile(ledger, heard.plain.machine))
