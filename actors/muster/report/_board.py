"""What is in each queue at this moment of a replay, for who watches it go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.feeds import FeedItem
from muster.replay import Census, LiveAsk
from muster_core.decisions import Announced, Kind, Reason
from muster_core.resources import Resources
from muster_core.structures.totals import add_to, take_from

if TYPE_CHECKING:
    from muster.report._recording.recorder import Watched

RECENT: Final = 8
"""How many of the latest decisions are kept."""

_TOLD: Final = frozenset(Kind) - {Kind.ASSIGNED, Kind.QUEUE_PRIORITY, Kind.APP_STATE}
"""What is worth telling: what else is decided goes with one of these, or shows in the queues."""


@final
@attrs.define(eq=False)
class QueueNow:
    """What is in a queue and below it.

    Attributes:
        running: How many asks are bound.
        pending: How many are pending or parked.
        waiting: How many wait on a node.
        priority: Its ``currentPriority``, or None.
        used: What asks hold, by resource type.
    """

    running: int = 0
    pending: int = 0
    waiting: int = 0
    priority: int | None = None
    used: dict[str, int] = attrs.field(factory=dict[str, int])


@final
class Board:
    """Follows a replay as it goes on; to be given to :func:`muster.replay.replay` as a watcher.

    Another thread may read it meanwhile, and within :meth:`at_rest` reads one moment. It takes no
    part in the replay, and never looks at the scheduler.

    Attributes:
        at_us: The instant that it shows: that of the latest decisions, in microseconds.
        recent: The latest decisions that are worth telling, the last one at the end.
    """

    def __init__(self) -> None:
        self.at_us = 0
        self.recent: Sequence[Announced] = ()
        self._lock = Lock()
        self._queues: dict[str, QueueNow] = {}
        self._there: dict[str, int] = {}
        self._capacities: dict[str, Resources] = {}
        self._chains: dict[str, tuple[QueueNow, ...]] = {}
        self._census = Census(self)

    # What is shown

    def at_rest(self) -> AbstractContextManager[object]:
        """Let nothing change for the time of a ``with`` statement; the replay waits meanwhile."""
        return self._lock

    def queues(self) -> list[tuple[str, QueueNow]]:
        """Give every queue that there was by its path, in tree order."""
        # One step of the interpreter, whatever the other thread does.
        found = self._queues.copy()
        return sorted(found.items(), key=lambda entry: entry[0].split("."))

    def share(self, queue: QueueNow) -> float:
        """Give how much of the cluster is used in a queue, in the type of which most is used."""
        there = self._there.copy()
        shares = (
            amount / there[kind] for kind, amount in queue.used.copy().items() if kind in there
        )
        return min(max(shares, default=0.0), 1.0)

    # What a watcher does

    def saw(self, item: FeedItem) -> None:
        """Take note of an item that is about to be let in."""
        self._census.saw(item)

    def write(self, batch: Sequence[Announced], /) -> None:
        """Take note of the decisions of a batch."""
        told = [announced for announced in batch if announced.decision.kind in _TOLD]
        with self._lock:
            self._census.write(batch)
            self.at_us = batch[0].at_us
            self.recent = (*self.recent, *told[-RECENT:])[-RECENT:]

    def due_us(self) -> None:
        """Never look at the scheduler."""

    async def look(self, scheduler: Watched, at_us: int) -> None:
        """Nothing to look at."""

    async def look_at_end(self, scheduler: Watched, at_us: int) -> None:
        """Nothing to look at."""

    # What it is told of

    def node(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """A node has a capacity now; None if it has gone."""
        before = self._capacities.pop(name, None)
        if before is not None:
            take_from(self._there, before)
        if capacity is not None:
            self._capacities[name] = capacity
            add_to(self._there, capacity)

    def job(self, queue: str) -> None:
        """An application was submitted to a queue."""
        self._chain(queue)

    def pending(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is pending now, or parked."""
        for queue in self._chain(ask.queue):
            queue.pending += 1

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is not pending any longer."""
        for queue in self._chain(ask.queue):
            queue.pending -= 1

    def held(self, at_us: int, ask: LiveAsk) -> None:
        """An ask holds a node now, waiting until it is bound."""
        for queue in self._chain(ask.queue):
            queue.waiting += 1
            add_to(queue.used, ask.resources)

    def bound(self, at_us: int, ask: LiveAsk, wait_us: int | None) -> None:
        """An ask that holds a node is bound now."""
        for queue in self._chain(ask.queue):
            queue.waiting -= 1
            queue.running += 1

    def left(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """An ask has lost its node."""
        for queue in self._chain(ask.queue):
            if ask.bound_us is None:
                queue.waiting -= 1
            else:
                queue.running -= 1
            take_from(queue.used, ask.resources)

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        """A queue has another ``currentPriority``."""
        self._chain(queue)[-1].priority = value

    def _chain(self, path: str) -> tuple[QueueNow, ...]:
        chain = self._chains.get(path)
        if chain is None:
            names = path.split(".")
            paths = [".".join(names[: depth + 1]) for depth in range(len(names))]
            chain = tuple(self._queues.setdefault(above, QueueNow()) for above in paths)
            self._chains[path] = chain
        return chain


def as_words(decision: Mapping[str, object]) -> str:
    """Write a decision, as the log has it, in one line."""
    what = "/".join(str(decision[name]) for name in ("app", "ask") if name in decision)
    words = [str(decision["kind"]).replace("_", " "), what or str(decision.get("gang", ""))]
    if "reason" in decision:
        words.append(f"({str(decision['reason']).replace('_', ' ')})")
    if "node" in decision:
        words.append(f"on {decision['node']}")
    if "message" in decision:
        words.append(str(decision["message"]))
    return " ".join(word for word in words if word)
