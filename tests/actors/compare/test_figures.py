"""Figures of a comparison: those of the replay, and those of a plain count of the log.

Who gains and who loses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from muster.compare import MOST_JOBS, Compared, Comparison, FeedSide, Figures, JobChange
from muster.compare._account import ranges
from muster.feeds import FeedItem, Settle
from muster.replay import Summary, Tally, replay
from muster.testing import Recording
from muster_core.decisions import Announced, Kind, Reason
from tests.actors.samples import (
    compare_configurations,
    compare_feeds,
    compare_items,
    configuration,
    items,
    of_scenario,
)
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Scenario
from tests.naive.strategies import scenarios
from tests.share import share

NODE = "- {op: add_node, node: n1, capacity: {vcore: 2}}\n"
ANY = st.one_of(scenarios(), gang_scenarios(), evictions())


async def replayed(feed: Sequence[FeedItem]) -> tuple[Summary, Sequence[Announced]]:
    """Replay a feed as ``muster replay`` does."""
    tally, log = Tally(), Recording()
    await replay(feed, journals=[log], tally=tally)
    return tally.summary(), log.decisions


def recount(log: Sequence[Announced]) -> dict[str, tuple[object, ...]]:
    """Count by queue what a decision log says, the plain way."""
    queues = {one.decision.queue for one in log if one.decision.kind is Kind.APP_STATE}
    return {queue: counted(log, queue) for queue in queues if queue is not None}


def counted(log: Sequence[Announced], queue: str) -> tuple[object, ...]:
    """Return jobs, asks bound, preempted, reclaimed, and the waits of jobs in microseconds."""
    own = [one for one in log if one.decision.queue == queue]
    arrivals: dict[str | None, int] = {}
    started: set[str | None] = set()
    bound: set[tuple[str | None, str | None]] = set()
    jobs, binds, waits = 0, 0, list[int]()
    taken: dict[Reason | None, int] = defaultdict(int)
    for one in own:
        decision, key = one.decision, (one.decision.app, one.decision.ask)
        if decision.kind is Kind.APP_STATE and decision.state == "New":
            jobs += 1
            arrivals[decision.app] = one.at_us
            started.discard(decision.app)
        elif decision.kind is Kind.BOUND:
            binds += key not in bound
            bound.add(key)
            if decision.app not in started:
                started.add(decision.app)
                waits.append(one.at_us - arrivals[decision.app])
        elif decision.kind is Kind.RELEASED:
            taken[decision.reason] += 1
            if decision.reason in {Reason.COMPLETED, Reason.REMOVED, Reason.CANCELLED}:
                bound.discard(key)
    mean_s = sum(waits) / len(waits) / 1e6 if waits else None
    return jobs, binds, taken[Reason.PREEMPTED], taken[Reason.RECLAIMED], len(waits), mean_s


def as_counted(figures: Figures) -> tuple[object, ...]:
    """Return the same of what a comparison says."""
    assert figures.job_wait is not None
    return (
        figures.jobs,
        figures.asks_bound,
        figures.asks_preempted,
        figures.asks_reclaimed,
        figures.job_wait.count,
        figures.job_wait.mean_s,
    )


@share(0.3)
@given(ANY)
async def test_figures_are_those_of_the_replay_and_of_the_log(scenario: Scenario) -> None:
    feed = of_scenario(scenario)
    summary, log = await replayed(feed)
    compared = compare_items(feed, feed)
    pending = summary.asks_pending + summary.asks_waiting

    assert compared.same
    for whole in (compared.a, compared.b):
        assert whole.wait == summary.wait
        assert (whole.asks_bound, whole.asks_pending) == (summary.asks_bound, pending)
        assert whole.utilisation == pytest.approx(summary.utilisation)
    assert {row.queue: as_counted(row.a) for row in compared.queues} == recount(log)
    assert {row.queue: row.b.wait for row in compared.queues} == {
        queue.queue: queue.wait for queue in summary.queues
    }


@share(0.3)
@given(ANY)
def test_parts_add_up_to_the_whole(scenario: Scenario) -> None:
    feed = of_scenario(scenario)
    compared = compare_items(feed, feed)
    whole = compared.a

    assert whole.asks_pending is not None
    for name in ("jobs", "asks_bound", "asks_pending", "asks_preempted", "asks_reclaimed"):
        assert sum(getattr(row.a, name) for row in compared.queues) == getattr(whole, name)
    assert sum(row.a.asks_pending or 0 for row in compared.priorities) == whole.asks_pending
    assert sum(row.a.asks_preempted for row in compared.priorities) == whole.asks_preempted
    assert sum(row.a.asks_reclaimed for row in compared.priorities) == whole.asks_reclaimed
    for kind, used in whole.utilisation.items():
        parts = [row.a.utilisation[kind] for row in compared.queues]
        assert used is None or sum(part or 0 for part in parts) == pytest.approx(used)


def test_asks_are_counted_by_priority() -> None:
    feed = f"""\
{NODE}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: low, resources: {{vcore: 2}}, priority: 1, run_for: 10}}
- {{op: add_ask, app: a, ask: high, resources: {{vcore: 2}}, priority: 9, count: 2, run_for: 10}}
- {{op: add_app, app: b, queue: root.q}}
- {{op: add_ask, app: b, ask: low, resources: {{vcore: 9}}, priority: 1}}
"""
    high, low = compare_feeds(feed, feed).priorities

    assert (high.lowest, high.highest, low.lowest, low.highest) == (9, 9, 1, 1)
    assert (high.a.jobs, high.a.asks_bound, high.a.asks_pending) == (1, 2, 0)
    assert (low.a.jobs, low.a.asks_bound, low.a.asks_pending) == (2, 1, 1)
    assert high.a.wait is not None
    assert low.a.wait is not None
    assert (high.a.wait.longest_s, low.a.wait.longest_s) == (10, 20)
    assert (high.a.job_wait, high.a.utilisation, high.a.makespan_s) == (None, {}, None)


def test_who_is_preempted_counts_with_its_queue_and_priority() -> None:
    feed = f"""\
