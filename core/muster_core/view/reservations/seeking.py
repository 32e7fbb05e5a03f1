"""The search for reservations in a round, for asks that got no node (BACKFILL-15 to BACKFILL-22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.reservations.ahead import Ahead
from muster_core.view.reservations.keeping import Keeping, at_present
from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.later.rooms import Rooms
from muster_core.view.reservations.party import Reservation, party_of
from muster_core.view.reservations.search import Search, Searches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.backfilling import Backfilling
    from muster_core.view.reservations.in_force import InForce
    from muster_core.view.reservations.party import Party
    from muster_core.view.reservations.search import Found
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue


@final
class Seeking:
    """Seeks reservations.

    Args:
        state: The view.
        in_force: What is reserved; what is found is added.
        backfilling: Says when asks end.
    """

    def __init__(self, state: ViewState, in_force: InForce, backfilling: Backfilling) -> None:
        self._state = state
        self._in_force = in_force
        self._backfilling = backfilling
        #: How much room nodes have for parties.
        self._rooms = Rooms(state)
        self._searches = Searches(state)
        self._keeping = Keeping(state)

    # BACKFILL-15
    def seek(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Sequence[tuple[Member, Node]]:
        """Seek a reservation for the party of an ask that was tried and got no node.

        Args:
            leaf: The leaf of its application.
            app: Its application.
            ask: The ask.

        Returns:
            The nodes of a gang's party that fits now where it had a reservation, to be assigned in
            this order; nothing is reserved then.
        """
        scope = self._state.scopes.backfill(leaf)
        if scope is None:
            return ()
        own = self._in_force.of(scope)
        if len(own) >= scope.config.settings.backfill_depth:
            return ()
        party = party_of(self._state, app, ask)
        if party is None or any(one.party.is_that_of(party) for one in own):
            return ()
        before = self._in_force.before(party)
        if before is not None and party.group:
            now = self._fitting_now(before, party)
            if now is not None:
                return now
        found = self._find(scope, party, before, own)
        if found is not None:
            self._in_force.reservations.append(found)
        return ()

    def _find(
        self,
        scope: ViewQueue,
        party: Party,
        before: Reservation | None,
        own: Sequence[Reservation],
    ) -> Reservation | None:
        """Return the reservation that was there before, if it is kept, or a new one."""
        now_us = self._in_force.now_us
        holdings = self._backfilling.holdings_of(scope)
        search = Search(self._state, now_us, own, self._rooms, holdings)
        found, until_us = self._searches.find(search, party, own, now_us)
        self._in_force.hold_until(until_us)
        # BACKFILL-22
        if (
            before is not None
            and not _is_as_before(found, before)
            and self._keeping.is_to_come(before.start, now_us)
            and (found is None or found[0] >= before.start)
            and self._keeping.still_fits(before, party, own, now_us)
        ):
            return Reservation(scope, party, before.start, at_present(before, party))
        return None if found is None else Reservation(scope, party, *found)

    # BACKFILL-21
    def _fitting_now(self, before: Reservation, party: Party) -> list[tuple[Member, Node]] | None:
        """Return the nodes that a gang's party had, if it fits them now and delays nobody."""
        state = self._state
        present = Projection(state)
        reserved = {member.key: name for member, name in before.places}
        left, order = list(party.members), present.order()
        ahead: dict[int, list[tuple[Reservation, Ahead]]] = {}
        found: list[tuple[Member, Node]] = []
        while left:
            member = order.first(left)
            left.remove(member)
            app, ask = member
            leaf, node = state.leaf_of(app), state.nodes.nodes.get(reserved[member.key])
            if node is None or not present.difference.has_headroom(app, ask):
                return None
            if not present.fits_on(member, node):
                return None
            for one, then in self._ahead(leaf, party.group, ahead):
                if not (self._backfilling.ends_by(leaf, ask, one) or then.admits(member, node)):
                    return None
            present.place(member, node)
            for known in ahead.values():
                for _, then in known:
                    then.place(member, node)
            found.append((member, node))
        return found

    def _ahead(
        self,
        leaf: LeafView,
        group: tuple[str, ...],
        known: dict[int, list[tuple[Reservation, Ahead]]],
    ) -> list[tuple[Reservation, Ahead]]:
        """Return the reservations that the asks of a leaf may not delay, with what will be then."""
        scope, in_force = self._state.scopes.backfill(leaf), self._in_force
        if scope is None:
            return []
        if scope.key not in known:
            known[scope.key] = [
                (one, Ahead(self._state, in_force.now_us, one, in_force.reservations))
                for one in in_force.of(scope)
                if one.party.group != group
            ]
        return known[scope.key]


def _is_as_before(found: Found | None, before: Reservation) -> bool:
    """Return whether a search has found the start and the nodes that were reserved before."""
    if found is None or found[0] != before.start:
        return False
    now, then = ([(member.key, node) for member, node in one] for one in (found[1], before.places))
    return now == then
