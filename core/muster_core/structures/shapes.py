"""Shapes: asks that any node and any quota treats alike, as bits of one integer.

A shape is what an ask needs of a node: resources, selector, required node. Each
live shape has a bit, so that "is there anything in this queue that fits there"
is one ``&`` of integers, whatever the number of asks. Which shapes fit an amount
of room is one bisection per resource type over masks computed beforehand.

Bit 0 is no shape: the view uses it to have a queue visited (see there).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.values.resources import Resources

EVERY_SHAPE: Final = -1
"""The mask with every bit set."""

VISIT_BIT: Final = 0
"""The bit of no shape, under which asks are offered that are tried whether they fit or not."""

KEPT_IDLE: Final = 32
"""How many shapes that no pending ask has are kept at least, in case they come again."""


@final
@attrs.frozen(cache_hash=True)
class Shape:
    """What an ask needs of a node.

    Attributes:
        resources: The amounts that it takes.
        selector: Attributes that the node must have, sorted by name.
        node: The only node that will do, or None.
        members: More than 1 for a team, of which ``resources`` is what all of them need
            (see :mod:`muster_core.view.gangs.gang_shapes`); no single node is asked for that.
    """

    resources: Resources
    selector: tuple[tuple[str, str], ...] = ()
    node: str | None = None
    members: int = 1

    @property
    def is_choosy(self) -> bool:
        """Whether there may be nodes that it may not use, whatever is free there."""
        return bool(self.selector) or self.node is not None or self.members > 1

    def matches(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Say whether the node may be used at all, whatever is free on it."""
        if self.members > 1 or (self.node is not None and self.node != name):
            return False
        return all(attributes.get(key) == value for key, value in self.selector)


