from __future__ import annotations

from typing import Any

import pytest

from muster_core.config.model import NodeSortPolicy, TypicalAsk
from muster_core.errors import ConfigError
from muster_core.resources import Resources
from muster_core.values.devices import DeviceNeed
from tests.core.building import configuration


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
