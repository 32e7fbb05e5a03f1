"""What asks hold and reserve on nodes: devices with their holders, and reservations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.figures.text import free_sums, free_words, holders_of, measured, sum_words
from muster.service.page.renderer import Shown
from muster.service.queries.asks import AskRow
from muster.service.queries.reader import ReadContext
from muster_core.nodes.node import Node
from muster_core.snapshots import ReservationSnapshot
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.devices import WHOLE


# PAGE-81
def reserved_lines(
    looking: ReadContext, most: int, node: str | None = None
) -> Steps[tuple[Sequence[Shown], int]]:
    """Return what is reserved, in the order of the reservations, and how much more there is.

    Args:
        looking: The state.
        most: How many lines are returned at most.
        node: The only node that is looked at; None for all.
    """
    yield
    found = [
        (name, one)
        for name, one in looking.reservations().items()
        if node is None or one.node == node
    ]
    lines: list[Shown] = []
    for name, one in found[:most]:
        yield
        lines.append(_line(looking, name, one))
    return lines, len(found) - len(lines)


def _line(looking: ReadContext, name: str, one: ReservationSnapshot) -> Shown:
    app, _, ask = name.partition("/")
    found = looking.view.apps[looking.machine.registry.app_key(app)].find(ask)
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
"""Of how many types of devices something is said of many nodes together."""

_PIECE: Final = 128
"""How many nodes are looked at between two places to pause."""


def _words(milli: int) -> str:
    return "all" if milli == WHOLE else f"{milli}\N{NO-BREAK SPACE}milli" if milli else "nothing"


# PAGE-82
def devices_of(looking: ReadContext, node: Node, rows: Sequence[AskRow]) -> Steps[Shown]:
    """Return what the page of a node shows of its devices.

    Args:
        looking: The state.
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
    stocks: list[Shown] = []
    left = MOST_DEVICES
    for kind, stock in node.devices.stocks.items():
        yield
        free = node.devices.free[kind]
        devices = [
            _device(kind, number, there, held.get((kind, number), ()))
            for number, there in enumerate(free[:left])
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
    lost = looking.view.nodes.unusable(node)
    return {
        "stocks": stocks,
        "more": count - (MOST_DEVICES - left),
        "lost": None if lost is None else measured(lost / WHOLE),
    }


def _device(
    kind: str, number: int, free: int, held: Sequence[tuple[tuple[str, str], int]]
) -> Shown:
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
    there = {} if node.devices is None else node.devices.free
    return [free_words(kind, free) for kind, free in [*there.items()][:MOST_TYPES]]


# PAGE-83
def free_on_all(nodes: Sequence[Node]) -> Steps[list[str]]:
    """Return what is free of the devices of nodes together, a text for each of the first types."""
    sums: dict[str, tuple[int, int, int]] = {}
    for piece in in_pieces(nodes, _PIECE):
        yield
        for node in piece:
            there = {} if node.devices is None else node.devices.free
            for kind, free in there.items():
                count, whole, parts = sums.get(kind, (0, 0, 0))
                more_whole, more_parts = free_sums(free)
                sums[kind] = count + len(free), whole + more_whole, parts + more_parts
    return [sum_words(kind, *sums[kind]) for kind in sorted(sums)[:MOST_TYPES]]