- op: configure
  config:
    partitions:
      - name: default
        queues: [{{name: root, properties: {{preemption.delay: 1s}}}}]
- {{op: add_priority_class, name: urgent, value: 7, preemption_policy: PreemptLowerPriority}}
{NODE}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 2}}, priority: 3}}
- {{op: add_app, app: b, queue: root.r, at: 5}}
- {{op: add_ask, app: b, ask: y, resources: {{vcore: 2}}, priority_class: urgent}}
"""
    compared = compare_feeds(feed, feed)
    queues = {row.queue: row.a.asks_preempted for row in compared.queues}
    priorities = {row.lowest: row.a.asks_preempted for row in compared.priorities}

    assert queues == {"root.q": 1, "root.r": 0}
    assert priorities == {7: 0, 3: 1}


def test_an_ask_that_comes_bound_and_goes_at_once_did_not_wait() -> None:
    pod = "{kind: Pod, metadata: {name: p, labels: {applicationId: a}}, spec: {nodeName: n1, containers: [{resources: {requests: {cpu: 1}}}]}}"
    feed = f"{NODE}- {{op: apply, manifest: {pod}}}\n- {{op: delete, manifest: {pod}}}\n"
    whole = compare_feeds(feed, feed).a

    assert whole.wait is not None
    assert (whole.asks_bound, whole.wait.longest_s, whole.utilisation) == (1, 0, {"vcore": 0})


def test_makespan_is_from_the_first_job_to_the_last_release() -> None:
    feed = f"""\
{NODE}
- {{op: add_app, app: a, queue: root.q, at: 10}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 1}}, run_for: 5, at: 12}}
- {{op: add_app, app: b, queue: root.r, at: 20}}
- {{op: add_ask, app: b, ask: y, resources: {{vcore: 1}}}}
"""
    compared = compare_feeds(feed, feed)

    assert compared.a.makespan_s == 10
    assert [row.a.makespan_s for row in compared.queues] == [7, 0]


def test_a_queue_of_one_side_is_empty_on_the_other() -> None:
    more = """\
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 5}
"""
    (row,) = compare_feeds(NODE, NODE + more).queues

    assert (row.queue, row.a.jobs, row.b.jobs) == ("root.q", 0, 1)
    assert row.a.wait is not None
    assert row.a.wait.count == 0


@share(0.3)
@given(st.dictionaries(st.integers(-99, 99), st.integers(1, 50), min_size=1))
def test_priorities_are_put_together_in_order_and_evenly(asks: dict[int, int]) -> None:
    found = list(ranges(asks, 5))

    assert len(found) <= 5
    assert [
        priority
        for lowest, highest in found
        for priority in sorted(asks, reverse=True)
        if lowest <= priority <= highest
    ] == sorted(asks, reverse=True)
    if len(asks) <= 5:
        assert all(lowest == highest for lowest, highest in found)
    share, largest = sum(asks.values()) / 5, max(asks.values())
    for lowest, highest in found:
        in_row = sum(number for priority, number in asks.items() if lowest <= priority <= highest)
        assert in_row < share + largest + 1


def test_sides_may_go_on_for_different_times() -> None:
    feed = items(NODE)
    longer = [*feed, FeedItem(1, 2, 50_000_000, Settle())]
    compared = Comparison(FeedSide(feed), FeedSide(longer)).run()

    assert compared.a.utilisation == {"vcore": None}
    assert compared.b.utilisation == {"vcore": 0.0}


def test_an_ask_of_a_name_that_is_free_again_is_another() -> None:
    asks = "".join(
        f"- {{op: add_ask, app: a, ask: x, resources: {{vcore: 1}}, run_for: 5, at: {at}}}\n"
        for at in (0, 10)
    )
    feed = f"{NODE}- {{op: add_app, app: a, queue: root.q}}\n{asks}"

    assert compare_feeds(feed, feed).a.asks_bound == 2


def test_an_ask_that_is_bound_again_waited_once() -> None:
    feed = f"""\
{NODE}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 1}}}}
- {{op: remove_node, node: n1, at: 10}}
- {{op: add_node, node: n2, capacity: {{vcore: 1}}, at: 30}}
"""
    whole = compare_feeds(feed, feed).a

    assert whole.wait is not None
    assert (whole.asks_bound, whole.wait.count, whole.wait.longest_s) == (1, 1, 0)


def test_an_ask_that_failed_is_another_one_only_without_a_retry() -> None:
    feed = f"""\
{NODE}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 1}}, retries: 1}}
- {{op: release, app: a, ask: x, outcome: failed, at: 10}}
- {{op: release, app: a, ask: x, outcome: failed, at: 20}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 1}}, at: 30}}
"""

    assert compare_feeds(feed, feed).a.asks_bound == 2


def test_what_only_waited_is_no_part_of_the_makespan() -> None:
    feed = f"""\
{NODE}
- {{op: add_gang, gang: g, min_member: 3, mode: NonStrict, wait_time: 10s}}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: x, count: 3, resources: {{vcore: 1}}, gang: g}}
"""
    whole = compare_feeds(feed, feed).a

    assert (whole.asks_bound, whole.asks_pending, whole.makespan_s) == (0, 3, None)
    assert whole.utilisation == {"vcore": 1}


def test_what_nodes_offer_may_change() -> None:
    feed = f"""\
{NODE}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: x, resources: {{vcore: 2}}}}
- {{op: update_node, node: n1, capacity: {{vcore: 4}}, at: 10}}
- {{op: settle, at: 400}}
"""
    # The last that happens is at 400 s: 2 of 2 for 10 s, then 2 of 4.
    assert compare_feeds(feed, feed).a.utilisation == {"vcore": 800 / (20 + 4 * 390)}


SMALL_NODE = "- {op: add_node, node: n1, capacity: {vcore: 1}}\n"
FIFO = "{name: q, properties: {application.sort.priority: disabled}}"
BY_PRIORITY = "{name: q}"


def job(number: int, priority: int, run_for: float = 10) -> str:
    return f"""\