def bits_of(mask: int) -> Iterator[int]:
    """Give the positions of the bits that are set in a mask that is not negative."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@final
class MaskCounts:
    """How many of some masks have each bit, for all bits at once.

    The counts are kept as binary numbers that stand upright: the first plane has the lowest
    digit of the count of each bit, and so on. So a mask is added or taken out in a few
    operations on integers, however many bits it has.

    Attributes:
        mask: The bits that at least one of the masks has.
    """

    __slots__ = ("_planes", "mask")

    def __init__(self) -> None:
        self._planes: list[int] = []
        self.mask = 0

    def replace(self, before: int, after: int) -> None:
        """Put a mask in the place of another one, which was counted; 0 is none."""
        gained = after & ~before
        lost = before & ~after
        if gained:
            self.mask |= gained
            self._add(gained)
        if lost:
            self._take(lost)

    def _add(self, carry: int) -> None:
        planes = self._planes
        for digit, plane in enumerate(planes):
            planes[digit] = plane ^ carry
            carry &= plane
            if not carry:
                return
        planes.append(carry)

    def _take(self, borrow: int) -> None:
        planes = self._planes
        for digit, plane in enumerate(planes):
            planes[digit] = plane ^ borrow
            borrow &= ~plane
            if not borrow:
                break
        assert not borrow, "took out a mask that was not counted"
        while planes and not planes[-1]:
            planes.pop()
        mask = 0
        for plane in planes:
            mask |= plane
        self.mask = mask

    def keep_only(self, mask: int) -> None:
        """Forget the counts of all other bits."""
        self._planes = [plane & mask for plane in self._planes]
        self.mask &= mask

    def check(self, masks: Iterable[int]) -> None:
        """Assert the invariants, given all masks that are counted; for tests."""
        counts: dict[int, int] = {}
        for mask in masks:
            for bit in bits_of(mask):
                counts[bit] = counts.get(bit, 0) + 1
        assert set(bits_of(self.mask)) == set(counts)
        for bit, count in counts.items():
            planes = enumerate(self._planes)
            assert count == sum((plane >> bit & 1) << digit for digit, plane in planes)


@final
class ShapeTable:
    """The live shapes and their bits.

    A shape keeps its bit while a pending ask has it, and for a while after: when twice as many
    are idle as in use, the table forgets those that were idle longest.
    """

    __slots__ = (
        "_bits",
        "_by_type",
        "_free",
        "_idle",
        "_prefixes",
        "_users",
        "choosy",
        "not_choosy",
        "shapes",
    )

    def __init__(self) -> None:
        #: The shape at each bit; bit 0 and bits that are free are not in it.
        self.shapes: dict[int, Shape] = {}
        #: The bit of each shape: the inverse of ``shapes``.
        self._bits: dict[Shape, int] = {}
        #: How many pending asks have the shape; zero for all and only the idle ones.
        self._users: dict[int, int] = {}
        #: Bits of which no pending ask has the shape, idle longest first.
        self._idle: OrderedDict[int, None] = OrderedDict()
        #: Bits that were given back.
        self._free: list[int] = []
        #: The shapes that may use any node, as a mask, and the bits of all others.
        self.not_choosy = 0
        self.choosy: dict[int, None] = {}
        #: For each type the amounts asked for and the masks of what asks for no more;
        #: None while they have to be computed anew. The same by type.
        self._prefixes: list[tuple[str, list[int], list[int]]] | None = None
        self._by_type: dict[str, tuple[list[int], list[int]]] = {}

    def find(self, shape: Shape) -> int | None:
        """Give the bit of a shape that is in the table, else None."""
        return self._bits.get(shape)

    def acquire(self, bit: int, times: int = 1) -> None:
        """Count one more pending ask of the shape at ``bit``, or ``times`` more."""
        if not self._users[bit]:
            del self._idle[bit]
        self._users[bit] += times

    def add(self, shape: Shape) -> int:
        """Give a new shape its bit, idle for now."""
        bit = self._free.pop() if self._free else len(self.shapes) + 1
        self.shapes[bit] = shape
        self._bits[shape] = bit
        self._users[bit] = 0
        self._idle[bit] = None
        self._prefixes = None
        if shape.is_choosy:
            self.choosy[bit] = None
        else:
            self.not_choosy |= 1 << bit
        return bit

    def release(self, bit: int) -> None:
        """Count one pending ask less of the shape at ``bit``."""
        self._users[bit] -= 1
        if not self._users[bit]:
            self._idle[bit] = None

    def forget_idle(self) -> list[int]:
        """Forget shapes that were idle longest, if there are far too many; give their bits.

        All nodes are told of it, so it is done seldom, and to many at once.
        """
        most = max(KEPT_IDLE, len(self.shapes) - len(self._idle))
        forgotten: list[int] = []
        if len(self._idle) < 2 * most:
            return forgotten
        while len(self._idle) > most:
            bit, _ = self._idle.popitem(last=False)
            del self._bits[self.shapes.pop(bit)]
            del self._users[bit]
            self.choosy.pop(bit, None)
            self.not_choosy &= ~(1 << bit)
            forgotten.append(bit)
        self._free.extend(forgotten)
        self._prefixes = None
        return forgotten

    def fitting_node(self, capacity: Mapping[str, int], used: Mapping[str, int]) -> int:
        """Give the shapes whose resources fit in what is free; a missing type is none.

        Args:
            capacity: What there is.
            used: What of it is taken; may be more.

        Returns:
            A mask in which bits of no shape may be set as well.
        """
        mask = EVERY_SHAPE
        for name, amounts, masks in self._prefixes or self._prepare():
            room = capacity.get(name, 0) - used.get(name, 0)
            if room < amounts[-1]:
                mask &= masks[bisect_right(amounts, room)]
        return mask

    def fitting_headroom(self, headroom: Mapping[str, int]) -> int:
        """Give the shapes whose resources fit in ``headroom``, a missing type unlimited.

        Headroom may be below zero, where a ``max`` was lowered under what is allocated;
        a shape that asks nothing of that type fits all the same.
        """
        mask = EVERY_SHAPE
        prefixes = self._types()
        for name, room in headroom.items():
            if name in prefixes:
                amounts, masks = prefixes[name]
                mask &= masks[bisect_right(amounts, room)]
        return mask

    def naming(self, names: Iterable[str]) -> int:
        """Give the shapes that ask for something of at least one of these types."""
        prefixes = self._types()
        none = EVERY_SHAPE
        for name in names:
            if name in prefixes:
                none &= prefixes[name][1][0]
        return self._all() & ~none

    def _all(self) -> int:
        return sum(1 << bit for bit in self.shapes)

    def _types(self) -> dict[str, tuple[list[int], list[int]]]:
        if self._prefixes is None:
            self._prepare()
        return self._by_type

    def _prepare(self) -> list[tuple[str, list[int], list[int]]]:
        names = sorted({name for shape in self.shapes.values() for name in shape.resources})
        self._by_type = {name: self._prefix(name) for name in names}
        self._prefixes = [(name, *self._by_type[name]) for name in names]
        return self._prefixes

    def _prefix(self, name: str) -> tuple[list[int], list[int]]:
        """Give the amounts of one type in order, and after each the mask of what asks no more."""
        by_amount: dict[int, int] = {}
        for bit, shape in self.shapes.items():
            amount = shape.resources[name]
            by_amount[amount] = by_amount.get(amount, 0) | 1 << bit
        mask = by_amount.pop(0, 0)
        amounts = sorted(by_amount)
        masks = [mask]
        for amount in amounts:
            mask |= by_amount[amount]
            masks.append(mask)
        return amounts, masks

    def check(self, pending: Iterable[Shape]) -> None:
        """Assert the invariants, given the shape of each pending ask; for tests."""
        users: dict[int, int] = dict.fromkeys(self.shapes, 0)
        for shape in pending:
            users[self._bits[shape]] += 1
        # Each shape is counted once per pending ask.
        assert users == self._users
        # All and only the shapes without a pending ask are idle.
        assert set(self._idle) == {bit for bit, count in users.items() if not count}
        # Every bit stands for one shape, and bit 0 for none.
        assert {bit: self._bits[shape] for bit, shape in self.shapes.items()} == {
            bit: bit for bit in self.shapes
        }
        assert 0 not in self.shapes
        # Each is among those that may use any node, or among the others.
        choosy = {bit for bit, shape in self.shapes.items() if shape.is_choosy}
        assert set(self.choosy) == choosy
        assert set(bits_of(self.not_choosy)) == set(self.shapes) - choosy
