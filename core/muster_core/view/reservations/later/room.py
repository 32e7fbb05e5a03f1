"""How much room there is for the members of a party in a projection from which more and more goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.nodes.node import Node
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.later.projection import Projection
    from muster_core.view.reservations.party import Party
    from muster_core.view.state.view_state import ViewState


@final
class Room:
    """The room for each shape of a party, on all nodes together.

    It is an upper bound: as long as there is too little of it, the party cannot be placed.

    Args:
        state: The view.
        projection: The projection.
        party: The party, whose members hold no nodes in the projection.
    """

    def __init__(self, state: ViewState, projection: Projection, party: Party) -> None:
        self._projection = projection
        #: The first member of each shape, and how many have it.
        self._firsts: dict[int, Member] = {}
        self._needs: dict[int, int] = {}
        for member in party.members:
            bit = state.bit_of(member.ask)
            self._firsts.setdefault(bit, member)
            self._needs[bit] = self._needs.get(bit, 0) + 1
        #: The room for each shape, and on each node of it.
        self._room = dict.fromkeys(self._needs, 0)
        self._on: dict[tuple[int, str], int] = {}
        self.look_at(state.nodes.nodes.values())

    def look_at(self, nodes: Iterable[Node]) -> None:
        """Count the room on nodes that have changed."""
        for node in nodes:
            for bit, member in self._firsts.items():
                if node.matching >> bit & 1:
                    now = self._projection.room_for(member, node)
                    self._room[bit] += now - self._on.get((bit, node.name), 0)
                    self._on[bit, node.name] = now

    def may_suffice(self) -> bool:
        """Return whether there may be room for all members."""
        return all(self._room[bit] >= need for bit, need in self._needs.items())
