"""The nodes on a page: a bar for each allocation; if they are too many, how full nodes were.

In the row of a node, bars have slots of equal height, or a lane for each device. Both drawings
share the figure and the marks of evictions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import gcd
from typing import Final, final

import attrs

from muster.figures.charts import WIDE, Frame, Json, legend, time_axis
from muster.figures.text import counted, safe, shortened
from muster.report._node_records import MARKED, MOST_BARS, AllocationBar, NodeBars, ReservedBar
from muster.report._page.content import Content
from muster_core.decisions import Reason
from muster_core.values.devices import WHOLE

SLOTS: Final = 24
"""How many slots of equal height the row of a node has."""

MOST_LANES: Final = 64
"""The most lanes of a node; with more devices one could not distinguish their bars."""

_FINEST: Final = 200
"""The most parts into which the lane of a device is divided."""

_REST: Final = 2
"""The height of the lane of all asks without devices, in lanes of a device."""

_GAP: Final = 0.125
"""The part of a lane that stays empty, to separate the devices."""

Piece = tuple[float, float]
"""A part of a bar: where it begins in the row of its node, and how high it is, in slots."""


@final
class _Track:
    """Slots of equal height that bars take and release.

    Args:
        top: Where the first slot begins.
        height: How high all slots are together.
        count: How many slots there are.
    """

    def __init__(self, top: float, height: float, count: int) -> None:
        self._top = top
        self._high = height / count
        self._free_at = [-1] * count

    def take(self, share: float, since_us: int, until_us: int) -> list[Piece]:
        """Return the place of a bar, in several pieces if necessary.

        Args:
            share: How much of all slots it takes, from 0 to 1.
            since_us: When it begins, in microseconds; no bar before it began later.
            until_us: When it ends, likewise.
        """
        wanted = max(round(share * len(self._free_at)), 1)
        free = [slot for slot, at_us in enumerate(self._free_at) if at_us <= since_us]
        chosen = next(
            (
                free[begin : begin + wanted]
                for begin in range(len(free) - wanted + 1)
                if free[begin + wanted - 1] - free[begin] == wanted - 1
            ),
            # A bar without a free slot covers another one.
            free[:wanted] or [len(self._free_at) - 1],
        )
        for slot in chosen:
            self._free_at[slot] = until_us
        return [
            (self._top + slot * self._high, count * self._high) for slot, count in _runs(chosen)
        ]


def _runs(slots: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and sum(runs[-1]) == slot:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((slot, 1))
    return runs


# COMMAND-27
def placed(
    bars: Sequence[AllocationBar], devices: Mapping[str, int], end_us: int
) -> Iterator[tuple[AllocationBar, list[Piece]]]:
    """Yield the bars of a node, each with its place.

    Args:
        bars: The bars, in the order in which they begin.
        devices: How many devices of each type the node has.
        end_us: When the report ends, in microseconds.
    """
    lanes = _lanes(bars, devices) if is_drawn(devices) else {}
    rest = lanes.pop(None, None) or _Track(0, SLOTS, SLOTS)
    for bar in bars:
        until_us = end_us + 1 if bar.end_us is None else bar.end_us
        pieces = [
            piece
            for kind, numbers, milli in bar.devices
            for number in numbers
            if (kind, number) in lanes
            for piece in lanes[kind, number].take(milli / WHOLE, bar.held_us, until_us)
        ]
        yield bar, pieces or rest.take(bar.share, bar.held_us, until_us)


def is_drawn(devices: Mapping[str, int]) -> bool:
    """Return whether the devices of a node have lanes."""
    return 0 < sum(devices.values()) <= MOST_LANES


def count_of(bars: Sequence[AllocationBar], devices: Mapping[str, int]) -> int:
    """Return the height of the row of a node, in lanes of a device."""
    return sum(devices.values()) + _REST * any(not bar.devices for bar in bars)


def _lanes(
    bars: Sequence[AllocationBar], devices: Mapping[str, int]
) -> dict[tuple[str, int] | None, _Track]:
    """Return a track for each device by type and number; None has that for other asks, if any."""
    parts = dict.fromkeys(devices, WHOLE)
    for bar in bars:
        for kind, _, milli in bar.devices:
            parts[kind] = gcd(parts.get(kind, WHOLE), milli)
    names: list[tuple[str, int] | None] = [
        (kind, number) for kind, count in sorted(devices.items()) for number in range(count)
    ]
    high = SLOTS / count_of(bars, devices)
    if any(not bar.devices for bar in bars):
        names.append(None)
    return {
        name: _Track(
            place * high,
            high * ((_REST if name is None else 1) - _GAP),
            SLOTS if name is None else min(WHOLE // parts[name[0]], _FINEST),
        )
        for place, name in enumerate(names)
    }


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
class EvictionMarks:
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
        description: A description for readers.
    """

    drawing: str
    keys: Sequence[tuple[str, str]]
    units: int
    pixels: int
    description: str

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
            f"<p>{there}; {self.description}</p>{legend(self.keys)}</figcaption>"
            f'<div class="chart nodes"><div class="ys">{labels}</div>'
            f'<div class="plot" style="height:{count * self.pixels}px">'
            f'<svg viewBox="0 0 {WIDE} {count * self.units}" preserveAspectRatio="none" '
            'role="img" aria-label="what was on the nodes over time" '
            f'style="--row:{self.pixels}px">{self.drawing}</svg></div>'
            f"{time_axis(content.frame)}</div></figure></section>"
        )


