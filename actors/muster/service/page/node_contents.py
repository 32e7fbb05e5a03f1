"""What asks hold and reserve on nodes: devices with their holders, and reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster.figures.text import free_sums, free_words, holders_of, measured, sum_words
from muster.service.queries.asks import AskRow
from muster.service.queries.reader import ReadContext
from muster_core.nodes.node import Node
from muster_core.snapshots import ReservationSnapshot
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.devices import WHOLE


@final
@attrs.frozen
class ReservedLine:
    """A node that is reserved for an ask.

    Attributes:
        app: The application of the ask.
        ask: Its name.
        node: The node.
        start_us: From when on, in microseconds since the origin; None if that is not known.
        scope: The path of the queue with ``backfill``.
        resources: What the ask asks for.
        gang: Its gang, or None.
    """

    app: str
    ask: str
    node: str
    start_us: int | None
    scope: str
    resources: Mapping[str, int]
    gang: str | None


# PAGE-81
def reserved_lines(
    looking: ReadContext, most: int, node: str | None = None
) -> Steps[tuple[Sequence[ReservedLine], int]]:
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
    lines: list[ReservedLine] = []
    for name, one in found[:most]:
        yield
        lines.append(_line(looking, name, one))
    return lines, len(found) - len(lines)


def _line(looking: ReadContext, name: str, one: ReservationSnapshot) -> ReservedLine:
    app, _, ask = name.partition("/")
    found = looking.view.apps[looking.machine.registry.app_key(app)].find(ask)
    assert found is not None, "an ask with a reservation is gone"
    return ReservedLine(
        app, ask, one.node, one.start_us, one.scope, dict(found.resources.amounts), found.gang
    )


MOST_DEVICES: Final = 256
"""How many devices of a node are shown."""

MOST_HOLDERS: Final = 16
"""How many holders of a device are shown."""

MOST_TYPES: Final = 6
"""Of how many types of devices something is said of many nodes together."""

_PIECE: Final = 128
"""How many nodes are looked at between two places to pause."""


@final
@attrs.frozen
class DeviceHolder:
    """An ask that holds a device.

    Attributes:
        app: Its application.
        ask: Its name.
        milli: How much of the device it holds.
    """

    app: str
    ask: str
    milli: int


@final
@attrs.frozen
class Device:
    """A device of a node.

    Attributes:
        name: Its type and number.
        free: What is free of it, in milli.
        holders: The first asks that hold it, in the order in which they were added.
        more: How many more there are.
    """

    name: str
    free: int
    holders: Sequence[DeviceHolder]
    more: int

    @property
    def share(self) -> float:
        """How much of it is used, where 1 is all of it."""
        return 1 - self.free / WHOLE

    @property
    def used_words(self) -> str:
        """How much of it is used, in words."""
        return _words(WHOLE - self.free)

    @property
    def free_words(self) -> str:
        """How much of it is free, in words."""
        return _words(self.free)


def _words(milli: int) -> str:
    return "all" if milli == WHOLE else f"{milli}\N{NO-BREAK SPACE}milli" if milli else "nothing"


@final
@attrs.frozen
class StockLine:
    """The devices of one type on a node.

    Attributes:
        kind: The type.
        model: Their model, or None.
        words: What is free of them, in words.
        devices: Those that are shown.
    """

    kind: str
    model: str | None
    words: str
    devices: Sequence[Device]


@final
@attrs.frozen
class Devices:
    """The devices of a node.

    Attributes:
        stocks: The types that are shown.
        more: How many devices are not shown.
        lost: How many devices of what is free a typical ask cannot use on average; None unless
            nodes are ordered by ``fgd`` and there are typical asks.
    """

    stocks: Sequence[StockLine] = ()
    more: int = 0
    lost: str | None = None


# PAGE-82
def devices_of(looking: ReadContext, node: Node, rows: Sequence[AskRow]) -> Steps[Devices]:
    """Return what the page of a node shows of its devices.

    Args:
        looking: The state.
        node: The node.
        rows: The asks on it, in the order in which they were added.
    """
    yield
    if node.devices is None:
        return Devices()
    held = holders_of(
        ((row.app.identity.name, row.ask.name), row.devices(), row.ask.resources.amounts)
        for row in rows
    )
    stocks: list[StockLine] = []
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
            stocks.append(StockLine(kind, stock.model, free_words(kind, free), devices))
    count = sum(stock.count for stock in node.devices.stocks.values())
    lost = looking.view.nodes.unusable(node)
    return Devices(
        stocks, count - (MOST_DEVICES - left), None if lost is None else measured(lost / WHOLE)
    )


def _device(
    kind: str, number: int, free: int, held: Sequence[tuple[tuple[str, str], int]]
) -> Device:
    holders = [DeviceHolder(app, ask, milli) for (app, ask), milli in held[:MOST_HOLDERS]]
    return Device(f"{kind} {number}", free, holders, len(held) - len(holders))


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
