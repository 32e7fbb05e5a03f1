"""The domains of an attribute: their order, and how many equal asks each has room for.

TOPOLOGY-7, TOPOLOGY-10. Domains are ordered like nodes that have the sums of their schedulable
nodes. Results for a node are kept until the node changes, so that a gang that is tried in vain
again and again costs little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs

from muster_core.nodes.node import Node
from muster_core.nodes.node_index import NodeIndex
from muster_core.structures.amounts import add_to, take_from
from muster_core.structures.shapes import Shape
from muster_core.values.records import MAP

More = Mapping[str, Mapping[str, int]]
"""The assumed change of the usage of nodes, by their names."""

_NOTHING: Final[More] = {}

_MOST_SHAPES: Final = 64
"""For how many shapes the room of domains is kept."""


@final
@attrs.define(eq=False)
class _DomainSum:
    """The sums of the schedulable nodes of a domain.

    Attributes:
        count: How many they are.
        used: Their usage.
    """

    count: int = 0
    capacity: dict[str, int] = attrs.field(factory=MAP)
    used: dict[str, int] = attrs.field(factory=MAP)


@final
@attrs.frozen(eq=False)
class _NodeRecord:
    """A schedulable node of a domain, as it was when it was last looked at."""

    version: int
    domain: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]


@final
class _DomainOrder:
    """The domains of one attribute, in order."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute
        #: The value of :attr:`NodeIndex.changes` when this was up to date.
        self.changes = -1
        self.domains: tuple[str, ...] = ()
        self._seen: dict[Node, _NodeRecord | int] = {}
        self._sums: dict[str, _DomainSum] = {}

    def refresh(self, nodes: NodeIndex) -> None:
        """Look at the nodes that have changed."""
        self.changes = nodes.changes
        seen = self._seen
        for node in nodes.nodes.values():
            known = seen.get(node)
            version = known.version if isinstance(known, _NodeRecord) else known
            if version != node.version:
                self._forget(known)
                seen[node] = self._look_at(node)
        if len(seen) > len(nodes.nodes):
            for node in [one for one in seen if nodes.nodes.get(one.name) is not one]:
                self._forget(seen.pop(node))
        self.domains = self._sorted(nodes, {})

    def if_used(self, nodes: NodeIndex, more: More) -> tuple[str, ...]:
        """Return the domains in the order that they would have; nodes must have been looked at."""
        used: dict[str, dict[str, int]] = {}
        for name, amounts in more.items():
            node = nodes.nodes.get(name)
            seen = None if node is None else self._seen[node]
            if isinstance(seen, _NodeRecord):
                if seen.domain not in used:
                    used[seen.domain] = dict(self._sums[seen.domain].used)
                add_to(used[seen.domain], amounts)
        return self._sorted(nodes, used)

    # TOPOLOGY-10
    def _sorted(self, nodes: NodeIndex, used: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
        """Sort the domains, of some of which other amounts are used."""
        ranks = [
            (nodes.score(one.capacity, used.get(value, one.used)), value)
            for value, one in self._sums.items()
        ]
        return tuple(value for _, value in sorted(ranks))

    def _look_at(self, node: Node) -> _NodeRecord | int:
        """Count a node; return its version if it does not count."""
        domain = node.attributes.get(self._attribute)
        if domain is None or not node.schedulable:
            return node.version
        seen = _NodeRecord(node.version, domain, node.capacity, dict(node.used))
        total = self._sums.setdefault(domain, _DomainSum())
        total.count += 1
        add_to(total.capacity, seen.capacity)
        add_to(total.used, seen.used)
        return seen

    def _forget(self, seen: _NodeRecord | int | None) -> None:
        if not isinstance(seen, _NodeRecord):
            return
        total = self._sums[seen.domain]
        total.count -= 1
        take_from(total.capacity, seen.capacity)
        take_from(total.used, seen.used)
        if not total.count:
            del self._sums[seen.domain]


@final
class _DomainCapacity:
    """How many asks of one shape each domain of one attribute has room for."""

    def __init__(self) -> None:
        self.changes = -1
        self.rooms: dict[str, int] = {}
        self._seen: dict[Node, tuple[int, str | None, int]] = {}

    def refresh(self, nodes: NodeIndex, attribute: str, shape: Shape) -> None:
        """Look at the nodes that have changed."""
        self.changes = nodes.changes
        rooms, seen = self.rooms, self._seen
        for node in nodes.nodes.values():
            known = seen.get(node)
            if known is not None and known[0] == node.version:
                continue
            self._forget(known)
            domain = node.attributes.get(attribute)
            count = 0 if domain is None else nodes.room_on(node, shape)
            seen[node] = (node.version, domain, count)
            if domain is not None and count:
                rooms[domain] = rooms.get(domain, 0) + count
        if len(seen) > len(nodes.nodes):
            for node in [one for one in seen if nodes.nodes.get(one.name) is not one]:
                self._forget(seen.pop(node))

    def _forget(self, known: tuple[int, str | None, int] | None) -> None:
        if known is not None and known[1] is not None and known[2]:
            self.rooms[known[1]] -= known[2]


@final
class Domains:
    """The domains of attributes."""

    def __init__(self, nodes: NodeIndex) -> None:
        self._nodes = nodes
        self._orders: dict[str, _DomainOrder] = {}
        self._rooms: dict[tuple[str, Shape], _DomainCapacity] = {}

    # TOPOLOGY-10
    def in_order(self, attribute: str, more: More = _NOTHING) -> tuple[str, ...]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        order = self._orders.get(attribute)
        if order is None:
            order = self._orders[attribute] = _DomainOrder(attribute)
        if order.changes != self._nodes.changes:
            order.refresh(self._nodes)
        return order.if_used(self._nodes, more) if more else order.domains

    def rooms(self, attribute: str, shape: Shape) -> Mapping[str, int]:
        """Return how many asks of a shape fit in each domain, at most; none is left out that has any.

        Args:
            attribute: The attribute.
            shape: The shape; nodes that are kept do not count.
        """
        found = self._rooms.get((attribute, shape))
        if found is None:
            if len(self._rooms) >= _MOST_SHAPES:
                self._rooms.clear()
            found = self._rooms[attribute, shape] = _DomainCapacity()
        if found.changes != self._nodes.changes:
            found.refresh(self._nodes, attribute, shape)
        return found.rooms
