"""Commands that outlive the service are found again, or ended: never two of one allocation.

The keeper of a job says whether anything runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from muster import _keeper as keeper
from muster.service.local.jobs import CommandResult, Job, JobSpec, jobs_in, record
from tests.actors.serving.served import (
    APP,
    PATIENCE_S,
    Decision,
    Served,
    decisions,
    decisions_until,
    ends_of,
    following,
    job,
    node,
    output,
    patiently,
    running_commands,
    submit,
)
from tests.actors.serving.test_local import runs

# Waits for a file, for two minutes at most, and ends with the status in it.
UNTIL = (
    "echo $$ > {0}/pid; echo began; i=0;"
    " until test -f {0}/go || test $i = 2400; do sleep 0.05; i=$((i + 1)); done;"
    " exit $(cat {0}/go)"
)

# The message of a command whose end is unknown.
WITH_KEEPER = "LostJobError: its command was ended together with its keeper"
NOT_THERE = "LostJobError: its command had not started, or the machine has started again since"


def serving(folder: Path, *arguments: str, state: bool = True) -> Served:
    """Start a service that runs commands; all of one test have one state."""
    where = ("--state", str(folder / "state")) if state else ()
    return running_commands(folder, "--no-node", *where, *arguments)


def wait_until_began(served: Served, ask: str) -> None:
    """Wait until a command has written its first line."""
    path = f"/api/v1/asks/a/{ask}/logs"
    decisions_until(served.client, ask=ask, kind="bound")
    patiently(lambda: "began" in served.client.get(path).text)


def go(folder: Path, status: int) -> None:
    """Let the command end."""
    (folder / "new").write_text(str(status))
    (folder / "new").rename(folder / "go")


def pid_of(folder: Path) -> int:
    return int((folder / "pid").read_text())


def end(served: Served, way: str) -> None:
    if way == "killed":
        served.kill()
    else:
        assert served.stop() == 0


# LOCAL-8


@pytest.mark.parametrize("way", ["killed", "ended"])
@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_command_goes_on_without_the_service(tmp_path: Path, way: str, when: str) -> None:
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path), retries=1))
        wait_until_began(served, "k")
        if when == "before":
            # It ends at about the moment at which the service does.
            go(tmp_path, 7)
        end(served, way)
    if when == "while":
        keeper = keeper_of(tmp_path)
        go(tmp_path, 7)
        patiently(lambda: not runs(keeper))
    with serving(tmp_path) as served:
        if when == "after":
            assert runs(pid_of(tmp_path))
            go(tmp_path, 7)
        found = decisions_until(served.client, 2, ask="k", kind="released")

    # It was never started twice at once: the second start is the retry.
    assert ends_of(found, "k") == [("failed", "exit status 7")] * 2
    assert len(list((tmp_path / "state" / "logs" / "a" / "k").glob("*.log"))) == 2
    assert list((tmp_path / "state" / "jobs").iterdir()) == []


def keeper_of(folder: Path) -> int:
    (record,) = (folder / "state" / "jobs").iterdir()
    pid: int = json.loads((record / "keeper.json").read_text())["pid"]
    return pid


def test_output_goes_on_where_it_was(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        command = UNTIL.format(tmp_path).replace("exit", "echo over; exit")
        submit(served.client, node(), APP, job("k", command))
        wait_until_began(served, "k")
        served.kill()
    with serving(tmp_path) as served:
        with served.client.stream("GET", "/api/v1/asks/a/k/logs?follow=true") as response:
            lines = response.iter_lines()
            assert next(lines) == "began"
            go(tmp_path, 0)
            assert list(lines) == ["over"]
        found = decisions_until(served.client, ask="k", kind="released")

    assert ends_of(found, "k") == [("completed", None)]


def test_following_ends_with_the_service(tmp_path: Path) -> None:
    # LOCAL-10: and does not hold it up.
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        with served.client.stream("GET", "/api/v1/asks/a/k/logs?follow=true") as response:
            lines = response.iter_lines()
            assert next(lines) == "began"
            served.process.send_signal(signal.SIGTERM)
            assert list(lines) == []
        assert served.process.wait(PATIENCE_S) == 0
        assert runs(pid_of(tmp_path))
    go(tmp_path, 0)


def test_jobs_end_with_the_service_if_that_is_wanted(tmp_path: Path) -> None:
    # LOCAL-9
    with serving(tmp_path, "--end-jobs") as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        assert served.stop() == 0
        assert not runs(pid_of(tmp_path))
    go(tmp_path, 0)
    with serving(tmp_path) as served:
        found = decisions_until(served.client, ask="k", kind="released", reason="completed")

    assert ends_of(found, "k") == [("bind_failed", NOT_THERE), ("completed", None)]


@pytest.mark.parametrize("way", ["killed", "ended"])
def test_nothing_outlives_a_service_without_a_state(tmp_path: Path, way: str) -> None:
    # LOCAL-9
    with serving(tmp_path, state=False) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        end(served, way)
    pid = pid_of(tmp_path)
    if way == "killed":
        patiently(lambda: not runs(pid))  # the keeper sees that, and ends it
    assert not runs(pid)


def test_a_keeper_that_was_killed(tmp_path: Path) -> None:
    # LOCAL-9: nobody would know how the command ends, so it is ended, and the work begins again.
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        first = pid_of(tmp_path)
        os.kill(keeper_of(tmp_path), signal.SIGKILL)
        decisions_until(served.client, 2, ask="k", kind="bound")
        assert not runs(first)
        go(tmp_path, 0)
        found = decisions_until(served.client, ask="k", kind="released", reason="completed")
        assert "began" in output(served.client, "k", attempt=1)

    assert ends_of(found, "k") == [("bind_failed", WITH_KEEPER), ("completed", None)]
    report = json.loads((tmp_path / "state" / "logs" / "a" / "k" / "1.json").read_text())
    assert report["error"] == "it was ended with its keeper, or with the machine; nobody knows how"


def test_a_keeper_that_was_killed_while_there_was_no_service(tmp_path: Path) -> None:
    # LOCAL-9
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        served.kill()
    first = pid_of(tmp_path)
    os.kill(keeper_of(tmp_path), signal.SIGKILL)
    with serving(tmp_path) as served:
        decisions_until(served.client, 2, ask="k", kind="bound")
        assert not runs(first)
        go(tmp_path, 0)
        found = decisions_until(served.client, ask="k", kind="released", reason="completed")

    assert ends_of(found, "k") == [("bind_failed", WITH_KEEPER), ("completed", None)]


def test_a_command_that_could_not_be_started_while_the_service_went(tmp_path: Path) -> None:
    # LOCAL-3: the keeper has written it down, and nobody was there to hear of it.
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        served.kill()
    keeper, first = keeper_of(tmp_path), pid_of(tmp_path)
    os.kill(keeper, signal.SIGKILL)
    os.kill(first, signal.SIGKILL)
    patiently(lambda: not runs(keeper) and not runs(first))
    (record,) = (tmp_path / "state" / "jobs").iterdir()
    (record / "result.json").write_text(json.dumps({"error": "no such program"}))
    go(tmp_path, 0)
    with serving(tmp_path) as served:
        found = decisions_until(served.client, ask="k", kind="released", reason="completed")

    assert ends_of(found, "k") == [
        ("bind_failed", "LostJobError: no such program"),
        ("completed", None),
    ]


def test_a_machine_that_has_started_again(tmp_path: Path) -> None:
    # LOCAL-8: the number of the process may be that of any other now.
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path)))
        wait_until_began(served, "k")
        served.kill()
    (record,) = (tmp_path / "state" / "jobs").iterdir()
    child = json.loads((record / "child.json").read_text())
    first = child["pid"]
    os.kill(keeper_of(tmp_path), signal.SIGKILL)
    (record / "child.json").write_text(json.dumps({**child, "boot": "another"}))
    go(tmp_path, 0)
    with serving(tmp_path) as served:
        found = decisions_until(served.client, ask="k", kind="released", reason="completed")

    assert ends_of(found, "k") == [("bind_failed", WITH_KEEPER), ("completed", None)]
    patiently(lambda: not runs(first))


def test_an_allocation_that_ended_while_the_service_was_away(tmp_path: Path) -> None:
    # LOCAL-9: its `run_for` is over at the next start, and its command is ended then.
    with serving(tmp_path) as served:
        submit(served.client, node(), APP, job("k", UNTIL.format(tmp_path), run_for=5))
        wait_until_began(served, "k")
        served.kill()
    with serving(tmp_path) as served:
        found = decisions_until(served.client, ask="k", kind="released")
        pid = pid_of(tmp_path)
        patiently(lambda: not runs(pid))

    assert ends_of(found, "k") == [("completed", None)]


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")
def test_killed_at_any_moment(tmp_path: Path) -> None:
    # LOCAL-8, LOCAL-9: each job notes its start and its end, and that it is alone.
    chance = random.Random(7)
    script = (
        f"echo start $MUSTER_ASK $MUSTER_JOB >> {tmp_path}/trace; sleep $0;"
        f" echo end $MUSTER_ASK $MUSTER_JOB >> {tmp_path}/trace; exit $1"
    )
    numbers = iter(range(1000))

    def more() -> dict[str, object]:
        ask = f"k{next(numbers)}"
        lock = ["flock", "-n", "-E", "77", f"{tmp_path}/{ask}.lock"]
        takes = f"{chance.choice((0, 0.1, 0.5, 3))}"
        status = str(chance.choice((0, 0, 0, 5)))
        return job(ask, [*lock, "sh", "-c", script, takes, status], retries=1)

    with serving(tmp_path) as served:
        submit(served.client, node(6), APP)
    for _ in range(15):
        with serving(tmp_path) as served:
            before = decisions(served.client)[-1]["seq"]
            submit(served.client, *(more() for _ in range(4)))
            # At least so many come.
            wait_for_changes(served, before, chance.randrange(9))
            served.kill()
    with serving(tmp_path) as served:
        while unfinished(found := decisions(served.client)):
            decisions_until(served.client, len(ended(found)) + 1, kind="released")
    check_agreement(found, (tmp_path / "trace").read_text().splitlines())


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")
def test_killed_while_many_end(tmp_path: Path) -> None:
    # LOCAL-8: what was not let in when the service was killed is let in at the next start.
    gate, found = tmp_path / "gate", list[Decision]()
    script = f"flock -s {gate} true; echo $MUSTER_ASK >> {tmp_path}/trace; exit 5"
    for part in range(3):
        with gate.open("w") as lock, serving(tmp_path) as served:
            fcntl.flock(lock, fcntl.LOCK_EX)
            many = [job(f"k{part}-{number}", script) for number in range(30)]
            first = [node(30), APP] if part == 0 else []
            submit(served.client, *first, *many)
            decisions_until(served.client, 30 * (part + 1), kind="bound")
            patiently(lambda: len(list((tmp_path / "state" / "jobs").glob("*/child.json"))) == 30)
            last = decisions(served.client)[-1]["seq"]
            fcntl.flock(lock, fcntl.LOCK_UN)
            wait_for_changes(served, last, 5 * part + 1)
            served.kill()
        with serving(tmp_path) as served:
            found = decisions_until(served.client, 30 * (part + 1), kind="released")

    assert Counter(how for one in range(3) for how in all_ends(found, f"k{one}-")) == {
        ("failed", "exit status 5"): 90
    }
    assert Counter((tmp_path / "trace").read_text().split()).most_common(1)[0][1] == 1


def all_ends(found: list[Decision], beginning: str) -> list[tuple[str, str | None]]:
    asks = {one["ask"] for one in ended(found) if one["ask"].startswith(beginning)}
    return [how for ask in asks for how in ends_of(found, ask)]


def wait_for_changes(served: Served, after: int, many: int) -> None:
    """Wait for so many binds and ends after a decision."""
    found = following(served.client, after)
    while many:
        many -= next(found)["kind"] in {"bound", "released"}


def ended(found: list[Decision]) -> list[Decision]:
    return [one for one in found if one["kind"] == "released"]


def unfinished(found: list[Decision]) -> set[str]:
    """Return the asks that are not over."""
    last = {one["ask"]: one for one in found if one["kind"] in {"assigned", "bound", "released"}}
    failures = Counter(one["ask"] for one in ended(found) if one["reason"] == "failed")
    return {
        ask
        for ask, one in last.items()
        if one["kind"] != "released" or (one["reason"] != "completed" and failures[ask] < 2)
    }


def check_agreement(found: list[Decision], trace: list[str]) -> None:
    """Check that the trace of the jobs agrees with the decisions."""
    messages = {one.get("message") for one in ended(found) if one["reason"] != "bind_failed"}
    assert messages <= {None, "exit status 5"}, "two of one ask ran at the same time"
    lost = {one["message"] for one in ended(found) if one["reason"] == "bind_failed"}
    assert lost <= {WITH_KEEPER, NOT_THERE}
    starts = Counter(line.split()[1] for line in trace if line.startswith("start"))
    ends = Counter(line.split()[1] for line in trace if line.startswith("end"))
    jobs = Counter(line.split()[2] for line in trace if line.startswith("start"))
    assert set(jobs.values()) == {1}, "an allocation ran twice"
    wanted = Counter(one["ask"] for one in ended(found) if one["reason"] in {"completed", "failed"})
    assert starts == ends == wanted


# LOCAL-7


def record_job(folder: Path, command: str, number: int = 1) -> Job:
    """Write the record of a job."""
    (folder / "jobs").mkdir(exist_ok=True)
    about: dict[str, object] = {"app": "a", "ask": "k", "number": number, "attempt": 1}
    shell = ("/bin/sh", "-c", command)
    log, report = folder / "1.log", folder / "1.json"
    order = JobSpec(shell, dict(os.environ), str(folder), None, about, log, 10_000, report, 0.3)
    return record(folder / "jobs", order)


def start_keeper(job: Job) -> dict[str, Any]:
    """Start the keeper of a job; give its answer, or an empty one if there is none."""
    command = [sys.executable, "-I", "-S", keeper.__file__, "record", str(job.folder)]
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
    job = record_job(tmp_path, command)
    assert start_keeper(job) == {}
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
    report = json.loads((tmp_path / "1.json").read_text())
    assert report["started_us"] <= report["ended_us"]
    assert (report["ask"], report.get("exit_status")) == ("k", result.exit_status)


def test_of_one_record_there_is_one_keeper(tmp_path: Path) -> None:
    job = record_job(tmp_path, "echo once; until test -f go; do sleep 0.05; done")
    assert start_keeper(job) == {}
    assert start_keeper(job) == {"none": True}
    assert not job.claim()
    (tmp_path / "go").touch()
    patiently(job.claim)

    assert start_keeper(job) == {"none": True}, "a record that somebody has given up"
    assert (tmp_path / "1.log").read_text() == "once\n"


def test_a_record_that_was_given_up_before_its_keeper_began(tmp_path: Path) -> None:
    job = record_job(tmp_path, "touch ran")
    assert job.claim()

    assert start_keeper(job) == {"none": True}
    assert job.result() is None
    assert not (tmp_path / "ran").exists()


def test_a_record_that_was_removed_before_its_keeper_began(tmp_path: Path) -> None:
    job = record_job(tmp_path, "touch ran")
    job.remove()
    start_keeper(job)

    assert not (tmp_path / "ran").exists()
    assert job.claim()


def test_a_record_that_is_being_looked_at(tmp_path: Path) -> None:
    job = record_job(tmp_path, "touch ran")
    with (job.folder / keeper.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert start_keeper(job) == {"none": True}
    assert not (tmp_path / "ran").exists()


def test_a_child_does_not_begin_without_its_keeper(tmp_path: Path) -> None:
    # LOCAL-8: the keeper is killed where it writes down the process; nobody would know of it.
    job = record_job(tmp_path, "touch ran")
    (job.folder / f"{keeper.CHILD}.new").mkdir()  # writing fails there

    assert "error" in start_keeper(job)
    patiently(job.claim)
    assert not (tmp_path / "ran").exists()


def test_records_that_were_cut_short_are_removed(tmp_path: Path) -> None:
    job = record_job(tmp_path, "true", number=7)
    (tmp_path / "jobs" / "8").mkdir()
    (tmp_path / "jobs" / "9.new").mkdir()

    assert jobs_in(tmp_path / "jobs") == [job]
    assert [one.name for one in (tmp_path / "jobs").iterdir()] == ["7"]
