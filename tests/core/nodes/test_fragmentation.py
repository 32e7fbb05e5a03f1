"""The order ``fgd`` beside the sentences that define it, written out without any memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given, strategies as st

from muster_core.nodes.ask_order import Fragmentation, TypicalAsks
from muster_core.nodes.node import Node, NodeDevices
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceNeeds, DeviceStock, with_needs

MODELS = (None, "a", "b")
AMOUNTS = st.sampled_from([100, 250, 400, 500, 750, 1000])
CHOICES = st.sampled_from([None, None, ("a",), ("a", "b")])


def need(milli: int, models: tuple[str, ...] | None) -> DeviceNeed:
    return DeviceNeed(milli=milli % 1000, count=milli // 1000, models=models)


NEEDS = st.builds(need, AMOUNTS, CHOICES)
DEVICES = st.dictionaries(st.sampled_from(["gpu", "nic"]), NEEDS, min_size=1).map(
    lambda needs: tuple(sorted(needs.items()))
)
RESOURCES = st.fixed_dictionaries(
    {}, optional={"vcore": st.integers(1, 4), "memory": st.integers(1, 4)}
).map(Resources)
TYPICAL = st.lists(st.builds(TypicalAsk, DEVICES, RESOURCES, st.integers(1, 5)), max_size=5)
Free = Mapping[str, Sequence[int]]


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    models = {kind: draw(st.sampled_from(MODELS)) for kind in ("gpu", "nic")}
    free = {
        kind: draw(st.lists(st.sampled_from([0, 250, 400, 1000]), min_size=1, max_size=4))
        for kind in draw(st.sets(st.sampled_from(["gpu", "nic"])))
    }
    capacity = {"vcore": draw(st.integers(0, 6)), "memory": draw(st.integers(0, 6))}
    capacity |= {f"device/{kind}": 1000 * len(there) for kind, there in free.items()}
    used = {f"device/{kind}": 1000 * len(there) - sum(there) for kind, there in free.items()}
    made = Node("n", capacity, {}, schedulable=True, used=used)
    if free:
        made.devices = NodeDevices(
            {kind: DeviceStock(len(there), models[kind]) for kind, there in free.items()}
        )
        for kind, there in free.items():
            made.devices.free[kind][:] = there
    return made


# DEVICE-19
def unusable(node: Node, left: Mapping[str, int], free: Free, typical: Sequence[TypicalAsk]) -> int:
    """Add up F for what is left of resources and what is free of devices."""
    total = 0
    for ask in typical:
        fits = all(left.get(name, 0) >= amount for name, amount in ask.resources.items())
        fits = fits and all(_fits(node, kind, need, free) for kind, need in ask.devices)
        for kind, need in ask.devices:
            lost = [one for one in free.get(kind, ()) if not fits or one < need.on_one]
            total += ask.weight * sum(lost)
    return total


def _fits(node: Node, kind: str, need: DeviceNeed, free: Free) -> bool:
    if kind not in free or node.devices is None or not need.admits(node.devices.stocks[kind].model):
        return False
    return sum(one >= need.on_one for one in free[kind]) >= max(need.count, 1)


def step(before: int, after: int, typical: Sequence[TypicalAsk]) -> int:
    weight = 40 * sum(ask.weight for ask in typical)
    k = 0
    while weight and k * weight < after - before:
        k += 1
    while weight and (k - 1) * weight >= after - before:
        k -= 1
    return k


def placed(
    node: Node, needs: DeviceNeeds, left: Mapping[str, int], typical: Sequence[TypicalAsk]
) -> tuple[dict[str, tuple[int, ...]], Free]:
    """Choose devices type by type, each share by the least F; return them, and what is left."""
    assert node.devices is not None or not needs
    now = {} if node.devices is None else node.devices.copy_of_free()
    taken: dict[str, tuple[int, ...]] = {}
    for kind, need in needs:
        whole = [number for number, one in enumerate(now[kind]) if one == 1000]
        choices = [tuple(whole[: need.count])]
        if need.is_share:
            choices = [(number,) for number, one in enumerate(now[kind]) if one >= need.milli]
        after = {
            numbers: now
            | {kind: [one - need.on_one * (at in numbers) for at, one in enumerate(now[kind])]}
            for numbers in choices
        }
        taken[kind] = min(
            choices, key=lambda numbers: (unusable(node, left, after[numbers], typical), numbers)
        )
        now = after[taken[kind]]
    return taken, now


# DEVICE-15, DEVICE-19, DEVICE-20
@given(
    st.lists(nodes(), min_size=1, max_size=3),
    TYPICAL,
    st.lists(DEVICES | st.just(()), max_size=3),
    RESOURCES,
)
def test_steps_and_devices_are_those_of_the_sentences(
    some: list[Node], typical: list[TypicalAsk], asked: list[DeviceNeeds], resources: Resources
) -> None:
    fragments = Fragmentation(TypicalAsks(typical))
    weight = sum(ask.weight for ask in typical)
    for node in some:
        room = {kind: node.capacity[kind] - node.used.get(kind, 0) for kind in node.capacity}
        free = {} if node.devices is None else node.devices.free
        lost = unusable(node, room, free, typical) / weight if weight else None
        assert fragments.unusable(node) == lost
        for needs in asked:
            shape = Shape(with_needs(resources, needs), devices=needs)
            fits = node.devices is not None and node.devices.has_room(needs)
            if not (fits or not needs) or not shape.resources.fits_in(room):
                continue
            left = {kind: amount - shape.resources[kind] for kind, amount in room.items()}
            taken, now = placed(node, needs, left, typical)
            before, after = (
                unusable(node, room, free, typical),
                unusable(node, left, now, typical),
            )
            number = fragments.number_of(needs)
            for _ in range(2):  # from the computation, and from memory
                assert fragments.steps(node, shape, number) == step(before, after, typical)
            if needs:
                assert dict(fragments.pick(node, shape)) == taken
