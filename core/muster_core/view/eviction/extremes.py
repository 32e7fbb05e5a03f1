"""The lowest and the highest of many numbers, kept up to date as they change."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, final

from muster_core.structures.steps import SIZE

if TYPE_CHECKING:
    from muster_core.nodes.node import Node


@final
class Peaks:
    """The most that any node has, of each type."""

    def __init__(self) -> None:
        #: The amount of each node, by type.
        self._now: dict[str, dict[Node, int]] = {}
        #: All current amounts, and perhaps old ones, as heaps with the highest on top.
        self._heaps: dict[str, list[tuple[int, int, Node]]] = {}
        self._numbers = 0

    def set(self, node: Node, name: str, amount: int) -> None:
        """Record the amount of a type on a node."""
        now = self._now.setdefault(name, {})
        if now.get(node) == amount:
            return
        now[node] = amount
        heap = self._heaps.setdefault(name, [])
        self._numbers += 1
        heappush(heap, (-amount, self._numbers, node))
        if len(heap) > 2 * len(now) + SIZE:
            there = enumerate(now.items(), self._numbers + 1)
            heap[:] = [(-amount, at, node) for at, (node, amount) in there]
            heapify(heap)
            self._numbers += len(heap)

    def forget(self, node: Node) -> None:
        """Remove all amounts of a node."""
        for now in self._now.values():
            now.pop(node, None)

    def top(self, name: str) -> int:
        """Return the highest amount of a type, at least 0."""
        heap, now = self._heaps.get(name), self._now.get(name)
        if heap is None or now is None:
            return 0
        while heap and now.get(heap[0][2]) != -heap[0][0]:
            heappop(heap)
        return max(0, -heap[0][0]) if heap else 0


@final
class Counts:
    """Numbers, each with its count; their total, and the lowest and the highest of them."""

    __slots__ = ("_counts", "_ends", "total")

    def __init__(self) -> None:
        #: The sum of all numbers.
        self.total = 0
        self._counts: dict[int, int] = {}
        #: The lowest and the highest; None if they must be computed again.
        self._ends: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        """Return whether there are any numbers."""
        return bool(self._counts)

    def add(self, number: int) -> None:
        """Add a number."""
        self.total += number
        count = self._counts.get(number, 0)
        self._counts[number] = count + 1
        if not count and self._ends is not None:
            least, greatest = self._ends
            self._ends = min(least, number), max(greatest, number)

    def remove(self, number: int) -> None:
        """Remove a number once."""
        self.total -= number
        count = self._counts[number] - 1
        if count:
            self._counts[number] = count
            return
        del self._counts[number]
        if self._ends is not None and number in self._ends:
            self._ends = None

    def ends(self) -> tuple[int, int]:
        """Return the lowest and the highest; there must be at least one number."""
        if self._ends is None:
            self._ends = min(self._counts), max(self._counts)
        return self._ends
