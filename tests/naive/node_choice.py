"""Which node an ask gets, in the naive model: filters, node services, the topology of a gang."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from muster_core.gangs import Topology, TopologyRule
from muster_core.snapshots import AskPlace
from tests.naive import affinity, order, order as user_limits
from tests.naive.gangs import constrained, holding, members
from tests.naive.order import domain_of, domains, homes, lets, topology_of
from tests.naive.picture import Picture, empty_room, has_models, lacking, room_of, taken_by
from tests.naive.state import Ask, Node, World, awake, backs_off


def is_service(world: World, ask: Ask) -> bool:
    """Return whether an ask is a node service now."""
    allowed = world.queues[ask.app.queue].settings.required_node
    return allowed and ask.required is not None and constrained(world, ask) is None


def lacks_only_room(picture: Picture, ask: Ask) -> bool:
    """Return whether nothing but room on its node can stand against a node service."""
    node = picture.world.nodes.get(ask.required or "")
    if node is None or not node.schedulable:
        return False
    selected = all(node.attributes.get(key) == text for key, text in ask.selector.items())
    large = all(node.capacity[name] >= value for name, value in ask.resources.items())
    large = large and not lacking(empty_room(node), ask)
    free = picture.fits_headroom(ask) and not order.over(picture, ask)
    selected = selected and affinity.open_to(node, ask)
    return selected and large and free and lets(picture, node, ask)


def keepers(world: World, node: Node) -> list[Ask]:
    """Return the node services that keep a node."""
    return [
        ask
        for ask in world.pending()
        if ask.keeps and ask.required == node.name and is_service(world, ask)
    ]


def is_open(world: World, node: Node, ask: Ask) -> bool:
    """Return whether no node service keeps an ask from being placed on a node."""
    return is_service(world, ask) or not keepers(world, node)


def check(picture: Picture, *asks: Ask) -> None:
    """Let asks keep their nodes no longer if anything but room stands against them."""
    for ask in asks:
        served = is_service(picture.world, ask) and lacks_only_room(picture, ask)
        if ask.keeps and (not served or backs_off(picture.world, ask)):
            ask.keeps = False


def may_stand(node: Node, ask: Ask) -> bool:
    """Return whether an ask may be on a node, whatever is free and if it is schedulable or not."""
    return is_chosen(node, ask) and affinity.open_to(node, ask)


def is_chosen(node: Node, ask: Ask) -> bool:
    """Return whether a node is the required one, and has the selected attributes and models."""
    selected = all(node.attributes.get(key) == text for key, text in ask.selector.items())
    return ask.required in {None, node.name} and selected and has_models(node, ask)


def matches(node: Node, ask: Ask) -> bool:
    """Return whether an ask may be placed on a node, whatever room there is."""
    return node.schedulable and may_stand(node, ask)


def lacks(picture: Picture, node: Node, ask: Ask, *, of_all: bool = False) -> set[str]:
    """Return the types of which a node has too little left for an ask, beside others or of all."""
    used = picture.used[node.name]
    there = {name: node.capacity[name] if of_all else node.for_asks(name) for name in ask.wants}
    types = {
        name for name, value in ask.resources.items() if used.get(name, 0) + value > there[name]
    }
    picture.world.reached["reserved"] += any(
        used.get(name, 0) + ask.wants[name] <= node.capacity[name] for name in types
    )
    if not ask.needs:
        return types
    room, reached = room_of(picture, node), picture.world.reached
    found = lacking(room, ask)
    reached["enough in all, not on one"] += any(
        ask.wants[name] <= room.free.get(name, 0) for name in found
    )
    return types | found


def takes(picture: Picture, node: Node, ask: Ask) -> bool:
    """Return whether a node is schedulable, open, matches and has room."""
    reached = picture.world.reached
    reached["another model"] += not has_models(node, ask) and set(ask.needs) <= set(node.stock)
    reached["averse"] += not affinity.wanted(node, ask)
    reached["tainted"] += bool(affinity.keeping_off(node, ask))
    reached["tolerated"] += bool(node.taints and ask.tolerations) and affinity.open_to(node, ask)
    fits = matches(node, ask) and not lacks(picture, node, ask)
    return fits and is_open(picture.world, node, ask)


Order = Callable[[Picture, Ask], list[Node]]
"""Gives all nodes, best first for an ask."""


def nodes(picture: Picture, ask: Ask, in_order: Order = order.nodes) -> list[Node]:
    """Return the nodes that the topology of an ask allows, in the order in which it takes them."""
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
    """Return the nodes in the order in which section 7 looks at them; nothing is tried."""
    found = order.nodes_of_plans(picture, ask)
    if any(not lets(picture, node, ask) for node in found):
        _note(picture, ask, "keeps off in a plan")
    return _in_order(picture, ask, [node for node in found if lets(picture, node, ask)])


def chosen(picture: Picture, ask: Ask, topology: Topology, in_order: Order) -> str | None:
    """Return the first domain with room for an ask, then for the others that its gang lacks."""
    asks = [ask, *_others(picture, ask)]
    if len({one.app.queue for one in asks}) > 1:
        _note(picture, ask, "tries asks of several leaves")
    for domain in domains(picture, topology):
        if _placed(picture, asks, _inside(topology, domain, in_order)) == len(asks):
            return domain
    return None


def rooms(picture: Picture, ask: Ask, topology: Topology) -> tuple[int, dict[str, int]]:
    """Return how many a gang lacks, and how many of them are placed in each domain until one fails.

    Those without a schedulable node are left out.
    """
    asks, found = [ask, *_others(picture, ask)], dict[str, int]()
    open_nodes = [node for node in picture.world.nodes.values() if node.schedulable]
    there = {domain_of(node, topology) for node in open_nodes}
    for domain in (one for one in domains(picture, topology) if one in there):
        found[domain] = _placed(picture, asks, _inside(topology, domain, order.nodes))
    return len(asks), found


def _inside(topology: Topology, domain: str, in_order: Order) -> Order:
    """Return the order of the nodes of one domain."""

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
    """Return the others that an ask's gang lacks, in the present order; none once satisfied."""
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


