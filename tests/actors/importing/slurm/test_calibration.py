"""``muster import slurm --calibrate``: how far the starts of a replay are from those of sacct."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.actors.cli.helpers import run, run_json, written
from tests.actors.importing.slurm.helpers import dump_of, row

_DAY = "2026-01-31T"
_NODE = "1x vcore=4,memory=16Gi"


def _job(number: int, submit: str, start: str, run_s: int, **values: str) -> dict[str, str]:
    """Return a job that wants the whole node."""
    fields = {
        "Submit": _DAY + submit,
        "Eligible": _DAY + submit,
        "Start": _DAY + start if ":" in start else start,
        "End": "",
        "ElapsedRaw": str(run_s),
        "ReqTRES": "cpu=4,mem=4G,node=1",
    }
    return row(number, **(fields | values))


# The replay starts job 1 at 10:00:00, job 2 at 10:01:40, and job 3 at 10:02:40.
_JOBS = (
    _job(1, "10:00:00", "10:00:05", 100),
    _job(2, "10:00:00", "10:02:00", 60),
    _job(3, "10:00:10", "10:00:30", 100),
)


def _calibrated(folder: Path, *rows: dict[str, str], options: tuple[object, ...] = ()) -> Any:  # noqa: ANN401 - JSON
    """Import jobs, and return the calibration as JSON."""
    dump = written(folder / "sacct.txt", dump_of(*rows))
    words = [option if isinstance(option, Path) else str(option) for option in options]
    status, summary = run_json(
        "import",
        "slurm",
        dump,
        "--nodes",
        _NODE,
        "-o",
        folder / "feed.jsonl",
        "--calibrate",
        *words,
    )
    assert status == 0, summary
    return summary["calibration"]


# IMPORT-22: Calibration
def test_the_starts_are_compared_with_those_of_sacct(tmp_path: Path) -> None:
    found = _calibrated(tmp_path, *_JOBS)
    everything = found["all"]
    assert (found["jobs"], found["compared"]) == (3, 3)
    # 5 s and 20 s earlier, 130 s later.
    assert everything["apart"]["median_s"] == 20
    assert everything["apart"]["p95_s"] == 130
    assert everything["real_wait"]["mean_s"] == pytest.approx((5 + 120 + 20) / 3)
    assert everything["replayed_wait"]["mean_s"] == pytest.approx((0 + 100 + 150) / 3)
    assert everything["within"] == {"1 min": pytest.approx(2 / 3), "10 min": 1, "1 h": 1}
    # The last job ends at 10:03:00, and in the replay at 10:04:20.
    assert found["makespan_s"] == {"real": 180, "replayed": 260}
    real = 4 * (100 + 60 + 100) / (4 * 180)
    replayed = 4 * (100 + 60 + 20) / (4 * 180)
    assert found["used"]["vcore"] == {
        "real": pytest.approx(real),
        "replayed": pytest.approx(replayed),
    }


# IMPORT-24: What holds a job
def test_the_jobs_furthest_apart_say_what_held_them(tmp_path: Path) -> None:
    late, early, first = _calibrated(tmp_path, *_JOBS)["most_apart"]
    assert (late["app"], late["ask"], late["queue"]) == ("3", "task", "root.phys")
    assert (late["real_start"], late["replayed_start"]) == (
        "2026-01-31T10:00:30Z",
        "2026-01-31T10:02:40Z",
    )
    assert late["late_s"] == 130
    assert late["held_at"] == "2026-01-31T10:00:31Z"
    assert late["held_by"].startswith("NoNodeFits: ")
    assert (early["app"], early["late_s"], early["held_by"]) == ("2", -20, None)
    assert (first["app"], first["late_s"]) == ("1", -5)


# IMPORT-22
def test_a_job_without_a_start_is_no_start(tmp_path: Path) -> None:
    found = _calibrated(
        tmp_path,
        *_JOBS,
        _job(4, "10:20:00", "Unknown", 10),
        _job(5, "10:20:00", "None", 0, State="CANCELLED by 3001"),
        # sacct may show as its start when it ended.
        _job(7, "10:20:00", "10:30:00", 0, State="DEADLINE"),
        _job(8, "10:20:00", "10:30:00", 0, State="CANCELLED by 3001"),
        # It really ran, but fits no node of the feed.
        _job(6, "10:20:00", "10:20:00", 10, ReqTRES="cpu=8,mem=4G,node=1"),
    )
    assert found["jobs"] == 5
    assert found["compared"] == 3
    assert found["without_real_start"] == 1
    assert found["not_started_in_replay"] == 1
    assert found["all"]["apart"]["count"] == 3


# IMPORT-22
def test_the_tasks_of_an_array_and_the_members_of_a_gang(tmp_path: Path) -> None:
    two = "cpu=4,mem=4G,node=2"
    found = _calibrated(
        tmp_path,
        _job(1, "10:00:00", "10:00:00", 100, JobID="7_0", Partition="a"),
        _job(1, "10:00:00", "10:02:00", 100, JobID="7_1", Partition="a"),
        # Its two members fit beside each other: it starts when both are bound.
        _job(8, "10:10:00", "10:10:30", 50, ReqTRES=two, NNodes="2", Partition="b"),
        _job(9, "10:10:00", "10:10:30", 50, ReqTRES="cpu=3,node=2", NNodes="2", Partition="b"),
    )
    assert found["compared"] == 4
    assert found["partitions"]["a"]["jobs"] == 2
    assert found["partitions"]["a"]["apart"]["longest_s"] == 20
    assert found["partitions"]["b"]["replayed_wait"]["longest_s"] == 50
    assert {one["app"]: one["late_s"] for one in found["most_apart"]} == {
        "7": -20,
        "8": -30,
        "9": 20,
    }


# IMPORT-23: The verdict
@pytest.mark.parametrize(
    ("wait_s", "verdict", "told"),
    [
        (30, "near", "near to what Slurm did: jobs wait 0 s on average instead of 30 s"),
        (500, "rough", "trust only large changes"),
        (5000, "far", "far from what Slurm did"),
    ],
)
def test_the_verdict(tmp_path: Path, wait_s: int, verdict: str, told: str) -> None:
    minutes, seconds = divmod(wait_s, 60)
    hours, minutes = divmod(minutes, 60)
    job = _job(1, "10:00:00", f"{10 + hours}:{minutes:02}:{seconds:02}", 100)
    found = _calibrated(tmp_path, job)
    assert found["verdict"] == verdict
    assert told.lower() in found["sentence"].lower()


# IMPORT-23
def test_without_any_start_there_is_no_verdict(tmp_path: Path) -> None:
    found = _calibrated(tmp_path, _job(1, "10:00:00", "Unknown", 100))
    assert found["verdict"] is None
    assert found["sentence"].startswith("There is nothing to compare")
    assert found["all"]["apart"]["median_s"] is None


# IMPORT-22
def test_a_configuration_of_the_user_is_judged(tmp_path: Path) -> None:
    config = written(
        tmp_path / "queues.yaml",
        "partitions: [{name: default, queues: [{name: root, queues: ["
        "{name: phys, resources: {max: {vcore: 3}}}]}]}]",
    )
    found = _calibrated(tmp_path, *_JOBS, options=("--config", config))
    assert found["compared"] == 0
    assert found["not_started_in_replay"] == 3


def test_text_has_tables_and_ends_with_the_verdict(tmp_path: Path) -> None:
    dump = written(tmp_path / "sacct.txt", dump_of(*_JOBS, _job(4, "10:20:00", "Unknown", 10)))
    feed = tmp_path / "feed.jsonl"
    result = run("import", "slurm", dump, "--nodes", _NODE, "-o", feed, "--calibrate")
    assert result.exit_code == 0, result.output
    said = result.stdout
    assert "Calibration: the real starts of 3 jobs against a replay" in said
    assert "1 job: no real start is known; not compared" in said
    assert "130 s later" in said
    assert "3/task: NoNodeFits: " in said
    assert "\nThe replay is near to what Slurm did: jobs wait 83.3 s on average instead of " in said
    assert said.endswith(f"next: muster replay {feed} --report report.html\n")


def test_a_feed_on_standard_output_cannot_be_replayed(tmp_path: Path) -> None:
    dump = written(tmp_path / "sacct.txt", dump_of(*_JOBS))
    result = run("import", "slurm", dump, "--nodes", _NODE, "-o", "-", "--calibrate")
    assert result.exit_code == 2
    assert "write it to a file, not to standard output" in result.stderr