def _title(row: NodeBars) -> str:
    return safe(row.first) if row.first == row.last else f"{safe(row.first)} … {safe(row.last)}"


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
        description="how full they were, in the type that was used most",
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


def _marks(content: Content) -> EvictionMarks:
    frame, marks = content.frame, EvictionMarks()
    # Marks at the same place would cover one another, so one is enough.
    cells = {
        (mark.row, round(frame.x(mark.at_us) / WIDE * COLUMNS), mark.reason): mark
        for mark in content.recorder.nodes.marks
    }
    for mark in cells.values():
        marks.add(mark.reason, frame.x(mark.at_us), mark.row + 0.5)
    return marks


ROW: Final = 26
"""The height of the row of a node, in units of the drawing: its slots and the gap."""

MOST_NODES: Final = 96
"""The most nodes whose allocations are drawn one by one."""

GANG_COLOURS: Final = 6
"""How many colours the gangs share, in turn."""

_HATCH: Final = 7
"""How far the lines of the bars of reservations are apart, in pixels."""

_PIXELS: Final = 1_100
"""How wide a drawing is on a large screen, in pixels, about."""

_HIGH: Final = 900
"""How high the rows of all nodes are together, in pixels, if they are not too many."""

_HIGH_WITH_LANES: Final = 2_400
"""How high they are at most where devices have lanes, in pixels, if they are not too many."""

_LANE: Final = 10
"""How high the lane of a device is, in pixels, if there is room."""

_LANES: Final = (
    "; each device has a lane, number 0 on top, and below these is one for asks without devices"
)

_RESERVED: Final = ("area reserved", "reserved for an ask that does not run yet")


def gantt(content: Content) -> tuple[str, list[Json]]:
    """Return the figure of the nodes as HTML, and the data of each bar for the script."""
    nodes = content.recorder.nodes
    if not nodes.rows:
        return "", []
    holding = [nodes.bar(ask, None, None) for ask in content.recorder.holding()]
    bars = None if nodes.bars is None else [*nodes.bars, *holding]
    if bars is None or len(bars) > MOST_BARS or nodes.count > MOST_NODES:
        return heat(content), []
    return _bars(content, bars)


def _bars(content: Content, bars: Sequence[AllocationBar]) -> tuple[str, list[Json]]:
    frame, rows = content.frame, content.recorder.nodes.rows
    by_node: dict[str, list[AllocationBar]] = defaultdict(list)
    for bar in sorted(bars, key=lambda bar: (bar.held_us, bar.key)):
        by_node[bar.node].append(bar)
    by_row: dict[str, list[ReservedBar]] = defaultdict(list)
    for reserved in content.recorder.reserved.bars or ():
        by_row[reserved.node].append(reserved)
    gangs: dict[str, int] = {}
    # Colours show gangs; without gangs, they show queues.
    colours: Mapping[str, str] = {} if any(bar.gang for bar in bars) else content.colours
    drawn, behind, above = list[str](), list[str](), list[str]()
    marks = EvictionMarks()
    known: list[Json] = []
    lines, most = "", 0
    for place, row in enumerate(rows):
        devices = content.recorder.nodes.devices_of(row.first)
        if is_drawn(devices):
            lanes = count_of(by_node[row.first], devices)
            most = max(most, lanes)
            lines += _lines(place, lanes, sum(devices.values()))
        for bar, pieces in placed(by_node[row.first], devices, frame.end_us):
            style = colours.get(bar.queue, "qx") if colours else _of_gang(bar, gangs)
            drawn.append(_bar(frame, bar, pieces, place, style, len(known)))
            known.append(_known(bar))
            if bar.end_us is not None and bar.reason is not None:
                y = place * ROW + pieces[0][0] + pieces[0][1] / 2
                marks.add(bar.reason, frame.x(bar.end_us), y)
        for reserved in by_row[row.first]:
            share = content.recorder.nodes.share_of(reserved.ask, row.first)
            path = _reserved(frame, reserved, share, place)
            behind.append(f'<path class="bar reserved" d="{path}" data-i="{len(known)}"/>')
            above.append(path)
            known.append(_known_reserved(reserved))
    stripes = "".join(f"M0 {place * ROW - 1}H{WIDE}" for place in range(1, len(rows)))
    pixels = _pixels(len(rows), most)
    figure = NodeFigure(
        drawing=(
            f'<path class="grid" d="{stripes}{lines}"/>{"".join(behind)}{"".join(drawn)}'
            f"{_hatched(above, pixels)}{marks.paths()}"
        ),
        keys=[*_keys(bars, colours), *marks.keys(), *([_RESERVED] if above else [])],
        units=ROW,
        pixels=pixels,
        description=f"a bar is an ask on its node, as thick as its share of it{_LANES if most else ''}",
    )
    return figure.html(content), known


