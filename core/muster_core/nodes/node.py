"""A node, the allocations on it, and its devices.

It knows the devices, what is free on each, and which ones an ask would take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import final

from muster_core.structures.amounts import WeightedShare
from muster_core.structures.ranking import Ranked
from muster_core.structures.shapes import Exclusion, Shape
from muster_core.structures.steps import SIZE
from muster_core.values.affinity import Taint
from muster_core.values.devices import (
    NO_STOCKS,
    WHOLE,
    DeviceNeed,
    DeviceNeeds,
    DeviceStock,
    TakenDevices,
    resource_type,
)
from muster_core.values.resources import Resources

DeviceUse = tuple["DeviceNeeds", "TakenDevices"]
"""The devices that an allocation needs, and the numbers of those that it holds."""


@final
class NodeDevices:
    """The devices of a node, which only the index of nodes changes.

    Args:
        stocks: The devices by type; all are free.

    Attributes:
        stocks: The devices by type, in the order of the types.
        free: The free milli of each device by its number, for each type.
    """

    __slots__ = ("free", "stocks")

    def __init__(self, stocks: Mapping[str, DeviceStock]) -> None:
        self.stocks = dict(sorted(stocks.items()))
        self.free = {kind: [WHOLE] * stock.count for kind, stock in self.stocks.items()}

    # DEVICE-6
    def has_room(self, needs: DeviceNeeds) -> bool:
        """Return whether these devices fit, apart from their models."""
        return all(kind in self.free and fits_on(need, self.free[kind]) for kind, need in needs)

    def how_many(self, needs: DeviceNeeds) -> int | None:
        """Count how many asks with these needs would fit together; None without needs.

        Equal asks fit in the same number, in whichever order and on whichever devices they are
        placed.
        """
        counts = [
            sum(free // need.milli for free in self.free.get(kind, ()))
            if need.is_share
            else self.free.get(kind, []).count(WHOLE) // need.count
            for kind, need in needs
        ]
        return min(counts, default=None)

    # DEVICE-7, DEVICE-8
    def pick(self, needs: DeviceNeeds) -> TakenDevices:
        """Return the devices that an ask takes for which there is room."""
        return tuple(
            (kind, (fullest(need, self.free[kind]),) if need.is_share else self.lowest(kind, need))
            for kind, need in needs
        )

    # DEVICE-7
    def lowest(self, kind: str, need: DeviceNeed) -> tuple[int, ...]:
        """Return the lowest numbers of devices that are wholly free."""
        whole = (number for number, free in enumerate(self.free[kind]) if free == WHOLE)
        return tuple(number for number, _ in zip(whole, range(need.count)))  # noqa: B905 - the first ones

    # DEVICE-9
    def take(self, use: DeviceUse) -> None:
        """Take devices, on which there is room."""
        self._change(use, -1)

    def give_back(self, use: DeviceUse) -> None:
        """Release devices that were taken."""
        self._change(use, 1)

    def copy(self) -> NodeDevices:
        """Return the same devices, as they are now, for looking ahead."""
        there = NodeDevices(self.stocks)
        there.free = self.copy_of_free()
        return there

    # BACKFILL-20
    def pick_anyway(self, needs: DeviceNeeds) -> TakenDevices:
        """Return the devices that an ask would take for which there need not be room.

        Those that are free come first; a share is taken of the device that has most free.
        """
        taken: list[tuple[str, tuple[int, ...]]] = []
        for kind, need in needs:
            free = self.free.get(kind, [])
            if need.is_share:
                most_first = sorted((-there, number) for number, there in enumerate(free))
                numbers = [number for _, number in most_first[:1]]
            else:
                free_first = sorted((there < WHOLE, number) for number, there in enumerate(free))
                numbers = [number for _, number in free_first[: need.count]]
            taken.append((kind, tuple(numbers)))
        return tuple(taken)

    # BACKFILL-20
    def change_anyway(self, use: DeviceUse, sign: int) -> None:
        """Take devices (-1) or give them back (1), though less than nothing may be free then."""
        for (kind, need), (_, numbers) in zip(*use, strict=True):
            for number in numbers:
                self.free[kind][number] += sign * need.on_one

    def _change(self, use: DeviceUse, sign: int) -> None:
        for (kind, need), (_, numbers) in zip(*use, strict=True):
            free, change = self.free[kind], sign * need.on_one
            for number in numbers:
                free[number] += change
                assert 0 <= free[number] <= WHOLE, "a device was taken or given back twice"

    def copy_of_free(self) -> dict[str, list[int]]:
        """Return the free milli of each device, for the caller to change."""
        return {kind: list(free) for kind, free in self.free.items()}

    def check(self, uses: Iterable[DeviceUse]) -> None:
        """Assert that they are as if all allocations took them now; for tests."""
        fresh = NodeDevices(self.stocks)
        for use in uses:
            fresh.take(use)
        assert fresh.free == self.free


@final
class DevicesAfter:
    """The devices of a node after victims are gone.

    Args:
        needs: The needs of the ask for which victims are chosen.
    """

    __slots__ = ("_free", "_needs")

    def __init__(self, needs: DeviceNeeds, there: NodeDevices | None) -> None:
        self._needs = () if there is None else needs
        self._free = {} if there is None or not needs else there.copy_of_free()

    # DEVICE-10
    def lacking(self) -> list[str]:
        """Return the resource types of which the devices do not fit."""
        return [
            resource_type(kind)
            for kind, need in self._needs
            if kind in self._free and not fits_on(need, self._free[kind])
        ]

    def change(self, use: DeviceUse, sign: int) -> None:
        """Record that a victim on the node is taken (-1) or spared (1)."""
        if self._free:
            for (kind, need), (_, numbers) in zip(*use, strict=True):
                for number in numbers:
                    self._free[kind][number] -= sign * need.on_one


# DEVICE-6
def fits_on(need: DeviceNeed, free: Sequence[int]) -> bool:
    """Return whether a need fits on devices with these free amounts."""
    if need.is_share:
        return max(free) >= need.milli
    return free.count(WHOLE) >= need.count


# DEVICE-8
def fullest(need: DeviceNeed, free: Sequence[int]) -> int:
    """Return the device with the least free that suffices for a share, and the lowest number."""
    _, number = min((amount, number) for number, amount in enumerate(free) if amount >= need.milli)
    return number


# DEVICE-10
def least_lack(need: DeviceNeed, free: Sequence[int]) -> int:
    """Return how much must be released at least until a need fits; 0 if it fits."""
    if need.is_share:
        return max(0, need.milli - max(free, default=0))
    used = sorted(WHOLE - amount for amount in free if amount < WHOLE)
    return sum(used[: max(0, need.count - free.count(WHOLE))])


Holder = tuple[int, str]
"""The holder of an allocation: the key of the application, and the name of the ask."""


Weights = tuple[tuple[str, float], ...]


@final
class Node(Ranked):
    """One node, which only the index changes.

    Attributes:
        reserved: The usage of others than asks; may exceed the capacity.
        room: The capacity less what is reserved, at least 0: what its asks may hold together.
        used: The resources in use; may exceed the room after an update.
        held: The count of allocations of each holder. It is 1, except while an ask ends and a
            new ask of the same name begins.
        weighing: Computes its utilisation.
        matching: The shapes that may use it, regardless of free resources; ``mask`` has those of
            them that fit now.
        changed: The holders whose allocations have begun, ended or been bound since the reader of
            this cleared it; None if it has no reader, or if they are too many.
        present: Whether it is still in the index.
        version: A number that changes whenever anything about the node changes.
        kept: Whether a node service keeps it, so that nothing else is placed there.
        devices: Its devices, or None if it has none; the capacity contains them.
        taints: Its taints, as they were written.
    """

    __slots__ = (
        "attributes",
        "capacity",
        "changed",
        "devices",
        "held",
        "kept",
        "matching",
        "name",
        "present",
        "reserved",
        "room",
        "schedulable",
        "taints",
        "used",
        "version",
        "weighing",
    )

    def __init__(
        self,
        name: str,
        capacity: Mapping[str, int],
        attributes: Mapping[str, str],
        schedulable: bool,
        used: dict[str, int] | None = None,
        weighing: WeightedShare | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.capacity = capacity
        self.reserved: Mapping[str, int] = {}
        self.room = capacity
        self.attributes = attributes
        self.schedulable = schedulable
        self.used: dict[str, int] = {} if used is None else used
        self.held: dict[Holder, int] = {}
        self.weighing = WeightedShare({}, ()) if weighing is None else weighing
        self.matching = 0
        self.changed: dict[Holder, None] | None = None
        self.present = True
        self.version = 0
        self.kept = False
        self.devices: NodeDevices | None = None
        self.taints: tuple[Taint, ...] = ()

    # RESERVED-2
    def equip(self, capacity: Mapping[str, int], reserved: Mapping[str, int]) -> None:
        """Have another capacity, or something else reserved of it."""
        self.capacity, self.reserved, self.room = capacity, reserved, capacity
        if reserved:
            self.room = {
                name: max(amount - reserved.get(name, 0), 0) for name, amount in capacity.items()
            }

    # DEVICE-6, DEVICE-10
    def lack_of_devices(self, shape: Shape) -> dict[str, int]:
        """Return how much must be released at least, by resource type, until its devices fit."""
        if not shape.devices or self.devices is None:
            return {}
        free = self.devices.free
        lacks = ((kind, least_lack(need, free.get(kind, ()))) for kind, need in shape.devices)
        return {resource_type(kind): lack for kind, lack in lacks if lack}

    def how_many(self, shape: Shape) -> int:
        """Count how many asks of a shape fit together, on a node that they may use."""
        room, used = self.room, self.used
        count = min(
            (room.get(name, 0) - used.get(name, 0)) // amount
            for name, amount in shape.resources.items()
        )
        if count <= 0:
            return 0
        if not shape.devices or self.devices is None:
            return count
        return min(count, self.devices.how_many(shape.devices) or 0)

    def as_if(self, used: Mapping[str, int], devices: NodeDevices | None) -> Node:
        """Return a copy of which other amounts and devices are used; no index knows it."""
        there = copy(self)
        there.used, there.devices = dict(used), devices
        return there

    def note_change(self, holder: Holder) -> None:
        """Record which allocation has changed, unless it is as well to compare all of them."""
        assert self.changed is not None, "no reader of changes"
        self.changed[holder] = None
        if len(self.changed) > len(self.held) + SIZE:  # It may have no reader any more.
            self.changed = None

    def may_take(self, shape: Shape) -> bool:
        """Return whether a shape may use it, regardless of free resources and of schedulability."""
        return self.exclusion(shape) is None

    def exclusion(self, shape: Shape) -> Exclusion | None:
        """Return the first cause for which a shape may not use it, or None if it may."""
        stocks = NO_STOCKS if self.devices is None else self.devices.stocks
        return shape.exclusion(self.name, self.attributes, stocks, self.taints)


def how_many_in(resources: Resources, room: Mapping[str, int]) -> int:
    """Count how often an amount fits in ``room``, which may be negative."""
    return max(0, min(room.get(name, 0) // amount for name, amount in resources.items()))
