"""``muster serve --run slurm`` with a real server and a real Slurm."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.service.access import Principal, Role, mint
from tests.actors.serving.served import (
    APP,
    QUEUES,
    Served,
    decisions,
    decisions_until,
    ends_of,
    job as job_of,
    patiently,
    submit,
)
from tests.engines.slurm import cluster as clusters
from tests.engines.slurm.cluster import PATIENCE_S, Cluster

NODES = ["n1", "n2", "n3"]

# Notes its process, waits for a file, for two minutes at most, and ends with the status in it.
UNTIL = (
    "echo $$ >> {0}/pids; i=0;"
    " until test -f {0}/go || test $i = 2400; do sleep 0.05; i=$((i + 1)); done;"
    " exit $(cat {0}/go)"
)


@contextmanager
def serving(folder: Path, *arguments: str, state: bool = True) -> Generator[Served]:
    """Run a service whose commands run on Slurm; all of one test have one state.

    Slurm's daemons and so the service run as root, who needs tokens.
    """
    where = ("--state", str(folder / "state")) if state else ()
    secret, token = mint(Principal("root", Role.ADMIN))
    (folder / "tokens").write_text(f"{token.line()}\n", encoding="utf-8")
    (folder / "secret").write_text(secret, encoding="utf-8")
    access = ("--tokens", str(folder / "tokens"), "--trust-submitters")
    with Served(
        folder, "--run", "slurm", *access, "--grace", "1s", *where, *arguments, config=QUEUES
    ) as served:
        served.client.headers["Authorization"] = f"Bearer {secret}"
        yield served


def has_nodes(served: Served) -> bool:
    return [one["node"] for one in listed(served, "nodes")] == NODES


def listed(served: Served, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.client.get(f"/api/v1/{what}").json()["items"]
    return found


def job(ask: str, command: object, **more: object) -> dict[str, object]:
    """Return the event of an ask; Slurm gives memory out, too."""
    return job_of(ask, command, **{"resources": {"vcore": 1, "memory": "50Mi"}, **more})


def muster(folder: Path, served: Served, *arguments: str, status: int = 0) -> str:
    """Run a command of Muster against a service; return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        env={
            **os.environ,
            "MUSTER_SERVER": served.urls[0],
            "MUSTER_TOKEN": (folder / "secret").read_text(encoding="utf-8"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def pids_of(folder: Path) -> list[int]:
    """Return the processes that have run the command, in their order."""
    try:
        return [int(line) for line in (folder / "pids").read_text().split()]
    except FileNotFoundError:
        return []


def go(folder: Path, status: int) -> None:
    """Let the command end."""
    (folder / "new").write_text(str(status))
    (folder / "new").rename(folder / "go")


def comments(cluster: Cluster) -> list[str]:
    """Return the comments of the jobs that run, as ``squeue`` lists them."""
    return cluster.run("squeue", "-h", "--states=running", "-o", "%k").splitlines()


def test_commands_of_users(cluster: Cluster, tmp_path: Path) -> None:
    # SLURM-1, SLURM-2, SLURM-4, SLURM-9
    out = tmp_path / "out"
    out.mkdir()
    size = ("--queue", "root.jobs", "--memory", "50Mi")
    with serving(tmp_path, "--slurm-output", str(out), state=False) as served:
        patiently(lambda: has_nodes(served))
        command = "echo on $SLURMD_NODENAME; echo of $MUSTER_APP >&2; exit 3"
        muster(
            tmp_path, served, "submit", *size, "-n", "bad", "--wait", "--command", command, status=3
        )
        (end,) = decisions_until(served.client, app="bad", kind="released")[-1:]
        written = muster(tmp_path, served, "logs", end["app"] + "/" + end["ask"])
        muster(tmp_path, served, "submit", *size, "-n", "long", "--command", "exec sleep 1000")
        patiently(lambda: [one.partition("/")[0] for one in comments(cluster)] == ["muster:long"])
        (ask,) = listed(served, "asks")
        shown = muster(tmp_path, served, "get", "asks")
        muster(tmp_path, served, "cancel", "long")
        patiently(lambda: cluster.jobs() == [])

    assert (end["reason"], end["message"]) == ("failed", "exit status 3")
    assert written == f"on {end['node']}\nof bad\n"
    assert ask["node"] in NODES
    assert ask["node"] in shown


def test_exit_codes(cluster: Cluster, tmp_path: Path) -> None:
    # SLURM-1, SLURM-2, SLURM-4
    again = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) = 2 || exit 5"
    with serving(tmp_path, state=False) as served:
        submit(
            served.client,
            APP,
            job("fine", ["sh", "-c", "pwd; env"], workdir=str(tmp_path), env={"OWN": "1 2"}),
            job("killed", "kill -KILL $$"),
            job("again", again, retries=3),
            job("missing", ["no-such-program"]),
            job("half", "true", resources={"vcore": "500m", "memory": "1Mi"}),
        )
        last = (
            *(("fine", "completed"), ("killed", "failed"), ("again", "completed")),
            *(("half", "removed"), ("missing", "removed")),
        )
        outputs = [
            decisions_until(served.client, ask=ask, kind="released", reason=reason)
            for ask, reason in last
        ]
        found = max(outputs, key=len)  # up to the one that ends last, whichever that is
        detail = served.client.get("/api/v1/asks/a/fine/logs").json()["detail"]

    assert ends_of(found, "fine") == [("completed", None)]
    assert ends_of(found, "killed") == [("failed", "killed by signal SIGKILL")]
    assert ends_of(found, "again") == [("failed", "exit status 5"), ("completed", None)]
    missing, half = ends_of(found, "missing"), ends_of(found, "half")
    assert [reason for reason, _ in missing] == ["bind_failed"] * 3 + ["removed"]
    assert "the program, its working folder, its input or" in str(missing[0][1])
    assert "vcore" in str(half[0][1])
    assert "slurm-JOB.out in the folder in which the service was started" in detail
    (file,) = [one for one in Path.cwd().glob("slurm-*.out") if "OWN=1 2" in one.read_text()]
    assert file.read_text().splitlines()[0] == str(tmp_path)
    assert "MUSTER_ASK=fine" in file.read_text()


@pytest.mark.parametrize("form", [(), ("--slurm-components",)])
def test_a_gang_is_one_job(cluster: Cluster, tmp_path: Path, form: tuple[str, ...]) -> None:
    # SLURM-1, SLURM-8
    whole = {"vcore": 4, "memory": "50Mi"}
    with serving(tmp_path, *form) as served:
        patiently(lambda: has_nodes(served))
        submit(
            served.client,
            APP,
            {"op": "add_gang", "gang": "default/ring", "min_member": 2},
            job("m", UNTIL.format(tmp_path), count=2, gang="default/ring", resources=whole),
        )
        patiently(lambda: len(pids_of(tmp_path)) == 2)
        parts = comments(cluster)
        go(tmp_path, 0)
        for ask in ("m-0", "m-1"):
            decisions_until(served.client, ask=ask, kind="released", reason="completed")

    assert {one.rpartition("/")[0] for one in parts} == {"muster:default%2Fring/*"}
    assert len(parts) == (2 if form else 1)


# SLURM-5


@pytest.mark.parametrize("way", ["killed", "ended"])
@pytest.mark.parametrize("when", ["while", "after"])
def test_a_command_goes_on_without_the_service(
    cluster: Cluster, tmp_path: Path, way: str, when: str
) -> None:
    with serving(tmp_path) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(served.client, ask="k", kind="bound")
        if way == "killed":
            served.kill()
        else:
            assert served.stop() == 0
    assert comments(cluster) == ["muster:a/k/1"]
    if when == "while":
        go(tmp_path, 7)
        patiently(lambda: cluster.jobs() == [])
    with serving(tmp_path) as served:
        if when == "after":
            go(tmp_path, 7)
        found = decisions_until(served.client, ask="k", kind="released")

    assert ends_of(found, "k") == [("failed", "exit status 7")]
    assert len(pids_of(tmp_path)) == 1


def test_however_often_it_is_killed_each_command_runs_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    asks = [f"k{number}" for number in range(24)]
    line = f"echo $MUSTER_ASK >> {tmp_path}/began; sleep 2; exit 0"
    chance = random.Random(1)
    with serving(tmp_path) as served:
        submit(served.client, APP, *(job(ask, line) for ask in asks))
        patiently(lambda: cluster.jobs() != [])
        served.kill()
    for _ in range(5):
        with serving(tmp_path) as served:
            count = len(decisions(served.client)) + chance.randrange(12)
            patiently(lambda: len(decisions(served.client)) > count or not listed(served, "asks"))  # noqa: B023
            served.kill()
    with serving(tmp_path) as served:
        patiently(lambda: not listed(served, "asks"))
        found = decisions(served.client)

    assert sorted((tmp_path / "began").read_text().split()) == sorted(asks)
    assert {ask: ends_of(found, ask)[-1] for ask in asks} == dict.fromkeys(
        asks, ("completed", None)
    )


def test_what_is_not_wanted_any_more_is_ended(cluster: Cluster, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path), run_for="5s"))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(served.client, ask="k", kind="bound")
        served.kill()
    # Its time is over at the start, or soon after.
    with serving(tmp_path) as served:
        decisions_until(served.client, ask="k", kind="released")
        patiently(lambda: cluster.jobs() == [])


