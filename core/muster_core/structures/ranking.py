"""Things in order, and the first of them that stands for any of some shapes.

The order is kept in blocks; each block has the union of the masks of what is in it, so that
a search looks only into blocks where it may find something. A union may have bits too many
after masks have shrunk; it is tightened when a search of the block finds nothing, which a
shrunk mask can cause only once. Blocks grow with the square root of the number of things,
so that there are never many to skip.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain, pairwise
from math import isqrt
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

Rank = tuple[float | str | tuple[float, ...], ...]
"""A place in the order; no two things that are ranked together have the same."""

BLOCK_SIZE: Final = 48
"""How many things a block holds before it is split at twice as many, while there are few."""


@attrs.define(eq=False)
class Ranked:
    """Something that is ranked.

    Attributes:
        mask: The shapes that it stands for.
        rank: Its place, while it is ranked.
        block: The part of the ranking that it is in, while it is ranked.
    """

    mask: int = attrs.field(default=0, init=False)
    rank: Rank = attrs.field(default=(), init=False)
    # None before it is first ranked, which nobody asks about but whoever copies the whole state.
    block: _Block[Any] = attrs.field(default=cast("Any", None), init=False, repr=False)


A = TypeVar("A", bound=Ranked)


@final
class _Block(Generic[A]):
    """A run of neighbours."""

    __slots__ = ("items", "ranks", "union")

    def __init__(self, ranks: list[Rank], items: list[A]) -> None:
        self.ranks = ranks
        #: What has these ranks.
        self.items = items
        #: At least the union of their masks.
        self.union = 0
        self.tighten()

    def tighten(self) -> None:
        union = 0
        for item in self.items:
            union |= item.mask
        self.union = union


@final
class Ranking(Generic[A]):
    """Things in the order of their ranks; each is in at most one ranking."""

    __slots__ = ("_blocks", "_ends", "_most")

    def __init__(self) -> None:
        #: All and only what is ranked, in order; no block is empty.
        self._blocks: list[_Block[A]] = []
        #: The last rank in each block.
        self._ends: list[Rank] = []
        #: How many things a block holds at most.
        self._most = 2 * BLOCK_SIZE

    def add(self, item: A, rank: Rank) -> None:
        """Rank what is in no ranking."""
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
            block = _Block[A]([rank], [item])
            self._blocks.append(block)
            ends.append(rank)
        block.union |= item.mask
        item.block = block
        if len(block.ranks) > self._most:
            self._split(at)

    def remove(self, item: A) -> None:
        """Take out what is in this ranking."""
        block, rank = item.block, item.rank
        ranks = block.ranks
        position = bisect_left(ranks, rank)
        del ranks[position], block.items[position]
        if position == len(ranks):
            at = bisect_left(self._ends, rank)
            if ranks:
                self._ends[at] = ranks[-1]
            else:
                del self._ends[at], self._blocks[at]

    def move(self, item: A, rank: Rank) -> None:
        """Give what is in this ranking another place."""
        block = item.block
        ranks, items = block.ranks, block.items
        position = bisect_left(ranks, item.rank)
        last = len(ranks) - 1
        if (
            position == last
            or rank > ranks[last]
            or (rank < ranks[0] and block is not self._blocks[0])
        ):
            self.remove(item)
            self.add(item, rank)
            return
        # It stays in its block, the last rank in which is what it was.
        del ranks[position], items[position]
        position = bisect_left(ranks, rank)
        ranks.insert(position, rank)
        items.insert(position, item)
        item.rank = rank
        block.union |= item.mask

    def widen(self, item: A) -> None:
        """Take note that an item stands for more shapes than before."""
        item.block.union |= item.mask

    def first(self, mask: int) -> A | None:
        """Give the first that stands for a shape in ``mask``, or None."""
        for block in self._blocks:
            if block.union & mask:
                for item in block.items:
                    if item.mask & mask:
                        return item
                block.tighten()
        return None

    def standing_for(self, mask: int) -> Iterator[A]:
        """Give all that stand for a shape in ``mask``, in order."""
        for block in self._blocks:
            if block.union & mask:
                for item in block.items:
                    if item.mask & mask:
                        yield item

    def keep_only(self, mask: int) -> None:
        """Take note that nothing stands for any other shapes any more."""
        for block in self._blocks:
            block.union &= mask

    def __iter__(self) -> Iterator[A]:
        """Give everything, in order."""
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
        # As a block is half full at least when it was just split, that is about how many
        # there are.
        self._most = max(2 * BLOCK_SIZE, 2 * isqrt(len(self._blocks) * middle))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        ranks = [rank for block in self._blocks for rank in block.ranks]
        # Everything is in order, and where it says that it is.
        assert all(before < after for before, after in pairwise(ranks))
        assert ranks == [item.rank for item in self]
        assert self._ends == [block.ranks[-1] for block in self._blocks]
        for block in self._blocks:
            assert len(block.ranks) == len(block.items)
            for item in block.items:
                assert item.block is block
                # A union covers what is in its block.
                assert item.mask & ~block.union == 0
