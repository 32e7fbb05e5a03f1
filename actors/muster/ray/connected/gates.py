"""The gates of gangs: members begin when all are placed, or none of them does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from muster.ray.connected.engine import Engine, Group, Handle, RunMap
from muster.ray.connected.works import group_name

if TYPE_CHECKING:
    from muster.ray._messages import GateOf

_RESERVE_S: Final = 20.0
"""How long Ray may take to reserve the room of a gang, in seconds."""

_CLOSED_S: Final = 2.0
"""How long it may still take when the gang does not start, in seconds."""

_SLICE_S: Final = 0.5

_MOST_CLOSED: Final = 1000
"""How many gates are remembered that were closed before all members had come: these come soon."""


class Member:
    """A run, as its gate sees it.

    Attributes:
        message: What the program wants to be run.
        spoil: Ends the run, since the gang does not start; it is called with the reason.
    """

    def __init__(self, message: RunMap, spoil: Callable[[str], None]) -> None:
        self.message = message
        self.spoil = spoil


class GateClosedError(Exception):
    """The gang does not start; the message says why."""


class Gate:
    """The gate of one gang."""

    def __init__(self, name: str, peers: int) -> None:
        self.name = name
        self.peers = peers
        self.closed: str | None = None
        self.opened = False
        self.came: list[Member] = []
        self.here: set[Member] = set()
        self.placed: set[Member] = set()
        self.complete = asyncio.Event()
        self.closing = asyncio.Event()
        self.reserving: asyncio.Task[Group] | None = None
        self.group: Group | None = None
        self.keeps_group = False


class Gates:
    """All gates of an agent."""

    def __init__(self, engine: Engine, spawn: Callable[[Awaitable[None]], None]) -> None:
        self._engine = engine
        self._spawn = spawn
        self._gates: dict[str, Gate] = {}
        #: The gates that were closed before all members had come, and why.
        self._closed: dict[str, str] = {}
        self._actor: Handle = None
        self._starting = asyncio.Lock()

    def join(self, member: Member) -> Gate:
        """Note a member of a gang.

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
        gate.here.add(member)
        return gate

    def miss(self, about: GateOf, why: str) -> None:
        """Note that a member is not going to come, so that the gang does not start."""
        gate = self._gate(about)
        if gate is not None:
            self.close(gate, why)
            self._forget(gate)

    def _gate(self, about: GateOf) -> Gate | None:
        """Return a gate, which is new if nobody has come yet; None if it was closed and left."""
        name = about["name"]
        if name in self._closed:
            return None
        if name not in self._gates:
            self._gates[name] = Gate(name, about["peers"])
        return self._gates[name]

    async def actor(self) -> Handle:
        """Return the actor at which the members wait; the first gang starts it."""
        async with self._starting:
            if self._actor is None:
                self._actor = await asyncio.to_thread(self._engine.gates)
            return self._actor

    async def reserved(self, gate: Gate, member: Member) -> tuple[Group, int] | None:
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
            gate.reserving.add_done_callback(_heard)
        closing = asyncio.ensure_future(gate.closing.wait())
        await asyncio.wait({gate.reserving, closing}, return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if gate.closed is not None:
            raise GateClosedError(gate.closed)
        return gate.reserving.result(), _in_need(gate).index(member)

    async def _reserve(self, gate: Gate) -> Group:
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

    def placed(self, gate: Gate, member: Member) -> None:
        """Note that a member has its room and waits; open the gate if it was the last one."""
        gate.placed.add(member)
        if not gate.opened and gate.closed is None and len(gate.placed) >= gate.peers:
            gate.opened = True
            self._spawn(self._go(gate))

    async def _go(self, gate: Gate) -> None:
        try:
            await self._actor.go.remote(gate.name, True)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises
            self._actor = None  # the next gang gets another one
            gate.opened = False
            self.close(gate, f"the gate is lost: {error}")

    def lost(self, gate: Gate) -> None:
        """Note that the actor at which the members wait is lost."""
        self._actor = None
        self.close(gate, "the gate is lost")

    def close(self, gate: Gate, why: str) -> None:
        """Say that a gang does not start: end all its members that are here."""
        if gate.opened or gate.closed is not None:
            return
        gate.closed = why
        gate.complete.set()
        gate.closing.set()
        if self._actor is not None:
            # Told now, before the gate may be forgotten there.
            self._spawn(self._told_closed(self._actor.go.remote(gate.name, False)))
        for member in list(gate.here):
            member.spoil(why)

    async def _told_closed(self, told: Handle) -> None:
        try:
            await told
        except Exception:  # noqa: BLE001 - then those who wait have heard it
            self._actor = None

    def leave(self, gate: Gate, member: Member, why: str) -> None:
        """Note that a run is over."""
        gate.here.discard(member)
        self.close(gate, why)
        self._forget(gate)

    def _forget(self, gate: Gate) -> None:
        """Clear away a gate when all its members are over."""
        if gate.here:
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


def _in_need(gate: Gate) -> list[Member]:
    """Return the members of a gang that need room."""
    return [each for each in gate.came if _needs_room(each)]


def _needs_room(member: Member) -> bool:
    run = member.message
    amounts = (run["cpus"], run["gpus"], run["memory"], *run["resources"].values())
    return any(amount > 0 for amount in amounts)


def _heard(reserving: asyncio.Task[Group]) -> None:
    """Take the failure of a reservation that no member waits for any more."""
    if not reserving.cancelled():
        reserving.exception()