def test_jobs_end_with_a_service_that_keeps_nothing(cluster: Cluster, tmp_path: Path) -> None:
    deaf = f"trap '' TERM; {UNTIL.format(tmp_path)}"
    with serving(tmp_path, "--grace", "60s", state=False) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)), job("deaf", deaf))
        patiently(lambda: len(pids_of(tmp_path)) == 2)
        assert served.stop() == 0
    # Slurm ends what does not end by itself, when the service has gone.
    patiently(lambda: cluster.jobs() == [])


def test_jobs_of_a_killed_service_that_kept_nothing(cluster: Cluster, tmp_path: Path) -> None:
    with serving(tmp_path, state=False) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        served.kill()
    assert comments(cluster) == ["muster:a/k/1"]
    with serving(tmp_path, state=False):
        patiently(lambda: cluster.jobs() == [])


# SLURM-6, SLURM-7


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Generator[Cluster]:
    """A Slurm of its own, in which a test may kill anything."""
    reason = clusters.why_not()
    if reason is not None:
        pytest.skip(reason)
    with clusters.cluster() as running:
        monkeypatch.setenv("SLURM_CONF", str(running.conf))
        monkeypatch.chdir(running.folder / "work")
        yield running


def test_slurm_is_away_for_a_while(own: Cluster, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        patiently(lambda: has_nodes(served))
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(served.client, ask="k", kind="bound")
        # A controller that is killed forgets what it has not written down yet: what it knows of a
        # later job it has written with the news that the first one runs.
        submit(served.client, job("second", "true"))
        saved = own.folder / "state" / "job_state"
        patiently(lambda: saved.exists() and b"muster:a/second/" in saved.read_bytes())
        own.kill_controller()
        patiently(lambda: not slurm_of(served)["connected"])
        health, metrics = slurm_of(served), served.client.get("/metrics").text
        page = served.client.get("/").text
        served.kill()
    with serving(tmp_path) as served:
        patiently(lambda: "Unable to contact" in slurm_of(served).get("detail", ""))
        assert has_nodes(served)
        submit(served.client, job("later", f"echo later >> {tmp_path}/later"))
        go(tmp_path, 7)
        own.start_controller()
        decisions_until(served.client, ask="later", kind="released")
        decisions_until(served.client, ask="k", kind="released")
        found = decisions(served.client)
        assert slurm_of(served) == {"connected": True}
        assert "muster_slurm_connected 1.0" in served.client.get("/metrics").text

    assert ends_of(found, "k") == [("failed", "exit status 7")]
    assert ends_of(found, "later") == [("completed", None)]
    assert len(pids_of(tmp_path)) == 1
    assert (tmp_path / "later").read_text() == "later\n"
    assert "Unable to contact slurm controller" in health["detail"]
    assert "muster_slurm_connected 0.0" in metrics
    assert "Slurm: not connected: " in page


def slurm_of(served: Served) -> dict[str, Any]:
    answer = served.client.get("/healthz")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()["slurm"]
    return found
