"""Domains in the naive model: where the members of a gang are, and where they may be.

A *domain* is the nodes with one value of an attribute; it is told by that value, and a node
without the attribute is in none.
"""

from __future__ import annotations

from muster_core.config.model import NodeSortPolicy
from muster_core.gangs import Topology, TopologyRule
from tests.naive import order
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node, total


def topology_of(picture: Picture, ask: Ask) -> Topology | None:
    """Give the topology of an ask's gang, while that is defined, satisfied or not."""
    gang = None if ask.gang is None else picture.world.gangs[ask.gang]
    definition = None if gang is None else gang.definition
    return None if definition is None else definition.topology


def domain_of(node: Node, topology: Topology) -> str | None:
    """Give the domain of a node."""
    return node.attributes.get(topology.attribute)


def lets(picture: Picture, node: Node, ask: Ask) -> bool:
    """Say whether ``same`` or ``spread`` lets a member be on a node, as far as nothing is tried."""
    topology = topology_of(picture, ask)
    if topology is None or topology.rule is TopologyRule.PREFER:
        return True
    domain, held = domain_of(node, topology), homes(picture, ask)
    if domain is None:
        return False
    if topology.rule is TopologyRule.SAME:
        return not held or domain == held[0]
    return topology.max is None or held.count(domain) < topology.max


def homes(picture: Picture, ask: Ask) -> list[str]:
    """Give the domain of each member of an ask's gang that holds a node in one.

    They are in the order in which their nodes were chosen.
    """
    topology = topology_of(picture, ask)
    if topology is None:
        return []
    held = [one for one in picture.held if one.gang == ask.gang]
    held.sort(key=lambda one: one.held_order)
    domains = [domain_of(picture.world.nodes[one.node or ""], topology) for one in held]
    return [domain for domain in domains if domain is not None]


def domains(picture: Picture, topology: Topology) -> list[str]:
    """Give all domains, ordered like nodes that have the sums of their schedulable nodes."""
    there = picture.world.nodes.values()
    config = picture.world.config
    sign = 1.0 if config.node_sort is NodeSortPolicy.FAIR else -1.0

    def key(domain: str) -> tuple[float, str]:
        inside = [
            node for node in there if domain_of(node, topology) == domain and node.schedulable
        ]
        capacity = total(node.capacity for node in inside)
        used = total(picture.used[node.name] for node in inside)
        return (sign * order.utilisation(capacity, used, dict(config.node_weights)), domain)

    values = {domain_of(node, topology) for node in there} - {None}
    return sorted((value for value in values if value is not None), key=key)
