"""Detached runs: they outlive the agent, and another one goes on with them."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.engines.agents import Agent
from tests.engines.cluster import Cluster, wait_until
from tests.engines.daemons import state_of

Start = Callable[[], Agent]


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Start]:
    with ExitStack() as ended:

        def start() -> Agent:
            agent = Agent(cluster)
            ended.callback(agent.close)
            agent.wait_for("connected")
            return agent

        yield start


def free(cluster: Cluster, node: str) -> float:
    return cluster.available()[node].get("CPU", 0.0)


def has_ended(pid: int) -> bool:
    return state_of(pid) == "Z"


def survivors(agent: Agent) -> list[dict[str, Any]]:
    agent.send(do="survivors")
    found: list[dict[str, Any]] = agent.wait_for("survivors")["survivors"]
    return found


def test_detached_run_keeps_its_room_until_its_end_is_fetched(
    cluster: Cluster, start: Start
) -> None:
    agent = start()
    node = agent.node("a")

    run = agent.command(node, "exit 4", detached=True)

    assert agent.end_of(run)["status"] == 4
    assert free(cluster, node) == 1.0
    agent.send(do="fetched", id=run)
    wait_until(lambda: free(cluster, node) == 2.0, "the room is free")
    assert cluster.actors() == 0


def test_run_goes_on_without_its_agent_and_is_adopted(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    first = start()
    node = first.node("a")
    go = tmp_path / "go"
    command = f"while [ ! -e {go} ]; do sleep 0.05; done; exit 5"
    running = first.command(node, command, detached=True, name="app/long/7")
    over = first.call(node, lambda: "kept", detached=True, name="app/short/8")
    first.wait_for("started", running)
    first.end_of(over)
    first.kill()

    agent = start()
    found = {one["name"]: one for one in survivors(agent)}
    assert {name: one["state"] for name, one in found.items()} == {
        "app/long/7": "running",
        "app/short/8": "ended",
    }
    assert found["app/long/7"]["node"] == node
    assert found["app/long/7"]["cpus"] == 1.0
    agent.send(do="adopt", id=101, name="app/long/7", grace_s=5.0)
    agent.send(do="adopt", id=102, name="app/short/8", grace_s=5.0)
    agent.send(do="adopt", id=103, name="app/never/9", grace_s=5.0)

    assert agent.wait_for("started", 101)
    assert pickle.loads(agent.end_of(102)["value"]) == "kept"
    assert agent.end_of(103)["how"] == "not_started"
    go.touch()
    assert agent.end_of(101)["status"] == 5
    for number in (101, 102):
        agent.send(do="fetched", id=number)
    wait_until(lambda: free(cluster, node) == 2.0, "the room is free")
    assert cluster.actors() == 0


def test_adopted_run_is_cancelled_with_what_it_started(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    first = start()
    node = first.node("a")
    run = first.command(
        node, f"sh -c 'trap \"\" TERM; sleep 1000' & echo $! > {tmp_path}/pid; wait", detached=True
    )
    first.wait_for("started", run)
    wait_until(lambda: bool(_text(tmp_path / "pid")), "the command runs")
    first.kill()
    agent = start()
    (found,) = survivors(agent)

    agent.send(do="adopt", id=101, name=found["name"], grace_s=0.5)
    agent.wait_for("started", 101)
    agent.cancel(101, grace_s=0.5)

    ended = agent.end_of(101)
    assert (ended["say"], ended["gone"]) == ("cancelled", True)
    assert has_ended(int(_text(tmp_path / "pid")))
    wait_until(lambda: free(cluster, node) == 2.0, "the room is free")


def test_soft_cancel_reaches_a_detached_callable(start: Start, tmp_path: Path) -> None:
    def spin(path: str) -> None:
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            Path(path).write_text("interrupted")
            raise

    agent = start()
    run = agent.call(agent.node("a"), spin, str(tmp_path / "how"), detached=True)
    agent.wait_for("started", run)
    agent.cancel(run, grace_s=60.0)

    assert agent.end_of(run)["say"] == "cancelled"
    assert (tmp_path / "how").read_text() == "interrupted"


def _wait_for_the_end() -> None:
    while True:
        time.sleep(0.01)


def test_soft_cancel_lets_a_detached_callable_save_what_it_has(
    start: Start, tmp_path: Path
) -> None:
    def save(path: str) -> None:
        try:
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            for _ in range(200):  # meanwhile the agent asks several times
                time.sleep(0.01)
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            except ValueError:  # it is not in the main thread, as the docs say
                Path(path).write_text("saved")
            raise

    agent = start()
    run = agent.call(agent.node("a"), save, str(tmp_path / "how"), detached=True)
    agent.wait_for("started", run)
    agent.cancel(run, grace_s=60.0)

    assert agent.end_of(run)["say"] == "cancelled"
    assert (tmp_path / "how").read_text() == "saved"


def test_survivor_whose_node_is_busy_is_listed_when_it_answers(start: Start) -> None:
    first = start()
    node = first.node("a")
    run = first.call(node, _wait_for_the_end, detached=True, name="a/busy/1")
    worker = first.wait_for("started", run)["pid"]
    first.close()
    again = start()
    os.kill(worker, signal.SIGSTOP)
    try:
        (silent,) = survivors(again)
        assert (silent["name"], silent["state"], silent["node"]) == ("a/busy/1", "silent", node)
        again.send(do="adopt", id=9, name="a/busy/1", grace_s=10.0)
        waits = "the detached run a/busy/1 does not answer; it is waited for"
        again.wait(lambda message: message.get("text") == waits)
    finally:
        os.kill(worker, signal.SIGCONT)

    again.wait_for("started", 9)
    again.cancel(9, grace_s=10.0)
    assert again.end_of(9)["say"] == "cancelled"


def test_survivor_that_nobody_adopts_is_ended(cluster: Cluster, start: Start) -> None:
    first = start()
    run = first.command(first.node("a"), ["sleep", "1000"], detached=True)
    pid = first.wait_for("started", run)["pid"]
    first.kill()
    agent = start()
    (found,) = survivors(agent)

    agent.send(do="end", name=found["name"], grace_s=5.0)

    wait_until(lambda: has_ended(pid), "the command has ended")
    wait_until(lambda: free(cluster, agent.node("a")) == 2.0, "the room is free")
    assert cluster.actors() == 0


def test_run_with_the_name_of_one_that_is_there_replaces_it(cluster: Cluster, start: Start) -> None:
    first = start()
    node = first.node("a")
    run = first.command(node, ["sleep", "1000"], detached=True, name="app/again/1")
    pid = first.wait_for("started", run)["pid"]
    first.kill()
    agent = start()

    again = agent.command(node, "exit 6", detached=True, name="app/again/1")

    assert agent.end_of(again)["status"] == 6
    assert has_ended(pid)
    agent.send(do="fetched", id=again)
    wait_until(lambda: free(cluster, node) == 2.0, "the room is free")


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
