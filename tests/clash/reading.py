"""Clients that read: lists, single items, reasons, metrics, YuniKorn's end points; and rude ones."""

from __future__ import annotations

import json
from random import Random
from typing import Final, final

import trio

from tests.clash.drawing import APPS, CONFIGS, GANGS, NODES, QUEUES, Drawing
from tests.clash.wire import CutError, Request, StuckError, Wire
from tests.clash.world import World

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
        name: Its name, which nobody else has.
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
            heard = self._world.account.heard
            target = f"/api/v1/{name}?{query}{after}"
            answer = await self._world.ask(Request("GET", target), 200, slowly=self._slowly())
            if answer is None:
                return
            found = answer.json()
            if found["batch"] < heard:
                told = f"shows batch {found['batch']}, and {heard} was answered before"
                self._world.fault(f"life {self._world.life}: {target} {told}")
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
            account.heard = max(account.heard, batch or 0)

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
            async with Wire(world.port, random.choice((None, 2048))) as wire:
                data = wire.written(Request("GET", target))
                if random.random() < 0.4:
                    await wire.send(data[: random.randrange(1, len(data))])
                    await trio.sleep(random.choice((0.0, 0.01, 0.1, 2.5)))
                    return
                await wire.send(data)
                with trio.move_on_after(random.expovariate(1 / 0.03)):
                    await wire.answer(random)
        except CutError as error:
            world.lost(life, f"{target}: {error}")
        except StuckError as error:
            world.fault(f"life {life}: {target}: {error}")
