"""What the view will be when a reservation starts, found node by node as it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.later.releases import releases_on
from muster_core.view.reservations.search import has_topology, hold_places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.party import Reservation
    from muster_core.view.state.view_state import ViewState


# BACKFILL-26
@final
class Ahead:
    """The view at the start of a reservation, with the parties that hold their nodes then.

    Few nodes are asked about, so those on which nobody asks whether an ask fits are left as they
    are, as long as no headroom depends on them.

    Args:
        state: The view.
        now_us: The present instant, in microseconds.
        reservation: The reservation.
        in_force: The reservations in force, of all scopes.
        without: An ask that holds nothing, or None.
    """

    def __init__(
        self,
        state: ViewState,
        now_us: int,
        reservation: Reservation,
        in_force: Iterable[Reservation],
        without: Ask | None = None,
    ) -> None:
        self._state = state
        self._now_us = now_us
        self._reservation = reservation
        self._projection = Projection(state)
        #: The first known end on which answers so far depend, in microseconds.
        self.until_us = MAX_QUANTITY
        #: The nodes from which all that ends by the start is gone.
        self._known: set[str] = set()
        for other in in_force:
            if other.scope is reservation.scope and other.start <= reservation.start:
                # Which devices the party holds depends on those that are free then.
                for _, name in other.places:
                    if name in state.nodes.nodes:
                        self._look_at(state.nodes.nodes[name])
                hold_places(state, self._projection, other, without=without)

    def admits(self, member: Member, node: Node) -> bool:
        """Return whether a pending ask may still take a node, and fits it and the headroom."""
        headroom = self._projection.difference.has_headroom
        # Enough is left then if it is already, with what is still there.
        if has_topology(self._state, member) or not headroom(*member):
            for one in self._state.nodes.nodes.values():
                self._look_at(one)
            if not headroom(*member):
                return False
        self._look_at(node)
        return self._projection.fits_on(member, node)

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node."""
        self._look_at(node)
        self._projection.place(member, node)

    def _look_at(self, node: Node) -> None:
        """Take away what ends on a node by the start."""
        if node.name in self._known:
            return
        self._known.add(node.name)
        start, group = self._reservation.start, self._reservation.party.group
        for release in releases_on(self._state, node, self._now_us):
            if not release.at[0]:
                self.until_us = min(self.until_us, release.at[1])
            if release.at > start:
                break
            if release.allocation.ask.gang not in group:
                self._projection.release(release.app, release.allocation, node)
