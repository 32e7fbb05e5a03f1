"""What a replay counts: waits, gangs, evictions, reservations, also from the middle of a feed on."""

from __future__ import annotations

import statistics
from functools import partial

import pytest
import trio
from hypothesis import given, settings, strategies as st

from muster.feeds import FeedItem
from muster.replay import (
    QueueSummary,
    Remark,
    Reserved,
    ReservedTally,
    Tally,
    Waits,
    WaitSummary,
    begun_at,
    replay,
)
from muster.testing import Recording
from muster_core.decisions import Announced, Decision, Kind, Reason
from tests.actors.samples import items, tally_of

NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
APP = "- {op: add_app, app: a, queue: root.q}\n"
SETUP = NODE + APP


async def test_nothing() -> None:
    summary = (await tally_of("")).summary()

    assert (summary.events, summary.decisions, summary.asks_bound, summary.refused) == (0, 0, 0, 0)
    assert summary.virtual_s == 0
    assert (summary.queues, dict(summary.utilisation)) == ((), {})
    assert summary.wait == WaitSummary(0)
    assert summary.real_s > 0


async def test_an_ask_waits_from_when_it_came() -> None:
    summary = (
        await tally_of(
            APP
            + """
- {op: add_ask, at: 10, app: a, ask: x, resources: {vcore: 1}, run_for: 5}
- {op: add_node, at: 12.5, node: n1, capacity: {vcore: 2}}
"""
        )
    ).summary()

    assert summary.wait == WaitSummary(1, 2.5, 2.5, 2.5, 2.5)
    assert summary.queues == (QueueSummary("root.q", 1, 1, 0, summary.wait),)
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 0)
    assert summary.virtual_s == 12.5 + 5 + 30  # until the application has completed


async def test_members_of_a_count_are_asks_of_their_own() -> None:
    summary = (
        await tally_of(
            SETUP + "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, run_for: 4}"
        )
    ).summary()

    assert summary.asks_bound == 3
    assert (summary.wait.mean_s, summary.wait.longest_s) == (4 / 3, 4)


async def test_what_is_bound_and_pending_at_the_end() -> None:
    summary = (
        await tally_of(SETUP + "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 5}")
    ).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (2, 2, 3)


async def test_only_the_first_bind_counts() -> None:
    summary = (
        await tally_of(
            SETUP
            + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: remove_node, at: 10, node: n1}
- {op: add_node, at: 100, node: n2, capacity: {vcore: 2}}
"""
        )
    ).summary()

    assert summary.wait == WaitSummary(1, 0, 0, 0, 0)
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 1, 0)


async def test_an_ask_that_lost_its_node_is_pending() -> None:
    summary = (
        await tally_of(
            SETUP
            + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: remove_node, at: 10, node: n1}
"""
        )
    ).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 1)


async def test_a_failed_bind_is_none() -> None:
    summary = (
        await tally_of(
            SETUP
            + """
- {op: fail_bind, app: a, ask: x}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: fail_bind, app: a, ask: x, times: 2}
"""
        )
    ).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 1, 0)


async def test_what_was_not_started_is_pending_and_has_waited_once() -> None:
    feed = (
        SETUP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: update_node, at: 10, node: n1, schedulable: false}
- {op: bind_failed, app: a, ask: x}
"""
    )
    summary = (await tally_of(feed)).summary()
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 0, 1)

    feed += "- {op: update_node, at: 30, node: n1, schedulable: true}"
    summary = (await tally_of(feed)).summary()
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (1, 1, 0)
    assert (summary.wait.count, summary.wait.longest_s) == (1, 0)


async def test_a_refused_ask_is_none() -> None:
    tally = await tally_of(
        SETUP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 3}}
- {op: add_ask, at: 5, app: a, ask: x, resources: {vcore: 1}}
- {op: add_ask, app: b, ask: x, resources: {vcore: 1}}
- {op: add_ask, app: a, ask: y, resources: {vcore: lots}}
"""
    )
    summary = tally.summary()

    assert (summary.asks_pending, summary.refused, summary.events) == (1, 3, 6)
    first = summary.first_refusals
    assert [(refusal.index, refusal.line) for refusal in first] == [(3, 5), (4, 6), (5, 7)]
    assert first[2] == Remark(5, 7, first[2].message)
    assert "lots" in first[2].message


