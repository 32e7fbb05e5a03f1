"""The node that a member of a gang with a topology takes, in the view and at any other instant.

TOPOLOGY-3 to TOPOLOGY-11, BACKFILL-19. What a topology says about one node is in
:mod:`muster_core.view.gangs.standing`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

from muster_core.view.gangs.standing import Standing, standing_of, topology_of
from muster_core.view.topology.party import party_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from muster_core.nodes.node import Node
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.gangs.member import Member
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.picture import Picture


@final
class Choice:
    """Chooses nodes in a picture.

    Args:
        state: The view; it is up to date.
        picture: Who holds what.
    """

    def __init__(self, state: ViewState, picture: Picture) -> None:
        self._state = state
        self._picture = picture

    # TOPOLOGY-3
    def standing(self, member: Member) -> Standing | None:
        """Return where the members of an ask's gang stand; None without a topology."""
        gang = None if member.ask.gang is None else self._state.gangs[member.ask.gang]
        topology = None if gang is None else topology_of(gang)
        if gang is None or topology is None:
            return None
        return standing_of(topology, self._picture.difference.held_by(gang))

    def find(
        self,
        member: Member,
        standing: Standing,
        chosen: str | None,
        may: Callable[[Node], bool] | None = None,
    ) -> Node | None:
        """Return the first node that a pending member may take and fits on, or None.

        Args:
            member: The member.
            standing: Where the members of its gang stand.
            chosen: The chosen domain, if there must be one.
            may: What must be true of the node besides.
        """

        def place(node: Node) -> int | None:
            found = standing.place(node, chosen)
            return found if found is None or may is None or may(node) else None

        anywhere = partial(standing.place, chosen=chosen)  # It is quicker.
        return self._picture.finder(anywhere if may is None else place)(member)

    # TOPOLOGY-7
    def choose(self, member: Member, standing: Standing) -> str | None:
        """Return the first domain in which a member and those that its gang lacks have room.

        Args:
            member: The pending member at hand.
            standing: Where the members of its gang stand.

        Returns:
            The domain; None if there is none, or none need be chosen.
        """
        if not standing.must_choose:
            return None
        party = party_of(self._picture, self._gang_of(member), member)
        for domain in self._picture.domains(standing.topology.attribute):
            if self._place(party, standing, domain) == len(party):
                return domain
        return None

    # TOPOLOGY-15
    def rooms(self, member: Member, standing: Standing) -> tuple[int, dict[str, int]]:
        """Return how many members need one domain, and how many of them each has room for.

        Args:
            member: The pending member at hand, whose gang must choose a domain.
            standing: Where the members of the gang stand.

        Returns:
            The number of members, and that of those placed until one fails, by domain, in order.
        """
        domains = self._picture.domains(standing.topology.attribute)
        party = party_of(self._picture, self._gang_of(member), member)
        return len(party), {one: self._place(party, standing, one) for one in domains}

    def _gang_of(self, member: Member) -> ViewGang:
        assert member.ask.gang is not None, "a plain ask has no domain"
        return self._state.gangs[member.ask.gang]

    # TOPOLOGY-7
    def _place(self, party: Sequence[Member], standing: Standing, domain: str) -> int:
        """Try how many members can be placed in a domain one after another, until one fails.

        Their order is that before anything is placed. Parties of reservations are placed by another
        rule, BACKFILL-19: there, each placing may change who is next.
        """
        picture, attribute = self._picture, standing.topology.attribute
        find = picture.finder(lambda node: 0 if node.attributes.get(attribute) == domain else None)
        with picture.trying():
            for number, member in enumerate(party):
                node = find(member) if picture.difference.has_headroom(*member) else None
                if node is None:
                    return number
                picture.place(member, node)
        return len(party)
