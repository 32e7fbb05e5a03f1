"""The heat map: a few paths for any number of nodes, and their names in few bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import ceil, sqrt
from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from muster.service.page.parts.nodes.cells import Cell
    from muster_core.structures.steps import Steps

GROUPS: Final = 24
"""How many groups of nodes are told apart."""

OTHERS: Final = "others"
"""The group of all nodes beyond that."""

WITHOUT: Final = "without it"
"""The group of nodes that have not the attribute."""

_ASPECT: Final = 2.2
"""How many times as wide as high the map is."""

_LARGEST: Final = 36
"""How wide a node is at most, in pixels."""

_PIECE: Final = 256


@final
@attrs.frozen
class Map:
    """The heat map of a group of nodes.

    Attributes:
        name: The name of the group; empty if there is only one.
        columns: How many nodes a row has.
        rows: How many rows it has.
        width: How wide it is at most, in pixels.
        paths: For each colour that occurs the path of its nodes, as strokes.
        hatched: The path around the nodes on which nothing may be placed.
        counts: How many nodes have each colour.
        unschedulable: On how many of them nothing may be placed.
        cells: What the script tells of the nodes, as JSON.
    """

    name: str
    columns: int
    rows: int
    width: int
    paths: Sequence[tuple[int, str]]
    hatched: str
    counts: Sequence[int]
    unschedulable: int
    cells: Mapping[str, object]


# PAGE-30
def maps_of(cells: Sequence[Cell], group: str, bands: int) -> Steps[list[Map]]:
    """Return the maps of all groups.

    Args:
        cells: The nodes.
        group: The attribute that makes the groups; empty for a single one.
        bands: How many colours there are.
    """
    columns = max(1, ceil(sqrt(len(cells) * _ASPECT)))
    grouped = _grouped(cells, group) if group else {"": cells}
    maps: list[Map] = []
    for name, found in grouped.items():
        made = yield from _map(name, found, columns, bands)
        maps.append(made)
    return maps


def _grouped(cells: Sequence[Cell], group: str) -> Mapping[str, Sequence[Cell]]:
    """Return the nodes by the value of an attribute; the rarest values are one group."""
    found: dict[str | None, list[Cell]] = {}
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


def _map(name: str, cells: Sequence[Cell], columns: int, bands: int) -> Steps[Map]:
    paths: list[list[str]] = [[] for _ in range(bands)]
    hatched: list[str] = []
    counts = [0] * bands
    for row, piece in enumerate(in_pieces(cells, columns)):
        yield
        _draw(piece, row, paths, hatched)
        for cell in piece:
            counts[cell.band] += 1
    told = yield from _told(cells, columns)
    return Map(
        name=name,
        columns=columns,
        rows=-(-len(cells) // columns),
        width=columns * _LARGEST,
        paths=[(band, "".join(path)) for band, path in enumerate(paths) if path],
        hatched="".join(hatched),
        counts=counts,
        unschedulable=sum(not cell.node.schedulable for cell in cells),
        cells=told,
    )


# PAGE-33
def _draw(piece: Sequence[Cell], row: int, paths: list[list[str]], hatched: list[str]) -> None:
    """Draw a row: neighbours of one colour are one stroke."""
    at = 0
    for (band, is_open), run in groupby(piece, lambda cell: (cell.band, cell.node.schedulable)):
        length = sum(1 for _ in run)
        paths[band].append(f"M{at} {row}h{length}")
        if not is_open:
            hatched.append(f"M{at} {row}h{length}v1h-{length}z")
        at += length


# PAGE-31
def _told(cells: Sequence[Cell], columns: int) -> Steps[Mapping[str, object]]:
    """Return what the script tells of nodes.

    Of a name it tells how many characters it shares with the one before, and the rest.
    """
    names: list[str] = []
    shared: list[int] = []
    shares: list[int] = []
    counts: list[int] = []
    before = ""
    for piece in in_pieces(cells, _PIECE):
        yield
        for cell in piece:
            name = cell.node.name
            shared.append(_shared(before, name))
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


def _shared(before: str, name: str) -> int:
    """Return with how many characters two names begin in common, as far as that is worth it.

    Other characters than those of ASCII may count twice in the script, so such names share none.
    """
    if not (before.isascii() and name.isascii()):
        return 0
    for end in range(len(before), 0, -1):
        if name.startswith(before[:end]):
            return end
    return 0
