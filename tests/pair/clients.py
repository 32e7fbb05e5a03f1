"""The clients of a storm: submitters repeat calls until they are answered, watchers follow decisions."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, Protocol, final

import httpx
import trio

from tests.pair.books import Answer, Books, Call
from tests.pair.servers import Node, becomes_true

APP: Final = "storm"
SETUP: Final[Sequence[Mapping[str, Any]]] = (
    *({"op": "add_node", "node": f"n{n}", "capacity": {"vcore": 32}} for n in range(2)),
    {"op": "add_app", "app": APP, "queue": "root.dev"},
)

_PAUSE_S: Final = 0.06
_ANSWER_S: Final = 4.0
_CALL_S: Final = 180.0
"""How long a call may be repeated, in seconds: no storm holds for so long."""

_SILENCE_S: Final = 2.5
_HELD: Final = frozenset({409, 503})


class World(Protocol):
    """The storm, as its clients see it."""

    books: Books
    counts: Counter[str]
    nodes: Sequence[Node]

    @property
    def leader(self) -> Node:
        """The leader, as far as is known."""
        ...

    def fault(self, message: str) -> None:
        """Note a fault."""
        ...


def _number(response: httpx.Response, name: str) -> int | None:
    value = response.headers.get(name)
    return None if value is None else int(value)


@final
class Submitter:
    """A client that sends events.

    Args:
        world: What it knows.
        random: Its source of chance.
        name: Its unique name.
        tells_term: Whether it tells servers of the highest term that it has heard of.
    """

    def __init__(self, world: World, random: Random, name: str, *, tells_term: bool) -> None:
        self._world = world
        self._random = random
        self._name = name
        self._numbers = itertools.count()
        self._tells_term = tells_term
        self._term = 0
        self._lasting: list[str] = []
        self._done: list[Call] = []
        self._client: httpx.AsyncClient

    async def run(self, ends: trio.Event) -> None:
        """Send calls until an event is set; each is answered before this returns."""
        random = self._random
        async with httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False) as self._client:
            while not ends.is_set():
                with trio.move_on_after(random.expovariate(1 / _PAUSE_S)):
                    await ends.wait()
                if self._done and random.random() < 0.05:
                    await self._until_answered(random.choice(self._done[-20:]))
                    continue
                call = self.draw()
                await self._until_answered(call)
                self._done.append(call)

    def draw(self, events: Sequence[Mapping[str, Any]] | None = None) -> Call:
        """Return the next call, which was not sent yet."""
        key = f"{self._name}-{next(self._numbers)}"
        call = Call(key, self._events(key) if events is None else events)
        self._world.books.calls.append(call)
        return call

    def _events(self, key: str) -> Sequence[Mapping[str, Any]]:
        random = self._random
        events: list[Mapping[str, Any]] = []
        for number in range(random.randint(1, 3)):
            if self._lasting and random.random() < 0.3:
                gone = self._lasting.pop(random.randrange(len(self._lasting)))
                events += ({"op": op, "app": APP, "ask": gone} for op in ("remove_ask", "release"))
                continue
            ask: dict[str, Any] = {"op": "add_ask", "app": APP, "ask": f"{key}-{number}"}
            ask["resources"] = {"vcore": random.randint(1, 2)}
            if random.random() < 0.8 or len(self._lasting) > 4:
                ask["run_for"] = f"{random.randint(50, 700)}ms"
            else:
                self._lasting.append(ask["ask"])
            events.append(ask)
        return events

    async def _until_answered(self, call: Call) -> None:
        """Send a call again and again, until there is one more answer to it."""

        async def was_answered() -> bool:
            await trio.sleep(self._random.choice((0.0, 0.01, 0.1, 0.4)) if call.tries else 0.0)
            return await self._was_answered(call)

        if not await becomes_true(was_answered, _CALL_S, 0.0):
            self._world.fault(f"{call.key} was sent {call.tries} times, and is not answered")

    async def send(self, call: Call) -> None:
        """Send a call until it is answered, with connections of its own."""
        async with httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False) as self._client:
            await self._until_answered(call)

    async def _was_answered(self, call: Call) -> bool:
        """Send a call once; return whether it was answered."""
        world, random = self._world, self._random
        node = world.leader if random.random() < 0.8 else random.choice(world.nodes)
        patience_s = random.choice((0.003, 0.02)) if random.random() < 0.03 else _ANSWER_S
        call.tries += 1
        world.counts["tries"] += 1
        response = None
        try:
            with trio.move_on_after(patience_s):
                response = await self._post(f"{node.url}/api/v1/events", call)
                if response.status_code == 307:
                    world.counts["sent on"] += 1
                    response = await self._post(response.headers["location"], call)
        except httpx.TransportError:
            return False
        if response is not None and response.status_code == 409 and "batch" in response.json():
            # It was carried out, and a copy of the store has no batch so old.
            batch = response.json()["batch"]
            if any(answer.headers[0] != batch for answer in call.answers):
                world.fault(f"{call.key}: {node.name} says that it was batch {batch}")
            return True
        if response is None or response.status_code in {*_HELD, 307}:
            return False
        if response.status_code != 200:
            problem = f"{response.status_code} {response.text[:300]}"
            world.fault(f"{call.key}: {node.name} has answered with {problem}")
            return True
        self._term = max(self._term, _number(response, "muster-term") or 0)
        names = ("muster-batch", "muster-first-seq", "muster-last-seq")
        batch, first, last = (_number(response, name) for name in names)
        answer = Answer(node.name, (batch, first, last), response.content)
        for problem in world.books.note(call, answer):
            world.fault(problem)
        return True

    async def _post(self, url: str, call: Call) -> httpx.Response:
        headers = {"Idempotency-Key": call.key, "Content-Type": "application/json"}
        if self._tells_term and self._term:
            headers["Muster-Term"] = str(self._term)
        return await self._client.post(url, content=call.body, headers=headers)


@final
class Watcher:
    """A client that follows the decisions.

    Args:
        world: What it knows.
        random: Its source of chance.
        name: Its name.
        is_strict: Whether it asks only the leader; otherwise it asks either server.

    Attributes:
        seen: The decisions that it got.
    """

    def __init__(self, world: World, random: Random, name: str, *, is_strict: bool) -> None:
        self.seen: list[str] = []
        self.name = name
        self._world = world
        self._random = random
        self._is_strict = is_strict

    async def run(self) -> None:
        """Follow the decisions until it is cancelled."""
        while True:
            world, random = self._world, self._random
            node = world.leader if self._is_strict else random.choice(world.nodes)
            for_s = random.expovariate(1 / 5)
            try:
                with trio.move_on_after(for_s):
                    await self._follow(node)
            except (httpx.TransportError, httpx.StreamError):
                pass
            await trio.sleep(random.choice((0.0, 0.05, 0.3)))

    async def _follow(self, node: Node) -> None:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(len(self.seen))}
        path, timeout = "/api/v1/decisions", httpx.Timeout(_SILENCE_S)
        async with (
            httpx.AsyncClient(base_url=node.url, timeout=timeout, trust_env=False) as client,
            client.stream("GET", path, headers=headers) as response,
        ):
            if response.status_code != 200:
                await response.aread()
                # A follower, or a former leader, may lack what the leader has announced.
                is_behind = response.status_code == 409 and node is not self._world.leader
                if response.status_code != 503 and not is_behind:
                    problem = f"{response.status_code} {response.text[:300]}"
                    self._world.fault(f"{self.name} after {len(self.seen)}: {node.name}: {problem}")
                    await trio.sleep(1)
                return
            seq = ""
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    seq = value
                elif name == "event" and value != "decision":
                    self._world.fault(f"{self.name} after {len(self.seen)}: {node.name}: {line}")
                elif name == "data":
                    self._take(seq, value, node)

    def _take(self, seq: str, line: str, node: Node) -> None:
        self._world.counts["followed"] += 1
        if int(seq) != len(self.seen) + 1 or json.loads(line)["seq"] != int(seq):
            problem = f"decision {seq} came after {len(self.seen)}: {line}"
            self._world.fault(f"{self.name}: {node.name}: {problem}")
        self.seen.append(line)
