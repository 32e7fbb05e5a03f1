"""The order of nodes for one search for a plan: that of nodes, and before it that of a topology.

EVICTION-25, TOPOLOGY-13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from muster_core.nodes.node import Node
    from muster_core.nodes.node_index import NodeIndex
    from muster_core.structures.ranking import Rank
    from muster_core.view.gangs.standing import Standing

FEW: Final = 8
"""If fewer than one node in so many are candidates, these are sorted again."""


@final
class NodeOrder:
    """The order in which nodes are looked at for an ask.

    Args:
        nodes: The nodes.
        standing: Where the members of its gang stand; None without a topology.
    """

    def __init__(self, nodes: NodeIndex, standing: Standing | None) -> None:
        self._nodes = nodes
        self._standing = standing

    # TOPOLOGY-12
    def lets(self, node: Node) -> bool:
        """Return whether the topology lets the ask be on a node."""
        return self._standing is None or self._standing.lets(node)

    # TOPOLOGY-13
    def rank(self, node: Node) -> Rank:
        """Return the place of a node in the order."""
        if self._standing is None:
            return node.rank
        return (self._standing.place(node) or 0, *node.rank)

    def every(self) -> Iterator[Node]:
        """Iterate over all nodes, in order."""
        if self._standing is None:
            return self._nodes.in_order()
        return iter(sorted(self._nodes.nodes.values(), key=self.rank))

    def some(self, nodes: Collection[Node]) -> Iterable[Node]:
        """Return some of the nodes, in order."""
        if len(nodes) * FEW < len(self._nodes.nodes):
            return sorted(nodes, key=self.rank)
        return (node for node in self.every() if node in nodes)
