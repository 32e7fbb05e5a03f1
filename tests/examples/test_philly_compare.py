"""examples/philly: what the comparison of both policies says is what was published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from muster.cli._main import muster

pytestmark = pytest.mark.takes_long

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
    given: dict[str, Any] = json.loads(result.stdout)
    return given


def test_mean_waits_of_jobs_are_the_published_delays(compared: dict[str, Any]) -> None:
    means = [compared["all"][side]["job_wait"]["mean_s"] for side in ("a", "b")]

    assert [int(mean) for mean in means] == [21171, 7344]


def test_every_job_is_bound_on_both_sides(compared: dict[str, Any]) -> None:
    jobs = compared["jobs"]

    assert (jobs["compared"], jobs["only_a"], jobs["only_b"]) == (747, 0, 0)
    assert compared["all"]["a"]["job_wait"]["count"] == 747
    assert compared["all"]["difference"]["asks_bound"] == 0
    assert len(jobs["wait"]["most_gained"]) == len(jobs["wait"]["most_lost"]) == 10


def test_the_first_difference_is_a_job_that_is_blocked_in_order(compared: dict[str, Any]) -> None:
    first = compared["first"]

    assert first["a"] is None
    assert first["b"]["elsewhere"]["place"] == "pending"
    assert first["b"]["elsewhere"]["reasons"][0].startswith("Blocked: ")


def test_many_priorities_share_ten_rows(compared: dict[str, Any]) -> None:
    rows = compared["priorities"]
    bounds = [row["a"]["asks_bound"] for row in rows]

    assert len(rows) == 10
    assert sum(bounds) == compared["all"]["a"]["asks_bound"] == 951
    assert max(bounds) - min(bounds) <= 5
