"""The node that a pending ask takes, wherever asks are placed without evictions.

ORDER-21, TOPOLOGY-3 to TOPOLOGY-15, BACKFILL-19, EVICTION-25. Rounds, activations, the help in a
deadlock, and plans that need no victim for a member all ask here; it knows nothing of them. For the
member of a gang with a topology the domain is chosen first. The choice looks at a cluster model:
the cluster as it is, where trials really take nodes and give them back, or as it will be at another
instant (see :mod:`muster_core.view.reservations.projection`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import Protocol, final

from muster_core.nodes.node import DeviceUse, Holder, Node
from muster_core.nodes.node_index import NodeIndex
from muster_core.owners.asks import Ask
from muster_core.structures.ranking import Rank
from muster_core.structures.shapes import Shape
from muster_core.values.resources import Resources
from muster_core.view.gangs import (
    Member,
    TopologyState,
    ViewGang,
    held_nodes,
    pending_members,
    topology_of,
    topology_state_from,
    topology_state_of,
)
from muster_core.view.placement_diff import PendingOrder, PlacementDiff
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView


class ClusterModel(Protocol):
    """The asks on nodes, and their devices.

    The model of the present has the index of nodes, which is quick. That of another instant
    knows what differs on each node. So each has its own way to find the first node with room; what
    is looked for, and where, is up to :class:`NodeChoice`.
    """

    @property
    def difference(self) -> PlacementDiff:
        """What differs from the view; another one in each trial."""
        ...

    def order(self) -> PendingOrder:
        """Return the order of pending asks here."""
        ...

    # TOPOLOGY-10
    def domains(self, attribute: str) -> Sequence[str]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        ...

    def finder(self, place: Callable[[Node], int | None]) -> Callable[[Member], Node | None]:
        """Return a finder for the node that a pending ask takes here, if there is one.

        That is the first in the order of nodes, among those with the least place of all that it
        matches and fits.

        Args:
            place: Returns how early a node is taken, 0 for the earliest, or None for never.
        """
        ...

    def trying(self) -> AbstractContextManager[None]:
        """Undo at the end all that is placed meanwhile."""
        ...

    def place(self, member: Member, node: Node) -> None:
        """Let a pending ask hold a node on which it fits."""
        ...


# TOPOLOGY-8, TOPOLOGY-9
def equal_members_lacking(gang: ViewGang, ask: Ask) -> int:
    """Return how many members are to find room, if they are equal and of one application; else 0.

    It is for the present, where it saves finding the members themselves.
    """
    if ask.shape.node is not None:  # Such an ask may be on a node that is kept.
        return 0
    lacking = gang.missing
    if lacking <= 1:
        return 1
    if len(gang.slots) != 1:
        return 0
    (slot,) = gang.slots.values()
    is_there = ask.name in slot.members  # Otherwise it backs off.
    return min(lacking, len(slot.members)) if is_there and len(slot.bits) == 1 else 0


# TOPOLOGY-8
def members_lacking(picture: ClusterModel, gang: ViewGang, member: Member) -> list[Member]:
    """Return a pending member, and the others that its gang lacks, in order."""
    placed = picture.difference.placed
    # TOPOLOGY-9
    lacking = gang.missing - 1
    if lacking > 0 and placed:
        lacking -= sum(one.ask.gang == gang.name for one, _ in placed.values())
    if lacking <= 0:
        return [member]
    pending = pending_members(gang)
    if placed:
        pending = [one for one in pending if one.holder not in placed]
    others = (one for one in picture.order().sorted(pending) if one.ask is not member.ask)
    return [member, *islice(others, lacking)]


@final
class NodeChoice:
    """Chooses nodes in a picture.

    Args:
        state: The view; it is up to date.
        picture: The asks on nodes.
    """

    def __init__(self, state: ViewState, picture: ClusterModel) -> None:
        self._state = state
        self._picture = picture

    # TOPOLOGY-3
    def standing(self, member: Member) -> TopologyState | None:
        """Return the domains of the members of an ask's gang; None without a topology."""
        gang = None if member.ask.gang is None else self._state.gangs[member.ask.gang]
        topology = None if gang is None else topology_of(gang)
        if gang is None or topology is None:
            return None
        return topology_state_from(topology, self._picture.difference.held_by(gang))

    def find(
        self,
        member: Member,
        standing: TopologyState,
        chosen: str | None,
        may: Callable[[Node], bool] | None = None,
    ) -> Node | None:
        """Return the first node that a pending member may take and fits on, or None."""

        def place(node: Node) -> int | None:
            found = standing.place(node, chosen)
            return found if found is None or may is None or may(node) else None

        anywhere = partial(standing.place, chosen=chosen)  # It is quicker.
        return self._picture.finder(anywhere if may is None else place)(member)

    # TOPOLOGY-7
    def choose(self, member: Member, standing: TopologyState) -> str | None:
        """Return the first domain in which a member and those that its gang lacks have room.

        Returns:
            The domain; None if there is none, or none need be chosen.
        """
        if not standing.must_choose:
            return None
        party = members_lacking(self._picture, self._gang_of(member), member)
        for domain in self._picture.domains(standing.topology.attribute):
            if self._place(party, standing, domain) == len(party):
                return domain
        return None

    # TOPOLOGY-15
    def rooms(self, member: Member, standing: TopologyState) -> tuple[int, dict[str, int]]:
        """Return how many members need one domain, and how many of them each has room for.

        Args:
            member: The pending member at hand, whose gang must choose a domain.
            standing: The domains of the gang's members.

        Returns:
            The number of members, and that of those placed until one fails, by domain, in order.
        """
        domains = self._picture.domains(standing.topology.attribute)
        party = members_lacking(self._picture, self._gang_of(member), member)
        return len(party), {one: self._place(party, standing, one) for one in domains}

    def _gang_of(self, member: Member) -> ViewGang:
        assert member.ask.gang is not None, "a plain ask has no domain"
        return self._state.gangs[member.ask.gang]

    # TOPOLOGY-7
    def _place(self, party: Sequence[Member], standing: TopologyState, domain: str) -> int:
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