- {{op: add_app, app: j{number}, queue: root.q}}
- op: add_ask
  app: j{number}
  ask: x
  resources: {{vcore: 1}}
  priority: {priority}
  run_for: {run_for}
"""


def names(changes: Sequence[JobChange]) -> list[str]:
    return [change.app for change in changes]


def compared_by_order(feed: str) -> Compared:
    """Compare first in, first out with the highest priority first."""
    return compare_configurations(
        feed, configuration(f"[{FIFO}]"), configuration(f"[{BY_PRIORITY}]")
    )


def test_who_goes_first_gains_and_who_goes_last_loses() -> None:
    jobs = compared_by_order(SMALL_NODE + "".join(job(number, number) for number in range(4))).jobs

    assert (jobs.compared, jobs.wait.gained, jobs.wait.lost) == (4, 2, 2)
    assert names(jobs.wait.most_gained) == names(jobs.end.most_gained) == ["j3", "j2"]
    assert names(jobs.wait.most_lost) == names(jobs.end.most_lost) == ["j0", "j1"]
    (best, _) = jobs.wait.most_gained
    assert (best.a.wait_s, best.b.wait_s, best.a.end_s, best.b.end_s) == (30, 0, 40, 10)
    assert best.a.queue == "root.q"


def test_only_the_first_are_listed_in_order() -> None:
    feed = SMALL_NODE + "".join(job(number, number) for number in range(300))
    jobs = compared_by_order(feed).jobs

    assert (jobs.wait.gained, jobs.wait.lost) == (150, 150)
    assert names(jobs.wait.most_gained) == [f"j{number}" for number in range(299, 289, -1)]
    assert names(jobs.wait.most_lost) == [f"j{number}" for number in range(MOST_JOBS)]


def test_who_gains_the_same_stands_in_the_order_of_coming() -> None:
    late = "- {op: add_node, node: n1, capacity: {vcore: 9}, at: 60}\n"
    feed = "".join(job(number, 0) for number in (2, 1))
    jobs = compare_feeds(feed + late, SMALL_NODE.replace("1}", "9}") + feed + late).jobs

    assert names(jobs.wait.most_gained) == ["j1", "j2"]  # equal in all, so by name
    assert {change.a.wait_s for change in jobs.wait.most_gained} == {60}


def test_who_is_never_bound_waits_without_end() -> None:
    feed = SMALL_NODE + job(0, 1, 100_000) + job(1, 9).replace("vcore: 1}", "vcore: 2}") + job(2, 0)
    more = feed.replace(SMALL_NODE, SMALL_NODE.replace("vcore: 1}", "vcore: 2}"))
    jobs = compare_feeds(feed, more).jobs

    first = jobs.wait.most_gained[0]
    assert (first.app, first.a.wait_s, first.a.end_s, first.b.wait_s) == ("j1", None, None, 0)
    assert compare_feeds(more, feed).jobs.wait.most_lost[0].app == "j1"


def test_who_is_bound_on_neither_side_gains_nothing() -> None:
    feed = SMALL_NODE + job(0, 0).replace("vcore: 1}", "vcore: 2}")
    jobs = compare_feeds(feed, feed + "- {op: settle, at: 5}\n").jobs

    assert (jobs.compared, jobs.wait.gained, jobs.wait.lost) == (1, 0, 0)
    assert (jobs.end.gained, jobs.end.lost) == (0, 0)


def test_the_end_counts_for_itself() -> None:
    short, long = SMALL_NODE + job(0, 0, 10), SMALL_NODE + job(0, 0, 25)
    jobs = compare_feeds(short, long).jobs
    (change,) = jobs.end.most_lost

    assert (jobs.wait.gained, jobs.wait.lost) == (0, 0)
    assert (change.a.end_s, change.b.end_s) == (10, 25)


def test_an_application_that_goes_on_after_its_last_ask_ends_later() -> None:
    again = """\
