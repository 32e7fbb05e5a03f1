"""How a run is done by Ray: as one task, or as a detached actor that outlives the program."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from muster.ray.connected.engine import Engine, Group, Handle, RunMap
from muster.ray.runner import Item

_TOKEN: Final = uuid.uuid4().hex[:12]
"""What no other agent has: gangs of different programs may have the same name."""

_LOOK_S: Final = 5.0
"""How long one call for the news of a detached run may last, in seconds."""

_AGAIN_S: Final = 0.2
"""How long to wait before a call is tried again, in seconds."""

_NAMED_S: Final = 10.0
"""How long the name of an actor that was killed may be taken, in seconds."""

_HEARD_S: Final = 5.0
"""How long a detached run may take to hear that it is to end, in seconds."""


class Task:
    """A run that is one task of Ray. It ends with the agent."""

    def __init__(self, engine: Engine, message: RunMap) -> None:
        self._engine = engine
        self._message = message
        self._items: Handle = None
        self._ending = asyncio.Event()

    async def items(self, gate: Handle, group: tuple[Group, int] | None) -> AsyncIterator[Item]:
        """Submit it, and give its items."""
        if self._engine.submits_slowly(self._message):
            await asyncio.to_thread(self._submit, gate, group)
        else:
            self._submit(gate, group)
        async for reference in self._items:
            yield await reference

    def _submit(self, gate: Handle, group: tuple[Group, int] | None) -> None:
        if self._ending.is_set():
            return
        self._items = self._engine.submit(self._message, gate, group)
        if self._ending.is_set():  # meanwhile, if this was in a thread
            self._engine.cancel(self._items, force=False)

    async def end(self, *, force: bool) -> None:
        """End it, softly or by force."""
        self._ending.set()
        if self._items is not None:
            await asyncio.to_thread(self._engine.cancel, self._items, force=force)

    async def forget(self) -> None:
        """Nobody needs its end any more."""


class Detached:
    """A run that is a detached actor of Ray.

    Args:
        engine: Ray.
        message: What to run.
    """

    def __init__(self, engine: Engine, message: RunMap) -> None:
        self._engine = engine
        self._message = message
        self.name: str = message["name"]
        self._actor: Handle = None
        self._may_have_begun = False
        self._group: str | None = None
        self._ending = asyncio.Event()

    def found(self, actor: Handle, group: str | None) -> None:
        """Take over its actor, which an earlier agent has started."""
        self._actor, self._group = actor, group
        self._may_have_begun = True

    async def items(self, gate: Handle, group: tuple[Group, int] | None) -> AsyncIterator[Item]:
        """Start it, if it was not, and give its items."""
        if self._actor is None and not await self._begin(gate, group):
            return
        actor: Handle = self._actor
        since = 0
        while True:
            try:
                items: list[Item] = await actor.items.remote(since, _LOOK_S)
            except Exception as error:
                if not self._engine.is_away(error):
                    raise
                await asyncio.sleep(_AGAIN_S)
                continue
            for item in items:
                yield item
            since += len(items)

    async def _begin(self, gate: Handle, group: tuple[Group, int] | None) -> bool:
        """Start it; return whether it has begun, and not been ended meanwhile."""
        if group is not None:
            self._group = group_name(self._message["gate"]["name"])
        actor = await self._start(group)
        if self._ending.is_set():
            return False
        await actor.about.remote()  # or it raises: it cannot be started
        if self._ending.is_set():
            return False
        self._may_have_begun = True
        actor.begin.remote(gate)
        return True

    async def _start(self, group: tuple[Group, int] | None) -> Handle:
        there = await asyncio.to_thread(self._engine.detached, self.name)
        if there is not None:
            await end_detached(self._engine, there, self._message["grace_s"])
        loop = asyncio.get_running_loop()
        until = loop.time() + _NAMED_S
        while self._actor is None and not self._ending.is_set():
            try:
                message = {**self._message, "group": self._group}
                self._actor = await asyncio.to_thread(self._engine.start_detached, message, group)
            except ValueError:  # the name is still taken
                if there is None or loop.time() >= until:
                    raise
                await asyncio.sleep(_AGAIN_S)
        return self._actor

    async def end(self, *, force: bool) -> None:
        """End it, softly or by force."""
        self._ending.set()
        if self._actor is None:
            return
        if force or not self._may_have_begun:
            await asyncio.to_thread(self._engine.kill, self._actor)
        else:
            await asyncio.wait_for(_done(self._actor.end.remote()), _HEARD_S)

    async def forget(self) -> None:
        """Let the actor go, and what was reserved for its gang, if it is the last one."""
        if self._actor is not None:
            await asyncio.to_thread(self._engine.kill, self._actor)
        if self._group is not None:
            await remove_unused_groups(self._engine, self._group)


async def end_detached(engine: Engine, actor: Handle, grace_s: float) -> None:
    """End a detached run with all that it has started, and its actor."""
    with suppress(Exception):
        await asyncio.wait_for(_done(actor.end.remote()), _HEARD_S)
        await asyncio.wait_for(_ended(actor), grace_s + 1.0)
    await asyncio.to_thread(engine.kill, actor)


async def _ended(actor: Handle) -> None:
    while (await actor.about.remote())["state"] == "running":  # noqa: ASYNC110 - it is elsewhere
        await asyncio.sleep(_AGAIN_S)


async def _done(reference: Handle) -> None:
    await reference


def group_name(gate: str) -> str:
    """Return the name of the placement group of a gang whose runs are detached."""
    return f"muster/{gate}/{_TOKEN}"


async def remove_unused_groups(engine: Engine, only: str | None = None) -> None:
    """Give back what was reserved for detached runs none of which is left.

    Args:
        engine: Ray.
        only: The name of the group to look at; all if None.
    """
    names = await asyncio.to_thread(engine.names_of_groups)
    if only is not None:
        names = [name for name in names if name == only]
    if not names:
        return
    used = set[str | None]()
    for name in await asyncio.to_thread(engine.names_of_detached):
        actor = await asyncio.to_thread(engine.detached, name)
        if actor is None:
            continue
        try:
            used.add((await asyncio.wait_for(_about(actor), _HEARD_S)).get("group"))
        except asyncio.TimeoutError:  # noqa: UP041 - not the same in Python 3.10
            return  # its room may be in any of them
        except Exception as error:  # noqa: BLE001 - whatever Ray raises
            if engine.is_away(error):
                return
    for name in names:
        if name not in used:
            await asyncio.to_thread(engine.remove_group_named, name)


async def _about(actor: Handle) -> dict[str, str]:
    about: dict[str, str] = await actor.about.remote()
    return about