@final
class CurrentCluster:
    """The view as it is.

    Args:
        list_apps: Updates the positions of applications that have changed.
        beside_victims: Whether nodes are in the order in which victims are looked for.
    """

    def __init__(
        self, state: ViewState, list_apps: Callable[[], None], *, beside_victims: bool
    ) -> None:
        self._state = state
        self._list_apps = list_apps
        self._beside_victims = beside_victims
        #: What differs in the trial that is going on; nothing without one.
        self.difference = PlacementDiff(state)
        self._taken: list[tuple[Node, Resources, Holder, DeviceUse]] = []

    def order(self) -> PendingOrder:
        """Return the order of pending asks."""
        return PendingOrder(self._state, self.difference, self._bring_up_to_date)

    def _bring_up_to_date(self) -> None:
        self._list_apps()
        self._state.refresh()

    # TOPOLOGY-10
    def domains(self, attribute: str) -> Sequence[str]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        return self._state.gang_index.domains.in_order(attribute)

    def finder(self, place: Callable[[Node], int | None]) -> Callable[[Member], Node | None]:
        """Return a finder for the node that a pending ask takes; see :class:`ClusterModel`."""

        def find(member: Member) -> Node | None:
            app, ask = member
            leaf, bit = self._state.leaf_of(app), self._state.bit_of(ask)
            best, least = None, -1
            for node in self.fitting(leaf, ask, bit):
                found = place(node)
                if found is not None and (best is None or found < least):
                    best, least = node, found
                    if not found:
                        break
            return best

        return find

    # ORDER-21, SERVICE-10
    def fitting(self, leaf: LeafView, ask: Ask, bit: int) -> Iterator[Node]:
        """Iterate over the nodes on which an ask fits, regardless of its gang, in order."""
        service = self._state.kept_nodes.is_service(leaf, ask)
        fitting = self._state.nodes.fitting_on(bit, beside_victims=self._beside_victims)
        return (node for node in fitting if service or not node.kept)

    @contextmanager
    def trying(self) -> Generator[None]:
        """Undo at the end all that is placed meanwhile."""
        nodes = self._state.nodes
        grown, changes = nodes.grown, nodes.changes
        try:
            yield
        finally:
            for node, resources, holder, use in reversed(self._taken):
                nodes.give_back(node, resources, holder, use)
            nodes.grown, nodes.changes = grown, changes
            if self._taken:
                self._taken.clear()
                self.difference = PlacementDiff(self._state)

    def place(self, member: Member, node: Node) -> None:
        """Let an ask hold a node on which it fits, in a trial."""
        nodes, ask, holder = self._state.nodes, member.ask, member.holder
        use = ask.shape.devices, nodes.devices_for(node, ask.shape)
        nodes.take(node, ask.resources, holder, use)
        self._taken.append((node, ask.resources, holder, use))
        self.difference.place(member, node)


