"""Values over time and waits in bounded memory: buckets that merge when there are too many.

All series of a report share one :class:`Timeline`, so a bucket is the same span of time in each of
them. A bucket holds the integral of a value over its span. To merge two neighbours, their
integrals are added, so sums stay exact. Waits are in a histogram with a logarithmic axis; the
longest ones are kept.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final, Protocol, final

import attrs

from muster.replay import Key, LiveAsk

MOST_BUCKETS: Final = 640
"""The most buckets of a timeline."""


class Bucketed(Protocol):
    """An object that keeps values in buckets."""

    def merge(self) -> None:
        """Merge buckets in pairs."""


@final
class Timeline:
    """The buckets that all series share.

    Args:
        most: The most buckets.

    Attributes:
        origin_us: When the first bucket begins, in microseconds; None until :meth:`begin`.
        width_us: The length of a bucket, in microseconds.
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self.origin_us: int | None = None
        self.width_us = 1
        self._most = most
        #: The series by id, in order; a dictionary makes :meth:`leave` fast.
        self._kept: dict[int, Bucketed] = {}

    def keep(self, series: Bucketed) -> None:
        """Add a series whose buckets merge with the others."""
        self._kept[id(series)] = series

    def leave(self, series: Bucketed) -> None:
        """Remove a series."""
        del self._kept[id(series)]

    def begin(self, at_us: int) -> None:
        """Begin the first bucket at an instant, unless it has begun."""
        if self.origin_us is None:
            self.origin_us = at_us

    def reach(self, at_us: int) -> None:
        """Merge buckets until an instant fits into the last one."""
        if self.origin_us is None:
            return
        while at_us - self.origin_us >= self.width_us * self._most:
            self.halve()

    def halve(self) -> None:
        """Merge the buckets of all series in pairs."""
        self.width_us *= 2
        for series in self._kept.values():
            series.merge()


@final
class Series:
    """An amount that changes in steps: its integral and its peak in each bucket.

    Attributes:
        value: The current amount.
        areas: The integral in each bucket, in the unit of the amount times microseconds; zeros at
            the end are left out.
        peaks: The highest amount in each bucket; amounts that lasted no time do not count.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.value = 0
        self.areas: list[int] = []
        self.peaks: list[int] = []
        self._timeline = timeline
        self._since_us = 0
        timeline.keep(self)

    def set(self, value: int, at_us: int) -> None:
        """Set the amount from an instant on, which the timeline has reached."""
        self.close(at_us)
        self.value = value

    def change(self, by: int, at_us: int) -> None:
        """Add to the amount from an instant on, which the timeline has reached."""
        self.close(at_us)
        self.value += by

    def close(self, at_us: int) -> None:
        """Advance to an instant without a change of the amount."""
        since_us, self._since_us = self._since_us, at_us
        origin_us, width_us, value = self._timeline.origin_us, self._timeline.width_us, self.value
        if origin_us is None or not value:
            return
        begin, end = max(since_us - origin_us, 0), at_us - origin_us
        if end <= begin:
            return
        first, last = begin // width_us, (end - 1) // width_us
        missing = last + 1 - len(self.areas)
        if missing > 0:
            self.areas += [0] * missing
            self.peaks += [0] * missing
        for number in range(first, last + 1):
            low, high = number * width_us, (number + 1) * width_us
            self.areas[number] += value * (min(high, end) - max(low, begin))
            self.peaks[number] = max(self.peaks[number], value)

    def absorb(self, other: Series, at_us: int) -> None:
        """Add another series, which then ends; peaks are added, so they are upper bounds."""
        self.close(at_us)
        other.close(at_us)
        self._timeline.leave(other)
        self.value += other.value
        self.areas = _sums(self.areas, other.areas)
        self.peaks = _sums(self.peaks, other.peaks)

    def merge(self) -> None:
        """Merge buckets in pairs."""
        count = len(self.areas)
        self.areas = [sum(self.areas[number : number + 2]) for number in range(0, count, 2)]
        self.peaks = [max(self.peaks[number : number + 2]) for number in range(0, count, 2)]


def _sums(first: list[int], second: list[int]) -> list[int]:
    return [sum(pair) for pair in zip_longest(first, second, fillvalue=0)]


@final
@attrs.frozen
class Span:
    """The range of a value in a bucket.

    Attributes:
        low: The lowest value.
        high: The highest value.
        last: The last value.
    """

    low: int
    high: int
    last: int


@final
class LevelRanges:
    """A value that cannot be added and may be None, such as a priority: its range by bucket.

    Attributes:
        value: The current value, or None.
        spans: Its range in each bucket; None where it had no value.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.value: int | None = None
        self.spans: list[Span | None] = []
        self._timeline = timeline
        self._since_us = 0
        timeline.keep(self)

    def set(self, value: int | None, at_us: int) -> None:
        """Set the value from an instant on, which the timeline has reached."""
        self.close(at_us)
        self.value = value

    def close(self, at_us: int) -> None:
        """Advance to an instant without a change of the value."""
        since_us, self._since_us = self._since_us, at_us
        origin_us, width_us, value = self._timeline.origin_us, self._timeline.width_us, self.value
        if origin_us is None or value is None:
            return
        begin, end = max(since_us - origin_us, 0), at_us - origin_us
        if end <= begin:
            return
        first, last = begin // width_us, (end - 1) // width_us
        self.spans += [None] * (last + 1 - len(self.spans))
        now = Span(value, value, value)
        for number in range(first, last + 1):
            self.spans[number] = joined(self.spans[number], now)

    def merge(self) -> None:
        """Merge buckets in pairs."""
        spans = [*self.spans, None]
        self.spans = [joined(*spans[number : number + 2]) for number in range(0, len(spans) - 1, 2)]


