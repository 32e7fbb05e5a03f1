"""Clients that send events, and leave in the middle."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final, final

import trio

from tests.clash.drawing import Draft, Drawing
from tests.clash.wire import CutError, StuckError, Wire
from tests.clash.world import World

_PATH: Final = "POST /api/v1/events"


@final
class Submitter:
    """A client that sends events.

    Args:
        world: The world.
        random: Its source of chance.
        name: Its name, which nobody else has.
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
            async with Wire(world.port) as wire:
                data = wire.written(draft.request)
                if chance < 0.15:
                    draft.tries += 1
                    await self._leave(wire, draft, data, chance)
                    return
                draft.tries += 1
                draft.was_sent = True
                await wire.send(data)
                answer = await wire.answer(random if random.random() < 0.05 else None)
        except CutError as error:
            world.lost(life, f"{_PATH} {draft.marker}: {error}")
            return
        except StuckError as error:
            world.fault(f"life {life}: {_PATH} {draft.marker}: {error}")
            return
        may = (200,) if draft.key is None else (200, 409)
        if world.check(life, f"{_PATH} {draft.marker}", answer, *may) and answer.status == 200:
            world.take(world.account.answer(draft, answer))

    async def _leave(self, wire: Wire, draft: Draft, data: bytes, chance: float) -> None:
        """Send a part of a request, or all of it, and leave."""
        random = self._random
        self._world.tally.cut += 1
        if chance < 0.07:
            await wire.send(data[: random.randrange(len(data))])
        else:
            draft.was_sent = True
            await wire.send(data)
        if random.random() < 0.7:
            await trio.sleep(random.expovariate(1 / 0.005))
