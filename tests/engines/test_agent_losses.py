"""Whatever is killed: the program gets a message, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engines import cluster as clusters
from tests.engines.agents import Agent
from tests.engines.cluster import Cluster, wait_until
from tests.engines.daemons import running_in, state_of


@pytest.fixture
def agent(cluster: Cluster) -> Iterator[Agent]:
    agent = Agent(cluster)
    try:
        agent.wait_for("connected")
        yield agent
    finally:
        agent.close()


def has_ended(pid: int) -> bool:
    return state_of(pid) == "Z"


def deaf(pid_file: str) -> str:
    """Return a command that does not end by itself, with a grandchild that does not either."""
    return f"trap '' TERM; sh -c 'while :; do sleep 0.1; done' & echo $! > {pid_file}; wait"


def grandchild(pid_file: Path) -> int:
    wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), "it runs")
    return int(pid_file.read_text())


def test_forced_cancel_leaves_no_grandchild(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    run = agent.command(agent.node("a"), deaf(str(file)), grace_s=0.3)
    pid = agent.wait_for("started", run)["pid"]
    child = grandchild(file)

    agent.cancel(run, grace_s=0.3)

    assert agent.end_of(run)["gone"] is True
    assert has_ended(pid)
    assert has_ended(child)


def test_worker_killed_is_lost(agent: Agent) -> None:
    run = agent.call(agent.node("a"), "time:sleep", 1000)
    os.kill(agent.wait_for("started", run)["pid"], signal.SIGKILL)

    assert agent.end_of(run)["how"] == "lost"


def test_command_whose_worker_was_killed_has_ended_when_that_is_said(
    agent: Agent, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    run = agent.command(agent.node("a"), deaf(str(file)), grace_s=0.5)
    agent.wait_for("started", run)
    child = grandchild(file)
    os.kill(_worker_of(run), signal.SIGKILL)

    assert agent.end_of(run)["how"] == "lost"
    assert has_ended(child)


def _worker_of(run: int) -> int:
    """Return the process of the worker that runs a command."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (folder / "cmdline").read_bytes()
            if title.startswith(f"ray::muster/app/ask-{run}/".encode()):
                return int(folder.name)
    raise AssertionError("no worker runs it")


