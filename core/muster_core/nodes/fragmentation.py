"""Fragmentation gradient descent: how much more of devices typical asks cannot use after an ask.

The order ``fgd``, after Weng et al., "Beware of Fragmentation", USENIX ATC 2023, in which the sum F of
a node is compared before and after the ask is placed there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from muster_core.nodes.node import Node
    from muster_core.nodes.typical import DeviceState, TypicalAsks
    from muster_core.structures.shapes import Shape
    from muster_core.values.devices import DeviceNeed, DeviceNeeds, TakenDevices


@final
class Fragmentation:
    """Compares nodes by what an ask would make unusable, and chooses devices by that.

    Args:
        typical: The typical asks.
    """

    def __init__(self, typical: TypicalAsks) -> None:
        self._typical = typical
        self._kinds = frozenset(typical.kinds)
        #: A number for each of the needs that were looked at.
        self._numbers: dict[DeviceNeeds, int] = {}
        #: What is known of each node in one of its versions: its devices, and its mask.
        self._known: dict[Node, tuple[int, DeviceState, int]] = {}

    def number_of(self, needs: DeviceNeeds) -> int:
        """Return the number under which the needs of a shape are remembered."""
        return self._numbers.setdefault(needs, len(self._numbers))

    def forget(self, node: Node) -> None:
        """Forget a node that was removed."""
        self._known.pop(node, None)

    # DEVICE-15
    def steps(self, node: Node, shape: Shape, number: int) -> int:
        """Return how many steps F of a node goes up if an ask of a shape is placed there.

        Args:
            node: The node; the shape fits there.
            shape: The shape.
            number: The number of its needs.
        """
        typical = self._typical
        state, before = self._look_at(node)
        after = typical.mask(node, shape.resources.amounts)
        steps = state.steps.get((number, before, after))
        if steps is None:
            there, then = typical.unusable(state, before), self._after(node, shape, state, after)
            steps = typical.steps(there, then)
            if self._is_known_by_state(shape.devices):
                state.steps[number, before, after] = steps
        return steps

    def _look_at(self, node: Node) -> tuple[DeviceState, int]:
        known = self._known.get(node)
        if known is not None and known[0] == node.version:
            return known[1], known[2]
        free = {} if node.devices is None else node.devices.free
        state, mask = self._typical.state_of(node, free), self._typical.mask(node, {})
        self._known[node] = node.version, state, mask
        return state, mask

    def _is_known_by_state(self, needs: DeviceNeeds) -> bool:
        """Return whether all nodes in one state have the same steps.

        With several types, the device that is taken of one may depend on its number, and F on it
        with those of the others.
        """
        return len(needs) <= 1

    def _after(self, node: Node, shape: Shape, state: DeviceState, mask: int) -> int:
        """Return F after an ask of a shape was placed."""
        needs = shape.devices
        if not self._is_known_by_state(needs):
            return self._choose(node, shape, state, mask)[1]
        for kind, need in needs:
            if kind in self._kinds:
                return min(
                    self._typical.unusable(one, mask) for one in self._left(state, kind, need)
                )
        return self._typical.unusable(state, mask)

    def _left(self, state: DeviceState, kind: str, need: DeviceNeed) -> list[DeviceState]:
        """Return what may be left of devices after a need was met."""
        typical = self._typical
        if not need.is_share:
            return [typical.without_whole(state, kind, need.count)]
        there = next(free for name, _, free in state.devices if name == kind)
        return [
            typical.without_share(state, kind, free, need.milli)
            for free in sorted({free for free in there if free >= need.milli})
        ]

    # DEVICE-19
    def unusable(self, node: Node) -> float | None:
        """Return F of a node for each unit of weight, in milli; None without typical asks."""
        if not self._typical.weight:
            return None
        state, mask = self._look_at(node)
        return self._typical.unusable(state, mask) / self._typical.weight

    # DEVICE-20
    def pick(self, node: Node, shape: Shape) -> TakenDevices:
        """Return the devices that an ask of a shape takes on a node, on which it fits."""
        state, _ = self._look_at(node)
        return self._choose(node, shape, state, self._typical.mask(node, shape.resources))[0]

    def _choose(
        self, node: Node, shape: Shape, state: DeviceState, mask: int
    ) -> tuple[TakenDevices, int]:
        """Return the devices that an ask takes, type by type, and F after that."""
        taken: list[tuple[str, tuple[int, ...]]] = []
        assert node.devices is not None, "devices are taken on a node without any"
        for kind, need in shape.devices:
            if not need.is_share:
                taken.append((kind, node.devices.lowest(kind, need)))
                if kind in self._kinds:
                    state = self._typical.without_whole(state, kind, need.count)
                continue
            number, state = self._best_share(node.devices.free[kind], kind, need, state, mask)
            taken.append((kind, (number,)))
        return tuple(taken), self._typical.unusable(state, mask)

    def _best_share(
        self, free: list[int], kind: str, need: DeviceNeed, state: DeviceState, mask: int
    ) -> tuple[int, DeviceState]:
        """Return the device with the least F after a share of it was taken, and the lowest number."""
        if kind not in self._kinds:
            return next(number for number, there in enumerate(free) if there >= need.milli), state
        left: dict[int, DeviceState] = {}
        best: tuple[int, int, DeviceState] | None = None
        for number, there in enumerate(free):
            if there < need.milli:
                continue
            if there not in left:
                left[there] = self._typical.without_share(state, kind, there, need.milli)
            then = self._typical.unusable(left[there], mask)
            if best is None or then < best[0]:
                best = then, number, left[there]
        assert best is not None, "a share is taken where none fits"
        return best[1], best[2]
