"""Charts over time: a drawing that stretches, and labels that do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, final

import attrs

from muster.figures.frame import HIGH, WIDE, Frame
from muster.figures.text import (
    date_ticks,
    level_ticks,
    minus,
    number,
    safe,
    time_ticks,
    whole_date_ticks,
)

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
class Told:
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
class Data:
    """The data of the page's script: the values of each chart.

    Attributes:
        charts: The unit and the rows of each chart.
    """

    charts: list[Json] = attrs.field(factory=list[Json])

    def add(self, unit: str, told: Sequence[Told]) -> int:
        """Add a chart; return its number."""
        rows: list[Json] = [{"n": row.name, "c": row.style, "v": _runs(row.values)} for row in told]
        self.charts.append({"u": unit, "r": rows})
        return len(self.charts) - 1


def _runs(values: Sequence[float | str | None]) -> list[Json]:
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
        told: The values that the page shows for the instant under the pointer.
        style: Additional CSS classes.
    """

    frame: Frame
    label: str
    strokes: Sequence[Stroke]
    high: float
    low: float = 0.0
    top: float | None = None
    unit: str = ""
    told: Sequence[Told] = ()
    style: str = ""

    def html(self, data: Data) -> str:
        """Return the chart as HTML, and add its values to ``data``."""
        ticks = self._ticks()
        rows = "".join(
            f'<span style="top:{self._from_top(tick):.2f}%">{minus(number(tick))}</span>'
            for tick in ticks
        )
        return (
            f'<div class="chart {self.style}" data-chart="{data.add(self.unit, self.told)}">'
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
