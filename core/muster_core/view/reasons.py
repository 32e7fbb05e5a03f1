"""Why an ask is pending at the end of a batch: computed when somebody wants to know.

Each reason begins with a code of a closed set, then says it in words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, final

from muster_core.config.model import SortPolicy
from muster_core.lifecycle import AppState

if TYPE_CHECKING:
    from muster_core.messages import Ask
    from muster_core.nodes import Node, NodeIndex
    from muster_core.view.apps import ViewApp
    from muster_core.view.queues import LeafView


@final
class Code(StrEnum):
    """Why an ask is pending."""

    NEVER_FITS = "NeverFits"
    QUEUE_MAX = "QueueMax"
    QUEUE_MAX_APPS = "QueueMaxApps"
    STATE_AWARE_TURN = "StateAwareTurn"
    BLOCKED = "Blocked"
    NO_NODE_FITS = "NoNodeFits"


def why_pending(leaf: LeafView, app: ViewApp, ask: Ask, nodes: NodeIndex) -> str:
    """Say why a pending ask was not placed.

    Args:
        leaf: The queue of its application.
        app: Its application.
        ask: The ask.
        nodes: The nodes.

    Returns:
        The code of the first reason that applies, a colon, and the reason in words.
    """
    for reason in (
        _never_fits(leaf, ask, nodes),
        _queue_max(leaf, ask),
        _queue_max_apps(leaf, app),
        _state_aware_turn(leaf, app),
        _blocked(leaf, ask),
    ):
        if reason is not None:
            return reason
    return _no_node_fits(ask, nodes)


def _never_fits(leaf: LeafView, ask: Ask, nodes: NodeIndex) -> str | None:
    for queue in leaf.upward():
        for name, most in queue.config.max.amounts:
            if ask.resources[name] > most:
                return (
                    f"{Code.NEVER_FITS}: it asks for {ask.resources[name]} of {name}, "
                    f"the max of {queue.config.path} is {most}"
                )
    for node in nodes.in_order():
        if ask.shape.matches(node.name, node.attributes) and ask.resources.fits_in(node.capacity):
            return None
    return f"{Code.NEVER_FITS}: none of {len(nodes.nodes)} nodes could hold it even if empty"


def _queue_max(leaf: LeafView, ask: Ask) -> str | None:
    for queue in leaf.upward():
        for name, most in queue.config.max.amounts:
            room = most - queue.allocated.get(name, 0)
            if ask.resources[name] > room:
                return (
                    f"{Code.QUEUE_MAX}: it asks for {ask.resources[name]} of {name}, "
                    f"the max of {queue.config.path} leaves {max(room, 0)}"
                )
    return None


def _queue_max_apps(leaf: LeafView, app: ViewApp) -> str | None:
    for queue in leaf.upward():
        if queue.gates()[0 if app.running else 1]:
            return (
                f"{Code.QUEUE_MAX_APPS}: {queue.config.max_applications} other applications "
                f"or more run in {queue.config.path}, its maxapplications"
            )
    return None


def _state_aware_turn(leaf: LeafView, app: ViewApp) -> str | None:
    if leaf.config.settings.sort_policy is not SortPolicy.STATE_AWARE:
        return None
    if app.state is AppState.RUNNING or app is leaf.only():
        return None
    return f"{Code.STATE_AWARE_TURN}: another application of {leaf.config.path} is to start first"


def _blocked(leaf: LeafView, ask: Ask) -> str | None:
    if not leaf.config.settings.blocking:
        return None
    first = leaf.first()
    if first is None or first[2] is ask:
        return None
    ahead = f"{first[0].identity.name}/{first[2].name}"
    return f"{Code.BLOCKED}: {leaf.config.path} keeps strict order, and {ahead} before it waits"


def _no_node_fits(ask: Ask, nodes: NodeIndex) -> str:
    counts: dict[str, int] = {}
    for node in nodes.in_order():
        lack = _lack(ask, node)
        counts[lack] = counts.get(lack, 0) + 1
    parts = ", ".join(f"{count} {lack}" for lack, count in sorted(counts.items()))
    return f"{Code.NO_NODE_FITS}: of {len(nodes.nodes)} nodes {parts}"


def _lack(ask: Ask, node: Node) -> str:
    if not ask.shape.matches(node.name, node.attributes):
        return "do not match"
    if not node.schedulable:
        return "are not schedulable"
    short = [
        name
        for name, amount in ask.resources.items()
        if amount > node.capacity.get(name, 0) - node.used.get(name, 0)
    ]
    return f"have too little {' and '.join(short)}"
