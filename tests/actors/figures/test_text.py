from __future__ import annotations

import pytest

from muster.figures.text import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Unit,
    amount_text,
    counted,
    duration,
    level_ticks,
    measured,
    minus,
    number,
    part_text,
    percent,
    points,
    resource_time,
    safe,
    seconds_text,
    time_ticks,
    whole_date,
    whole_date_ticks,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (1.5, "1.5"),
        (12.34, "12.3"),
        (1234, "1,234"),
        (9999, "9,999"),
        (56_700, "56.7 k"),
        (3_456_789, "3.46 M"),
        (2_147_483_647, "2.15 G"),
        (-604_000, "-604 k"),
        (-0.001, "0"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("span_us", "text"),
    [
        (0, "0 s"),
        (7, "7 µs"),
        (1_500, "1.5 ms"),
        (12_500_000, "12.5 s"),
        (MINUTE, "1 min"),
        (65 * SECOND, "1 min 5 s"),
        (2 * HOUR - SECOND, "2 h"),
        (DAY - 1, "1 d"),
        (3 * DAY + 4 * HOUR + 29 * MINUTE, "3 d 4 h"),
        (4_000 * DAY, "4,000 d"),
    ],
)
def test_durations(span_us: int, text: str) -> None:
    assert duration(span_us) == text


@pytest.mark.parametrize(
    ("begin_us", "end_us", "labels"),
    [
        (0, 2_000_000, ["0.0 s", "0.5 s", "1.0 s", "1.5 s", "2.0 s"]),
        (0, 90 * SECOND, ["0 s", "30 s", "1:00 min", "1:30 min"]),
        (0, 4 * HOUR, ["0 h", "1 h", "2 h", "3 h", "4 h"]),
        (50 * MINUTE, 70 * MINUTE, ["50 min", "55 min", "1:00 h", "1:05 h", "1:10 h"]),
        (DAY, DAY + 12 * HOUR, ["1 d 0 h", "1 d 3 h", "1 d 6 h", "1 d 9 h", "1 d 12 h"]),
        (48 * DAY, 88 * DAY, ["50 d", "60 d", "70 d", "80 d"]),
        (DAY, DAY + 4 * SECOND, [f"1 d 0:00:0{second}" for second in range(5)]),
    ],
)
def test_time_axes(begin_us: int, end_us: int, labels: list[str]) -> None:
    assert [label for _, label in time_ticks(begin_us, end_us, 4)] == labels


NOON = 1_507_032_000 * SECOND
"""2017-10-03 12:00 in UTC."""


@pytest.mark.parametrize(
    ("at_us", "step_us", "text"),
    [
        (NOON, 2 * DAY, "2017-10-03"),
        (NOON, HOUR, "2017-10-03 12:00"),
        (NOON + 90 * SECOND, MINUTE, "2017-10-03 12:01"),
        (NOON + 90 * SECOND, 10 * SECOND, "2017-10-03 12:01:30"),
        (NOON + 1_500_000, 500_000, "2017-10-03 12:00:01.5"),
        (-DAY, DAY, "1969-12-31"),
        (3_000_000 * DAY, DAY, "3000000 d"),
    ],
)
def test_whole_dates(at_us: int, step_us: int, text: str) -> None:
    assert whole_date(at_us, step_us) == text


def test_an_axis_of_dates_has_round_ticks() -> None:
    origin_us = NOON + 25 * MINUTE
    ticks = list(whole_date_ticks(5 * MINUTE, 4 * HOUR, 4, origin_us))

    assert ticks[0] == (35 * MINUTE, "2017-10-03 13:00")
    assert [label[-5:] for _, label in ticks] == ["13:00", "14:00", "15:00", "16:00"]


@pytest.mark.parametrize(
    ("low", "high", "whole", "ticks"),
    [
        (0, 256, False, [0, 100, 200]),
        (0, 1, False, [0, 0.5, 1]),
        (0, 1, True, [0, 1]),
        (-0.5, 0.5, True, [0]),
        (-604_000, -16, True, [-600_000, -400_000, -200_000]),
        (0, 1e18, False, [0, 5e17, 1e18]),
    ],
)
def test_value_axes(low: float, high: float, whole: bool, ticks: list[float]) -> None:
    assert level_ticks(low, high, 4, whole=whole)[:5] == pytest.approx(ticks)


def test_units_of_resources() -> None:
    assert Unit.of("memory", 3 * 2**30).text(1.5 * 2**30) == "1.5 GiB"
    assert amount_text("vcore", 500) == "0.5 cores"
    assert amount_text("nvidia.com/gpu", 12) == "12"
    # DEVICE-4
    assert amount_text("device/gpu", 1250) == "1.25"
    assert amount_text("memory", 1000) == "1,000 B"


def test_a_unit_stands_once_if_the_part_has_that_of_the_whole() -> None:
    assert part_text("vcore", 99_000, 175_000) == "99 of 175 cores"
    assert part_text("nvidia.com/gpu", 3, 8) == "3 of 8"
    assert part_text("memory", 160 << 30, 1536 << 30) == "160 GiB of 1.5 TiB"


def test_small_words() -> None:
    assert (counted(1, "ask"), counted(2_000, "ask")) == ("1 ask", "2,000 asks")
    assert (minus("-5"), minus("5")) == ("\N{MINUS SIGN}5", "5")
    assert (percent(0.625), percent(None)) == ("62.5 %", "\N{EN DASH}")


def test_what_is_safe() -> None:
    assert safe("<script>&\"'") == "&lt;script&gt;&amp;&quot;&#x27;"
    assert safe("a\x00b\x1b[31m\u2028\ud800") == "a\ufffdb\ufffd[31m\ufffd\ufffd"
    assert safe("ö 漢 😀") == "ö 漢 😀"
    assert len(safe("x" * 1_000)) == 80


# COMMAND-24: three digits that matter, hours beside seconds, whole seconds whole
@pytest.mark.parametrize(
    ("span_s", "text"),
    [
        (0, "0 s"),
        (0.01716, "0.0172 s"),
        (28.3333, "28.3 s"),
        (999.9, "1,000 s"),
        (3599, "3,599 s"),
        (3600, "3,600 s (1 h)"),
        (12960, "12,960 s (3.6 h)"),
        (5_081_796.4, "5,081,796 s (1,410 h)"),
        (-13_903, "-13,903 s (-3.86 h)"),
    ],
)
def test_seconds(span_s: float, text: str) -> None:
    assert seconds_text(span_s) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.77272, "0.773"), (2036.9, "2,040"), (99.96, "100"), (-0.0545, "-0.0545")],
)
def test_what_is_measured(value: float, text: str) -> None:
    assert measured(value) == text


# COMMAND-24: percentages differ in points
def test_points() -> None:
    assert points(0.0321) == "3.2 points"


@pytest.mark.parametrize(
    ("kind", "amount_s", "text"),
    [
        ("vcore", 4 * 1800, "2 core h"),
        ("memory", 16 * 2**30 * 1800, "8 GiB h"),
        ("nvidia.com/gpu", 3 * 3600, "3 h"),
    ],
)
def test_resources_over_time(kind: str, amount_s: float, text: str) -> None:
    assert resource_time(kind, amount_s) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 batches"), (1, "1 batch"), (2000, "2,000 batches")]
)
def test_singular_and_plural(count: int, text: str) -> None:
    assert counted(count, "batch", "batches") == text
