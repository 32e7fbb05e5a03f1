"""The nodes on a page: a bar for each allocation; if they are too many, how full nodes were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from muster.figures.charts import Json
from muster.figures.frame import WIDE, Frame
from muster.figures.text import shortened
from muster.report._page.content import Content
from muster.report._page.heat import heat
from muster.report._page.lanes import SLOTS, Piece, count_of, is_drawn, placed
from muster.report._page.node_figure import Marks, NodeFigure
from muster.report._recording.nodes import MOST_BARS, Bar
from muster.report._recording.reservations import ReservedBar

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


def _bars(content: Content, bars: Sequence[Bar]) -> tuple[str, list[Json]]:
    frame, rows = content.frame, content.recorder.nodes.rows
    by_node: dict[str, list[Bar]] = defaultdict(list)
    for bar in sorted(bars, key=lambda bar: (bar.held_us, bar.key)):
        by_node[bar.node].append(bar)
    by_row: dict[str, list[ReservedBar]] = defaultdict(list)
    for reserved in content.recorder.reserved.bars or ():
        by_row[reserved.node].append(reserved)
    gangs: dict[str, int] = {}
    # Colours show gangs; without gangs, they show queues.
    colours: Mapping[str, str] = {} if any(bar.gang for bar in bars) else content.colours
    drawn, behind, above = list[str](), list[str](), list[str]()
    marks = Marks()
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
        told=f"a bar is an ask on its node, as thick as its share of it{_LANES if most else ''}",
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


def _keys(bars: Sequence[Bar], colours: Mapping[str, str]) -> Iterator[tuple[str, str]]:
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
    bar: Bar,
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


def _of_gang(bar: Bar, gangs: dict[str, int]) -> str:
    """Return the CSS class of a bar by its gang."""
    if bar.gang is None:
        return "single"
    return f"g{gangs.setdefault(bar.gang, len(gangs)) % GANG_COLOURS}"


def _known(bar: Bar) -> Json:
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
