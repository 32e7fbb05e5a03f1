"""Shapes: the requirements of asks on a node, as bits of one integer.

A shape consists of resources, devices, and the conditions for the nodes that an ask may use:
required node, selector, affinity and tolerations. Asks of one shape fit the same nodes and quotas.
Each live shape has a bit, so that "does any ask of this queue fit there" is one ``&`` of integers
for any number of asks. To find the shapes that fit an amount of free resources takes one bisection
per resource type over prepared masks.

Bit 0 is not a shape: the view uses it to have a queue visited (see :data:`VISIT_BIT`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict

# Checkpoints have shapes: their codec looks up the types of the fields.
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, TypeAlias, final

import attrs

from muster_core.enumerations import quick_members
from muster_core.structures.amounts import Numbered, Types
from muster_core.values.affinity import Affinity, Taint, Toleration, admits, repelling
from muster_core.values.devices import NO_STOCKS, WHOLE, DeviceNeeds, DeviceStock
from muster_core.values.resources import Resources

EVERY_SHAPE: Final = -1
"""The mask with every bit set."""

VISIT_BIT: Final = 0
"""The bit for asks that are tried even if they do not fit; no shape has it."""

KEPT_IDLE: Final = 32
"""How many shapes without a pending ask are kept at least, in case they occur again."""


# AFFINITY-14
@final
@quick_members
class Exclusion(Enum):
    """Why an ask may not use a node, whatever is free there."""

    UNMATCHED = auto()
    AFFINITY = auto()
    TAINTS = auto()


@final
@attrs.frozen(cache_hash=True)
class Shape:
    """The requirements of an ask on a node.

    Attributes:
        selector: The attributes that the node must have, sorted by name.
        node: The only node on which it may run, or None.
        members: More than 1 for several members of a gang, whose ``resources`` are the sum of
            theirs (see :mod:`muster_core.view.gang_index`); it never fits a single node.
        devices: The devices that it needs; ``resources`` contain them as well.
        tolerations: Those of the ask, in an order that does not depend on how they were written.
        affinity: The terms of which the node must match one, likewise; None if it has none.
    """

    resources: Resources
    selector: tuple[tuple[str, str], ...] = ()
    node: str | None = None
    members: int = 1
    devices: DeviceNeeds = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None

    @property
    def is_choosy(self) -> bool:
        """Whether it may be unable to use some nodes without taints, even if they are empty."""
        return (
            bool(self.selector)
            or self.node is not None
            or self.members > 1
            or self.affinity is not None
            or any(need.models is not None for _, need in self.devices)
        )

    # ORDER-21
    def matches(
        self,
        name: str,
        attributes: Mapping[str, str],
        stocks: Mapping[str, DeviceStock] = NO_STOCKS,
        taints: Iterable[Taint] = (),
    ) -> bool:
        """Return whether the shape may use a node, regardless of its free resources."""
        return self.exclusion(name, attributes, stocks, taints) is None

    # FEED-27, FEED-28, AFFINITY-13
    def exclusion(
        self,
        name: str,
        attributes: Mapping[str, str],
        stocks: Mapping[str, DeviceStock] = NO_STOCKS,
        taints: Iterable[Taint] = (),
    ) -> Exclusion | None:
        """Return the first cause for which the shape may not use a node, or None if it may."""
        if self.members > 1 or (self.node is not None and self.node != name):
            return Exclusion.UNMATCHED
        # DEVICE-3
        for kind, need in self.devices:
            if need.models is not None and (
                kind not in stocks or not need.admits(stocks[kind].model)
            ):
                return Exclusion.UNMATCHED
        if not all(attributes.get(key) == value for key, value in self.selector):
            return Exclusion.UNMATCHED
        # AFFINITY-5
        if self.affinity is not None and not admits(self.affinity, name, attributes):
            return Exclusion.AFFINITY
        # AFFINITY-2
        return Exclusion.TAINTS if taints and repelling(taints, self.tolerations) else None


Alike: TypeAlias = list[tuple[Shape, int]]
"""Shapes that match different nodes, each with the mask of those that match the same ones."""


def bits_of(mask: int) -> Iterator[int]:
    """Yield the positions of the bits of a mask, which must not be negative."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@final
