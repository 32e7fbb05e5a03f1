"""Figures: the results of benchmarks, each with an optional target.

A module that measures something has a function ``measure``::

    def measure(scale: float) -> list[Figure]

It measures everything once, at a share of the full size, in the present process.
``python -m benchmarks`` calls it several times, each time in a process of its own, and computes
medians of the figures of the same name; so it needs no repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import final

import attrs


class Better(StrEnum):
    """Whether lower or higher values of a figure are better."""

    LOWER = "lower"
    HIGHER = "higher"


@final
@attrs.frozen
class Figure:
    """One result of a measurement.

    Attributes:
        name: What ran: `W1`, `ingest`, …
        what: What was measured: `an allocation`, `longest stretch`, …; unique with the name.
        value: The number that is compared with the target, and over time.
        unit: The unit of the value: `ms`, `bytes`, `× LB`, …; a fixed text.
        target: The target, or None.
        better: Whether lower or higher values are better.
        raw: If the value is a ratio, the result on this machine: `143,000 a second`.
        note: A remark for the reader, or an empty text.
    """

    name: str
    what: str
    value: float
    unit: str
    target: float | None = None
    better: Better = attrs.field(default=Better.LOWER, converter=Better)
    raw: str = ""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if self.target is None:
            return None
        if self.better is Better.LOWER:
            return self.value <= self.target
        return self.value >= self.target

    @property
    def shown(self) -> str:
        """The value with its unit."""
        return with_unit(self.value, self.unit)

    @property
    def aim(self) -> str:
        """The target with its unit; empty without a target."""
        if self.target is None:
            return ""
        return f"{'≤' if self.better is Better.LOWER else '≥'} {with_unit(self.target, self.unit)}"


def with_unit(value: float, unit: str) -> str:
    """Format a number with its unit."""
    if value == int(value) and abs(value) < 1_000:
        number = f"{value:.0f}"
    elif abs(value) >= 100:
        number = f"{value:,.0f}"
    elif abs(value) >= 10:
        number = f"{value:.1f}"
    else:
        number = f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"
    return f"{number} {unit}".rstrip()


def cells(figure: Figure) -> tuple[str, str, str, str, str, str]:
    """Return the cells of a table row: name, what, figure, ratio, target, and whether it is met.

    If the value is a ratio, the result on this machine has a column of its own.
    """
    met = {True: "met", False: "missed", None: ""}[figure.met]
    what = f"{figure.what} ({figure.note})" if figure.note else figure.what
    absolute, ratio = (figure.raw, figure.shown) if figure.raw else (figure.shown, "")
    return figure.name, what, absolute, ratio, figure.aim, met


def medians(turns: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Merge the figures of several turns: each one becomes its median.

    For an even number of turns, the value is the mean of the two in the middle, and the other
    attributes come from one of them.
    """
    found: dict[tuple[str, str], list[Figure]] = {}
    for turn in turns:
        for figure in turn:
            found.setdefault((figure.name, figure.what), []).append(figure)
    together: list[Figure] = []
    for same in found.values():
        same.sort(key=lambda figure: figure.value)
        middle = same[len(same) // 2]
        together.append(attrs.evolve(middle, value=median(figure.value for figure in same)))
    return together
