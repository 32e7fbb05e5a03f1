"""The search for a start: the first instant at which a party can be placed."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.reservations.choice import Choice
from muster_core.view.reservations.order import Order
from muster_core.view.reservations.projection import Projection
from muster_core.view.reservations.releases import releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.party import Member, Party
    from muster_core.view.reservations.releases import Instant
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.queue import ViewQueue

Place = tuple["Member", str]
"""A member of a party, and the name of the node that is reserved for it."""


@final
@attrs.frozen(eq=False)
class Reservation:
    """What is reserved for a party.

    Attributes:
        scope: The queue to whose scope it belongs.
        party: The party.
        start: When it starts.
        places: The node of each member, in the order of placing.
    """

    scope: ViewQueue
    party: Party
    start: Instant
    places: tuple[Place, ...]

    @property
    def start_us(self) -> int | None:
        """When it starts, in microseconds, or None if that is not known."""
        is_unknown, at = self.start
        return None if is_unknown else at


@final
@attrs.frozen
class Search:
    """Looks ahead from the view as it is now.

    Args:
        state: The view; it is up to date.
        now_us: The present instant, in microseconds.
        others: The other reservations of the scope that are in force.
    """

    _state: ViewState
    _now_us: int
    _others: Sequence[Reservation]

    # BACKFILL-18, BACKFILL-20
    def find(self, party: Party) -> tuple[Instant, tuple[Place, ...]] | None:
        """Return the first instant at which a party can be placed, and where; None if never."""
        projection = Projection(self._state)
        # BACKFILL-14
        for at, some in groupby(releases(self._state, self._now_us), key=attrgetter("at")):
            for release in some:
                if release.allocation.ask.gang not in party.group:
                    projection.release(release.app, release.allocation, release.node)
            held = self._hold(projection, self._others)
            places = self._place(projection, party)
            for member, node in reversed(held):
                projection.undo(member, node)
            if places is not None:
                return at, places
        return None

    # BACKFILL-22
    def is_to_come(self, start: Instant) -> bool:
        """Return whether an instant that was found some time ago is still to come."""
        if start[0]:
            return any(release.at == start for release in releases(self._state, self._now_us))
        return start > (False, self._now_us)

    # BACKFILL-22
    def still_fits(self, before: Reservation, party: Party) -> bool:
        """Return whether a party fits the nodes that it had, at the start that it had."""
        projection = self.projection(before.start, party.group)
        self._hold(projection, self._others)
        return fit_in_turn(self._state, projection, at_present(before, party))

    def projection(self, start: Instant, group: Sequence[str]) -> Projection:
        """Return what the view will be at an instant, where a group keeps what it holds."""
        projection = Projection(self._state)
        for release in releases(self._state, self._now_us):
            if release.at <= start and release.allocation.ask.gang not in group:
                projection.release(release.app, release.allocation, release.node)
        return projection

    def _hold(
        self, projection: Projection, others: Iterable[Reservation]
    ) -> list[tuple[Member, Node]]:
        """Let the pending members of parties hold what is reserved for them; return where."""
        return [held for other in others for held in hold_places(self._state, projection, other)]

    # BACKFILL-19
    def _place(self, projection: Projection, party: Party) -> tuple[Place, ...] | None:
        """Place a party, one member after another, and take it back; None if one has no room."""
        order, left, found = Order(self._state, projection), list(party.members), list[Place]()
        choice = Choice(self._state, projection)
        taken: list[tuple[Member, Node]] = []
        while left:
            member = order.first(left)
            node = None
            if projection.has_headroom(member.app, member.ask):
                node = choice.find_node(member)
            if node is None:
                break
            left.remove(member)
            projection.place(member, node)
            taken.append((member, node))
            found.append((member, node.name))
        for member, node in reversed(taken):
            projection.undo(member, node)
        return None if left else tuple(found)


def hold_places(
    state: ViewState,
    projection: Projection,
    reservation: Reservation,
    *,
    without: Ask | None = None,
) -> list[tuple[Member, Node]]:
    """Let the pending members of a party hold what is reserved for them; return where.

    Args:
        state: The view.
        projection: Where they hold it.
        reservation: What is reserved for the party.
        without: An ask that holds nothing, or None.
    """
    held: list[tuple[Member, Node]] = []
    for member, name in reservation.places:
        node = state.nodes.nodes.get(name)
        if node is not None and member.is_pending() and member.ask is not without:
            projection.place(member, node)
            held.append((member, node))
    return held


def at_present(before: Reservation, party: Party) -> tuple[Place, ...]:
    """Return the places of an equal party, with the members as they are now."""
    now = {member.key: member for member in party.members}
    return tuple((now[member.key], node) for member, node in before.places)


def fit_in_turn(state: ViewState, projection: Projection, places: Iterable[Place]) -> bool:
    """Place members on given nodes, one after another; return whether all of them fit."""
    for member, name in places:
        node = state.nodes.nodes.get(name)
        if node is None or not projection.has_headroom(member.app, member.ask):
            return False
        if not Choice(state, projection).fits_on(member, node):
            return False
        projection.place(member, node)
    return True
