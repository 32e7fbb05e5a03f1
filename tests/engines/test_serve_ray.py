"""``muster serve --run ray`` with a real server and a real cluster."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.actors.serving.served import (
    APP,
    QUEUES,
    Decision,
    Served,
    decisions,
    decisions_until,
    ends_of,
    job,
    output,
    patiently,
    submit,
)
from tests.actors.serving.test_local import runs
from tests.engines.cluster import PATIENCE_S, Cluster, wait_until

NODES = {"a", "b"}

# Waits for a file, for two minutes at most, and ends with the status in it.
UNTIL = (
    "echo $$ >> {0}/pids; i=0;"
    " until test -f {0}/go || test $i = 2400; do sleep 0.05; i=$((i + 1)); done;"
    " exit $(cat {0}/go)"
)


@contextmanager
def serving(
    cluster: Cluster, folder: Path, *arguments: str, state: bool = True
) -> Generator[Served]:
    """Run a service whose commands run on a cluster; all of one test have one state."""
    where = ("--state", str(folder / "state")) if state else ()
    ray = ("--ray-address", cluster.address, "--ray-python", cluster.python)
    names = ("--ray-node-name", "node_name", "--ray-namespace", folder.name)
    with Served(
        folder, "--run", "ray", *ray, *names, "--grace", "1s", *where, *arguments, config=QUEUES
    ) as served:
        patiently(lambda: {one["node"] for one in listed(served, "nodes")} == NODES)
        yield served


def listed(served: Served, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.client.get(f"/api/v1/{what}").json()["items"]
    return found


@pytest.fixture(scope="module")
def served(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for the tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "out").mkdir()
    with serving(cluster, folder, "--ray-output", str(folder / "out"), state=False) as served:
        submit(served.client, APP)
        yield served


def test_exit_codes(served: Served, tmp_path: Path) -> None:
    # RAY-1, RAY-2, RAY-4
    again = f"echo x >> {tmp_path}/tries; test $(wc -l < {tmp_path}/tries) = 3 || exit 5"
    submit(
        served.client,
        job("fine", "echo done; echo and more >&2"),
        job("bad", ["sh", "-c", "exit 3"]),
        job("killed", "kill -KILL $$"),
        job("again", again, retries=5),
    )
    for ask in ("fine", "bad", "killed"):
        decisions_until(served.client, ask=ask, kind="released")
    decisions_until(served.client, ask="again", kind="released", reason="completed")
    found = decisions(served.client)

    assert ends_of(found, "fine") == [("completed", None)]
    assert ends_of(found, "bad") == [("failed", "exit status 3")]
    assert ends_of(found, "killed") == [("failed", "killed by signal SIGKILL")]
    assert ends_of(found, "again") == [("failed", "exit status 5")] * 2 + [("completed", None)]
    assert output(served.client, "fine") == "done\nand more\n"


def test_the_environment_of_a_command(served: Served, tmp_path: Path) -> None:
    # RAY-1
    env = {"OWN": "1 2", "MUSTER_APP": "other"}
    submit(served.client, job("env", "env; pwd", env=env, workdir=str(tmp_path)))
    (bound,) = [
        one
        for one in decisions_until(served.client, ask="env", kind="released", reason="completed")
        if one["kind"] == "bound" and one["ask"] == "env"
    ]
    lines = output(served.client, "env").splitlines()

    assert lines[-1] == str(tmp_path)
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    wanted = {
        "MUSTER_APP": "a",
        "MUSTER_ASK": "env",
        "MUSTER_NODE": bound["node"],
        "MUSTER_QUEUE": "root.jobs",
        "OWN": "1 2",
    }
    assert {name: found.get(name) for name in wanted} == wanted
    assert found["MUSTER_RUN"].startswith("a/env/")


@pytest.mark.parametrize(
    ("ask", "fields"),
    [
        ("missing", {"command": ["no-such-program"]}),
        ("nowhere", {"command": "true", "workdir": "/no/such"}),
    ],
)
def test_what_cannot_be_started(served: Served, ask: str, fields: dict[str, object]) -> None:
    # RAY-2
    submit(served.client, {**job(ask, ""), **fields})
    found = decisions_until(served.client, ask=ask, kind="released", reason="removed")

    assert [reason for reason, _ in ends_of(found, ask)] == ["bind_failed"] * 3 + ["removed"]


def test_an_ask_without_a_command_is_left_to_others(served: Served) -> None:
    # RAY-1
    plain = job("plain", "x")
    del plain["command"]
    submit(served.client, plain, job("other", "true"))
    decisions_until(served.client, ask="other", kind="released")
    assert ends_of(decisions(served.client), "plain") == []
    submit(served.client, {"op": "release", "app": "a", "ask": "plain", "outcome": "failed"})

    assert ends_of(decisions(served.client), "plain") == [("failed", None)]


def test_a_command_ends_with_its_allocation(served: Served, tmp_path: Path) -> None:
    # RAY-9
    command = UNTIL.format(tmp_path)
    submit(served.client, job("limited", f"trap '' TERM; {command}", run_for="2s"))
    decisions_until(served.client, ask="limited", kind="released")
    (pid,) = pids_of(tmp_path)

    patiently(lambda: not runs(pid))


def test_the_nodes_are_those_of_ray(served: Served) -> None:
    # RAY-8
    nodes = {one["node"]: one for one in listed(served, "nodes")}

    assert nodes.keys() == NODES
    assert {one["capacity"]["vcore"] for one in nodes.values()} == {2000}
    assert {one["attributes"]["node_name"] for one in nodes.values()} == NODES


def test_output_among_the_logs_of_ray(cluster: Cluster, tmp_path: Path) -> None:
    # RAY-4
    with serving(cluster, tmp_path, state=False) as served:
        submit(served.client, APP, job("k", "echo what it says; echo and complains >&2"))
        decisions_until(served.client, ask="k", kind="released", reason="completed")
        answer = served.client.get("/api/v1/asks/a/k/logs")

    assert answer.status_code == 404
    assert "among Ray's logs of its workers" in answer.json()["detail"]
    logs = [path.read_text(errors="replace") for path in cluster.folder.rglob("worker-*")]
    assert any("what it says" in text for text in logs)
    assert any("and complains" in text for text in logs)


def test_the_program_of_the_page_about_ray(cluster: Cluster) -> None:
    program = Path(__file__).parents[2] / "examples" / "ray" / "first.py"
    done = subprocess.run(
        [cluster.python, str(program), cluster.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert done.returncode == 0, done.stderr
    names = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert names == ["night/part-0", "night/part-1", "night/part-2", "night/part-3", "page/now"]
    assert all(3.0 < float(line.partition(":")[2]) < 3.3 for line in done.stdout.splitlines())


def pids_of(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "pids").read_text().split()]
    except FileNotFoundError:
        return []


def go(folder: Path, status: int) -> None:
    """Let the command end."""
    (folder / "new").write_text(str(status))
    (folder / "new").rename(folder / "go")


# RAY-5


@pytest.mark.parametrize("way", ["killed", "ended"])
@pytest.mark.parametrize("when", ["while", "after"])
def test_a_command_goes_on_without_the_service(
    cluster: Cluster, tmp_path: Path, way: str, when: str
) -> None:
    with serving(cluster, tmp_path) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(served.client, ask="k", kind="bound")
        if way == "killed":
            served.kill()
        else:
            assert served.stop() == 0
    (pid,) = pids_of(tmp_path)
    assert runs(pid)
    if when == "while":
        go(tmp_path, 7)
        patiently(lambda: not runs(pid))
    with serving(cluster, tmp_path) as served:
        if when == "after":
            go(tmp_path, 7)
        found = decisions_until(served.client, ask="k", kind="released")

    assert ends_of(found, "k") == [("failed", "exit status 7")]
    assert pids_of(tmp_path) == [pid]


def test_what_is_not_wanted_any_more_is_ended(cluster: Cluster, tmp_path: Path) -> None:
    with serving(cluster, tmp_path) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path), run_for="5s"))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(served.client, ask="k", kind="bound")
        served.kill()
    (pid,) = pids_of(tmp_path)
    assert runs(pid)
    # Its time is over at the start, or soon after.
    with serving(cluster, tmp_path) as served:
        decisions_until(served.client, ask="k", kind="released")
        patiently(lambda: not runs(pid))


@pytest.mark.parametrize("way", ["killed", "ended"])
def test_without_a_state_nothing_is_left(cluster: Cluster, tmp_path: Path, way: str) -> None:
    with serving(cluster, tmp_path, state=False) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        if way == "killed":
            served.kill()
        else:
            assert served.stop() == 0
    (pid,) = pids_of(tmp_path)
    wait_until(lambda: not runs(pid), "the command has ended")


# RAY-6, RAY-7


def test_the_service_outlives_its_agent(cluster: Cluster, tmp_path: Path) -> None:
    with serving(cluster, tmp_path) as served:
        submit(served.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(served.client, ask="k", kind="bound")
        os.kill(agent_of(served), signal.SIGKILL)
        wait_until(lambda: len(pids_of(tmp_path)) == 2, "the work has begun again")
        first, _ = pids_of(tmp_path)
        assert not runs(first)
        health = served.client.get("/healthz").json()
        metrics = served.client.get("/metrics").text
        go(tmp_path, 0)
        found: list[Decision] = decisions_until(
            served.client, ask="k", kind="released", reason="completed"
        )

    assert health["ray"] == {"connected": True, "restarts": 1}
    assert "muster_ray_connected 1.0" in metrics
    assert "muster_ray_restarts_total 1.0" in metrics
    assert len(ends_of(found, "k")) == 2


def agent_of(served: Served) -> int:
    """Return the process of a service that speaks to Ray."""
    threads = Path(f"/proc/{served.process.pid}/task").iterdir()
    children = " ".join((thread / "children").read_text() for thread in threads)
    (agent,) = [
        int(pid)
        for pid in children.split()
        if b"agent.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return agent
