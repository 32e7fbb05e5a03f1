"""What is reserved for the party of a pending ask, and with whose end it starts."""

from __future__ import annotations

from collections.abc import Iterable

from muster_core.reasons import Reserved
from tests.naive import permits
from tests.naive.backfill.estimates import release_of
from tests.naive.backfill.parties import staying
from tests.naive.gangs import group_of
from tests.naive.state import Ask, Reservation, World


def for_ask(world: World, ask: Ask) -> Reserved | None:
    """Give what is reserved for a pending ask, or for others of its group."""
    own = [one for one in world.reserved if ask in one.asks]
    if own:
        return _told(world, own)
    gang = permits.constrained(world, ask)
    return None if gang is None else for_group(world, group_of(world, gang.name).names)


def for_group(world: World, names: frozenset[str]) -> Reserved | None:
    """Give what is reserved for what a group lacks."""
    own = [one for one in world.reserved if one.group == names]
    return _told(world, own) if own else None


def _told(world: World, some: Iterable[Reservation]) -> Reserved:
    """Tell of the reservation whose scope has the last path."""
    one = max(some, key=lambda one: one.scope)
    places = tuple((ask.full, node) for ask, node in one.nodes)
    waits_for = tuple((ask.full, ask.node or "") for ask in _ending(world, one))
    return Reserved(one.scope, one.start.start_us, places, waits_for)


def _ending(world: World, one: Reservation) -> list[Ask]:
    """Give the asks with whose end it starts: those on its nodes, or else all."""
    held = {ask for ask in world.asks() if ask.held} - staying(world, one.group)
    start = one.start
    making = {ask for ask in held if release_of(world, ask) == start}
    if start.is_unknown:
        # Every known end is before it.
        ends = {ask: release_of(world, ask) for ask in held}
        making = {ask for ask, at in ends.items() if at.is_unknown and at <= start}
    nodes = {node for _, node in one.nodes}
    found = {ask for ask in making if ask.node in nodes} or making
    return sorted(found, key=lambda ask: (release_of(world, ask), ask.held_order))
