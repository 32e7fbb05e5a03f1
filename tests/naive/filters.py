"""Whether an ask may be on a node, and whether it has room there, in the naive model."""

from __future__ import annotations

from tests.naive import services
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node


def may_stand(node: Node, ask: Ask) -> bool:
    """Say whether a node is the one that an ask requires, and has what it selects."""
    selected = all(node.attributes.get(key) == text for key, text in ask.selector.items())
    return ask.required in {None, node.name} and selected


def matches(node: Node, ask: Ask) -> bool:
    """Say whether an ask may be placed on a node, whatever room there is."""
    return node.schedulable and may_stand(node, ask)


def lacks(picture: Picture, node: Node, ask: Ask) -> set[str]:
    """Give the types of which a node has too little left for an ask."""
    used = picture.used[node.name]
    return {
        name for name, value in ask.wants.items() if used.get(name, 0) + value > node.capacity[name]
    }


def takes(picture: Picture, node: Node, ask: Ask) -> bool:
    """Say whether a node is schedulable, open, matches and has room."""
    fits = matches(node, ask) and not lacks(picture, node, ask)
    return fits and services.is_open(picture.world, node, ask)
