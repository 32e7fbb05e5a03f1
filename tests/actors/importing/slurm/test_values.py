"""Values as sacct prints them."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from muster.importing.slurm.values import TimeReader, count_of, duration_s, memory_of, tres_of

_TEN_US = 1769853600 * 1_000_000
"""2026-01-31T10:00:00Z."""


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T10:00:00",
        "2026-01-31T10:00:00Z",
        "2026-01-31T11:00:00+0100",
        "2026-01-31T11:00:00+01:00",
        "2026-01-31 10:00:00",
        "2026-01-31T10:00",
        "2026-01-31T10:00:00.5",
        "1769853600",
    ],
)
def test_times_in_all_their_forms(text: str) -> None:
    assert TimeReader().of(text) == _TEN_US


@pytest.mark.parametrize(
    "text", ["", "Unknown", "None", "N/A", "0", "2026-02-30T10:00:00", "2026-01-31T1x:00:00",
             "10:00:00", "-5", "9" * 30, "2026-01-31T10:0é:00", "1950-01-01T00:00:00"]
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    assert TimeReader().of(text) is None


def test_times_that_were_read_before_are_read_alike() -> None:
    times = TimeReader()
    for minute in range(10):
        assert times.of(f"2026-01-31T10:0{minute}:07") == _TEN_US + (minute * 60 + 7) * 1_000_000
    assert times.of("2026-01-31T10:0x:07") is None
    assert times.of("2026-01-31T10:00:077") is None


def test_times_without_an_offset_are_in_the_zone_that_is_given() -> None:
    times = TimeReader(ZoneInfo("Europe/Berlin"))
    assert times.of("2026-01-31T11:00:00") == _TEN_US
    assert times.of("2026-01-31T10:00:00Z") == _TEN_US
    # In summer it is two hours.
    assert times.of("2026-07-01T12:00:00") == TimeReader().of("2026-07-01T10:00:00")
    # Of an hour that is there twice the first one is meant.
    assert times.of("2026-10-25T02:30:00") == TimeReader().of("2026-10-25T00:30:00")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("01:02:03", 3723), ("2-00:00:01", 172_801), ("02:03", 123), ("00:00:00", 0), ("75", 75),
     ("02:03.123", 123), ("", None), ("x", None), ("1:2", None), ("9" * 12, None)],
)  # fmt: skip
def test_durations(text: str, seconds: int | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "amount"),
    [("4Gn", (4 << 30, "n")), ("2000Mc", (2000 << 20, "c")), ("16G", (16 << 30, "")),
     ("1.50G", (3 << 29, "")), ("100", (100 << 20, "")), ("0n", (0, "n")), ("", None),
     ("x", None), ("999999999P", None)],
)  # fmt: skip
def test_memory(text: str, amount: tuple[int, str] | None) -> None:
    assert memory_of(text) == amount


def test_trackable_resources() -> None:
    assert tres_of("billing=4,cpu=4,mem=16G,node=2,gres/gpu=2,gres/gpu:a100=2,license/x=1") == {
        "billing": 4, "cpu": 4, "mem": 16 << 30, "node": 2, "gres/gpu": 2, "gres/gpu:a100": 2,
        "license/x": 1,
    }  # fmt: skip
    assert tres_of("") == tres_of("cpu=x,=3,mem=,cpu") == {}


@pytest.mark.parametrize(("text", "count"), [("4", 4), ("2K", 2048), ("1.5K", 1536), ("x", 0)])
def test_counts(text: str, count: int) -> None:
    assert count_of(text) == count
