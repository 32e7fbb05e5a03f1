"""How durations, percentages and buckets are written."""

from __future__ import annotations

import pytest

from muster.service.yunikorn.objects.applications import bucket_of
from muster.service.yunikorn.objects.diagnostics import name_in_metric
from muster.service.yunikorn.objects.values import go_duration, percentages

S = 1_000_000


# REST-5
@pytest.mark.parametrize(
    ("us", "written"),
    [
        (0, "0s"),
        (1, "1µs"),
        (1_500, "1.5ms"),
        (500_000, "500ms"),
        (S, "1s"),
        (1_500_000, "1.5s"),
        (30 * S, "30s"),
        (90 * S, "1m30s"),
        (60 * S, "1m0s"),
        (3600 * S, "1h0m0s"),
        (3661 * S + 1, "1h1m1.000001s"),
        (100 * 3600 * S, "100h0m0s"),
    ],
)
def test_durations_are_as_go_writes_them(us: int, written: str) -> None:
    assert go_duration(us) == written


# REST-4
def test_percentages_are_cut_off() -> None:
    assert percentages({"vcore": 2}, {"vcore": 3}) == {"vcore": 66}
    assert percentages({"vcore": 29}, {"vcore": 100}) == {"vcore": 28}  # as doubles have it
    assert percentages({"vcore": 1}, {"vcore": 3, "gpu": 2}) == {"vcore": 33}
    assert percentages({"a": 1, "b": 0}, {"a": 0, "b": 0}) == {"a": 100, "b": 0}
    assert percentages({"a": 2**62}, {"a": 1}) == {"a": 2**31 - 1}


# REST-14
def test_a_node_is_in_the_bucket_of_its_percentage() -> None:
    places = [bucket_of(percent) for percent in (0, 1, 10, 11, 20, 21, 90, 91, 100, 250)]
    assert places == [0, 0, 0, 1, 1, 2, 8, 9, 9, 9]


# REST-24
def test_other_characters_are_no_part_of_the_name_of_a_metric() -> None:
    assert name_in_metric("nvidia.com/gpu") == "nvidia_com_gpu"
    assert name_in_metric("root.a-b") == "root_a_b"
