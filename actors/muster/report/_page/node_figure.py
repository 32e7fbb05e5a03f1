"""The parts that both drawings of nodes share: the figure, and the marks of evictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, final

import attrs

from muster.figures.charts import legend, time_axis
from muster.figures.frame import WIDE
from muster.figures.text import counted, safe
from muster.report._page.content import Content
from muster.report._recording.nodes import MARKED, Row
from muster_core.decisions import Reason

_LABEL: Final = 13
"""The height of the name of a node, in pixels."""

_OWN: Final = {Reason.PREEMPTED: "preempted", Reason.RECLAIMED: "reclaimed"}
"""The reasons that have marks of their own; all others share one."""

_KEYS: Final = {
    "preempted": "preempted",
    "reclaimed": "reclaimed",
    "lost": "lost in another way, as with its node",
}


@final
class Marks:
    """The marks where asks lost their nodes before they ended."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: Reason, x: float, y: float) -> None:
        """Mark the end of an allocation, unless it is an ordinary one."""
        if reason in MARKED:
            # A line of length 0 shows only its round or square ends, which are not stretched.
            self._paths[_OWN.get(reason, "lost")].append(f"M{x:g} {y:g}h0")

    def paths(self) -> str:
        """Return the marks as SVG paths."""
        return "".join(
            f'<path class="mark {style}" d="{"".join(paths)}"/>'
            for style, paths in sorted(self._paths.items())
        )

    def keys(self) -> list[tuple[str, str]]:
        """Return the legend of the marks."""
        return [(f"spot {style}", _KEYS[style]) for style in sorted(self._paths)]


@final
@attrs.frozen(kw_only=True)
class NodeFigure:
    """A drawing of nodes.

    Attributes:
        drawing: The SVG paths.
        keys: The legend.
        units: The height of a row, in units of the drawing.
        pixels: The height of a row on the screen, in pixels.
        told: A description for readers.
    """

    drawing: str
    keys: Sequence[tuple[str, str]]
    units: int
    pixels: int
    told: str

    def html(self, content: Content) -> str:
        """Return the figure as HTML, with as many names of nodes as there is room for."""
        nodes = content.recorder.nodes
        count = len(nodes.rows)
        every = max(-(-_LABEL // self.pixels), 1)
        labels = "".join(
            f'<span style="top:{(place + 0.5) * 100 / count:.3f}%" title="{_title(row)}">'
            f"{safe(row.first)}</span>"
            for place, row in enumerate(nodes.rows)
            if place % every == 0
        )
        there = counted(nodes.count, "node")
        if nodes.count > count:
            there += f", in {count:,} rows of neighbours"
        return (
            '<section id="nodes"><h2>Nodes</h2><figure><figcaption>'
            f"<p>{there}; {self.told}</p>{legend(self.keys)}</figcaption>"
            f'<div class="chart nodes"><div class="ys">{labels}</div>'
            f'<div class="plot" style="height:{count * self.pixels}px">'
            f'<svg viewBox="0 0 {WIDE} {count * self.units}" preserveAspectRatio="none" '
            'role="img" aria-label="what was on the nodes over time" '
            f'style="--row:{self.pixels}px">{self.drawing}</svg></div>'
            f"{time_axis(content.frame)}</div></figure></section>"
        )


def _title(row: Row) -> str:
    return safe(row.first) if row.first == row.last else f"{safe(row.first)} … {safe(row.last)}"