@final
class NodeFinder:
    """Finds nodes for pending asks.

    Args:
        list_apps: Updates the positions of applications that have changed.
    """

    def __init__(self, state: ViewState, list_apps: Callable[[], None]) -> None:
        self._state = state
        self._nodes, self._kept_nodes = state.nodes, state.kept_nodes
        self._gangs, self._apps = state.gangs, state.apps
        self._present = CurrentCluster(state, list_apps, beside_victims=False)
        self._beside_victims = CurrentCluster(state, list_apps, beside_victims=True)
        self.choice = NodeChoice(state, self._present)
        self.choice_beside_victims = NodeChoice(state, self._beside_victims)

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
            may: A further condition on the node, such as that no reservation is delayed.
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
        choice = self.choice_beside_victims if beside_victims else self.choice
        standing = topology_state_from(gang.definition.topology, held_nodes(gang, self._apps))
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
        standing = (
            None if ask.gang is None else topology_state_of(self._gangs[ask.gang], self._apps)
        )
        if standing is None or not standing.must_choose:
            return None
        fitting = self._beside_victims.fitting(leaf, ask, bit)
        return next((node for node in fitting if standing.lets(node)), None)

    # TOPOLOGY-7
    def _choose(
        self, choice: NodeChoice, gang: ViewGang, member: Member, standing: TopologyState
    ) -> str | None:
        """Return the result of :meth:`NodeChoice.choose`, or that for an equal member before."""
        count = equal_members_lacking(gang, member.ask)
        if not count:
            return choice.choose(member, standing)
        if not self._have_headroom(member, count):
            return None
        # SERVICE-10: no member of an unsatisfied gang, and none without a required node, is one.
        domains, attribute = self._state.gang_index.domains, standing.topology.attribute
        rooms = domains.rooms(attribute, member.ask.shape)
        ordered = domains.in_order(attribute)
        return next((domain for domain in ordered if rooms.get(domain, 0) >= count), None)

    # LIMIT-9, CONFIG-25
    def _have_headroom(self, member: Member, count: int) -> bool:
        """Return whether queues and limits leave enough for a number of equal members."""
        difference = PlacementDiff(self._state)
        difference.count(*member, count - 1)
        return difference.has_headroom(*member)


@final
class PlanNodeOrder:
    """The order in which nodes are looked at for an ask.

    Args:
        standing: The domains of its gang's members; None without a topology.
    """

    def __init__(self, nodes: NodeIndex, shape: Shape, standing: TopologyState | None) -> None:
        self._nodes = nodes
        self._shape = shape
        self._standing = standing

    # TOPOLOGY-12
    def lets(self, node: Node) -> bool:
        """Return whether the topology lets the ask be on a node."""
        return self._standing is None or self._standing.lets(node)

    # TOPOLOGY-13
    def rank(self, node: Node) -> Rank:
        """Return the place of a node in the order."""
        rank = self._nodes.rank_for(node, self._shape)
        return rank if self._standing is None else (self._standing.place(node) or 0, *rank)

    def every(self) -> Iterable[Node]:
        """Return all nodes, in order."""
        if self._standing is None:
            return self._nodes.in_order_for(self._shape)
        return sorted(self._nodes.nodes.values(), key=self.rank)

    def some(self, nodes: Collection[Node]) -> Iterable[Node]:
        """Return some of the nodes, in order."""
        if self._standing is None:
            return self._nodes.in_order_for(self._shape, nodes)
        return sorted(nodes, key=self.rank)
