"""Charts over time: areas on top of one another, step lines and bars as SVG, with axes and legends.

A drawing is :data:`WIDE` units wide, whatever its size on the screen. The browser stretches the
drawing, but not its lines and labels. So it fits a phone without a script. The drawing, its legend,
its table, and the data for a script that draws it anew come from one place: so they agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Protocol, TypeAlias, TypeVar, final

import attrs

from muster.figures.text import (
    DAY,
    MINUTE,
    NOTHING,
    SECOND,
    Unit,
    date_text,
    date_ticks,
    instant,
    level_ticks,
    minus,
    number,
    safe,
    time_ticks,
    whole_date,
    whole_date_ticks,
)

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
    """The span of time of a drawing.

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
        for index, area in enumerate(areas[: self.buckets]):
            end_us = min((index + 1) * self.width_us, self.span_us)
            found[index] = area / (end_us - index * self.width_us)
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
    for index, (at_us, value) in enumerate(steps):
        end_us = steps[index + 1][0] if index + 1 < len(steps) else frame.end_us
        if value is None or value / scale > high or end_us <= frame.begin_us:
            continue
        begin = frame.x(at_us)
        parts.append(f"M{begin:g} {_y(value / scale, low, high)}H{frame.x(end_us):g}")
    return "".join(parts)


MOST_TICKS: Final = 12
"""The most ticks of a time axis, if there is room for them."""

SHORT_LABEL: Final = 6
"""The longest label, in characters, of a time axis with room for many labels."""

LABEL: Final = 0.2
"""The height of an axis label, as a share of the height of a small chart."""

Json: TypeAlias = "str | int | float | Sequence[Json] | dict[str, Json] | None"


@final
@attrs.frozen
class Stroke:
    """One path of a chart.

    Attributes:
        path: The SVG path data.
        style: Its CSS classes.
    """

    path: str
    style: str


@final
@attrs.frozen
class PointerRow:
    """A row of values that the page shows for the instant under the pointer.

    Attributes:
        name: The name of the row.
        style: The CSS class of its colour, or empty.
        values: The value in each bucket, as text or a number.
    """

    name: str
    style: str
    values: Sequence[float | str | None]


@final
@attrs.define
class ChartData:
    """The data of the page's script: the values of each chart.

    Attributes:
        charts: The unit and the rows of each chart.
    """

    charts: list[Json] = attrs.field(factory=list[Json])

    def add(self, unit: str, tooltips: Sequence[PointerRow]) -> int:
        """Add a chart; return its number."""
        rows: list[Json] = [
            {"n": row.name, "c": row.style, "v": _encoded_runs(row.values)} for row in tooltips
        ]
        self.charts.append({"u": unit, "r": rows})
        return len(self.charts) - 1


def _encoded_runs(values: Sequence[float | str | None]) -> list[Json]:
    """Return runs of equal values: each value, followed by its number of buckets."""
    runs: list[Json] = []
    before: object = runs  # unlike any value
    for value in values:
        plain = plain_value(value)
        if plain == before:
            count = runs[-1]
            assert isinstance(count, int)
            runs[-1] = count + 1
        else:
            runs += [plain, 1]
            before = plain
    return runs


