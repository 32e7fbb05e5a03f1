"""The order of the nodes for the ask at hand: ``bestfit`` and ``fgd``.

For each shape the nodes on which it fits are in a heap. A node that has changed since the shape was
last looked up is scored again then, and its older entries count no more. So an ask costs as many
scores as nodes have changed since the last ask of its shape.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_core.nodes.fragmentation import Fragmentation
    from muster_core.nodes.leftover import Leftover
    from muster_core.nodes.node import Node
    from muster_core.structures.ranking import Rank
    from muster_core.structures.shapes import Shape

_Entry = tuple[int, float, str, int, "Node"]
"""A node in a heap: the steps of F, what is left, its name, and the number of its last change."""

_SPARE: Final = 64
"""How many old entries a heap may have besides one for each node."""


@final
class _Heap:
    """The nodes on which a shape fits, as far as they were looked at."""

    __slots__ = ("entries", "number", "shape", "upto")

    def __init__(self, shape: Shape, number: int) -> None:
        self.shape = shape
        #: The number of the needs of the shape, for the scores.
        self.number = number
        self.entries: list[_Entry] = []
        #: The number of the last change of a node that the entries know.
        self.upto = 0


@final
class OrderByAsk:
    """The nodes in the order in which they are tried for asks of each shape.

    Args:
        shapes: The shapes by their bits.
        leftover: Computes what is left on nodes.
        fragments: Compares what becomes unusable, for ``fgd``; None for ``bestfit``.
    """

    def __init__(
        self, shapes: Mapping[int, Shape], leftover: Leftover, fragments: Fragmentation | None
    ) -> None:
        self._shapes = shapes
        self._leftover = leftover
        self.fragments = fragments
        self._heaps: dict[int, _Heap] = {}
        #: How many changes of nodes there were.
        self._changes = 0
        #: All nodes, each with the number of its last change; the latest is the last.
        self._changed: dict[Node, int] = {}

    def note(self, node: Node) -> None:
        """Record that a node is new, or that something about it has changed."""
        changed = self._changed
        self._changes += 1
        changed.pop(node, None)
        changed[node] = self._changes

    def forget(self, node: Node) -> None:
        """Record that a node was removed."""
        self._changed.pop(node, None)
        if self.fragments is not None:
            self.fragments.forget(node)

    def forget_ahead(self, node: Node) -> None:
        """Forget what was remembered of a node that is none of the nodes: see :meth:`Node.as_if`."""
        if self.fragments is not None:
            self.fragments.forget(node)

    def forget_shapes(self, bits: Iterable[int]) -> None:
        """Record that bits belong to no shape any more."""
        for bit in bits:
            self._heaps.pop(bit, None)

    def forget_scores(self) -> None:
        """Record that every score may be another one."""
        self._heaps.clear()

    # DEVICE-14, DEVICE-15
    def first(self, bit: int) -> Node | None:
        """Return the first node on which the shape at ``bit`` fits now, or None."""
        entries, changed = self._entries_for(bit), self._changed
        while entries:
            *_, number, node = entries[0]
            if changed.get(node) == number:
                return node
            heappop(entries)
        return None

    # DEVICE-14, DEVICE-15
    def in_order(self, bit: int) -> list[Node]:
        """Return the nodes on which the shape at ``bit`` fits now, in order."""
        valid = [
            entry for entry in self._entries_for(bit) if self._changed.get(entry[4]) == entry[3]
        ]
        return [entry[4] for entry in sorted(valid, key=itemgetter(0, 1, 2))]

    def _entries_for(self, bit: int) -> list[_Entry]:
        """Return the heap of a shape, up to date; entries of nodes that have changed do not count."""
        heap = self._heaps.get(bit)
        if heap is None:
            shape = self._shapes[bit]
            number = 0 if self.fragments is None else self.fragments.number_of(shape.devices)
            heap = self._heaps[bit] = _Heap(shape, number)
        self._catch_up(heap, 1 << bit)
        return heap.entries

    def _catch_up(self, heap: _Heap, wanted: int) -> None:
        """Score the nodes that have changed since a heap was last looked up."""
        entries, changed = heap.entries, self._changed
        if heap.upto == self._changes:
            return
        if not heap.upto or len(entries) > 2 * len(changed) + _SPARE:
            known = {entry[4]: entry for entry in entries if changed.get(entry[4]) == entry[3]}
            fresh = [node for node in changed if node.mask & wanted and node not in known]
            entries[:] = [*known.values(), *(self._entry(heap, node) for node in fresh)]
            heapify(entries)
        else:
            for node, number in reversed(changed.items()):
                if number <= heap.upto:
                    break
                if node.mask & wanted:
                    heappush(entries, self._entry(heap, node))
        heap.upto = self._changes

    def _entry(self, heap: _Heap, node: Node) -> _Entry:
        shape = heap.shape
        steps = 0 if self.fragments is None else self.fragments.steps(node, shape, heap.number)
        left = self._leftover.of(node, shape.resources)
        return steps, left, node.name, self._changed[node], node

    # DEVICE-14, DEVICE-15
    def rank_of(self, node: Node, shape: Shape) -> Rank:
        """Return the place of a node on which a shape fits; it need not be one of the nodes."""
        fragments = self.fragments
        steps = 0
        if fragments is not None:
            steps = fragments.steps(node, shape, fragments.number_of(shape.devices))
        return steps, self._leftover.of(node, shape.resources), node.name

    # DEVICE-19
    def unusable(self, node: Node) -> float | None:
        """Return what typical asks cannot use of the devices of a node on average, in milli.

        None unless the order is ``fgd`` and there are typical asks.
        """
        return None if self.fragments is None else self.fragments.unusable(node)

    # DEVICE-21
    def leftover_rank(self, node: Node, shape: Shape) -> Rank:
        """Return the place of a node when victims are looked for."""
        return self._leftover.of(node, shape.resources), node.name

    def check(self, nodes: Iterable[Node]) -> None:
        """Assert the invariants; for tests."""
        assert set(self._changed) == set(nodes)
        assert list(self._changed.values()) == sorted(self._changed.values())
