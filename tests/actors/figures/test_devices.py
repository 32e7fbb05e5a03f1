from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from muster.figures.text import free_words, held_words, holders_of


@pytest.mark.parametrize(
    ("devices", "resources", "text"),
    [
        ({}, {"vcore": 1000}, ""),
        ({"gpu": [0]}, {"device/gpu": 1000}, "gpu 0"),
        ({"gpu": [3]}, {"device/gpu": 250}, "250 milli of gpu 3"),
        ({"gpu": [1, 0]}, {"device/gpu": 2000}, "gpu 0, 1"),
        ({"gpu": [0, 1, 2, 5, 7, 8]}, {"device/gpu": 6000}, "gpu 0\N{EN DASH}2, 5, 7, 8"),
        (
            {"nic": [1], "gpu": [0, 2]},
            {"device/gpu": 2000, "device/nic": 1},
            "gpu 0, 2; 1 milli of nic 1",
        ),
    ],
)
def test_what_an_ask_holds(
    devices: Mapping[str, Sequence[int]], resources: Mapping[str, int], text: str
) -> None:
    assert held_words(devices, resources) == text


@pytest.mark.parametrize(
    ("free", "text"),
    [
        ([0, 0], "0 of 2 gpu wholly free"),
        ([1000, 0], "1 of 2 gpu wholly free"),
        ([1000, 500, 50], "1 of 3 gpu wholly free, 0.55 in parts"),
    ],
)
def test_what_is_free(free: Sequence[int], text: str) -> None:
    assert free_words("gpu", free) == text


def test_who_holds_a_device() -> None:
    found = holders_of(
        [
            ("whole", {"gpu": [1, 2]}, {"device/gpu": 2000}),
            ("share", {"gpu": [0], "nic": [0]}, {"device/gpu": 300, "device/nic": 1000}),
            ("other", {"gpu": [0]}, {"device/gpu": 700}),
            ("none", {}, {"vcore": 1000}),
        ]
    )

    assert found == {
        ("gpu", 0): [("share", 300), ("other", 700)],
        ("gpu", 1): [("whole", 1000)],
        ("gpu", 2): [("whole", 1000)],
        ("nic", 0): [("share", 1000)],
    }
