"""What is counted of gangs and of Kubernetes objects."""

from __future__ import annotations

from tests.actors.replay.helpers import tally_of

SETUP = """
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
- {op: add_gang, gang: g, min_member: 3, mode: NonStrict, wait_time: 20}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, gang: g}
"""


async def test_waiting_members_are_neither_bound_nor_pending_but_use_nodes() -> None:
    summary = (await tally_of(SETUP, until_us=10_000_000)).summary()

    assert (summary.asks_bound, summary.asks_waiting, summary.asks_pending) == (0, 2, 1)
    assert dict(summary.utilisation) == {"vcore": 1.0}
    assert (summary.gangs_satisfied, summary.gangs_timed_out) == (0, 0)


async def test_members_wait_until_they_are_bound() -> None:
    more = "- {op: add_node, at: 5, node: n2, capacity: {vcore: 2}}\n"
    summary = (await tally_of(SETUP + more, until_us=10_000_000)).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_waiting) == (3, 3, 0)
    assert (summary.wait.mean_s, summary.wait.longest_s) == (5, 5)
    assert summary.gangs_satisfied == 1
    # 2 of 2 for 5 s, then 3 of 4 for 5 s.
    assert dict(summary.utilisation) == {"vcore": 25 / 30}


async def test_members_of_a_gang_that_times_out_are_pending() -> None:
    summary = (await tally_of(SETUP, until_us=40_000_000)).summary()

    assert (summary.asks_waiting, summary.asks_pending, summary.gangs_timed_out) == (0, 3, 1)
    assert dict(summary.utilisation) == {"vcore": 0.5}


async def test_a_waiting_member_that_is_removed_is_gone() -> None:
    more = "- {op: remove_ask, at: 5, app: a, ask: x-0}\n"
    summary = (await tally_of(SETUP + more, until_us=10_000_000)).summary()

    assert (summary.asks_waiting, summary.asks_pending) == (1, 1)


POD = """
- op: apply
  at: {at}
  manifest:
    kind: Pod
    metadata: {{name: p, labels: {{applicationId: a}}}}
    spec: {{{spec}containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}
    status: {{phase: {phase}}}
"""


async def test_a_pod_that_runs_was_bound_at_once() -> None:
    runs = POD.format(at=5, spec="nodeName: n1, ", phase="Running")
    ends = POD.format(at=7, spec="", phase="Succeeded")
    node = "- {op: add_node, node: n1, capacity: {vcore: 1}}\n"

    summary = (await tally_of(node + runs, until_us=10_000_000)).summary()
    assert (summary.asks_bound, summary.asks_running, summary.wait.longest_s) == (1, 1, 0)
    assert dict(summary.utilisation) == {"vcore": 0.5}
    summary = (await tally_of(node + runs + ends, until_us=10_000_000)).summary()
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 0)
    assert dict(summary.utilisation) == {"vcore": 0.2}
