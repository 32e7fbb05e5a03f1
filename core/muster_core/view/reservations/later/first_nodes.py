"""The first of some nodes, in the order that they have at an instant, for one ask after another."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.nodes.node import Node
    from muster_core.structures.ranking import Rank
    from muster_core.structures.shapes import Shape
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.later.projection import Projection

_Entry = tuple["Rank", int, "Node"]
"""The place of a node with room for a shape, and how many asks were placed on it then."""


@final
class FirstNodes:
    """Finds the first node for members of a party that are placed one after another.

    A projection would compare all nodes for each member.

    Args:
        projection: What the view will be.
        nodes: The nodes; no topology says which of them a member may take.
    """

    def __init__(self, projection: Projection, nodes: Sequence[Node]) -> None:
        self._projection = projection
        self._nodes = nodes
        #: How many asks were placed on a node.
        self._placed: dict[Node, int] = {}
        #: The nodes with room by the leaf and the shape of members, and one such member. Entries of
        #: a node on which more was placed meanwhile do not count.
        self._heaps: dict[tuple[int, Shape], tuple[Member, list[_Entry]]] = {}

    def find(self, member: Member) -> Node | None:
        """Return the first node on which a member has room, or None."""
        key = (member.app.identity.leaf, member.ask.shape)
        if key not in self._heaps:
            has_room = self._projection.has_room
            heap = [self._entry(member, node) for node in self._nodes if has_room(member, node)]
            heapify(heap)
            self._heaps[key] = member, heap
        _, heap = self._heaps[key]
        while heap:
            _, placed, node = heap[0]
            if placed == self._placed.get(node, 0):
                return node
            heappop(heap)
        return None

    def place(self, member: Member, node: Node) -> None:
        """Let a member hold a node."""
        self._projection.place(member, node)
        self._placed[node] = self._placed.get(node, 0) + 1
        for other, heap in self._heaps.values():
            if self._projection.has_room(other, node):
                heappush(heap, self._entry(other, node))

    def _entry(self, member: Member, node: Node) -> _Entry:
        rank = self._projection.rank(node, member.ask)
        return rank, self._placed.get(node, 0), node
