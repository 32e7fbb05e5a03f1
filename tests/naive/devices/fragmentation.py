"""Fragmentation in the naive model: what is free on a node and of no use to typical asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from muster_core.values.devices import DeviceNeed
from tests.naive.state import MILLI, AskShape, World


@attrs.frozen
class Room:
    """What is free on a node.

    Attributes:
        free: Of each resource type; less than nothing where a capacity became smaller.
        devices: The free milli of each device, by number, of each type of devices.
        models: The model of each type of devices.
    """

    free: Mapping[str, int]
    devices: Mapping[str, tuple[int, ...]]
    models: Mapping[str, str | None]


@attrs.frozen
class Typical:
    """A shape that many asks have, and its weight."""

    shape: AskShape
    weight: int


def typical_asks(world: World) -> tuple[Typical, ...]:
    """Give the typical asks: those that are named, or else those that were learned."""
    named = [
        Typical(AskShape.of(dict(one.devices), one.resources), one.weight)
        for one in world.config.typical
    ]
    if named:
        return tuple(named)
    return tuple(Typical(shape, number) for shape, number in Counter(world.learned).items())


def learn(world: World) -> None:
    """Take what was learned at the start of a round, if it is time for that.

    That is in the first one that has an ask with devices, and in each that has twice as many.
    """
    known, came = len(world.learned), len(world.came)
    if came and came >= 2 * known:
        weighted = dict(world.config.node_weights)
        world.reached["learned again" if known else "learned"] += 1
        world.learned = [shape.only(weighted) for shape in world.came]


def fits_devices(room: Room, kind: str, need: DeviceNeed) -> bool:
    """Say whether there are devices of a type for an ask: free ones, and of a model that it takes."""
    free = room.devices.get(kind, ())
    if need.models is not None and room.models.get(kind) not in need.models:
        return False
    if need.milli:
        return any(left >= need.milli for left in free)
    return sum(left == MILLI for left in free) >= need.count


def fits(room: Room, shape: AskShape) -> bool:
    """Say whether a shape fits a node: its resources, its models, its devices."""
    has_room = all(room.free.get(name, 0) >= value for name, value in shape.resources)
    return has_room and all(fits_devices(room, kind, need) for kind, need in shape.devices)


def fragmentation(room: Room, typical: Iterable[Typical]) -> int:
    """Give the fragmentation F of a node: what typical asks cannot use of its devices."""
    whole = 0
    for one in typical:
        fitting = fits(room, one.shape)
        for kind, need in one.shape.devices:
            on_one = need.milli or MILLI
            free = room.devices.get(kind, ())
            useless = [left for left in free if not fitting or left < on_one]
            whole += one.weight * sum(useless)
    return whole
