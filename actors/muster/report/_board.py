"""The board: the current state of each queue while a replay runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.feeds import FeedItem
from muster.replay import Beginning, Census, LiveAsk
from muster_core.config.model import Configuration
from muster_core.decisions import Announced, Kind, Reason
from muster_core.resources import Resources
from muster_core.structures.amounts import add_to, take_from

if TYPE_CHECKING:
    from muster.report._recorder import RecordedScheduler

RECENT: Final = 8
"""How many of the latest decisions are kept."""

_SHOWN_KINDS: Final = frozenset(Kind) - {Kind.ASSIGNED, Kind.QUEUE_PRIORITY, Kind.APP_STATE}
"""The kinds of decisions to show: all others accompany one of these, or show in the queues."""


@final
@attrs.define(eq=False)
class QueueNow:
    """The current state of a queue and of all queues below it.

    Attributes:
        running: How many asks are bound.
        pending: How many asks are pending or parked.
        waiting: How many asks are waiting.
        priority: Its ``currentPriority``, or None.
        used: The resources that asks hold, by type in base units.
    """

    running: int = 0
    pending: int = 0
    waiting: int = 0
    priority: int | None = None
    used: dict[str, int] = attrs.field(factory=dict[str, int])


@final
class Board:
    """A watcher for :func:`muster.replay.replay` that keeps the current state of each queue.

    Other threads may read it while the replay runs; inside :meth:`at_rest` they read a consistent
    state. It does not change the replay, and never looks at the scheduler.

    Attributes:
        at_us: The instant of the latest decisions, in microseconds.
        recent: The latest decisions worth showing, oldest first.
    """

    def __init__(self) -> None:
        self.at_us = 0
        self.recent: Sequence[Announced] = ()
        self._lock = Lock()
        self._queues: dict[str, QueueNow] = {}
        self._capacity: dict[str, int] = {}
        self._capacities: dict[str, Resources] = {}
        self._chains: dict[str, tuple[QueueNow, ...]] = {}
        self._census = Census(self)

    # For readers

    def at_rest(self) -> AbstractContextManager[object]:
        """Return a context in which nothing changes; the replay waits until it ends."""
        return self._lock

    def queues(self) -> list[tuple[str, QueueNow]]:
        """Return every queue that has existed, with its path, in tree order."""
        # `copy` is atomic, whatever other threads do.
        found = self._queues.copy()
        return sorted(found.items(), key=lambda entry: entry[0].split("."))

    def share(self, queue: QueueNow) -> float:
        """Return the dominant share of a queue in the cluster, from 0 to 1."""
        capacity = self._capacity.copy()
        shares = (
            amount / capacity[kind]
            for kind, amount in queue.used.copy().items()
            if kind in capacity
        )
        return min(max(shares, default=0.0), 1.0)

    # A watcher

    def begin(self, beginning: Beginning) -> None:
        """Begin with a state instead of with nothing."""
        with self._lock:
            self._census.begin(beginning)
            self.at_us = beginning.at_us

    def saw(self, item: FeedItem) -> None:
        """Record an item that is about to be submitted."""
        self._census.saw(item)

    def write(self, batch: Sequence[Announced], /) -> None:
        """Apply the decisions of a batch."""
        shown = [announced for announced in batch if announced.decision.kind in _SHOWN_KINDS]
        with self._lock:
            self._census.write(batch)
            self.at_us = batch[0].at_us
            self.recent = (*self.recent, *shown[-RECENT:])[-RECENT:]

    def due_us(self) -> None:
        """Return None: it never looks at the scheduler."""

    async def look(self, scheduler: RecordedScheduler, at_us: int) -> None:
        """Do nothing."""

    async def look_at_end(self, scheduler: RecordedScheduler, at_us: int) -> None:
        """Do nothing."""

    # A listener of the census

    def configured(self, at_us: int, configuration: Configuration) -> None:
        """Do nothing: no setting is shown."""

    def node(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """A node has a new capacity; None if it was removed."""
        before = self._capacities.pop(name, None)
        if before is not None:
            take_from(self._capacity, before)
        if capacity is not None:
            self._capacities[name] = capacity
            add_to(self._capacity, capacity)

    def job(self, _: int, app: str, queue: str | None, user: str | None) -> None:
        """An application was submitted to a queue, or has completed."""
        if queue is not None:
            self._chain(queue)

    def pending(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is now pending or parked."""
        for queue in self._chain(ask.queue):
            queue.pending += 1

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is no longer pending."""
        for queue in self._chain(ask.queue):
            queue.pending -= 1

    def unbound(self, at_us: int, ask: LiveAsk, wait_us: int) -> None:
        """Do nothing: it was counted until it was no longer pending."""

    def held(self, at_us: int, ask: LiveAsk) -> None:
        """An ask now holds a node, and waits until it is bound."""
        for queue in self._chain(ask.queue):
            queue.waiting += 1
            add_to(queue.used, ask.resources)

    def bound(self, at_us: int, ask: LiveAsk, wait_us: int | None) -> None:
        """An ask that holds a node is now bound."""
        for queue in self._chain(ask.queue):
            queue.waiting -= 1
            queue.running += 1

    def lost_node(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """An ask has lost its node."""
        for queue in self._chain(ask.queue):
            if ask.bound_us is None:
                queue.waiting -= 1
            else:
                queue.running -= 1
            take_from(queue.used, ask.resources)

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        """A queue has a new ``currentPriority``."""
        self._chain(queue)[-1].priority = value

    def _chain(self, path: str) -> tuple[QueueNow, ...]:
        chain = self._chains.get(path)
        if chain is None:
            names = path.split(".")
            paths = [".".join(names[: depth + 1]) for depth in range(len(names))]
            chain = tuple(self._queues.setdefault(above, QueueNow()) for above in paths)
            self._chains[path] = chain
        return chain
