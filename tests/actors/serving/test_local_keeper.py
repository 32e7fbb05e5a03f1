"""The keeper of a job: its lock says whether anything runs, or ever will."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.service.local import keeper
from muster.service.local.jobs import CommandResult, Job, JobSpec, jobs_in, record
from tests.actors.serving.served import PATIENCE_S
from tests.actors.serving.working import patiently

# LOCAL-7


def recorded(folder: Path, command: str, number: int = 1) -> Job:
    """Write the record of a job."""
    (folder / "jobs").mkdir(exist_ok=True)
    about: dict[str, object] = {"app": "a", "ask": "k", "number": number, "attempt": 1}
    shell = ("/bin/sh", "-c", command)
    log, told = folder / "1.log", folder / "1.json"
    order = JobSpec(shell, dict(os.environ), str(folder), None, about, log, 10_000, told, 0.3)
    return record(folder / "jobs", order)


def begun(job: Job) -> dict[str, Any]:
    """Start the keeper of a job; give its answer, or an empty one if there is none."""
    command = [sys.executable, "-I", "-S", keeper.__file__, str(job.folder)]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
    answer: dict[str, Any] = json.loads(done.stdout or '{"none": true}')
    return answer


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("exit 0", CommandResult(0)),
        ("exit 9", CommandResult(9)),
        ("kill -ABRT $$", CommandResult(None, signal.SIGABRT)),
        ("trap '' TERM; sleep 60 & exit 2", CommandResult(2)),
    ],
)
def test_how_a_command_ended(tmp_path: Path, command: str, result: CommandResult) -> None:
    job = recorded(tmp_path, command)
    assert begun(job) == {}
    patiently(job.claim)

    found = job.result()
    assert found is not None
    assert (found.exit_status, found.signal, found.error) == (
        *(result.exit_status, result.signal),
        None,
    )
    # LISTS-17
    assert found.cpu_us is not None
    assert 0 < found.cpu_us < 60 * 10**6
    assert found.max_memory is not None
    assert found.max_memory > 0
    told = json.loads((tmp_path / "1.json").read_text())
    assert told["started_us"] <= told["ended_us"]
    assert (told["ask"], told.get("exit_status")) == ("k", result.exit_status)


def test_of_one_record_there_is_one_keeper(tmp_path: Path) -> None:
    job = recorded(tmp_path, "echo once; until test -f go; do sleep 0.05; done")
    assert begun(job) == {}
    assert begun(job) == {"none": True}
    assert not job.claim()
    (tmp_path / "go").touch()
    patiently(job.claim)

    assert begun(job) == {"none": True}, "a record that somebody has given up"
    assert (tmp_path / "1.log").read_text() == "once\n"


def test_a_record_that_was_given_up_before_its_keeper_began(tmp_path: Path) -> None:
    job = recorded(tmp_path, "touch ran")
    assert job.claim()

    assert begun(job) == {"none": True}
    assert job.result() is None
    assert not (tmp_path / "ran").exists()


def test_a_record_that_was_removed_before_its_keeper_began(tmp_path: Path) -> None:
    job = recorded(tmp_path, "touch ran")
    job.remove()
    begun(job)

    assert not (tmp_path / "ran").exists()
    assert job.claim()


def test_a_record_that_is_being_looked_at(tmp_path: Path) -> None:
    job = recorded(tmp_path, "touch ran")
    with (job.folder / keeper.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert begun(job) == {"none": True}
    assert not (tmp_path / "ran").exists()


def test_a_child_does_not_begin_without_its_keeper(tmp_path: Path) -> None:
    # LOCAL-8: the keeper is killed where it writes down the process; nobody would know of it.
    job = recorded(tmp_path, "touch ran")
    (job.folder / f"{keeper.CHILD}.new").mkdir()  # writing fails there

    assert "error" in begun(job)
    patiently(job.claim)
    assert not (tmp_path / "ran").exists()


def test_records_that_were_cut_short_are_removed(tmp_path: Path) -> None:
    job = recorded(tmp_path, "true", number=7)
    (tmp_path / "jobs" / "8").mkdir()
    (tmp_path / "jobs" / "9.new").mkdir()

    assert jobs_in(tmp_path / "jobs") == [job]
    assert [one.name for one in (tmp_path / "jobs").iterdir()] == ["7"]
