"""Draw values over time as SVG paths that share one time axis.

A drawing is :data:`WIDE` units wide, whatever its size on the screen. The browser stretches the
drawing, but not its lines and labels. So it fits a phone without a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeVar, final

import attrs

T = TypeVar("T")

WIDE: Final = 10_000
"""The width of a drawing, in its own units."""

HIGH: Final = 1_000
"""The height of a chart, in its own units."""


class Levels(Protocol):
    """A value over time, in buckets."""

    @property
    def areas(self) -> Sequence[int]:
        """In each bucket the sum of value times microseconds."""
        ...

    @property
    def peaks(self) -> Sequence[int]:
        """In each bucket the highest value."""
        ...


@final
@attrs.frozen
class Frame:
    """The time that a drawing shows.

    Attributes:
        begin_us: Its first instant, in microseconds since the start of the feed; or since 1970
            in UTC if its labels are dates.
        end_us: Its last instant, likewise.
        width_us: The length of a bucket, in microseconds.
        has_dates: Whether labels of its axis are the time of day and dates in UTC.
        origin_us: The date of the start of the feed, in microseconds since 1970 in UTC: labels of
            its axis are then whole dates; None for labels as the others say.
    """

    begin_us: int
    end_us: int
    width_us: int
    has_dates: bool = False
    origin_us: int | None = None

    @property
    def span_us(self) -> int:
        """The length of the time, in microseconds; at least 1."""
        return max(self.end_us - self.begin_us, 1)

    @property
    def buckets(self) -> int:
        """How many buckets there are; the last one may be shorter."""
        return -(-self.span_us // self.width_us)

    def x(self, at_us: int) -> float:
        """Return the horizontal place of an instant."""
        inside = min(max(at_us, self.begin_us), self.end_us)
        return round((inside - self.begin_us) / self.span_us * WIDE, 2)

    def edge(self, number: int) -> float:
        """Return the horizontal place at which a bucket begins."""
        return self.x(self.begin_us + number * self.width_us)

    def means(self, series: Levels | None) -> list[float]:
        """Return the mean of a series in each bucket."""
        areas: Sequence[int] = () if series is None else series.areas
        found = [0.0] * self.buckets
        for number, area in enumerate(areas[: self.buckets]):
            end_us = min((number + 1) * self.width_us, self.span_us)
            found[number] = area / (end_us - number * self.width_us)
        return found

    def peaks(self, series: Levels) -> list[float]:
        """Return the highest value of a series in each bucket."""
        found: list[float] = [0.0] * self.buckets
        found[: len(series.peaks)] = series.peaks[: self.buckets]
        return found

    def spans(self, spans: Sequence[T | None]) -> list[T | None]:
        """Return one span for each bucket; None if there is none."""
        return [*spans[: self.buckets], *[None] * (self.buckets - len(spans))]


def _y(value: float, low: float, high: float) -> int:
    return round((1 - (value - low) / ((high - low) or 1)) * HIGH)


def _runs(values: Sequence[object]) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each run of equal values."""
    begin = 0
    for _, run in groupby(values):
        end = begin + sum(1 for _ in run)
        yield begin, end
        begin = end


def step_line(frame: Frame, values: Sequence[float | None], low: float, high: float) -> str:
    """Return the path of a stepped line, with gaps where there is no value."""
    heights = [None if value is None else _y(value, low, high) for value in values]
    parts: list[str] = []
    broken = True
    for begin, end in _runs(heights):
        height = heights[begin]
        if height is None:
            broken = True
            continue
        parts.append(f"M{frame.edge(begin):g} {height}" if broken else f"V{height}")
        parts.append(f"H{frame.edge(end):g}")
        broken = False
    return "".join(parts)


def step_area(
    frame: Frame, lower: Sequence[float], upper: Sequence[float], low: float, high: float
) -> str:
    """Return the path of the area between two stepped lines, with gaps where they are equal."""
    pairs = [(_y(a, low, high), _y(b, low, high)) for a, b in zip(lower, upper, strict=True)]
    parts: list[str] = []
    for filled, numbers in groupby(
        range(len(pairs)), lambda number: pairs[number][0] != pairs[number][1]
    ):
        if filled:
            stretch = list(numbers)
            parts.append(_patch(frame, pairs, stretch[0], stretch[-1] + 1))
    return "".join(parts)


def _patch(frame: Frame, pairs: Sequence[tuple[int, int]], begin: int, end: int) -> str:
    top = [pair[1] for pair in pairs[begin:end]]
    bottom = [pair[0] for pair in pairs[begin:end]]
    parts = [f"M{frame.edge(begin):g} {bottom[0]}"]
    for first, last in _runs(top):
        parts.append(f"V{top[first]}H{frame.edge(begin + last):g}")
    for first, last in reversed(list(_runs(bottom))):
        parts.append(f"V{bottom[last - 1]}H{frame.edge(begin + first):g}")
    return "".join([*parts, "z"])


def limit_line(
    frame: Frame, steps: Sequence[tuple[int, int | None]], low: float, high: float, scale: float
) -> str:
    """Return the path of a configured limit, with gaps where it is absent or above the chart."""
    parts: list[str] = []
    for number, (at_us, value) in enumerate(steps):
        end_us = steps[number + 1][0] if number + 1 < len(steps) else frame.end_us
        if value is None or value / scale > high or end_us <= frame.begin_us:
            continue
        begin = frame.x(at_us)
        parts.append(f"M{begin:g} {_y(value / scale, low, high)}H{frame.x(end_us):g}")
    return "".join(parts)
