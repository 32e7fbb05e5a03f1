"""The state of the ledger, and the ring of its latest events as YuniKorn numbers them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import islice
from typing import Final, final
from uuid import uuid4

import trio

from muster.service.ledger.records import (
    AppEntry,
    AskEntry,
    EndedAsks,
    NodeEntry,
    QueueObservation,
    RefusedEvent,
    StartFailure,
)
from muster.service.ledger.usage import Counts, UsageHistory, UserAccounts
from muster.store._codec import tag_of
from muster_core.decisions import Announced, Reason
from muster_core.events import Event

KEPT: Final = 100_000
"""How many events are kept."""


@final
class YuniKornEventCode(IntEnum):
    """What an event is about, what has changed, and why, as YuniKorn numbers it.

    The value is ``type * 10_000 + change * 1_000 + detail``.
    """

    REASON = 1_00_000
    ALLOCATED = 2_02_200
    ASK_CAME = 2_02_201
    APP_CAME = 2_02_203
    APP_ACCEPTED = 2_01_204
    APP_RUNNING = 2_01_206
    APP_COMPLETING = 2_01_207
    APP_COMPLETED = 2_01_208
    APP_GONE = 2_03_000
    ASK_REMOVED = 2_03_100
    ASK_EXPIRED = 2_03_102
    CANCELLED = 2_03_500
    PREEMPTED = 2_03_501
    TIMED_OUT = 2_03_502
    NODE_LOST = 2_03_504
    NODE_CAME = 3_02_000
    NODE_GONE = 3_03_300
    NODE_READY = 3_01_302
    NODE_TAKEN = 3_02_303
    NODE_FREED = 3_03_303
    NODE_CAPACITY = 3_01_304
    QUEUE_CAME = 4_02_000
    QUEUE_GONE = 4_03_000
    DYNAMIC_CAME = 4_02_401
    DYNAMIC_GONE = 4_03_401
    QUEUE_MAX = 4_01_403
    QUEUE_GUARANTEED = 4_01_404
    QUEUE_APP_CAME = 4_02_405
    QUEUE_APP_GONE = 4_03_405

    @property
    def type(self) -> int:
        """1 request, 2 application, 3 node, 4 queue."""
        return self // 100_000

    @property
    def change(self) -> int:
        """0 none, 1 set, 2 added, 3 removed."""
        return self // 1_000 % 100

    @property
    def detail(self) -> int:
        """Which change it is; 0 if there is no more to say."""
        return self % 1_000


RingEvent = tuple[int, int, str, str, Mapping[str, int] | None, str]
"""An event: what has happened, when (in microseconds since the origin), what it is about, the other
thing concerned, the resources concerned, and what it says to a person.

