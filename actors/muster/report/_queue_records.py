"""The records of queues and users: usage, pending asks and priorities over time, settings, waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.figures.usage import UsageAccount
from muster.report._timeline import MOST_BUCKETS, Histogram, LevelRanges, Series, Timeline
from muster_core.config.model import QueueConfig

MOST_QUEUES: Final = 60
"""The most queues that have a record; all others count for their parents and for
:data:`OTHER_QUEUES`."""

OTHER_QUEUES: Final = "(other queues)"
"""The name of the record that counts all queues without a record of their own."""


@final
class StepLine:
    """A configured amount and its changes.

    Attributes:
        steps: The instants of changes, in microseconds, with the new amount; None is no limit.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, int | None]] = []

    def set(self, value: int | None, at_us: int, width_us: int) -> None:
        """Set the amount at an instant; of several changes within ``width_us``, the last counts."""
        if self.steps and self.steps[-1][1] == value:
            return
        if len(self.steps) > 1 and at_us - self.steps[-1][0] < width_us:
            self.steps[-1] = (self.steps[-1][0], value)
        elif self.steps or value is not None:
            self.steps.append((at_us, value))
            if len(self.steps) > 2 * MOST_BUCKETS:
                self._thin(width_us)

    def _thin(self, width_us: int) -> None:
        """Keep only the last of several changes within ``width_us``, which grows over time."""
        kept = self.steps[:1]
        for at_us, value in self.steps[1:]:
            if at_us - kept[-1][0] < width_us:
                kept[-1] = (kept[-1][0], value)
            else:
                kept.append((at_us, value))
        self.steps = kept


@final
class QueueRecord:
    """The record of one queue.

    Attributes:
        path: Its full path, or :data:`OTHER_QUEUES`.
        pending: How many asks are pending or parked in it and below.
        waiting: How many asks wait in it and below.
        running: How many asks are bound in it and below.
        used: The resources that asks hold in it and below, waiting or bound, by type.
        priority: Its ``currentPriority``.
        jobs: How many applications were submitted to it and below.
        waits: How long the asks in it and below waited until their first bind, or until they
            ended without one.
        unbound: How many of these ended without one.
        guaranteed: Its ``guaranteed``, by resource type.
        max: Its ``max``, by resource type.
        config: Its last known settings, or None.
        gone: Whether it no longer exists.
    """

    def __init__(self, timeline: Timeline, path: str) -> None:
        self.path = path
        self.pending = Series(timeline)
        self.waiting = Series(timeline)
        self.running = Series(timeline)
        self.used: dict[str, Series] = {}
        self.priority = LevelRanges(timeline)
        self.jobs = 0
        self.waits = Histogram()
        self.unbound = 0
        self.guaranteed: dict[str, StepLine] = {}
        self.max: dict[str, StepLine] = {}
        self.config: QueueConfig | None = None
        self.gone = False
        self._timeline = timeline

    @property
    def is_fenced(self) -> bool:
        """Whether its ``currentPriority`` is its offset, because of a priority fence."""
        return self.config is not None and self.config.settings.fence and not self.gone

    def use(self, amounts: Mapping[str, int], times: int, at_us: int) -> None:
        """Add amounts to the usage, or subtract them if ``times`` is -1."""
        for kind, amount in amounts.items():
            series = self.used.get(kind)
            if series is None:
                series = self.used[kind] = Series(self._timeline)
            series.change(amount * times, at_us)

    def configure(self, config: QueueConfig | None, at_us: int) -> None:
        """Record its settings; None if it no longer exists."""
        self.gone = config is None
        if config is None:
            self.priority.set(None, at_us)
        if config is None or config is self.config:
            return
        self.config = config
        width_us = self._timeline.width_us
        _set_lines(self.guaranteed, config.guaranteed, at_us, width_us)
        _set_lines(self.max, dict(config.max.amounts), at_us, width_us)

    def close(self, at_us: int) -> None:
        """Advance all series to an instant, in microseconds."""
        for series in (self.pending, self.waiting, self.running, *self.used.values()):
            series.close(at_us)
        self.priority.close(at_us)


