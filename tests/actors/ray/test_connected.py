"""The runs of an agent, on a Ray that does what a test says: no daemons, no processes."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgpack
import pytest

from muster.ray._agent_interfaces import MessageWriter, one_line, open_output
from muster.ray._agent_runs import AgentRuns
from muster.ray._messages import LARGEST_BYTES, GateOf, NodeMap
from muster.ray.runner import ENDED, FAILED, PLACED, STARTED, Item

LONG_S = 60.0

Body = Callable[["Puppet"], Coroutine[Any, Any, None]]


class Items:
    """The items of a task, each as soon as the test gives it."""

    def __init__(self) -> None:
        self._given = asyncio.Queue[Item | Exception]()

    def give(self, *what: Item | Exception) -> None:
        for each in what:
            self._given.put_nowait(each)

    async def __aiter__(self) -> AsyncIterator[Awaitable[Item]]:
        while True:
            item = await self._given.get()
            if isinstance(item, Exception):
                raise item
            yield _now(item)


async def _now(value: Any) -> Any:  # noqa: ANN401
    return value


class Method:
    """A method of an actor."""

    def __init__(self, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._call = call

    def remote(self, *arguments: Any) -> Awaitable[Any]:  # noqa: ANN401
        return asyncio.ensure_future(self._call(*arguments))


class GateActor:
    def __init__(self) -> None:
        self.names = set[str]()
        self.go = Method(self._go)
        self.forget = Method(self._forget)

    async def _go(self, name: str, _: bool) -> None:
        self.names.add(name)

    async def _forget(self, name: str) -> None:
        self.names.discard(name)


class Actor:
    """A detached run."""

    def __init__(self) -> None:
        self.state = "running"
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None
        self.was_asked_to_end = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.about = Method(self._description)
        self.items = Method(self._items)
        self.end = Method(self._end)

    async def _description(self) -> dict[str, Any]:
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        amounts: dict[str, Any] = {"cpus": 1.0, "gpus": 0.0, "memory": 0, "resources": {}}
        return {"node": "n", "state": self.state, "kind": "call", "group": None, **amounts}

    async def _items(self, since: int, _: float) -> list[Item]:
        items: list[Item] = [(STARTED, 7, 1), (ENDED, None, None)]
        if since:
            await self.was_asked_to_end.wait()
        return items[since : since + 1]

    async def _end(self) -> None:
        self.was_asked_to_end.set()
        await self.may_end.wait()
        self.state = "ended"


class FakeRay:
    """An engine; a task that is cancelled ends."""

    def __init__(self) -> None:
        self.tasks: dict[str, Items] = {}
        self.actors: dict[str, Actor] = {}
        self.gate = GateActor()
        self.is_away_for = 0
        self.names_may_come = threading.Event()
        self.names_may_come.set()
        self.is_asked_for_names = False
        self.small_raises = False
        #: The runs for which room was reserved, and in which place of it each run was submitted.
        self.reserved: list[int] = []
        self.places: dict[int, int | None] = {}

    def nodes(self) -> list[NodeMap]:
        return [{"id": "n", "labels": {}, "resources": {"CPU": 1.0}, "draining": False}]

    def submits_slowly(self, run: dict[str, Any]) -> bool:
        del run
        return False

    def submit(self, run: dict[str, Any], gate: Any, group: Any) -> Items:  # noqa: ANN401
        del gate
        self.places[run["id"]] = None if group is None else group[1]
        items = self.tasks[run["name"]] = Items()
        return items

    def cancel(self, items: Items, *, force: bool) -> None:
        del force
        items.give(RuntimeError("cancelled"))

    def small(self, node: str, name: str, *arguments: object) -> Awaitable[Any]:
        del node, name, arguments
        if self.small_raises:
            raise ValueError("the node has gone")
        return _now(True)

    def reserve(self, runs: Sequence[dict[str, Any]], name: str | None) -> str:
        self.reserved += [run["id"] for run in runs]
        return name or "group"

    def is_reserved(self, group: str, within_s: float) -> bool:
        del group, within_s
        return True

    def remove_group(self, group: str) -> None:
        del group

    def gates(self) -> GateActor:
        return self.gate

    def detached(self, name: str) -> Actor | None:
        if self.is_away_for:
            self.is_away_for -= 1
            raise OSError("the head is away")
        return self.actors.get(name)

    def start_detached(self, run: dict[str, Any], group: Any) -> Actor:  # noqa: ANN401
        del group
        actor = self.actors[run["name"]] = Actor()
        return actor

    def names_of_detached(self) -> list[str]:
        self.is_asked_for_names = True
        assert self.names_may_come.wait(LONG_S)
        return list(self.actors)

    def names_of_groups(self) -> list[str]:
        return []

    def kill(self, actor: Actor) -> None:
        for name, one in list(self.actors.items()):
            if one is actor:
                del self.actors[name]

    def is_pending(self, actor: Actor) -> bool:
        return actor.state == "pending"

    def node_of(self, actor: Actor) -> str:
        del actor
        return "n"

    def is_away(self, error: BaseException) -> bool:
        return isinstance(error, ConnectionError)

    def classify(self, error: BaseException) -> tuple[str, str, str]:
        return "lost", str(error), str(error)


class Puppet:
    """The runs of an agent, and the messages that they send."""

    def __init__(self, talk: MessageWriter, messages: asyncio.StreamReader) -> None:
        self.ray = FakeRay()
        self.runs = AgentRuns(self.ray, talk, 0.05)  # type: ignore[arg-type]  # it has what is used
        self._unpacker = msgpack.Unpacker(max_buffer_size=0)
        self._messages = messages

    async def next(self) -> dict[str, Any]:
        """Wait for the next message."""
        while True:
            message: dict[str, Any]
            for message in self._unpacker:
                return message
            self._unpacker.feed(await self._messages.read(1_000_000))

    def run(self, number: int, gate: GateOf | None = None, **more: Any) -> None:  # noqa: ANN401
        message = {
            "id": number,
            "name": f"a/k/{number}",
            "node": "n",
            "work": {"kind": "call"},
            "grace_s": 1.0,
            "gate": gate,
            "detached": False,
            "cpus": 1.0,
            "gpus": 0.0,
            "memory": 0,
            "resources": {},
        }
        self.runs.run({**message, **more})

    async def task(self, number: int) -> Items:
        """Wait for the task of a run."""
        await until(lambda: f"a/k/{number}" in self.ray.tasks)
        return self.ray.tasks[f"a/k/{number}"]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def play(body: Body) -> None:
    """Run a test in which the test decides what Ray does."""

    async def main() -> None:
        read, write = os.pipe()
        stream = asyncio.StreamReader()
        talk = await open_output(os.fdopen(write, "wb", buffering=0))
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(read, "rb", buffering=0)
        )
        agent = Puppet(talk, stream)
        try:
            await asyncio.wait_for(body(agent), LONG_S)
        finally:
            agent.ray.names_may_come.set()
            pipe.close()

    asyncio.run(main())


# What is too large, or cannot be said


def test_value_that_is_too_large_fails_its_run_and_no_other() -> None:
    async def body(agent: Puppet) -> None:
        agent.run(1)
        agent.run(2)
        (await agent.task(1)).give((STARTED, 7, 1), (ENDED, None, bytes(LARGEST_BYTES)))
        assert (await agent.next())["say"] == "started"
        failed = await agent.next()
        assert (failed["say"], failed["id"], failed["how"]) == ("failed", 1, "work")
        assert str(LARGEST_BYTES) in failed["error"]
        (await agent.task(2)).give((ENDED, None, b"v"))
        assert await agent.next() == {"say": "ended", "id": 2, "status": None, "value": b"v"}

    play(body)


@pytest.mark.parametrize("text", ["\udcff", "x" * 300_000_000], ids=["surrogate", "long"])
def test_text_of_any_kind_is_said(text: str) -> None:
    async def body(agent: Puppet) -> None:
        agent.run(1)
        (await agent.task(1)).give((FAILED, f"Error: {text}", f"{text}the end"))
        failed = await agent.next()
        assert (failed["say"], failed["how"]) == ("failed", "work")
        assert failed["error"].startswith("Error: ")
        assert failed["text"].endswith("the end")
        assert len(failed["text"]) < 2_000_000

    play(body)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n  first\nTraceback:\n"), "ValueError: first"),
        (KeyError(), "KeyError"),
    ],
)
def test_an_error_is_a_line(error: Exception, line: str) -> None:
    assert one_line(error) == line


# Losses


def test_end_is_said_when_the_node_cannot_be_asked_any_more() -> None:
    async def body(agent: Puppet) -> None:
        agent.ray.small_raises = True
        agent.run(1)
        (await agent.task(1)).give((STARTED, 7, 1), RuntimeError("crashed"))
        assert (await agent.next())["say"] == "started"
        assert (await agent.next())["how"] == "lost"

    play(body)


# Gangs


def gate(peers: int, *, reserve: bool = False) -> GateOf:
    return {"name": "g/1", "peers": peers, "reserve": reserve}


@pytest.mark.parametrize("needs", [{2, 3}, set[int]()])
def test_member_without_amounts_needs_no_room(needs: set[int]) -> None:
    async def body(agent: Puppet) -> None:
        for number in (1, 2, 3):
            cpus = float(number in needs)
            agent.run(number, gate(3, reserve=True), cpus=cpus, resources={"licence": 0.0})
        for number in (1, 2, 3):
            await agent.task(number)
        assert agent.ray.reserved == sorted(needs)
        assert agent.ray.places == {1: None, 2: 0 if needs else None, 3: 1 if needs else None}
        for number in (1, 2, 3):
            agent.runs.cancel(number, 1.0)
            assert (await agent.next())["say"] in {"cancelled", "failed"}

    play(body)


@pytest.mark.parametrize("is_first", [True, False])
def test_member_that_is_never_sent_fails_the_others(*, is_first: bool) -> None:
    async def body(agent: Puppet) -> None:
        if is_first:
            agent.runs.miss(gate(2), "the other one")
        agent.run(1, gate(2))
        if not is_first:
            (await agent.task(1)).give((PLACED, 7, 1))
            agent.runs.miss(gate(2), "the other one")
        failed = await agent.next()
        assert (failed["id"], failed["how"], failed["error"]) == (1, "gate", "the other one")
        assert not agent.ray.gate.names, "nothing is kept of it where the members wait"

    play(body)


def test_late_member_of_a_gang_that_has_failed_fails() -> None:
    async def body(agent: Puppet) -> None:
        agent.run(1, gate(3))
        (await agent.task(1)).give((ENDED, None, None))
        assert (await agent.next())["id"] == 1
        agent.run(2, gate(3))
        assert (await agent.next())["how"] == "gate"

    play(body)


# Detached runs


def test_adoption_that_is_cancelled_at_once_ends_the_run() -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        agent.runs.adopt(5, "a/k/1", 1.0)
        agent.runs.cancel(5, 1.0)
        assert await agent.next() == {"say": "cancelled", "id": 5, "gone": True}
        assert actor.was_asked_to_end.is_set()
        assert not agent.ray.actors

    play(body)


def test_adoption_waits_for_the_head() -> None:
    async def body(agent: Puppet) -> None:
        agent.ray.actors["a/k/1"] = Actor()
        agent.ray.is_away_for = 1
        agent.runs.adopt(5, "a/k/1", 1.0)
        assert await agent.next() == {"say": "started", "id": 5, "pid": 7}

    play(body)


def test_what_is_not_there_cannot_be_adopted() -> None:
    async def body(agent: Puppet) -> None:
        agent.runs.adopt(5, "a/k/1", 1.0)
        failed = await agent.next()
        assert (failed["id"], failed["how"]) == (5, "not_started")

    play(body)


def test_survivor_is_ended_when_the_head_is_there_again() -> None:
    async def body(agent: Puppet) -> None:
        agent.ray.actors["a/k/1"] = Actor()
        agent.ray.is_away_for = 1
        agent.runs.end_survivor("a/k/1", 1.0)
        await until(lambda: not agent.ray.actors)

    play(body)


def test_new_run_waits_until_an_earlier_one_of_its_ask_has_ended() -> None:
    async def body(agent: Puppet) -> None:
        earlier = agent.ray.actors["a/k/1"] = Actor()
        earlier.may_end.clear()
        agent.runs.end_survivor("a/k/1", 30.0)
        agent.run(2)
        agent.run(3, name="a/other/3")
        await until(lambda: "a/other/3" in agent.ray.tasks)
        await earlier.was_asked_to_end.wait()
        assert "a/k/2" not in agent.ray.tasks
        earlier.may_end.set()
        await agent.task(2)
        assert not agent.ray.actors

    play(body)


def test_run_that_waits_for_an_earlier_one_is_cancelled_at_once() -> None:
    async def body(agent: Puppet) -> None:
        earlier = agent.ray.actors["a/k/1"] = Actor()
        earlier.may_end.clear()
        agent.runs.end_survivor("a/k/1", 30.0)
        agent.run(2)
        agent.runs.cancel(2, 30.0)
        assert await agent.next() == {"say": "cancelled", "id": 2, "gone": True}
        earlier.may_end.set()

    play(body)


def test_run_that_begins_while_survivors_are_listed_is_none() -> None:
    async def body(agent: Puppet) -> None:
        agent.ray.names_may_come.clear()
        agent.ray.actors["a/old/1"] = Actor()
        listing = asyncio.ensure_future(agent.runs.survivors())
        await until(lambda: agent.ray.is_asked_for_names)
        agent.run(2, detached=True)
        await until(lambda: "a/k/2" in agent.ray.actors)
        agent.ray.names_may_come.set()
        await listing
        message = await agent.next()
        while message["say"] != "survivors":
            message = await agent.next()
        assert [one["name"] for one in message["survivors"]] == ["a/old/1"]

    play(body)


async def survivors(agent: Puppet) -> list[tuple[str, str]]:
    """List the detached runs of earlier agents: their names and states."""
    listing = asyncio.ensure_future(agent.runs.survivors())
    while (message := await agent.next())["say"] != "survivors":
        assert message["say"] == "warning"
    await listing
    return [(one["name"], one["state"]) for one in message["survivors"]]


def test_survivor_that_does_not_answer_is_listed_as_silent_until_it_does() -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        actor.may_answer.clear()
        agent.ray.actors["a/k/2"] = Actor()
        for _ in range(2):
            assert await survivors(agent) == [("a/k/1", "silent"), ("a/k/2", "running")]
        actor.may_answer.set()
        assert await survivors(agent) == [("a/k/1", "running"), ("a/k/2", "running")]
        assert not actor.was_asked_to_end.is_set()

    play(body)


@pytest.mark.parametrize(
    ("error", "found"),
    [(ConnectionError("unavailable"), [("a/k/1", "silent")]), (ValueError("it is dead"), [])],
)
def test_survivor_that_cannot_answer_may_live(
    error: Exception, found: list[tuple[str, str]]
) -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        actor.error = error
        assert await survivors(agent) == found
        actor.error = None
        assert await survivors(agent) == [("a/k/1", "running")]

    play(body)


def test_survivor_that_was_never_begun_is_ended() -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        actor.state = "pending"
        actor.may_answer.clear()
        assert await survivors(agent) == []
        assert agent.ray.actors == {}

    play(body)


def test_adoption_waits_for_an_answer() -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        actor.may_answer.clear()
        agent.runs.adopt(5, "a/k/1", 1.0)
        warning = await agent.next()
        assert warning["text"] == "the detached run a/k/1 does not answer; it is waited for"
        assert await survivors(agent) == []  # it is the program's own now
        actor.may_answer.set()
        assert await agent.next() == {"say": "started", "id": 5, "pid": 7}
        assert not actor.was_asked_to_end.is_set()

    play(body)


def test_adoption_ends_with_the_death_of_what_does_not_answer() -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        actor.error = ConnectionError("unavailable")
        agent.runs.adopt(5, "a/k/1", 1.0)
        assert (await agent.next())["say"] == "warning"
        actor.error = ValueError("it is dead")
        failed = await agent.next()
        assert (failed["id"], failed["how"]) == (5, "not_started")

    play(body)


def test_adoption_of_what_does_not_answer_can_be_cancelled() -> None:
    async def body(agent: Puppet) -> None:
        actor = agent.ray.actors["a/k/1"] = Actor()
        actor.may_answer.clear()
        agent.runs.adopt(5, "a/k/1", 1.0)
        assert (await agent.next())["say"] == "warning"
        agent.runs.cancel(5, 30.0)
        await actor.was_asked_to_end.wait()
        actor.may_answer.set()
        assert await agent.next() == {"say": "cancelled", "id": 5, "gone": True}
        assert not agent.ray.actors

    play(body)
