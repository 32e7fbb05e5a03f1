"""Clients that follow the decisions, over all ends and cuts: each must get each one once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, final
from urllib.parse import urlencode

import h11
import trio

from muster.feeds._encodings import to_json_line
from muster_core.decisions import Announced
from tests.clash.drawing import APPS, GANGS, QUEUES
from tests.clash.wire import PART_BYTES, Answer, CutError, Request, StuckError, Wire
from tests.clash.world import World

_KINDS: Final = ("bound,released", "rejected", "bound")


def wanted_by(random: Random) -> dict[str, str]:
    """Draw a filter."""
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


def wants(wanted: Mapping[str, str], one: Mapping[str, Any]) -> bool:
    """Return whether a decision passes a filter."""
    queue = wanted.get("queue")
    there = one.get("queue")
    return (
        ("kinds" not in wanted or one["kind"] in wanted["kinds"].split(","))
        and ("app" not in wanted or one.get("app") == wanted["app"])
        and (
            queue is None
            or (there is not None and (there == queue or there.startswith(f"{queue}.")))
        )
        and ("gang" not in wanted or one.get("gang") == wanted["gang"])
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
        self._wanted = {} if number < 4 else wanted_by(random)
        self._is_whole = number < 4 or random.random() < 0.7
        #: The number behind which it goes on; None until it knows one.
        self._last: int | None = 0 if self._is_whole else None
        self._seen: list[tuple[int, bytes]] = []
        self.name = f"follower {number} ({self._manner}, {self._wanted})"

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
        """Go on until a decision was passed; one that has got none yet has nothing to go on from.

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
        """Yield how what it has got differs from what is kept.

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
            if wants(self._wanted, one)
        ]
        if kept != self._seen:
            for want, got in zip([*kept, None], [*self._seen, None], strict=False):
                if want != got:
                    yield (
                        f"{self.name}: {len(self._seen)} decisions seen, {len(kept)} kept, from "
                        f"{first} to {last}; first it has {got} instead of {want}"
                    )
                    return

    def hear(self, one: Announced) -> None:
        """Take a decision, as it comes."""
        self._take(one.seq, to_json_line(one.as_map()).rstrip(b"\n"))

    def _take(self, seq: int, line: bytes) -> None:
        if self._last is not None and seq <= self._last:
            self._world.fault(f"{self.name}: decision {seq} came after {self._last}")
        self._seen.append((seq, line))
        self._last = seq

    async def _page(self, until: int | None) -> None:
        query = {**self._wanted, "limit": str(self._random.choice((1, 50, 10_000)))}
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
        query = dict(self._wanted)
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
        # Who leaves does so anywhere: also in the middle of a decision.
        part = random.choice((50, 700, PART_BYTES)) if self._manner == "leaves" else PART_BYTES
        try:
            async with Wire(world.port, 2048 if is_slow else None, part) as wire:
                await wire.send(wire.written(request))
                await self._read(wire, life, until, is_slow=is_slow)
        except CutError as error:
            # Who reads slowly is cut off; what was sent until then counts.
            if not is_slow:
                world.lost(life, f"{self.name}: {error}")
        except StuckError as error:
            world.fault(f"life {life}: {self.name}: {error}")

    async def _read(self, wire: Wire, life: int, until: int | None, *, is_slow: bool) -> None:
        rest, status = b"", 0
        random = self._random
        async for event in wire.events(random if is_slow else None):
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
                        self._hear(life, one)
                    if is_slow and random.random() < 0.02:
                        await trio.sleep(random.choice((0.1, 0.5, 3.0)))
                case _:
                    pass
        if until is None and not is_slow:
            self._world.lost(life, f"{self.name}: the stream has ended")

    def _hear(self, life: int, written: bytes) -> None:
        """Take one event of the stream."""
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
