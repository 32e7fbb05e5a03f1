"""A leader that is over orders nothing on a cluster that runs commands."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from tests.actors.ray.test_terms import AGENT
from tests.actors.serving.replication.pairs import level, role
from tests.actors.serving.served import (
    APP,
    QUEUES,
    Served,
    as_user,
    decisions_until,
    ends_of,
    job,
    submit,
    until,
)
from tests.actors.serving.test_ray import NODE
from tests.actors.serving.test_slurm import job as job_of_slurm
from tests.actors.slurm.conftest import FakeSlurm, fake_slurm

fake = pytest.fixture(fake_slurm)

SLURM = ("--run", "slurm", "--trust-local")


def served(folder: Path, state: str, *arguments: str, until_ready: bool = True) -> Served:
    """Start a server with a store, without the rights of root."""
    return Served(
        folder,
        *("--state", str(folder / state), *arguments),
        config=QUEUES,
        prefix=as_user(),
        until_ready=until_ready,
    )


def promote(server: Served) -> None:
    answer = server.client.post("/api/v1/replica/promote")
    assert answer.status_code == 200, answer.text


@pytest.fixture
def ray(tmp_path: Path) -> Path:
    """Return a folder in place of Ray."""
    made = tmp_path / "ray"
    made.mkdir()
    (made / "nodes.json").write_text(json.dumps([NODE]))
    script = made / "python"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} {AGENT} {made}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return made


def options(ray: Path) -> tuple[str, ...]:
    names = ("--ray-address", "local", "--ray-node-name", "name")
    return ("--run", "ray", "--ray-python", str(ray / "python"), *names)


def terms(ray: Path) -> set[str]:
    """Return the terms that were noted there."""
    return {one.name for one in ray.glob("terms/*/*")}


def test_a_leader_hears_of_a_higher_term_from_ray(tmp_path: Path, ray: Path) -> None:
    # REPLICA-15
    with served(tmp_path, "leader", *options(ray)) as one:
        until(lambda: len(one.client.get("/api/v1/nodes").json()["items"]) == 1)
        assert terms(ray) == {"1"}
        (scheduler,) = (ray / "terms").iterdir()
        (scheduler / "2").touch()
        submit(one.client, APP, job("k", "true"))
        one.line("the agent of Ray knows of term 2: another server leads, and this one's term 1 is")
        assert one.process.wait(60) == 2
    assert not (ray / "started").exists()


def test_an_old_leader_does_not_come_again_on_ray(tmp_path: Path, ray: Path) -> None:
    # REPLICA-13, REPLICA-15
    with served(tmp_path, "leader", *options(ray)) as one:
        follows = ("--follow", one.urls[0])
        with served(tmp_path, "follower", *options(ray), *follows) as other:
            level(one, other)
            one.kill()
            assert terms(ray) == {"1"}
            promote(other)
            until(lambda: terms(ray) == {"1", "2"})
            with served(tmp_path, "leader", *options(ray), until_ready=False) as again:
                again.line("the agent of Ray knows of term 2")
                assert again.process.wait(60) == 2
            assert role(other)["term"] == 2
            assert other.client.get("/healthz").json()["ray"]["connected"]


def test_without_a_state_there_is_no_term(tmp_path: Path, ray: Path, fake: FakeSlurm) -> None:
    # REPLICA-15, REPLICA-16
    with Served(tmp_path, *options(ray), config=QUEUES) as one:
        until(lambda: len(one.client.get("/api/v1/nodes").json()["items"]) == 1)
    assert terms(ray) == set()
    with Served(tmp_path, *SLURM, config=QUEUES, prefix=as_user()) as one:
        submit(one.client, APP, job_of_slurm("k", "true"))
        until(lambda: len(fake.jobs) == 1)
        assert fake.jobs[0]["comment"] == "muster:a/k/1"


@pytest.mark.parametrize("more", [(), ("--no-slurm-detached",)])
def test_a_leader_hears_of_a_higher_term_from_slurm(
    tmp_path: Path, fake: FakeSlurm, more: tuple[str, ...]
) -> None:
    # REPLICA-16
    with served(tmp_path, "leader", *SLURM, *more) as one:
        submit(one.client, APP, job_of_slurm("k", "true"))
        until(lambda: len(fake.jobs) == 1)
        assert fake.jobs[0]["comment"] == "muster:a/k/1"
        fake.job(1, job_state="RUNNING", batch_host="n1")
        decisions_until(one.client, ask="k", kind="bound")
        fake.add(comment="other:a/x/9@3")
        fake.add(comment="muster:a/x/9@2")
        one.line("job 3 of Slurm knows of term 2: another server leads, and this one's term 1 is")
        assert one.process.wait(60) == 2
    assert fake.calls("scancel") == []


def test_a_leader_that_is_over_waits_for_no_end(tmp_path: Path, fake: FakeSlurm) -> None:
    # REPLICA-16
    with served(tmp_path, "leader", *SLURM, "--grace", "600s") as one:
        submit(one.client, APP, job_of_slurm("k", "true"))
        until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", batch_host="n1")
        lists = len(fake.calls("squeue"))
        until(lambda: len(fake.calls("squeue")) > lists + 1)  # it is seen that it runs
        fake.set(deaf=True)
        submit(one.client, {"op": "release", "app": "a", "ask": "k"})
        until(lambda: len(fake.calls("scancel")) == 1)
        fake.add(comment="muster:a/x/9@2")
        one.line("job 2 of Slurm knows of term 2")
        assert one.process.wait(60) == 2
    assert len(fake.calls("scancel")) == 1


def test_jobs_of_a_lower_term_are_taken_over(tmp_path: Path, fake: FakeSlurm) -> None:
    # REPLICA-13, REPLICA-16
    with served(tmp_path, "leader", *SLURM) as one:
        follows = ("--follow", one.urls[0])
        with served(tmp_path, "follower", *SLURM, *follows) as other:
            submit(one.client, APP, job_of_slurm("k", "true"))
            until(lambda: len(fake.jobs) == 1)
            fake.job(1, job_state="RUNNING", batch_host="n1")
            decisions_until(one.client, ask="k", kind="bound")
            level(one, other)
            one.kill()
            promote(other)
            submit(other.client, job_of_slurm("l", "true"))
            until(lambda: len(fake.jobs) == 2)
            assert [job["comment"] for job in fake.jobs] == ["muster:a/k/1", "muster:a/l/2@2"]
            with served(tmp_path, "leader", *SLURM, until_ready=False) as again:
                again.line("job 2 of Slurm knows of term 2")
                assert again.process.wait(60) == 2
            assert fake.calls("scancel") == []
            fake.job(1, job_state="FAILED", exit_code=5 << 8)
            found = decisions_until(other.client, ask="k", kind="released")
    assert ends_of(found, "k") == [("failed", "exit status 5")]


def test_who_runs_commands_waits_for_a_follower(tmp_path: Path) -> None:
    # REPLICA-7, REPLICA-8, REPLICA-10, REPLICA-13
    sync = ("--sync", "strict", "--sync-timeout", "200ms")
    run = ("--run", "local", "--trust-local", *sync)
    with served(tmp_path, "leader", *run, until_ready=False) as one:
        follows = ("--follow", one.urls[0])
        with served(tmp_path, "follower", *run, *follows) as other:
            one.line(r"\bready\b")
            submit(one.client, APP, job("k", "sleep 600"))
            decisions_until(one.client, ask="k", kind="bound")
            level(one, other)
            logs = other.client.get("/api/v1/asks/a/k/logs")
            assert logs.status_code == 307
            assert logs.headers["location"] == f"{one.urls[0]}/api/v1/asks/a/k/logs"
            one.kill()
            promote(other)
            ready = other.client.get("/readyz")
            assert (ready.status_code, "no follower" in ready.text) == (503, True)
            again = ("--follow", other.urls[0])
            with served(tmp_path, "leader", *run, *again) as back:
                level(other, back)
                until(lambda: other.client.get("/readyz").status_code == 200)
                submit(other.client, job("l", "true"))
