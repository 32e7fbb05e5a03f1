"""The measures of jobs and the table of jobs: worked out by hand, and from a decision log anew."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import attrs
import pytest
from hypothesis import given, strategies as st

from muster.feeds import FeedItem
from muster.replay import JOB_COLUMNS, JobGroup, JobMeasures, Summary, Tally, WaitSummary, replay
from muster.replay._driver import submit_item_directly
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Kind, Reason
from muster_core.events import AddAsk, Apply
from muster_core.snapshots import AskPlace
from tests.actors.cli.helpers import run, run_json, written
from tests.actors.samples import of_scenario, tally_of
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Scenario
from tests.naive.once_strategies import once
from tests.naive.strategies import scenarios
from tests.share import share

S = 1_000_000

NODES = """\
- {op: add_node, node: n1, capacity: {vcore: 4, memory: 8Gi}}
- {op: add_node, node: n2, capacity: {vcore: 4, memory: 8Gi}}
"""
JOBS = f"""{NODES}\
- {{op: add_app, app: wide, queue: root.a, user: ann}}
- {{op: add_ask, app: wide, ask: x, resources: {{vcore: 4}}, count: 2, run_for: 100, estimate: 120}}
- {{op: add_app, app: short, queue: root.b, user: bob, at: 10}}
- {{op: add_ask, app: short, ask: x, resources: {{vcore: 1, memory: 1Gi}}, run_for: 5}}
- {{op: add_app, app: late, queue: root.b, at: 80}}
- {{op: add_ask, app: late, ask: x, resources: {{vcore: 2}}, run_for: 40}}
"""
"""``wide`` runs from 0 s to 100 s, ``short`` until 105 s, and ``late`` until 140 s."""


def only(group: Mapping[str, Any]) -> tuple[int, float, float]:
    return group["wait"]["count"], group["wait"]["mean_s"], group["bounded_slowdown"]["mean"]


# COMMAND-36
def test_the_measures_by_hand() -> None:
    status, answer = run_json("replay", "-", stdin=JOBS)
    measures = answer["measures"]

    # The waits are 0 s, 90 s and 20 s; the slowdowns 1, 95/10 and 60/40.
    assert status == 0
    assert (measures["ended"], measures["never_ran"], measures["unfinished"]) == (3, 0, 0)
    assert measures["wait"] == {
        "count": 3,
        "mean_s": pytest.approx(110 / 3),
        "median_s": 20,
        "p95_s": 90,
        "longest_s": 90,
    }
    assert measures["bounded_slowdown"] == {
        "mean": pytest.approx(4),
        "median": 1.5,
        "p95": 9.5,
        "highest": 9.5,
    }
    # 800 core seconds waited 0 s, 5 waited 90 s and 80 waited 20 s.
    assert measures["weighted_wait_s"] == {
        "memory": 90,
        "vcore": pytest.approx((5 * 90 + 80 * 20) / 885),
    }
    assert measures["size_resource"] == "vcore"
    assert {name: only(group) for name, group in measures["by_size"].items()} == {
        "1": (1, 90, 9.5),
        "2-4": (1, 20, 1.5),
        "5-16": (1, 0, 1),
    }
    assert {name: only(group) for name, group in measures["by_user"].items()} == {
        "": (1, 20, 1.5),
        "ann": (1, 0, 1),
        "bob": (1, 90, 9.5),
    }
    assert [*measures["by_queue"]] == ["root.a", "root.b"]
    assert only(measures["by_queue"]["root.b"]) == (2, 55, 5.5)
    assert answer["makespan_s"] == 140
    # The last ask comes at 80 s; everything is taken until then.
    assert answer["utilisation_to_last_arrival"] == {"memory": 0, "vcore": 1}


# COMMAND-37
def test_the_table_by_hand(tmp_path: Path) -> None:
    feed, table = written(tmp_path / "feed.yaml", JOBS), tmp_path / "jobs.csv"

    assert run("replay", feed, "--jobs", table).exit_code == 0
    rows = rows_of(table)
    assert [*rows[0]] == [column.name for column in JOB_COLUMNS]
    assert rows[1] == {
        "job_id": "short",
        "workload_name": "feed.yaml",
        "submission_time": "10",
        "requested_number_of_resources": "1",
        "requested_time": "-1",
        "success": "1",
        "final_state": "COMPLETED_SUCCESSFULLY",
        "starting_time": "100",
        "execution_time": "5",
        "finish_time": "105",
        "waiting_time": "90",
        "turnaround_time": "95",
        "stretch": "19.0",
        "allocated_resources": "0",
        "bounded_slowdown": "9.5",
        "queue": "root.b",
        "user": "bob",
    }
    wide = rows[0]
    assert (wide["job_id"], wide["requested_number_of_resources"]) == ("wide", "8")
    assert (wide["requested_time"], wide["allocated_resources"]) == ("120", "0-1")


def rows_of(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as stream:
        return [*csv.DictReader(stream)]


ENDS = f"""{NODES}\
- {{op: add_app, app: failed, queue: root.a}}
- {{op: add_ask, app: failed, ask: x, resources: {{vcore: 1}}}}
- {{op: add_app, app: limited, queue: root.a}}
- {{op: add_ask, app: limited, ask: x, resources: {{vcore: 1}}, run_limit: 7}}
- {{op: add_app, app: killed, queue: root.a}}
- {{op: add_ask, app: killed, ask: x, resources: {{vcore: 1500m}}}}
- {{op: add_app, app: never, queue: root.a}}
- {{op: add_ask, app: never, ask: x, resources: {{vcore: 9}}}}
- {{op: add_app, app: waits, queue: root.a}}
- {{op: add_ask, app: waits, ask: x, resources: {{vcore: 9}}}}
- {{op: add_app, app: runs, queue: root.a}}
- {{op: add_ask, app: runs, ask: x, resources: {{vcore: 1}}}}
- {{op: add_app, app: no-time, queue: root.a}}
- {{op: add_ask, app: no-time, ask: x, resources: {{vcore: 1}}}}
- {{op: settle}}
- {{op: release, app: no-time, ask: x}}
- {{op: release, app: failed, ask: x, outcome: failed, at: 5}}
- {{op: remove_app, app: killed, at: 6}}
- {{op: remove_ask, app: never, ask: x, at: 8}}
"""


# COMMAND-36, COMMAND-37: each end, and those that do not end
def test_the_ends_of_jobs(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    answer = run_json("replay", "-", "--jobs", table, stdin=ENDS)[1]
    columns = ("final_state", "success", "waiting_time", "execution_time", "stretch")

    assert {row["job_id"]: tuple(row[column] for column in columns) for row in rows_of(table)} == {
        "failed": ("COMPLETED_FAILED", "0", "0", "5", "1.0"),
        "limited": ("COMPLETED_WALLTIME_REACHED", "0", "0", "7", "1.0"),
        "killed": ("COMPLETED_KILLED", "0", "0", "6", "1.0"),
        "never": ("REJECTED", "0", "8", "", ""),
        "waits": ("SUBMITTED", "0", "", "", ""),
        "runs": ("RUNNING", "0", "0", "", ""),
        "no-time": ("COMPLETED_SUCCESSFULLY", "1", "0", "0", ""),
    }
    sizes = {row["job_id"]: row["requested_number_of_resources"] for row in rows_of(table)}
    assert (sizes["killed"], sizes["never"], sizes["waits"]) == ("1.5", "9", "9")
    assert {row["job_id"]: row["requested_time"] for row in rows_of(table)}["limited"] == "7"
    measures = answer["measures"]
    assert (measures["ended"], measures["never_ran"], measures["unfinished"]) == (4, 1, 2)
    assert measures["bounded_slowdown"]["highest"] == 1


EVICTED = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: owed, resources: {guaranteed: {vcore: "1"}}},
    {name: rich}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: rich, queue: root.rich}
- {op: add_ask, app: rich, ask: x, resources: {vcore: 2}, run_for: 100}
- {op: add_app, app: owed, queue: root.owed, at: 40}
- {op: add_ask, app: owed, ask: x, resources: {vcore: 1}, run_for: 20}
"""


