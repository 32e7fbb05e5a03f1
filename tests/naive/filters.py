"""Whether an ask may be on a node, and whether it has room there, in the naive model."""

from __future__ import annotations

from tests.naive import services
from tests.naive.devices.rooms import has_models, lacking, room_of
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node


def may_stand(node: Node, ask: Ask) -> bool:
    """Say whether a node is the one that an ask requires, has what it selects, and the models."""
    selected = all(node.attributes.get(key) == text for key, text in ask.selector.items())
    return ask.required in {None, node.name} and selected and has_models(node, ask)


def matches(node: Node, ask: Ask) -> bool:
    """Say whether an ask may be placed on a node, whatever room there is."""
    return node.schedulable and may_stand(node, ask)


def lacks(picture: Picture, node: Node, ask: Ask) -> set[str]:
    """Give the types of which a node has too little left for an ask."""
    used, capacity = picture.used[node.name], node.capacity
    types = {
        name for name, value in ask.resources.items() if used.get(name, 0) + value > capacity[name]
    }
    if not ask.needs:
        return types
    room, reached = room_of(picture, node), picture.world.reached
    found = lacking(room, ask)
    reached["enough in all, not on one"] += any(
        ask.wants[name] <= room.free.get(name, 0) for name in found
    )
    return types | found


def takes(picture: Picture, node: Node, ask: Ask) -> bool:
    """Say whether a node is schedulable, open, matches and has room."""
    reached = picture.world.reached
    reached["another model"] += not has_models(node, ask) and set(ask.needs) <= set(node.stock)
    fits = matches(node, ask) and not lacks(picture, node, ask)
    return fits and services.is_open(picture.world, node, ask)
