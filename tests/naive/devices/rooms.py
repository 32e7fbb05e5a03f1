"""Devices in the naive model: what is free of them, where an ask fits, and which ones it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from muster_core.config.model import NodeSortPolicy
from muster_core.values.devices import DeviceNeed
from tests.naive.devices.fragmentation import (
    Room,
    Typical,
    fits,
    fits_devices,
    fragmentation,
    typical_asks,
)
from tests.naive.picture import Picture, remembered
from tests.naive.state import MILLI, Ask, AskShape, Node, device_type


@remembered
def room_of(picture: Picture, node: Node) -> Room:
    """Give what is free on a node."""
    used = picture.used[node.name]
    there = [ask for ask in picture.held if ask.node == node.name]
    devices = {kind: [MILLI] * stock.count for kind, stock in node.stock.items()}
    for ask in there:
        for kind, numbers in (ask.devices or {}).items():
            for number in numbers:
                devices[kind][number] -= ask.needs[kind].milli or MILLI
    return Room(
        free={name: node.capacity[name] - used.get(name, 0) for name in {*node.capacity, *used}},
        devices={kind: tuple(free) for kind, free in devices.items()},
        models={kind: stock.model for kind, stock in node.stock.items()},
    )


def typical_of(picture: Picture) -> tuple[Typical, ...]:
    """Give the typical asks, counted once for each picture."""
    return _typical(picture, None)


@remembered
def _typical(picture: Picture, _: None) -> tuple[Typical, ...]:
    return typical_asks(picture.world)


def empty_room(node: Node) -> Room:
    """Give what would be free on a node if nothing were there."""
    return Room(
        free=node.capacity,
        devices={kind: (MILLI,) * stock.count for kind, stock in node.stock.items()},
        models={kind: stock.model for kind, stock in node.stock.items()},
    )


def has_models(node: Node, ask: Ask) -> bool:
    """Say whether the models of a node's devices are among those that an ask names, if it does."""
    return all(
        need.models is None or (kind in node.stock and node.stock[kind].model in need.models)
        for kind, need in ask.needs.items()
    )


def lacking(room: Room, ask: Ask) -> set[str]:
    """Give the types of devices of which an ask does not fit a node, as resource types."""
    return {
        device_type(kind) for kind, need in ask.needs.items() if not fits_devices(room, kind, need)
    }


def can_hold(room: Room, ask: Ask) -> bool:
    """Say whether an ask has room on a node."""
    return fits(room, AskShape.of(ask.needs, ask.resources))


def taken_by(picture: Picture, node: Node, ask: Ask) -> dict[str, tuple[int, ...]] | None:
    """Give the numbers of the devices that an ask takes on a node that it fits, type by type."""
    if not ask.needs:
        return None
    numbers: dict[str, tuple[int, ...]] = {}
    room = without_resources(room_of(picture, node), ask.resources)
    for kind, need in sorted(ask.needs.items()):
        numbers[kind] = _numbers(picture, room, kind, need)
        room = without_devices(room, kind, need, numbers[kind])
    return numbers


def _numbers(picture: Picture, room: Room, kind: str, need: DeviceNeed) -> tuple[int, ...]:
    """Give the devices that are taken of a type: of those that fit, the best."""
    free = room.devices[kind]
    reached = picture.world.reached
    if need.count:
        reached["whole ones"] += 1
        return tuple(number for number, left in enumerate(free) if left == MILLI)[: need.count]
    fitting = [number for number, left in enumerate(free) if left >= need.milli]
    fullest = min(fitting, key=lambda number: (free[number], number))
    reached["a share, of several devices"] += fullest != fitting[0]
    if picture.world.config.node_sort is not NodeSortPolicy.FGD:
        return (fullest,)
    typical = typical_of(picture)

    def after(number: int) -> tuple[int, int]:
        left = without_devices(room, kind, need, (number,))
        return (fragmentation(left, typical), number)

    best = min(fitting, key=after)
    reached["a share, by least fragmentation"] += best != fullest
    return (best,)


def without_resources(room: Room, amounts: Mapping[str, int]) -> Room:
    """Give what is free once amounts are taken."""
    free = dict(room.free)
    for name, value in amounts.items():
        free[name] = free.get(name, 0) - value
    return attrs.evolve(room, free=free)


def without_devices(room: Room, kind: str, need: DeviceNeed, numbers: Iterable[int]) -> Room:
    """Give what is free once devices are taken."""
    free = list(room.devices[kind])
    for number in numbers:
        free[number] -= need.milli or MILLI
    return attrs.evolve(room, devices={**room.devices, kind: tuple(free)})


def after_placing(picture: Picture, node: Node, ask: Ask) -> Room:
    """Give what is free on a node that an ask fits, once it is there."""
    room = without_resources(room_of(picture, node), ask.resources)
    for kind, numbers in (taken_by(picture, node, ask) or {}).items():
        room = without_devices(room, kind, ask.needs[kind], numbers)
    return room


def some_held(asks: Sequence[Ask], node: Node) -> bool:
    """Say whether a device of a node is held by one of some asks."""
    return any(ask.node == node.name and ask.devices for ask in asks)