def _any(_: Node) -> bool:
    return True


def first_node(picture: Picture, ask: Ask, may: Callable[[Node], bool] = _any) -> Node | None:
    """Return the first node in order that is schedulable, open, matches and has room.

    Args:
        picture: What is now.
        ask: The ask.
        may: What must be true of the node besides.
    """
    return _first(picture, ask, nodes(picture, ask), may)


def fitting(picture: Picture, ask: Ask) -> Node | None:
    """Return the first node for an ask that neither a quota nor a limit keeps from it."""
    return first_node(picture, ask) if has_headroom(picture, ask) else None


def fullest(picture: Picture, ask: Ask, may: Callable[[Node], bool]) -> Node | None:
    """Return the most utilised node that an ask may take and fits, if it has headroom."""
    if not has_headroom(picture, ask):
        return None
    return _first(picture, ask, nodes(picture, ask, order.by_fullness), may)


def fitting_in_claims(picture: Picture, ask: Ask) -> Node | None:
    """Return the first node that a member takes without victims, in the order of section 7.

    Where no domain has room for all that its gang lacks, it begins in any that has for it: the
    others may find victims there.
    """
    if not has_headroom(picture, ask):
        return None
    node = _first(picture, ask, nodes(picture, ask, order.nodes_of_plans))
    return node or _first(picture, ask, nodes_of_plans(picture, ask))


def fits_on(picture: Picture, node: Node, ask: Ask) -> bool:
    """Return whether an ask may take a node and fits it, the quotas and its user's limits."""
    fits = takes(picture, node, ask) and has_headroom(picture, ask)
    return fits and node in nodes(picture, ask)


def has_headroom(picture: Picture, ask: Ask) -> bool:
    """Return whether neither a quota nor a limit of its user or group stands against an ask."""
    return picture.fits_headroom(ask) and not user_limits.over(picture, ask)


def _first(
    picture: Picture, ask: Ask, nodes: Iterable[Node], may: Callable[[Node], bool] = _any
) -> Node | None:
    return next((node for node in nodes if takes(picture, node, ask) and may(node)), None)
