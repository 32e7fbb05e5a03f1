"""Usage: what each user holds and has used, and series of the whole by minute and hour.

Every figure is a counter that changes with each batch, so a sample costs the same whatever there
is. All series have a fixed length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, NamedTuple, final

import attrs

from muster.figures.usage import (
    DAY_US,
    HOUR_US,
    KEPT_DAYS_US,
    KEPT_HOURS_US,
    NOTHING,
    UsageAccount,
    UsageTotals,
    begin_of,
    total,
)
from muster_core.decisions import MICROSECONDS
from muster_core.values.resources import MEMORY, VCORE

if TYPE_CHECKING:
    from muster.service.ledger.records import AppEntry
    from muster_core.resources import Resources


MOST: Final = 1_000
"""How many accounts are kept, if not more users have asks."""

NAMED: Final = 100
"""How many users have a label of their own in the metrics: the first ones."""


# LISTS-21
@final
class UserAccounts:
    """The account of each user.

    Attributes:
        users: The accounts, by user, in the order in which they came; the user "" is none.
        gone: What those have used whose accounts are not kept any more.
        known_us: Since when it is known what was used, in microseconds since the origin.
        changed_us: The instant of the last batch.
    """

    def __init__(self) -> None:
        self.users: dict[str, UsageAccount] = {}
        self.gone: UsageTotals = NOTHING
        self.known_us = 0
        self.changed_us = 0

    def of(self, user: str | None) -> UsageAccount:
        """Return the account of a user, which is made if there is none."""
        name = user or ""
        account = self.users.get(name)
        if account is None:
            if len(self.users) >= MOST:
                self._make_room()
            account = self.users[name] = UsageAccount()
        return account

    def _make_room(self) -> None:
        """Give up the account of the first user without a label who has no application."""
        for name, account in islice(self.users.items(), NAMED, NAMED + MOST):
            if not account.apps:
                self.gone = total([self.gone, account.used(self.changed_us)])
                del self.users[name]
                return

    def pass_until(self, at_us: int, apps: Iterable[AppEntry]) -> None:
        """Mark the hours that have ended, before anything changes.

        Args:
            at_us: The instant of the next batch, in microseconds since the origin.
            apps: All applications that have not completed.
        """
        before_us = self.changed_us
        self.changed_us = at_us
        if at_us // HOUR_US == before_us // HOUR_US:
            return
        self.note_held(apps)
        ends_us = list(_ends(before_us, at_us))
        for account in self.users.values():
            for end_us in ends_us:
                account.mark(end_us)

    def note_held(self, apps: Iterable[AppEntry]) -> None:
        """Note what every user holds, which is what the applications hold; before it is read.

        Args:
            apps: All applications that have not completed.
        """
        for account in self.users.values():
            account.held = {}
        for app in apps:
            held = app.account.held
            for kind, amount in app.used.items():
                held[kind] = held.get(kind, 0) + amount

    def since(self, since_us: int, now_us: int) -> tuple[int, dict[str, UsageTotals]]:
        """Return what every user has used.

        Args:
            since_us: From when on, in microseconds since the origin.
            now_us: Until when.

        Returns:
            From when on it really is, and what was used, by user.
        """
        now_us = max(now_us, self.changed_us)
        begin_us = min(begin_of(since_us, now_us, self.known_us), now_us)
        return begin_us, {
            name: account.used_since(begin_us, now_us, self.changed_us)
            for name, account in self.users.items()
        }

    # LISTS-23
    def labelled(self, now_us: int) -> Iterator[tuple[str | None, Mapping[str, int], UsageTotals]]:
        """Yield what the first users hold and have used so far, and of all others together.

        Args:
            now_us: The present instant, in microseconds since the origin.

        Yields:
            Each user, and None for all others.
        """
        now_us = max(now_us, self.changed_us)
        users = iter(self.users.items())
        for name, account in islice(users, NAMED):
            yield name, dict(account.held), account.used(now_us)
        others = [one for _, one in users]
        held: Counter[str] = Counter()
        for one in others:
            held.update(one.held)
        yield None, held, total([self.gone, *(one.used(now_us) for one in others)])


def _ends(before_us: int, at_us: int) -> Iterator[int]:
    """Yield the ends of hours that have passed; of what is long ago, only those of days."""
    day_us = before_us // DAY_US * DAY_US
    kept_us = at_us // DAY_US * DAY_US
    first_us = max(day_us + DAY_US, kept_us - KEPT_DAYS_US)
    last_us = kept_us - KEPT_HOURS_US
    for end_us in range(first_us, last_us + 1, DAY_US):
        yield end_us
    for end_us in range(max(before_us // HOUR_US * HOUR_US, last_us) + HOUR_US, at_us + 1, HOUR_US):
        yield end_us


MINUTE_US: Final = 60 * MICROSECONDS
HOURLY_US: Final = 60 * MINUTE_US

KEPT_MINUTES: Final = 1_440
"""How many samples of a minute are kept: those of a day."""

KEPT_HOURS: Final = 24 * 90
"""How many samples of an hour are kept: those of 90 days."""

MOST_KINDS: Final = 16
"""Of how many resource types samples are kept."""

WAITS_US: Final = tuple(
    seconds * MICROSECONDS
    for seconds in (
        *(1, 2, 5, 10, 30),
        *(60, 120, 300, 600, 1_800),
        *(3_600, 7_200, 21_600, 43_200, 86_400),
    )
)
"""Up to how long an ask of each class of waits has waited; there is one more class, above all."""

Amounts = Mapping[str, int]
Waits = Mapping[int, int]
"""How many asks were bound, by the class of their wait: its place in ``WAITS_US``."""


@final
class Sample(NamedTuple):
    """What there was at the end of a minute, or on average in an hour.

    Attributes:
        at_us: The end of the minute or hour, in microseconds since the origin.
        used: What asks held, by resource type in base units.
        capacity: What the nodes had, likewise.
        pending: How many asks held no node.
        waiting: How many asks held a node and were not bound.
        running: How many asks were bound.
        waits: How long the asks have waited that were bound in this minute or hour.
    """

    at_us: int
    used: Amounts
    capacity: Amounts
    pending: int
    waiting: int
    running: int
    waits: Waits


# PAGE-16
@final
class Series:
    """The samples, and what there is now.

    Attributes:
        used: What asks hold, by resource type in base units; no zeros.
        capacity: What the nodes have, likewise.
        asks: How many asks there are.
        held: How many of them hold a node.
        bound: How many of these are bound.
        waits: How long the asks have waited that were bound since the last sample.
        minutes: The samples of minutes, oldest first.
        hours: The samples of hours, oldest first.
    """

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.capacity: dict[str, int] = {}
        self.asks = 0
        self.held = 0
        self.bound = 0
        self.waits: dict[int, int] = {}
        self.minutes: deque[Sample] = deque(maxlen=KEPT_MINUTES)
        self.hours: deque[Sample] = deque(maxlen=KEPT_HOURS)

    # What changes

    def note_wait(self, waited_us: int) -> None:
        """Note that an ask was bound.

        Args:
            waited_us: How long it has waited, in microseconds.
        """
        place = bisect_left(WAITS_US, waited_us)
        self.waits[place] = self.waits.get(place, 0) + 1

    def change_capacity(self, before: Resources | None, after: Resources | None) -> None:
        """Note that a node has another capacity; None if there is no such node."""
        capacity = self.capacity
        if before is not None:
            for kind, amount in before.amounts.items():
                capacity[kind] = capacity.get(kind, 0) - amount
        if after is not None:
            for kind, amount in after.amounts.items():
                capacity[kind] = capacity.get(kind, 0) + amount
        if before is not None:
            self.capacity = {kind: amount for kind, amount in capacity.items() if amount}

    # Samples

    def now(self, at_us: int) -> Sample:
        """Return a sample of now.

        Args:
            at_us: The present instant, in microseconds since the origin.
        """
        used, capacity = self.used, self.capacity
        kinds = _kept_kinds(capacity, used)
        return Sample(
            at_us,
            {kind: used.get(kind, 0) for kind in kinds},
            {kind: capacity.get(kind, 0) for kind in kinds},
            self.asks - self.held,
            self.held - self.bound,
            self.bound,
            dict(self.waits),
        )

    def pass_minutes(self, before: int, now: int) -> None:
        """Add the samples of the minutes and hours that have ended.

        Args:
            before: The last minute that has a sample, counted from the origin.
            now: The last minute that has ended.
        """
        first = max(before + 1, now - KEPT_MINUTES + 1)
        hour = max(before // 60 + 1, now // 60 - KEPT_HOURS + 1)
        while hour * 60 < first:  # Their minutes are not kept, and nothing has changed in them.
            self._end_hour(hour)
            hour += 1
        for minute in range(first, now + 1):
            self._end_minute(minute)
            if minute % 60 == 0:
                self._end_hour(minute // 60)

    def _end_minute(self, minute: int) -> None:
        sample = self.now(minute * MINUTE_US)
        if self.minutes:
            # Most minutes are like the one before: they share what they have.
            last = self.minutes[-1]
            if sample.used == last.used:
                sample = sample._replace(used=last.used)
            if sample.capacity == last.capacity:
                sample = sample._replace(capacity=last.capacity)
        self.minutes.append(sample)
        self.waits = {}

    def _end_hour(self, hour: int) -> None:
        end_us = hour * HOURLY_US
        latest = reversed(self.minutes)
        some = [*takewhile(lambda sample: sample.at_us > end_us - HOURLY_US, latest)]
        self.hours.append(mean_of(some, end_us) if some else self._idle(end_us))

    def _idle(self, end_us: int) -> Sample:
        return self.now(end_us)._replace(waits={})


def _kept_kinds(capacity: Amounts, used: Amounts) -> Sequence[str]:
    kinds = sorted({*capacity, *used}, key=lambda kind: (kind != VCORE, kind != MEMORY, kind))
    return kinds[:MOST_KINDS]


def mean_of(samples: Sequence[Sample], at_us: int) -> Sample:
    """Return the mean of some samples, at least one; waits are added up.

    Args:
        samples: The samples.
        at_us: The end of their time, in microseconds since the origin.
    """
    count = len(samples)
    used, capacity = Counter[str](), Counter[str]()
    waits = Counter[int]()
    for sample in samples:
        used.update(sample.used)
        capacity.update(sample.capacity)
        waits.update(sample.waits)
    return Sample(
        at_us,
        {kind: round(amount / count) for kind, amount in used.items()},
        {kind: round(amount / count) for kind, amount in capacity.items()},
        round(sum(sample.pending for sample in samples) / count),
        round(sum(sample.waiting for sample in samples) / count),
        round(sum(sample.running for sample in samples) / count),
        dict(waits),
    )


POINT_US: Final = 60_000_000
KEPT: Final = 1_440
"""How many points are kept: those of a day."""


@final
@attrs.define
class QueueCounts:
    """What has happened in one queue."""

    allocated: int = 0
    released: int = 0
    completed: int = 0


@final
@attrs.define
class Counts:
    """What has happened.

    Attributes:
        allocated: How many asks took a node.
        released: How many asks gave their node back.
        failed_binds: How many binds failed.
        refused_asks: How many events with new asks were refused.
        new_apps: How many applications came.
        accepted_apps: How many became Accepted.
        refused_apps: How many were refused.
        completed_apps: How many became Completed.
        queues: The same of each queue, by path.
    """

    allocated: int = 0
    released: int = 0
    failed_binds: int = 0
    refused_asks: int = 0
    new_apps: int = 0
    accepted_apps: int = 0
    refused_apps: int = 0
    completed_apps: int = 0
    queues: dict[str, QueueCounts] = attrs.field(factory=dict[str, QueueCounts])

    def of(self, queue: str) -> QueueCounts:
        """Return the counts of a queue."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = QueueCounts()
        return found


