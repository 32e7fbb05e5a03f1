"""Orders of nodes that depend on the ask at hand: ``bestfit`` and ``fgd``.

``bestfit`` goes by what a node has left when the ask is placed there. ``fgd`` is fragmentation
gradient descent, after Weng et al., "Beware of Fragmentation", USENIX ATC 2023: F is the sum of
what typical asks cannot use of the devices of a node, and it is compared before and after the ask
is placed there. F depends on three attributes of a node: which typical asks find enough resources
there (a mask), the models of its devices, and how much is free on each device, in any order. So
nodes that are alike in these share a :class:`DeviceState`, which remembers F and what follows from
an ask.

For each shape the nodes on which it fits are in a heap. A node that has changed since the shape was
last looked up is scored again then, and its older entries count no more. So an ask costs as many
scores as nodes have changed since the last ask of its shape.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import fsum, inf
from operator import itemgetter, mul
from typing import Final, final

from muster_core.nodes.node import Node, Weights, fits_on
from muster_core.structures.ranking import Rank
from muster_core.structures.shapes import Shape
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import WHOLE, DeviceNeed, DeviceNeeds, TakenDevices
from muster_core.values.resources import Resources


@final
class Leftover:
    """Computes the free capacity of nodes, as a weighted sum of shares."""

    __slots__ = ("_parts", "_weights")

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        #: The types with a weight that some node has, with the largest capacity of any node.
        self._parts: list[tuple[str, float, int]] = []

    # DEVICE-16
    def measure(self, nodes: Iterable[Node]) -> bool:
        """Find the largest capacities; return whether one of them has changed."""
        largest = dict.fromkeys((name for name, _ in self._weights), 0)
        for node in nodes:
            for name, most in largest.items():
                amount = node.capacity.get(name, 0)
                if amount > most:
                    largest[name] = amount
        parts = [(name, weight, largest[name]) for name, weight in self._weights if largest[name]]
        changed, self._parts = parts != self._parts, parts
        return changed

    # DEVICE-16
    def of(self, node: Node, resources: Resources) -> float:
        """Return the free capacity of a node after resources are taken."""
        room, used, wanted = node.room, node.used, resources.amounts
        # RESERVED-2
        if node.reserved:  # What is free is at least 0.
            room = {name: max(amount, used.get(name, 0)) for name, amount in room.items()}
        parts = self._parts
        if len(parts) == 2:  # A single addition is rounded once, like ``fsum``.
            (first, weight, most), (second, other_weight, other) = parts
            return weight * (_amount_left(room, used, wanted, first) / most) + other_weight * (
                _amount_left(room, used, wanted, second) / other
            )
        try:
            return fsum(
                weight * (_amount_left(room, used, wanted, name) / most)
                for name, weight, most in parts
            )
        except OverflowError:  # More is used than there is, with weights near the largest double.
            return -inf


def _amount_left(
    room: Mapping[str, int], used: Mapping[str, int], wanted: Mapping[str, int], name: str
) -> int:
    return room.get(name, 0) - used.get(name, 0) - wanted.get(name, 0)


STEP: Final = 40
"""How many milli of F, for one unit of weight, are one step of the order."""

Devices = tuple[tuple[str, tuple[bool, ...], tuple[int, ...]], ...]
"""Of each type of devices that a typical ask names: the type, which needs with models the model
meets, and the free milli of the devices in ascending order."""


@final
class DeviceState:
    """Devices as they are on one or more nodes.

    Attributes:
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
            (name, *_prefix_masks(amounts, self._every)) for name, amounts in sorted(wanted.items())
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
        mask, there, used = self._every, node.room, node.used
        for name, amounts, masks in self._prefixes:
            room = there.get(name, 0) - used.get(name, 0) - taken.get(name, 0)
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
        """Return the rest of devices after a number of wholly free ones is taken."""
        return self._replaced(state, kind, [WHOLE] * count, [0] * count)

    # DEVICE-20
    def without_share(self, state: DeviceState, kind: str, free: int, milli: int) -> DeviceState:
        """Return the rest of devices after a share of one with some amount free is taken."""
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


def _prefix_masks(wanted: Mapping[int, int], every: int) -> tuple[list[int], list[int]]:
    """Return sorted amounts, and masks of the asks that ask for at most each amount."""
    by_amount: dict[int, int] = {}
    for bit, amount in wanted.items():
        by_amount[amount] = by_amount.get(amount, 0) | 1 << bit
    mask = every & ~sum(by_amount.values())
    amounts, masks = sorted(by_amount), [mask]
    for amount in amounts:
        mask |= by_amount[amount]
        masks.append(mask)
    return amounts, masks


@final
class Fragmentation:
    """Compares nodes by the amount that an ask would make unusable, and chooses devices by that."""

    def __init__(self, typical: TypicalAsks) -> None:
        self._typical = typical
        self._kinds = frozenset(typical.kinds)
        #: A number for each of the needs that were looked at.
        self._numbers: dict[DeviceNeeds, int] = {}
        #: The devices and the mask of each node in one of its versions.
        self._known: dict[Node, tuple[int, DeviceState, int]] = {}

    def number_of(self, needs: DeviceNeeds) -> int:
        """Return the number under which the needs of a shape are remembered."""
        return self._numbers.setdefault(needs, len(self._numbers))

    def forget(self, node: Node) -> None:
        """Forget a node that was removed."""
        self._known.pop(node, None)

    # DEVICE-15
    def steps(self, node: Node, shape: Shape, number: int) -> int:
        """Return how many steps F of a node goes up if an ask of a shape that fits is placed there."""
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
        """Return the possible rests of devices after a need was met."""
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


