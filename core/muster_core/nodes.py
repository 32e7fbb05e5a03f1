"""The nodes, in the order in which they are tried, and what fits where.

SPEC section 4: nodes are tried by score (``fair``: least utilised first,
``binpacking``: most utilised first), then name. The first that is schedulable,
matches and fits is taken. Scores are computed anew from integers, never
accumulated, so that the order does not depend on the way there.

The index keeps the nodes in score order in blocks; each node has the mask of the
shapes that it could take now, each block the union of its nodes' masks. A union
may have bits too many after nodes have filled up; it is tightened when a search
of the block finds nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.config.model import NodeSortPolicy
from muster_core.shapes import Shape, ShapeTable, bits_of
from muster_core.shares import utilisation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from muster_core.resources import Resources

Holder = tuple[int, str]
"""Whose an allocation is: the key of its application, and the name of its ask."""

BLOCK_SIZE: Final = 48
"""How many nodes a block holds before it is split at twice as many."""


@final
@attrs.define(eq=False)
class Node:
    """One node, altered by the index alone.

    Attributes:
        name: Its name.
        capacity: What it has, in base units.
        used: What is taken of it; may be above the capacity after an update.
        held: What is placed on it: applications by their keys, and the names of their asks.
            Each counts once, but while an ask of that name goes as another one comes.
        attributes: What selectors look at.
        schedulable: Whether anything new may be placed on it.
        matching: The shapes that may use it, whatever is free.
        fitting: The shapes that it could take now.
        order: Its place in the order of the nodes.
        present: Whether it is still in the index.
        version: Another number whenever anything about it has changed.
    """

    name: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str]
    schedulable: bool
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    held: dict[Holder, int] = attrs.field(factory=dict["Holder", int])
    matching: int = 0
    fitting: int = 0
    order: tuple[float, str] = (0.0, "")
    present: bool = True
    version: int = 0


@final
class _Block:
    """A run of neighbours in the order of the nodes."""

    __slots__ = ("nodes", "orders", "union")

    def __init__(self, orders: list[tuple[float, str]], nodes: dict[str, Node]) -> None:
        #: The order of each node, sorted.
        self.orders = orders
        #: The same nodes by name.
        self.nodes = nodes
        #: At least the union of what the nodes could take.
        self.union = 0
        self.tighten()

    def tighten(self) -> None:
        union = 0
        for node in self.nodes.values():
            union |= node.fitting
        self.union = union

    def first(self, bit: int) -> Node | None:
        for _, name in self.orders:
            node = self.nodes[name]
            if node.fitting & bit:
                return node
        self.tighten()
        return None


@final
class NodeIndex:
    """All nodes of the partition.

    Args:
        shapes: The table of shapes, shared with the view.
    """

    def __init__(self, shapes: ShapeTable) -> None:
        self._shapes = shapes
        self._policy = NodeSortPolicy.FAIR
        self._weights: tuple[tuple[str, float], ...] = (("memory", 1.0), ("vcore", 1.0))
        #: Every node by name.
        self.nodes: dict[str, Node] = {}
        #: What all nodes have, unschedulable ones included.
        self.total: dict[str, int] = {}
        #: The nodes in order; every node is in exactly one block, no block is empty.
        self._blocks: list[_Block] = []
        #: How many nodes could take each shape now; no zeros.
        self._counts: dict[int, int] = {}
        #: The shapes that some node could take now: all and only the keys of ``_counts``.
        self.fitting = 0
        #: How many asks of a shape there is room for, at least; all of it for those counted.
        #: It is forgotten whenever a node changes.
        self._room: dict[int, int] = {}
        self._counted: set[int] = set()
        #: Goes up whenever there is more room somewhere, on a node or in a queue.
        self.grown = 0
        #: Goes up whenever anything has changed, on any node.
        self.changes = 0
        #: The nodes there are that have changed, until somebody takes note of that.
        self.touched: dict[Node, None] = {}

    def configure(self, policy: NodeSortPolicy, weights: tuple[tuple[str, float], ...]) -> None:
        """Set the order of the nodes."""
        self._policy, self._weights = policy, weights
        self.changes += 1
        nodes = sorted(self.nodes.values(), key=lambda node: node.name)
        self._blocks = []
        for node in nodes:
            node.order = self._order(node)
            self._insert(node)

    def add(
        self, name: str, capacity: Resources, attributes: Mapping[str, str], *, schedulable: bool
    ) -> None:
        """Add a node; its name must be free."""
        node = Node(name, dict(capacity), dict(attributes), schedulable)
        self.nodes[name] = node
        self.grown += 1
        self._count_capacity(node, 1)
        self._match(node)
        self._refit(node)
        node.order = self._order(node)
        self._insert(node)
        self.touch(node)

    def update(
        self,
        name: str,
        capacity: Resources | None,
        attributes: Mapping[str, str] | None,
        *,
        schedulable: bool | None,
    ) -> None:
        """Replace those fields of a node that are not None; nobody is evicted."""
        node = self.nodes[name]
        self.grown += 1
        if capacity is not None:
            self._count_capacity(node, -1)
            node.capacity = dict(capacity)
            self._count_capacity(node, 1)
        if attributes is not None:
            node.attributes = dict(attributes)
        if schedulable is not None:
            node.schedulable = schedulable
        self._match(node)
        self._moved(node)

    def remove(self, name: str) -> Node:
        """Take a node out; what was placed on it still refers to the node that is given back."""
        node = self.nodes.pop(name)
        self._count_capacity(node, -1)
        self._delete(node)
        self._set_fitting(node, 0)
        node.present = False
        self.touch(node)
        del self.touched[node]  # Nodes that come and go are not kept for those who never ask.
        return node

    def touch(self, node: Node) -> None:
        """Take note that something about what is placed on a node has changed."""
        node.version += 1
        self.changes += 1
        self.touched[node] = None

    def save(self, name: str) -> Callable[[], None]:
        """Give what makes a node what it is now."""
        node = self.nodes[name]
        before = dict(node.capacity), dict(node.attributes), node.schedulable

        def restore() -> None:
            self._count_capacity(node, -1)
            node.capacity, node.attributes, node.schedulable = before
            self._count_capacity(node, 1)
            self._match(node)
            self._moved(node)

        return restore

    def put_back(self, node: Node) -> None:
        """Undo :meth:`remove`."""
        self.nodes[node.name] = node
        node.present = True
        self._count_capacity(node, 1)
        self._match(node)
        self._refit(node)
        node.order = self._order(node)
        self._insert(node)
        self.touch(node)

    def find(self, bit: int) -> Node | None:
        """Give the first node in order that could take the shape at ``bit`` now."""
        wanted = 1 << bit
        if not self.fitting & wanted:
            return None
        for block in self._blocks:
            if block.union & wanted:
                node = block.first(wanted)
                if node is not None:
                    return node
        return None

    def room_for(self, bit: int, enough: int) -> int:
        """Count how many asks of the shape at ``bit`` could be placed now, one beside another.

        Args:
            bit: The shape.
            enough: A number with which to stop counting.
        """
        known = self._room.get(bit)
        if known is not None and (known >= enough or bit in self._counted):
            return known
        count = 0
        for node in self._fitting(1 << bit):
            count += _how_many(self._shapes.shapes[bit].resources, self._free(node))
            if count >= enough:
                break
        else:
            self._counted.add(bit)
        self._room[bit] = count
        return count

    def more_room(self, node: Node, shape: Shape, amounts: Mapping[str, int]) -> int:
        """Count how many more asks of a shape a node would have room for with more to give."""
        if not (node.present and node.schedulable and shape.matches(node.name, node.attributes)):
            return 0
        free = self._free(node)
        more = {name: amount + amounts.get(name, 0) for name, amount in free.items()}
        return _how_many(shape.resources, more) - _how_many(shape.resources, free)

    def _fitting(self, wanted: int) -> Iterator[Node]:
        if self.fitting & wanted:
            for block in self._blocks:
                if block.union & wanted:
                    yield from (node for node in block.nodes.values() if node.fitting & wanted)

    def _forget_room(self) -> None:
        if self._room:
            self._room.clear()
            self._counted.clear()

    def take(self, node: Node, resources: Resources, holder: Holder) -> None:
        """Use ``resources`` of a node on which they fit, for an ask."""
        node.held[holder] = node.held.get(holder, 0) + 1
        for name, amount in resources.items():
            node.used[name] = node.used.get(name, 0) + amount
        self._moved(node)

    def give_back(self, node: Node, resources: Resources, holder: Holder) -> None:
        """Free what an ask had of a node, also of one that is lost."""
        self.grown += 1
        if node.held[holder] == 1:
            del node.held[holder]
        else:
            node.held[holder] -= 1
        for name, amount in resources.items():
            left = node.used[name] - amount
            if left:
                node.used[name] = left
            else:
                del node.used[name]
        if node.present:
            self._moved(node)

    def shape_added(self, bit: int) -> None:
        """Find the nodes that could take a new shape."""
        mask = 1 << bit
        shape = self._shapes.shapes[bit]
        for node in self.nodes.values():
            if node.schedulable and shape.matches(node.name, node.attributes):
                node.matching |= mask
                if shape.resources.fits_in(self._free(node)):
                    self._set_fitting(node, node.fitting | mask)
        for block in self._blocks:
            block.tighten()

    def shape_forgotten(self, bit: int) -> None:
        """Forget a shape that no pending ask has."""
        keep = ~(1 << bit)
        for node in self.nodes.values():
            node.matching &= keep
            self._set_fitting(node, node.fitting & keep)
        for block in self._blocks:
            block.union &= keep

    def in_order(self) -> Iterator[Node]:
        """Give the nodes in the order in which they are tried."""
        for block in self._blocks:
            for _, name in block.orders:
                yield block.nodes[name]

    def _count_capacity(self, node: Node, sign: int) -> None:
        for name, amount in node.capacity.items():
            total = self.total.get(name, 0) + sign * amount
            if total:
                self.total[name] = total
            else:
                del self.total[name]

    def _match(self, node: Node) -> None:
        node.matching = 0
        if node.schedulable:
            for bit, shape in self._shapes.shapes.items():
                if shape.matches(node.name, node.attributes):
                    node.matching |= 1 << bit

    @staticmethod
    def _free(node: Node) -> dict[str, int]:
        used = node.used
        return {name: amount - used.get(name, 0) for name, amount in node.capacity.items()}

    def _refit(self, node: Node) -> None:
        fitting = node.matching
        if fitting:
            fitting &= self._shapes.fitting_node(self._free(node))
        self._set_fitting(node, fitting)

    def _set_fitting(self, node: Node, fitting: int) -> None:
        changed = node.fitting ^ fitting
        node.fitting = fitting
        self._forget_room()
        for bit in bits_of(changed):
            count = self._counts.get(bit, 0) + (1 if fitting >> bit & 1 else -1)
            if count:
                self._counts[bit] = count
                self.fitting |= 1 << bit
            else:
                del self._counts[bit]
                self.fitting &= ~(1 << bit)

    def _order(self, node: Node) -> tuple[float, str]:
        score = utilisation(node.used, node.capacity, self._weights)
        return (score if self._policy is NodeSortPolicy.FAIR else -score, node.name)

    def _moved(self, node: Node) -> None:
        """Bring a node's place up to date after its use or its capacity has changed."""
        self.touch(node)
        self._refit(node)
        order = self._order(node)
        if order == node.order:
            self._block_of(node).union |= node.fitting
            return
        self._delete(node)
        node.order = order
        self._insert(node)

    def _position(self, order: tuple[float, str]) -> int:
        """Give the position of the first block that ends at or after ``order``."""
        low, high = 0, len(self._blocks) - 1
        while low < high:
            middle = (low + high) // 2
            if self._blocks[middle].orders[-1] < order:
                low = middle + 1
            else:
                high = middle
        return low

    def _block_of(self, node: Node) -> _Block:
        return self._blocks[self._position(node.order)]

    def _insert(self, node: Node) -> None:
        if not self._blocks:
            self._blocks.append(_Block([node.order], {node.name: node}))
            return
        position = self._position(node.order)
        block = self._blocks[position]
        insort(block.orders, node.order)
        block.nodes[node.name] = node
        block.union |= node.fitting
        if len(block.orders) > 2 * BLOCK_SIZE:
            self._split(position)

    def _split(self, position: int) -> None:
        block = self._blocks[position]
        halves = block.orders[:BLOCK_SIZE], block.orders[BLOCK_SIZE:]
        self._blocks[position : position + 1] = [
            _Block(orders, {name: block.nodes[name] for _, name in orders}) for orders in halves
        ]

    def _delete(self, node: Node) -> None:
        position = self._position(node.order)
        block = self._blocks[position]
        del block.orders[bisect_left(block.orders, node.order)]
        del block.nodes[node.name]
        if not block.orders:
            del self._blocks[position]

    def check(self) -> None:
        """Assert the invariants; for tests."""
        order = list(self.in_order())
        # Every node is in the order once, and the order is that of fresh scores.
        assert sorted(node.name for node in order) == sorted(self.nodes)
        assert [self._order(node) for node in order] == sorted(node.order for node in order)
        # The masks are those that a fresh look gives.
        counts: dict[int, int] = {}
        for node in order:
            free = self._free(node)
            fresh = {
                bit
                for bit, shape in self._shapes.shapes.items()
                if node.schedulable
                and shape.matches(node.name, node.attributes)
                and shape.resources.fits_in(free)
            }
            assert set(bits_of(node.fitting)) == fresh
            for bit in fresh:
                counts[bit] = counts.get(bit, 0) + 1
        assert counts == self._counts
        assert set(bits_of(self.fitting)) == set(counts)
        # A block's union covers its nodes.
        for block in self._blocks:
            for node in block.nodes.values():
                assert node.fitting & ~block.union == 0
        # The total is the sum of the capacities.
        total: dict[str, int] = {}
        for node in order:
            for name, amount in node.capacity.items():
                total[name] = total.get(name, 0) + amount
        assert total == self.total


def _how_many(resources: Resources, room: Mapping[str, int]) -> int:
    """Count how often an amount fits in some room, which may be below zero."""
    return max(0, min(room.get(name, 0) // amount for name, amount in resources.items()))
