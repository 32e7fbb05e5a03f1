"""The heat map of nodes: what is shown of each node, drawn as a few paths for any number of them.

A node shows how full it is, or which queue holds most of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import ceil, sqrt
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.page.renderer import TemplateData
from muster.service.queries.reader import ReadContext
from muster_core.structures.steps import Steps, in_pieces

if TYPE_CHECKING:
    from muster_core.nodes.node import Node


BEYOND: Final = 2.0
"""The share of a type that a node has no more, and of which it still holds some."""

_EDGES: Final = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)

BANDS: Final = (
    "nothing used",
    "up to 25 %",
    "to 50 %",
    "to 75 %",
    "to 90 %",
    "to 100 %",
    "more than it has",
)
"""The bands of utilisation; a node is in the first one that it does not exceed."""

QUEUES: Final = 7
"""How many queues have a colour of their own."""

_PIECE: Final = 128
"""How many nodes are looked at between two places to pause."""


@final
@attrs.frozen
class NodesQuery:
    """Which nodes are shown, and how.

    Attributes:
        name: Those with this in their name, in lower case; empty for all.
        attribute: Those with this attribute: ``name=value``, or a name alone; empty for all.
        group: The attribute by which they are in groups; empty for one group.
        kind: The resource type whose utilisation counts; empty for that used most on each.
        queue: The queue whose children have colours of their own; empty to colour by utilisation.
        by_use: Whether the list begins with the fullest.
    """

    name: str = ""
    attribute: str = ""
    group: str = ""
    kind: str = ""
    queue: str = ""
    by_use: bool = False

    def admits(self, node: Node) -> bool:
        """Return whether a node is shown."""
        if self.name and self.name not in node.name.lower():
            return False
        if not self.attribute:
            return True
        name, has_value, value = self.attribute.partition("=")
        found = node.attributes.get(name.strip())
        return found is not None and (not has_value or found == value.strip())


@final
@attrs.define(eq=False)
class NodeCell:
    """A node in the heat map.

    Attributes:
        node: The node.
        share: How much of it is used, of the wanted type.
        band: The number of its colour.
    """

    node: Node
    share: float
    band: int


@final
@attrs.frozen
class NodeCells:
    """All nodes that are shown.

    Attributes:
        cells: The nodes, by name.
        bands: What the colours mean.
        below: For each colour the queue that it stands for, if it is one with queues below it.
        count: How many nodes there are.
        attributes: The names of attributes that nodes have.
    """

    cells: Sequence[NodeCell]
    bands: Sequence[str]
    below: Sequence[str | None]
    count: int
    attributes: Sequence[str]


def share_of(node: Node, kind: str = "") -> float:
    """Return how much of a node is used.

    Args:
        node: The node.
        kind: The resource type that counts; empty for that of which most is used.
    """
    used, capacity = node.used, node.capacity
    most = 0.0
    for name in (kind,) if kind else used:
        amount = used.get(name, 0)
        if amount:
            capacity_of_kind = capacity.get(name, 0)
            share = amount / capacity_of_kind if capacity_of_kind else BEYOND
            most = max(most, share)
    return most


# PAGE-30
def read_cells(context: ReadContext, wanted: NodesQuery) -> Steps[NodeCells]:
    """Return the nodes that are shown."""
    nodes = context.view.nodes.nodes
    cells: list[NodeCell] = []
    attributes: set[str] = set()
    for piece in in_pieces(sorted(nodes), _PIECE):
        yield
        for name in piece:
            node = nodes[name]
            attributes.update(node.attributes)
            if wanted.admits(node):
                share = share_of(node, wanted.kind)
                cells.append(NodeCell(node, share, bisect_left(_EDGES, share)))
    bands: Sequence[str] = BANDS
    below: Sequence[str | None] = [None] * len(BANDS)
    if wanted.queue:
        bands, below = yield from _colour_by_queue(context, wanted.queue, cells)
    return NodeCells(cells, bands, below, len(nodes), sorted(attributes))


# PAGE-32
def _colour_by_queue(
    context: ReadContext, queue: str, cells: Sequence[NodeCell]
) -> Steps[tuple[Sequence[str], Sequence[str | None]]]:
    """Give each node the colour of the queue that holds most of it; return what colours mean."""
    below = _BranchFinder(queue)
    holders: list[str | None] = []
    for piece in in_pieces(cells, _PIECE):
        yield
        holders += [_holder(context, cell.node, below) for cell in piece]
    counts = Counter(holder for holder in holders if holder is not None)
    most = sorted(counts, key=lambda name: (-counts[name], name))[:QUEUES]
    numbers = {name: at for at, name in enumerate(sorted(most), 1)}
    others = len(numbers) + 1
    for pairs in in_pieces(zip(cells, holders, strict=True), _PIECE):
        yield
        for cell, holder in pairs:
            cell.band = 0 if holder is None else numbers.get(holder, others)
    names = [*numbers]
    queues = context.machine.registry.queues
    opens = [name if name in queues and queues[name].children else None for name in names]
    if len(counts) > len(names):
        return ["nothing used", *names, "other queues"], [None, *opens, None]
    return ["nothing used", *names], [None, *opens]


ELSEWHERE: Final = "queues elsewhere"
"""The name for all queues that are not below the wanted one."""


@final
class _BranchFinder:
    """Finds the child of a queue that a leaf is below.

    Args:
        queue: The path of the queue.
    """

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._depth = queue.count(".") + 1
        self._found: dict[str, str] = {}

    def child_of(self, path: str) -> str:
        found = self._found.get(path)
        if found is None:
            found = self._found[path] = self._find(path)
        return found

    def _find(self, path: str) -> str:
        if path != self._queue and not path.startswith(f"{self._queue}."):
            return ELSEWHERE
        return ".".join(path.split(".")[: self._depth + 1])


def _holder(context: ReadContext, node: Node, below: _BranchFinder) -> str | None:
    """Return the queue that holds the largest dominant share of a node, or None."""
    apps, sums = context.view.apps, dict[str, Mapping[str, int]]()
    for key, name in node.held:
        app = apps[key]
        held = app.bound.get(name) or app.waiting.get(name)
        if held is not None:
            amounts, queue = held[0].ask.resources.amounts, below.child_of(app.identity.path)
            before = sums.get(queue)
            sums[queue] = amounts if before is None else _sum(before, amounts)
    if len(sums) < 2:
        return next(iter(sums), None)
    return min((-_dominant(used, node.capacity), queue) for queue, used in sums.items())[1]


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {**one, **{kind: amount + one.get(kind, 0) for kind, amount in other.items()}}


def _dominant(used: Mapping[str, int], capacity: Mapping[str, int]) -> float:
    most = 0.0
    for kind, amount in used.items():
        whole = capacity.get(kind, 0)
        share = amount / whole if whole else BEYOND
        most = max(share, most)
    return most


GROUPS: Final = 24
"""How many groups of nodes have maps of their own."""

OTHERS: Final = "others"
"""The group of all nodes beyond that."""

WITHOUT: Final = "without it"
"""The group of nodes that have not the attribute."""

_ASPECT: Final = 2.2
"""How many times as wide as high the map is."""

_LARGEST: Final = 36
"""How wide a node is at most, in pixels."""

_DRAWN_AT_ONCE: Final = 256


# PAGE-30
def maps_of(cells: Sequence[NodeCell], group: str, bands: int) -> Steps[list[TemplateData]]:
    """Return the maps of all groups.

    Args:
        cells: The nodes.
        group: The attribute that makes the groups; empty for a single one.
        bands: How many colours there are.
    """
    columns = max(1, ceil(sqrt(len(cells) * _ASPECT)))
    grouped = _groups_of(cells, group) if group else {"": cells}
    maps: list[TemplateData] = []
    for name, found in grouped.items():
        made = yield from _map(name, found, columns, bands)
        maps.append(made)
    return maps


def _groups_of(cells: Sequence[NodeCell], group: str) -> Mapping[str, Sequence[NodeCell]]:
    """Return the nodes by the value of an attribute; the rarest values are one group."""
    found: dict[str | None, list[NodeCell]] = {}
    for cell in cells:
        found.setdefault(cell.node.attributes.get(group), []).append(cell)
    without = found.pop(None, [])
    named = {name: found[name] for name in found if name is not None}
    kept = set(sorted(named, key=lambda name: (-len(named[name]), name))[:GROUPS])
    grouped = {f"{group}={name}": named[name] for name in sorted(kept)}
    others = [cell for cell in cells if cell.node.attributes.get(group) in named.keys() - kept]
    if others:
        grouped[OTHERS] = others
    if without:
        grouped[WITHOUT] = without
    return grouped


def _map(name: str, cells: Sequence[NodeCell], columns: int, bands: int) -> Steps[TemplateData]:
    paths: list[list[str]] = [[] for _ in range(bands)]
    hatched: list[str] = []
    counts = [0] * bands
    for row, piece in enumerate(in_pieces(cells, columns)):
        yield
        _draw(piece, row, paths, hatched)
        for cell in piece:
            counts[cell.band] += 1
    cell_data = yield from _cell_data(cells, columns)
    return {
        "name": name,
        "columns": columns,
        "rows": -(-len(cells) // columns),
        "width": columns * _LARGEST,
        "paths": [(band, "".join(path)) for band, path in enumerate(paths) if path],
        "hatched": "".join(hatched),
        "counts": counts,
        "unschedulable": sum(not cell.node.schedulable for cell in cells),
        "cells": cell_data,
    }


# PAGE-33
def _draw(piece: Sequence[NodeCell], row: int, paths: list[list[str]], hatched: list[str]) -> None:
    """Draw a row: neighbours of one colour are one stroke."""
    at = 0
    for (band, is_open), run in groupby(piece, lambda cell: (cell.band, cell.node.schedulable)):
        length = sum(1 for _ in run)
        paths[band].append(f"M{at} {row}h{length}")
        if not is_open:
            hatched.append(f"M{at} {row}h{length}v1h-{length}z")
        at += length


# PAGE-31
def _cell_data(cells: Sequence[NodeCell], columns: int) -> Steps[Mapping[str, object]]:
    """Return the data of nodes for the script.

    A name is written as the number of characters that it shares with the one before, and the rest.
    """
    names: list[str] = []
    shared: list[int] = []
    shares: list[int] = []
    counts: list[int] = []
    before = ""
    for piece in in_pieces(cells, _DRAWN_AT_ONCE):
        yield
        for cell in piece:
            name = cell.node.name
            shared.append(_shared_length(before, name))
            names.append(name[shared[-1] :])
            shares.append(round(cell.share * 100))
            counts.append(len(cell.node.held))
            before = name
    closed = [at for at, cell in enumerate(cells) if not cell.node.schedulable]
    return {
        "columns": columns,
        "shared": shared,
        "names": names,
        "shares": shares,
        "counts": counts,
        "bands": "".join(f"{cell.band:x}" for cell in cells),
        "unschedulable": closed,
    }


def _shared_length(before: str, name: str) -> int:
    """Return with how many characters two names begin in common, as far as that is worth it.

    Other characters than those of ASCII may count twice in the script, so such names share none.
    """
    if not (before.isascii() and name.isascii()):
        return 0
    for end in range(len(before), 0, -1):
        if name.startswith(before[:end]):
            return end
    return 0
