"""Values over time, in memory that does not grow: buckets that merge when there are too many.

All series of a report share one :class:`Timeline`, so that a bucket is the same span of time in
each of them. A bucket holds the integral of a value over its span: two neighbours merge by adding,
which loses no sum.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final, Protocol, final

import attrs

MOST_BUCKETS: Final = 640
"""How many buckets there are at the most; at the end there are more than half as many."""


class Bucketed(Protocol):
    """What is kept in buckets."""

    def merge(self) -> None:
        """Make one bucket of every two."""


@final
class Timeline:
    """The buckets that all series share.

    Args:
        most: How many there may be.

    Attributes:
        origin_us: Where the first one begins, in microseconds; None until :meth:`begin`.
        width_us: How long each of them is, in microseconds.
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self.origin_us: int | None = None
        self.width_us = 1
        self._most = most
        #: In the order in which they came; a dictionary, to be left without a search.
        self._kept: dict[int, Bucketed] = {}

    def keep(self, series: Bucketed) -> None:
        """Have something follow when buckets merge."""
        self._kept[id(series)] = series

    def leave(self, series: Bucketed) -> None:
        """Have something that was kept follow no longer."""
        del self._kept[id(series)]

    def begin(self, at_us: int) -> None:
        """Let the first bucket begin, unless it has."""
        if self.origin_us is None:
            self.origin_us = at_us

    def reach(self, at_us: int) -> None:
        """Make room up to an instant."""
        if self.origin_us is None:
            return
        while at_us - self.origin_us >= self.width_us * self._most:
            self.halve()

    def halve(self) -> None:
        """Make one bucket of every two."""
        self.width_us *= 2
        for series in self._kept.values():
            series.merge()


@final
class Series:
    """An amount that changes in steps: its integral and its peak in each bucket.

    Attributes:
        value: What it is now.
        areas: The integral in each bucket, in the amount's unit times microseconds; zeros at the
            end are left out.
        peaks: The highest value that lasted in each bucket.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.value = 0
        self.areas: list[int] = []
        self.peaks: list[int] = []
        self._timeline = timeline
        self._since_us = 0
        timeline.keep(self)

    def set(self, value: int, at_us: int) -> None:
        """Have another value from an instant on, which the timeline has reached."""
        self.close(at_us)
        self.value = value

    def change(self, by: int, at_us: int) -> None:
        """Add to the value from an instant on."""
        self.close(at_us)
        self.value += by

    def close(self, at_us: int) -> None:
        """Take note that the value lasted until an instant."""
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
        """Add another series, which is at an end then; the sum of peaks is a bound of the peak."""
        self.close(at_us)
        other.close(at_us)
        self._timeline.leave(other)
        self.value += other.value
        self.areas = _sums(self.areas, other.areas)
        self.peaks = _sums(self.peaks, other.peaks)

    def merge(self) -> None:
        """Make one bucket of every two."""
        count = len(self.areas)
        self.areas = [sum(self.areas[number : number + 2]) for number in range(0, count, 2)]
        self.peaks = [max(self.peaks[number : number + 2]) for number in range(0, count, 2)]


def _sums(first: list[int], second: list[int]) -> list[int]:
    return [sum(pair) for pair in zip_longest(first, second, fillvalue=0)]


@final
@attrs.frozen
class Span:
    """What a value was in a bucket in which it was anything.

    Attributes:
        low: The lowest.
        high: The highest.
        last: The last.
    """

    low: int
    high: int
    last: int


@final
class Levels:
    """A value without a sum, such as a priority, that may be nothing: its range in each bucket.

    Attributes:
        value: What it is now, or None.
        spans: What it was in each bucket; None where it was nothing.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.value: int | None = None
        self.spans: list[Span | None] = []
        self._timeline = timeline
        self._since_us = 0
        timeline.keep(self)

    def set(self, value: int | None, at_us: int) -> None:
        """Have another value from an instant on, which the timeline has reached."""
        self.close(at_us)
        self.value = value

    def close(self, at_us: int) -> None:
        """Take note that the value lasted until an instant."""
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
        """Make one bucket of every two."""
        spans = [*self.spans, None]
        self.spans = [joined(*spans[number : number + 2]) for number in range(0, len(spans) - 1, 2)]


def joined(first: Span | None, second: Span | None) -> Span | None:
    """Give what a value was in two spans of time, the first before the second."""
    if first is None or second is None:
        return second if first is None else first
    low, high = min(first.low, second.low), max(first.high, second.high)
    return Span(low, high, second.last)