def plain_value(value: float | str | None) -> float | str | None:
    """Return a value with four digits at most."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) else short


@final
@attrs.frozen(kw_only=True)
class Chart:
    """A chart over time.

    Attributes:
        frame: The time that it shows.
        label: Its description for screen readers.
        strokes: Its paths, from back to front.
        low: The value at the bottom.
        high: The value at the top.
        top: The highest value drawn, which gets a label; None for labels at round values only.
        unit: The unit of the values.
        tooltips: The values that the page shows for the instant under the pointer.
        style: Additional CSS classes.
    """

    frame: Frame
    label: str
    strokes: Sequence[Stroke]
    high: float
    low: float = 0.0
    top: float | None = None
    unit: str = ""
    tooltips: Sequence[PointerRow] = ()
    style: str = ""

    def html(self, data: ChartData) -> str:
        """Return the chart as HTML, and add its values to ``data``."""
        ticks = self._ticks()
        rows = "".join(
            f'<span style="top:{self._from_top(tick):.2f}%">{minus(number(tick))}</span>'
            for tick in ticks
        )
        return (
            f'<div class="chart {self.style}" data-chart="{data.add(self.unit, self.tooltips)}">'
            f'<div class="ys">{rows}</div><div class="plot">{self._drawing(ticks)}</div>'
            f"{time_axis(self.frame)}</div>"
        )

    def still(self) -> str:
        """Return the chart as HTML without attributes of style, for a page that forbids them."""
        ticks = self._ticks()
        levels = "".join(
            f'<text x="100%" y="{self._from_top(tick):.2f}%">{minus(number(tick))}</text>'
            for tick in ticks
        )
        times = "".join(
            f'<text{style} x="{place:.2f}%" y="14">{label}</text>'
            for style, place, label in _marks(self.frame)
        )
        return (
            f'<div class="chart still {self.style}">'
            f'<svg class="ys" aria-hidden="true">{levels}</svg>'
            f'<div class="plot">{self._drawing(ticks)}</div>'
            f'<svg class="xs" aria-hidden="true">{times}</svg></div>'
        )

    def _drawing(self, ticks: Sequence[float]) -> str:
        grid = "".join(f"M0 {self._from_top(tick) * HIGH / 100:.0f}H{WIDE}" for tick in ticks)
        paths = "".join(
            f'<path class="{stroke.style}" d="{stroke.path}"/>'
            for stroke in self.strokes
            if stroke.path
        )
        return (
            f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img" '
            f'aria-label="{safe(self.label)}"><path class="grid" d="{grid}"/>{paths}</svg>'
        )

    def _ticks(self) -> list[float]:
        most = 2 if "mini" in self.style else 4
        ticks = level_ticks(self.low, self.high, most, whole=not self.unit)
        if self.top is None:
            return ticks
        room = (self.high - self.low) * LABEL
        return [*(tick for tick in ticks if self.top - tick >= room), self.top]

    def _from_top(self, value: float) -> float:
        return (1 - (value - self.low) / ((self.high - self.low) or 1)) * 100


def time_axis(frame: Frame) -> str:
    """Return the labels of a time axis as HTML; without enough room, finer ones are hidden."""
    marks = list(_marks(frame))
    long = " long" if any(len(label) > SHORT_LABEL for _, _, label in marks) else ""
    if frame.origin_us is not None:
        long = " dates"
    written = "".join(
        f'<span{fine} style="left:{place:.2f}%">{label}</span>' for fine, place, label in marks
    )
    return f'<div class="xs{long}">{written}</div>'


def _marks(frame: Frame) -> Iterator[tuple[str, float, str]]:
    """Yield the marks of a time axis: how fine they are, where they are in percent, their text."""
    for index, (at_us, label) in enumerate(_ticks(frame)):
        fine = "" if index % 4 == 0 else ' class="t2"' if index % 2 == 0 else ' class="t1"'
        yield fine, frame.x(at_us) * 100 / WIDE, label


def _ticks(frame: Frame) -> Iterator[tuple[int, str]]:
    """Return the ticks of a time axis with their labels."""
    begin_us, end_us = frame.begin_us, frame.end_us
    if frame.origin_us is not None:
        return whole_date_ticks(begin_us, end_us, MOST_TICKS, frame.origin_us)
    return (date_ticks if frame.has_dates else time_ticks)(begin_us, end_us, MOST_TICKS)


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return a legend of CSS classes and texts as HTML; the texts are escaped."""
    keys = "".join(
        f'<span class="key"><i class="{style}"></i>{safe(text)}</span>' for style, text in entries
    )
    return f'<div class="legend">{keys}</div>'


COUNT: Final = Unit(1, "")
"""The unit of plain counts."""

HEADROOM: Final = 1.06
"""How much higher than its highest value a drawing is."""

MOST_ROWS: Final = 12
"""How many rows a table has at most."""


@final
@attrs.frozen
class PlotRow:
    """A value over time.

    Attributes:
        name: Its name.
        style: The CSS class of its colour.
        values: The value in each bucket, in base units; None if it is not known.
        key: Its name in the legend, if that differs.
    """

    name: str
    style: str
    values: Sequence[float | None]
    key: str = ""


