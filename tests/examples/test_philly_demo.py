"""examples/philly/demo.py: what it reads from a decision log, and when a figure holds."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest

PHILLY = Path(__file__).parents[2] / "examples" / "philly"
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
