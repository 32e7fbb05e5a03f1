"""Nodes as a list and a single answer say them."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster.service.endpoints import schemas
from muster.service.endpoints.schemas import Column, Table, row_of
from muster.service.queries.asks import ASKS, AskRow, row_of_ask
from muster.service.queries.reader import ReadContext, in_seconds
from muster_core.nodes.node import Node
from muster_core.snapshots import ReservationSnapshot

_OF_AN_ASK: Final = ASKS.picked(
    ("app", "ask", "queue", "place", "priority", "resources", "devices", "gang", "taken", "bound"),
    single=True,
)
"""What a node says of each ask on it."""


@final
@attrs.frozen(eq=False)
class NodeRow:
    """A node, and what is known of it.

    Attributes:
        looking: The state.
        node: The node.
    """

    looking: ReadContext
    node: Node

    def available(self) -> dict[str, int]:
        """Return what is free on it; less than zero where more is used than there is."""
        used = self.node.used
        kinds = {**self.node.capacity, **used}
        return {kind: self.node.capacity.get(kind, 0) - used.get(kind, 0) for kind in kinds}

    def devices(self) -> dict[str, object]:
        """Return its devices by type: their model, and what is free of each."""
        there = self.node.devices
        if there is None:
            return {}
        return {
            kind: {"model": stock.model, "free": [*there.free[kind]]}
            for kind, stock in there.stocks.items()
        }

    def queues(self) -> dict[str, int]:
        """Return how many asks of each queue stand on it."""
        apps, found = self.looking.view.apps, dict[str, int]()
        for key, _ in self.node.held:
            path = apps[key].identity.path
            found[path] = found.get(path, 0) + 1
        return found

    def came_us(self) -> int | None:
        """Return when it was added, or None if that is not known."""
        entry = self.looking.ledger.node(self.node.name)
        return None if entry is None else entry.came_us

    def rows(self) -> list[AskRow]:
        """Return the asks on it, in the order in which they were added."""
        apps, rows = self.looking.view.apps, list[AskRow]()
        for key, name in self.node.held:
            row = row_of_ask(self.looking, apps[key], name)
            if row is not None and row.allocation is not None:
                rows.append(row)
        rows.sort(key=lambda row: (row.ask.seq, row.ask.number))
        return rows

    def reserved(self) -> list[object]:
        """Return what it says of the asks for which it is reserved, in order."""
        return [
            {"app": app, "ask": ask, "start": in_seconds(one.start_us), "scope": one.scope}
            for (app, ask), one in self.reservations()
        ]

    def reservations(self) -> list[tuple[tuple[str, str], ReservationSnapshot]]:
        """Return the asks for which it is reserved, each with its reservation, in order."""
        found = self.looking.reservations().items()
        return [(_named(ask), one) for ask, one in found if one.node == self.node.name]

    def asks(self) -> list[object]:
        """Return what it says of the asks on it, in the order in which they were added."""
        return [row_of(_OF_AN_ASK, row) for row in self.rows()]


def _named(full: str) -> tuple[str, str]:
    app, _, ask = full.partition("/")
    return app, ask


# LISTS-9
NODES: Final = Table[NodeRow](
    (
        Column("node", schemas.TEXT, "its name", lambda row: row.node.name),
        Column(
            "capacity",
            schemas.AMOUNTS,
            "its capacity, in base units",
            lambda row: dict(row.node.capacity),
        ),
        Column(
            "used",
            schemas.AMOUNTS,
            "what the asks on it hold, in base units",
            lambda row: dict(row.node.used),
        ),
        Column(
            "available",
            schemas.AMOUNTS,
            "what is free, in base units; less than zero where more is used than there is",
            lambda row: row.available(),
        ),
        Column(
            "devices",
            schemas.STOCKS,
            "its devices by type: their model, and what is free of each in thousandths",
            lambda row: row.devices(),
        ),
        Column(
            "utilisation",
            schemas.RATIO,
            "how much of it is used, by the weights of the partition; `inf` if beyond all numbers",
            lambda row: schemas.ratio(row.node.weighing.utilisation(row.node.used)),
        ),
        Column(
            "schedulable",
            schemas.BOOLEAN,
            "whether asks may be placed on it",
            lambda row: row.node.schedulable,
        ),
        Column(
            "kept",
            schemas.BOOLEAN,
            "whether a node service keeps it from other asks",
            lambda row: row.node.kept,
        ),
        Column(
            "attributes", schemas.WORDS, "its attributes", lambda row: dict(row.node.attributes)
        ),
        Column(
            "count", schemas.NUMBER, "how many asks stand on it", lambda row: len(row.node.held)
        ),
        Column(
            "queues",
            schemas.AMOUNTS,
            "how many asks of each queue stand on it, by path",
            lambda row: row.queues(),
        ),
        Column(
            "came",
            schemas.maybe(schemas.SECONDS),
            "when it was added, in seconds",
            lambda row: in_seconds(row.came_us()),
        ),
        Column(
            "reserved",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "app": schemas.TEXT,
                        "ask": schemas.TEXT,
                        "start": schemas.maybe(schemas.SECONDS),
                        "scope": schemas.TEXT,
                    },
                },
            },
            "the asks for which it is reserved, from when on (in seconds; null if that is not "
            "known) and in which scope, in the order of the reservations",
            lambda row: row.reserved(),
            single=True,
        ),
        Column(
            "asks",
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {one.name: one.schema for one in _OF_AN_ASK},
                },
            },
            "the asks on it, in the order in which they were added",
            lambda row: row.asks(),
            single=True,
        ),
    )
)
"""The fields of nodes."""
