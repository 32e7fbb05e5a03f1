"""Work that does odd things, on a real Ray: none of it harms the agent or other runs."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Generator

import pytest

from tests.engines.agents import Agent
from tests.engines.cluster import Cluster


@pytest.fixture
def agent(cluster: Cluster) -> Generator[Agent]:
    agent = Agent(cluster)
    try:
        yield agent
    finally:
        agent.close()


def interrupts() -> None:
    raise KeyboardInterrupt


def exits() -> None:
    raise SystemExit(3)


def raises_what_is_no_text() -> None:
    raise ValueError(os.fsdecode(b"\xff"))


def gives_a_lock() -> object:
    return threading.Lock()


@pytest.mark.parametrize("function", [interrupts, exits, raises_what_is_no_text, gives_a_lock])
def test_odd_ends_are_failures_of_the_work(agent: Agent, function: Callable[[], object]) -> None:
    failed = agent.end_of(agent.call(agent.node("a"), function))
    assert (failed["say"], failed.get("how")) == ("failed", "work"), failed


def test_long_arguments_and_values(agent: Agent) -> None:
    def twice(data: bytes) -> bytes:
        return data + data

    ended = agent.end_of(agent.call(agent.node("a"), twice, bytes(50_000_000)))
    assert len(pickle.loads(ended["value"])) == 100_000_000


def test_output_does_not_meet_the_messages(agent: Agent) -> None:
    def prints() -> str:
        os.write(1, b"\xff" * 100_000)
        return "printed"

    ended = agent.end_of(agent.call(agent.node("a"), prints))
    assert pickle.loads(ended["value"]) == "printed"


@pytest.mark.parametrize("name", ["a%2Fb/é ü\n/1", "*/?#/2"])
def test_odd_names_of_detached_runs(agent: Agent, name: str) -> None:
    number = agent.command(agent.node("a"), "exit 4", detached=True, name=name)
    assert agent.end_of(number)["status"] == 4
    agent.send(do="fetched", id=number)
