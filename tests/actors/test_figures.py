"""Figures for readers: texts, instants, devices, and plots whose legend, table and data agree
(PAGE-17, PAGE-18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from muster.figures.charts import MOST_ROWS, ChartData, Frame, Plot, PlotRow
from muster.figures.text import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Unit,
    amount_text,
    counted,
    dated,
    duration,
    free_words,
    held_words,
    holders_of,
    instant_of,
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
        (86_400, "86,400 s (1 d)"),
        (5_081_796.4, "5,081,796 s (58 d 20 h)"),
        (-13_903, "-13,903 s (-3.86 h)"),
        (-113_903, "-113,903 s (-1 d 8 h)"),
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


def date(at_us: int) -> str:
    return f"<{at_us}>"


def test_the_instant_of_a_message_is_written_as_a_date() -> None:
    reserved = "it would delay the reservation of a/k on n, which starts at 90.5 s"
    backs_off = "it is not tried before 7 s, for 2 s"

    assert dated(reserved, 90_500_000, date) == reserved.replace("90.5 s", "<90500000>")
    assert dated(backs_off, 7_000_000, date) == backs_off.replace("7 s", "<7000000>")


def test_other_numbers_stay() -> None:
    text = "at 17 s, at 7 sites, before 7.5 s, for 7 s"

    assert dated(text, 7_000_000, date) == text
    assert dated("which starts at 7 s", None, date) == "which starts at 7 s"


def test_facts_have_one_instant_or_none() -> None:
    assert instant_of({"until_us": 5, "left_us": 1}) == 5
    assert instant_of({"delays": "a/k", "start_us": 9}) == 9
    assert instant_of({"start_us": None}) is None
    assert instant_of({"left_us": 3}) is None


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


NOON_IN_2024: Final = 20_000 * DAY + 12 * HOUR

PLOT: Final = Plot(
    frame=Frame(NOON_IN_2024, NOON_IN_2024 + 4 * MINUTE, MINUTE, has_dates=True),
    label="cores & more",
    areas=[
        PlotRow("root.a", "q0", [1000, 2000, 0, None]),
        PlotRow("root.b", "q1", [1000, 0, 3000, None]),
    ],
    lines=[PlotRow("there", "limit", [None, 4000, 4000, None], "what was there")],
    total=[2000, 2000, 3000, 0],
    unit=Unit.of("vcore", 4000),
)


def test_a_drawing_is_the_same_with_and_without_styles() -> None:
    # PAGE-18
    styled, still = PLOT.chart().html(ChartData()), PLOT.chart().still()

    assert "style=" not in still
    assert re.findall(r"<svg viewBox.*?</svg>", styled) == re.findall(
        r"<svg viewBox.*?</svg>", still
    )
    assert 'aria-label="cores &amp; more"' in still
    assert re.findall(r'class="((?:area|line) [^"]+)"', still) == [
        "area q0",
        "area q1",
        "line limit",
    ]
    assert [">12:00:00<" in one for one in (styled, still)] == [True, True]


def test_areas_stand_on_one_another() -> None:
    # PAGE-18
    paths = dict(re.findall(r'class="(?:area|line) (\w+)" d="([^"]+)"', PLOT.chart().still()))

    # The top is 4.24 cores, drawn 1,000 high: 2 cores end at 528, and 3 cores at 292.
    assert paths["q0"] == "M0 1000V764H2500V528H5000V1000H0z"
    assert paths["q1"].startswith("M0 764V528H2500V764")
    assert "V292H7500" in paths["q1"]
    assert paths["limit"] == "M2500 57H7500"


def test_values_are_shown_in_the_unit() -> None:
    # PAGE-18
    tooltips = PLOT.chart().tooltips
    assert [row.name for row in tooltips] == ["there", "together", "root.b", "root.a"]
    assert list(tooltips[0].values) == [None, 4, 4, None]
    assert PLOT.keys() == [
        ("line limit", "what was there"),
        ("area q0", "root.a"),
        ("area q1", "root.b"),
    ]
    data = PLOT.data()
    assert (data["begin"], data["step"], data["unit"]) == (NOON_IN_2024 / 1e6, 60, "cores")
    assert data["areas"] == [
        {"name": "root.a", "style": "q0", "values": [1, 2, 0, None]},
        {"name": "root.b", "style": "q1", "values": [1, 0, 3, None]},
    ]


def test_a_table_says_the_same() -> None:
    # PAGE-17
    names, rows = PLOT.table()

    assert names == ["there", "root.a", "root.b"]
    assert rows == [
        ("Oct 4, 12:01", ["\N{EN DASH}", "1 core", "1 core"]),
        ("Oct 4, 12:02", ["4 cores", "2 cores", "0 cores"]),
        ("Oct 4, 12:03", ["4 cores", "0 cores", "3 cores"]),
    ]


def test_a_table_is_short() -> None:
    # PAGE-17
    frame = Frame(0, 100 * HOUR, HOUR)
    plot = Plot(
        frame=frame, label="x", lines=[PlotRow("x", "q0", [float(at) for at in range(100)])]
    )
    _, rows = plot.table()

    assert len(rows) <= MOST_ROWS
    assert rows[-1] == ("4 d 4 h", ["99"])
