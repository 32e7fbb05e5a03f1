"""The domains of an attribute, in the order in which one is chosen.

TOPOLOGY-10. They are ordered like nodes that have the sums of their schedulable nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from muster_core.nodes.node_index import NodeIndex


@final
@attrs.define(eq=False)
class _Sum:
    """What the schedulable nodes of a domain have together.

    Attributes:
        capacity: Their capacities.
        used: What is used of them.
    """

    capacity: dict[str, int] = attrs.field(factory=dict[str, int])
    used: dict[str, int] = attrs.field(factory=dict[str, int])


@final
class Domains:
    """The domains of attributes; an order is kept until a node changes.

    Args:
        nodes: The nodes.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self._nodes = nodes
        #: The domains of each attribute, in order.
        self._orders: dict[str, tuple[str, ...]] = {}
        self._changes = -1

    # TOPOLOGY-10
    def in_order(self, attribute: str) -> tuple[str, ...]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        if self._changes != self._nodes.changes:
            self._changes = self._nodes.changes
            self._orders.clear()
        if attribute not in self._orders:
            sums = self._sums(attribute)
            ranks = [
                (self._nodes.score(one.capacity, one.used), value) for value, one in sums.items()
            ]
            self._orders[attribute] = tuple(value for _, value in sorted(ranks))
        return self._orders[attribute]

    def _sums(self, attribute: str) -> dict[str, _Sum]:
        sums: dict[str, _Sum] = {}
        for node in self._nodes.nodes.values():
            value = node.attributes.get(attribute)
            if value is None or not node.schedulable:
                continue
            one = sums.setdefault(value, _Sum())
            add_to(one.capacity, node.capacity)
            add_to(one.used, node.used)
        return sums
