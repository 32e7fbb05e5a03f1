"""Devices on nodes, typical asks, what is left over, and the order ``fgd`` beside the sentences
that define it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from muster_core.config.model import NodeSortPolicy, TypicalAsk
from muster_core.errors import ConfigError
from muster_core.nodes.ask_order import Fragmentation, Leftover, TypicalAsks
from muster_core.nodes.node import DevicesAfter, Node, NodeDevices, fits_on, fullest, least_lack
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape
from muster_core.values.devices import DeviceNeed, DeviceNeeds, DeviceStock, with_needs
from tests.core.building import configuration

FREE = st.lists(st.sampled_from([0, 1, 250, 400, 600, 999, 1000]), min_size=1, max_size=5)
NEEDS = st.one_of(
    st.integers(1, 999).map(lambda milli: DeviceNeed(milli=milli)),
    st.integers(1, 4).map(lambda count: DeviceNeed(count=count)),
)


def node_devices(free: list[int], kind: str = "gpu") -> NodeDevices:
    made = NodeDevices({kind: DeviceStock(len(free))})
    made.free[kind][:] = free
    return made


# DEVICE-7
def test_whole_ones_are_the_lowest_that_are_wholly_free() -> None:
    there = node_devices([1000, 999, 1000, 1000])
    needs: DeviceNeeds = (("gpu", DeviceNeed(count=2)),)
    assert there.pick(needs) == (("gpu", (0, 2)),)


# DEVICE-8
def test_a_share_fills_the_device_with_the_least_that_suffices() -> None:
    assert fullest(DeviceNeed(milli=300), [1000, 400, 299, 400]) == 1
    assert fullest(DeviceNeed(milli=401), [1000, 400, 299, 1000]) == 0


# DEVICE-6
def test_all_types_must_fit() -> None:
    there = NodeDevices({"gpu": DeviceStock(1), "nic": DeviceStock(2)})
    whole = DeviceNeed(count=2)
    assert there.has_room((("nic", whole),))
    assert not there.has_room((("gpu", whole), ("nic", whole)))
    assert not there.has_room((("fpga", whole),))
    assert there.how_many((("gpu", DeviceNeed(milli=300)), ("nic", DeviceNeed(count=1)))) == 2
    assert there.how_many(()) is None


# DEVICE-9
def test_what_is_taken_is_given_back() -> None:
    there = node_devices([1000, 500])
    needs: DeviceNeeds = (("gpu", DeviceNeed(milli=500)),)
    use = (needs, there.pick(needs))
    there.take(use)
    assert there.free == {"gpu": [1000, 0]}
    there.give_back(use)
    assert there.free == {"gpu": [1000, 500]}


@given(FREE, NEEDS)
def test_as_many_fit_as_can_be_taken_one_after_another(free: list[int], need: DeviceNeed) -> None:
    there, count = node_devices(free), 0
    needs = (("gpu", need),)
    expected = there.how_many(needs)
    while there.has_room(needs):
        there.take((needs, there.pick(needs)))
        count += 1
    assert count == expected


# DEVICE-10
@given(FREE, NEEDS, st.randoms(use_true_random=False))
def test_less_than_the_least_lack_is_never_enough(
    free: list[int], need: DeviceNeed, chance: st.DataObject
) -> None:
    """However so much is released, the need does not fit before that much is."""
    # Where there are too few devices, it fits after nothing, so any lack is right.
    assert need.count > len(free) or (least_lack(need, free) == 0) == fits_on(need, free)
    lack, released, now = least_lack(need, free), 0, list(free)
    order = list(range(len(free)))
    chance.shuffle(order)  # type: ignore[attr-defined] # a Random
    for number in order:
        assert released >= lack or not fits_on(need, now)
        released += 1000 - now[number]
        now[number] = 1000


# DEVICE-10
def test_what_would_be_free_after_victims() -> None:
    there = NodeDevices({"gpu": DeviceStock(2), "nic": DeviceStock(1)})
    share, both = (("gpu", DeviceNeed(milli=500)),), (("gpu", DeviceNeed(count=2)),)
    use = (share, there.pick(share))
    there.take(use)
    after = DevicesAfter((*both, ("nic", DeviceNeed(count=1))), there)
    assert after.lacking() == ["device/gpu"]
    after.change(use, -1)
    assert after.lacking() == []
    after.change(use, 1)
    assert after.lacking() == ["device/gpu"]
    assert there.free == {"gpu": [500, 1000], "nic": [1000]}
    assert DevicesAfter(both, None).lacking() == DevicesAfter((), there).lacking() == []


MODELS = (None, "a", "b")
AMOUNTS = st.sampled_from([100, 250, 400, 500, 750, 1000])
CHOICES = st.sampled_from([None, None, ("a",), ("a", "b")])


def need(milli: int, models: tuple[str, ...] | None) -> DeviceNeed:
    return DeviceNeed(milli=milli % 1000, count=milli // 1000, models=models)


DRAWN_NEEDS = st.builds(need, AMOUNTS, CHOICES)
DEVICES = st.dictionaries(st.sampled_from(["gpu", "nic"]), DRAWN_NEEDS, min_size=1).map(
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


ASK = Resources({"vcore": 1})


def node(name: str, used: int = 0, **capacity: int) -> Node:
    return Node(name, capacity, {}, schedulable=True, used={"vcore": used} if used else {})


# DEVICE-16
@pytest.mark.parametrize(
    "weights",
    [
        (("vcore", 0.3),),
        (("memory", 0.7), ("vcore", 0.3)),
        (("gpu", 0.1), ("memory", 0.7), ("vcore", 0.3)),
    ],
)
def test_it_is_a_sum_of_shares_of_the_largest_node(weights: tuple[tuple[str, float], ...]) -> None:
    nodes = [node("a", 3, vcore=7, memory=3), node("b", vcore=11), node("c", memory=13, gpu=3)]
    leftover = Leftover((*weights, ("tape", 5.0)))
    assert leftover.measure(nodes)
    largest = {"vcore": 11, "memory": 13, "gpu": 3}
    for one in nodes:
        parts = [
            weight
            * ((one.capacity.get(name, 0) - one.used.get(name, 0) - ASK[name]) / largest[name])
            for name, weight in weights
        ]
        assert leftover.of(one, ASK) == fsum(parts)


def test_it_says_when_a_largest_capacity_has_changed() -> None:
    leftover = Leftover((("vcore", 1.0),))
    assert leftover.measure([node("a", vcore=4)])
    assert not leftover.measure([node("a", vcore=4), node("b", vcore=3)])
    assert leftover.measure([node("b", vcore=3)])


def test_more_may_be_used_than_there_is() -> None:
    leftover = Leftover((("memory", 1e308), ("gpu", 1e308), ("vcore", 1e308)))
    one = node("a", 10**9, vcore=1, memory=1, gpu=1)
    leftover.measure([one])
    assert leftover.of(one, ASK) < 0


WHOLE = (("gpu", DeviceNeed(count=1)),)
SHARE = (("gpu", DeviceNeed(milli=600)),)


# DEVICE-15
def test_k_is_rounded_up_exactly() -> None:
    typical = TypicalAsks([TypicalAsk((("gpu", DeviceNeed(count=1)),), weight=3)])
    assert typical.weight == 3
    assert [typical.steps(0, more) for more in (-121, -120, -1, 0, 1, 120, 121)] == [
        *(-1, -1, 0, 0, 1, 1, 2)
    ]
    huge = 2**60
    assert typical.steps(0, 120 * huge + 1) == huge + 1
    assert TypicalAsks([]).steps(0, 5) == 0


# DEVICE-19
def test_what_typical_asks_cannot_use() -> None:
    typical = TypicalAsks(
        [
            TypicalAsk(WHOLE, weight=1),
            TypicalAsk(SHARE, Resources({"vcore": 2}), weight=10),
            TypicalAsk(SHARE, Resources({"vcore": 3}), weight=100),
        ]
    )
    node = Node("n", {"vcore": 2}, {}, schedulable=True)
    node.devices = NodeDevices({"gpu": DeviceStock(3)})
    node.devices.free["gpu"][:] = [1000, 700, 300]
    state = typical.state_of(node, node.devices.free)
    # 1000 of the first, 300 of the second, and all 2000 of the third, which lacks a core.
    assert typical.unusable(state, typical.mask(node, {})) == 1000 + 10 * 300 + 100 * 2000
    assert typical.unusable(state, typical.mask(node, {"vcore": 1})) == 1000 + 110 * 2000
    left = typical.without_whole(state, "gpu", 1)
    assert typical.unusable(left, typical.mask(node, {})) == 1000 + 10 * 300 + 100 * 1000


def typical(*asks: Any, policy: str = "fgd") -> tuple[TypicalAsk, ...]:  # noqa: ANN401 - as in a file
    return configuration(nodesortpolicy={"type": policy, "typical": list(asks)}).typical


def problems(*asks: Any) -> list[str]:  # noqa: ANN401 - as in a file
    with pytest.raises(ConfigError) as caught:
        typical(*asks)
    return [f"{one.path.partition('.typical')[2]}: {one.message}" for one in caught.value.problems]


# DEVICE-17
def test_typical_asks_are_read() -> None:
    (first, second) = typical(
        {"devices": {"gpu": {"milli": 500, "models": ["T4", "A10"]}, "b": 2}, "weight": 3},
        {"devices": {"gpu": {"milli": 1000}}, "resources": {"vcore": 0.5}, "weight": 1_000_000},
    )
    share = DeviceNeed(milli=500, models=("A10", "T4"))
    assert first == TypicalAsk((("b", DeviceNeed(count=2)), ("gpu", share)), Resources(), 3)
    whole = (("gpu", DeviceNeed(count=1)),)
    assert second == TypicalAsk(whole, Resources({"vcore": 500}), 1_000_000)


def test_without_them_they_are_learned() -> None:
    config = configuration(nodesortpolicy={"type": "FGD"})
    assert (config.node_sort, config.typical) == (NodeSortPolicy.FGD, ())


def test_what_is_wrong_is_refused_with_its_place() -> None:
    assert problems() == [
        ": there is no typical ask here: leave the field out, and they are learned"
    ]
    assert problems(
        {"devices": {"gpu": {"milli": 0}}, "weight": 0},
        {"devices": {}, "weight": 1, "count": 1},
        {"devices": {"GPU": 1}},
        {"devices": {"gpu": {"count": 1, "milli": 5}, "a": [], "b": {"count": 1, "models": []}}},
        {"resources": {"device/gpu": 1}, "weight": "x"},
        {"devices": {"gpu": {"count": 0, "models": [""]}}, "weight": 1},
    ) == [
        "[0].devices.gpu.milli: '0' is not a whole number between 1 and 1000",
        "[0].weight: '0' is not a whole number between 1 and 1000000",
        "[1].devices: a typical ask needs at least one type of devices",
        "[1].count: unknown field 'count': known are devices, resources, weight",
        "[2]: weight is missing",
        "[2].devices.GPU: 'GPU' is no RFC 1123 label",
        "[3]: weight is missing",
        "[3].devices.gpu: one of milli and count says how much of the devices is needed",
        "[3].devices.a: a list stands where a number is expected",
        "[3].devices.b.models: the list is empty: leave it out for any model",
        "[4]: devices is missing",
        "[4].resources.device/gpu: devices are no resources: name them in 'devices'",
        "[4].weight: 'x' is not a whole number between 1 and 1000000",
        "[5].devices.gpu.count: '0' is not a whole number between 1 and 9223372036854775",
        "[5].devices.gpu.models[0]: the name of a model has at least one character",
    ]


def test_another_order_of_nodes_has_no_use_for_them() -> None:
    config = configuration(
        nodesortpolicy={"type": "fair", "typical": [{"devices": {"gpu": 1}, "weight": 1}]}
    )
    assert config.warnings == ("typical asks do nothing with the type fair: fgd uses them",)
