"""What is counted of reclaim and preemption."""

from __future__ import annotations

from tests.actors.replay.helpers import tally_of

SETUP = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: owed, resources: {guaranteed: {vcore: "1"}}},
    {name: rich}]}]}]}
- {op: add_priority_class, name: urgent, value: 9, preemption_policy: PreemptLowerPriority}
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: rich, queue: root.rich}
- {op: add_app, app: owed, queue: root.owed}
- {op: add_ask, app: rich, ask: x, resources: {vcore: 1}, count: 2}
- {op: add_ask, at: 10, app: owed, ask: x, resources: {vcore: 1}, run_for: 20}
"""


async def test_who_was_evicted_is_pending_and_uses_nothing() -> None:
    summary = (await tally_of(SETUP, until_us=45_000_000)).summary()

    assert (summary.asks_reclaimed, summary.asks_preempted) == (1, 0)
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (3, 2, 1)
    assert dict(summary.utilisation) == {"vcore": 1.0}


async def test_a_wait_ends_with_the_first_bind() -> None:
    summary = (await tally_of(SETUP, until_us=70_000_000)).summary()

    assert (summary.asks_reclaimed, summary.asks_bound, summary.asks_running) == (1, 3, 2)
    assert summary.wait.longest_s == 30


async def test_preemption_is_counted_apart() -> None:
    more = (
        "- {op: add_ask, at: 70, app: rich, ask: u, resources: {vcore: 1}, "
        "priority_class: urgent}\n"
    )
    summary = (await tally_of(SETUP + more, until_us=110_000_000)).summary()

    assert (summary.asks_reclaimed, summary.asks_preempted) == (1, 1)
