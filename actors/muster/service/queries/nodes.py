"""Nodes, as lists and single answers have them."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster.feeds._affinity import TAINTS
from muster.service.endpoints.schemas import (
    RATIO,
    SECONDS,
    STOCKS,
    TEXT,
    Column,
    Table,
    amounts,
    array,
    flag,
    in_seconds,
    instant,
    maybe,
    number,
    ratio,
    row_of,
    shape,
    text,
    word,
    words,
)
from muster.service.queries.asks import ASKS, AskRow, place_of_ask, row_of_ask
from muster.service.queries.reader import ReadContext
from muster_core.nodes.node import Node
from muster_core.snapshots import ReservationSnapshot
from muster_core.values.affinity import TaintEffect

_OF_AN_ASK: Final = ASKS.picked(
    (
        "app",
        "ask",
        "pod",
        "queue",
        "place",
        "priority",
        "resources",
        "devices",
        "gang",
        "taken",
        "bound",
    ),
    single=True,
)
"""The fields of each ask on a node."""


@final
@attrs.frozen(eq=False)
class NodeRow:
    """A node, and what is known of it.

    Attributes:
        context: The state.
        node: The node.
    """

    context: ReadContext
    node: Node

    def available(self) -> dict[str, int]:
        """Return what is free on it; less than zero where more is used than there is."""
        used, others = self.node.used, self.node.reserved
        kinds = {**self.node.capacity, **used}
        free = {kind: self.node.capacity.get(kind, 0) - used.get(kind, 0) for kind in kinds}
        # RESERVED-2
        return {
            kind: max(amount - others[kind], 0) if kind in others else amount
            for kind, amount in free.items()
        }

    def devices(self) -> dict[str, object]:
        """Return its devices by type: their model, and what is free of each."""
        stocks = self.node.devices
        if stocks is None:
            return {}
        return {
            kind: {"model": stock.model, "free": [*stocks.free[kind]]}
            for kind, stock in stocks.stocks.items()
        }

    def queues(self) -> dict[str, int]:
        """Return how many asks of each queue are on it."""
        apps, found = self.context.view.apps, dict[str, int]()
        for key, _ in self.node.held:
            path = apps[key].identity.path
            found[path] = found.get(path, 0) + 1
        return found

    def came_us(self) -> int | None:
        """Return when it was added, or None if that is not known."""
        entry = self.context.ledger.node(self.node.name)
        return None if entry is None else entry.came_us

    def rows(self) -> list[AskRow]:
        """Return the asks on it, in the order in which they were added."""
        apps, rows = self.context.view.apps, list[AskRow]()
        for key, name in self.node.held:
            row = row_of_ask(self.context, apps[key], name)
            if row is not None and row.allocation is not None:
                rows.append(row)
        rows.sort(key=place_of_ask)
        return rows

    def reserved(self) -> list[object]:
        """Return the fields of the asks for which it is reserved, in order."""
        return [
            {"app": app, "ask": ask, "start": in_seconds(one.start_us), "scope": one.scope}
            for (app, ask), one in self.reservations()
        ]

    def reservations(self) -> list[tuple[tuple[str, str], ReservationSnapshot]]:
        """Return the asks for which it is reserved, each with its reservation, in order."""
        found = self.context.reservations().items()
        return [(_split_name(ask), one) for ask, one in found if one.node == self.node.name]

    def asks(self) -> list[object]:
        """Return the fields of the asks on it, in the order in which they were added."""
        return [row_of(_OF_AN_ASK, row) for row in self.rows()]


def _split_name(full: str) -> tuple[str, str]:
    app, _, ask = full.partition("/")
    return app, ask


# LISTS-9
NODES: Final = Table[NodeRow](
    text("node", "its name", lambda n: n.node.name),
    amounts("capacity", "its capacity, in base units", lambda n: n.node.capacity),
    amounts("used", "what the asks on it hold, in base units", lambda n: n.node.used),
    amounts(
        "used_by_others",
        "what is reserved on it for others that are no asks, in base units",
        lambda n: n.node.reserved,
    ),
    amounts(
        "available",
        "what is free, in base units; less than zero where asks hold more than there is",
        NodeRow.available,
    ),
    Column(
        "devices",
        STOCKS,
        "its devices by type: their model, and what is free of each in thousandths",
        NodeRow.devices,
    ),
    Column(
        "utilisation",
        RATIO,
        "how much of it is used, by the weights of the partition; `inf` if beyond all numbers",
        lambda n: ratio(n.node.weighing.utilisation(n.node.used)),
    ),
    flag("schedulable", "whether asks may be placed on it", lambda n: n.node.schedulable),
    flag("kept", "whether a node service keeps it from other asks", lambda n: n.node.kept),
    words("attributes", "its attributes", lambda n: n.node.attributes),
    Column(
        "taints",
        array(shape(key=TEXT, value=TEXT, effect=word(TaintEffect))),
        "its taints",
        lambda n: TAINTS.write(n.node.taints),
    ),
    number("count", "how many asks stand on it", lambda n: len(n.node.held)),
    amounts("queues", "how many asks of each queue stand on it, by path", NodeRow.queues),
    instant("came", "when it was added, in seconds", NodeRow.came_us),
    Column(
        "reserved",
        array(shape(app=TEXT, ask=TEXT, start=maybe(SECONDS), scope=TEXT)),
        "the asks for which it is reserved, from when on (in seconds; null if that is not "
        "known) and in which scope, in the order of the reservations",
        NodeRow.reserved,
        single=True,
    ),
    Column(
        "asks",
        array(shape(**{one.name: one.schema for one in _OF_AN_ASK})),
        "the asks on it, in the order in which they were added",
        NodeRow.asks,
        single=True,
    ),
)
"""The fields of nodes."""
