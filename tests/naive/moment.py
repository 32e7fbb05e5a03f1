"""The state at the end of a batch, and whom the next round would turn to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import final

from muster_core.reasons import Code
from tests.naive import order, permits, services, user_limits
from tests.naive.back_off import awake, backs_off
from tests.naive.deadlock import may_be_helped
from tests.naive.filters import lacks, may_stand
from tests.naive.gangs import group_of, holding, members
from tests.naive.picture import Picture
from tests.naive.state import ROOT, Ask, Node, World


@final
class Moment:
    """The state at the end of a batch, and whom the next round would turn to.

    Args:
        world: The state.
        now_us: The instant of the batch, in microseconds since the start.
    """

    def __init__(self, world: World, now_us: int) -> None:
        self.world = world
        self.now_us = now_us
        self.picture = Picture(world)

    @cached_property
    def first(self) -> Ask | None:
        """What would be tried first in the next round, where no cycle is invalid."""
        return self._first_below(ROOT)

    def _first_below(self, path: str) -> Ask | None:
        if not self.picture.enters(path):
            return None
        for child in order.children(self.picture, path):
            found = self._first_below(child.path)
            if found is not None:
                return found
        return self.first_of_leaf(path)

    def first_of_leaf(self, path: str) -> Ask | None:
        """Give the first ask of a leaf that PreFilter lets through, whatever fits."""
        return next(iter(self.tried_in(path)), None)

    def first_that_blocks(self, path: str) -> Ask | None:
        """Give the first ask of a leaf that blocks it unless it fits: no limit keeps it."""
        blocking = (ask for ask in self.tried_in(path) if not user_limits.over(self.picture, ask))
        return next(blocking, None)

    def tried_in(self, path: str) -> Iterator[Ask]:
        """Give the asks of a leaf that may be picked and pass PreFilter, whatever fits."""
        for app in order.applications(self.picture, path):
            for ask in awake(self.world, order.asks(self.picture, app)):
                if gang_code(self.world, ask) is None:
                    yield ask

    def competes(self, ask: Ask) -> bool:
        """Say whether a round turns to an ask at all, if its queue enters."""
        if backs_off(self.world, ask):
            return False
        applications = order.applications(self.picture, ask.app.queue)
        return ask.app in applications and gang_code(self.world, ask) is None

    def is_looked_at(self, ask: Ask) -> bool:
        """Say whether reclaim and preemption look at an ask: overused queues included."""
        gang = permits.constrained(self.world, ask)
        if gang is not None and not may_be_helped(self.world, group_of(self.world, gang.name)):
            return False
        if user_limits.over(self.picture, ask):
            return False
        leaf = ask.app.queue
        if self.world.queues[leaf].settings.blocking:
            return ask is self.first_that_blocks(leaf)
        return self.competes(ask)

    def free(self, node: Node, name: str) -> int:
        """Give how much of a type is free on a node; one that has less than it gave has none."""
        return max(0, node.capacity[name] - self.picture.used[node.name].get(name, 0))

    def matching(self, ask: Ask) -> list[Node]:
        """Give the nodes on which an ask may stand, schedulable or not."""
        return [node for node in self.world.nodes.values() if may_stand(node, ask)]

    def open_to(self, ask: Ask) -> list[Node]:
        """Give the schedulable ones of them that no node service keeps from it."""
        return [
            node
            for node in self.matching(ask)
            if node.schedulable and services.is_open(self.world, node, ask)
        ]

    def kept_from(self, ask: Ask) -> list[Node]:
        """Give the nodes on which an ask would fit if no node service kept them."""
        open_nodes = self.open_to(ask)
        return [
            node
            for node in self.matching(ask)
            if node.schedulable and node not in open_nodes and not lacks(self.picture, node, ask)
        ]


def could_hold(node: Node, ask: Ask) -> bool:
    """Say whether a node has what an ask wants, whatever is used of it."""
    return all(node.capacity[name] >= value for name, value in ask.wants.items())


def gang_code(world: World, ask: Ask) -> Code | None:
    """Say why PreFilter refuses an ask, whatever its cycle; None if it does not."""
    gang = permits.constrained(world, ask)
    if gang is None:
        return None
    definition = gang.definition
    if definition is None:
        return Code.GANG_UNDEFINED
    if len(members(world, gang)) < definition.min_member:
        return Code.GANG_TOO_FEW_MEMBERS
    if holding(world, gang) >= definition.min_member:
        return Code.GANG_SURPLUS
    return None
