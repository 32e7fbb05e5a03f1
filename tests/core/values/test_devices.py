from __future__ import annotations

from typing import Any

import pytest

from muster_core.errors import EventError
from muster_core.events import AddAsk, AddNode, PodObject, UpdateNode
from muster_core.resources import Resources
from muster_core.values.devices import (
    DeviceNeed,
    DeviceStock,
    is_device_type,
    stocks_in,
    with_needs,
    with_stocks,
    without_devices,
)

CORE = Resources({"vcore": 1000})
GPU = {"gpu": DeviceNeed(count=2)}


@pytest.mark.parametrize("count", [0, 65, True, 1.0])
def test_a_stock_has_a_number_of_devices(count: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(EventError, match=r"count: .* is not a whole number from 1 to 64"):
        DeviceStock(count)
    with pytest.raises(EventError, match="model: '' is not a text"):
        DeviceStock(1, "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "count: 0 is not"),
        ({"milli": 1000}, "milli: 1000 is not a whole number from 1 to 999"),
        ({"milli": 5, "count": 1}, "count: 1 is not a whole number from 0 to 0"),
        ({"count": -1}, "count: -1 is not"),
        ({"count": 1, "models": []}, "models: an empty list lets the ask run nowhere"),
        ({"count": 1, "models": [""]}, "models: '' is not a text"),
    ],
)
def test_a_need_is_a_share_or_whole_ones(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(EventError, match=message):
        DeviceNeed(**fields)


def test_what_a_need_comes_to() -> None:
    share, whole = DeviceNeed(milli=250), DeviceNeed(count=3, models=["b", "a", "b"])
    assert (share.is_share, share.on_one, share.amount) == (True, 250, 250)
    assert (whole.is_share, whole.on_one, whole.amount) == (False, 1000, 3000)
    assert whole == DeviceNeed(count=3, models=("a", "b"))
    assert [whole.admits(model) for model in ("a", "c", None)] == [True, False, False]
    assert share.admits(None)


def test_types_are_labels() -> None:
    good = ["gpu", "g", "a-1", "a" * 63]
    bad = ["", "GPU", "-a", "a-", "a.b", "a/b", "a" * 64, "gpu\n"]
    assert [is_device_type(name) for name in good + bad] == [True] * 4 + [False] * 8


def test_they_are_resources_in_thousandths() -> None:
    wanted = with_needs(CORE, {"gpu": DeviceNeed(milli=5), "nic": DeviceNeed(count=2)})
    assert dict(wanted) == {"device/gpu": 5, "device/nic": 2000, "vcore": 1000}
    assert without_devices(wanted) == {"vcore": 1000}
    room = with_stocks({"vcore": 1}, {"gpu": DeviceStock(2, "T4")})
    assert room == {"device/gpu": 2000, "vcore": 1}
    assert stocks_in(room) == {"gpu": DeviceStock(2)}


def test_events_have_them_beside_their_resources() -> None:
    ask = AddAsk("a", "x", Resources(), devices=GPU)
    assert dict(ask.wanted) == {"device/gpu": 2000}
    assert AddAsk("a", "x", CORE).wanted is CORE
    node = AddNode("n", CORE, devices={"gpu": DeviceStock(1)})
    assert dict(node.room) == {"device/gpu": 1000, "vcore": 1000}


@pytest.mark.parametrize("name", ["device/gpu", "device/", "device/GPU"])
def test_they_are_not_named_among_resources(name: str) -> None:
    amount = Resources({"vcore": 1, name: 1})
    for make in (
        lambda: AddAsk("a", "x", amount),
        lambda: AddAsk("a", "x", amount, devices=GPU),
        lambda: AddNode("n", amount),
        lambda: UpdateNode("n", amount),
    ):
        with pytest.raises(EventError, match=f"{name}: devices are no resources"):
            make()


@pytest.mark.parametrize("devices", [{"GPU": DeviceNeed(count=1)}, {"gpu": 1}, 5, {1: GPU}])
def test_events_refuse_what_are_no_devices(devices: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(EventError, match="devices"):
        AddAsk("a", "x", CORE, devices=devices)
    with pytest.raises(EventError, match="devices"):
        AddNode("n", CORE, devices=devices)


def test_an_ask_needs_something() -> None:
    with pytest.raises(EventError, match=r"resources: .* is not an amount with at least one type"):
        AddAsk("a", "x", Resources(), devices={})


# DEVICE-11
def test_a_pod_has_none() -> None:
    with pytest.raises(EventError, match=r"ask\.devices: .* a Pod has no devices"):
        PodObject("a", "x", ask=AddAsk("a", "x", CORE, devices=GPU))