A plain tuple, because it is made several times for each ask."""


@final
class EventRing:
    """The latest events; the oldest go when there are more than :data:`KEPT`.

    Attributes:
        instance: Another text with each start of the service.
        next: The number of the next event; they are numbered from 0.
        is_open: Whether events are kept; they are not while history is replayed.
        readers: How many follow the events as they come.
    """

    def __init__(self) -> None:
        self.instance = str(uuid4())
        self.next = 0
        self.is_open = True
        self.readers = 0
        self._events: deque[RingEvent] = deque(maxlen=KEPT)
        self._grew: trio.Event | None = None
        self._is_closed = False

    @property
    def lowest(self) -> int:
        """The number of the oldest event; 0 if there is none."""
        return self.next - len(self._events)

    @property
    def highest(self) -> int:
        """The number of the newest event; 0 if there is none."""
        return max(self.next - 1, 0)

    def add(
        self,
        what: int,
        at_us: int,
        about: str,
        other: str = "",
        amounts: Mapping[str, int] | None = None,
        message: str = "",
    ) -> None:
        """Add an event."""
        if self.is_open:
            self._events.append((what, at_us, about, other, amounts, message))
            self.next += 1

    def add_two(self, first: RingEvent, second: RingEvent) -> None:
        """Add two events."""
        if self.is_open:
            self._events += (first, second)
            self.next += 2

    def add_all(self, events: Sequence[RingEvent]) -> None:
        """Add events, in order."""
        if self.is_open:
            self._events += events
            self.next += len(events)

    def since(self, start: int, count: int) -> list[RingEvent]:
        """Return at most ``count`` events from the number ``start`` on, which must be kept."""
        first = start - self.lowest
        length = len(self._events)
        if first > length // 2:  # A deque is quick at both ends only.
            found = list(islice(reversed(self._events), length - first))[::-1]
            return found[:count]
        return list(islice(self._events, first, first + count))

    def wake_readers(self) -> None:
        """Wake all who wait for events."""
        if self._grew is not None:
            self._grew.set()
            self._grew = None

    def close(self) -> None:
        """Close the ring: no event follows, and readers end."""
        self._is_closed = True
        self.wake_readers()

    async def wait(self, start: int) -> bool:
        """Wait until there is an event with the number ``start``.

        Returns:
            Whether there is one; there is none if the ring was closed.
        """
        while self.next <= start and not self._is_closed:
            if self._grew is None:
                self._grew = trio.Event()
            await self._grew.wait()
        return self.next > start


KEPT_COMPLETED: Final = 4_000
"""How many completed applications are kept, the latest ones."""

KEPT_REFUSED: Final = 50
"""How many events that were refused are kept, the latest ones."""

KEPT_FAILURES: Final = 10_000
"""Of how many asks it is kept why their work could not be started, the latest ones."""

_RUNNING: Final = frozenset(("Starting", "Running"))

_Ended = tuple[AppEntry, AskEntry, "Reason"]
"""An ask that an event has ended, its application, and the reason that its decision will give."""


@final
class LedgerState:
    """All entries.

    An event that ends an ask or an application takes its entry out at once, as a later event of the
    batch may add another of that name. The decisions about the old one come only afterwards; until
    then it is in ``ended`` or ``leaving``.

    Attributes:
        apps: Every application that has not completed, by name.
        nodes: Every node, by name.
        completed: The latest completed applications, by name; the oldest comes first.
        counts: What has been counted.
        history: What ran, minute by minute.
        ring: The latest events.
        refused: The latest events that were refused, oldest first.
        ended: The asks that events of this batch have ended, by application and name.
        leaving: The applications that events of this batch have removed, by name.
        is_stale: Whether something is unknown that exists, so that the state must be compared.
        queues_changed: Whether queues may have come, gone or changed.
        reported: The dominant reasons that were reported last, by application and ask.
        reported_batch: The batch after which they were reported.
        failures: Where and why the work of asks could not be started last, by application and ask,
            of asks that have not ended otherwise since; the oldest comes first.
        accounts: What users hold and have used.
        lives: The asks that ended last.
        configured_us: When a configuration came in last, in microseconds since the origin; None if unknown.
        queues: Every queue at the last comparison, by path; None before the first one.
    """

    def __init__(self) -> None:
        self.apps: dict[str, AppEntry] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.completed: dict[str, AppEntry] = {}
        self.counts = Counts()
        self.history = UsageHistory()
        self.ring = EventRing()
        self.refused: deque[RefusedEvent] = deque(maxlen=KEPT_REFUSED)
        self.ended: dict[tuple[str, str], list[_Ended]] = {}
        self.leaving: dict[str, list[AppEntry]] = {}
        self.is_stale = False
        self.queues_changed = True
        self.reported: dict[tuple[str, str], str] = {}
        self.reported_batch = 0
        self.failures: dict[tuple[str, str], StartFailure] = {}
        self.accounts = UserAccounts()
        self.lives = EndedAsks()
        self.configured_us: int | None = None
        self.queues: dict[str, QueueObservation] | None = None

    # Applications

    def app_of(self, name: str) -> AppEntry | None:
        """Return the application that a decision is about."""
        leaving = self.leaving.get(name) if self.leaving else None
        return leaving[0] if leaving else self.apps.get(name)

    def remove_app(self, name: str) -> AppEntry | None:
        """Take out an application that an event has removed."""
        app = self.apps.pop(name, None)
        if app is not None:
            app.account.apps -= 1
            self.leaving.setdefault(name, []).append(app)
        return app

    def add_app(self, app: AppEntry) -> None:
        """Note an application that has come."""
        app.account = self.accounts.of(app.event.user)
        app.account.apps += 1
        self.apps[app.event.app] = app

    def drop_leaving(self, name: str, at_us: int) -> None:
        """Forget the first application of a name that is leaving."""
        leaving = self.leaving[name]
        app = leaving.pop(0)
        if not leaving:
            del self.leaving[name]
        self.history.apps -= app.state in _RUNNING
        self.announce_removed(app, at_us)

    def announce_leaving(self, name: str, at_us: int) -> None:
        """Add the events that applications of a name are gone, as another comes."""
        for app in self.leaving.get(name, ()):
            self.announce_removed(app, at_us)

    def announce_removed(self, app: AppEntry, at_us: int) -> None:
        """Add the events that an application is gone, once."""
        if app.is_gone:
            return
        app.is_gone = True
        name, queue = app.event.app, app.queue
        self.queues_changed = True
        self.ring.add(YuniKornEventCode.APP_GONE, at_us, name)
        self.ring.add(YuniKornEventCode.QUEUE_APP_GONE, at_us, queue, name)

    def enter(self, app: AppEntry, state: str, at_us: int) -> None:
        """Note the new state of an application."""
        self.history.apps += (state in _RUNNING) - (app.state in _RUNNING)
        app.state = state
        app.states.append((at_us, state))

    def complete(self, app: AppEntry) -> None:
        """Keep an application that has completed, as it is now."""
        name = app.event.app
        self.completed.pop(name, None)
        self.completed[name] = app
        if len(self.completed) > KEPT_COMPLETED:
            del self.completed[next(iter(self.completed))]

    def note_refused(self, refusal: Announced, events: Sequence[Event], first: int) -> None:
        """Keep that an event was refused.

        Args:
            refusal: What was decided.
            events: The events of the batch.
            first: The number of the first of them.
        """
        decision = refusal.decision
        place = -1 if decision.index is None else decision.index - first
        op = tag_of(type(events[place])) if 0 <= place < len(events) else "event"
        self.refused.append(RefusedEvent(refusal.seq, refusal.at_us, op, decision.message or ""))

    # Nodes

    def put_node(self, entry: NodeEntry) -> None:
        """Note a node, in the place of a former one of its name."""
        name = entry.event.node
        before = self.nodes.get(name)
        self.nodes[name] = entry
        gone = None if before is None else before.event.room
        self.history.series.change_capacity(gone, entry.event.room)

    def drop_node(self, name: str) -> bool:
        """Forget a node; return whether it was known."""
        entry = self.nodes.pop(name, None)
        if entry is not None:
            self.history.series.change_capacity(entry.event.room, None)
        return entry is not None

    # Asks

    def end(self, app: str, ask: str, reason: Reason) -> AskEntry | None:
        """Take out an ask that an event has ended, and return it if it is known."""
        owner = self.apps.get(app)
        entry = None if owner is None else owner.asks.pop(ask, None)
        if owner is None or entry is None:
            self.is_stale = True
            return None
        self.history.series.asks -= 1
        self.ended.setdefault((app, ask), []).append((owner, entry, reason))
        return entry

    def note_failure(self, app: str, ask: str, failure: StartFailure) -> None:
        """Note where and why the work of an ask could not be started."""
        self.failures.pop((app, ask), None)
        self.failures[app, ask] = failure
        if len(self.failures) > KEPT_FAILURES:
            del self.failures[next(iter(self.failures))]

    def take(self, app: AppEntry, ask: AskEntry, node: str, at_us: int | None) -> None:
        """Note that an ask has taken a node."""
        ask.node, ask.taken_us = node, at_us
        used, most, series = app.used, app.most, self.history.series
        total, base = series.used, app.account.base
        now_us = self.accounts.changed_us if at_us is None else at_us
        for kind, amount in ask.event.wanted.amounts.items():
            base[kind] = base.get(kind, 0) - amount * now_us
            now = used[kind] = used.get(kind, 0) + amount
            if now > most.get(kind, 0):
                most[kind] = now
            total[kind] = total.get(kind, 0) + amount
        series.held += 1

    def bind(self, ask: AskEntry, at_us: int | None) -> None:
        """Note that an ask that holds a node is bound there."""
        ask.bound_us = at_us
        if not ask.is_bound:
            ask.is_bound = True
            self.history.series.bound += 1

    def lose(self, app: AppEntry, ask: AskEntry, at_us: int) -> None:
        """Note that an ask that goes on has lost its node."""
        before = ask.before()
        if ask.taken_us is not None:
            before.held_us += at_us - ask.taken_us
        if ask.bound_us is not None:
            before.ran_us += at_us - ask.bound_us
            before.started_us = ask.bound_us
        self.give_back(app, ask, at_us)

    def unbind(self, ask: AskEntry) -> None:
        """Note that an ask is not bound."""
        ask.bound_us = None
        if ask.is_bound:
            ask.is_bound = False
            self.history.series.bound -= 1

    def give_back(self, app: AppEntry, ask: AskEntry, at_us: int | None) -> None:
        """Note that an ask has lost its node."""
        series, base = self.history.series, app.account.base
        now_us = self.accounts.changed_us if at_us is None else at_us
        self.unbind(ask)
        ask.node = ask.taken_us = None
        ask.since_us = at_us
        used, total = app.used, series.used
        for kind, amount in ask.event.wanted.amounts.items():
            base[kind] += amount * now_us
            if used[kind] > amount:
                used[kind] -= amount
            else:
                del used[kind]
            if total[kind] > amount:
                total[kind] -= amount
            else:
                del total[kind]
        series.held -= 1
