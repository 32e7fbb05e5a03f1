"""Parties: who is to be placed together at the start of a reservation."""

from __future__ import annotations

import attrs

from muster_core.snapshots import AskPlace
from tests.naive import order, permits
from tests.naive.back_off import awake
from tests.naive.deadlock import lets_members_through
from tests.naive.gangs import Group, group_of, holding, members
from tests.naive.picture import Picture
from tests.naive.state import Ask, Reservation, World


@attrs.frozen
class Party:
    """An ask by itself, or what a group lacks.

    Attributes:
        asks: Who is to be placed.
        group: The names of the gangs of the group; none of an ask by itself.
    """

    asks: frozenset[Ask]
    group: frozenset[str] = frozenset()

    def is_that_of(self, reservation: Reservation) -> bool:
        """Say whether a reservation is for this group, though it lacked others then, or an ask of it."""
        if self.group and self.group == reservation.group:
            return True
        return bool(self.asks & reservation.asks)


def party_of(world: World, ask: Ask) -> Party | None:
    """Give the party of an ask; None if PreFilter refuses a gang of its group."""
    gang = permits.constrained(world, ask)
    if gang is None:
        return Party(frozenset({ask}))
    group = group_of(world, gang.name)
    return (
        Party(_lacking(world, group), group.names) if lets_members_through(world, group) else None
    )


def _lacking(world: World, group: Group) -> frozenset[Ask]:
    """Give the members that a group lacks: of each gang the first in the present order."""
    picture, found = Picture(world), set[Ask]()
    for gang in group.gangs:
        definition = gang.definition
        if gang.satisfied or definition is None:
            continue
        number = definition.min_member - holding(world, gang)
        pending = [ask for ask in members(world, gang) if ask.place is AskPlace.PENDING]
        left = set(awake(world, pending))
        for _ in range(number):
            best = order.best_of(picture, left)
            if best is not None:
                found.add(best)
                left.remove(best)
    return frozenset(found)


def is_own(world: World, reservation: Reservation, ask: Ask) -> bool:
    """Say whether a reservation is that of the group which an ask waits for."""
    gang = permits.constrained(world, ask)
    return gang is not None and gang.name in reservation.group


def staying(world: World, group: frozenset[str]) -> set[Ask]:
    """Give the asks of a group that hold nodes: they stay, as the group needs them."""
    return {ask for ask in world.asks() if ask.held and ask.gang in group}
