"""Whether what was reserved for a party is kept from round to round (BACKFILL-22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.later.releases import release_of, releases, releases_on
from muster_core.view.reservations.search import has_topology, hold_all, lacking

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_core.owners.messages.asks import Allocation
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.reservations.later.rooms import Place
    from muster_core.view.reservations.party import Party, Reservation
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp


_MOST: Final = 100
"""How many instants are remembered; no scope has more reservations."""


@final
class Keeping:
    """Says whether reservations are kept.

    Args:
        state: The view; it is up to date.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The allocations that were found to end at instants that are not known, and their
        #: applications.
        self._known: dict[Instant, tuple[ViewApp, Allocation]] = {}

    # BACKFILL-22
    def is_to_come(self, start: Instant, now_us: int) -> bool:
        """Return whether an instant that was found some time ago is still to come.

        Args:
            start: The instant.
            now_us: The present one, in microseconds.
        """
        is_unknown, at = start
        if not is_unknown:
            return at > now_us
        known = self._known.get(start)
        if known is not None and self._gives_back(*known, start, now_us):
            return True
        if len(self._known) >= _MOST:
            self._known.clear()
        for release in releases(self._state, now_us):
            if release.at == start:
                self._known[start] = release.app, release.allocation
                return True
        return False

    def _gives_back(
        self, app: ViewApp, allocation: Allocation, start: Instant, now_us: int
    ) -> bool:
        """Return whether an allocation still holds its node, and gives it back at an instant."""
        if self._state.apps.get(app.identity.key) is not app:
            return False
        name = allocation.ask.name
        for places, bound in ((app.bound, True), (app.waiting, False)):
            if name in places and places[name][0] is allocation:
                return release_of(self._state, app, allocation, now_us, bound=bound) == start
        return False

    # BACKFILL-22
    def still_fits(
        self, before: Reservation, party: Party, others: Sequence[Reservation], now_us: int
    ) -> bool:
        """Return whether a party fits the nodes that it had, at the start that it had.

        Args:
            before: What was reserved for it.
            party: The party.
            others: The other reservations of the scope that are in force.
            now_us: The present instant, in microseconds.
        """
        state, places = self._state, at_present(before, party)
        projection, nodes = Projection(state), state.nodes.nodes
        depends_on_more = any(self._needs_more(member) for member, _ in places)
        if depends_on_more:
            ahead = releases(state, now_us)
        else:
            hold_all(state, projection, others)
            if not any(lacking(state, party.members, others)):  # Only these nodes count.
                looked_at = [nodes[name] for _, name in places if name in nodes]
            else:
                looked_at = list(nodes.values())
            every = (releases_on(state, node, now_us) for node in dict.fromkeys(looked_at))
            ahead = [release for some in every for release in some]
        for release in ahead:
            if release.at <= before.start and release.allocation.ask.gang not in party.group:
                projection.release(release.app, release.allocation, release.node)
        if depends_on_more:
            hold_all(state, projection, others)
        return _fit_in_turn(state, projection, places)

    def _needs_more(self, member: Member) -> bool:
        """Return whether other nodes, or who holds which devices, decide where an ask fits."""
        return bool(member.ask.shape.devices) or has_topology(self._state, member)


def at_present(before: Reservation, party: Party) -> tuple[Place, ...]:
    """Return the places of an equal party, with the members as they are now."""
    now = {member.key: member for member in party.members}
    return tuple((now[member.key], node) for member, node in before.places)


def _fit_in_turn(state: ViewState, projection: Projection, places: Iterable[Place]) -> bool:
    """Place members on given nodes, one after another; return whether all of them fit."""
    for member, name in places:
        node = state.nodes.nodes.get(name)
        if node is None or not projection.difference.has_headroom(*member):
            return False
        if not projection.fits_on(member, node):
            return False
        projection.place(member, node)
    return True