async def test_warnings_are_named() -> None:
    config = "{partitions: [{name: default, usergroupresolver: os}]}"
    summary = (await tally_of(f"- {{op: configure, config: {config}}}\n")).summary()

    assert summary.warnings == 1
    assert (summary.first_warnings[0].index, summary.first_warnings[0].line) == (0, 1)
    assert "usergroupresolver" in summary.first_warnings[0].message


async def test_a_warning_is_counted_once() -> None:
    """The one of a configuration is announced as well; that of a deadlock only is."""
    deadlock = "\n".join(
        f"- {{op: add_gang, gang: {gang}, min_member: 2, mode: NonStrict}}\n"
        f"- {{op: add_app, app: {gang}, queue: root.q}}\n"
        f"- {{op: add_ask, app: {gang}, ask: k, count: 2, gang: {gang}, resources: {{vcore: 1}}}}"
        for gang in ("g", "h")
    )
    config = "{partitions: [{name: default, usergroupresolver: os, queues: [{name: q}]}]}"
    tally = await tally_of(
        f"- {{op: configure, config: {config}}}\n"
        f"- {{op: add_node, node: n, capacity: {{vcore: 1, cpu: 3}}}}\n{deadlock}\n"
    )
    kinds = [warning.message.partition(" ")[0] for warning in tally.summary().first_warnings]

    assert kinds == ["usergroupresolver:", "the"]
    assert tally.warnings == 2


async def test_only_the_first_refusals_are_named() -> None:
    summary = (await tally_of("- {op: x}\n" * 12)).summary()

    assert summary.refused == 12
    assert [refusal.index for refusal in summary.first_refusals] == list(range(10))


async def test_a_name_that_comes_again_in_the_batch_in_which_it_goes() -> None:
    tally = await tally_of(
        SETUP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: release, at: 10, app: a, ask: x}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}}
- {op: remove_ask, app: a, ask: x}
- {op: add_ask, app: a, ask: x, resources: {vcore: 3}}
- {op: remove_app, app: a}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}}
- {op: release, at: 30, app: a, ask: x}
"""
    )
    summary = tally.summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (2, 0, 0)
    assert summary.virtual_s == 60
    assert summary.utilisation == {"vcore": (1 * 10 + 2 * 20) / (2 * 60)}


async def test_what_is_removed_is_forgotten() -> None:
    tally = await tally_of(
        APP
        + """
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- {op: remove_ask, at: 1, app: a, ask: x}
- {op: add_ask, at: 2, app: a, ask: y, resources: {vcore: 1}, count: 100}
- {op: remove_app, at: 3, app: a}
"""
    )

    summary = tally.summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (0, 0, 0)


async def test_utilisation_is_over_what_there_was() -> None:
    summary = (
        await tally_of(
            """
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2, memory: 1Gi}, run_for: 30}
- {op: add_node, at: 10, node: n1, capacity: {vcore: 4, memory: 4Gi, gpu: 1}}
- {op: update_node, at: 20, node: n1, capacity: {vcore: 2, memory: 4Gi}}
- {op: update_node, at: 20, node: n1, attributes: {zone: a}}
- {op: add_node, at: 30, node: n2, capacity: {vcore: 2, disk: 1}}
- {op: remove_node, at: 30, node: n2}
- {op: expect, at: 70}
"""
        )
    ).summary()

    assert summary.virtual_s == 70
    assert summary.utilisation == {
        "disk": None,
        "gpu": 0.0,
        "memory": 30 / (4 * 60),
        "vcore": 2 * 30 / (4 * 10 + 2 * 50),
    }


async def test_events_without_decisions_count_at_the_end_too() -> None:
    summary = (await tally_of("- {op: add_node, node: n, capacity: {vcore: 1}}")).summary()

    assert summary.decisions == 0
    assert summary.utilisation == {"vcore": None}


async def test_jobs_of_a_queue_without_asks() -> None:
    summary = (await tally_of(SETUP + "- {op: add_app, app: b, queue: root.r}")).summary()

    assert summary.queues == (
        QueueSummary("root.q", 1, 0, 0, WaitSummary(0)),
        QueueSummary("root.r", 1, 0, 0, WaitSummary(0)),
    )


async def test_time_passes_until_the_end_that_was_asked_for() -> None:
    tally = await tally_of(
        SETUP + "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}", until_us=100_000_000
    )

    assert tally.summary().virtual_s == 100
    assert tally.summary().utilisation == {"vcore": 0.5}


async def test_decisions_for_each_second() -> None:
    summary = (await tally_of(SETUP)).summary()

    assert summary.decisions == 1
    assert summary.decisions_per_s == 1 / summary.real_s


EVICTION_SETUP = """
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
    summary = (await tally_of(EVICTION_SETUP, until_us=45_000_000)).summary()

    assert (summary.asks_reclaimed, summary.asks_preempted) == (1, 0)
    assert (summary.asks_bound, summary.asks_running, summary.asks_pending) == (3, 2, 1)
    assert dict(summary.utilisation) == {"vcore": 1.0}


