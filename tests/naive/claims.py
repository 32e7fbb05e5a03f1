"""Who may take from whom in the naive model: the claims of reclaim and of preemption."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import attrs
from typing_extensions import override

from muster_core.config.model import PreemptionPolicy, Settings
from muster_core.decisions import Reason
from tests.naive.gangs import group_of
from tests.naive.picture import Picture
from tests.naive.services import is_service
from tests.naive.state import ROOT, Ask, World, lineage


@attrs.frozen
class Claim(ABC):
    """What one ask may take as things are.

    Attributes:
        world: What there is.
        ask: The ask.
        top: The queue inside which victims are looked for.
    """

    world: World
    ask: Ask
    top: str

    @property
    @abstractmethod
    def reason(self) -> Reason:
        """Why victims are released."""

    @abstractmethod
    def in_scope(self, victim: Ask) -> bool:
        """Say whether an ask with a node can be a victim at all."""

    @abstractmethod
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        """Say whether a victim may go as things are, and all of its unit with it."""

    @abstractmethod
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        """Give what victims are sorted by, as things are."""

    @abstractmethod
    def rank(self, victim: Ask) -> tuple[int, ...]:
        """Give what nodes are told apart by: the lower, the sooner its victims go."""

    @abstractmethod
    def message(self, victim: Ask) -> str:
        """Say to a person why a victim went."""

    def _inside(self, victim: Ask) -> bool:
        """Say whether a victim is below the top, no partner of the ask and no node service."""
        if is_service(self.world, victim):
            return False
        if self.ask.gang is not None and victim.gang is not None:
            group = group_of(self.world, self.ask.gang)
            if victim.gang in group.names:
                return False
        return victim.held and self.top in lineage(victim.app.queue)

    def _keeps_guarantees(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        """Say whether the loss of a unit leaves the queues of one of it what is guaranteed."""
        for path in branch(victim.app.queue, self.ask.app.queue):
            guaranteed = self.world.queues[path].guaranteed
            inside = [one for one in unit if path in lineage(one.app.queue)]
            for name in victim.wants:
                loss = sum(one.wants.get(name, 0) for one in inside)
                if picture.allocated[path].get(name, 0) - loss < guaranteed[name]:
                    return False
        return True


@attrs.frozen
class Reclaim(Claim):
    """A queue takes back what it is guaranteed.

    Attributes:
        claimant: That queue.
    """

    claimant: str

    @property
    @override
    def reason(self) -> Reason:
        return Reason.RECLAIMED

    @override
    def in_scope(self, victim: Ask) -> bool:
        leaf = victim.app.queue
        if self.claimant in lineage(leaf) or not self._inside(victim):
            return False
        settings = self.world.queues[leaf].settings
        return settings.reclaimable and _is_open(settings)

    @override
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        leaf = victim.app.queue
        used, guaranteed = picture.allocated[leaf], self.world.queues[leaf].guaranteed
        above = any(used.get(name, 0) > guaranteed[name] for name in victim.wants)
        return above and self._keeps_guarantees(picture, victim, unit)

    @override
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        share = picture.fair_share(victim.app.queue)
        return (self.rank(victim), -share, victim.priority, -victim.held_order)

    @override
    def rank(self, victim: Ask) -> tuple[int, ...]:
        down = reversed(branch(victim.app.queue, self.ask.app.queue))
        levels = [self.world.queues[path].settings.queue_priority for path in down]
        depth = max(len(lineage(path)) for path in self.world.queues)
        return tuple(levels + [0] * (depth - len(levels)))

    @override
    def message(self, victim: Ask) -> str:
        return f"for {_full(self.ask)}: {self.claimant} is below its guaranteed"


@attrs.frozen
class Preemption(Claim):
    """An ask takes from asks of lower effective priority."""

    @property
    @override
    def reason(self) -> Reason:
        return Reason.PREEMPTED

    @override
    def in_scope(self, victim: Ask) -> bool:
        if not self._inside(victim) or not _is_open(self.world.queues[victim.app.queue].settings):
            return False
        return self._of(victim) < self._against(victim)

    @override
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        return self._keeps_guarantees(picture, victim, unit)

    @override
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        return (self._of(victim), -victim.held_order)

    @override
    def rank(self, victim: Ask) -> tuple[int, ...]:
        return (self._of(victim),)

    @override
    def message(self, victim: Ask) -> str:
        mine, other = self._against(victim), self._of(victim)
        return f"for {_full(self.ask)}: its effective priority {mine} is above {other}"

    def _of(self, victim: Ask) -> int:
        """Give the effective priority of a victim, beside the ask."""
        return effective_priority(self.world, victim, self.ask.app.queue)

    def _against(self, victim: Ask) -> int:
        """Give the effective priority of the ask, beside a victim."""
        return effective_priority(self.world, self.ask, victim.app.queue)


@attrs.frozen
class Service(Claim):
    """A node service takes room on its node, wherever the victims' queues are."""

    @property
    @override
    def reason(self) -> Reason:
        return Reason.PREEMPTED

    @override
    def in_scope(self, victim: Ask) -> bool:
        return self._inside(victim) and victim.priority <= self.ask.priority

    @override
    def may_lose(self, picture: Picture, victim: Ask, unit: Sequence[Ask]) -> bool:
        return True

    @override
    def order(self, picture: Picture, victim: Ask) -> tuple[object, ...]:
        return (victim.priority, -victim.held_order)

    @override
    def rank(self, victim: Ask) -> tuple[int, ...]:
        return (victim.priority,)

    @override
    def message(self, victim: Ask) -> str:
        return f"for {_full(self.ask)}: it is a node service and requires {self.ask.required}"


