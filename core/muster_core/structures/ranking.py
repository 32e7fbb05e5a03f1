"""A sorted list with a quick search for the first item that has any of some shapes.

The items are kept in blocks. Each block has the union of the masks of its items, so that a search
skips blocks without a match. After a mask has shrunk, a union may have too many bits; it is
computed again when a search of the block finds nothing, which happens once for each such mask.
The size of blocks grows with the square root of the number of items, so that there are never many
blocks to skip.

Beside it is a multiset of priorities that knows the highest one. One module has both, as each
compiled module takes room in a wheel.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from math import isqrt
from typing import Any, Final, Generic, TypeVar, cast, final

Rank = tuple[float | str | tuple[float, ...], ...]
"""A place in the order; no two items of a ranking have the same rank."""

BLOCK_SIZE: Final = 48
"""Half the size at which a block is split, as long as there are few items."""

_STALE: Final = 16
"""How many more entries than twice its different priorities the heap of a tally may have."""


# A plain class, as are its subclasses and all that a .pxd file declares: Cython compiles no attrs class.
class Ranked:
    """The base of an item of a ranking.

    Attributes:
        mask: Its shapes.
        rank: Its place, while it is in a ranking.
        block: Its block, while it is in a ranking.
    """

    __slots__ = ("block", "mask", "rank")

    def __init__(self) -> None:
        self.mask = 0
        self.rank: Rank = ()
        # None before it is first in a ranking; only code that copies the whole state reads it then.
        self.block: _Block[Any] = cast("Any", None)


A = TypeVar("A", bound=Ranked)


@final
class _Block(Generic[A]):
    """Consecutive items of a ranking."""

    __slots__ = ("items", "ranks", "union")

    def __init__(self, ranks: list[Rank], items: list[A]) -> None:
        self.ranks = ranks
        #: The items with these ranks, in the same order.
        self.items = items
        #: All bits of the union of their masks, and perhaps more.
        self.union = 0
        self.tighten()

    def tighten(self) -> None:
        union = 0
        for item in self.items:
            union |= item.mask
        self.union = union


@final
class Ranking(Generic[A]):
    """Items in the order of their ranks; each item is in at most one ranking."""

    __slots__ = ("_blocks", "_ends", "_most")

    def __init__(self) -> None:
        #: All and only the items, in order; no block is empty.
        self._blocks: list[_Block[A]] = []
        #: The last rank in each block.
        self._ends: list[Rank] = []
        #: The largest number of items in a block.
        self._most = 2 * BLOCK_SIZE

    def add(self, item: A, rank: Rank) -> None:
        """Add an item that is in no ranking."""
        item.rank = rank
        ends = self._ends
        at = bisect_left(ends, rank)
        if at < len(ends):
            block = self._blocks[at]
            position = bisect_left(block.ranks, rank)
            block.ranks.insert(position, rank)
            block.items.insert(position, item)
        elif at:
            at -= 1
            block = self._blocks[at]
            block.ranks.append(rank)
            block.items.append(item)
            ends[at] = rank
        else:
            block = _Block([rank], [item])  # `_Block[A](…)` would take five times as long.
            self._blocks.append(block)
            ends.append(rank)
        block.union |= item.mask
        item.block = block
        if len(block.ranks) > self._most:
            self._split(at)

    def remove(self, item: A) -> None:
        """Remove an item of this ranking."""
        self._take_out(item.block, bisect_left(item.block.ranks, item.rank))

    def _take_out(self, block: _Block[A], position: int) -> None:
        ranks = block.ranks
        rank = ranks.pop(position)
        del block.items[position]
        if position == len(ranks):
            at = bisect_left(self._ends, rank)
            if ranks:
                self._ends[at] = ranks[-1]
            else:
                del self._ends[at], self._blocks[at]

    def move(self, item: A, rank: Rank) -> None:
        """Move an item of this ranking to another place."""
        block = item.block
        ranks, items = block.ranks, block.items
        position = bisect_left(ranks, item.rank)
        last = len(ranks) - 1
        if (
            position == last
            or rank > ranks[last]
            or (rank < ranks[0] and block is not self._blocks[0])
        ):
            self._take_out(block, position)
            self.add(item, rank)
            return
        # It stays in its block, and the last rank of the block does not change.
        del ranks[position], items[position]
        position = bisect_left(ranks, rank)
        ranks.insert(position, rank)
        items.insert(position, item)
        item.rank = rank
        block.union |= item.mask

    def widen(self, item: A) -> None:
        """Record that an item has more shapes than before."""
        item.block.union |= item.mask

    def first(self, mask: int) -> A | None:
        """Return the first item with a shape in ``mask``, or None."""
        for block in self._blocks:
            if block.union & mask:
                for item in block.items:
                    if item.mask & mask:
                        return item
                block.tighten()
        return None

    def standing_for(self, mask: int) -> Iterator[A]:
        """Yield all items with a shape in ``mask``, in order."""
        for block in self._blocks:
            if block.union & mask:
                for item in block.items:
                    if item.mask & mask:
                        yield item

    def keep_only(self, mask: int) -> None:
        """Record that no item has a shape outside ``mask`` any more."""
        for block in self._blocks:
            block.union &= mask

    def __iter__(self) -> Iterator[A]:
        """Iterate over all items, in order."""
        return chain.from_iterable(block.items for block in self._blocks)

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        middle = len(block.ranks) // 2
        behind = _Block(block.ranks[middle:], block.items[middle:])
        del block.ranks[middle:], block.items[middle:]
        block.tighten()
        for item in behind.items:
            item.block = behind
        self._blocks.insert(at + 1, behind)
        self._ends[at] = block.ranks[-1]
        self._ends.insert(at + 1, behind.ranks[-1])
        # Blocks are at least half full after a split, so this product is about the number of items.
        self._most = max(2 * BLOCK_SIZE, 2 * isqrt(len(self._blocks) * middle))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        ranks = [rank for block in self._blocks for rank in block.ranks]
        # All items are in order, and in the blocks that they refer to.
        assert all(before < after for before, after in pairwise(ranks))
        assert ranks == [item.rank for item in self]
        assert self._ends == [block.ranks[-1] for block in self._blocks]
        for block in self._blocks:
            assert len(block.ranks) == len(block.items)
            for item in block.items:
                assert item.block is block
                # The union has all bits of the items of its block.
                assert item.mask & ~block.union == 0


# PRIORITY-10
@final
class PriorityTally:
    """A multiset of priorities that knows its maximum.

    Adding a priority that is already present costs O(1), adding another one O(log d) with d
    different priorities. A removal costs O(1); :meth:`top` looks for a new maximum only when
    no ask of the highest priority is left.
    """

    __slots__ = ("_counts", "_heap", "recomputations")

    def __init__(self) -> None:
        #: The count of each priority; never zero.
        self._counts: dict[int, int] = {}
        #: The negated priorities; each one with a count is here at least once.
        self._heap: list[int] = []
        #: How often the maximum was computed again.
        self.recomputations = 0

    def add(self, priority: int, times: int = 1) -> None:
        """Add ``priority`` once, or ``times`` times."""
        counts = self._counts
        if priority in counts:
            counts[priority] += times
        else:
            counts[priority] = times
            heappush(self._heap, -priority)
            if len(self._heap) > 2 * len(counts) + _STALE:
                self._heap = [-counted for counted in counts]
                heapify(self._heap)

    def remove(self, priority: int, times: int = 1) -> None:
        """Remove ``priority`` once, or ``times`` times; it must have been added as often."""
        left = self._counts[priority] - times
        if left:
            self._counts[priority] = left
        else:
            del self._counts[priority]

    def replace(self, old: int | None, new: int | None) -> None:
        """Add ``new`` and remove ``old``; None means no priority."""
        if old == new:
            return
        if new is not None:
            self.add(new)
        if old is not None:
            self.remove(old)

    def top(self) -> int | None:
        """Return the highest priority, or None if there is none."""
        heap, counts = self._heap, self._counts
        if heap and -heap[0] not in counts:
            self.recomputations += 1
            while heap and -heap[0] not in counts:
                heappop(heap)
        return -heap[0] if heap else None

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # No count is zero.
        assert all(count > 0 for count in self._counts.values())
        # Every priority with a count is in the heap.
        assert set(self._counts) <= {-entry for entry in self._heap}
        # The cached maximum is the recomputed one.
        assert self.top() == max(self._counts, default=None)
