"""Topology of a gang in the naive model: the nodes that a member may take, in which order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from muster_core.gangs import Topology, TopologyRule
from muster_core.snapshots import AskPlace
from tests.naive import order, user_limits
from tests.naive.back_off import awake
from tests.naive.devices.rooms import taken_by
from tests.naive.filters import takes
from tests.naive.gangs import holding, members
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node
from tests.naive.topology.domains import domain_of, domains, homes, lets, topology_of

Order = Callable[[Picture, Ask], list[Node]]
"""Gives all nodes, best first for an ask."""


def nodes(picture: Picture, ask: Ask, in_order: Order = order.nodes) -> list[Node]:
    """Give the nodes that an ask may take by its topology, in the order in which it takes them."""
    topology = topology_of(picture, ask)
    found = in_order(picture, ask)
    if topology is None:
        return found
    allowed = [node for node in found if lets(picture, node, ask)]
    held = homes(picture, ask)
    if topology.rule is TopologyRule.SPREAD or held:
        _note(picture, ask, "stays" if len({*held}) < 2 else "differs")
        if len(allowed) < len(found):
            _note(picture, ask, "keeps off")
        return _in_order(picture, ask, allowed)
    first = chosen(picture, ask, topology, in_order)
    _note(picture, ask, "none" if first is None else "chosen")
    inside = [node for node in allowed if first is not None and domain_of(node, topology) == first]
    if topology.rule is TopologyRule.SAME:
        return inside
    return inside + [node for node in allowed if node not in inside]


def nodes_of_plans(picture: Picture, ask: Ask) -> list[Node]:
    """Give the nodes in the order in which section 7 looks at them; nothing is tried."""
    found = order.nodes_of_plans(picture, ask)
    if any(not lets(picture, node, ask) for node in found):
        _note(picture, ask, "keeps off in a plan")
    return _in_order(picture, ask, [node for node in found if lets(picture, node, ask)])


def chosen(picture: Picture, ask: Ask, topology: Topology, in_order: Order) -> str | None:
    """Give the first domain in which an ask, then the others that its gang lacks, can be placed."""
    asks = [ask, *_others(picture, ask)]
    if len({one.app.queue for one in asks}) > 1:
        _note(picture, ask, "tries asks of several leaves")
    for domain in domains(picture, topology):
        if _placed(picture, asks, _inside(topology, domain, in_order)) == len(asks):
            return domain
    return None


def rooms(picture: Picture, ask: Ask, topology: Topology) -> tuple[int, dict[str, int]]:
    """Give how many a gang lacks, and how many of them are placed in each domain until one fails.

    Those without a schedulable node are left out.
    """
    asks, found = [ask, *_others(picture, ask)], dict[str, int]()
    open_nodes = [node for node in picture.world.nodes.values() if node.schedulable]
    there = {domain_of(node, topology) for node in open_nodes}
    for domain in (one for one in domains(picture, topology) if one in there):
        found[domain] = _placed(picture, asks, _inside(topology, domain, order.nodes))
    return len(asks), found


def _inside(topology: Topology, domain: str, in_order: Order) -> Order:
    """Give the order of the nodes of one domain."""

    def found(picture: Picture, ask: Ask) -> list[Node]:
        return [node for node in in_order(picture, ask) if domain_of(node, topology) == domain]

    return found


def _in_order(picture: Picture, ask: Ask, found: Sequence[Node]) -> list[Node]:
    """Order nodes by their domains first, as far as nothing need be tried for that."""
    topology = topology_of(picture, ask)
    if topology is None or topology.rule is TopologyRule.SAME:
        return list(found)
    held = homes(picture, ask)
    if topology.rule is TopologyRule.PREFER:
        return sorted(found, key=lambda node: domain_of(node, topology) not in held)
    return sorted(found, key=lambda node: held.count(domain_of(node, topology) or ""))


def _note(picture: Picture, ask: Ask, what: str) -> None:
    """Count that a rule was reached."""
    topology, gang = topology_of(picture, ask), picture.world.gangs[ask.gang or ""]
    words = "" if topology is None else f"{topology.rule} "
    picture.world.reached[f"{words}{what}{', satisfied' * gang.satisfied}"] += 1


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


def _placed(picture: Picture, asks: Sequence[Ask], inside: Order) -> int:
    """Try without effect how many asks can be placed one after another on some nodes."""
    world = picture.world
    before = [(ask, ask.place, ask.node, ask.devices) for ask in asks]
    tried = (_is_placed(Picture(world, picture.gone), ask, inside) for ask in asks)
    number = sum(itertools.takewhile(bool, tried))
    for ask, place, node, devices in before:
        ask.place, ask.node, ask.devices = place, node, devices
    return number


def _is_placed(picture: Picture, ask: Ask, inside: Order) -> bool:
    """Place an ask, if it fits."""
    if not picture.fits_headroom(ask) or user_limits.over(picture, ask):
        return False
    found = (node for node in inside(picture, ask) if takes(picture, node, ask))
    node = next(found, None)
    if node is not None:
        ask.devices = taken_by(picture, node, ask)
        ask.place, ask.node = AskPlace.WAITING, node.name
    return node is not None
