"""Typical asks, and what they cannot use of the devices of a node: the sum F of ``fgd``.

Only three things of a node matter for F: which typical asks find enough resources there (a mask),
the models of its devices, and how much is free on each device, in any order. So nodes that are
alike in these share a :class:`DeviceState`, which remembers F and what follows from an ask.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from operator import mul
from typing import TYPE_CHECKING, Final, final

from muster_core.nodes.devices import fits_on
from muster_core.values.devices import WHOLE, DeviceNeed, DeviceNeeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from muster_core.nodes.node import Node
    from muster_core.values.configuration.partition import TypicalAsk

STEP: Final = 40
"""How many milli of F, for one unit of weight, are one step of the order."""

Devices = tuple[tuple[str, tuple[bool, ...], tuple[int, ...]], ...]
"""Of each type of devices that a typical ask names: the type, which needs with models the model
meets, and the free milli of the devices in ascending order."""


@final
class DeviceState:
    """Devices as they are on one or more nodes.

    Attributes:
        devices: The devices.
        all_free: F if no typical ask fits: all that is free, for each unit of weight.
        usable: For each group of typical asks, how much F is less for each unit of weight that
            finds enough resources.
        known: F by the mask of the typical asks that find enough resources.
        steps: The steps of F that an ask makes, by its needs and the masks before and after.
    """

    __slots__ = ("all_free", "devices", "known", "steps", "usable")

    def __init__(self, devices: Devices, all_free: int, usable: tuple[int, ...]) -> None:
        self.devices = devices
        self.all_free = all_free
        self.usable = usable
        self.known: dict[int, int] = {}
        self.steps: dict[tuple[int, int, int], int] = {}


@final
class TypicalAsks:
    """The typical asks, each with its weight.

    Asks that need the same devices are a group; only their resources differ.

    Args:
        asks: The typical asks.

    Attributes:
        weight: The sum of all weights.
    """

    def __init__(self, asks: Iterable[TypicalAsk]) -> None:
        weights: defaultdict[tuple[DeviceNeeds, frozenset[tuple[str, int]]], int]
        weights = defaultdict(int)
        for ask in asks:
            weights[ask.devices, frozenset(ask.resources.items())] += ask.weight
        self.weight = sum(weights.values())
        #: The needs of each group, and their sum of weights.
        self._groups: dict[DeviceNeeds, int] = {}
        #: The number of the group and the weight of each different ask.
        self._asks: list[tuple[int, int]] = []
        wanted: dict[str, dict[int, int]] = {}
        numbers: dict[DeviceNeeds, int] = {}
        for bit, ((devices, resources), weight) in enumerate(weights.items()):
            self._groups[devices] = self._groups.get(devices, 0) + weight
            self._asks.append((numbers.setdefault(devices, len(numbers)), weight))
            for name, amount in resources:
                wanted.setdefault(name, {})[bit] = amount
        self._every = (1 << len(self._asks)) - 1
        #: For each type of resources, the amounts asked for, and the masks of the asks that ask
        #: for at most each amount.
        self._prefixes = [
            (name, *_prefix(amounts, self._every)) for name, amounts in sorted(wanted.items())
        ]
        needs = [(kind, need) for devices in self._groups for kind, need in devices]
        #: The types of devices that are named, and for each the needs that name models.
        self._kinds: dict[str, list[DeviceNeed]] = {kind: [] for kind in sorted(dict(needs))}
        for kind, need in needs:
            if need.models is not None and need not in self._kinds[kind]:
                self._kinds[kind].append(need)
        self._states: dict[Devices, DeviceState] = {}
        self._weights: dict[int, tuple[int, ...]] = {}

    @property
    def kinds(self) -> Iterable[str]:
        """The types of devices that typical asks name, in order."""
        return self._kinds

    # DEVICE-19
    def mask(self, node: Node, taken: Mapping[str, int]) -> int:
        """Return which typical asks find enough resources on a node from which more is taken."""
        mask, capacity, used = self._every, node.capacity, node.used
        for name, amounts, masks in self._prefixes:
            room = capacity.get(name, 0) - used.get(name, 0) - taken.get(name, 0)
            if room < amounts[-1]:
                mask &= masks[bisect_right(amounts, room)]
        return mask

    def state_of(self, node: Node, free: Mapping[str, Sequence[int]]) -> DeviceState:
        """Return the state of the devices of a node.

        Args:
            node: The node.
            free: What is free on each of its devices, by type.
        """
        stocks = {} if node.devices is None else node.devices.stocks
        return self._state(
            tuple(
                (kind, tuple(need.admits(stocks[kind].model) for need in choosy), free_of)
                for kind, choosy in self._kinds.items()
                if kind in free
                for free_of in (tuple(sorted(free[kind])),)
            )
        )

    def _state(self, devices: Devices) -> DeviceState:
        state = self._states.get(devices)
        if state is None:
            if len(self._states) > MOST_STATES:
                self._states.clear()
            state = self._states[devices] = self._measure(devices)
        return state

    # DEVICE-19
    def _measure(self, devices: Devices) -> DeviceState:
        all_free, usable = 0, list[int]()
        there = {kind: (admitted, free) for kind, admitted, free in devices}
        for needs, weight in self._groups.items():
            free = sum(sum(there[kind][1]) for kind, _ in needs if kind in there)
            all_free += weight * free
            if all(kind in there and self._fits(kind, need, *there[kind]) for kind, need in needs):
                usable.append(
                    sum(
                        amount
                        for kind, need in needs
                        for amount in there[kind][1]
                        if amount >= need.on_one
                    )
                )
            else:
                usable.append(0)
        return DeviceState(devices, all_free, tuple(usable))

    def _fits(
        self, kind: str, need: DeviceNeed, admitted: tuple[bool, ...], free: tuple[int, ...]
    ) -> bool:
        if need.models is not None and not admitted[self._kinds[kind].index(need)]:
            return False
        return fits_on(need, free)

    # DEVICE-19
    def unusable(self, state: DeviceState, mask: int) -> int:
        """Return F.

        Args:
            state: The devices.
            mask: The typical asks that find enough resources.
        """
        found = state.known.get(mask)
        if found is None:
            weights = self._weights.get(mask)
            if weights is None:
                weights = self._weights_of(mask)
            found = state.known[mask] = state.all_free - sum(map(mul, weights, state.usable))
        return found

    def _weights_of(self, mask: int) -> tuple[int, ...]:
        """Return for each group the weights of the asks that find enough resources."""
        if len(self._weights) > MOST_STATES:
            self._weights.clear()
        sums = [0] * len(self._groups)
        for bit, (group, weight) in enumerate(self._asks):
            if mask >> bit & 1:
                sums[group] += weight
        weights = self._weights[mask] = tuple(sums)
        return weights

    # DEVICE-20
    def without_whole(self, state: DeviceState, kind: str, count: int) -> DeviceState:
        """Return what is left of devices if so many that are wholly free are taken."""
        return self._replaced(state, kind, [WHOLE] * count, [0] * count)

    # DEVICE-20
    def without_share(self, state: DeviceState, kind: str, free: int, milli: int) -> DeviceState:
        """Return what is left of devices if a share of one with so much free is taken."""
        return self._replaced(state, kind, [free], [free - milli])

    def _replaced(
        self, state: DeviceState, kind: str, before: Iterable[int], after: Iterable[int]
    ) -> DeviceState:
        devices = list(state.devices)
        for position, (name, admitted, there) in enumerate(devices):
            if name == kind:
                left = list(there)
                for amount in before:
                    left.remove(amount)
                devices[position] = (kind, admitted, tuple(sorted((*left, *after))))
        return self._state(tuple(devices))

    # DEVICE-15
    def steps(self, before: int, after: int) -> int:
        """Return how many steps F goes up, which may be negative: rounded up, and exactly."""
        return -((before - after) // (STEP * self.weight)) if self.weight else 0


MOST_STATES: Final = 100_000
"""How many states of devices are remembered at most."""


def _prefix(wanted: Mapping[int, int], every: int) -> tuple[list[int], list[int]]:
    """Return sorted amounts, and masks of the asks that ask for at most each amount.

    Args:
        wanted: How much some asks want, by their bits.
        every: The bits of all asks.
    """
    by_amount: dict[int, int] = {}
    for bit, amount in wanted.items():
        by_amount[amount] = by_amount.get(amount, 0) | 1 << bit
    mask = every & ~sum(by_amount.values())
    amounts, masks = sorted(by_amount), [mask]
    for amount in amounts:
        mask |= by_amount[amount]
        masks.append(mask)
    return amounts, masks
