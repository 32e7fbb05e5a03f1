"""Nodes: a heat map and a list of them; and one node with its allocations, devices and reservations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from muster.figures.text import (
    Unit,
    free_sums,
    free_words,
    holders_of,
    measured,
    number,
    percent,
    sum_words,
)
from muster.service.access import Role
from muster.service.endpoints.schemas import row_of
from muster.service.page.node_map import (
    NodeCell,
    NodeCells,
    NodesQuery,
    maps_of,
    read_cells,
    share_of,
)
from muster.service.page.renderer import TemplateData, render_page
from muster.service.page.requests import Page, PageRequest, place_of
from muster.service.payloads import Problem
from muster.service.queries.asks import ASKS, AskRow, place_of_ask
from muster.service.queries.nodes import NODES, NodeRow
from muster.service.queries.reader import ReadContext, cursor
from muster_core.nodes.node import Node
from muster_core.snapshots import ReservationSnapshot
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.devices import WHOLE
from muster_core.values.names import did_you_mean


# PAGE-81
def reserved_lines(
    context: ReadContext, most: int, node: str | None = None
) -> Steps[tuple[Sequence[TemplateData], int]]:
    """Return what is reserved, in the order of the reservations, and how much more there is.

    Args:
        context: The state.
        most: How many lines are returned at most.
        node: The only node that is looked at; None for all.
    """
    yield
    found = [
        (name, one)
        for name, one in context.reservations().items()
        if node is None or one.node == node
    ]
    lines: list[TemplateData] = []
    for name, one in found[:most]:
        yield
        lines.append(_line(context, name, one))
    return lines, len(found) - len(lines)


def _line(context: ReadContext, name: str, one: ReservationSnapshot) -> TemplateData:
    app, _, ask = name.partition("/")
    found = context.view.apps[context.machine.registry.app_key(app)].find(ask)
    assert found is not None, "an ask with a reservation is gone"
    return {
        "app": app,
        "ask": ask,
        "node": one.node,
        "start_us": one.start_us,
        "scope": one.scope,
        "resources": dict(found.resources.amounts),
        "gang": found.gang,
    }


MOST_DEVICES: Final = 256
"""How many devices of a node are shown."""

MOST_HOLDERS: Final = 16
"""How many holders of a device are shown."""

MOST_TYPES: Final = 6
"""How many types of devices are shown for several nodes together."""

_PIECE: Final = 128
"""How many nodes are looked at between two places to pause."""


def _words(milli: int) -> str:
    return "all" if milli == WHOLE else f"{milli}\N{NO-BREAK SPACE}milli" if milli else "nothing"


# PAGE-82
def devices_of(context: ReadContext, node: Node, rows: Sequence[AskRow]) -> Steps[TemplateData]:
    """Return what the page of a node shows of its devices.

    Args:
        context: The state.
        node: The node.
        rows: The asks on it, in the order in which they were added.
    """
    yield
    if node.devices is None:
        return {"stocks": (), "more": 0, "lost": None}
    held = holders_of(
        ((row.app.identity.name, row.ask.name), row.devices(), row.ask.resources.amounts)
        for row in rows
    )
    stocks: list[TemplateData] = []
    left = MOST_DEVICES
    for kind, stock in node.devices.stocks.items():
        yield
        free = node.devices.free[kind]
        devices = [
            _device(kind, number, milli, held.get((kind, number), ()))
            for number, milli in enumerate(free[:left])
        ]
        left -= len(devices)
        if devices:
            stocks.append(
                {
                    "kind": kind,
                    "model": stock.model,
                    "words": free_words(kind, free),
                    "devices": devices,
                }
            )
    count = sum(stock.count for stock in node.devices.stocks.values())
    lost = context.view.nodes.unusable(node)
    return {
        "stocks": stocks,
        "more": count - (MOST_DEVICES - left),
        "lost": None if lost is None else measured(lost / WHOLE),
    }


def _device(
    kind: str, number: int, free: int, held: Sequence[tuple[tuple[str, str], int]]
) -> TemplateData:
    first = held[:MOST_HOLDERS]
    return {
        "name": f"{kind} {number}",
        "share": 1 - free / WHOLE,
        "used_words": _words(WHOLE - free),
        "free_words": _words(free),
        "holders": [{"app": app, "ask": ask, "milli": milli} for (app, ask), milli in first],
        "more": len(held) - len(first),
    }


def free_on(node: Node) -> list[str]:
    """Return what is free of the devices of a node, a text for each of the first types."""
    stocks = {} if node.devices is None else node.devices.free
    return [free_words(kind, free) for kind, free in [*stocks.items()][:MOST_TYPES]]


# PAGE-83
def free_on_all(nodes: Sequence[Node]) -> Steps[list[str]]:
    """Return what is free of the devices of nodes together, a text for each of the first types."""
    sums: dict[str, tuple[int, int, int]] = {}
    for piece in in_pieces(nodes, _PIECE):
        yield
        for node in piece:
            stocks = {} if node.devices is None else node.devices.free
            for kind, free in stocks.items():
                count, whole, parts = sums.get(kind, (0, 0, 0))
                more_whole, more_parts = free_sums(free)
                sums[kind] = count + len(free), whole + more_whole, parts + more_parts
    return [sum_words(kind, *sums[kind]) for kind in sorted(sums)[:MOST_TYPES]]


NODES_AT_ONCE: Final = 50
"""How many nodes the list shows at once."""

_COLUMNS: Final = NODES.picked(
    ("node", "available", "schedulable", "kept", "attributes", "count"), single=False
)

_BILLION: Final = 10**9

Place = tuple[int | str, ...]


def read_nodes_page(
    context: ReadContext, wanted: NodesQuery, behind: Place | None
) -> Steps[TemplateData]:
    """Return what the page of all nodes shows.

    Args:
        context: The state.
        wanted: Which nodes, and how.
        behind: Behind which place the page of the list begins; None for the first one.
    """
    found: NodeCells = yield from read_cells(context, wanted)
    maps = yield from maps_of(found.cells, wanted.group, len(found.bands))
    devices = yield from free_on_all([cell.node for cell in found.cells])
    listed, after = yield from _page(context, found.cells, wanted, behind)
    return {
        "count": found.count,
        "found": len(found.cells),
        "unschedulable": sum(one["unschedulable"] for one in maps),
        "devices": devices,
        "bands": found.bands,
        "counts": [sum(one["counts"][at] for one in maps) for at in range(len(found.bands))],
        "below": found.below,
        "maps": maps,
        "kinds": sorted(context.view.total),
        "attributes": found.attributes,
        "listed": listed,
        "next": after,
    }


# PAGE-34
def _page(
    context: ReadContext, cells: Sequence[NodeCell], wanted: NodesQuery, behind: Place | None
) -> Steps[tuple[list[TemplateData], str | None]]:
    """Return a page of the list, and the cursor of the next one."""
    yield
    place = _by_use if wanted.by_use else _by_name
    in_order = sorted(cells, key=place) if wanted.by_use else cells
    first = 0 if behind is None else bisect_right(in_order, behind, key=place)
    listed: list[TemplateData] = []
    reserved = {one.node for one in context.reservations().values()}
    for cell in in_order[first : first + NODES_AT_ONCE]:
        yield
        row = NodeRow(context, cell.node)
        is_reserved = cell.node.name in reserved
        item, parts = row_of(_COLUMNS, row), parts_of(cell.node)
        listed.append(
            {
                "item": item,
                "parts": parts,
                "devices": free_on(cell.node),
                "is_reserved": is_reserved,
            }
        )
    if first + NODES_AT_ONCE >= len(in_order):
        return listed, None
    return listed, cursor(_list_of(wanted), *place(in_order[first + NODES_AT_ONCE - 1]))


def _by_name(cell: NodeCell) -> tuple[int | str, ...]:
    return (cell.node.name,)


def _by_use(cell: NodeCell) -> tuple[int | str, ...]:
    return (-round(cell.share * _BILLION), cell.node.name)


def _list_of(wanted: NodesQuery) -> str:
    return "nodes by use" if wanted.by_use else "nodes"


def parts_of(node: Node) -> list[TemplateData]:
    """Return how much of each resource type of a node is used, the fullest first."""
    parts: list[TemplateData] = []
    for kind in {**node.capacity, **node.used}:
        used, capacity = node.used.get(kind, 0), node.capacity.get(kind, 0)
        share = share_of(node, kind)
        left = percent(share) if capacity else "none left"
        unit = Unit.of(kind, max(used, capacity))
        words = f"{number(used / unit.scale)} of {unit.text(capacity)}, {left}"
        if others := node.reserved.get(kind, 0):
            words += f"; {unit.text(others)} reserved for others"
        parts.append({"kind": kind, "share": share, "words": words})
    return sorted(parts, key=lambda part: (-part["share"], part["kind"]))


def _query_of(page: PageRequest) -> NodesQuery:
    """Return which nodes a request is about.

    Raises:
        Problem: 400 if a value means nothing.
    """
    by_queue = _word(page, "color", {"", "queue"}) == "queue"
    return NodesQuery(
        name=page.text("name").lower(),
        attribute=page.text("attribute"),
        group=page.text("group"),
        kind=page.text("type"),
        queue=(page.text("below").lower() or "root") if by_queue else "",
        by_use=_word(page, "sort", {"", "name", "use"}) == "use",
    )


def _word(page: PageRequest, name: str, words: set[str]) -> str:
    found = page.text(name)
    if found not in words:
        known = ", ".join(sorted(words - {""}))
        raise Problem(400, f"{name}: {found[:100]!r}: must be one of {known}")
    return found


async def _nodes(page: PageRequest) -> Response:
    wanted = _query_of(page)
    types = (int, str) if wanted.by_use else (str,)
    place = place_of(page, _list_of(wanted), *types)
    found = await page.moment.read(lambda context: read_nodes_page(context, wanted, place))
    names = ("name", "attribute", "group", "type", "color", "below", "sort")
    query = {name: page.text(name) for name in names}
    return render_page(
        page, "nodes.html", found=found, every=found.value, wanted=wanted, query=query
    )


NODE_LIST_PAGES: Final = (Page("GET", "/nodes", Role.READER, _nodes),)
"""All nodes."""


ALLOCATIONS_AT_ONCE: Final = 100
"""How many allocations a page lists."""

_OF_NODE: Final = NODES.picked(
    ("node", "capacity", "used", "available", "schedulable", "kept", "attributes", "count"),
    single=True,
)
_OF_ASK: Final = ASKS.picked(
    ("app", "ask", "pod", "queue", "place", "priority", "resources", "devices", "gang"),
    single=False,
)


# PAGE-35
def read_node_page(
    context: ReadContext, name: str, behind: tuple[int, int] | None
) -> Steps[TemplateData]:
    """Return what the page of a node shows.

    Args:
        context: The state.
        name: The node, which exists.
        behind: Behind which allocation the page of them begins; None for the first ones.
    """
    yield
    row = NodeRow(context, context.view.nodes.nodes[name])
    rows = row.rows()
    devices = yield from devices_of(context, row.node, rows)
    first = 0 if behind is None else bisect_right(rows, behind, key=place_of_ask)
    standing: list[TemplateData] = []
    for one in rows[first : first + ALLOCATIONS_AT_ONCE]:
        yield
        standing.append({"item": row_of(_OF_ASK, one), "taken_us": one.taken_us()})
    is_last = first + ALLOCATIONS_AT_ONCE >= len(rows)
    entry = context.ledger.node(name)
    reserved, more_reserved = yield from reserved_lines(context, ALLOCATIONS_AT_ONCE, name)
    return {
        "item": row_of(_OF_NODE, row),
        "parts": parts_of(row.node),
        "devices": devices,
        "taints": list(map(str, row.node.taints)),
        "came_us": row.came_us(),
        "lease_us": None if entry is None else entry.event.lease_us,
        "reserved": reserved,
        "more_reserved": more_reserved,
        "standing": standing,
        "next": None
        if is_last
        else cursor("standing", *place_of_ask(rows[first + ALLOCATIONS_AT_ONCE - 1])),
    }


async def _node(page: PageRequest) -> Response:
    name = page.in_path("name")
    place = place_of(page, "standing", int, int)
    behind = None if place is None else (place[0], place[1])

    def read(context: ReadContext) -> Steps[TemplateData | str]:
        nodes = context.view.nodes.nodes
        if name not in nodes:
            return f"there is no node {name[:200]!r}{did_you_mean(name, nodes)}"
        return (yield from read_node_page(context, name, behind))

    found = await page.moment.read(read)
    if isinstance(found.value, str):
        raise Problem(404, found.value)
    return render_page(
        page,
        "node.html",
        found=found,
        node=found.value,
        until_us=_lease_end_us(page, name),
        events=_switch_events(found.value),
    )


# PAGE-36
def _switch_events(node: TemplateData) -> list[Mapping[str, object]]:
    """Return the events that make a node unschedulable, or schedulable again."""
    is_open = bool(node["item"]["schedulable"])
    return [{"op": "update_node", "node": node["item"]["node"], "schedulable": not is_open}]


def _lease_end_us(page: PageRequest, name: str) -> int | None:
    """Return when the lease of a node runs out; None without one, and in the past."""
    service = page.service
    left_us = None if page.moment.is_past else service.intake.leases.left_us(name)
    return None if left_us is None else service.now_us() + left_us


NODE_PAGES: Final = (Page("GET", "/nodes/{name:path}", Role.READER, _node),)
"""The page of a node."""