# COMMAND-27
def _pixels(rows: int, lanes: int) -> int:
    """Return how high the row of a node is on the screen, in pixels.

    Args:
        rows: How many nodes there are.
        lanes: How many lanes of a device are as high as the row of a node, at most; 0 for none.
    """
    usual = min(max(_HIGH // rows, 9), 56)
    return max(usual, min(lanes * _LANE, _HIGH_WITH_LANES // rows))


def _lines(place: int, lanes: int, devices: int) -> str:
    """Return the lines below the lanes of the devices of a node, as a path."""
    last = min(devices, lanes - 1)
    return "".join(
        f"M0 {place * ROW + lane * SLOTS / lanes:g}H{WIDE}" for lane in range(1, last + 1)
    )


def _hatched(paths: Sequence[str], pixels: int) -> str:
    """Return the hatching of the bars of reservations; page.js keeps it even when one zooms in.

    The bars are behind those of asks, so that one can point at these.
    """
    if not paths:
        return ""
    scale = f"{WIDE / _PIXELS:.4g} {ROW / pixels:.4g}"
    lines = f"M-1 1L1 -1M0 {_HATCH}L{_HATCH} 0M{_HATCH - 1} {_HATCH + 1}L{_HATCH + 1} {_HATCH - 1}"
    return (
        f'<defs><pattern id="hatch" width="{_HATCH}" height="{_HATCH}" '
        f'patternUnits="userSpaceOnUse" patternTransform="scale({scale})">'
        f'<path d="{lines}"/></pattern></defs>'
        f'<path class="hatched" style="fill:url(#hatch)" d="{"".join(paths)}"/>'
    )


def _reserved(frame: Frame, reserved: ReservedBar, share: float, place: int) -> str:
    """Return the path of the bar of a reservation, at the lower edge of the row of its node."""
    high = max(round(share * SLOTS), 2)
    x = frame.x(reserved.since_us)
    until = frame.x(frame.end_us if reserved.end_us is None else reserved.end_us)
    top = place * ROW + SLOTS - high
    return f"M{x:g} {top}H{until:g}v{high}H{x:g}z"


def _known_reserved(reserved: ReservedBar) -> Json:
    """Return the data of the bar of a reservation for the script: that of a bar, and its start."""
    ask = reserved.ask
    return [
        shortened("/".join(ask.key)),
        shortened(reserved.node),
        shortened(ask.queue),
        None if ask.gang is None else shortened(ask.gang),
        reserved.since_us,
        None,
        reserved.end_us,
        None,
        None,
        reserved.start_us,
    ]


def _keys(bars: Sequence[AllocationBar], colours: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the legend of the bars."""
    gangs = {bar.gang for bar in bars}
    if gangs - {None}:
        yield "area gangs", "gangs, each in one colour"
        if None in gangs:
            yield "area single", "not of a gang"
    queues = {bar.queue for bar in bars}
    for path, style in colours.items():
        if path in queues:
            yield f"area {style}", path
    if any(bar.bound_us != bar.held_us for bar in bars):
        yield "area pale", "waits there for its gang"


def _bar(
    frame: Frame,
    bar: AllocationBar,
    pieces: Sequence[Piece],
    place: int,
    style: str,
    number: int,
) -> str:
    end_us = frame.end_us if bar.end_us is None else bar.end_us
    bound_us = end_us if bar.bound_us is None else bar.bound_us
    parts = [(bar.held_us, bound_us, " pale"), (bound_us, end_us, "")]
    paths: list[str] = []
    for begin, end, shade in parts:
        x, until = frame.x(begin), frame.x(end)
        if end > begin:
            path = "".join(
                f"M{x:g} {place * ROW + top:g}H{until:g}v{high:.4g}H{x:g}z" for top, high in pieces
            )
            paths.append(f'<path class="bar {style}{shade}" d="{path}" data-i="{number}"/>')
    return "".join(paths)


def _of_gang(bar: AllocationBar, gangs: dict[str, int]) -> str:
    """Return the CSS class of a bar by its gang."""
    if bar.gang is None:
        return "single"
    return f"g{gangs.setdefault(bar.gang, len(gangs)) % GANG_COLOURS}"


def _known(bar: AllocationBar) -> Json:
    """Return the data of a bar for the script."""
    return [
        shortened("/".join(bar.key)),
        shortened(bar.node),
        shortened(bar.queue),
        None if bar.gang is None else shortened(bar.gang),
        bar.held_us,
        bar.bound_us,
        bar.end_us,
        None if bar.reason is None else bar.reason.value,
        *([bar.held] if bar.held else []),
    ]
