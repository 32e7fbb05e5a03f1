"""The agent on a real cluster: commands and callables, and how they end."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.agents import Agent
from tests.engines.cluster import Cluster, wait_until


@pytest.fixture(scope="module")
def agent(cluster: Cluster) -> Iterator[Agent]:
    agent = Agent(cluster)
    try:
        agent.wait_for("connected")
        yield agent
    finally:
        agent.close()


@pytest.fixture
def node(agent: Agent) -> str:
    return agent.node("a")


def all_of(agent: Agent, node: str) -> dict[str, float]:
    """Return everything that a node has."""
    message = agent.wait_for("nodes")
    found: dict[str, float] = next(one for one in message["nodes"] if one["id"] == node)[
        "resources"
    ]
    return found


def test_nodes_are_those_of_ray(cluster: Cluster, agent: Agent) -> None:
    message = agent.wait(lambda message: message["say"] == "nodes" and len(message["nodes"]) == 3)

    assert {node["id"] for node in message["nodes"]} == set(cluster.alive())
    mine = next(node for node in message["nodes"] if node["labels"].get("node_name") == "a")
    assert mine["resources"]["CPU"] == 2.0
    assert mine["labels"]["ray.io/node-id"] == mine["id"]
    assert mine["draining"] is False


def test_command_runs_with_its_environment(agent: Agent, node: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    run = agent.command(
        node, "echo $MUSTER_RUN $COLOUR; exit 3", env={"COLOUR": "red"}, stdout=str(out)
    )

    assert agent.end_of(run)["status"] == 3
    assert agent.wait_for("started", run)["pid"] > 0
    assert out.read_text() == f"app/ask-{run}/{run} red\n"


def test_command_that_is_not_there_fails(agent: Agent, node: str) -> None:
    failed = agent.end_of(agent.command(node, ["no-such-program"]))

    assert (failed["how"], failed["error"]) == (
        "work",
        "No such file or directory: 'no-such-program'",
    )


def test_signal_is_a_negative_status(agent: Agent, node: str) -> None:
    assert agent.end_of(agent.command(node, "kill -9 $$"))["status"] == -9


def test_callable_gives_its_value(agent: Agent, node: str) -> None:
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    run = agent.call(node, add, 1, kwargs={"b": 2})

    assert pickle.loads(agent.end_of(run)["value"]) == {"sum": 3}
    assert agent.wait_for("started", run)


def test_named_callable_gives_its_value(agent: Agent, node: str) -> None:
    run = agent.call(node, "os.path:basename", "/a/b")

    assert pickle.loads(agent.end_of(run)["value"]) == "b"


def test_callable_that_raises_says_where(agent: Agent, node: str) -> None:
    def divide(by: int) -> float:
        return 1 / by

    failed = agent.end_of(agent.call(node, divide, 0))

    assert failed["how"] == "work"
    assert failed["error"] == "ZeroDivisionError: division by zero"
    assert "in divide" in failed["text"]


def test_soft_cancel_reaches_a_callable(agent: Agent, node: str, tmp_path: Path) -> None:
    def spin(path: str) -> None:
        try:
            Path(path).write_text("begun")
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            Path(path).write_text("interrupted")
            raise

    run = agent.call(node, spin, str(tmp_path / "how"))
    wait_until((tmp_path / "how").exists, "it can be interrupted")
    agent.cancel(run, grace_s=60.0)

    assert agent.end_of(run) | {"received_s": 0} == {
        "say": "cancelled",
        "id": run,
        "gone": True,
        "received_s": 0,
    }
    assert (tmp_path / "how").read_text() == "interrupted"


def test_deaf_callable_is_killed(agent: Agent, node: str) -> None:
    def deaf() -> None:
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                continue

    run = agent.call(node, deaf)
    agent.wait_for("started", run)
    agent.cancel(run, grace_s=0.3)

    ended = agent.end_of(run)
    assert (ended["say"], ended["gone"]) == ("cancelled", True)


def test_exact_amounts_are_free_again(agent: Agent, cluster: Cluster, node: str) -> None:
    before = all_of(agent, node)
    run = agent.call(node, "time:sleep", 0, cpus=0.25, memory=1_000_000, resources={"none": 0.0})

    assert agent.end_of(run)["say"] == "ended"
    wait_until(lambda: cluster.available()[node] == before, "all is free again")


def test_amounts_that_the_node_has_not_are_refused(agent: Agent, node: str) -> None:
    failed = agent.end_of(agent.call(node, "time:sleep", 0, cpus=64.0))

    assert failed["how"] == "not_started"


def test_node_that_is_not_there_has_gone(agent: Agent) -> None:
    failed = agent.end_of(agent.call("f" * 56, "time:sleep", 0))

    assert failed["how"] == "node_lost"
