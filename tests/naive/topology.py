"""Topology of a gang in the naive model: the nodes that a member may take, in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster_core.gangs.topology import Topology, TopologyRule
from muster_core.snapshots import AskPlace
from tests.naive import order, user_limits
from tests.naive.back_off import awake
from tests.naive.domains import domain_of, domains, homes, lets, topology_of
from tests.naive.filters import takes
from tests.naive.gangs import holding, members
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node


def nodes(picture: Picture, ask: Ask) -> list[Node]:
    """Give the nodes that an ask may take by its topology, in the order in which it takes them."""
    topology = topology_of(picture, ask)
    found = order.nodes(picture, ask)
    if topology is None:
        return found
    allowed = [node for node in found if lets(picture, node, ask)]
    if topology.rule is TopologyRule.SPREAD or homes(picture, ask):
        return _in_order(picture, ask, allowed)
    first = chosen(picture, ask, topology)
    inside = [node for node in allowed if first is not None and domain_of(node, topology) == first]
    if topology.rule is TopologyRule.SAME:
        return inside
    return inside + [node for node in allowed if node not in inside]


def nodes_of_plans(picture: Picture, ask: Ask) -> list[Node]:
    """Give the nodes in the order in which section 7 looks at them; nothing is tried."""
    found = order.nodes_of_plans(picture, ask)
    return _in_order(picture, ask, [node for node in found if lets(picture, node, ask)])


def chosen(picture: Picture, ask: Ask, topology: Topology) -> str | None:
    """Give the first domain in which an ask, then the others that its gang lacks, can be placed."""
    asks = [ask, *_others(picture, ask)]
    for domain in domains(picture, topology):

        def inside(node: Node, domain: str = domain) -> bool:
            return domain_of(node, topology) == domain

        if _can_be_placed(picture, asks, inside):
            return domain
    return None


def _in_order(picture: Picture, ask: Ask, found: Sequence[Node]) -> list[Node]:
    """Order nodes by their domains first, as far as nothing need be tried for that."""
    topology = topology_of(picture, ask)
    if topology is None or topology.rule is TopologyRule.SAME:
        return list(found)
    held = homes(picture, ask)
    if topology.rule is TopologyRule.PREFER:
        return sorted(found, key=lambda node: domain_of(node, topology) not in held)
    return sorted(found, key=lambda node: held.count(domain_of(node, topology) or ""))


def _others(picture: Picture, ask: Ask) -> list[Ask]:
    """Give the others that an ask's gang lacks, in the present order; none once satisfied."""
    world = picture.world
    gang = world.gangs[ask.gang or ""]
    definition = gang.definition
    if definition is None or gang.satisfied:
        return []
    number = definition.min_member - holding(world, gang) - 1
    pending = [one for one in members(world, gang) if one.place is AskPlace.PENDING]
    rest = set(awake(world, pending)) - {ask}
    found: list[Ask] = []
    while len(found) < number and (best := order.best_of(picture, rest)) is not None:
        found.append(best)
        rest.remove(best)
    return found


def _can_be_placed(picture: Picture, asks: Sequence[Ask], inside: Callable[[Node], bool]) -> bool:
    """Try without effect whether asks can be placed one after another on some nodes."""
    world = picture.world
    before = [(ask, ask.place, ask.node) for ask in asks]
    fits = all(_is_placed(Picture(world), ask, inside) for ask in asks)
    for ask, place, node in before:
        ask.place, ask.node = place, node
    return fits


def _is_placed(picture: Picture, ask: Ask, inside: Callable[[Node], bool]) -> bool:
    """Place an ask, if it fits."""
    if not picture.fits_headroom(ask) or user_limits.over(picture, ask):
        return False
    found = (node for node in order.nodes(picture, ask) if inside(node))
    node = next((node for node in found if takes(picture, node, ask)), None)
    if node is not None:
        ask.place, ask.node = AskPlace.WAITING, node.name
    return node is not None