- {op: add_ask, app: j0, ask: y, resources: {vcore: 1}, run_for: 10, at: 20}
"""
    (change,) = compare_feeds(
        SMALL_NODE + job(0, 0), SMALL_NODE + job(0, 0) + again
    ).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, 30)


def test_one_that_holds_something_at_the_end_has_not_ended() -> None:
    endless = job(0, 0).replace("  run_for: 10\n", "")
    (change,) = compare_feeds(SMALL_NODE + job(0, 0), SMALL_NODE + endless).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, None)


def test_one_that_was_removed_ended_then() -> None:
    removed = "- {op: remove_app, app: j0, at: 4}\n"
    jobs = compare_feeds(SMALL_NODE + job(0, 0), SMALL_NODE + job(0, 0) + removed).jobs
    (change,) = jobs.end.most_gained

    assert (jobs.only_a, jobs.only_b) == (0, 0)
    assert (change.a.end_s, change.b.end_s) == (10, 4)


def test_applications_of_one_name_are_compared_in_order() -> None:
    again = "- {op: settle, at: 50}\n" + job(0, 0, 5)
    later = "- {op: settle, at: 50}\n" + job(0, 0, 6)
    jobs = compare_feeds(SMALL_NODE + job(0, 0, 1) + again, SMALL_NODE + job(0, 0, 2) + later).jobs

    assert jobs.compared == 2
    assert [(change.a.end_s, change.b.end_s) for change in jobs.end.most_lost] == [
        (1, 2),
        (55, 56),
    ]


def test_one_that_is_removed_and_comes_again_is_another() -> None:
    again = "- {op: remove_app, app: j0, at: 4}\n" + job(0, 0)
    jobs = compare_feeds(SMALL_NODE + job(0, 0), SMALL_NODE + job(0, 0) + again).jobs
    (change,) = jobs.end.most_gained

    assert (jobs.compared, jobs.only_a, jobs.only_b) == (1, 0, 1)
    assert (change.a.end_s, change.b.end_s) == (10, 4)


def test_one_of_which_an_ask_was_removed_and_another_is_pending_has_not_ended() -> None:
    asks = """\
