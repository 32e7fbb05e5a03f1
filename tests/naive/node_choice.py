"""Which node an ask gets, in the naive model: the first in order that takes it."""

from __future__ import annotations

from collections.abc import Iterable

from tests.naive import order, user_limits
from tests.naive.filters import takes
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node
from tests.naive.topology import choice


def first_node(picture: Picture, ask: Ask) -> Node | None:
    """Give the first node in order that is schedulable, open, matches and has room."""
    return _first(picture, ask, choice.nodes(picture, ask))


def fitting(picture: Picture, ask: Ask) -> Node | None:
    """Give the first node for an ask that neither a quota nor a limit keeps from it."""
    return first_node(picture, ask) if has_headroom(picture, ask) else None


def fitting_in_claims(picture: Picture, ask: Ask) -> Node | None:
    """Give the first node that a member takes without victims, in the order of section 7.

    Where no domain has room for all that its gang lacks, it begins in any that has for it: the
    others may find victims there.
    """
    if not has_headroom(picture, ask):
        return None
    node = _first(picture, ask, choice.nodes(picture, ask, order.nodes_of_plans))
    return node or _first(picture, ask, choice.nodes_of_plans(picture, ask))


def has_headroom(picture: Picture, ask: Ask) -> bool:
    """Say whether neither a quota nor a limit of its user or group stands against an ask."""
    return picture.fits_headroom(ask) and not user_limits.over(picture, ask)


def _first(picture: Picture, ask: Ask, nodes: Iterable[Node]) -> Node | None:
    return next((node for node in nodes if takes(picture, node, ask)), None)
