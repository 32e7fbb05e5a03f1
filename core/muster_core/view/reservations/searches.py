"""What was found for plain asks in earlier rounds, as long as a search would find the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.reservations.search import topology_of_member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.gangs.topology import Topology
    from muster_core.view.gangs.member import MemberKey
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.reservations.later.rooms import Place
    from muster_core.view.reservations.party import Party, Reservation
    from muster_core.view.reservations.search import Search
    from muster_core.view.state.view_state import ViewState

Found = tuple["Instant", tuple["Place", ...]]
"""A start, and the node of each member of a party, in the order of placing."""

_Asked = tuple["MemberKey", int, int, "Topology | None", tuple[tuple["MemberKey", str], ...]]
"""An ask, the changes of nodes and of settings so far, its topology, and what others reserve."""


@final
class Searches:
    """Remembers what searches have found.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: What was found, and until when that holds, in microseconds.
        self._known: dict[_Asked, tuple[Found | None, int]] = {}

    def find(
        self, search: Search, party: Party, others: Sequence[Reservation], now_us: int
    ) -> tuple[Found | None, int]:
        """Return what a search finds for a party.

        Args:
            search: The search.
            party: The party; what is found for a plain ask is remembered.
            others: The other reservations of the scope, which the search knows.
            now_us: The present instant, in microseconds.

        Returns:
            What is found, or None; and until when that is so if nothing changes, in microseconds.
        """
        asked = self._asked(party, others)
        known = self._known.get(asked) if asked is not None else None
        if known is None or known[1] <= now_us:
            found = search.find(party)
            known = found, search.until_us
            if asked is not None:
                if self._known and next(iter(self._known))[1:3] != asked[1:3]:
                    self._known.clear()
                self._known[asked] = known
        return known

    def _asked(self, party: Party, others: Sequence[Reservation]) -> _Asked | None:
        """Return all on which the result depends but time; None if it depends on more."""
        member, state = party.members[0], self._state
        if party.group or member.app.limits:
            return None
        # Whoever holds or gives back a node changes it.
        places = tuple((member.key, node) for one in others for member, node in one.places)
        topology = topology_of_member(state, member)
        return member.key, state.nodes.changes, state.reconfigured, topology, places
