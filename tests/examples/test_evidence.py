"""The evidence: each start of FCFS and EASY is that of a plain simulator, and a check that fails
says where.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from examples.evidence import loads, named, plain
from examples.evidence.__main__ import of_starts, verdict
from examples.evidence.logs import Log, synthetic, week, whole_nodes
from examples.evidence.named import NamedNodes
from examples.evidence.plain import Job, Machine, Policy, read, simulate, write
from examples.evidence.starts import Difference, Trial, compare, differences, trials
from muster.cli._main import muster

POLICIES: tuple[Policy, ...] = ("fcfs", "easy")


def call_directly(*words: object) -> None:
    """Run a command of Muster in this process."""
    assert words[:2] == ("-m", "muster")
    result = CliRunner().invoke(muster, [str(word) for word in words[2:]])
    assert result.exit_code == 0, result.output


# On four processors. For all anybody knows job 1 has two of them until 10, and job 2 then needs all
# four. Job 3 would end at 11 and waits for it; job 4 ends at 10 at the latest, and passes.
SMALL = [
    Job(1, 0, 2, 8, 10),
    Job(2, 1, 4, 5, 5),
    Job(3, 2, 1, 9, 9),
    Job(4, 3, 2, 4, 7),
    Job(5, 8, 4, 1, 1),
]


@pytest.mark.parametrize(
    ("policy", "starts"),
    [
        ("fcfs", {1: 0, 2: 8, 3: 13, 4: 13, 5: 22}),
        ("easy", {1: 0, 4: 3, 2: 8, 3: 13, 5: 22}),
    ],
)
def test_the_plain_simulator(policy: Policy, starts: dict[int, int]) -> None:
    assert simulate(SMALL, Machine(policy, 4)) == starts
    assert simulate(SMALL, NamedNodes(policy, 4)) == starts


def test_a_job_that_needs_more_than_there_is_is_an_error() -> None:
    for policy in POLICIES:
        with pytest.raises(ValueError, match="job 2 needs more processors than there are"):
            simulate([SMALL[0], Job(2, 1, 5, 1, 1)], Machine(policy, 4))


def test_who_runs_beyond_the_start_is_on_other_nodes() -> None:
    """At 10 three of four nodes are empty and job 4 needs two: in a pool one is left over.

    By name the first two are reserved, and node 0 is the only one that is empty now.
    """
    jobs = [Job(1, 0, 1, 5, 5), Job(2, 0, 1, 20, 20), Job(3, 0, 2, 10, 10)]
    jobs += [Job(4, 1, 2, 5, 5), Job(5, 6, 1, 30, 30)]

    assert simulate(jobs, Machine("easy", 4))[5] == 6
    assert simulate(jobs, NamedNodes("easy", 4))[5] == 10


@pytest.mark.parametrize("module", [plain, named])
def test_the_plain_simulator_has_nothing_of_muster(module: object) -> None:
    path = Path(str(getattr(module, "__file__", "")))
    names = [
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            node.module or "" if isinstance(node, ast.ImportFrom) else "",
            *(alias.name for alias in node.names),
        )
    ]

    assert not [name for name in names if name.startswith("muster")]


def test_a_log_is_read_as_it_was_written() -> None:
    assert read(write(SMALL, 4, "none")) == (SMALL, {"MaxProcs": 4})


@pytest.mark.parametrize("policy", POLICIES)
def test_each_start_of_a_week(policy: Policy) -> None:
    outcome = compare(Trial(week(), policy), call=call_directly)

    assert outcome.differences == []
    assert (outcome.jobs, outcome.plain) == (391, 0)
    assert outcome.waited > 300
    assert (outcome.passed > 300) is (policy == "easy")


def test_each_start_on_whole_nodes() -> None:
    """With names all agree; in a pool, whose processors have none, many start at other times."""
    outcome = compare(
        Trial(whole_nodes(week(), 16), "easy", per_node=1, has_names=True), call=call_directly
    )

    assert outcome.differences == []
    assert outcome.plain == 235


@st.composite
def small_trials(draw: st.DrawFn) -> Trial:
    """A few jobs on few processors; some run for longer than they requested."""
    processors = draw(st.integers(1, 6))
    at, jobs = 0, list[Job]()
    for number in range(1, draw(st.integers(1, 14)) + 1):
        at += draw(st.sampled_from([0, 0, 1, 10, 100, 250]))
        run = draw(st.sampled_from([1, 10, 30, 100, 270, 300, 301, 700]))
        requested = draw(st.sampled_from([run, run, 2 * run, 3 * run, max(1, run // 3)]))
        jobs.append(Job(number, at, draw(st.integers(1, processors)), run, requested))
    per_node, policy = draw(st.sampled_from([None, 1])), draw(st.sampled_from(POLICIES))
    log = Log("small", processors, jobs)
    return Trial(log, policy, per_node, has_names=per_node is not None, has_states=True)


@given(small_trials())
def test_each_start_of_small_logs(trial: Trial) -> None:
    assert compare(trial, call=call_directly).differences == []


@pytest.mark.takes_long
@settings(max_examples=1000)
@given(small_trials())
def test_each_start_of_many_small_logs(trial: Trial) -> None:
    assert compare(trial, call=call_directly).differences == []


@pytest.mark.takes_long
@pytest.mark.parametrize("place", range(15))
def test_each_start_of_long_logs(place: int) -> None:
    chosen = list(trials())
    assert len(chosen) == 15

    assert compare(chosen[place]).differences == []


def test_one_altered_start_fails_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    trial = Trial(Log("small", 4, SMALL), "easy")
    outcome = compare(trial, altered={3: 14}, call=call_directly)

    assert outcome.differences == [Difference(3, 13, 14)]
    assert verdict([of_starts(trial, outcome)]) == 1
    output = capsys.readouterr().out
    assert "small, EASY: job 3: expected to start at 13 s, found at 14 s" in output
    assert "1 differ  DIFFERS" in output


def test_claims_that_hold_are_no_failure() -> None:
    trial = Trial(Log("small", 4, SMALL), "easy")

    assert verdict([of_starts(trial, compare(trial, call=call_directly))]) == 0


def test_a_job_that_never_starts_is_a_difference() -> None:
    assert [str(one) for one in differences({1: 5, 2: 3}, {1: 5, 3: 2})] == [
        "job 3: expected to start never, found at 2 s",
        "job 2: expected to start at 3 s, found never",
    ]


def test_a_made_log_is_the_same_each_time() -> None:
    log = synthetic(200)

    assert log == synthetic(200)
    assert log != synthetic(200, seed=1)
    assert all(job.run <= job.requested for job in log.jobs)
    assert any(job.run > job.requested for job in synthetic(200, are_ended=False).jobs)


def test_the_loads_of_others_have_their_size() -> None:
    asks = [
        [one for one in loads.kueue(shape) if one["op"] == "add_ask"]
        for shape in (loads.BASELINE, loads.LARGE)
    ]
    nodes = [one for one in loads.yunikorn(4_000) if one["op"] == "add_node"]

    assert [len(some) for some in asks] == [15_000, 50_000]
    assert len(nodes) == 4_000


@pytest.mark.takes_long
def test_the_load_of_kueue() -> None:
    """Its work fills all quotas for 66 seconds."""
    run = loads.replay(loads.kueue(loads.BASELINE))

    assert len(run.bound) == 15_000
    assert 66 < run.end_s < 68
    waits_s = loads.mean_waits_s(loads.BASELINE, run)
    assert waits_s["large"] < waits_s["medium"] < waits_s["small"]
