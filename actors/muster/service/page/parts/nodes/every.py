"""All nodes: a heat map, what its colours mean with counts, and a list."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.text import Unit, number, percent
from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.nodes.cells import Cell, Cells, Wanted, read_cells, share_of
from muster.service.page.parts.nodes.devices import free_on, free_on_all
from muster.service.page.parts.nodes.heat import Map, maps_of
from muster.service.page.parts.places import place_of
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.cursors import cursor
from muster.service.reading.looking import Looking
from muster.service.reading.nodes import NODES, NodeRow

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.nodes.node import Node
    from muster_core.structures.steps import Steps

AT_ONCE: Final = 50
"""How many nodes the list shows at once."""

_COLUMNS: Final = NODES.picked(
    ("node", "available", "schedulable", "kept", "attributes", "count"), single=False
)

_BILLION: Final = 10**9

Place = tuple[int | str, ...]


@final
@attrs.frozen
class Part:
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
class Listed:
    """A node in the list.

    Attributes:
        said: Its fields, as in the list of nodes.
        parts: How much of each resource type is used, the fullest first.
        devices: What is free of its devices, a text for each type.
        is_reserved: Whether it is reserved for an ask.
    """

    said: Mapping[str, object]
    parts: Sequence[Part]
    devices: Sequence[str]
    is_reserved: bool


@final
@attrs.frozen
class Every:
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
    maps: Sequence[Map]
    kinds: Sequence[str]
    attributes: Sequence[str]
    listed: Sequence[Listed]
    next: str | None

    def counts(self) -> list[int]:
        """Return how many nodes have each colour."""
        return [sum(one.counts[at] for one in self.maps) for at in range(len(self.bands))]


def read_every(looking: Looking, wanted: Wanted, behind: Place | None) -> Steps[Every]:
    """Return what the page of all nodes shows.

    Args:
        looking: The state.
        wanted: Which nodes, and how.
        behind: Behind which place the page of the list begins; None for the first one.
    """
    found: Cells = yield from read_cells(looking, wanted)
    maps = yield from maps_of(found.cells, wanted.group, len(found.bands))
    devices = yield from free_on_all([cell.node for cell in found.cells])
    listed, after = yield from _page(looking, found.cells, wanted, behind)
    return Every(
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
    looking: Looking, cells: Sequence[Cell], wanted: Wanted, behind: Place | None
) -> Steps[tuple[list[Listed], str | None]]:
    """Return a page of the list, and the cursor of the next one."""
    yield
    place = _by_use if wanted.by_use else _by_name
    in_order = sorted(cells, key=place) if wanted.by_use else cells
    first = 0 if behind is None else bisect_right(in_order, behind, key=place)
    listed: list[Listed] = []
    reserved = {one.node for one in looking.reservations().values()}
    for cell in in_order[first : first + AT_ONCE]:
        yield
        row = NodeRow(looking, cell.node)
        is_reserved = cell.node.name in reserved
        said, parts = row_of(_COLUMNS, row), parts_of(cell.node)
        listed.append(Listed(said, parts, free_on(cell.node), is_reserved))
    if first + AT_ONCE >= len(in_order):
        return listed, None
    return listed, cursor(_list_of(wanted), *place(in_order[first + AT_ONCE - 1]))


def _by_name(cell: Cell) -> tuple[int | str, ...]:
    return (cell.node.name,)


def _by_use(cell: Cell) -> tuple[int | str, ...]:
    return (-round(cell.share * _BILLION), cell.node.name)


def _list_of(wanted: Wanted) -> str:
    return "nodes by use" if wanted.by_use else "nodes"


def parts_of(node: Node) -> list[Part]:
    """Return how much of each resource type of a node is used, the fullest first."""
    parts: list[Part] = []
    for kind in {**node.capacity, **node.used}:
        used, there = node.used.get(kind, 0), node.capacity.get(kind, 0)
        share = share_of(node, kind)
        told = percent(share) if there else "none left"
        unit = Unit.of(kind, max(used, there))
        words = f"{number(used / unit.scale)} of {unit.text(there)}, {told}"
        parts.append(Part(kind, share, words))
    return sorted(parts, key=lambda part: (-part.share, part.kind))


def _wanted(viewed: Viewed) -> Wanted:
    """Return which nodes a request is about.

    Raises:
        Problem: 400 if a value means nothing.
    """
    by_queue = _word(viewed, "color", {"", "queue"}) == "queue"
    return Wanted(
        name=viewed.text("name").lower(),
        attribute=viewed.text("attribute"),
        group=viewed.text("group"),
        kind=viewed.text("type"),
        queue=(viewed.text("below").lower() or "root") if by_queue else "",
        by_use=_word(viewed, "sort", {"", "name", "use"}) == "use",
    )


def _word(viewed: Viewed, name: str, words: set[str]) -> str:
    found = viewed.text(name)
    if found not in words:
        known = ", ".join(sorted(words - {""}))
        raise Problem(400, f"{name}: {found[:100]!r}: must be one of {known}")
    return found


async def _nodes(viewed: Viewed) -> Response:
    wanted = _wanted(viewed)
    types = (int, str) if wanted.by_use else (str,)
    place = place_of(viewed, _list_of(wanted), *types)
    found = await viewed.moment.seen(lambda looking: read_every(looking, wanted, place))
    asked = ("name", "attribute", "group", "type", "color", "below", "sort")
    query = {name: viewed.text(name) for name in asked}
    return shown(viewed, "nodes.html", found=found, every=found.value, wanted=wanted, query=query)


PAGES: Final = (Page("GET", "/nodes", Role.READER, _nodes),)
"""All nodes."""
