from __future__ import annotations

import pytest

from muster.feeds._fields import NEEDS, NUMBERS, STOCKS
from muster.feeds._kinds import FieldError
from muster.feeds._raw import Plain, Raw
from muster_core.values.devices import DeviceNeed, DeviceStock


# DEVICE-1
def test_the_devices_of_a_node() -> None:
    written: Raw = {"nic": Plain("2"), "gpu": {"count": 64, "model": Plain("1080")}}
    read = STOCKS.parse(written)
    assert [*read.items()] == [("gpu", DeviceStock(64, "1080")), ("nic", DeviceStock(2))]
    assert STOCKS.parse(STOCKS.write(read)) == read
    assert STOCKS.parse(STOCKS.normal(written)) == read


# DEVICE-2, DEVICE-3
def test_what_an_ask_needs() -> None:
    written: Raw = {
        "d": {"milli": Plain("1000")},
        "c": {"count": 3, "models": ["b", "a"]},
        "b": {"milli": 1, "models": ["x"]},
        "a": 2,
    }
    read = NEEDS.parse(written)
    assert [*read.items()] == [
        ("a", DeviceNeed(count=2)),
        ("b", DeviceNeed(milli=1, models=("x",))),
        ("c", DeviceNeed(count=3, models=("a", "b"))),
        ("d", DeviceNeed(count=1)),
    ]
    assert NEEDS.write(read) == {
        "a": 2,
        "b": {"milli": 1, "models": ["x"]},
        "c": {"count": 3, "models": ["a", "b"]},
        "d": 1,
    }
    assert NEEDS.parse(NEEDS.normal(written)) == read


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (5, "5 is not a map"),
        (
            {"gpu": 0},
            (
                ".gpu: 0 is not a whole number of 1 or more: write how many whole devices are needed, "
                "or {milli: 500} for half of one"
            ),
        ),
        ({"gpu": "1"}, ".gpu: '1' is a text, not a number"),
        ({"gpu": None}, ".gpu: null is not a whole number"),
        ({"a.b": 1}, ".a.b: 'a.b' is no RFC 1123 label"),
        ({"gpu": {}}, ".gpu: one of milli and count says"),
        ({"gpu": {"milli": 1, "count": 1}}, ".gpu: one of milli and count says"),
        ({"gpu": {"milli": 1001}}, ".gpu.milli: 1001 is not a whole number between 1 and 1000"),
        ({"gpu": {"milli": 1, "models": []}}, ".gpu.models: the list is empty"),
        ({"gpu": {"milli": 1, "models": [""]}}, ".gpu.models[0]: '' is empty"),
        ({"gpu": {"milli": 1, "model": "a"}}, ".gpu.model: unknown field"),
    ],
)
def test_needs_are_refused_with_their_place(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        NEEDS.parse(written)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"gpu": 65}, ".gpu: 65 is not a whole number between 1 and 64"),
        ({"gpu": {"model": "a"}}, ".gpu.count: is missing"),
        ({"gpu": {"count": 1, "model": ""}}, ".gpu.model: '' is empty"),
    ],
)
def test_stocks_are_refused_with_their_place(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        STOCKS.parse(written)
    assert str(caught.value).startswith(message)


HALF = "is not a whole number: write {milli: 500} for this share of one device"


# DEVICE-2
@pytest.mark.parametrize(
    ("written", "message"),
    [
        (Plain("0.5"), f".gpu: '0.5' {HALF}"),
        (Plain(".5"), f".gpu: '.5' {HALF}"),
        (0.5, f".gpu: 0.5 {HALF}"),
        (Plain("0.0001"), ".gpu: '0.0001' is not a whole number: write {milli: 1} for this share"),
        (Plain("1.5"), ".gpu: '1.5' is not a whole number of 1 or more: write how many whole"),
        (Plain("half"), ".gpu: 'half' is not a whole number of 1 or more: write how many whole"),
        (Plain("nan"), ".gpu: 'nan' is not a whole number of 1 or more: write how many whole"),
        ("0.5", ".gpu: '0.5' is a text, not a number: leave out the quotes"),
        (
            {"count": Plain("0.25")},
            ".gpu.count: '0.25' is not a whole number: write milli: 250 in place of count",
        ),
        ({"count": 0}, ".gpu.count: 0 is not a whole number of 1 or more: write how many whole"),
        (
            {"milli": 1500},
            (
                ".gpu.milli: 1500 is not a whole number between 1 and 1000, the thousandths of one "
                "device: whole ones are written with count"
            ),
        ),
        (
            {"milli": Plain("0.5")},
            (
                ".gpu.milli: '0.5' is not a whole number between 1 and 1000, the thousandths of one "
                "device: write 500 for this share"
            ),
        ),
    ],
)
def test_a_refusal_says_how_a_share_is_written(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        NEEDS.parse({"gpu": written})
    assert str(caught.value).startswith(message)


# DEVICE-13
def test_numbers_of_devices() -> None:
    assert NUMBERS.parse({"gpu": [Plain("0"), 63]}) == {"gpu": (0, 63)}
    with pytest.raises(FieldError, match=r"\.gpu\[0\]: 64 is not"):
        NUMBERS.parse({"gpu": [64]})
