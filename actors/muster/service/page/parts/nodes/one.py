"""A node: how full it is, and what stands on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.access.who import Role
from muster.service.endpoints.columns import row_of
from muster.service.page.parts.nodes.devices import Devices, devices_of
from muster.service.page.parts.nodes.every import Part, parts_of
from muster.service.page.parts.places import place_of
from muster.service.page.parts.reserved import ReservedLine, reserved_lines
from muster.service.page.rendering import shown
from muster.service.page.viewed import Page, Viewed
from muster.service.problems import Problem
from muster.service.reading.asks import ASKS, AskRow
from muster.service.reading.cursors import cursor
from muster.service.reading.looking import Looking
from muster.service.reading.nodes import NODES, NodeRow
from muster_core.values.nearest import did_you_mean

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster_core.structures.steps import Steps

AT_ONCE: Final = 100
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
class Standing:
    """An allocation on the node.

    Attributes:
        said: The fields of its ask, as in the list of asks.
        taken_us: Since when it holds the node; None if nobody knows.
    """

    said: Mapping[str, object]
    taken_us: int | None


@final
@attrs.frozen
class Opened:
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
    parts: Sequence[Part]
    devices: Devices
    came_us: int | None
    lease_us: int | None
    reserved: Sequence[ReservedLine]
    more_reserved: int
    standing: Sequence[Standing]
    next: str | None


# PAGE-35
def open_node(looking: Looking, name: str, behind: tuple[int, int] | None) -> Steps[Opened]:
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
    standing: list[Standing] = []
    for one in rows[first : first + AT_ONCE]:
        yield
        since = None if one.told is None else one.told.taken_us
        standing.append(Standing(row_of(_OF_ASK, one), since))
    is_last = first + AT_ONCE >= len(rows)
    entry = looking.ledger.node(name)
    reserved, more_reserved = yield from reserved_lines(looking, AT_ONCE, name)
    return Opened(
        said=row_of(_OF_NODE, row),
        parts=parts_of(row.node),
        devices=devices,
        came_us=row.came_us(),
        lease_us=None if entry is None else entry.event.lease_us,
        reserved=reserved,
        more_reserved=more_reserved,
        standing=standing,
        next=None if is_last else cursor("standing", *_place(rows[first + AT_ONCE - 1])),
    )


def _place(row: AskRow) -> tuple[int, int]:
    return (row.ask.seq, row.ask.number)


async def _node(viewed: Viewed) -> Response:
    name = viewed.in_path("name")
    place = place_of(viewed, "standing", int, int)
    behind = None if place is None else (place[0], place[1])

    def read(looking: Looking) -> Steps[Opened | str]:
        nodes = looking.view.nodes.nodes
        if name not in nodes:
            return f"there is no node {name[:200]!r}{did_you_mean(name, nodes)}"
        return (yield from open_node(looking, name, behind))

    found = await viewed.moment.seen(read)
    if isinstance(found.value, str):
        raise Problem(404, found.value)
    return shown(
        viewed,
        "node.html",
        found=found,
        node=found.value,
        until_us=_until_us(viewed, name),
        events=_switching(found.value),
    )


# PAGE-36
def _switching(node: Opened) -> list[Mapping[str, object]]:
    """Return the events that make a node unschedulable, or schedulable again."""
    is_open = bool(node.said["schedulable"])
    return [{"op": "update_node", "node": node.said["node"], "schedulable": not is_open}]


def _until_us(viewed: Viewed, name: str) -> int | None:
    """Return when the lease of a node runs out; None without one, and in the past."""
    service = viewed.service
    left_us = None if viewed.moment.is_past else service.intake.leases.left_us(name)
    return None if left_us is None else service.now_us() + left_us


PAGES: Final = (Page("GET", "/nodes/{name:path}", Role.READER, _node),)
"""The page of a node."""
