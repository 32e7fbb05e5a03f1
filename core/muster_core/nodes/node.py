"""A node and the allocations on it."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, final

import attrs

from muster_core.nodes.devices import NodeDevices, least_lack
from muster_core.structures.ranking import Ranked
from muster_core.structures.shares import Weighing
from muster_core.structures.steps import SIZE
from muster_core.values.devices import NO_STOCKS, resource_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.structures.shapes import Shape
    from muster_core.values.resources import Resources

Holder = tuple[int, str]
"""The holder of an allocation: the key of the application, and the name of the ask."""


Weights = tuple[tuple[str, float], ...]


@final
@attrs.define(eq=False)
class Node(Ranked):
    """One node, which only the index changes.

    Attributes:
        name: Its name.
        capacity: Its capacity, in base units.
        used: The resources in use; may exceed the capacity after an update.
        held: The count of allocations of each holder. It is 1, except while an ask ends and a
            new ask of the same name begins.
        attributes: The attributes that selectors refer to.
        schedulable: Whether asks may be placed on it.
        weighing: Computes its utilisation.
        matching: The shapes that may use it, regardless of free resources; ``mask`` has those of
            them that fit now.
        changed: The holders whose allocations have begun, ended or been bound since the reader of
            this cleared it; None if nobody reads it, or if they are too many.
        present: Whether it is still in the index.
        version: A number that changes whenever anything about the node changes.
        kept: Whether a node service keeps it, so that nothing else is placed there.
        devices: Its devices, or None if it has none; the capacity contains them.
    """

    name: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str]
    schedulable: bool
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    held: dict[Holder, int] = attrs.field(factory=dict["Holder", int])
    weighing: Weighing = attrs.field(factory=lambda: Weighing({}, ()), repr=False)
    matching: int = 0
    changed: dict[Holder, None] | None = None
    present: bool = True
    version: int = 0
    kept: bool = False
    devices: NodeDevices | None = None

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
        capacity, used = self.capacity, self.used
        count = min(
            (capacity.get(name, 0) - used.get(name, 0)) // amount
            for name, amount in shape.resources.items()
        )
        if count <= 0:
            return 0
        if not shape.devices or self.devices is None:
            return count
        return min(count, self.devices.how_many(shape.devices) or 0)

    def as_if(self, used: Mapping[str, int], devices: NodeDevices | None) -> Node:
        """Return a copy of which other amounts and devices are used; no index knows it.

        Args:
            used: The resources in use there.
            devices: Its devices there, or None if it has none.
        """
        there = copy(self)
        there.used, there.devices = dict(used), devices
        return there

    def note_change(self, holder: Holder) -> None:
        """Record which allocation has changed, unless it is as well to compare all of them."""
        assert self.changed is not None, "nobody reads what changes"
        self.changed[holder] = None
        if len(self.changed) > len(self.held) + SIZE:  # Perhaps nobody reads this any more.
            self.changed = None

    def may_take(self, shape: Shape) -> bool:
        """Return whether a shape may use it, regardless of free resources and of schedulability."""
        stocks = NO_STOCKS if self.devices is None else self.devices.stocks
        return shape.matches(self.name, self.attributes, stocks)


def how_many_in(resources: Resources, room: Mapping[str, int]) -> int:
    """Count how often an amount fits in ``room``, which may be negative."""
    return max(0, min(room.get(name, 0) // amount for name, amount in resources.items()))
