"""The node that a pending ask takes now, wherever asks are placed without evictions.

ORDER-21, TOPOLOGY-3 to TOPOLOGY-10. Rounds, activations, the help in a deadlock, and plans that need no
victim for a member all ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.gangs.member import Member
from muster_core.view.gangs.standing import Standing, held_by, standing_in, standing_of
from muster_core.view.topology.choice import Choice
from muster_core.view.topology.difference import Difference
from muster_core.view.topology.party import equal_party
from muster_core.view.topology.present import Present

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView


@final
class NodeFinder:
    """Finds nodes for pending asks.

    Args:
        state: The view.
        list_apps: Updates the positions of applications that have changed.
    """

    def __init__(self, state: ViewState, list_apps: Callable[[], None]) -> None:
        self._state = state
        self._nodes, self._kept_nodes = state.nodes, state.kept_nodes
        self._gangs, self._apps = state.gangs, state.apps
        self._present = Present(state, list_apps, beside_victims=False)
        self._beside_victims = Present(state, list_apps, beside_victims=True)
        self._choice = Choice(state, self._present)
        self._choice_beside_victims = Choice(state, self._beside_victims)

    # ORDER-21
    def find(
        self,
        leaf: LeafView,
        app: ViewApp,
        ask: Ask,
        bit: int,
        may: Callable[[Node], bool] | None = None,
        *,
        beside_victims: bool = False,
    ) -> Node | None:
        """Return the first node on which a pending ask may be placed now, or None.

        Args:
            leaf: Its leaf, which has headroom for it.
            app: Its application.
            ask: The ask.
            bit: The bit of its shape.
            may: What must be true of the node besides, such as that no reservation is delayed.
            beside_victims: Whether nodes are in the order in which victims are looked for.
        """
        gang = None if ask.gang is None else self._gangs[ask.gang]
        if gang is None or gang.definition is None or gang.definition.topology is None:
            # DEVICE-21
            if beside_victims:
                return next(self._beside_victims.fitting(leaf, ask, bit), None)
            # BACKFILL-24
            if may is not None:
                return next(filter(may, self._present.fitting(leaf, ask, bit)), None)
            # SERVICE-10: an ask that matches a node that is kept requires this node.
            node = self._nodes.find(bit)
            if node is not None and node.kept and not self._kept_nodes.is_service(leaf, ask):
                return None
            return node
        if not self._nodes.fitting >> bit & 1:
            return None
        choice = self._choice_beside_victims if beside_victims else self._choice
        standing = standing_of(gang.definition.topology, held_by(gang, self._apps))
        member, chosen = Member(app, ask), None
        if standing.must_choose:
            chosen = self._choose(choice, gang, member, standing)
        return choice.find(member, standing, chosen, may)

    # TOPOLOGY-14
    def find_in_any_domain(self, leaf: LeafView, ask: Ask, bit: int) -> Node | None:
        """Return the first node of any domain on which a member fits, or None.

        This is for plans: the others may get room in the domain by evictions. It is None
        for all but a member of a gang that must choose its domain.

        Args:
            leaf: Its leaf, which has headroom for it.
            ask: The ask.
            bit: The bit of its shape.
        """
        standing = None if ask.gang is None else standing_in(self._gangs[ask.gang], self._apps)
        if standing is None or not standing.must_choose:
            return None
        fitting = self._beside_victims.fitting(leaf, ask, bit)
        return next((node for node in fitting if standing.lets(node)), None)

    # TOPOLOGY-7
    def _choose(
        self, choice: Choice, gang: ViewGang, member: Member, standing: Standing
    ) -> str | None:
        """Return what :meth:`Choice.choose` returns, which equal members need not try."""
        count = equal_party(gang, member.ask)
        if not count:
            return choice.choose(member, standing)
        if not self._have_headroom(member, count):
            return None
        # SERVICE-10: no member of an unsatisfied gang, and none without a required node, is one.
        domains, attribute = self._state.domains, standing.topology.attribute
        rooms = domains.rooms(attribute, member.ask.shape)
        ordered = domains.in_order(attribute)
        return next((domain for domain in ordered if rooms.get(domain, 0) >= count), None)

    # LIMIT-9, CONFIG-25
    def _have_headroom(self, member: Member, count: int) -> bool:
        """Return whether queues and limits leave enough for so many equal members."""
        difference = Difference(self._state)
        difference.count(*member, count - 1)
        return difference.has_headroom(*member)

    # TOPOLOGY-15
    def rooms(self, member: Member, standing: Standing) -> tuple[int, dict[str, int]]:
        """Return how many members need one domain, and how many of them each has room for.

        Args:
            member: The pending member at hand, whose gang must choose a domain.
            standing: Where the members of the gang stand.

        Returns:
            The number of members, and that of those placed until one fails, by domain, in order.
        """
        return self._choice.rooms(member, standing)