_HeapEntry = tuple[int, float, str, int, "Node"]
"""A node in a heap: the steps of F, what is left, its name, and the number of its last change."""

_SPARE_ENTRIES: Final = 64
"""How many old entries a heap may have besides one for each node."""


@final
class _NodeHeap:
    """The scored nodes on which a shape fits."""

    __slots__ = ("entries", "number", "shape", "upto")

    def __init__(self, shape: Shape, number: int) -> None:
        self.shape = shape
        #: The number of the needs of the shape, for the scores.
        self.number = number
        self.entries: list[_HeapEntry] = []
        #: The number of the last change of a node that the entries know.
        self.upto = 0


@final
class OrderByAsk:
    """The nodes in the order in which they are tried for asks of each shape.

    Args:
        shapes: The shapes by their bits.
        leftover: Computes what is left on nodes.
        fragments: Compares what becomes unusable, for ``fgd``; None for ``bestfit``.
    """

    def __init__(
        self, shapes: Mapping[int, Shape], leftover: Leftover, fragments: Fragmentation | None
    ) -> None:
        self._shapes = shapes
        self._leftover = leftover
        self.fragments = fragments
        self._heaps: dict[int, _NodeHeap] = {}
        #: How many changes of nodes there were.
        self._changes = 0
        #: All nodes, each with the number of its last change; the latest is the last.
        self._changed: dict[Node, int] = {}

    def note(self, node: Node) -> None:
        """Record that a node is new, or that something about it has changed."""
        changed = self._changed
        self._changes += 1
        changed.pop(node, None)
        changed[node] = self._changes

    def forget(self, node: Node) -> None:
        """Record that a node was removed."""
        self._changed.pop(node, None)
        if self.fragments is not None:
            self.fragments.forget(node)

    def forget_ahead(self, node: Node) -> None:
        """Forget the scores of a node that is none of the nodes: see :meth:`Node.as_if`."""
        if self.fragments is not None:
            self.fragments.forget(node)

    def forget_shapes(self, bits: Iterable[int]) -> None:
        """Record that bits belong to no shape any more."""
        for bit in bits:
            self._heaps.pop(bit, None)

    def forget_scores(self) -> None:
        """Record that every score may be another one."""
        self._heaps.clear()

    # DEVICE-14, DEVICE-15
    def first(self, bit: int) -> Node | None:
        """Return the first node on which the shape at ``bit`` fits now, or None."""
        entries, changed = self._entries_for(bit), self._changed
        while entries:
            *_, number, node = entries[0]
            if changed.get(node) == number:
                return node
            heappop(entries)
        return None

    # DEVICE-14, DEVICE-15
    def in_order(self, bit: int) -> list[Node]:
        """Return the nodes on which the shape at ``bit`` fits now, in order."""
        valid = [
            entry for entry in self._entries_for(bit) if self._changed.get(entry[4]) == entry[3]
        ]
        return [entry[4] for entry in sorted(valid, key=itemgetter(0, 1, 2))]

    def _entries_for(self, bit: int) -> list[_HeapEntry]:
        """Return the heap of a shape, up to date; entries of nodes that have changed do not count."""
        heap = self._heaps.get(bit)
        if heap is None:
            shape = self._shapes[bit]
            number = 0 if self.fragments is None else self.fragments.number_of(shape.devices)
            heap = self._heaps[bit] = _NodeHeap(shape, number)
        self._catch_up(heap, 1 << bit)
        return heap.entries

    def _catch_up(self, heap: _NodeHeap, wanted: int) -> None:
        """Score the nodes that have changed since a heap was last looked up."""
        entries, changed = heap.entries, self._changed
        if heap.upto == self._changes:
            return
        if not heap.upto or len(entries) > 2 * len(changed) + _SPARE_ENTRIES:
            known = {entry[4]: entry for entry in entries if changed.get(entry[4]) == entry[3]}
            fresh = [node for node in changed if node.mask & wanted and node not in known]
            entries[:] = [*known.values(), *(self._entry(heap, node) for node in fresh)]
            heapify(entries)
        else:
            for node, number in reversed(changed.items()):
                if number <= heap.upto:
                    break
                if node.mask & wanted:
                    heappush(entries, self._entry(heap, node))
        heap.upto = self._changes

    def _entry(self, heap: _NodeHeap, node: Node) -> _HeapEntry:
        shape = heap.shape
        steps = 0 if self.fragments is None else self.fragments.steps(node, shape, heap.number)
        left = self._leftover.of(node, shape.resources)
        return steps, left, node.name, self._changed[node], node

    # DEVICE-14, DEVICE-15
    def rank_of(self, node: Node, shape: Shape) -> Rank:
        """Return the place of a node on which a shape fits; it need not be one of the nodes."""
        fragments = self.fragments
        steps = 0
        if fragments is not None:
            steps = fragments.steps(node, shape, fragments.number_of(shape.devices))
        return steps, self._leftover.of(node, shape.resources), node.name

    # DEVICE-19
    def unusable(self, node: Node) -> float | None:
        """Return what typical asks cannot use of the devices of a node on average, in milli.

        None unless the order is ``fgd`` and there are typical asks.
        """
        return None if self.fragments is None else self.fragments.unusable(node)

    # DEVICE-21
    def leftover_rank(self, node: Node, shape: Shape) -> Rank:
        """Return the place of a node when victims are looked for."""
        return self._leftover.of(node, shape.resources), node.name

    def check(self, nodes: Iterable[Node]) -> None:
        """Assert the invariants; for tests."""
        assert set(self._changed) == set(nodes)
        assert list(self._changed.values()) == sorted(self._changed.values())
