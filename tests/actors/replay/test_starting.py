"""A replay that begins to count in the middle of a feed."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from hypothesis import given, settings, strategies as st

from muster.feeds import FeedItem
from muster.replay import Tally, begun_at, replay
from muster.testing import Recording
from muster_core.decisions import Announced
from tests.actors.replay.helpers import items

S = 1_000_000
FEED = """\
- {op: add_node, node: n, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q, at: 10}
- {op: add_ask, app: a, ask: x, count: 4, resources: {vcore: 1}, run_for: 10}
- {op: add_ask, app: a, ask: huge, resources: {vcore: 3}, at: 15}
- {op: settle, at: 15}
- {op: add_gang, gang: g, min_member: 2, wait_time: 5s}
- {op: add_ask, app: a, ask: w, count: 2, resources: {vcore: 1}, gang: g, run_for: 3, at: 31}
- {op: fail_bind, app: a, ask: w-0}
- {op: add_node, node: m, capacity: {vcore: 3}, at: 40}
- {op: remove_app, app: a, at: 60}
"""


async def decided(feed: list[FeedItem], start_us: int | None, tally: Tally) -> list[Announced]:
    log = Recording()
    if start_us is None:
        await replay(feed, journals=[log], tally=tally)
    else:
        facts, rest = begun_at(iter(feed), start_us)
        await replay(rest, facts=facts, journals=[log], tally=tally)
    return log.decisions


@settings(max_examples=30)
@given(st.integers(0, 70 * S) | st.sampled_from([0, 1, 10, 15, 20, 31, 40, 60, 99]).map(S.__mul__))
def test_the_decisions_from_there_on_are_the_same(start_us: int) -> None:
    # COMMAND-16
    feed = items(FEED)
    whole = trio.run(decided, feed, None, Tally())

    found = trio.run(decided, feed, start_us, Tally())
    assert found == [one for one in whole if one.at_us >= start_us]


@pytest.mark.parametrize(
    ("start_s", "bound", "virtual_s"),
    [
        (0, 7, 60),
        (5, 7, 55),  # before there is anything but a node
        (20, 5, 40),
        (61, 0, 0),
    ],
)
async def test_figures_count_from_there(start_s: int, bound: int, virtual_s: float) -> None:
    # COMMAND-16
    tally = Tally()
    await decided(items(FEED), start_s * S, tally)
    tally.check()

    summary = tally.summary()
    assert summary.asks_bound == bound
    assert summary.virtual_s == virtual_s


async def test_use_before_is_left_out() -> None:
    # COMMAND-16
    feed = items("""\
- {op: add_node, node: n, capacity: {vcore: 1}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 50}
- {op: settle, at: 100}
""")
    used: list[float | None] = []
    for start_s in (0, 40, 50):
        tally = Tally()
        facts, rest = begun_at(iter(feed), start_s * S)
        run = partial(replay, rest, facts=facts, tally=tally, until_us=100 * S)
        await run()
        used.append(tally.summary().utilisation["vcore"])
    assert used == [0.5, 10 / 60, 0]


async def test_it_goes_on_from_a_state() -> None:
    # COMMAND-16: as with a state directory
    feed = items(FEED)
    whole = await decided(feed, None, Tally())
    early, rest = begun_at(iter(feed), 12 * S)
    later, rest = begun_at(rest, 33 * S, early)
    log = Recording()
    await replay(rest, facts=later, journals=[log])

    assert log.decisions == [one for one in whole if one.at_us >= 33 * S]
