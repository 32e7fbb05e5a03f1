"""Tasks, detached actors and gates: how the agent runs work in Ray, and starts gangs together.

A run is one task of Ray, or a detached actor that outlives the program. The members of a gang wait at
a gate: they begin when all are placed, or none of them does.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from muster.ray._agent_interfaces import Engine, Group, Handle, RunMap
from muster.ray.runner import Item

if TYPE_CHECKING:
    from muster.ray._messages import GateOf


_TOKEN: Final = uuid.uuid4().hex[:12]
"""A text that no other agent has: gangs of different programs may have the same name."""

_LOOK_S: Final = 5.0
"""The time limit of one call for the new items of a detached run, in seconds."""

_AGAIN_S: Final = 0.2
"""How long to wait before a call is tried again, in seconds."""

_NAMED_S: Final = 10.0
"""How long the name of an actor that was killed may be taken, in seconds."""

_HEARD_S: Final = 5.0
"""How long a detached run may take to get the request to end, in seconds."""


class RayTask:
    """A run that is one task of Ray. It ends with the agent."""

    def __init__(self, engine: Engine, message: RunMap) -> None:
        self._engine = engine
        self._message = message
        self._items: Handle = None
        self._ending = asyncio.Event()

    async def items(self, gate: Handle, group: tuple[Group, int] | None) -> AsyncIterator[Item]:
        """Submit it, and yield its items."""
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
        """Forget it: its end is not needed any more."""


class DetachedActor:
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
        """Start it, if it was not started, and yield its items."""
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
        """Release the actor, and the reservation of its gang if it is the last one."""
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
    """Release the reservations for detached runs none of which is left.

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
    description: dict[str, str] = await actor.about.remote()
    return description


_RESERVE_S: Final = 20.0
"""How long Ray may take to reserve the room of a gang, in seconds."""

_CLOSED_S: Final = 2.0
"""How long it may still take when the gang does not start, in seconds."""

_SLICE_S: Final = 0.5

_MOST_CLOSED: Final = 1000
"""How many gates are remembered that were closed before all members had come: these come soon."""


class GangMember:
    """A member of a gang at its gate.

    Attributes:
        message: What the program wants to be run.
        spoil: Ends the run, since the gang does not start; it is called with the reason.
    """

    def __init__(self, message: RunMap, spoil: Callable[[str], None]) -> None:
        self.message = message
        self.spoil = spoil


class GateClosedError(Exception):
    """The gang does not start; the message says why."""


class GangGate:
    """The gate of one gang."""

    def __init__(self, name: str, peers: int) -> None:
        self.name = name
        self.peers = peers
        self.closed: str | None = None
        self.opened = False
        self.came: list[GangMember] = []
        self.present: set[GangMember] = set()
        self.placed: set[GangMember] = set()
        self.complete = asyncio.Event()
        self.closing = asyncio.Event()
        self.reserving: asyncio.Task[Group] | None = None
        self.group: Group | None = None
        self.keeps_group = False