class MaskCounts:
    """Counts, for each bit, how many masks have it.

    The counts are kept as bit planes: the first plane has the lowest binary digit of every count,
    and so on. So adding or removing a mask takes a few operations on integers, for any number of
    bits.

    Attributes:
        mask: The bits that at least one of the masks has.
    """

    __slots__ = ("_planes", "mask")

    def __init__(self) -> None:
        self._planes: list[int] = []
        self.mask = 0

    def replace(self, before: int, after: int) -> None:
        """Replace a counted mask by another one; 0 means no mask."""
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
        """Remove the counts of the bits outside ``mask``."""
        self._planes = [plane & mask for plane in self._planes]
        self.mask &= mask

    def check(self, masks: Iterable[int]) -> None:
        """Assert the invariants, given all counted masks; for tests."""
        counts: dict[int, int] = {}
        for mask in masks:
            for bit in bits_of(mask):
                counts[bit] = counts.get(bit, 0) + 1
        assert set(bits_of(self.mask)) == set(counts)
        for bit, count in counts.items():
            planes = enumerate(self._planes)
            assert count == sum((plane >> bit & 1) << digit for digit, plane in planes)


Prefix = tuple[list[int], list[int]]
"""Sorted amounts, and masks of the shapes that ask for no more than each."""


@final
class ShapeTable:
    """The live shapes and their bits.

    A shape keeps its bit while a pending ask has it, and for some time after that: when twice as
    many shapes are idle as in use, the table removes those that have been idle longest.
    """

    __slots__ = (
        "_bits",
        "_by_type",
        "_devices",
        "_free",
        "_idle",
        "_matching_alike",
        "_prefixes",
        "_users",
        "amounts",
        "changes",
        "choosy",
        "gangs",
        "not_choosy",
        "one_node",
        "shapes",
        "singles",
        "types",
    )

    def __init__(self) -> None:
        #: The shape at each bit; it does not contain bit 0 and free bits.
        self.shapes: dict[int, Shape] = {}
        #: The resource types of the partition, and the resources of the shape at each bit.
        self.types = Types()
        self.amounts: dict[int, Numbered] = {}
        #: The bit of each shape: the inverse of ``shapes``.
        self._bits: dict[Shape, int] = {}
        #: How many pending asks have the shape at each bit; zero for all and only the idle ones.
        self._users: dict[int, int] = {}
        #: The bits of shapes without a pending ask, idle longest first.
        self._idle: OrderedDict[int, None] = OrderedDict()
        #: Released bits, which can be used again.
        self._free: list[int] = []
        #: The shapes that may use any node, as a mask, and the bits of all others.
        self.not_choosy = 0
        self.choosy: dict[int, None] = {}
        #: The shapes of single asks, and those of several members together, as masks.
        self.singles = 0
        self.gangs = 0
        #: Increases whenever a shape comes or goes.
        self.changes = 0
        #: The shapes that require a node, as a mask.
        self.one_node = 0
        #: For each type, the amounts asked for, and the masks of the shapes that ask for at
        #: most each amount; None if they must be computed again. The same by type.
        self._prefixes: list[tuple[str, list[int], list[int]]] | None = None
        self._by_type: dict[str, tuple[list[int], list[int]]] = {}
        #: For each type of devices, the shares asked for, and masks of the shapes that ask for at
        #: most each share; and the same of whole ones.
        self._devices: list[tuple[str, Prefix, Prefix]] = []
        #: What :meth:`alike` has found of all shapes, and of the choosy ones; empty if it must be
        #: computed again.
        self._matching_alike: dict[bool, Alike] = {}

    def find(self, shape: Shape) -> int | None:
        """Return the bit of a shape, or None if it is not in the table."""
        return self._bits.get(shape)

    def acquire(self, bit: int, times: int = 1) -> None:
        """Count one more pending ask, or ``times`` more, for the shape at ``bit``."""
        if not self._users[bit]:
            del self._idle[bit]
        self._users[bit] += times

    def add(self, shape: Shape) -> int:
        """Add a new shape, which is idle at first, and return its bit."""
        bit = self._free.pop() if self._free else len(self.shapes) + 1
        self.shapes[bit] = shape
        self.amounts[bit] = self.types.numbered(shape.resources.amounts)
        self._bits[shape] = bit
        self._users[bit] = 0
        self._idle[bit] = None
        self._prefixes = None
        self._matching_alike.clear()
        self.changes += 1
        if shape.members == 1:
            self.singles |= 1 << bit
        else:
            self.gangs |= 1 << bit
        if shape.is_choosy:
            self.choosy[bit] = None
            if shape.node is not None:
                self.one_node |= 1 << bit
        else:
            self.not_choosy |= 1 << bit
        return bit

    def release(self, bit: int) -> None:
        """Count one pending ask less for the shape at ``bit``."""
        self._users[bit] -= 1
        if not self._users[bit]:
            self._idle[bit] = None

    def is_used(self, bit: int) -> bool:
        """Return whether a pending or waiting ask has the shape at ``bit``."""
        return self._users[bit] > 0

    def forget_idle(self) -> list[int]:
        """Remove the shapes that have been idle longest, if there are too many; return their bits.

        All nodes must be updated after that, so it happens rarely, and for many shapes at once.
        """
        most = max(KEPT_IDLE, len(self.shapes) - len(self._idle))
        forgotten: list[int] = []
        if len(self._idle) < 2 * most:
            return forgotten
        while len(self._idle) > most:
            bit, _ = self._idle.popitem(last=False)
            del self._bits[self.shapes.pop(bit)], self.amounts[bit]
            del self._users[bit]
            self.choosy.pop(bit, None)
            self.not_choosy &= ~(1 << bit)
            self.singles &= ~(1 << bit)
            self.gangs &= ~(1 << bit)
            self.one_node &= ~(1 << bit)
            forgotten.append(bit)
        self._free.extend(forgotten)
        self._prefixes = None
        self._matching_alike.clear()
        self.changes += 1
        return forgotten

    def alike(self, bits: Iterable[int]) -> Alike:
        """Return shapes of single asks, of those that match the same nodes only one."""
        found: dict[tuple[object, ...], tuple[Shape, int]] = {}
        for bit in bits:
            shape = self.shapes[bit]
            if shape.members == 1:
                key = (
                    *(shape.selector, shape.node, shape.devices),
                    *(shape.tolerations, shape.affinity),
                )
                first, mask = found.get(key, (shape, 0))
                found[key] = (first, mask | 1 << bit)
        return list(found.values())

    def all_alike(self, *, choosy: bool) -> Alike:
        """Return what :meth:`alike` does of all shapes, or of the choosy ones."""
        found = self._matching_alike.get(choosy)
        if found is None:
            found = self._matching_alike[choosy] = self.alike(
                self.choosy if choosy else self.shapes
            )
        return found

    def fitting_node(self, capacity: Mapping[str, int], used: Mapping[str, int]) -> int:
        """Return the shapes whose resources fit in what is free; a missing type counts as 0.

        Args:
            capacity: The capacity.
            used: The resources in use, which may exceed the capacity.

        Returns:
            A mask, which may also have bits without a shape.
        """
        mask = EVERY_SHAPE
        for name, amounts, masks in self._prefixes or self._prepare():
            room = capacity.get(name, 0) - used.get(name, 0)
            if room < amounts[-1]:
                mask &= masks[bisect_right(amounts, room)]
        return mask

    # DEVICE-6
    def fitting_devices(self, free: Mapping[str, list[int]]) -> int:
        """Return the shapes whose devices fit; a type that is not there is not looked at.

        Args:
            free: What is free on each device, for each type.

        Returns:
            A mask, which may also have bits without a shape.
        """
        mask = EVERY_SHAPE
        if self._prefixes is None:
            self._prepare()
        for kind, (shares, of_share), (counts, of_count) in self._devices:
            there = free.get(kind)
            if there is not None:
                mask &= of_share[bisect_right(shares, max(there))]
                mask &= of_count[bisect_right(counts, there.count(WHOLE))]
        return mask

    def fitting_headroom(self, headroom: Mapping[str, int]) -> int:
        """Return the shapes whose resources fit in ``headroom``; a missing type has no limit.

        Headroom can be negative if a ``max`` was lowered below what is allocated. A shape that
        asks for nothing of that type fits nevertheless.
        """
        mask = EVERY_SHAPE
        prefixes = self._types()
        for name, room in headroom.items():
            if name in prefixes:
                amounts, masks = prefixes[name]
                mask &= masks[bisect_right(amounts, room)]
        return mask

    def naming(self, names: Iterable[str]) -> int:
        """Return the shapes that ask for at least one of these types."""
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
        shapes = self.shapes.items()
        self._by_type = {
            name: _prefix({bit: shape.resources[name] for bit, shape in shapes}) for name in names
        }
        self._devices = [
            (
                kind,
                _prefix({bit: _share(shape, kind) for bit, shape in shapes}),
                _prefix({bit: _count(shape, kind) for bit, shape in shapes}),
            )
            for kind in sorted(
                {kind for shape in self.shapes.values() for kind, _ in shape.devices}
            )
        ]
        self._prefixes = [(name, *self._by_type[name]) for name in names]
        return self._prefixes

    def check(self, pending: Iterable[Shape]) -> None:
        """Assert the invariants, given the shape of each pending ask; for tests."""
        users: dict[int, int] = dict.fromkeys(self.shapes, 0)
        for shape in pending:
            users[self._bits[shape]] += 1
        # Each shape is counted once for each of its pending asks.
        assert users == self._users
        # All and only the shapes without a pending ask are idle.
        assert set(self._idle) == {bit for bit, count in users.items() if not count}
        # Each shape has its resources by number.
        assert self.amounts == {
            bit: self.types.numbered(shape.resources) for bit, shape in self.shapes.items()
        }
        # Every bit belongs to one shape, and bit 0 to none.
        assert {bit: self._bits[shape] for bit, shape in self.shapes.items()} == {
            bit: bit for bit in self.shapes
        }
        assert 0 not in self.shapes
        # Each shape is either choosy or not.
        choosy = {bit for bit, shape in self.shapes.items() if shape.is_choosy}
        assert set(self.choosy) == choosy
        assert set(bits_of(self.not_choosy)) == set(self.shapes) - choosy
        singles = {bit for bit, shape in self.shapes.items() if shape.members == 1}
        assert set(bits_of(self.singles)) == singles
        assert set(bits_of(self.gangs)) == set(self.shapes) - singles
        required = {bit for bit, shape in self.shapes.items() if shape.node is not None}
        assert set(bits_of(self.one_node)) == required


def _prefix(wanted: Mapping[int, int]) -> Prefix:
    """Return the sorted amounts of one type, and masks of the shapes that ask for no more.

    The first mask has the shapes that ask for nothing of the type, and each later one the
    shapes that ask for at most the amount before it.
    """
    by_amount: dict[int, int] = {}
    for bit, amount in wanted.items():
        by_amount[amount] = by_amount.get(amount, 0) | 1 << bit
    mask = by_amount.pop(0, 0)
    amounts = sorted(by_amount)
    masks = [mask]
    for amount in amounts:
        mask |= by_amount[amount]
        masks.append(mask)
    return amounts, masks


def _share(shape: Shape, kind: str) -> int:
    return next((need.milli for name, need in shape.devices if name == kind), 0)


def _count(shape: Shape, kind: str) -> int:
    """Return how many whole devices a shape asks for."""
    return next((need.count for name, need in shape.devices if name == kind), 0)
