"""The examples with traces: examples/openb and examples/philly say what they should, and what was
published.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner

from examples.philly.backfill import ESTIMATES, Trial, replay
from examples.philly.demo import WIDE
from muster.cli._main import muster
from muster.feeds import Expect, RawEvent, Refused, Settle, parse
from muster_core.coordinator.plain_scheduler import PlainScheduler

OPENB = Path(__file__).parents[2] / "examples" / "openb"


@pytest.fixture(scope="module")
def openb() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(OPENB / "openb.py")))


def test_the_pods_ask_for_as_much_as_was_meant(openb: SimpleNamespace) -> None:
    pods, there = openb.read_pods(), openb.total_milli()
    assert (len(pods), there) == (8152, 6_212_000)
    drawn = openb.in_random_order(pods, 1.3 * there, 1)
    requested = sum(pod.total_milli for pod in drawn)
    assert 1.3 * there - 8000 < requested <= 1.3 * there
    assert drawn == openb.in_random_order(pods, 1.3 * there, 1)
    assert drawn != openb.in_random_order(pods, 1.3 * there, 2)


def test_every_event_of_a_feed_is_let_in(openb: SimpleNamespace) -> None:
    events = list(openb.events("fgd", 1))
    first = [one for one in events if one["op"] != "add_ask"]
    some = [one for one in events if one["op"] == "add_ask"][:200]
    scheduler = PlainScheduler()
    for item in parse(RawEvent(at, None, one) for at, one in enumerate(first + some)):
        assert not isinstance(item.content, (Settle, Expect, Refused))
        scheduler.submit(item.content)
    scheduler.settle()
    snapshot = scheduler.snapshot()
    asks = {ask.name: ask for ask in snapshot.apps["pods"].asks}
    assert len(asks) == len(some)
    for one in some:
        held = asks[one["ask"]].devices.get("gpu", ())
        need = one.get("devices", {}).get("gpu", {})
        assert len(held) == (need.get("count", 1) if need else 0)
        assert isinstance(asks[one["ask"]].node, str)


@pytest.mark.takes_long
def test_backfill_of_a_real_cluster(tmp_path: Path) -> None:
    """The figures are those of the contract, from a simulator of its own."""
    found = replay(Trial(WIDE, "backfill"), tmp_path)

    assert found.mean_s == pytest.approx(8_752.2, abs=0.05)
    assert found.wide_s == 119_166


def test_estimates() -> None:
    assert {
        name: [estimate(run_s) for run_s in (1, 3600, 3601)] for name, estimate in ESTIMATES.items()
    } == {
        "exact": [1, 3600, 3601],
        "twice as long": [2, 7200, 7202],
        "whole hours": [3600, 3600, 7200],
    }


PHILLY = Path(__file__).parents[2] / "examples" / "philly"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    feed = str(tmp_path_factory.mktemp("philly") / "feed.jsonl.gz")
    words = ["import", "csv", str(PHILLY / "jobs-2869ce.csv"), "-o", feed]
    words += ["--mapping", str(PHILLY / "philly.yaml"), "--nodes", "16x nvidia.com/gpu=8"]
    assert CliRunner().invoke(muster, words).exit_code == 0
    configs = [str(PHILLY / name) for name in ("fifo.yaml", "sjf.yaml")]
    words = ["--config", configs[0], "--config", configs[1], "--format", "json"]
    result = CliRunner().invoke(muster, ["compare", feed, *words])
    assert result.exit_code == 1
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.takes_long
def test_mean_waits_of_jobs_are_the_published_delays(compared: dict[str, Any]) -> None:
    means = [compared["all"][side]["job_wait"]["mean_s"] for side in ("a", "b")]

    assert [int(mean) for mean in means] == [21171, 7344]


@pytest.mark.takes_long
def test_every_job_is_bound_on_both_sides(compared: dict[str, Any]) -> None:
    jobs = compared["jobs"]

    assert (jobs["compared"], jobs["only_a"], jobs["only_b"]) == (747, 0, 0)
    assert compared["all"]["a"]["job_wait"]["count"] == 747
    assert compared["all"]["difference"]["asks_bound"] == 0
    assert len(jobs["wait"]["most_gained"]) == len(jobs["wait"]["most_lost"]) == 10


@pytest.mark.takes_long
def test_the_first_difference_is_a_job_that_is_blocked_in_order(compared: dict[str, Any]) -> None:
    first = compared["first"]

    assert first["a"] is None
    assert first["b"]["elsewhere"]["place"] == "pending"
    assert first["b"]["elsewhere"]["reasons"][0].startswith("Blocked: ")


@pytest.mark.takes_long
def test_many_priorities_share_ten_rows(compared: dict[str, Any]) -> None:
    rows = compared["priorities"]
    bounds = [row["a"]["asks_bound"] for row in rows]

    assert len(rows) == 10
    assert sum(bounds) == compared["all"]["a"]["asks_bound"] == 951
    assert max(bounds) - min(bounds) <= 5


TABLE = "job_id,submit_s,gpus,duration_s\na,10,16,5\nb,12,9,5\nc,13,8,5\n"
WHOLE = [("a", 10), ("a", 10), ("b", 20), ("b", 20), ("c", 13.5)]


@pytest.fixture(scope="module")
def demo() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(PHILLY / "demo.py")))


@pytest.fixture
def delays_of(demo: SimpleNamespace, tmp_path: Path) -> Callable[..., list[float]]:
    """Read the delays of the jobs of ``TABLE`` that a log of ``bound`` decisions gives."""

    def read(ran: list[tuple[str, float]], **more: object) -> list[float]:
        table, log = tmp_path / "jobs.csv", tmp_path / "decisions.jsonl"
        table.write_text(TABLE, encoding="utf-8")
        decisions: list[Mapping[str, object]] = [
            {"kind": "bound", "app": app, "at": at} | more for app, at in ran
        ]
        log.write_text("\n".join(map(json.dumps, decisions)), encoding="utf-8")
        return list(demo.read_delays(demo.read_jobs(table), log))

    return read


def test_the_delay_of_a_gang_is_that_of_its_members(
    delays_of: Callable[..., list[float]],
) -> None:
    assert delays_of(WHOLE) == [0, 8, 0.5]


@pytest.mark.parametrize(
    ("ran", "message"),
    [
        (WHOLE[1:], r"job a of 2 members: bound at \[10\]"),
        ([*WHOLE[:3], ("b", 21), WHOLE[4]], r"job b of 2 members: bound at \[20, 21\]"),
        ([*WHOLE, ("c", 30)], r"job c of 1 members: bound at \[13.5, 30\]"),
        (WHOLE[:4], r"job c of 1 members: bound at \[\]"),
        ([*WHOLE, ("d", 1)], "d is no job of the table"),
    ],
)
def test_a_job_runs_once_whole_and_at_once(
    delays_of: Callable[..., list[float]], ran: list[tuple[str, float]], message: str
) -> None:
    with pytest.raises(click.ClickException, match=message):
        delays_of(ran)


def test_a_refusal_is_an_error(delays_of: Callable[..., list[float]]) -> None:
    with pytest.raises(click.ClickException, match="not expected here"):
        delays_of(WHOLE, kind="rejected")


@pytest.mark.parametrize(
    ("delays_s", "holds"), [([7, 8], True), ([7.9], True), ([6.9], False), ([8], False)]
)
def test_the_average_is_cut_off_like_the_published_one(
    demo: SimpleNamespace, delays_s: list[float], holds: bool
) -> None:
    experiment = demo.Experiment(demo.WIDE, "FIFO", published_s=7)

    outcome = demo.Outcome(experiment, delays_s, gangs=0, took_s=1)

    assert cast(bool, outcome.holds) is holds


def test_every_experiment_has_its_files(demo: SimpleNamespace) -> None:
    assert len(demo.EXPERIMENTS) == 4
    assert all(one.cluster.jobs.is_file() for one in demo.EXPERIMENTS)
    assert all(one.config.is_file() for one in demo.EXPERIMENTS)
