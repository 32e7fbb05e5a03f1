"""The node that a pending ask would take in a projection, and whether it would be let take one.

BACKFILL-19. It is what :mod:`muster_core.view.topology.node_finder` does in the view: the topology
of a gang says which nodes a member may take and in which order (TOPOLOGY-3 to TOPOLOGY-10), and the
order of nodes decides among these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.totals import add_to
from muster_core.view.gangs.standing import Standing, topology_of
from muster_core.view.reservations.order import Order
from muster_core.view.reservations.party import Member, pending_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.gangs.topology import Topology
    from muster_core.nodes.node import Node
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.reservations.projection import Projection
    from muster_core.view.state.view_state import ViewState


def topology_of_member(state: ViewState, member: Member) -> Topology | None:
    """Return the topology of an ask's gang, satisfied or not; None without one."""
    gang = member.ask.gang
    return None if gang is None else topology_of(state.gangs[gang])


def has_topology(state: ViewState, member: Member) -> bool:
    """Return whether the topology of its gang says which nodes an ask may take."""
    return topology_of_member(state, member) is not None


@final
@attrs.frozen
class Choice:
    """Chooses nodes in a projection.

    Args:
        state: The view; it is up to date.
        projection: What differs from it.
    """

    _state: ViewState
    _projection: Projection

    # BACKFILL-19
    def find_node(self, member: Member) -> Node | None:
        """Return the first node that a pending ask may take and fits on, or None."""
        standing = self._standing(member)
        if standing is None:
            return self._first(member, self._state.nodes.nodes.values())
        chosen = self._choose(member, standing) if standing.must_choose else None
        by_place: dict[int, list[Node]] = {}
        for node in self._state.nodes.nodes.values():
            place = standing.place(node, chosen)
            if place is not None:
                by_place.setdefault(place, []).append(node)
        found = (self._first(member, nodes) for _, nodes in sorted(by_place.items()))
        return next((node for node in found if node is not None), None)

    # BACKFILL-19
    def fits_on(self, member: Member, node: Node) -> bool:
        """Return whether a pending ask may take a node, and fits there."""
        if not self._has_room(member, node):
            return False
        standing = self._standing(member)
        if standing is None:
            return True
        chosen = self._choose(member, standing) if standing.must_choose else None
        return standing.place(node, chosen) is not None

    def _first(self, member: Member, nodes: Iterable[Node]) -> Node | None:
        """Return the first of some nodes on which an ask has room."""
        fitting = [node for node in nodes if self._has_room(member, node)]
        rank, ask = self._projection.rank, member.ask
        return min(fitting, key=lambda node: rank(node, ask), default=None)

    def _has_room(self, member: Member, node: Node) -> bool:
        return self._projection.has_room(node, self._state.leaf_of(member.app), member.ask)

    def _standing(self, member: Member) -> Standing | None:
        """Return where the members of an ask's gang stand here; None without a topology."""
        topology, name = topology_of_member(self._state, member), member.ask.gang
        if topology is None or name is None:
            return None
        counts: dict[str, int] = {}
        homes: list[tuple[int, str]] = []
        for age, node in self._held(self._state.gangs[name]):
            domain = node.attributes.get(topology.attribute)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + 1
                homes.append((age, domain))
        # TOPOLOGY-4
        return Standing(topology, counts, min(homes)[1] if homes else None)

    def _held(self, gang: ViewGang) -> Iterator[tuple[int, Node]]:
        """Yield when each member that holds a node here was assigned, and its node."""
        projection, apps = self._projection, self._state.apps
        for key, name in gang.bound:
            if (key, name) not in projection.released:
                allocation, node = apps[key].bound[name]
                yield allocation.age, node
        for (key, name), hold in gang.waiting.items():
            if (key, name) not in projection.released:
                yield hold.allocation.age, hold.node
        last = self._state.numbers
        for number, (holder, member) in enumerate(projection.placed.items(), last + 1):
            if member.ask.gang == gang.name:
                yield number, projection.nodes_of[holder]

    # TOPOLOGY-7
    def _choose(self, member: Member, standing: Standing) -> str | None:
        """Return the first domain in which a member and those that its gang lacks have room."""
        party = self._party(member)
        for domain in self._domains(standing.topology.attribute):
            if self._have_room(party, standing, domain):
                return domain
        return None

    # TOPOLOGY-8, TOPOLOGY-9
    def _party(self, member: Member) -> list[Member]:
        """Return a member, and the others that its gang lacks here, in order."""
        gang, placed = self._state.gangs[member.ask.gang or ""], self._projection.placed
        there = sum(other.ask.gang == gang.name for other in placed.values())
        lacking = gang.missing - there - 1
        if lacking <= 0:
            return [member]
        others = [
            other
            for other in pending_of(gang)
            if other.ask is not member.ask
            and (other.app.identity.key, other.ask.name) not in placed
        ]
        return [member, *Order(self._state, self._projection).sorted(others)[:lacking]]

    def _have_room(self, party: Iterable[Member], standing: Standing, domain: str) -> bool:
        """Try without effect whether members can be placed in a domain one after another."""
        projection = self._projection
        taken: list[tuple[Member, Node]] = []
        nodes = [
            node for node in self._state.nodes.nodes.values() if standing.domain_of(node) == domain
        ]
        fits = True
        for member in party:
            node = None
            if projection.has_headroom(member.app, member.ask):
                node = self._first(member, nodes)
            if node is None:
                fits = False
                break
            projection.place(member, node)
            taken.append((member, node))
        for member, node in reversed(taken):
            projection.undo(member, node)
        return fits

    # TOPOLOGY-10
    def _domains(self, attribute: str) -> list[str]:
        """Return the domains of an attribute that have a schedulable node, in order."""
        sums: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        for node in self._state.nodes.nodes.values():
            value = node.attributes.get(attribute)
            if value is not None and node.schedulable:
                capacity, used = sums.setdefault(value, ({}, {}))
                add_to(capacity, node.capacity)
                add_to(used, self._projection.used_on(node))
        score = self._state.nodes.score
        return sorted(sums, key=lambda value: (score(*sums[value]), value))
