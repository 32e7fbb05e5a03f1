"""The devices of a node as they would be after victims are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.nodes.devices import fits_on
from muster_core.values.devices import resource_type

if TYPE_CHECKING:
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Allocation
    from muster_core.structures.shapes import Shape


@final
class DevicesAfter:
    """What would be free on each device of a node.

    Args:
        shape: The shape of the ask for which victims are chosen.
        node: The node.
    """

    __slots__ = ("_free", "_needs")

    def __init__(self, shape: Shape, node: Node) -> None:
        self._needs = () if node.devices is None else shape.devices
        self._free = {} if node.devices is None or not self._needs else node.devices.copy_of_free()

    # DEVICE-10
    def lacking(self) -> list[str]:
        """Return the types of which the devices do not fit."""
        return [
            resource_type(kind)
            for kind, need in self._needs
            if kind in self._free and not fits_on(need, self._free[kind])
        ]

    def change(self, allocation: Allocation, sign: int) -> None:
        """Record that a victim on the node is taken (-1) or spared (1)."""
        if not self._free:
            return
        for (kind, need), (_, numbers) in zip(*allocation.use, strict=True):
            for number in numbers:
                self._free[kind][number] -= sign * need.on_one