# PAGE-17, PAGE-18
@final
@attrs.frozen(kw_only=True)
class Plot:
    """Values over time.

    Attributes:
        frame: The time that it shows.
        label: Its description for screen readers.
        areas: The rows to draw as areas, from the bottom to the top.
        lines: The rows to draw as lines, above the areas.
        highest: The highest value; None to find it.
        total: The sum of all areas, if tooltips show it.
        unit: The unit in which values are shown.
    """

    frame: Frame
    label: str
    areas: Sequence[PlotRow] = ()
    lines: Sequence[PlotRow] = ()
    highest: float | None = None
    total: Sequence[float] | None = None
    unit: Unit = COUNT

    @property
    def high(self) -> float:
        """The value at the top, in base units."""
        highest = self.highest
        if highest is None:
            sums = list(self._stacked())[-1:]
            values = [value or 0 for row in self.lines for value in row.values]
            highest = max([*values, *(sums[0][2] if sums else ()), 1])
        return highest * HEADROOM

    def _stacked(self) -> Iterator[tuple[PlotRow, list[float], list[float]]]:
        """Yield the areas with their lower and upper edges."""
        floor = [0.0] * self.frame.buckets
        for row in self.areas:
            values = (value or 0 for value in row.values)
            ceiling = [low + value for low, value in zip(floor, values, strict=True)]
            yield row, floor, ceiling
            floor = ceiling

    def keys(self) -> list[tuple[str, str]]:
        """Return the entries of the legend: CSS classes and texts."""
        lines = [(f"line {row.style.split()[0]}", row.key or row.name) for row in self.lines]
        return [*lines, *((f"area {row.style}", row.key or row.name) for row in self.areas)]

    def legend(self) -> str:
        """Return the legend as HTML."""
        return legend(self.keys())

    def chart(self) -> Chart:
        """Return the drawing."""
        frame, high = self.frame, self.high
        strokes = [
            Stroke(step_area(frame, floor, ceiling, 0, high), f"area {row.style}")
            for row, floor, ceiling in self._stacked()
        ]
        strokes += [
            Stroke(step_line(frame, row.values, 0, high), f"line {row.style}") for row in self.lines
        ]
        scaled = [PointerRow(row.name, row.style, self._scaled(row.values)) for row in self.areas]
        if self.total is not None:
            scaled.append(PointerRow("together", "", self._scaled(self.total)))
        lines = [PointerRow(row.name, row.style, self._scaled(row.values)) for row in self.lines]
        return Chart(
            frame=frame,
            label=self.label,
            strokes=strokes,
            high=high / self.unit.scale,
            unit=self.unit.name,
            tooltips=[*lines, *reversed(scaled)],
        )

    def _scaled(self, values: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else value / self.unit.scale for value in values]

    def data(self) -> dict[str, Json]:
        """Return the data for a script that draws it anew; instants are in seconds."""
        frame = self.frame

        def rows(some: Sequence[PlotRow]) -> list[Json]:
            return [
                {
                    "name": row.name,
                    "style": row.style,
                    "values": [plain_value(value) for value in self._scaled(row.values)],
                }
                for row in some
            ]

        return {
            "begin": frame.begin_us / SECOND,
            "end": frame.end_us / SECOND,
            "step": frame.width_us / SECOND,
            "unit": self.unit.name,
            "high": self.high / self.unit.scale,
            "areas": rows(self.areas),
            "lines": rows(self.lines),
        }

    def table(self) -> tuple[Sequence[str], Sequence[tuple[str, Sequence[str]]]]:
        """Return it as a table: the names of the columns, and some rows with their instants."""
        frame, rows = self.frame, [*self.lines, *self.areas]
        step = -(-frame.buckets // MOST_ROWS)
        found: list[tuple[str, Sequence[str]]] = []
        for bucket in reversed(range(frame.buckets - 1, -1, -step)):
            values = [row.values[bucket] for row in rows]
            if any(value is not None for value in values):
                cells = [NOTHING if value is None else self.unit.text(value) for value in values]
                found.append((self._instant(bucket), cells))
        return [row.name for row in rows], found

    def _instant(self, bucket: int) -> str:
        """Return the end of a bucket as text."""
        frame = self.frame
        at_us = min(frame.begin_us + (bucket + 1) * frame.width_us, frame.end_us)
        if frame.origin_us is not None:
            return whole_date(frame.origin_us + at_us, frame.width_us)
        if not frame.has_dates:
            return instant(at_us, frame.width_us)
        return f"{date_text(at_us // DAY * DAY, DAY)}, {date_text(at_us + 1, MINUTE)}"
