"""Clients of a round: submitters, readers, and followers, which get each decision once and in order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, final
from urllib.parse import urlencode

import h11
import trio

from muster.feeds._encodings import to_json_line
from muster_core.decisions import Announced
from tests.clash.requests import (
    APPS,
    CONFIGS,
    GANGS,
    NODES,
    PART_BYTES,
    QUEUES,
    Answer,
    Connection,
    CutError,
    Draft,
    Drawing,
    Request,
    StuckError,
)
from tests.clash.world import World

_PATH: Final = "POST /api/v1/events"


@final
class Submitter:
    """A client that sends events.

    Args:
        world: The world.
        random: Its source of chance.
        name: Its unique name.
    """

    def __init__(self, world: World, random: Random, name: str) -> None:
        self._world = world
        self._random = random
        self._drawing = Drawing(random, name)
        self._done: deque[Draft] = deque(maxlen=20)

    async def run(self) -> None:
        """Send events until it is cancelled."""
        random = self._random
        while True:
            await trio.sleep(random.expovariate(1 / 0.02))
            if self._done and random.random() < 0.1:
                await self._attempt(random.choice(self._done), is_patient=True)
                continue
            draft = self._drawing.draft()
            self._world.account.begin(draft)
            await self._work_off(draft)

    async def _work_off(self, draft: Draft) -> None:
        """Send a request; if its answer was lost, send one with a key again, as a rule."""
        random = self._random
        if draft.key is not None and random.random() < 0.1:
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(self._attempt, draft)
        while not draft.answers:
            await self._attempt(draft)
            if draft.key is None or random.random() < 0.1:
                return
        if draft.key is not None:
            self._done.append(draft)

    async def _attempt(self, draft: Draft, *, is_patient: bool = False) -> None:
        """Send a request once, and take its answer into account."""
        world, random = self._world, self._random
        life = await world.up()
        chance = 1.0 if is_patient else random.random()
        try:
            async with Connection(world.port) as connection:
                data = connection.encode(draft.request)
                if chance < 0.15:
                    draft.tries += 1
                    await self._leave(connection, draft, data, chance)
                    return
                draft.tries += 1
                draft.was_sent = True
                await connection.send(data)
                answer = await connection.answer(random if random.random() < 0.05 else None)
        except CutError as error:
            world.lost(life, f"{_PATH} {draft.marker}: {error}")
            return
        except StuckError as error:
            world.fault(f"life {life}: {_PATH} {draft.marker}: {error}")
            return
        may = (200,) if draft.key is None else (200, 409)
        if world.check(life, f"{_PATH} {draft.marker}", answer, *may) and answer.status == 200:
            world.take(world.account.answer(draft, answer))

    async def _leave(
        self, connection: Connection, draft: Draft, data: bytes, chance: float
    ) -> None:
        """Send a part of a request, or all of it, and leave."""
        random = self._random
        self._world.tally.cut += 1
        if chance < 0.07:
            await connection.send(data[: random.randrange(len(data))])
        else:
            draft.was_sent = True
            await connection.send(data)
        if random.random() < 0.7:
            await trio.sleep(random.expovariate(1 / 0.005))


_P: Final = "/ws/v1/partition/default"
_PLAIN: Final = (
    "/ws/v1/clusters",
    "/ws/v1/partitions",
    f"{_P}/queues",
    f"{_P}/applications/active",
    f"{_P}/applications/completed",
    f"{_P}/applications/rejected",
    f"{_P}/nodes",
    f"{_P}/placementrules",
    f"{_P}/usage/users",
    f"{_P}/usage/groups",
    "/ws/v1/scheduler/healthcheck",
    "/ws/v1/scheduler/node-utilizations",
    "/ws/v1/history/apps",
    "/ws/v1/history/containers",
    "/ws/v1/events/batch",
    "/ws/v1/config",
    "/ws/v1/metrics",
    "/debug/fullstatedump",
    "/metrics",
    "/metrics",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/api/v1/config",
)


@final
class Reader:
    """A client that reads, changes configurations, tries events, and renews leases.

    Args:
        world: The world.
        random: Its source of chance.
        name: Its unique name.
    """

    def __init__(self, world: World, random: Random, name: str) -> None:
        self._world = world
        self._random = random
        self._drawing = Drawing(random, name)

    async def run(self) -> None:
        """Read until it is cancelled."""
        random = self._random
        acts = (
            *(self._list,) * 8,
            *(self._single,) * 6,
            *(self._plain,) * 6,
            *(self._why,) * 2,
            *(self._try,) * 2,
            *(self._leave,) * 3,
            *(self._renew,) * 2,
            self._configure,
        )
        while True:
            await trio.sleep(random.expovariate(1 / 0.03))
            await random.choice(acts)()

    def _slowly(self) -> Random | None:
        return self._random if self._random.random() < 0.05 else None

    async def _list(self) -> None:
        """Read all pages of a list; no answer is older than what was answered before."""
        random = self._random
        name = random.choice(("queues", "apps", "asks", "asks", "gangs", "nodes"))
        query = f"limit={random.choice((1, 7, 100))}"
        if name in {"apps", "asks"} and random.random() < 0.3:
            query += f"&queue={random.choice(QUEUES)}"
        if name == "asks" and random.random() < 0.3:
            query += f"&app={random.choice(APPS)}"
        if name == "asks" and random.random() < 0.3:
            query += "&state=pending,bound"
        after, seen = "", set[str]()
        while True:
            newest = self._world.account.newest_answered
            target = f"/api/v1/{name}?{query}{after}"
            answer = await self._world.ask(Request("GET", target), 200, slowly=self._slowly())
            if answer is None:
                return
            found = answer.json()
            if found["batch"] < newest:
                problem = f"shows batch {found['batch']}, and {newest} was answered before"
                self._world.fault(f"life {self._world.life}: {target} {problem}")
            for item in found["items"]:
                which = f"{item.get('app')}/{item[name[:-1]]}"
                if which in seen and name in {"queues", "gangs", "nodes"}:
                    self._world.fault(f"{target} shows {which} twice")
                seen.add(which)
            if found["next"] is None or random.random() < 0.1:
                return
            after = f"&after={found['next']}"

    async def _single(self) -> None:
        random = self._random
        app, ask = random.choice(APPS), f"k{random.randrange(12)}"
        target = random.choice(
            (
                f"/api/v1/queues/{random.choice(QUEUES)}",
                f"/api/v1/apps/{app}",
                f"/api/v1/asks/{app}/{ask}",
                f"/api/v1/gangs/{random.choice(GANGS)}",
                f"/api/v1/nodes/{random.choice(NODES)}",
                f"{_P}/queue/{random.choice(QUEUES)}",
                f"{_P}/queue/{random.choice(QUEUES)}/applications",
                f"{_P}/application/{app}",
                f"{_P}/node/{random.choice(NODES)}",
                f"{_P}/usage/user/u",
                f"{_P}/usage/group/g",
            )
        )
        await self._world.ask(Request("GET", target), 200, 404, slowly=self._slowly())

    async def _plain(self) -> None:
        target = self._random.choice(_PLAIN)
        answer = await self._world.ask(Request("GET", target), 200, slowly=self._slowly())
        if answer is not None and answer.headers["content-type"].startswith("application/json"):
            answer.json()

    async def _why(self) -> None:
        random = self._random
        target = f"/api/v1/asks/{random.choice(APPS)}/k{random.randrange(12)}/why"
        if random.random() < 0.02:
            target += "?remedies=true"
            await self._world.ask(Request("GET", target), 200, 404, 503)
            return
        await self._world.ask(Request("GET", target), 200, 404)

    async def _try(self) -> None:
        """Try events, without a mark that is known: nothing of it may be kept."""
        draft = self._drawing.draft()
        request = Request(
            "POST", "/api/v1/events?dry_run=true", draft.request.headers, draft.request.body
        )
        answer = await self._world.ask(request, 200, 503)
        if answer is not None and answer.status == 200:
            count = len(answer.json()["results"])
            if count != len(draft.is_valid):
                self._world.fault(f"a dry run of {len(draft.is_valid)} events has {count} results")

    async def _configure(self) -> None:
        random = self._random
        target = "/api/v1/config" + random.choice(("", "?dry_run=true&since=0"))
        headers = {"Content-Type": "application/json"}
        body = json.dumps(random.choice(CONFIGS)).encode()
        answer = await self._world.ask(Request("PUT", target, headers, body), 200, 409)
        if answer is not None and answer.status == 200:
            batch = answer.json()["batch"]
            account = self._world.account
            account.newest_answered = max(account.newest_answered, batch or 0)

    async def _renew(self) -> None:
        target = f"/api/v1/nodes/leased-{self._random.randrange(3)}/lease"
        await self._world.ask(Request("PUT", target), 200, 404)

    async def _leave(self) -> None:
        """Begin a request, or read a part of an answer, and leave."""
        world, random = self._world, self._random
        life = await world.up()
        target = random.choice((*_PLAIN, "/api/v1/asks", "/ws/v1/events/stream"))
        world.tally.cut += 1
        try:
            async with Connection(world.port, random.choice((None, 2048))) as connection:
                data = connection.encode(Request("GET", target))
                if random.random() < 0.4:
                    await connection.send(data[: random.randrange(1, len(data))])
                    await trio.sleep(random.choice((0.0, 0.01, 0.1, 2.5)))
                    return
                await connection.send(data)
                with trio.move_on_after(random.expovariate(1 / 0.03)):
                    await connection.answer(random)
        except CutError as error:
            world.lost(life, f"{target}: {error}")
        except StuckError as error:
            world.fault(f"life {life}: {target}: {error}")


_KINDS: Final = ("bound,released", "rejected", "bound")


def draw_filter(random: Random) -> dict[str, str]:
    """Draw the parameters of a filter."""
    found: dict[str, str] = {}
    if random.random() < 0.5:
        found["kinds"] = random.choice(_KINDS)
    if random.random() < 0.2:
        found["app"] = random.choice(APPS)
    if random.random() < 0.3:
        found["queue"] = random.choice((*QUEUES, "root.team", "root"))
    if not found and random.random() < 0.2:
        found["gang"] = random.choice(GANGS)
    return found


def passes(filters: Mapping[str, str], decision: Mapping[str, Any]) -> bool:
    """Return whether a decision passes a filter."""
    queue = filters.get("queue")
    there = decision.get("queue")
    return (
        ("kinds" not in filters or decision["kind"] in filters["kinds"].split(","))
        and ("app" not in filters or decision.get("app") == filters["app"])
        and (
            queue is None
            or (there is not None and (there == queue or there.startswith(f"{queue}.")))
        )
        and ("gang" not in filters or decision.get("gang") == filters["gang"])
    )


@final
class Follower:
    """A client that follows the decisions.

    Args:
        world: The world.
        random: Its source of chance.
        number: Which one it is: some read as fast as they can, some slowly, some leave again and
            again, some read pages of lines.
    """

    def __init__(self, world: World, random: Random, number: int) -> None:
        self._world = world
        self._random = random
        self._manner = ("fast", "leaves", "slow", "pages")[number % 4]
        self._filter = {} if number < 4 else draw_filter(random)
        self._is_whole = number < 4 or random.random() < 0.7
        #: The number behind which it goes on; None until it knows one.
        self._last: int | None = 0 if self._is_whole else None
        self._seen: list[tuple[int, bytes]] = []
        self.name = f"follower {number} ({self._manner}, {self._filter})"

    async def run(self) -> None:
        """Follow until it is cancelled."""
        random = self._random
        while True:
            await trio.sleep(random.expovariate(1 / 0.05))
            if self._manner == "pages":
                await self._page(None)
                await trio.sleep(random.random() * 0.3)
                continue
            with trio.CancelScope() as scope:
                if self._manner == "leaves":
                    scope.deadline = trio.current_time() + random.expovariate(1 / 0.3)
                await self._stream(None, is_slow=self._manner == "slow")

    async def finish(self, until: int) -> None:
        """Go on until a decision was passed; a follower that has none yet has no place to go on from.

        Args:
            until: The number of the decision, which was announced.
        """
        while self._last is not None and self._last < until:
            if self._manner == "pages":
                await self._page(until)
            else:
                await self._stream(until, is_slow=False)
            if self._world.faults:
                return

    def faults(self, decisions: Sequence[Announced], until: int) -> Iterator[str]:
        """Yield where the decisions that it got differ from the kept ones.

        Args:
            decisions: All decisions that are kept.
            until: The number of the decision that was passed at least.
        """
        self._world.tally.seen += len(self._seen)
        first = 1
        if not self._is_whole:
            first = self._seen[0][0] if self._seen else until + 1
        last = max(until, self._seen[-1][0]) if self._seen else until
        maps = [one.as_map() for one in decisions[first - 1 : last]]
        kept = [
            (seq, to_json_line(one).rstrip(b"\n"))
            for seq, one in enumerate(maps, first)
            if passes(self._filter, one)
        ]
        if kept != self._seen:
            for want, got in zip([*kept, None], [*self._seen, None], strict=False):
                if want != got:
                    yield (
                        f"{self.name}: {len(self._seen)} decisions seen, {len(kept)} kept, from "
                        f"{first} to {last}; first it has {got} instead of {want}"
                    )
                    return

    def add(self, one: Announced) -> None:
        """Add a decision, as if the stream had sent it."""
        self._take(one.seq, to_json_line(one.as_map()).rstrip(b"\n"))

    def _take(self, seq: int, line: bytes) -> None:
        if self._last is not None and seq <= self._last:
            self._world.fault(f"{self.name}: decision {seq} came after {self._last}")
        self._seen.append((seq, line))
        self._last = seq

    async def _page(self, until: int | None) -> None:
        query = {**self._filter, "limit": str(self._random.choice((1, 50, 10_000)))}
        if self._last is not None:
            query["after"] = str(self._last)
        if until is not None:
            query["until"] = str(until)
            query["limit"] = "10000"
        target = f"/api/v1/decisions?{urlencode(query)}"
        slowly = self._random if self._random.random() < 0.1 else None
        answer = await self._world.ask(Request("GET", target), 200, slowly=slowly)
        if answer is None:
            return
        for line in answer.body.splitlines():
            self._take(json.loads(line)["seq"], line)
        reached = answer.number("muster-last-seq")
        assert reached is not None, "each page says it"
        if self._last is None and not self._seen:
            self._is_whole = True  # Pages begin with the first one that is kept.
        self._last = max(reached, self._last or 0)

    async def _stream(self, until: int | None, *, is_slow: bool) -> None:
        """Read one stream until it ends."""
        world, random = self._world, self._random
        life = await world.up()
        query = dict(self._filter)
        headers = {"Accept": "text/event-stream"}
        if self._last is not None:
            if random.random() < 0.7:
                headers["Last-Event-ID"] = str(self._last)
                query["after"] = "0"
            else:
                query["after"] = str(self._last)
        if until is not None:
            query["until"] = str(until)
        request = Request("GET", f"/api/v1/decisions?{urlencode(query)}", headers)
        world.tally.streams += 1
        # A client that leaves does so anywhere, also in the middle of a decision.
        part = random.choice((50, 700, PART_BYTES)) if self._manner == "leaves" else PART_BYTES
        try:
            async with Connection(world.port, 2048 if is_slow else None, part) as connection:
                await connection.send(connection.encode(request))
                await self._read(connection, life, until, is_slow=is_slow)
        except CutError as error:
            # A slow reader is cut off; what was sent until then counts.
            if not is_slow:
                world.lost(life, f"{self.name}: {error}")
        except StuckError as error:
            world.fault(f"life {life}: {self.name}: {error}")

    async def _read(
        self, connection: Connection, life: int, until: int | None, *, is_slow: bool
    ) -> None:
        rest, status = b"", 0
        random = self._random
        async for event in connection.events(random if is_slow else None):
            match event:
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    if status != 200:
                        answer = Answer(status, {}, bytes(event.data))
                        self._world.check(life, self.name, answer, 200)
                        return
                    *whole, rest = (rest + bytes(event.data)).split(b"\n\n")
                    for one in whole:
                        self._take_event(life, one)
                    if is_slow and random.random() < 0.02:
                        await trio.sleep(random.choice((0.1, 0.5, 3.0)))
                case _:
                    pass
        if until is None and not is_slow:
            self._world.lost(life, f"{self.name}: the stream has ended")

    def _take_event(self, life: int, written: bytes) -> None:
        """Process one event of the stream."""
        fields: dict[str, bytes] = {}
        for line in written.split(b"\n"):
            name, _, value = line.partition(b": ")
            fields[name.decode()] = value
        if fields.get("event") == b"gone":
            self._world.fault(f"life {life}: {self.name}: {written!r}")
        if fields.get("event") == b"decision":
            self._take(int(fields["id"]), fields["data"])
        elif "id" in fields:
            self._last = max(int(fields["id"]), self._last or 0)
