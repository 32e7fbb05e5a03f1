"""Reservations in a report: what is recorded of them, and what is drawn."""

from __future__ import annotations

import re
from typing import Any

import pytest

from muster.report._node_records import ReservedBar
from tests.actors.report.helpers import EVERYTHING, known, recorded
from tests.actors.reserving import RESERVED

S = 1_000_000

#: At 20 s a reservation is given up without another: its queue has another order.
GIVEN_UP = """\
- op: configure
  at: 20
  config:
    partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]
- {op: settle, at: 30}
"""


def told(bars: list[ReservedBar] | None) -> list[tuple[object, ...]]:
    assert bars is not None
    return [
        (one.ask.key[1], one.node, one.since_us, one.start_us, one.end_us)
        for one in sorted(bars, key=lambda one: (one.since_us, one.ask.key))
    ]


async def test_reservations_last_until_their_asks_get_nodes() -> None:
    found = await recorded(RESERVED)

    assert told(found.recorder.reserved.bars)[:2] == [
        ("next", "n2", 10 * S, None, 100 * S),
        ("wide", "n1", 10 * S, 100 * S, 100 * S),
    ]
    assert found.recorder.reserved.present == {}


async def test_reservations_that_are_given_up_end() -> None:
    found = await recorded(RESERVED + GIVEN_UP)

    assert told(found.recorder.reserved.bars)[:2] == [
        ("next", "n2", 10 * S, None, 20 * S),
        ("wide", "n1", 10 * S, 100 * S, 20 * S),
    ]


async def test_they_are_drawn_hatched_with_a_legend() -> None:
    found = await recorded(RESERVED)
    page = found.page
    bars: list[list[Any]] = known(page)["bars"]

    hatched = [bar for bar in bars if len(bar) == 10]
    drawn = re.findall(r'class="bar reserved" d="[^"]+" data-i="(\d+)"', page)
    assert [bars[int(number)] for number in drawn] == hatched
    assert ["new/wide", "n1", "root.q", None, 10 * S, None, 100 * S, None, None, 100 * S] in hatched
    assert ["new/next", "n2", "root.q", None, 10 * S, None, 100 * S, None, None, None] in hatched
    assert page.count('id="hatch"') == page.count('class="hatched"') == 1
    assert "reserved for an ask that does not run yet" in page


@pytest.mark.parametrize("feed", [EVERYTHING, RESERVED.replace("backfill,", "greedy,")])
async def test_without_them_nothing_is_hatched(feed: str) -> None:
    body = (await recorded(feed)).page.partition("<body>")[2].partition("<script")[0]

    assert "reserved" not in body
    assert "hatch" not in body


async def test_who_waits_has_the_start_of_its_reservation() -> None:
    page = (await recorded(RESERVED, until_us=60 * S)).page

    assert "reserved: n1 from 1:40 min" in page
    assert "reserved: n2 from an end that is not known" in page
    assert "which starts at 1:40 min" in page
