"""The order of nodes for one search for a plan: that of nodes, and before it that of a topology.

EVICTION-25, TOPOLOGY-13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from muster_core.nodes.node import Node
    from muster_core.nodes.node_index import NodeIndex
    from muster_core.structures.ranking import Rank
    from muster_core.structures.shapes import Shape
    from muster_core.view.gangs.standing import Standing


@final
class NodeOrder:
    """The order in which nodes are looked at for an ask.

    Args:
        nodes: The nodes.
        shape: The shape of the ask.
        standing: Where the members of its gang stand; None without a topology.
    """

    def __init__(self, nodes: NodeIndex, shape: Shape, standing: Standing | None) -> None:
        self._nodes = nodes
        self._shape = shape
        self._standing = standing

    # TOPOLOGY-12
    def lets(self, node: Node) -> bool:
        """Return whether the topology lets the ask be on a node."""
        return self._standing is None or self._standing.lets(node)

    # TOPOLOGY-13
    def rank(self, node: Node) -> Rank:
        """Return the place of a node in the order."""
        rank = self._nodes.rank_for(node, self._shape)
        return rank if self._standing is None else (self._standing.place(node) or 0, *rank)

    def every(self) -> Iterable[Node]:
        """Return all nodes, in order."""
        if self._standing is None:
            return self._nodes.in_order_for(self._shape)
        return sorted(self._nodes.nodes.values(), key=self.rank)

    def some(self, nodes: Collection[Node]) -> Iterable[Node]:
        """Return some of the nodes, in order."""
        if self._standing is None:
            return self._nodes.in_order_for(self._shape, nodes)
        return sorted(nodes, key=self.rank)
