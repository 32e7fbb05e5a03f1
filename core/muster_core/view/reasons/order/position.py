"""The place of a pending ask among all pending asks (OUTLOOK-1)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from muster_core.structures.steps import PART, in_pieces
from muster_core.view.tree.queue import ParentView
from muster_core.view.tree.sort_keys import app_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.owners.messages.asks import Ask, AskOrder
    from muster_core.structures.steps import Steps
    from muster_core.view.reasons.turns import Turn
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue


# OUTLOOK-1
def position(state: ViewState, turn: Turn) -> Steps[int]:
    """Return the place of a pending ask if all were taken in order and none was placed.

    None is skipped: neither one that does not fit, nor one whose queue, application or gang has
    no turn now. So the keys of the order stay as they are, and only those before it count.

    Args:
        state: The view.
        turn: The pending ask.

    Returns:
        Its place, from 1.
    """
    ahead = 0
    for queue in _queues_ahead(turn.leaf, state.total):
        yield
        ahead += sum(sum(leaf.shapes.values()) for leaf in state.leaves_below(queue))
    for apps in in_pieces(_apps_ahead(turn, state.total)):
        yield
        ahead += sum(len(app.pending) + len(app.backing_off) for app in apps)
    own = _order_of(state, turn.ask)
    for asks in in_pieces(turn.app.each_pending(), PART):
        yield
        ahead += sum(_order_of(state, ask) < own for ask in asks)
    return ahead + 1


def _order_of(state: ViewState, ask: Ask) -> AskOrder:
    """Return the position of a pending ask among those of its application.

    A member may back off, so its application need not offer any member of its gang.
    """
    return ask.order if ask.gang is None else ask.order_in(state.gangs[ask.gang].creation)


def _queues_ahead(leaf: LeafView, total: Mapping[str, int]) -> Iterator[ViewQueue]:
    """Iterate over the queues with pending asks that come before one on the path to a leaf."""
    for own, parent in pairwise(leaf.upward()):
        assert isinstance(parent, ParentView), "what has children is a parent"
        key = own.key_in(parent, total)
        for child in parent.children.values():
            if child is not own and any(child.pending) and child.key_in(parent, total) < key:
                yield child


def _apps_ahead(turn: Turn, total: Mapping[str, int]) -> Iterator[ViewApp]:
    """Iterate over the applications of the leaf with pending asks that come before the ask's."""
    config = turn.leaf.config
    key = app_key(config, turn.app, total)
    for app in turn.leaf.apps.values():
        if app is not turn.app and any(app.each_pending()) and app_key(config, app, total) < key:
            yield app