@final
class UsagePoint(NamedTuple):
    """What ran at the end of a minute.

    Attributes:
        at_us: The end of the minute, in microseconds since the origin.
        apps: How many applications were Starting or Running.
        containers: How many asks held a node.
    """

    at_us: int
    apps: int
    containers: int


@final
class UsageHistory:
    """The latest points, and what runs now.

    Attributes:
        apps: How many applications are Starting or Running.
        minute: The minutes since the origin that have a point.
        points: The points, oldest first.
        series: What was used, what waited, and how long.
    """

    def __init__(self) -> None:
        self.apps = 0
        self.minute: int | None = None
        self.points: deque[UsagePoint] = deque(maxlen=KEPT)
        self.series = Series()

    @property
    def containers(self) -> int:
        """How many asks hold a node."""
        return self.series.held

    def pass_until(self, now_us: int) -> None:
        """Add the points of the minutes that have ended, before anything changes."""
        minute = now_us // POINT_US
        if self.minute is None:
            self.minute = minute
        if minute > self.minute:
            first = max(self.minute + 1, minute - KEPT + 1)
            for number in range(first, minute + 1):
                self.points.append(UsagePoint(number * POINT_US, self.apps, self.containers))
            self.series.pass_minutes(self.minute, minute)
            self.minute = minute