def effective_priority(world: World, ask: Ask, other_leaf: str) -> int:
    """Give the priority of an ask as seen from where its path meets that of another leaf."""
    value = ask.priority
    for path in branch(ask.app.queue, other_leaf):
        settings = world.queues[path].settings
        value = settings.offset if settings.fence else value + settings.offset
    return value


def branch(path: str, other: str) -> list[str]:
    """Give a queue and those above it, up to below where its path meets that of another one."""
    return [here for here in lineage(path) if here not in lineage(other)]


def reclaim(picture: Picture, ask: Ask, now_us: int) -> Claim | None:
    """Give what an ask may reclaim; None if nothing at all."""
    world, claimant = picture.world, _claimant(picture, ask)
    if claimant is None or not _may_ask(world, ask, now_us):
        return None
    return Reclaim(world, ask, _fence(world, claimant), claimant)


def service(picture: Picture, ask: Ask, _: int) -> Claim:
    """Give what a node service may take that lacks only room: always something, and at once."""
    return Service(picture.world, ask, ROOT)


def preemption(picture: Picture, ask: Ask, now_us: int) -> Claim | None:
    """Give what an ask may preempt; None if nothing at all."""
    world = picture.world
    if not ask.preempts or not _may_ask(world, ask, now_us):
        return None
    return Preemption(world, ask, _fence(world, ask.app.queue))


def may_come_true(world: World, ask: Ask) -> bool:
    """Say whether an ask could ever claim anything once its delay is over."""
    settings = world.queues[ask.app.queue].settings
    if not world.config.preemption_enabled or not _is_open(settings):
        return False
    named = [world.queues[path].guaranteed for path in lineage(ask.app.queue) if path != ROOT]
    return ask.preempts or any(name in one for one in named for name in ask.wants)


def delay_ends(world: World, ask: Ask) -> int:
    """Give the instant from which on an ask may claim something."""
    return ask.since_us + world.queues[ask.app.queue].settings.preemption_delay_us


def _may_ask(world: World, ask: Ask, now_us: int) -> bool:
    settings = world.queues[ask.app.queue].settings
    ready = now_us >= delay_ends(world, ask)
    return world.config.preemption_enabled and _is_open(settings) and ready


def _is_open(settings: Settings) -> bool:
    return settings.preemption_policy is not PreemptionPolicy.DISABLED


def _claimant(picture: Picture, ask: Ask) -> str | None:
    """Give the nearest queue that may reclaim for an ask."""
    for path in lineage(ask.app.queue):
        guaranteed = picture.world.queues[path].guaranteed
        named = [name for name in ask.wants if guaranteed[name]]
        used = picture.allocated[path]
        within = all(used.get(t, 0) + ask.wants[t] <= guaranteed[t] for t in named)
        if path != ROOT and named and within:
            return path
    return None


def _fence(world: World, path: str) -> str:
    """Give the nearest queue from here upward with a fence, or the root."""
    for here in lineage(path):
        if world.queues[here].settings.preemption_policy is PreemptionPolicy.FENCE:
            return here
    return ROOT


def _full(ask: Ask) -> str:
    return f"{ask.app.name}/{ask.name}"
