"""Where the members of a gang stand in the domains of its topology, and what that means for others.

TOPOLOGY-3 to TOPOLOGY-9. A domain is all nodes with one value of the attribute. A member that holds a
node without the attribute is in no domain, and does not count here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.gangs.topology import Topology, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Allocation
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.tree.application import ViewApp

# Looking up a member of an enum takes ten times as long, and this is done for each node.
_SAME: Final = TopologyRule.SAME
_SPREAD: Final = TopologyRule.SPREAD


@final
@attrs.frozen(eq=False)
class Standing:
    """The members of a gang in domains, at one moment.

    Attributes:
        topology: The topology of the gang.
        counts: How many members hold nodes in each domain; no zeros.
        home: The domain of the earliest assigned of them, or None if there are none.
    """

    topology: Topology
    counts: Mapping[str, int]
    home: str | None

    # TOPOLOGY-2
    def domain_of(self, node: Node) -> str | None:
        """Return the domain of a node, or None if it is in none."""
        return node.attributes.get(self.topology.attribute)

    # TOPOLOGY-7
    @property
    def must_choose(self) -> bool:
        """Whether a domain must be chosen before a member gets a node."""
        return self.home is None and self.topology.rule is not _SPREAD

    # TOPOLOGY-12
    def lets(self, node: Node) -> bool:
        """Return whether the rule lets a member be on a node, whatever domain is chosen."""
        rule = self.topology.rule
        if rule is not _SAME and rule is not _SPREAD:
            return True
        domain = self.domain_of(node)
        if domain is None:
            return False
        # TOPOLOGY-4
        if rule is _SAME:
            return self.home is None or domain == self.home
        # TOPOLOGY-6
        most = self.topology.max
        return most is None or self.counts.get(domain, 0) < most

    def place(self, node: Node, chosen: str | None = None) -> int | None:
        """Return how early a node is taken, before the order of nodes; 0 is the earliest.

        Args:
            node: The node.
            chosen: The chosen domain, if :attr:`must_choose`; None if there is none.

        Returns:
            The place; None if the rule does not let a member be there.
        """
        rule, domain = self.topology.rule, self.domain_of(node)
        # TOPOLOGY-6
        if rule is _SPREAD:
            return self.counts.get(domain or "", 0) if self.lets(node) else None
        # TOPOLOGY-4
        if rule is _SAME:
            return 0 if domain is not None and domain == (self.home or chosen) else None
        # TOPOLOGY-5
        return 0 if domain is not None and (domain in self.counts or domain == chosen) else 1


# TOPOLOGY-3
def topology_of(gang: ViewGang) -> Topology | None:
    """Return the topology of a gang while it is defined, satisfied or not; None without one."""
    return None if gang.definition is None else gang.definition.topology


def standing_in(gang: ViewGang, apps: Mapping[int, ViewApp]) -> Standing | None:
    """Return where the members of a gang stand now; None without a topology.

    Args:
        gang: The gang.
        apps: All applications, by key.
    """
    topology = topology_of(gang)
    if topology is None:
        return None
    return standing_of(gang, topology, apps)


def standing_of(gang: ViewGang, topology: Topology, apps: Mapping[int, ViewApp]) -> Standing:
    """Do the work of :func:`standing_in` for a known topology."""
    counts: dict[str, int] = {}
    home, first = None, -1
    for allocation, node in _held(gang, apps):
        domain = node.attributes.get(topology.attribute)
        if domain is None:
            continue
        counts[domain] = counts.get(domain, 0) + 1
        # TOPOLOGY-4
        if home is None or allocation.age < first:
            home, first = domain, allocation.age
    return Standing(topology, counts, home)


def _held(gang: ViewGang, apps: Mapping[int, ViewApp]) -> Iterator[tuple[Allocation, Node]]:
    """Return what the waiting and the bound members of a gang hold."""
    for key, name in gang.bound:
        yield apps[key].bound[name]
    for hold in gang.waiting.values():
        yield hold.allocation, hold.node
