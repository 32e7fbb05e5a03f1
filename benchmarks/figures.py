"""What a benchmark says: figures, each with what it is to reach.

A module that measures something has a function ``measure``::

    def measure(scale: float) -> list[Figure]

It measures everything once, at a share of the full size, in the process in which it is called.
``python -m benchmarks`` calls it in a process of its own, several times by turns with
everything else, and takes medians of figures of the same name; so it needs no repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import final

import attrs


class Better(StrEnum):
    """Which way a figure is to go."""

    LOWER = "lower"
    HIGHER = "higher"


@final
@attrs.frozen
class Figure:
    """One thing that was measured.

    Attributes:
        name: What was run: `W1`, `ingest`, …
        what: What is said of it: `an allocation`, `longest stretch`, …; with the name, unique.
        value: The number that is compared with the target, and over time.
        unit: What it counts: `ms`, `bytes`, `× LB`, …; a fixed text.
        target: What is to be reached, or None where nothing was set.
        better: Which way it is to go.
        raw: The same in terms of this machine, where the value is a ratio: `143,000 a second`.
        note: What else a reader has to know; most figures need nothing.
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
        """Whether the target is reached; None where there is none."""
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
        """The target with its unit; empty where there is none."""
        if self.target is None:
            return ""
        return f"{'≤' if self.better is Better.LOWER else '≥'} {with_unit(self.target, self.unit)}"


def with_unit(value: float, unit: str) -> str:
    """Write a number so that it can be read, with its unit."""
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
    """Give what stands in a table: name, what, figure, ratio, target, and whether it is met.

    Where the value is a ratio, what it means in terms of the machine has a column of its own.
    """
    met = {True: "met", False: "missed", None: ""}[figure.met]
    what = f"{figure.what} ({figure.note})" if figure.note else figure.what
    absolute, ratio = (figure.raw, figure.shown) if figure.raw else (figure.shown, "")
    return figure.name, what, absolute, ratio, figure.aim, met


def medians(turns: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Put together what was measured several times: for each figure, the one in the middle.

    Of an even number of turns, the value is between the two in the middle, and what else is
    said comes from one of them.
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
