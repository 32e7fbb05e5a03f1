"""Clients that do not behave, of a service that is killed again and again.

Some submit events, and give some of their requests up. Others follow the decisions, cut their
connections anywhere, and read slowly. In the end each answered request is in the store, and each
follower has seen each decision once, in order.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, final

import attrs
import h11
import httpx
import trio

from muster.feeds._encodings.encode import to_json_line
from muster.store import StateReader
from muster_core.events import AddApp, AddAsk
from tests.actors.serving.listening import EventReader
from tests.actors.serving.served import PATIENCE_S, Served
from tests.attack.valid import CONFIG

_GONE: Final = (httpx.TransportError, OSError)


@final
@attrs.frozen
class Plan:
    """What is done.

    Attributes:
        seed: What determines it, but for the order in which tasks run.
        answers: After how many answered requests it ends.
        kills: How often the service is killed meanwhile.
        submitters: How many clients submit events.
        followers: How many clients follow the decisions.
    """

    seed: int
    answers: int
    kills: int
    submitters: int = 4
    followers: int = 6


@final
class Run:
    """A service, and all its clients.

    Args:
        folder: Where the state directory is.
        plan: What is done.

    Attributes:
        asks: The asks that the service has said to have added, by application.
        seen: The lines that each follower has got.
        faults: What must not happen.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._listen = "127.0.0.1:0"
        self._served: Served
        self._client: httpx.AsyncClient
        self._up = trio.Event()
        self._answers = 0
        self._next_answer = trio.Event()
        #: The last decision of which a client was told, and the last one that is followed.
        self._latest = 0
        self._last: int | None = None
        self.asks: dict[str, list[str]] = {}
        self.seen: list[list[bytes]] = [[] for _ in range(plan.followers)]
        self.faults: list[str] = []

    async def run(self) -> None:
        """Do what is planned, and check everything."""
        await self._start()
        self._client = httpx.AsyncClient(
            base_url=f"http://{self._listen}", timeout=PATIENCE_S, trust_env=False, verify=False
        )
        async with self._client, trio.open_nursery() as following:
            for number in range(self._plan.followers):
                following.start_soon(self._follow, number)
            async with trio.open_nursery() as nursery:
                for number in range(self._plan.submitters):
                    nursery.start_soon(self._submit, number)
                await self._kill_again_and_again()
                while self._answers < self._plan.answers:
                    await self._next_answer.wait()
                nursery.cancel_scope.cancel()
            # What follows wakes those who wait for something to come.
            random = Random(self._plan.seed)
            with trio.move_on_after(PATIENCE_S) as waiting:
                while following.child_tasks:
                    await self._submit_once(random, "last", self._answers)
                    self._last = self._last or self._latest
            if waiting.cancelled_caught:
                self.faults.append("a follower has not come to the last decision")
                following.cancel_scope.cancel()
        status = await trio.to_thread.run_sync(self._served.stop)
        if status:
            self.faults.append(f"it ended with {status}")
        self._check()

    # The service

    async def _start(self) -> None:
        arguments = ("--state", str(self._folder / "state"), "--durability", "process")

        def start() -> Served:
            return Served(self._folder, *arguments, config=CONFIG, listen=(self._listen,))

        self._served = await trio.to_thread.run_sync(start)
        self._listen = self._served.urls[0].removeprefix("http://")
        self._up.set()

    async def _kill_again_and_again(self) -> None:
        random = Random(self._plan.seed)
        for _ in range(self._plan.kills):
            until = self._answers + random.randint(1, 2 * self._plan.answers // self._plan.kills)
            while self._answers < until:
                await self._next_answer.wait()
            self._up = trio.Event()
            await trio.to_thread.run_sync(self._served.kill)
            await self._start()

    # Those who submit

    async def _submit(self, number: int) -> None:
        random = Random(self._plan.seed * 1000 + number)
        at = 0
        while True:
            at += 1
            await self._submit_once(random, str(number), at)

    async def _submit_once(self, random: Random, who: str, at: int) -> None:
        await self._up.wait()
        app = f"app-{who}-{at}"
        events: list[dict[str, object]] = [
            {"op": "add_node", "node": f"n-{who}-{at}", "capacity": {"vcore": 2}},
            {"op": "add_app", "app": app, "queue": "root.dev", "user": "u"},
            {"op": "add_ask", "app": app, "ask": "k", "resources": {"vcore": 1}, "count": 3},
            {"op": "remove_node", "node": f"n-{who}-{random.randint(1, at)}"},
        ]
        patience_s = random.choice((0.0, 0.001, 0.005)) if random.random() < 0.2 else PATIENCE_S
        with suppress(*_GONE), trio.move_on_after(patience_s):
            answer = await self._client.post("/api/v1/events", json=events)
            if answer.status_code == 200:
                self._note(app, answer.json())
                self._latest = max(self._latest, int(answer.headers["muster-last-seq"]))
            elif answer.status_code != 503:
                self.faults.append(f"{answer.status_code}: {answer.text}")

    def _note(self, app: str, results: list[dict[str, object]]) -> None:
        self._answers += 1
        self._next_answer.set()
        self._next_answer = trio.Event()
        asks = results[2]["asks"]
        if results[2]["ok"] and isinstance(asks, list):
            self.asks[app] = asks

    # Those who follow

    async def _follow(self, number: int) -> None:
        random = Random(self._plan.seed * 77 + number)
        seen = self.seen[number]
        while self._last is None or len(seen) < self._last:
            await self._up.wait()
            with suppress(OSError, trio.BrokenResourceError, h11.RemoteProtocolError):
                host, _, port = self._listen.rpartition(":")
                async with await trio.open_tcp_stream(host, int(port)) as stream:
                    await self._follow_for_a_while(stream, random, seen)

    async def _follow_for_a_while(
        self, stream: trio.SocketStream, random: Random, seen: list[bytes]
    ) -> None:
        """Follow from the last id on, until the connection is cut at any place."""
        headers = [("host", self._listen), ("accept", "text/event-stream")]
        headers.append(("last-event-id", str(len(seen))))
        parser = h11.Connection(h11.CLIENT)
        request = h11.Request(method="GET", target="/api/v1/decisions", headers=headers)
        await stream.send_all(parser.send(request) or b"")
        parser.send(h11.EndOfMessage())
        reader = EventReader(str(len(seen)))
        left = random.choice((1, 300, 5_000, 100_000, 10_000_000))
        size = random.choice((50, 700, 65_536))
        while left > 0 and (self._last is None or len(seen) < self._last):
            event = parser.next_event()
            match event:
                case h11.NEED_DATA:
                    data = await stream.receive_some(size)
                    parser.receive_data(data)
                    left -= len(data)
                case h11.Response():
                    if event.status_code != 200:
                        if event.status_code != 503:
                            self.faults.append(f"a stream was answered by {event.status_code}")
                        return
                case h11.Data():
                    if not self._take(reader, bytes(event.data), seen):
                        return
                case _:
                    return
            if random.random() < 0.005:
                await self._next_answer.wait()  # It reads nothing meanwhile.

    def _take(self, reader: EventReader, part: bytes, seen: list[bytes]) -> bool:
        """Take a part of a stream; return whether more may follow."""
        for sent in reader.feed(part):
            if sent.kind != "decision":
                return False  # It was too slow, and begins again.
            seen.append(sent.data.encode() + b"\n")
            if sent.last_id != str(len(seen)):
                self.faults.append(f"{sent.last_id} came after {len(seen) - 1}")
                return False
        return True

    # The end

    def _check(self) -> None:
        with StateReader(self._folder / "state") as reader:
            batches = list(reader.batches())
        kept = [to_json_line(one.as_map()) for batch in batches for one in batch.decisions]
        for number, seen in enumerate(self.seen):
            if seen != kept[: len(seen)] or len(seen) < (self._last or 0):
                self.faults.append(f"follower {number} has seen others than those that are kept")
        apps = {e.app for batch in batches for e in batch.events if isinstance(e, AddApp)}
        asks = {
            (event.app, name)
            for batch in batches
            for event in batch.events
            if isinstance(event, AddAsk)
            for name in event.names()
        }
        for app, names in self.asks.items():
            if app not in apps or not {(app, name) for name in names} <= asks:
                self.faults.append(f"{app} was answered, and is not kept")
