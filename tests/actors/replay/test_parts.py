"""The parts that queues had of what they used together, and what was their due by their weights."""

from __future__ import annotations

import pytest

from muster.replay import QueuePart, parts_of
from tests.actors.samples import tally_of

S = 1_000_000
QUEUES = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, properties: {usage.half.life: 100s}, queues: [
    {name: a, properties: {queue.weight: "3"}},
    {name: b, properties: {usage.half.life: "0"}, queues: [{name: c}, {name: d}]}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4, memory: 40}}
- {op: add_app, app: a, queue: root.a}
- {op: add_app, app: c, queue: root.b.c}
"""
# `a` has a quarter of the memory for 1,000 s, `c` half of the cores from 400 s to 800 s.
USE = """
- {op: add_ask, app: a, ask: x, resources: {vcore: 0.5, memory: 10}, run_for: 1000}
- {op: add_ask, at: 400, app: c, ask: x, resources: {vcore: 2}, run_for: 400}
"""


async def _parts(feed: str, until_s: int) -> dict[str, QueuePart]:
    summary = (await tally_of(feed, until_us=until_s * S)).summary()
    return {part.queue: part for part in summary.parts}


# COMMAND-33: the parts of the whole time, and those furthest from the due in a half-life
async def test_what_queues_had_and_what_was_their_due() -> None:
    parts = await _parts(QUEUES + USE, 1000)

    # Only the queues below `root` share by what they have used.
    assert parts.keys() == {"root.a", "root.b"}
    a, b = parts["root.a"], parts["root.b"]
    assert (a.weight, a.due, b.weight, b.due) == (3, 0.75, 1, 0.25)
    # 250 of 1,000 s of all memory against 200 s of all cores.
    assert a.had is not None
    assert b.had is not None
    assert abs(a.had - 250 / 450) < 1e-9
    assert abs(a.had + b.had - 1) < 1e-9
    # In the 100 s to 800 s `b` had half of all cores, and `a` a quarter of the memory.
    assert a.furthest_us == b.furthest_us == 800 * S
    assert a.furthest_had is not None
    assert a.furthest is not None
    assert abs(a.furthest_had - 1 / 3) < 1e-9
    assert abs(a.furthest - (0.75 - 1 / 3)) < 1e-9


async def test_a_window_may_begin_between_two_looks() -> None:
    # Looked at when `c` begins at 400 s, and at the end: from 360 s to 460 s.
    a = (await _parts(QUEUES + USE, 460))["root.a"]

    assert a.furthest_us == 460 * S
    assert a.furthest_had == pytest.approx(25 / (25 + 30))


async def test_without_a_half_life_or_before_one_has_passed() -> None:
    assert not await _parts(QUEUES.replace("100s", '"0"') + USE, 1000)
    early = await _parts(QUEUES + USE, 90)
    assert (early["root.a"].had, early["root.a"].furthest) == (1.0, None)
    assert (await _parts(QUEUES, 90))["root.a"].had is None


def test_who_has_used_nothing() -> None:
    assert parts_of([{}, {"vcore": 0}], {"vcore": 10}) is None
    assert parts_of([{"vcore": 1}, {"memory": 6}], {"vcore": 10, "memory": 20}) == pytest.approx(
        [0.25, 0.75]
    )


# COMMAND-33: from when on a parent has a half-life, and over the leaves below a queue together
async def test_what_queues_had_while_they_had_pending_work() -> None:
    without = QUEUES.replace("100s", '"0"')
    later = QUEUES.partition("- {op: add_node")[0].replace("configure\n", "configure\n  at: 100\n")
    # From 0 s on `a` holds half of the cores, and `c` has 4 asks of which 2 find room.
    use = """
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}, run_for: 1000}
- {op: add_ask, app: c, ask: x, resources: {vcore: 1}, run_for: 200, count: 4}
"""
    # From 100 s to 200 s two asks are pending, from then on none.
    parts = await _parts(without + use + later, 400)
    a, b = parts["root.a"], parts["root.b"]
    assert (a.wanted, a.had_wanting) == (0, None)
    assert b.wanted == pytest.approx(100 / 300)
    assert b.had_wanting == pytest.approx(0.5)
    # Nodes that come or change count from then on.
    more = "- {op: update_node, at: 150, node: n1, capacity: {vcore: 4, memory: 40}}\n"
    third = use.replace("vcore: 2}", "vcore: 2, memory: 30}")
    grown = await _parts(without + third + later + more.replace("40", "60"), 400)
    # The part of `a` is three quarters of the memory, then half of it and of the cores.
    assert grown["root.b"].had_wanting == pytest.approx((0.5 + 0.5) / (1.25 + 1.0))
