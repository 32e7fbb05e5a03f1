"""Node services: asks for one node, which take it from others and keep it for themselves."""

from __future__ import annotations

from tests.naive import user_limits
from tests.naive.back_off import backs_off
from tests.naive.devices.rooms import empty_room, lacking
from tests.naive.permits import constrained
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node, World
from tests.naive.topology.domains import lets


def is_service(world: World, ask: Ask) -> bool:
    """Say whether an ask is a node service now."""
    allowed = world.queues[ask.app.queue].settings.required_node
    return allowed and ask.required is not None and constrained(world, ask) is None


def lacks_only_room(picture: Picture, ask: Ask) -> bool:
    """Say whether nothing but room on its node can stand against a node service."""
    node = picture.world.nodes.get(ask.required or "")
    if node is None or not node.schedulable:
        return False
    selected = all(node.attributes.get(key) == text for key, text in ask.selector.items())
    large = all(node.capacity[name] >= value for name, value in ask.resources.items())
    large = large and not lacking(empty_room(node), ask)
    free = picture.fits_headroom(ask) and not user_limits.over(picture, ask)
    return selected and large and free and lets(picture, node, ask)


def keepers(world: World, node: Node) -> list[Ask]:
    """Give the node services that keep a node."""
    return [
        ask
        for ask in world.pending()
        if ask.keeps and ask.required == node.name and is_service(world, ask)
    ]


def is_open(world: World, node: Node, ask: Ask) -> bool:
    """Say whether no node service keeps an ask from being placed on a node."""
    return is_service(world, ask) or not keepers(world, node)


def check(picture: Picture, *asks: Ask) -> None:
    """Let asks keep their nodes no longer if anything but room stands against them."""
    for ask in asks:
        served = is_service(picture.world, ask) and lacks_only_room(picture, ask)
        if ask.keeps and (not served or backs_off(picture.world, ask)):
            ask.keeps = False
