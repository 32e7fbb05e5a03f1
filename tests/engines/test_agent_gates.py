"""Gangs: all members begin when all are placed, or none does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.agents import Agent
from tests.engines.cluster import Cluster, wait_until


@pytest.fixture
def agent(cluster: Cluster) -> Iterator[Agent]:
    """A new agent, so that its workers are cold."""
    agent = Agent(cluster)
    try:
        agent.wait_for("connected")
        yield agent
    finally:
        agent.close()


def gate(name: str, peers: int, *, reserve: bool = False) -> dict[str, Any]:
    return {"name": name, "peers": peers, "reserve": reserve}


def touch(path: str) -> None:
    Path(path).touch()
    while not Path(path).with_name("go").exists():
        time.sleep(0.01)


def whole(agent: Agent, cluster: Cluster) -> bool:
    return all(cluster.available()[agent.node(name)].get("CPU") == 2.0 for name in ("a", "b"))


@pytest.mark.parametrize("reserve", [False, True])
def test_members_begin_together(
    cluster: Cluster, agent: Agent, tmp_path: Path, reserve: bool
) -> None:
    # One node has a worker that is warm, so its member is placed long before the other one.
    agent.end_of(agent.call(agent.node("a"), "os:getpid"))

    runs = [
        agent.call(
            agent.node(name), touch, f"{tmp_path}/{name}", gate=gate("g", 2, reserve=reserve)
        )
        for name in ("a", "b")
    ]
    first, second = (agent.wait_for("started", run) for run in runs)
    (tmp_path / "go").touch()

    assert [agent.end_of(run)["say"] for run in runs] == ["ended", "ended"]
    assert abs(first["received_s"] - second["received_s"]) < 0.5
    times = [(tmp_path / name).stat().st_mtime for name in ("a", "b")]
    assert abs(times[0] - times[1]) < 0.5
    wait_until(lambda: whole(agent, cluster), "all is free again")


def test_members_are_commands_too(agent: Agent) -> None:
    runs = [agent.command(agent.node(name), "exit 2", gate=gate("g", 2)) for name in ("a", "b")]

    assert [agent.end_of(run).get("status") for run in runs] == [2, 2]


def test_member_that_cannot_start_fails_all(cluster: Cluster, agent: Agent, tmp_path: Path) -> None:
    good = agent.call(agent.node("a"), touch, f"{tmp_path}/good", gate=gate("g", 2))
    bad = agent.call("f" * 56, touch, f"{tmp_path}/bad", gate=gate("g", 2))

    assert agent.end_of(bad)["how"] == "node_lost"
    assert agent.end_of(good)["how"] == "gate"
    assert not (tmp_path / "good").exists()
    late = agent.call(agent.node("a"), "os:getpid", gate=gate("h", 1))
    assert agent.end_of(late)["say"] == "ended"
    wait_until(lambda: whole(agent, cluster), "all is free again")


def test_member_that_was_cancelled_fails_the_others(agent: Agent, tmp_path: Path) -> None:
    agent.end_of(agent.call(agent.node("a"), "os:getpid"))
    good, other = (
        agent.call(agent.node("a"), touch, f"{tmp_path}/{name}", gate=gate("g", 3))
        for name in ("good", "other")
    )
    agent.cancel(other)

    assert agent.end_of(other)["say"] == "cancelled"
    assert agent.end_of(good)["how"] == "gate"
    late = agent.call(agent.node("b"), touch, f"{tmp_path}/late", gate=gate("g", 3))
    assert agent.end_of(late)["how"] == "gate"
    assert list(tmp_path.iterdir()) == []


def test_member_that_waits_at_the_gate_is_cancelled_at_once(cluster: Cluster, agent: Agent) -> None:
    node = agent.node("a")
    agent.end_of(agent.call(node, "os:getpid"))
    alone = agent.command(node, ["sleep", "1000"], gate=gate("g", 2))
    wait_until(lambda: cluster.available()[node].get("CPU", 0.0) == 1.0, "it is placed")

    agent.cancel(alone, grace_s=1000.0)

    assert agent.end_of(alone)["gone"] is True


def test_waiting_at_the_gate_gives_no_processor_away(cluster: Cluster, agent: Agent) -> None:
    node = agent.node("a")
    agent.call(node, "os:getpid", gate=gate("g", 3))
    agent.call(node, "os:getpid", gate=gate("g", 3))
    wait_until(lambda: cluster.available()[node].get("CPU", 0.0) == 0.0, "both are placed")
    third = agent.call(node, "os:getpid")

    with pytest.raises(AssertionError, match="not come"):
        agent.wait(
            lambda message: message["say"] == "started" and message["id"] == third, within_s=1.0
        )


@pytest.mark.parametrize("detached", [False, True])
def test_reserved_room_is_given_back_when_a_gang_does_not_start(
    cluster: Cluster, agent: Agent, detached: bool
) -> None:
    more = {"gate": gate("g", 2, reserve=True), "detached": detached}
    good = agent.call(agent.node("a"), "os:getpid", **more)
    bad = agent.call(agent.node("b"), "os:getpid", **more, cpus=1000.0)
    time.sleep(0.5)
    agent.cancel(bad)

    assert agent.end_of(bad)["say"] == "cancelled"
    assert agent.end_of(good)["how"] == "gate"
    wait_until(lambda: whole(agent, cluster), "all is free again")


def test_room_is_whole_after_gangs_were_cancelled_at_any_moment(
    cluster: Cluster, agent: Agent
) -> None:
    nodes = [agent.node(name) for name in ("a", "b")]
    for turn in range(40):
        runs = [
            agent.command(node, ["sleep", "1000"], gate=gate(f"g{turn}", 2, reserve=True))
            for node in nodes
        ]
        time.sleep(turn % 8 * 0.002)
        agent.cancel(runs[0])
        assert agent.end_of(runs[0])["gone"] is True
        agent.cancel(runs[1])
        agent.end_of(runs[1])

    wait_until(lambda: whole(agent, cluster), "all is free again")


def test_room_of_a_detached_gang_is_given_back(cluster: Cluster, agent: Agent) -> None:
    more = {"gate": gate("g", 2, reserve=True), "detached": True}
    runs = [agent.call(agent.node(name), "os:getpid", **more) for name in ("a", "b")]

    assert [agent.end_of(run)["say"] for run in runs] == ["ended", "ended"]
    for run in runs:
        agent.send(do="fetched", id=run)
    wait_until(lambda: whole(agent, cluster), "all is free again")
