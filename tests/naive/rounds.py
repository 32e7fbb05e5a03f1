"""Rounds: the plain algorithm, which looks at everything anew before every single ask."""

from __future__ import annotations

from enum import Enum

import attrs

from muster_core.decisions import Kind, Reason
from muster_core.snapshots import AskPlace
from tests.naive import order, permits, services, user_limits
from tests.naive.back_off import awake
from tests.naive.devices.fragmentation import learn
from tests.naive.gangs import Group, all_groups, group_of, let_go, members, release, waiting
from tests.naive.node_choice import first_node
from tests.naive.picture import Picture
from tests.naive.state import ROOT, Ask, Gang, Node, World

State = frozenset[tuple[object, ...]]


def run_rounds(world: World, now_us: int) -> None:
    """Do rounds until one changes nothing, never twice from one state."""
    seen: set[State] = set()
    while (before := state(world)) not in seen:
        seen.add(before)
        if _Round(world, now_us).run():
            seen.clear()


def state(world: World) -> State:
    """Give the bound, the waiting and the pending asks, to be compared."""
    asks = [ask for ask in world.asks() if ask.place is not AskPlace.PARKED]
    return frozenset(
        (ask.app.name, ask.name, ask.place, ask.node, *sorted((ask.devices or {}).items()))
        for ask in asks
    )


class _Outcome(Enum):
    """What became of a member that was tried."""

    REFUSED = "refused"
    WAITS = "waits"
    SATISFIED = "satisfied"
    RELEASED = "released"


@attrs.frozen
class _Before:
    """What was before an attempt.

    Attributes:
        said: The length of the log; what a failed attempt did after it is left out.
        waiting: What waited of the group; that is announced as released.
    """

    said: int
    waiting: list[Ask]


class _Round:
    """One round: which asks were tried in it, and which blocking leaves are shut."""

    def __init__(self, world: World, now_us: int) -> None:
        self._world = world
        self._now_us = now_us
        self._tried: set[Ask] = set()
        self._blocked: set[str] = set()
        self._a_bind_failed = False
        #: What is seen as long as nothing changes.
        self._seen: Picture | None = None

    def run(self) -> bool:
        """Try every ask once, best first; say whether a bind failed."""
        self._start()
        while (ask := self._best(self._look(), ROOT)) is not None:
            self._try(ask)
            services.check(self._look(), *self._world.pending())
        return self._a_bind_failed

    def _look(self) -> Picture:
        """Give a picture of what is now; whoever changes anything says so."""
        if self._seen is None:
            self._seen = Picture(self._world)
        return self._seen

    def _start(self) -> None:
        """Begin new cycles, and bind what may be bound already."""
        world = self._world
        learn(world)
        services.check(Picture(world), *world.pending())
        for gang in world.gangs.values():
            gang.cycle_valid, gang.failed = True, None
        for group in all_groups(world):
            if permits.permitted(world, group):
                self._failed(permits.satisfy(world, group, self._now_us))
            else:
                satisfied = [gang for gang in group.gangs if gang.satisfied]
                ready = waiting(world, *satisfied)
                self._failed(permits.bind_all(world, ready, self._now_us))

    def _failed(self, asks: list[Ask]) -> None:
        """Take note of binds that failed: the asks were tried in this round."""
        self._tried.update(asks)
        self._a_bind_failed |= bool(asks)

    def _best(self, picture: Picture, path: str) -> Ask | None:
        if path in self._blocked or not picture.enters(path):
            return None
        for child in order.children(picture, path):
            found = self._best(picture, child.path)
            if found is not None:
                return found
        for app in order.applications(picture, path):
            for ask in awake(self._world, order.asks(picture, app)):
                if ask not in self._tried:
                    return ask
        return None

    def _try(self, ask: Ask) -> None:
        gang = permits.constrained(self._world, ask)
        if gang is not None:
            self._attempt(gang, ask)
            return
        self._tried.add(ask)
        node = self._filter(ask)
        if node is not None:
            self._seen = None
            permits.hold(self._world, ask, node)
            self._failed(permits.bind_all(self._world, [ask], self._now_us))

    def _filter(self, ask: Ask) -> Node | None:
        """Find a node for an ask; where there is none, a blocking leaf is shut.

        Not so if a limit of its user or group stands against it, whatever else does.
        """
        picture = self._look()
        leaf = ask.app.queue
        if user_limits.over(picture, ask):
            return None
        fits = leaf not in self._blocked and picture.fits_headroom(ask)
        node = first_node(picture, ask) if fits else None
        if node is None and self._world.queues[leaf].settings.blocking:
            self._blocked.add(leaf)
        return node

    def _attempt(self, gang: Gang, first: Ask) -> None:
        """Try a member of an unsatisfied gang and, once it holds a node, the others."""
        world = self._world
        before = _Before(len(world.log), waiting(world, *group_of(world, gang.name).gangs))
        if self._member(first, before) is not _Outcome.WAITS:
            return
        while (ask := self._next(gang)) is not None:
            if self._member(ask, before) in {_Outcome.SATISFIED, _Outcome.RELEASED}:
                return

    def _member(self, ask: Ask, before: _Before) -> _Outcome:
        world = self._world
        self._tried.add(ask)
        gang = world.gangs[ask.gang or ""]
        if permits.refused(world, gang):
            return _Outcome.REFUSED
        group = group_of(world, gang.name)
        node = self._filter(ask)
        self._seen = None
        if node is None:
            return self._fails(ask, group, before)
        permits.hold(world, ask, node)
        if permits.permitted(world, group):
            self._failed(permits.satisfy(world, group, self._now_us))
            return _Outcome.SATISFIED
        world.log.append(ask.say(Kind.WAITING, node.name))
        return _Outcome.WAITS

    def _fails(self, ask: Ask, group: Group, before: _Before) -> _Outcome:
        """A member fitted nowhere: of a Strict group nothing waits any longer."""
        world = self._world
        if not group.strict:
            return _Outcome.REFUSED
        del world.log[before.said :]
        for gang in group.gangs:
            gang.cycle_valid, gang.failed = False, ask.full
        release(world, before.waiting, Reason.GANG_ROLLBACK)
        for other in waiting(world, *group.gangs):
            let_go(world, other)
        return _Outcome.RELEASED

    def _next(self, gang: Gang) -> Ask | None:
        """Give the next member that is activated."""
        world = self._world
        group = group_of(world, gang.name)
        unsatisfied = [one for one in group.gangs if not one.satisfied]
        asks = {ask for one in unsatisfied for ask in members(world, one)}
        pending = [ask for ask in asks if ask.place is AskPlace.PENDING]
        untried = set(awake(world, pending)) - self._tried
        return order.best_of(self._look(), untried) if untried else None