class GangGates:
    """All gates of an agent."""

    def __init__(self, engine: Engine, spawn: Callable[[Awaitable[None]], None]) -> None:
        self._engine = engine
        self._spawn = spawn
        self._gates: dict[str, GangGate] = {}
        #: The gates that were closed before all members had come, and why.
        self._closed: dict[str, str] = {}
        self._actor: Handle = None
        self._starting = asyncio.Lock()

    def join(self, member: GangMember) -> GangGate:
        """Record a member of a gang.

        Raises:
            GateClosedError: If another member has failed already.
        """
        gate = self._gate(member.message["gate"])
        if gate is None:
            raise GateClosedError(self._closed[member.message["gate"]["name"]])
        if gate.closed is not None:
            raise GateClosedError(gate.closed)
        gate.came.append(member)
        if len(gate.came) >= gate.peers:
            gate.complete.set()
        gate.present.add(member)
        return gate

    def miss(self, gate_of: GateOf, why: str) -> None:
        """Record that a member is not going to come, so that the gang does not start."""
        gate = self._gate(gate_of)
        if gate is not None:
            self.close(gate, why)
            self._forget(gate)

    def _gate(self, gate_of: GateOf) -> GangGate | None:
        """Return a gate, a new one if no member has come yet; None if it was closed and left."""
        name = gate_of["name"]
        if name in self._closed:
            return None
        if name not in self._gates:
            self._gates[name] = GangGate(name, gate_of["peers"])
        return self._gates[name]

    async def actor(self) -> Handle:
        """Return the actor at which the members wait; the first gang starts it."""
        async with self._starting:
            if self._actor is None:
                self._actor = await asyncio.to_thread(self._engine.gates)
            return self._actor

    async def reserved(self, gate: GangGate, member: GangMember) -> tuple[Group, int] | None:
        """Wait until Ray has reserved the room of a gang.

        Returns:
            The group, and the place of the member in it; None if the member needs no room: Ray
            refuses an empty bundle.

        Raises:
            GateClosedError: If Ray does not reserve it in time.
        """
        await gate.complete.wait()
        if gate.closed is not None:
            raise GateClosedError(gate.closed)
        if not _needs_room(member):
            return None
        if gate.reserving is None:
            gate.reserving = asyncio.ensure_future(self._reserve(gate))
            gate.reserving.add_done_callback(_retrieve_failure)
        closing = asyncio.ensure_future(gate.closing.wait())
        await asyncio.wait({gate.reserving, closing}, return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if gate.closed is not None:
            raise GateClosedError(gate.closed)
        return gate.reserving.result(), _in_need(gate).index(member)

    async def _reserve(self, gate: GangGate) -> Group:
        members = [each.message for each in _in_need(gate)]
        detached = any(message["detached"] for message in members)
        gate.keeps_group = detached
        name = group_name(gate.name) if detached else None
        group = await asyncio.to_thread(self._engine.reserve, members, name)
        loop = asyncio.get_running_loop()
        until = loop.time() + _RESERVE_S
        why = f"Ray has not reserved room for all members within {_RESERVE_S:g} s"
        while not await asyncio.to_thread(self._engine.is_reserved, group, _SLICE_S):
            if gate.closed is not None:
                # Not at once: Ray keeps room on nodes for ever where a group is removed while it
                # is being reserved.
                until = min(until, loop.time() + _CLOSED_S)
            if loop.time() >= until:
                break
        else:
            if gate.closed is None:
                gate.group = group
                return group
            why = gate.closed
        # Ray would go on trying for ever, where a node has gone.
        await asyncio.to_thread(self._engine.remove_group, group)
        raise GateClosedError(why)

    def placed(self, gate: GangGate, member: GangMember) -> None:
        """Record that a member has its room and waits; open the gate if it was the last one."""
        gate.placed.add(member)
        if not gate.opened and gate.closed is None and len(gate.placed) >= gate.peers:
            gate.opened = True
            self._spawn(self._go(gate))

    async def _go(self, gate: GangGate) -> None:
        try:
            await self._actor.go.remote(gate.name, True)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises
            self._actor = None  # the next gang gets another one
            gate.opened = False
            self.close(gate, f"the gate is lost: {error}")

    def lost(self, gate: GangGate) -> None:
        """Record that the actor at which the members wait is lost."""
        self._actor = None
        self.close(gate, "the gate is lost")

    def close(self, gate: GangGate, why: str) -> None:
        """Close a gate: the gang does not start; end all its members that have come."""
        if gate.opened or gate.closed is not None:
            return
        gate.closed = why
        gate.complete.set()
        gate.closing.set()
        if self._actor is not None:
            # Sent now, before the actor may forget the gate.
            self._spawn(self._await_closing(self._actor.go.remote(gate.name, False)))
        for member in list(gate.present):
            member.spoil(why)

    async def _await_closing(self, call: Handle) -> None:
        try:
            await call
        except Exception:  # noqa: BLE001 - then the waiting members know that the actor is lost
            self._actor = None

    def leave(self, gate: GangGate, member: GangMember, why: str) -> None:
        """Record that a run is over."""
        gate.present.discard(member)
        self.close(gate, why)
        self._forget(gate)

    def _forget(self, gate: GangGate) -> None:
        """Remove a gate when all its members are over."""
        if gate.present:
            return
        if gate.group is not None and not (gate.opened and gate.keeps_group):
            group, gate.group = gate.group, None
            self._spawn(asyncio.to_thread(self._engine.remove_group, group))
        self._gates.pop(gate.name, None)
        if len(gate.came) < gate.peers:
            self._closed[gate.name] = gate.closed or "the gang has left its gate"
            if len(self._closed) > _MOST_CLOSED:
                del self._closed[next(iter(self._closed))]
        if self._actor is not None:
            self._actor.forget.remote(gate.name)


def _in_need(gate: GangGate) -> list[GangMember]:
    """Return the members of a gang that need room."""
    return [each for each in gate.came if _needs_room(each)]


def _needs_room(member: GangMember) -> bool:
    run = member.message
    amounts = (run["cpus"], run["gpus"], run["memory"], *run["resources"].values())
    return any(amount > 0 for amount in amounts)


def _retrieve_failure(reserving: asyncio.Task[Group]) -> None:
    """Take the failure of a reservation that no member waits for any more."""
    if not reserving.cancelled():
        reserving.exception()
