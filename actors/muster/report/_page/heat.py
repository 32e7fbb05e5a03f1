"""How full nodes were over time, if the allocations are too many to draw one by one."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from muster.figures.frame import WIDE
from muster.report._page.content import Content
from muster.report._page.node_figure import Marks, NodeFigure

SHADES: Final = 8
"""How many shades show how full nodes were."""

COLUMNS: Final = 400
"""How many places for marks a row has."""


def heat(content: Content) -> str:
    """Return a figure as HTML, with a row for each node, or for neighbours if they are many."""
    marks = _marks(content)
    paths = "".join(
        f'<path class="heat h{shade}" d="{"".join(found)}"/>'
        for shade, found in enumerate(_shades(content))
        if found
    )
    keys = [("area h1", "hardly used"), ("area h4", "half"), ("area h8", "full"), *marks.keys()]
    return NodeFigure(
        drawing=paths + marks.paths(),
        keys=keys,
        units=1,
        pixels=max(min(1100 // len(content.recorder.nodes.rows), 14), 3),
        told="how full they were, in the type that was used most",
    ).html(content)


def _shades(content: Content) -> list[list[str]]:
    """Return the paths of each shade; the first is for empty nodes and not drawn."""
    frame = content.frame
    shades: list[list[str]] = [[] for _ in range(SHADES + 1)]
    for place, row in enumerate(content.recorder.nodes.rows):
        pairs = zip(frame.means(row.fill), frame.means(row.there), strict=True)
        levels = [
            min(int(fill / there * SHADES) + 1, SHADES) if fill else 0 for fill, there in pairs
        ]
        begin = 0
        for level, run in groupby(levels):
            end = begin + sum(1 for _ in run)
            if level:
                x = frame.edge(begin)
                shades[level].append(f"M{x:g} {place}.5h{frame.edge(end) - x:.5g}")
            begin = end
    return shades


def _marks(content: Content) -> Marks:
    frame, marks = content.frame, Marks()
    # Marks at the same place would cover one another, so one is enough.
    cells = {
        (mark.row, round(frame.x(mark.at_us) / WIDE * COLUMNS), mark.reason): mark
        for mark in content.recorder.nodes.marks
    }
    for mark in cells.values():
        marks.add(mark.reason, frame.x(mark.at_us), mark.row + 0.5)
    return marks