- {op: add_ask, app: j0, ask: large, resources: {vcore: 5}}
- {op: add_ask, app: j0, ask: larger, resources: {vcore: 6}}
- {op: remove_ask, app: j0, ask: larger, at: 500}
"""
    feed = SMALL_NODE + job(0, 0)
    (change,) = compare_feeds(feed, feed + asks).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, None)


def test_one_that_goes_on_without_end_has_not_ended() -> None:
    endless = "- {op: add_ask, app: j0, ask: y, resources: {vcore: 1}, at: 20}\n"
    (change,) = compare_feeds(
        SMALL_NODE + job(0, 0), SMALL_NODE + job(0, 0) + endless
    ).jobs.end.most_lost

    assert (change.a.end_s, change.b.end_s) == (10, None)


def test_one_side_may_be_ahead_of_the_other_by_several_of_one_name() -> None:
    ahead = "".join(f"- {{op: settle, at: {at}}}\n{job(0, 0, 1)}" for at in (0, 50, 100))
    late = "- {op: remove_app, app: j0, at: 200}\n" + job(0, 0, 2)
    jobs = compare_feeds(SMALL_NODE + ahead, SMALL_NODE + job(0, 0, 1000) + late).jobs

    assert (jobs.compared, jobs.only_a, jobs.only_b) == (2, 1, 0)
    assert [(change.a.end_s, change.b.end_s) for change in jobs.end.most_lost] == [
        (1, 200),
        (51, 202),
    ]
