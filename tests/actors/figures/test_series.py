"""A plot: what is drawn, its legend, its table and its data agree (PAGE-17, PAGE-18)."""

from __future__ import annotations

import re
from typing import Final

from muster.figures.charts import MOST_ROWS, ChartData, Frame, Plot, PlotRow
from muster.figures.text import DAY, HOUR, MINUTE, Unit

NOON: Final = 20_000 * DAY + 12 * HOUR

PLOT: Final = Plot(
    frame=Frame(NOON, NOON + 4 * MINUTE, MINUTE, has_dates=True),
    label="cores & more",
    areas=[
        PlotRow("root.a", "q0", [1000, 2000, 0, None]),
        PlotRow("root.b", "q1", [1000, 0, 3000, None]),
    ],
    lines=[PlotRow("there", "limit", [None, 4000, 4000, None], "what was there")],
    together=[2000, 2000, 3000, 0],
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


def test_values_are_told_in_the_unit() -> None:
    # PAGE-18
    told = PLOT.chart().told
    assert [row.name for row in told] == ["there", "together", "root.b", "root.a"]
    assert list(told[0].values) == [None, 4, 4, None]
    assert PLOT.keys() == [
        ("line limit", "what was there"),
        ("area q0", "root.a"),
        ("area q1", "root.b"),
    ]
    data = PLOT.data()
    assert (data["begin"], data["step"], data["unit"]) == (NOON / 1e6, 60, "cores")
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