def _set_lines(
    lines: dict[str, StepLine], amounts: Mapping[str, int], at_us: int, width_us: int
) -> None:
    for kind in {**lines, **amounts}:
        lines.setdefault(kind, StepLine()).set(amounts.get(kind), at_us, width_us)


@final
class QueueRecords:
    """The queues of a replay.

    Args:
        timeline: The timeline of the report.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._records: dict[str, QueueRecord] = {}
        #: The records of a queue and its parents, from the root; cleared when there are too many.
        self._chains: dict[str, tuple[QueueRecord, ...]] = {}

    def __iter__(self) -> Iterator[QueueRecord]:
        """Iterate over all records, in tree order; :data:`OTHER_QUEUES` comes last."""
        return iter(sorted(self._records.values(), key=_tree_order))

    def get(self, path: str) -> QueueRecord | None:
        """Return the record of a queue, or None if it has none of its own."""
        return self._records.get(path)

    def knows(self, path: str) -> bool:
        """Return whether a queue has a record, or cannot get one because there are too many."""
        return path in self._records or len(self._records) >= MOST_QUEUES

    def chain(self, path: str) -> Sequence[QueueRecord]:
        """Return the records of a queue and of its parents, from the root."""
        chain = self._chains.get(path)
        if chain is None:
            if len(self._chains) > 100 * MOST_QUEUES:
                self._chains.clear()
            names = path.split(".")
            found = [self._follow(".".join(names[: depth + 1])) for depth in range(len(names))]
            chain = self._chains[path] = tuple(dict.fromkeys(found))
        return chain

    def _follow(self, path: str) -> QueueRecord:
        if path not in self._records and len(self._records) >= MOST_QUEUES:
            path = OTHER_QUEUES
        record = self._records.get(path)
        if record is None:
            record = self._records[path] = QueueRecord(self._timeline, path)
        return record

    def configure(self, configs: Mapping[str, QueueConfig], at_us: int) -> None:
        """Record the settings of all existing queues."""
        for path in configs:
            self.chain(path)
        for path, record in self._records.items():
            record.configure(configs.get(path), at_us)

    def close(self, at_us: int) -> None:
        """Advance all series to an instant, in microseconds."""
        for record in self._records.values():
            record.close(at_us)


def _tree_order(record: QueueRecord) -> tuple[bool, list[str]]:
    return record.path == OTHER_QUEUES, record.path.split(".")


MOST_USERS: Final = 1_000
"""How many users have a record of their own; all others share one."""

OTHER_USERS: Final = "all others"
"""The name of the record of all users beyond the first ones."""


@final
@attrs.define(eq=False)
class UserRecord:
    """A user.

    Attributes:
        account: What the user holds and has used.
        asks: How many asks were bound at least once.
        wait_us: How long these have waited together until their first bind, in microseconds.
        longest_us: The longest of these waits.
    """

    account: UsageAccount = attrs.field(factory=UsageAccount)
    asks: int = 0
    wait_us: int = 0
    longest_us: int = 0

    def bound(self, wait_us: int) -> None:
        """Record the first bind of an ask."""
        self.asks += 1
        self.wait_us += wait_us
        self.longest_us = max(self.longest_us, wait_us)

    @property
    def mean_us(self) -> float | None:
        """The mean wait, in microseconds; None if no ask was bound."""
        return self.wait_us / self.asks if self.asks else None


# LISTS-24
@final
class UserRecords:
    """The records of users.

    Attributes:
        records: The records, by user, in the order in which they came; the user "" is none.
    """

    def __init__(self) -> None:
        self.records: dict[str, UserRecord] = {}

    def of(self, user: str | None) -> UserRecord:
        """Return the record of a user."""
        name = user or ""
        if name not in self.records and len(self.records) >= MOST_USERS:
            name = OTHER_USERS
        record = self.records.get(name)
        if record is None:
            record = self.records[name] = UserRecord()
        return record

    def counted(self, users: Iterable[str | None]) -> Mapping[str, int]:
        """Return how often each user is named; users without a record count for the others."""
        counts: Counter[str] = Counter()
        for user, number in Counter(user or "" for user in users).items():
            is_known = user in self.records or len(self.records) < MOST_USERS
            counts[user if is_known else OTHER_USERS] += number
        return counts