def test_agent_killed_leaves_nothing(cluster: Cluster, agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    node = agent.node("a")
    command = agent.command(node, deaf(str(file)), grace_s=0.3)
    call = agent.call(node, "time:sleep", 1000)
    pids = [agent.wait_for("started", run)["pid"] for run in (command, call)]
    pids.append(grandchild(file))

    agent.kill()

    wait_until(lambda: all(has_ended(pid) for pid in pids), "nothing is left")
    wait_until(lambda: cluster.available()[node].get("CPU") == 2.0, "all is free again")


def test_program_gone_ends_the_agent_and_its_runs(
    cluster: Cluster, agent: Agent, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    node = agent.node("a")
    command = agent.command(node, deaf(str(file)), grace_s=0.3)
    agent.wait_for("started", command)
    child = grandchild(file)

    agent.close()

    assert agent.process.returncode == 0
    wait_until(lambda: has_ended(child), "nothing is left")
    wait_until(lambda: cluster.available()[node].get("CPU") == 2.0, "all is free again")


def test_pinned_task_waits_on_a_busy_node(agent: Agent, tmp_path: Path) -> None:
    node = agent.node("a")
    first = agent.command(node, f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done", cpus=2.0)
    agent.wait_for("started", first)
    second = agent.call(node, "time:time", cpus=2.0)
    waits = agent.call(node, "time:time", cpus=2.0)
    agent.cancel(waits)
    assert agent.end_of(waits)["gone"] is True

    (tmp_path / "go").touch()

    ended = agent.end_of(first)
    assert agent.wait_for("started", second)["received_s"] >= ended["received_s"]
    assert agent.end_of(second)["say"] == "ended"


def test_raylet_killed(needs_ray: None, tmp_path: Path) -> None:
    del needs_ray
    with clusters.cluster("a", "b") as cluster:
        agent = Agent(cluster)
        try:
            _check_raylet_killed(cluster, agent, tmp_path)
        finally:
            agent.close()


def _check_raylet_killed(cluster: Cluster, agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    node, other = agent.node("a"), agent.node("b")
    command = agent.command(node, deaf(str(file)), grace_s=1000.0)
    call = agent.call(node, "time:sleep", 1000)
    kept = agent.command(node, ["sleep", "1000"], detached=True, cpus=0.0)
    pids = [agent.wait_for("started", run)["pid"] for run in (command, call, kept)]
    pids.append(grandchild(file))
    killed = time.monotonic()
    cluster.kill("a")

    assert [agent.end_of(run)["how"] for run in (command, call, kept)] == ["node_lost"] * 3
    took_s = max(agent.end_of(run)["received_s"] for run in (command, call)) - killed
    wait_until(lambda: all(has_ended(pid) for pid in pids), "nothing is left")
    agent.wait(
        lambda message: (
            message["say"] == "nodes" and node not in _ids(message) and _has(message, other)
        )
    )
    assert took_s < 12.0, "without the fence it would take longer"
    again = agent.call(other, "os:getpid")
    assert agent.end_of(again)["say"] == "ended"


def _ids(message: dict[str, Any]) -> list[str]:
    return [one["id"] for one in message["nodes"]]


def _has(message: dict[str, Any], node: str) -> bool:
    return node in _ids(message)


def test_head_away_does_not_stop_the_beat(needs_ray: None) -> None:
    del needs_ray
    with clusters.cluster("a") as cluster:
        agent = Agent(cluster)
        try:
            node = agent.node("a")
            run = agent.call(node, "time:sleep", 6)
            agent.wait_for("started", run)
            cluster.kill_head()
            agent.call(node, "os:getpid")
            killed = time.monotonic()
            agent.wait(
                lambda message: message["say"] == "beat" and message["received_s"] > killed + 5.0
            )
            beats = [
                message["received_s"] for message in agent.messages if message["say"] == "beat"
            ]
            late = [after - before for before, after in pairwise(beats)]
            assert max(late) < 5.0
            assert agent.end_of(run)["say"] == "ended"
        finally:
            agent.kill()
            agent.close()


def test_ignored_interrupts_are_said(needs_ray: None) -> None:
    del needs_ray
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with clusters.cluster("a") as cluster:
            agent = Agent(cluster)
            try:
                message = agent.wait_for("warning")
                assert message["node"] == agent.node("a")
                assert "SIGINT is ignored" in message["text"]
            finally:
                agent.close()
    finally:
        signal.signal(signal.SIGINT, before)


def _workers(cluster: Cluster) -> set[int]:
    """Return the workers of Ray, also those that do nothing."""
    found: set[int] = set()
    for pid in running_in(cluster.namespace):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
                found.add(pid)
    return found


def test_warm_workers_are_there(cluster: Cluster, tmp_path: Path) -> None:
    def meet(mine: str, other: str) -> None:
        Path(mine).touch()
        while not Path(other).exists():
            time.sleep(0.01)

    node = next(one for one, free in cluster.available().items() if free.get("CPU") == 2.0)
    quiet = Agent(cluster, follow=False)  # it looks at no node, and so starts no workers by itself
    try:
        quiet.wait_for("connected")
        before = _workers(cluster)
        quiet.send(do="warm", node=node, count=2)
        wait_until(lambda: len(_workers(cluster) - before) >= 2, "two more workers are there")
        warm = _workers(cluster)
        one, two = str(tmp_path / "one"), str(tmp_path / "two")
        runs = [quiet.call(node, meet, one, two), quiet.call(node, meet, two, one)]

        assert [quiet.end_of(run)["say"] for run in runs] == ["ended", "ended"]
        pids = {quiet.wait_for("started", run)["pid"] for run in runs}
        assert len(pids) == 2
        assert pids <= warm
    finally:
        quiet.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://127.0.0.1:1", "must be HOST:PORT"),
        ("127.0.0.1", "must be HOST:PORT"),
        ("127.0.0.1:no", "must be HOST:PORT"),
        ("127.0.0.1:1", "no cluster of Ray listens at 127.0.0.1:1"),
    ],
)
def test_connection_that_cannot_be_made_is_refused(
    cluster: Cluster, address: str, message: str
) -> None:
    agent = Agent(cluster, address=address, follow=False)
    try:
        refused = agent.wait_for("refused")
        assert refused["reason"] == "connect"
        assert message in refused["text"]
        assert agent.process.wait(60) == 1
    finally:
        agent.close()