# COMMAND-36: a run that was lost counts as wait
def test_an_eviction_counts_as_wait(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    answer = run_json("replay", "-", "--jobs", table, stdin=EVICTED)[1]
    rich, owed = rows_of(table)

    released_s = float(owed["starting_time"])
    assert answer["queues"][1]["lost"]["reclaimed"]["runs"] == 1
    assert float(rich["starting_time"]) == float(owed["finish_time"]) == released_s + 20
    assert (float(rich["waiting_time"]), float(rich["execution_time"])) == (released_s + 20, 100)
    weighted = answer["measures"]["weighted_wait_s"]["vcore"]
    waited = float(owed["waiting_time"])
    assert weighted == pytest.approx((200 * (released_s + 20) + 20 * waited) / 220)


GANG = """\
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: before, queue: root.a}
- {op: add_ask, app: before, ask: x, resources: {vcore: 1}, run_for: 30}
- {op: add_app, app: gang, queue: root.a}
- {op: add_gang, gang: g, min_member: 2, wait_time: 1h}
- {op: add_ask, app: gang, ask: long, gang: g, resources: {vcore: 1}, run_for: 50}
- {op: add_ask, app: gang, ask: short, gang: g, resources: {vcore: 1}, run_for: 10}
"""


# COMMAND-36: a gang starts when all of it runs, and ends with its last member
async def test_a_gang_is_one_job() -> None:
    tally = await tally_of(GANG)
    measures = tally.summary().measures

    assert measures.by_size.keys() == {"1", "2-4"}
    assert measures.by_size["2-4"].wait == WaitSummary(1, 30, 30, 30, 30)
    assert measures.by_size["2-4"].bounded_slowdown.mean == 80 / 50
    # What a member held while it waited for the other one is no part of its run.
    assert measures.weighted_wait_s == {"vcore": 60 * 30 / 90}


async def test_a_job_that_comes_back_after_its_end_is_the_same_job() -> None:
    more = "- {op: add_ask, at: 155, app: late, ask: y, resources: {vcore: 1}, run_for: 5}\n"
    again = "- {op: add_app, at: 300, app: late, queue: root.b}\n"
    another = "- {op: add_ask, at: 300, app: late, ask: x, resources: {vcore: 1}, run_for: 5}\n"
    tally = await tally_of(JOBS + more + again + another)
    measures = tally.summary().measures

    # It ran from 100 s to 140 s, and from 155 s until 160 s; then there is a new one.
    assert measures.ended == 4
    assert measures.by_size["2-4"].bounded_slowdown.mean == (160 - 80) / 60
    assert measures.by_user[""].wait.count == 2


async def test_without_a_job_there_are_no_measures() -> None:
    summary = (await tally_of(NODES)).summary()

    assert summary.makespan_s is None
    assert summary.utilisation_to_last_arrival == {}
    assert summary.measures.wait == WaitSummary(0)
    assert summary.measures.bounded_slowdown.mean is None
    assert summary.measures.by_size == {}
    assert (await tally_of("[]")).summary().measures.size_resource is None


# COMMAND-36: the size is of the type of which most is used, and memory only without another
@pytest.mark.parametrize(
    ("capacity", "wanted", "resource", "size"),
    [
        ("vcore: 8, gpu: 4", "vcore: 2, gpu: 3", "gpu", "2-4"),
        ("vcore: 8, gpu: 4", "vcore: 5, gpu: 1", "vcore", "5-16"),
        ("vcore: 8, memory: 10Gi", "vcore: 1, memory: 10Gi", "vcore", "1"),
        ("memory: 10Gi", "memory: 1025Mi", "memory", "2-4"),
        ("vcore: 200", "vcore: 64", "vcore", "17-64"),
        ("vcore: 200", "vcore: 64001m", "vcore", "65-256"),
    ],
)
async def test_sizes(capacity: str, wanted: str, resource: str, size: str) -> None:
    feed = f"""\
- {{op: add_node, node: n, capacity: {{{capacity}}}}}
- {{op: add_app, app: a, queue: root.q}}
- {{op: add_ask, app: a, ask: x, resources: {{{wanted}}}, run_for: 10}}
"""
    measures = (await tally_of(feed)).summary().measures

    assert measures.size_resource == resource
    assert [*measures.by_size] == [size]


# COMMAND-36, COMMAND-16: what had run before the replay begins is in no figure
def test_jobs_that_had_run_before_do_not_count(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    answer = run_json("replay", "-", "--start", "50", "--jobs", table, stdin=JOBS)[1]

    assert [row["job_id"] for row in rows_of(table)] == ["short", "late"]
    assert rows_of(table)[0]["waiting_time"] == "90"
    assert (answer["measures"]["ended"], answer["makespan_s"]) == (2, 90)


# COMMAND-37
@pytest.mark.parametrize("name", ["jobs.swf", "jobs.swf.gz"])
def test_the_standard_workload_format(tmp_path: Path, name: str) -> None:

    table = tmp_path / name

    assert run("replay", "-", "--jobs", table, stdin=JOBS).exit_code == 0
    raw = table.read_bytes()
    lines = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode().splitlines()
    assert [line for line in lines if not line.startswith(";")] == [
        "1 0 0 100 8 -1 -1 8 120 -1 1 1 -1 -1 1 -1 -1 -1",
        "2 10 90 5 1 -1 1048576 1 -1 1048576 1 2 -1 -1 2 -1 -1 -1",
        "3 80 20 40 2 -1 -1 2 -1 -1 1 -1 -1 -1 2 -1 -1 -1",
    ]
    assert lines[:7] == [
        "; Version: 2.2",
        "; MaxJobs: 3",
        "; MaxRecords: 3",
        "; MaxNodes: 2",
        "; MaxProcs: 8",
        "; Queue: 1 a",
        "; Queue: 2 b",
    ]


# COMMAND-37: what is written can be read, and makes the same jobs
def test_a_table_in_swf_can_be_imported(tmp_path: Path) -> None:
    log, feed, again = (tmp_path / name for name in ("a.swf", "feed.jsonl", "b.swf"))

    assert run("replay", "-", "--jobs", log, stdin=JOBS).exit_code == 0
    assert run("import", "swf", log, "-o", feed).exit_code == 0
    assert run("replay", feed, "--jobs", again).exit_code == 0

    def fields(table: Path) -> list[list[str]]:
        lines = table.read_text().splitlines()
        return [line.split()[:5] for line in lines if not line.startswith(";")]

    assert fields(log) == fields(again)


def test_the_status_of_jobs_in_swf(tmp_path: Path) -> None:
    table = tmp_path / "jobs.swf"
    run("replay", "-", "--jobs", table, stdin=ENDS)
    rows = [line.split() for line in table.read_text().splitlines() if not line.startswith(";")]

    assert [(row[2], row[3], row[10]) for row in rows] == [
        *(("0", "5", "0"), ("0", "7", "0"), ("0", "6", "5"), ("8", "-1", "5")),
        *(("-1", "-1", "-1"), ("0", "-1", "-1"), ("0", "0", "1")),
    ]


# COMMAND-37: the table may go to standard output, and is no other file
def test_where_the_table_goes(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", JOBS)
    shown = run("replay", feed, "--jobs", "-")

    assert shown.stdout.splitlines()[0].startswith("job_id,workload_name,submission_time,")
    assert "makespan" in shown.stderr
    assert run("replay", feed, "--jobs", feed).exit_code == 2
    assert (
        "cannot both be standard output"
        in run("replay", feed, "--jobs", "-", "--report", "-").stderr
    )
    assert feed.read_text() == JOBS


# COMMAND-36: both sides, and the second minus the first
def test_compare_has_the_measures(tmp_path: Path) -> None:
    one = written(tmp_path / "one.yaml", JOBS)
    two = written(tmp_path / "two.yaml", JOBS.replace("run_for: 100", "run_for: 150"))
    compared = run_json("compare", one, two)[1]["all"]

    assert compared["a"]["measures"] == run_json("replay", one)[1]["measures"]
    assert compared["b"]["measures"] == run_json("replay", two)[1]["measures"]
    difference = compared["difference"]["measures"]
    assert difference["wait"]["longest_s"] == 50
    assert difference["by_user"]["bob"]["wait"]["mean_s"] == 50
    assert difference["size_resource"] is None
    assert compared["difference"]["utilisation_to_last_arrival"]["vcore"] == 0

    text = run("compare", one, two).stdout
    assert "bounded slowdown" in text
    assert "jobs by vcore" in text
    assert "jobs by user" in text


def test_a_report_has_the_measures(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    run("replay", "-", "--report", report, stdin=JOBS)
    page = report.read_text()

    assert '<section id="jobs">' in page
    assert '<td data-l="by vcore">5-16</td><td data-l="jobs">1</td>' in page
    assert "Makespan: 2 min 20 s." in page


# Anew, from decisions and snapshots


class Turn(NamedTuple):
    """An ask is bound, or released for a reason."""

    at_us: int
    ask: str
    reason: Reason | None


@attrs.define(eq=False)
class Story:
    """What the log says of one application."""

    name: str
    queue: str
    came_us: int
    turns: list[Turn] = attrs.field(factory=list[Turn])
    is_over: bool = True

    def walk(self) -> Iterator[tuple[Turn, set[str], bool]]:
        """Yield each turn, the asks bound before it, and whether one has completed."""
        bound, has_completed = set[str](), False
        for turn in self.turns:
            yield turn, set(bound), has_completed
            has_completed |= turn.reason is Reason.COMPLETED
            (bound.add if turn.reason is None else bound.discard)(turn.ask)

    def start_us(self) -> int | None:
        starts = [
            turn.at_us
            for turn, bound, has_completed in self.walk()
            if turn.reason is None and not bound and not has_completed
        ]
        return starts[-1] if starts else None

    def end_us(self) -> int:
        return [turn.at_us for turn, bound, _ in self.walk() if turn.reason and turn.ask in bound][
            -1
        ]

    @property
    def was_released(self) -> bool:
        return any(turn.reason for turn in self.turns)


class Span(NamedTuple):
    """A time without a change: what applications held bound, all held, and nodes had."""

    begin_us: int
    end_us: int
    apps: Mapping[str, Mapping[str, int]]
    held: Mapping[str, int]
    there: Mapping[str, int]


@attrs.define
class RecomputedMeasures:
    """All that happened in a replay."""

    stories: list[Story] = attrs.field(factory=list[Story])
    spans: list[Span] = attrs.field(factory=list[Span])
    log: list[Announced] = attrs.field(factory=list[Announced])


def anew(feed: Sequence[FeedItem], end_us: int) -> RecomputedMeasures:
    found, scheduler, items = RecomputedMeasures(), PlainScheduler(), deque(feed)
    latest: dict[str, Story] = {}
    now_us = 0
    while True:
        due_us = scheduler.machine.next_deadline_us()
        coming = ([items[0].at_us] if items else []) + ([] if due_us is None else [due_us])
        if scheduler.machine.batches:
            found.spans.append(span_of(scheduler, now_us, min([*coming, end_us])))
        if not coming:
            break
        now_us = min(coming)
        while items and items[0].at_us == now_us:
            submit_item_directly(scheduler, items.popleft())
        scheduler.pass_until(now_us)
        for one in scheduler.announced:
            _tell(found, latest, one)
        scheduler.announced = []
    alive = {app.name for app in scheduler.snapshot().apps.values() if app.asks}
    for name, story in latest.items():
        story.is_over = name not in alive and story.was_released
    return found


def span_of(scheduler: PlainScheduler, begin_us: int, end_us: int) -> Span:
    snapshot = scheduler.snapshot()
    apps: dict[str, dict[str, int]] = {}
    held: dict[str, int] = defaultdict(int)
    there: dict[str, int] = defaultdict(int)
    for app in snapshot.apps.values():
        own = apps.setdefault(app.name, defaultdict(int))
        for ask in app.asks:
            for kind, amount in ask.resources.items():
                if ask.place in {AskPlace.BOUND, AskPlace.WAITING}:
                    held[kind] += amount
                if ask.place is AskPlace.BOUND:
                    own[kind] += amount
    for node in snapshot.nodes.values():
        for kind, amount in node.capacity.items():
            there[kind] += amount
    return Span(begin_us, end_us, apps, held, there)


def _tell(found: RecomputedMeasures, latest: dict[str, Story], one: Announced) -> None:
    decision = one.decision
    found.log.append(one)
    app = decision.app
    if app is None:
        return
    if decision.kind is Kind.APP_STATE and decision.state == "New":
        latest[app] = Story(app, decision.queue or "", one.at_us)
        found.stories.append(latest[app])
    elif decision.ask is not None and decision.kind in {Kind.BOUND, Kind.RELEASED}:
        latest[app].turns.append(Turn(one.at_us, decision.ask, decision.reason))


def middle_and_mean(values: Sequence[float]) -> tuple[object, object]:
    return (median(values), pytest.approx(fmean(values))) if values else (None, None)


def check_group(group: JobGroup, jobs: Sequence[tuple[Story, int, int]]) -> None:
    waits = [(start - story.came_us) / S for story, start, _ in jobs]
    runs = [(end - start) / S for _, start, end in jobs]
    slowdowns = [
        max(1.0, (wait + ran) / max(ran, 10.0)) for wait, ran in zip(waits, runs, strict=True)
    ]
    assert group.wait.count == len(jobs)
    assert (group.wait.median_s, group.wait.mean_s) == middle_and_mean(waits)
    slowdown = group.bounded_slowdown
    assert slowdown.mean == middle_and_mean(slowdowns)[1]
    assert slowdown.median == (pytest.approx(median(slowdowns)) if slowdowns else None)
    assert slowdown.highest == (pytest.approx(max(slowdowns)) if slowdowns else None)


def check_weighted(
    found: RecomputedMeasures, measures: JobMeasures, jobs: Sequence[tuple[Story, int, int]]
) -> None:
    areas: dict[str, int] = defaultdict(int)
    waited: dict[str, int] = defaultdict(int)
    for story, start, end in jobs:
        for span in found.spans:
            for_us = span.end_us - span.begin_us
            if start <= span.begin_us < end:
                for kind, amount in span.apps.get(story.name, {}).items():
                    areas[kind] += amount * for_us
                    waited[kind] += amount * for_us * (start - story.came_us)
    assert measures.weighted_wait_s == {
        kind: pytest.approx(waited[kind] / area / S) for kind, area in areas.items() if area
    }


def check_until_arrival(
    found: RecomputedMeasures, feed: Sequence[FeedItem], summary: Summary
) -> None:
    refused = {one.decision.index for one in found.log if one.decision.kind is Kind.REJECTED}
    came = [
        item.at_us
        for item in feed
        if isinstance(item.content, AddAsk) and item.index not in refused
    ]
    held: dict[str, int] = defaultdict(int)
    there: dict[str, int] = defaultdict(int)
    for span in found.spans:
        for_us = max(0, min(span.end_us, max(came, default=0)) - span.begin_us)
        for sums, amounts in ((held, span.held), (there, span.there)):
            for kind, amount in amounts.items():
                sums[kind] += amount * for_us
    shares = {k: v for k, v in summary.utilisation_to_last_arrival.items() if v is not None}
    assert shares == {
        kind: pytest.approx(float(Fraction(held[kind], area)))
        for kind, area in there.items()
        if area
    }


# COMMAND-36
@share(0.5)
@given(st.one_of(scenarios(), gang_scenarios(), evictions(), once()))
async def test_the_measures_are_those_of_a_plain_count(scenario: Scenario) -> None:
    feed = of_scenario(scenario)
    tally = Tally(keeps_jobs=True)
    await replay(feed, tally=tally)
    summary, found = tally.summary(), anew(feed, tally.at_us)
    measures = summary.measures

    over = [story for story in found.stories if story.is_over]
    ran = [
        (story, start, story.end_us()) for story in over if (start := story.start_us()) is not None
    ]
    assert measures.ended == len(ran)
    assert measures.never_ran == sum(
        story.start_us() is None and story.was_released for story in over
    )
    assert measures.unfinished == len(found.stories) - len(over)
    check_group(JobGroup(measures.wait, measures.bounded_slowdown), ran)
    queues = {story.queue for story, *_ in ran}
    assert measures.by_queue.keys() == queues
    for queue in queues:
        check_group(measures.by_queue[queue], [job for job in ran if job[0].queue == queue])
    check_weighted(found, measures, ran)
    # Whether a Pod is new or changes, only the decisions on it tell.
    if not any(isinstance(item.content, Apply) for item in feed):
        check_until_arrival(found, feed, summary)
    assert summary == attrs.evolve(tally.summary(), real_s=summary.real_s)
    waits = [job.wait_us or 0 for job in tally.table("f", None).jobs if job.run_us is not None]
    assert sorted(waits) == sorted(start - story.came_us for story, start, _ in ran)
