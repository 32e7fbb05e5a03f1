"""What is recorded is what a naive count of the decisions gives.

Buckets of time merge without losing a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import final

import pytest
import trio
from hypothesis import given, strategies as st

from muster import Simulation
from muster.feeds import FeedItem, read_feed
from muster.replay import Beginning, Tally, replay
from muster.report import Board, Recorder
from muster.report._node_records import MOST_ROWS
from muster.report._queue_records import MOST_QUEUES, OTHER_QUEUES
from muster.report._timeline import LevelRanges, Series, Span, Timeline, joined
from muster.testing import Recording
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.snapshots import Snapshot
from tests.actors.report.helpers import EVERYTHING, RecordedReplay, recorded
from tests.share import every

FEEDS = Path(__file__).parents[2] / "feeds"
#: Some of the feeds of the specification: all kinds, and those in which something was found.
SPEC_FEEDS = sorted(
    {
        *sorted(FEEDS.rglob("*.yaml"))[::15],
        *(FEEDS / "config").glob("drains*.yaml"),
        FEEDS / "format" / "expect_queues.yaml",
        FEEDS / "format" / "remove_app.yaml",
        FEEDS / "gangs" / "queue_drained_while_waiting.yaml",
        FEEDS / "objects" / "pod_of_the_same_name.yaml",
        FEEDS / "priority" / "burst_below_one_parent.yaml",
    }
)


@final
class EndWatcher:
    """Watches nothing but the end.

    Attributes:
        seen: What there was then.
    """

    def __init__(self) -> None:
        self.seen: list[Snapshot] = []

    def begin(self, beginning: Beginning, /) -> None:
        """Nothing to begin with."""

    def saw(self, item: FeedItem, /) -> None:
        """Nothing to take note of."""

    def write(self, batch: Sequence[Announced], /) -> None:
        """Nothing to take note of."""

    def due_us(self) -> None:
        """Never before the end."""

    async def look(self, scheduler: Simulation, at_us: int, /) -> None:
        """Never before the end."""

    async def look_at_end(self, scheduler: Simulation, at_us: int, /) -> None:
        """Have everything published."""
        self.seen.append(await scheduler.snapshot())


def allocations(decisions: list[Announced], end_us: int) -> Iterator[tuple[Decision, int, int]]:
    """Yield every decision that gave a node to an ask, with when it held it."""
    since: dict[tuple[str | None, str | None], tuple[Decision, int]] = {}
    for announced in decisions:
        decision, key = announced.decision, (announced.decision.app, announced.decision.ask)
        if decision.kind in {Kind.WAITING, Kind.BOUND} and key not in since:
            since[key] = (decision, announced.at_us)
        elif decision.kind is Kind.RELEASED and key in since:
            first, at_us = since.pop(key)
            yield first, at_us, announced.at_us
    for decision, at_us in since.values():
        yield decision, at_us, end_us


def area(series: Series | None) -> int:
    return 0 if series is None else sum(series.areas)


@pytest.fixture
async def recording() -> RecordedReplay:
    return await recorded(EVERYTHING)


async def test_usage_is_that_of_the_decisions(recording: RecordedReplay) -> None:
    recorder, end_us = recording.recorder, recording.recorder.end_us
    cores = {"a": 1000, "b": 1000, "c": 1000}
    naive: Counter[str] = Counter()
    for decision, begin, end in allocations(recording.decisions, end_us):
        assert decision.app
        assert decision.queue
        for queue in ("root", decision.queue):
            naive[queue] += cores[decision.app] * (end - begin)

    assert naive["root"] > 0
    assert area(recorder.used["vcore"]) == naive["root"]
    for path in ("root", "root.batch", "root.web"):
        record = recorder.queues.get(path)
        assert record
        assert area(record.used.get("vcore")) == naive[path]
    # Two nodes of 4 cores, of which one is lost at 30 s.
    assert area(recorder.there["vcore"]) == 4000 * (end_us + 30_000_000)


async def test_pending_and_running_are_those_of_the_decisions(recording: RecordedReplay) -> None:
    recorder = recording.recorder
    arrivals = {"a": (9, 0), "b": (2, 10_000_000), "c": (5, 12_000_000)}
    end_us = recorder.end_us
    pending = sum(count * (end_us - at_us) for count, at_us in arrivals.values())
    finished = 0
    running = 0
    for announced in recording.decisions:
        match announced.decision:
            case Decision(kind=Kind.RELEASED, reason=Reason.COMPLETED):
                finished += end_us - announced.at_us
            case _:
                pass
    for _, begin, end in allocations(recording.decisions, end_us):
        running += end - begin
    root = recorder.queues.get("root")

    assert root
    assert area(root.running) + area(root.waiting) == running
    assert area(root.pending) == pending - running - finished


async def test_bars_are_those_of_the_decisions(recording: RecordedReplay) -> None:
    recorder = recording.recorder
    naive = [
        (decision.node, decision.app, decision.ask, begin, end)
        for decision, begin, end in allocations(recording.decisions, recorder.end_us)
        if end > begin
    ]
    assert recorder.nodes.bars is not None
    bars = [
        (bar.node, *bar.key, bar.held_us, recorder.end_us if bar.end_us is None else bar.end_us)
        for bar in [
            *recorder.nodes.bars,
            *(recorder.nodes.bar(ask, None, None) for ask in recorder.holding()),
        ]
    ]

    assert sorted(bars) == sorted(naive)
    assert sum(recorder.released.values()) == sum(
        announced.decision.kind is Kind.RELEASED for announced in recording.decisions
    )


async def test_waits_are_those_of_the_summary(recording: RecordedReplay) -> None:
    summary = recording.tally.summary()
    recorder = recording.recorder

    assert sum(recorder.waits.counts) == summary.wait.count
    for queue in summary.queues:
        record = recorder.queues.get(queue.queue)
        assert record
        assert (sum(record.waits.counts), record.jobs) == (queue.wait.count, queue.jobs)
    longest = recorder.longest_waits()
    assert longest[0].key == ("c", "huge")
    assert not longest[0].bound
    assert longest[1].wait_us == round((summary.wait.longest_s or 0) * 1e6)


async def test_it_says_why(recording: RecordedReplay) -> None:
    reasons = recording.recorder.reasons
    huge = reasons.reasons_of(("c", "huge"))

    assert huge
    assert set(huge.codes) == {"NeverFits"}
    assert "99 vcore" in huge.last
    assert reasons.at_end == {"NeverFits": 1}
    assert reasons.code_counts("root.batch", 0, 20_000_000)["QueueMax"] > 5


async def test_settings_change_with_the_configuration() -> None:
    def queues(most: int) -> str:
        return (
            "{partitions: [{name: default, queues: [{name: root, queues: "
            f"[{{name: q, resources: {{max: {{vcore: {most}}}}}}}]}}]}}]}}"
        )

    found = await recorded(
        f"- {{op: configure, config: {queues(1)}}}\n"
        "- {op: add_app, app: a, queue: root.q, at: 5}\n"
        "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}\n"
        f"- {{op: configure, config: {queues(3)}, at: 10}}\n"
        "- {op: remove_app, app: a, at: 20}\n"
    )
    record = found.recorder.queues.get("root.q")

    assert record
    assert record.max["vcore"].steps == [(0, 1000), (10_000_000, 3000)]
    assert found.recorder.timeline.origin_us == 5_000_000


async def test_a_queue_that_rules_choose() -> None:
    found = await recorded(
        "- {op: configure, config: {partitions: [{name: default, "
        "placementrules: [{name: user, create: true}], queues: [{name: root, "
        "childtemplate: {resources: {max: {vcore: 2}}}, queues: [{name: q}]}]}]}}\n"
        "- {op: add_app, app: a, queue: root.q, user: sue, at: 5}\n"
        "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}\n"
        "- {op: remove_app, app: a, at: 20}\n"
    )
    record, named = found.recorder.queues.get("root.sue"), found.recorder.queues.get("root.q")

    assert record
    assert named
    assert (record.jobs, named.jobs) == (1, 0)
    assert record.max["vcore"].steps == [(5_000_000, 2000)]


async def test_nothing_at_all() -> None:
    found = await recorded("[]")

    assert found.recorder.end_us == 0
    assert list(found.recorder.longest_waits()) == []
    assert "<h1>feed.yaml</h1>" in found.page


async def test_very_many_queues_are_counted_together() -> None:
    many = 3 * MOST_QUEUES
    feed = "- {op: add_node, node: n, capacity: {vcore: 1000}}\n" + "".join(
        f"- {{op: add_app, app: a{number}, queue: root.q{number}, at: {number}}}\n"
        f"- {{op: add_ask, app: a{number}, ask: x, resources: {{vcore: 1}}, run_for: 500}}\n"
        for number in range(many)
    )
    found = await recorded(feed)
    records = list(found.recorder.queues)

    assert len(records) == MOST_QUEUES + 1
    assert records[-1].path == OTHER_QUEUES
    root = found.recorder.queues.get("root")
    assert root
    assert root.jobs == sum(record.jobs for record in records if record is not root) == many
    assert area(root.used["vcore"]) == sum(
        area(record.used["vcore"]) for record in records if record is not root
    )


async def test_very_many_nodes_share_rows() -> None:
    many = MOST_ROWS + 100
    feed = "- {op: add_app, app: a, queue: root.q}\n" + "".join(
        f"- {{op: add_node, node: n{number}, capacity: {{vcore: 2}}}}\n" for number in range(many)
    )
    feed += (
        f"- {{op: add_ask, app: a, ask: x, count: {many}, resources: {{vcore: 1}}, run_for: 9}}\n"
    )
    found = await recorded(feed)
    nodes = found.recorder.nodes

    assert nodes.count == many
    assert [(row.first, row.last) for row in nodes.rows[:2]] == [("n0", "n1"), ("n2", "n3")]
    assert len(nodes.rows) == many // 2
    assert sum(area(row.there) for row in nodes.rows) == 1000 * many * found.recorder.end_us
    # Each node was half full for 9 s; with 2 asks or none where the order of nodes says so.
    assert sum(area(row.fill) for row in nodes.rows) == 500 * many * 9_000_000


@pytest.mark.parametrize(
    "path", every(3, SPEC_FEEDS), ids=[f"{path.parent.name}-{path.stem}" for path in SPEC_FEEDS]
)
def test_watching_changes_nothing(path: Path) -> None:
    """The decisions are the same, and in the end the counts are those of the scheduler."""
    plain, watched = Recording(), Recording()
    recorder, board, tally = Recorder(), Board(), Tally()
    last = EndWatcher()

    trio.run(lambda: replay(read_feed(path), journals=[plain]))
    trio.run(
        lambda: replay(
            read_feed(path),
            journals=[watched],
            watchers=[recorder, board, last],
            tally=tally,
        )
    )
    recorder.close(tally.at_us)

    assert watched.decisions == plain.decisions
    (snapshot,) = last.seen
    for queue, now in board.queues():
        known = snapshot.queues.get(queue)
        record = recorder.queues.get(queue)
        if record is None:
            assert len(list(recorder.queues)) > MOST_QUEUES
            continue
        allocated = {} if known is None else dict(known.allocated)
        assert now.used == allocated
        assert {
            kind: series.value for kind, series in record.used.items() if series.value
        } == allocated
        assert record.priority.value == (None if known is None else known.priority)
        assert known is None or now.priority == known.priority
    asks = Counter(str(ask.place) for app in snapshot.apps.values() for ask in app.asks)
    root = recorder.queues.get("root")
    if root is not None:
        assert root.pending.value == asks["pending"] + asks["parked"]
        assert root.waiting.value == asks["waiting"]
        assert root.running.value == asks["bound"]


async def test_the_same_feed_twice() -> None:
    first, second = await recorded(EVERYTHING), await recorded(EVERYTHING)

    assert first.page == second.page


#: Instants that go up, each with the value that holds from there.
STEPS = st.lists(
    st.tuples(st.integers(0, 5_000), st.integers(0, 100)), min_size=1, max_size=30
).map(sorted)


def timeline_and_series(
    steps: list[tuple[int, int]], end: int, most: int, begin: int = 0
) -> tuple[Timeline, Series]:
    timeline = Timeline(most)
    series = Series(timeline)
    for at, value in steps:
        if at >= begin:
            timeline.begin(begin)
        timeline.reach(at)
        series.set(value, at)
    timeline.begin(begin)
    timeline.reach(end)
    series.close(end)
    return timeline, series


def value_at(steps: list[tuple[int, int]], at: int) -> int:
    return next((value for since, value in reversed(steps) if since <= at), 0)


@given(STEPS, st.integers(1, 40), st.integers(0, 3_000))
def test_every_bucket_holds_the_integral(
    steps: list[tuple[int, int]], most: int, more: int
) -> None:
    end = steps[-1][0] + more
    timeline, series = timeline_and_series(steps, end, most)
    width = timeline.width_us
    naive = [value_at(steps, at) for at in range(end)]

    assert end <= width * most + width  # the end itself may stand on the last edge
    for number, area in enumerate(series.areas):
        assert area == sum(naive[number * width : (number + 1) * width])
        assert series.peaks[number] == max(naive[number * width : (number + 1) * width])
    assert sum(series.areas) == sum(naive)


@given(STEPS, st.integers(1, 40), st.integers(0, 4_000))
def test_what_was_before_the_begin_does_not_count(
    steps: list[tuple[int, int]], most: int, begin: int
) -> None:
    end = max(steps[-1][0], begin) + 10
    _, series = timeline_and_series(steps, end, most, begin)

    assert sum(series.areas) == sum(value_at(steps, at) for at in range(begin, end))


@given(STEPS, STEPS)
def test_absorbing_adds(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    end = 6_000
    timeline = Timeline(16)
    timeline.begin(0)
    one, other = Series(timeline), Series(timeline)
    for at, which, value in sorted(
        [(at, 0, value) for at, value in first] + [(at, 1, value) for at, value in second]
    ):
        timeline.reach(at)
        (other if which else one).set(value, at)
    one.absorb(other, 5_000)
    timeline.reach(end)
    one.close(end)

    assert sum(one.areas) == sum(value_at(first, at) + value_at(second, at) for at in range(end))


def test_the_width_doubles_until_all_has_room() -> None:
    timeline, series = timeline_and_series([(0, 1)], 1_000, most=10)

    assert timeline.width_us == 128
    assert series.areas == [128] * 7 + [104]


def test_a_range_is_kept_where_there_is_no_sum() -> None:
    timeline = Timeline(4)
    timeline.begin(0)
    levels = LevelRanges(timeline)
    for at, value in [(0, 5), (1, -7), (2, None), (6, 3), (7, 4), (9, 4)]:
        timeline.reach(at)
        levels.set(value, at)

    assert timeline.width_us == 4
    assert levels.spans == [Span(-7, 5, -7), Span(3, 4, 4), Span(4, 4, 4)]


def test_nothing_joined_with_something() -> None:
    spans = [None, Span(1, 2, 1), None]

    assert [joined(first, second) for first, second in pairwise(spans)] == [spans[1], spans[1]]
    assert joined(None, None) is None
