"""Devices in the drawing of nodes: who held which device when."""

from __future__ import annotations

import re
from typing import Any

from tests.actors.report.helpers import known, recorded

S = 1_000_000

FEED = """\
- {op: add_node, node: g1, capacity: {vcore: 4}, devices: {gpu: 3}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: whole, devices: {gpu: 2}, run_for: 20}
- {op: add_ask, app: a, ask: half, devices: {gpu: {milli: 500}}, run_for: 30}
- {op: add_ask, app: a, ask: part, devices: {gpu: {milli: 250}}, run_for: 30}
- {op: add_ask, app: a, ask: cpu, resources: {vcore: 2}, run_for: 30}
- {op: add_ask, app: a, ask: next, at: 20, devices: {gpu: 1}, run_for: 10}
"""
PLAIN = "- {op: add_node, node: plain, capacity: {vcore: 8}}\n"

Drawn = dict[str, list[tuple[float, float]]]


def drawn(page: str) -> Drawn:
    """Return of each ask where its bar begins, from the top of the drawing, and how high it is."""
    bars: list[list[Any]] = known(page)["bars"]
    found: Drawn = {}
    for path, number in re.findall(r'class="bar [^"]*" d="([^"]+)" data-i="(\d+)"', page):
        pieces = re.findall(r"M\S+ ([\d.]+)H[\d.]+v([\d.]+)", path)
        found[bars[int(number)][0]] = [(float(top), float(high)) for top, high in pieces]
    return found


def held(page: str) -> dict[str, object]:
    return {bar[0]: bar[8] for bar in known(page)["bars"] if len(bar) > 8}


# COMMAND-27: a lane for each device, and one below them for asks without devices
async def test_each_device_has_a_lane() -> None:
    page = (await recorded(FEED)).page

    # A lane is 4.8 high, of which 0.6 stay empty; the last one is as high as two.
    assert drawn(page) == {
        "a/whole": [(0, 4.2), (4.8, 4.2)],
        "a/half": [(9.6, 2.1)],
        "a/part": [(11.7, 1.05)],
        "a/cpu": [(14.4, 4.5)],
        "a/next": [(0, 4.2)],
    }
    assert "each device has a lane" in page


# COMMAND-27: which devices an ask held
async def test_a_bar_says_which_devices_it_held() -> None:
    page = (await recorded(FEED, until_us=25 * S)).page

    assert held(page) == {
        "a/whole": "gpu 0, 1",
        "a/half": "500 milli of gpu 2",
        "a/part": "250 milli of gpu 2",
        "a/next": "gpu 0",
    }


# COMMAND-27: an ask that gets other devices on another node, and one of each type of devices
async def test_an_ask_that_moves_holds_other_devices_then() -> None:
    feed = """\
- {op: add_node, node: g1, capacity: {vcore: 4}, devices: {gpu: 2}}
- {op: add_node, node: g2, capacity: {vcore: 4}, devices: {gpu: 2, nic: 1}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: first, node: g2, devices: {gpu: 1}}
- {op: add_ask, app: a, ask: moves, node: g1, devices: {gpu: 1}}
- {op: release, at: 10, app: a, ask: moves, outcome: completed}
- {op: add_ask, at: 10, app: a, ask: moves, node: g2, devices: {gpu: 1, nic: {milli: 100}}}
- {op: settle, at: 20}
"""
    bars = known((await recorded(feed)).page)["bars"]

    assert sorted((bar[0], bar[1], bar[4] // S, bar[8]) for bar in bars) == [
        ("a/first", "g2", 0, "gpu 0"),
        ("a/moves", "g1", 0, "gpu 0"),
        ("a/moves", "g2", 10, "gpu 1; 100 milli of nic 0"),
    ]


# COMMAND-27: with the state of an instant a report begins with the devices that are held then
async def test_a_report_begins_with_what_is_held() -> None:
    page = (await recorded(FEED, start_us=10 * S)).page

    assert drawn(page)["a/whole"] == [(0, 4.2), (4.8, 4.2)]
    assert held(page)["a/part"] == "250 milli of gpu 2"
    assert held(page)["a/next"] == "gpu 0"


async def test_nodes_without_devices_are_drawn_by_share() -> None:
    plain = "- {op: add_ask, app: a, ask: cores, node: plain, resources: {vcore: 2}, run_for: 9}\n"
    page = (await recorded(PLAIN + FEED + plain)).page
    without = (await recorded(PLAIN + FEED.splitlines(keepends=True)[1] + plain)).page

    assert drawn(page)["a/cores"] == drawn(without)["a/cores"] == [(0, 6)]
    assert drawn(page)["a/whole"] == [(26, 4.2), (30.8, 4.2)]
    assert "lane" not in without.partition("<body>")[2].partition("<script")[0]


# COMMAND-27: with too many devices for lanes a bar is as thick as its share
async def test_very_many_devices_have_no_lanes() -> None:
    feed = FEED.replace("devices: {gpu: 3}", "devices: {gpu: 64, nic: 1}")
    page = (await recorded(feed)).page

    assert drawn(page)["a/whole"] == [(14, 1)]
    assert held(page)["a/whole"] == "gpu 0, 1"
    assert "each device has a lane" not in page
