"""Series: what was used, what waited and how long, minute by minute and hour by hour.

Every figure is a counter that changes with what is heard, so a sample costs the same whatever there
is. Both series have a fixed length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple, final

from muster_core.decisions import MICROSECONDS
from muster_core.values.quantities import MEMORY, VCORE

if TYPE_CHECKING:
    from muster_core.resources import Resources

MINUTE_US: Final = 60 * MICROSECONDS
HOUR_US: Final = 60 * MINUTE_US

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
        end_us = hour * HOUR_US
        latest = reversed(self.minutes)
        some = [*takewhile(lambda sample: sample.at_us > end_us - HOUR_US, latest)]
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
