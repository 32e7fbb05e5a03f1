"""Nodes: a heat map and a list of them; and one node with its allocations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs
from starlette.responses import Response

from muster.figures.text import Unit, number, percent
from muster.service.access import Role
from muster.service.endpoints.schemas import row_of
from muster.service.page.node_contents import (
    Devices,
    ReservedLine,
    devices_of,
    free_on,
    free_on_all,
    reserved_lines,
)
from muster.service.page.node_map import (
    HeatMap,
    NodeCell,
    NodeCells,
    NodesQuery,
    maps_of,
    read_cells,
    share_of,
)
from muster.service.page.renderer import render_page
from muster.service.page.requests import Page, PageRequest, place_of
from muster.service.payloads import Problem
from muster.service.queries.asks import ASKS, AskRow
from muster.service.queries.nodes import NODES, NodeRow
from muster.service.queries.reader import ReadContext, cursor
from muster_core.nodes.node import Node
from muster_core.structures.steps import Steps
from muster_core.values.names import did_you_mean

NODES_AT_ONCE: Final = 50
"""How many nodes the list shows at once."""

_COLUMNS: Final = NODES.picked(
    ("node", "available", "schedulable", "kept", "attributes", "count"), single=False
)

_BILLION: Final = 10**9

Place = tuple[int | str, ...]


@final
@attrs.frozen
class ResourceUse:
    """How much of one resource type of a node is used.

    Attributes:
        kind: The type.
        share: The share, where 1 is all of it.
        words: The amounts in words.
    """

    kind: str
    share: float
    words: str


@final
@attrs.frozen
class NodeLine:
    """A node in the list.

    Attributes:
        said: Its fields, as in the list of nodes.
        parts: How much of each resource type is used, the fullest first.
        devices: What is free of its devices, a text for each type.
        is_reserved: Whether it is reserved for an ask.
    """

    said: Mapping[str, object]
    parts: Sequence[ResourceUse]
    devices: Sequence[str]
    is_reserved: bool


@final
@attrs.frozen
class NodesPage:
    """What the page of all nodes shows.

    Attributes:
        count: How many nodes there are.
        found: How many are shown.
        unschedulable: How many of these are unschedulable.
        devices: What is free of their devices, a text for each type; empty if there are none.
        bands: What the colours mean.
        below: For each colour the queue with queues below it for which it stands, or None.
        maps: The heat maps, one for each group.
        kinds: The resource types of nodes.
        attributes: The names of attributes that nodes have.
        listed: A page of the list.
        next: The cursor of the next page, or None.
    """

    count: int
    found: int
    unschedulable: int
    devices: Sequence[str]
    bands: Sequence[str]
    below: Sequence[str | None]
    maps: Sequence[HeatMap]
    kinds: Sequence[str]
    attributes: Sequence[str]
    listed: Sequence[NodeLine]
    next: str | None

    def counts(self) -> list[int]:
        """Return how many nodes have each colour."""
        return [sum(one.counts[at] for one in self.maps) for at in range(len(self.bands))]


def read_nodes_page(
    looking: ReadContext, wanted: NodesQuery, behind: Place | None
) -> Steps[NodesPage]:
    """Return what the page of all nodes shows.

    Args:
        looking: The state.
        wanted: Which nodes, and how.
        behind: Behind which place the page of the list begins; None for the first one.
    """
    found: NodeCells = yield from read_cells(looking, wanted)
    maps = yield from maps_of(found.cells, wanted.group, len(found.bands))
    devices = yield from free_on_all([cell.node for cell in found.cells])
    listed, after = yield from _page(looking, found.cells, wanted, behind)
    return NodesPage(
        count=found.count,
        found=len(found.cells),
        unschedulable=sum(one.unschedulable for one in maps),
        devices=devices,
        bands=found.bands,
        below=found.below,
        maps=maps,
        kinds=sorted(looking.view.total),
        attributes=found.attributes,
        listed=listed,
        next=after,
    )


# PAGE-34
def _page(
    looking: ReadContext, cells: Sequence[NodeCell], wanted: NodesQuery, behind: Place | None
) -> Steps[tuple[list[NodeLine], str | None]]:
    """Return a page of the list, and the cursor of the next one."""
    yield
    place = _by_use if wanted.by_use else _by_name
    in_order = sorted(cells, key=place) if wanted.by_use else cells
    first = 0 if behind is None else bisect_right(in_order, behind, key=place)
    listed: list[NodeLine] = []
    reserved = {one.node for one in looking.reservations().values()}
    for cell in in_order[first : first + NODES_AT_ONCE]:
        yield
        row = NodeRow(looking, cell.node)
        is_reserved = cell.node.name in reserved
        said, parts = row_of(_COLUMNS, row), parts_of(cell.node)
        listed.append(NodeLine(said, parts, free_on(cell.node), is_reserved))
    if first + NODES_AT_ONCE >= len(in_order):
        return listed, None
    return listed, cursor(_list_of(wanted), *place(in_order[first + NODES_AT_ONCE - 1]))


def _by_name(cell: NodeCell) -> tuple[int | str, ...]:
    return (cell.node.name,)


def _by_use(cell: NodeCell) -> tuple[int | str, ...]:
    return (-round(cell.share * _BILLION), cell.node.name)


def _list_of(wanted: NodesQuery) -> str:
    return "nodes by use" if wanted.by_use else "nodes"


def parts_of(node: Node) -> list[ResourceUse]:
    """Return how much of each resource type of a node is used, the fullest first."""
    parts: list[ResourceUse] = []
    for kind in {**node.capacity, **node.used}:
        used, there = node.used.get(kind, 0), node.capacity.get(kind, 0)
        share = share_of(node, kind)
        told = percent(share) if there else "none left"
        unit = Unit.of(kind, max(used, there))
        words = f"{number(used / unit.scale)} of {unit.text(there)}, {told}"
        parts.append(ResourceUse(kind, share, words))
    return sorted(parts, key=lambda part: (-part.share, part.kind))


def _wanted(viewed: PageRequest) -> NodesQuery:
    """Return which nodes a request is about.

    Raises:
        Problem: 400 if a value means nothing.
    """
    by_queue = _word(viewed, "color", {"", "queue"}) == "queue"
    return NodesQuery(
        name=viewed.text("name").lower(),
        attribute=viewed.text("attribute"),
        group=viewed.text("group"),
        kind=viewed.text("type"),
        queue=(viewed.text("below").lower() or "root") if by_queue else "",
        by_use=_word(viewed, "sort", {"", "name", "use"}) == "use",
    )


def _word(viewed: PageRequest, name: str, words: set[str]) -> str:
    found = viewed.text(name)
    if found not in words:
        known = ", ".join(sorted(words - {""}))
        raise Problem(400, f"{name}: {found[:100]!r}: must be one of {known}")
    return found


async def _nodes(viewed: PageRequest) -> Response:
    wanted = _wanted(viewed)
    types = (int, str) if wanted.by_use else (str,)
    place = place_of(viewed, _list_of(wanted), *types)
    found = await viewed.moment.seen(lambda looking: read_nodes_page(looking, wanted, place))
    asked = ("name", "attribute", "group", "type", "color", "below", "sort")
    query = {name: viewed.text(name) for name in asked}
    return render_page(
        viewed, "nodes.html", found=found, every=found.value, wanted=wanted, query=query
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
    ("app", "ask", "queue", "place", "priority", "resources", "devices", "gang"), single=False
)


@final
@attrs.frozen
class AllocationLine:
    """An allocation on the node.

    Attributes:
        said: The fields of its ask, as in the list of asks.
        taken_us: Since when it holds the node; None if nobody knows.
    """

    said: Mapping[str, object]
    taken_us: int | None


@final
@attrs.frozen
class NodePage:
    """What the page of a node shows.

    Attributes:
        said: Its fields, as in the list of nodes.
        parts: How much of each resource type is used, the fullest first.
        devices: Its devices, and who holds them.
        came_us: When it was added, or None.
        lease_us: How long it stays without a renewal; None if it has no lease.
        reserved: The first asks for which it is reserved.
        more_reserved: How many more there are.
        standing: A page of what stands on it.
        next: The cursor of the next page, or None.
    """

    said: Mapping[str, object]
    parts: Sequence[ResourceUse]
    devices: Devices
    came_us: int | None
    lease_us: int | None
    reserved: Sequence[ReservedLine]
    more_reserved: int
    standing: Sequence[AllocationLine]
    next: str | None


# PAGE-35
def read_node_page(
    looking: ReadContext, name: str, behind: tuple[int, int] | None
) -> Steps[NodePage]:
    """Return what the page of a node shows.

    Args:
        looking: The state.
        name: The node, which exists.
        behind: Behind which allocation the page of them begins; None for the first ones.
    """
    yield
    row = NodeRow(looking, looking.view.nodes.nodes[name])
    rows = row.rows()
    devices = yield from devices_of(looking, row.node, rows)
    first = 0 if behind is None else bisect_right(rows, behind, key=_place)
    standing: list[AllocationLine] = []
    for one in rows[first : first + ALLOCATIONS_AT_ONCE]:
        yield
        since = None if one.told is None else one.told.taken_us
        standing.append(AllocationLine(row_of(_OF_ASK, one), since))
    is_last = first + ALLOCATIONS_AT_ONCE >= len(rows)
    entry = looking.ledger.node(name)
    reserved, more_reserved = yield from reserved_lines(looking, ALLOCATIONS_AT_ONCE, name)
    return NodePage(
        said=row_of(_OF_NODE, row),
        parts=parts_of(row.node),
        devices=devices,
        came_us=row.came_us(),
        lease_us=None if entry is None else entry.event.lease_us,
        reserved=reserved,
        more_reserved=more_reserved,
        standing=standing,
        next=None
        if is_last
        else cursor("standing", *_place(rows[first + ALLOCATIONS_AT_ONCE - 1])),
    )


def _place(row: AskRow) -> tuple[int, int]:
    return (row.ask.seq, row.ask.number)


async def _node(viewed: PageRequest) -> Response:
    name = viewed.in_path("name")
    place = place_of(viewed, "standing", int, int)
    behind = None if place is None else (place[0], place[1])

    def read(looking: ReadContext) -> Steps[NodePage | str]:
        nodes = looking.view.nodes.nodes
        if name not in nodes:
            return f"there is no node {name[:200]!r}{did_you_mean(name, nodes)}"
        return (yield from read_node_page(looking, name, behind))

    found = await viewed.moment.seen(read)
    if isinstance(found.value, str):
        raise Problem(404, found.value)
    return render_page(
        viewed,
        "node.html",
        found=found,
        node=found.value,
        until_us=_until_us(viewed, name),
        events=_switching(found.value),
    )


# PAGE-36
def _switching(node: NodePage) -> list[Mapping[str, object]]:
    """Return the events that make a node unschedulable, or schedulable again."""
    is_open = bool(node.said["schedulable"])
    return [{"op": "update_node", "node": node.said["node"], "schedulable": not is_open}]


def _until_us(viewed: PageRequest, name: str) -> int | None:
    """Return when the lease of a node runs out; None without one, and in the past."""
    service = viewed.service
    left_us = None if viewed.moment.is_past else service.intake.leases.left_us(name)
    return None if left_us is None else service.now_us() + left_us


NODE_PAGES: Final = (Page("GET", "/nodes/{name:path}", Role.READER, _node),)
"""The page of a node."""
