"""Values over time as one drawing: areas on top of one another, and lines.

What is drawn, its legend, and the same as a table come from one place, and so does the data for a
script that draws it anew: so they agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

import attrs

from muster.figures.charts import Chart, Json, Stroke, Told, legend, plain_value
from muster.figures.frame import Frame, step_area, step_line
from muster.figures.text import DAY, MINUTE, NOTHING, SECOND, Unit, date_text, instant, whole_date

COUNT: Final = Unit(1, "")
"""The unit of plain counts."""

HEADROOM: Final = 1.06
"""How much higher than its highest value a drawing is."""

MOST_ROWS: Final = 12
"""How many rows a table has at most."""


@final
@attrs.frozen
class Row:
    """A value over time.

    Attributes:
        name: What it is.
        style: The CSS class of its colour.
        values: The value in each bucket, in base units; None if it is not known.
        key: How the legend calls it, if not by its name.
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
        areas: What is drawn as areas, from the bottom to the top.
        lines: What is drawn as lines, above the areas.
        highest: The highest value; None to find it.
        together: All areas together, if that is told.
        unit: The unit in which values are shown.
    """

    frame: Frame
    label: str
    areas: Sequence[Row] = ()
    lines: Sequence[Row] = ()
    highest: float | None = None
    together: Sequence[float] | None = None
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

    def _stacked(self) -> Iterator[tuple[Row, list[float], list[float]]]:
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
        scaled = [Told(row.name, row.style, self._scaled(row.values)) for row in self.areas]
        if self.together is not None:
            scaled.append(Told("together", "", self._scaled(self.together)))
        told = [Told(row.name, row.style, self._scaled(row.values)) for row in self.lines]
        return Chart(
            frame=frame,
            label=self.label,
            strokes=strokes,
            high=high / self.unit.scale,
            unit=self.unit.name,
            told=[*told, *reversed(scaled)],
        )

    def _scaled(self, values: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else value / self.unit.scale for value in values]

    def data(self) -> dict[str, Json]:
        """Return the data for a script that draws it anew; instants are in seconds."""
        frame = self.frame

        def rows(some: Sequence[Row]) -> list[Json]:
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
                told = [NOTHING if value is None else self.unit.text(value) for value in values]
                found.append((self._instant(bucket), told))
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