async def test_a_wait_ends_with_the_first_bind() -> None:
    summary = (await tally_of(EVICTION_SETUP, until_us=70_000_000)).summary()

    assert (summary.asks_reclaimed, summary.asks_bound, summary.asks_running) == (1, 3, 2)
    assert summary.wait.longest_s == 30


async def test_preemption_is_counted_apart() -> None:
    more = (
        "- {op: add_ask, at: 70, app: rich, ask: u, resources: {vcore: 1}, "
        "priority_class: urgent}\n"
    )
    summary = (await tally_of(EVICTION_SETUP + more, until_us=110_000_000)).summary()

    assert (summary.asks_reclaimed, summary.asks_preempted) == (1, 1)


GANG_SETUP = """
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
- {op: add_gang, gang: g, min_member: 3, mode: NonStrict, wait_time: 20}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, gang: g}
"""


async def test_waiting_members_are_neither_bound_nor_pending_but_use_nodes() -> None:
    summary = (await tally_of(GANG_SETUP, until_us=10_000_000)).summary()

    assert (summary.asks_bound, summary.asks_waiting, summary.asks_pending) == (0, 2, 1)
    assert dict(summary.utilisation) == {"vcore": 1.0}
    assert (summary.gangs_satisfied, summary.gangs_timed_out) == (0, 0)


async def test_members_wait_until_they_are_bound() -> None:
    more = "- {op: add_node, at: 5, node: n2, capacity: {vcore: 2}}\n"
    summary = (await tally_of(GANG_SETUP + more, until_us=10_000_000)).summary()

    assert (summary.asks_bound, summary.asks_running, summary.asks_waiting) == (3, 3, 0)
    assert (summary.wait.mean_s, summary.wait.longest_s) == (5, 5)
    assert summary.gangs_satisfied == 1
    # 2 of 2 for 5 s, then 3 of 4 for 5 s.
    assert dict(summary.utilisation) == {"vcore": 25 / 30}


async def test_members_of_a_gang_that_times_out_are_pending() -> None:
    summary = (await tally_of(GANG_SETUP, until_us=40_000_000)).summary()

    assert (summary.asks_waiting, summary.asks_pending, summary.gangs_timed_out) == (0, 3, 1)
    assert dict(summary.utilisation) == {"vcore": 0.5}


async def test_a_waiting_member_that_is_removed_is_gone() -> None:
    more = "- {op: remove_ask, at: 5, app: a, ask: x-0}\n"
    summary = (await tally_of(GANG_SETUP + more, until_us=10_000_000)).summary()

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


