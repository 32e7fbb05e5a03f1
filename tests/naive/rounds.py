"""Rounds: the plain algorithm, which looks at everything anew before every single ask."""

from __future__ import annotations

from muster_core.decisions import Kind, Reason
from tests.naive import lifecycle, order
from tests.naive.picture import Picture
from tests.naive.state import ROOT, Ask, Node, World

State = frozenset[tuple[str, str, str | None]]


def run_rounds(world: World, now_us: int) -> None:
    """Do rounds until one changes nothing, never twice from one state."""
    seen: set[State] = set()
    while (before := state(world)) not in seen:
        seen.add(before)
        if _Round(world, now_us).run():
            seen.clear()


def state(world: World) -> State:
    """Give the bound and the pending asks, to be compared."""
    asks = world.bound() + world.pending()
    return frozenset((ask.app.name, ask.name, ask.node) for ask in asks)


class _Round:
    """One round: which asks were tried in it, and which blocking leaves are shut."""

    def __init__(self, world: World, now_us: int) -> None:
        self._world = world
        self._now_us = now_us
        self._tried: set[Ask] = set()
        self._blocked: set[str] = set()
        self._a_bind_failed = False

    def run(self) -> bool:
        """Try every ask once, best first; say whether a bind failed."""
        picture = Picture(self._world)
        while (ask := self._best(picture, ROOT)) is not None:
            self._tried.add(ask)
            if self._try(picture, ask):
                picture = Picture(self._world)
        return self._a_bind_failed

    def _best(self, picture: Picture, path: str) -> Ask | None:
        if path in self._blocked or not picture.enters(path):
            return None
        for child in order.children(picture, path):
            found = self._best(picture, child.path)
            if found is not None:
                return found
        for app in order.applications(picture, path):
            for ask in order.asks(app):
                if ask not in self._tried:
                    return ask
        return None

    def _try(self, picture: Picture, ask: Ask) -> bool:
        """Try an ask; say whether that changed anything, be it for a moment."""
        node = first_node(picture, ask) if picture.fits_headroom(ask) else None
        if node is not None:
            self._bind(ask, node)
        elif self._world.queues[ask.app.queue].settings.blocking:
            self._blocked.add(ask.app.queue)
        return node is not None

    def _bind(self, ask: Ask, node: Node) -> None:
        world = self._world
        world.log.append(ask.say(Kind.ASSIGNED, node.name))
        if ask.failures:
            ask.failures -= 1
            self._a_bind_failed = True
            world.log.append(ask.say(Kind.RELEASED, node.name, Reason.BIND_FAILED))
            return
        world.binds += 1
        ask.node = node.name
        ask.bound_order = world.binds
        ask.ends_at = None if ask.run_for_us is None else self._now_us + ask.run_for_us
        world.log.append(ask.say(Kind.BOUND, node.name))
        lifecycle.ask_bound(world, ask.app, self._now_us)


def first_node(picture: Picture, ask: Ask) -> Node | None:
    """Give the first node in order that is schedulable, matches and has room."""
    for node in order.nodes(picture):
        used = picture.used[node.name]
        if (
            node.schedulable
            and ask.required in {None, node.name}
            and all(node.attributes.get(key) == text for key, text in ask.selector.items())
            and all(
                used.get(name, 0) + value <= node.capacity[name]
                for name, value in ask.wants.items()
            )
        ):
            return node
    return None