def joined(first: Span | None, second: Span | None) -> Span | None:
    """Return the range of a value in two consecutive spans of time."""
    if first is None or second is None:
        return second if first is None else first
    low, high = min(first.low, second.low), max(first.high, second.high)
    return Span(low, high, second.last)


BINS_PER_DECADE: Final = 5

EDGES_US: Final = tuple(
    round(10 ** (3 + step / BINS_PER_DECADE)) for step in range(BINS_PER_DECADE * 13)
)
"""The waits at which the bins of a histogram begin, in microseconds: from 1 ms to about 300 years.
Waits below the first edge have a bin of their own: such asks did not wait."""

MOST_WAITS: Final = 25
"""How many of the longest waits are shown."""


@final
class Histogram:
    """The number of waits by length.

    Attributes:
        counts: The number of waits in each bin; the first bin is below :data:`EDGES_US`.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES_US) + 1)

    def add(self, wait_us: int) -> None:
        """Add a wait, in microseconds."""
        self.counts[bisect_right(EDGES_US, wait_us)] += 1


@final
@attrs.frozen
class Wait:
    """The wait of an ask until its first bind, or until the end if it was not bound.

    Attributes:
        key: Its application and its name.
        queue: The full path of its queue.
        gang: Its gang, or None.
        came_us: When it was added, in microseconds.
        wait_us: How long it waited, in microseconds.
        bound: Whether it was bound.
    """

    key: Key
    queue: str
    gang: str | None
    came_us: int
    wait_us: int
    bound: bool


@final
class LongestWaits:
    """The longest waits of all bound asks; of equally long ones, the first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Wait]] = []
        self._count = 0

    def add(self, ask: LiveAsk, came_us: int, wait_us: int) -> Wait | None:
        """Add a wait; return the one that is no longer among the longest, or None."""
        wait = Wait(ask.key, ask.queue, ask.gang, came_us, wait_us, bound=True)
        self._count += 1
        entry = (wait_us, -self._count, wait)
        if len(self._heap) < MOST_WAITS:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[2]

    def with_pending(self, asks: Iterable[LiveAsk], at_us: int) -> tuple[Wait, ...]:
        """Return the longest waits, unfinished ones included, the longest first."""
        bound = [(wait_us, number, wait) for wait_us, number, wait in self._heap]
        lasting = (
            (at_us - ask.came_us, -number, _lasting(ask, ask.came_us, at_us))
            for number, ask in enumerate(asks, self._count + 1)
            if ask.came_us is not None
        )
        every = [*bound, *heapq.nlargest(MOST_WAITS, lasting, key=lambda entry: entry[:2])]
        every.sort(key=lambda entry: entry[:2], reverse=True)
        return tuple(wait for _, _, wait in every[:MOST_WAITS])


def _lasting(ask: LiveAsk, came_us: int, at_us: int) -> Wait:
    return Wait(ask.key, ask.queue, ask.gang, came_us, at_us - came_us, bound=False)
