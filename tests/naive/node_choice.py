"""Which node an ask gets, in the naive model: the first in order that takes it."""

from __future__ import annotations

from collections.abc import Callable

from tests.naive import order, user_limits
from tests.naive.filters import takes
from tests.naive.picture import Picture
from tests.naive.state import Ask, Node


def _any(_: Node) -> bool:
    return True


def first_node(picture: Picture, ask: Ask, may: Callable[[Node], bool] = _any) -> Node | None:
    """Give the first node in order that is schedulable, open, matches and has room.

    Args:
        picture: What is now.
        ask: The ask.
        may: What must be true of the node besides.
    """
    found = (node for node in order.nodes(picture) if takes(picture, node, ask))
    return next((node for node in found if may(node)), None)


def fitting(picture: Picture, ask: Ask) -> Node | None:
    """Give the first node for an ask that neither a quota nor a limit keeps from it."""
    return first_node(picture, ask) if has_headroom(picture, ask) else None


def fits_on(picture: Picture, node: Node, ask: Ask) -> bool:
    """Say whether an ask fits one node, the quotas above it and the limits of its user."""
    return takes(picture, node, ask) and has_headroom(picture, ask)


def has_headroom(picture: Picture, ask: Ask) -> bool:
    """Say whether neither a quota nor a limit of its user or group stands against an ask."""
    return picture.fits_headroom(ask) and not user_limits.over(picture, ask)
