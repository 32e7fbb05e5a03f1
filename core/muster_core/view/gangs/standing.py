"""Where the members of a gang stand in the domains of its topology, and what that means for others.

TOPOLOGY-3 to TOPOLOGY-9. A domain is all nodes with one value of the attribute. A member that holds a
node without the attribute is in no domain, and does not count here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.gangs.topology import Topology, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from muster_core.nodes.node import Holder, Node
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
    return standing_of(topology, held_by(gang, apps))


def standing_of(topology: Topology, held: Iterable[tuple[int, Node]]) -> Standing:
    """Return where the members of a gang stand that hold some nodes.

    Args:
        topology: The topology of the gang.
        held: When each of these members was assigned, as the place among all that were, and its
            node.
    """
    counts: dict[str, int] = {}
    home, first = None, -1
    for age, node in held:
        domain = node.attributes.get(topology.attribute)
        if domain is None:
            continue
        counts[domain] = counts.get(domain, 0) + 1
        # TOPOLOGY-4
        if home is None or age < first:
            home, first = domain, age
    return Standing(topology, counts, home)


def held_by(
    gang: ViewGang, apps: Mapping[int, ViewApp], without: Container[Holder] = ()
) -> Iterator[tuple[int, Node]]:
    """Yield when each waiting and each bound member of a gang was assigned, and its node.

    Args:
        gang: The gang.
        apps: All applications, by key.
        without: The members that do not count.
    """
    for holder in gang.bound:
        if holder not in without:
            key, name = holder
            allocation, node = apps[key].bound[name]
            yield allocation.age, node
    for holder, hold in gang.waiting.items():
        if holder not in without:
            yield hold.allocation.age, hold.node
