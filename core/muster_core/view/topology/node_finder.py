"""The node that a pending ask takes now, wherever asks are placed without evictions.

ORDER-21, TOPOLOGY-3 to TOPOLOGY-10. Rounds, activations, the help in a deadlock, and plans that need no
victim for a member all ask here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.gangs.standing import Standing, standing_in, standing_of
from muster_core.view.topology.domains import Domains
from muster_core.view.topology.party import Member, equal_party, party_of
from muster_core.view.topology.trial import Trial, headroom_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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
        self._list_apps = list_apps
        self._domains = Domains(state.nodes)

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
                return next(self._fitting(leaf, ask, bit, beside_victims=True), None)
            # BACKFILL-24
            if may is not None:
                fitting = self._fitting(leaf, ask, bit, beside_victims=False)
                return next(filter(may, fitting), None)
            # SERVICE-10
            return self._unless_kept(self._nodes.find(bit), leaf, ask)
        if not self._nodes.fitting >> bit & 1:
            return None
        standing, chosen = standing_of(gang, gang.definition.topology, self._apps), None
        if standing.must_choose:
            chosen = self._choose(gang, (app, ask), standing, beside_victims=beside_victims)
        fitting = self._fitting(leaf, ask, bit, beside_victims=beside_victims)
        return _first(standing, chosen, fitting if may is None else filter(may, fitting))

    def _unless_kept(self, node: Node | None, leaf: LeafView, ask: Ask) -> Node | None:
        if node is None or not node.kept or self._kept_nodes.is_service(leaf, ask):
            return node
        return None  # An ask that matches a node that is kept requires this node.

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
        fitting = self._fitting(leaf, ask, bit, beside_victims=True)
        return next((node for node in fitting if standing.lets(node)), None)

    # ORDER-21, SERVICE-10
    def _fitting(
        self, leaf: LeafView, ask: Ask, bit: int, *, beside_victims: bool
    ) -> Iterator[Node]:
        """Iterate over the nodes on which an ask fits, whatever its gang says, in order."""
        service = self._kept_nodes.is_service(leaf, ask)
        fitting = self._nodes.fitting_on(bit, beside_victims=beside_victims)
        return (node for node in fitting if service or not node.kept)

    # TOPOLOGY-7
    def _choose(
        self, gang: ViewGang, member: Member, standing: Standing, *, beside_victims: bool
    ) -> str | None:
        """Return the first domain in which a member and those that its gang lacks have room."""
        domains = self._domains.in_order(standing.topology.attribute)
        count = equal_party(gang, member[1])
        if count:
            rooms = self._equal_rooms(member, standing, count)
            return next((domain for domain in domains if rooms.get(domain, 0) >= count), None)
        party = party_of(self._state, gang, member, self._bring_up_to_date)
        for domain in domains:
            placed = self._place(party, standing, domain, beside_victims=beside_victims)
            if placed == len(party):
                return domain
        return None

    def rooms(
        self, gang: ViewGang, member: Member, standing: Standing
    ) -> tuple[int, dict[str, int]]:
        """Return how many members need one domain, and how many of them each has room for.

        Args:
            gang: The gang, which must choose a domain.
            member: The pending member at hand.
            standing: Where the members of the gang stand.

        Returns:
            The number of members, and that of those placed until one fails, by domain, in order.
        """
        domains = self._domains.in_order(standing.topology.attribute)
        party = party_of(self._state, gang, member, self._bring_up_to_date)
        return len(party), {one: self._place(party, standing, one) for one in domains}

    def _equal_rooms(self, member: Member, standing: Standing, count: int) -> Mapping[str, int]:
        """Return for how many equal members each domain has room, if queues and limits have."""
        app, ask = member
        if headroom_for(self._state, app, ask, count) < count:
            return {}
        # SERVICE-10: no member of an unsatisfied gang, and none without a required node, is one.
        return self._domains.rooms(standing.topology.attribute, ask.shape)

    def _place(
        self,
        party: list[Member],
        standing: Standing,
        domain: str,
        *,
        beside_victims: bool = False,
    ) -> int:
        """Try how many members can be placed in a domain one after another, until one fails."""
        trial = Trial(self._state)
        with trial.running():
            for number, (app, ask) in enumerate(party):
                if not trial.has_headroom(app, ask):
                    return number
                leaf, bit = self._state.leaf_of(app), self._state.bit_of(ask)
                fitting = self._fitting(leaf, ask, bit, beside_victims=beside_victims)
                node = next((one for one in fitting if standing.domain_of(one) == domain), None)
                if node is None:
                    return number
                trial.place(app, ask, node)
        return len(party)

    def _bring_up_to_date(self) -> None:
        self._list_apps()
        self._state.refresh()


def _first(standing: Standing, chosen: str | None, fitting: Iterable[Node]) -> Node | None:
    """Return the node with the least place, and of these the first in the order of nodes."""
    best, least = None, -1
    for node in fitting:
        place = standing.place(node, chosen)
        if place is not None and (best is None or place < least):
            best, least = node, place
            if not place:
                break
    return best