def figures_after(
    *decisions: tuple[int, Kind, str] | tuple[int, Kind, str, int | None],
) -> Reserved:
    """Return the figures after decisions: the instant, the kind, the ask, and a start."""
    tally = ReservedTally()
    for at_us, kind, ask, *start in decisions:
        reason = Reason.REMOVED if kind is Kind.RELEASED else None
        tally.observe(
            Decision(kind, "a", ask, reason=reason, start_us=start[0] if start else None), at_us
        )
    return tally.figures()


# COMMAND-26
@pytest.mark.parametrize(("at_us", "kept"), [(5, True), (9, True), (10, False)])
def test_the_first_known_start_counts(at_us: int, kept: bool) -> None:
    found = figures_after(
        (0, Kind.RESERVED, "k", None),
        (1, Kind.RESERVED, "k", 9),
        (2, Kind.RESERVED, "k", 30),
        (at_us, Kind.BOUND, "k"),
    )

    assert found == Reserved(asks=1, kept=int(kept), late=int(not kept))


# COMMAND-26
def test_who_was_given_no_known_start_or_is_not_bound() -> None:
    found = figures_after(
        (0, Kind.BOUND, "others"),
        (0, Kind.RESERVED, "open", None),
        (0, Kind.RESERVED, "gone", 5),
        (0, Kind.RESERVED, "waits", 5),
        (3, Kind.BOUND, "others"),
        (3, Kind.RELEASED, "gone"),
        (7, Kind.BOUND, "gone"),
        (7, Kind.BOUND, "open"),
    )

    assert found == Reserved(asks=3, open_ended=1)
    assert found.unbound == 2


# COMMAND-26
def test_who_lost_its_node_counts_again() -> None:
    found = figures_after(
        (0, Kind.RESERVED, "k", 5),
        (5, Kind.BOUND, "k"),
        (6, Kind.BOUND, "k"),
        (7, Kind.RESERVED, "k", 8),
        (9, Kind.BOUND, "k"),
    )

    assert found == Reserved(asks=2, kept=1, late=1)


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


LISTS = st.lists(st.integers(0, 10**12), min_size=1)


def waits(*waits_us: int) -> Waits:
    noted = Waits()
    for wait_us in waits_us:
        noted.add(wait_us)
    return noted


def test_none() -> None:
    assert waits().summary() == WaitSummary(0, None, None, None, None)


def test_one() -> None:
    assert waits(1_500_000).summary() == WaitSummary(1, 1.5, 1.5, 1.5, 1.5)


def test_two() -> None:
    assert waits(3_000_000, 1_000_000).summary() == WaitSummary(2, 2.0, 2.0, 3.0, 3.0)


@pytest.mark.parametrize(("count", "p95_s"), [(19, 19), (20, 19), (21, 20), (40, 38), (100, 95)])
def test_95_percent_do_not_wait_longer(count: int, p95_s: float) -> None:
    noted = waits(*(number * 1_000_000 for number in range(count, 0, -1)))

    assert noted.summary().p95_s == p95_s


@given(LISTS)
def test_against_the_library(waits_us: list[int]) -> None:
    summary = waits(*waits_us).summary()
    longest_s, p95_s = summary.longest_s, summary.p95_s

    assert summary.count == len(waits_us)
    assert summary.mean_s == pytest.approx(statistics.fmean(waits_us) / 1e6)
    assert summary.median_s == pytest.approx(statistics.median(waits_us) / 1e6)
    assert longest_s == max(waits_us) / 1e6
    assert p95_s is not None
    assert sum(wait_us / 1e6 <= p95_s for wait_us in waits_us) >= 0.95 * len(waits_us)
    assert sum(wait_us / 1e6 < p95_s for wait_us in waits_us) < 0.95 * len(waits_us)


@given(LISTS, LISTS)
def test_of_two_queues_together(first: list[int], second: list[int]) -> None:
    together = waits(*first)
    together.extend(waits(*second))

    assert together.summary() == waits(*first, *second).summary()


def test_a_wait_longer_than_can_be_kept() -> None:
    longest_s = waits(2**64).summary().longest_s

    assert longest_s == (2**63 - 1) / 1_000_000
