"""The second try of a Strict group (GANG-55 to GANG-58).

A round tries the members of a group in the order of asks, each on the first node in order. If one of
them fits nowhere then, the group may fit all the same: those that are hard to place come first here,
and each takes the fullest node on which it fits, so that the largest gaps stay open for others.
Nothing is changed in the view.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import final

from muster_core.nodes.node import Node
from muster_core.structures.amounts import share
from muster_core.view.gangs import Member, ViewGroup
from muster_core.view.placement_diff import PendingOrder, PlacementDiff
from muster_core.view.reservations.parties import lacking_members
from muster_core.view.reservations.projection import Projection
from muster_core.view.reservations.reservations import Reservations
from muster_core.view.state.view_state import ViewState


@final
class SecondTry:
    """Finds places for all that a Strict group lacks.

    Args:
        state: The view.
        reservations: The reservations, which must not be delayed.
    """

    def __init__(self, state: ViewState, reservations: Reservations) -> None:
        self._state = state
        self._reservations = reservations

    # GANG-55
    def is_due(self, *, may_lose: bool) -> bool:
        """Return whether the partition has second tries, and a group may need one in this round.

        Args:
            may_lose: Whether a satisfied gang may lose its members in this round.
        """
        state = self._state
        if not state.root.config.settings.second_try:
            return False
        groups = state.gang_index.groups_of(state.gang_index.strict)
        return may_lose or any(group.lacks_only_nodes() for group in groups)

    def places(
        self, group: ViewGroup, blocked: Collection[int]
    ) -> list[tuple[Member, Node]] | None:
        """Return the nodes of all members that a group lacks, in order; None if one finds none.

        Args:
            group: A Strict group that holds no node, in a view that is up to date.
            blocked: The keys of the leaves in which nothing may be placed.
        """
        if not group.lacks_only_nodes():
            return None
        present = Projection(self._state, fullest_first=True)
        starts = self._reservations.seeking.starts(group.names)
        found: list[tuple[Member, Node]] = []
        for member in self._members(group):
            if member.app.identity.leaf in blocked or not present.difference.has_headroom(*member):
                return None
            node = present.find_node(member, partial(starts.admit, member))
            if node is None:
                return None
            present.place(member, node)
            starts.place(member, node)
            found.append((member, node))
        return found

    # GANG-56
    def _members(self, group: ViewGroup) -> list[Member]:
        """Return the members that a group lacks, those that are hard to place first."""
        order = PendingOrder(self._state, PlacementDiff(self._state))
        return sorted(order.sorted(lacking_members(group, order)), key=self._hardness)

    def _hardness(self, member: Member) -> tuple[int, float]:
        ask, total = member.ask, self._state.nodes.total
        choice = 0 if ask.shape.node is not None else 1 if ask.shape.selector else 2
        amounts = ask.resources.amounts.items()
        return choice, -max(
            (share(some, total.get(name, 0)) for name, some in amounts), default=0.0
        )
