"""Why an ask is pending at the end of a batch: computed when somebody wants to know.

Each reason begins with a code of a closed set, then says it in words.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, final

from muster_core.config.model import SortPolicy
from muster_core.gangs.states import GangState
from muster_core.lifecycle import AppState

if TYPE_CHECKING:
    from muster_core.messages import Ask
    from muster_core.nodes import Node, NodeIndex
    from muster_core.view.apps import ViewApp
    from muster_core.view.gangs import ViewGang, ViewGroup
    from muster_core.view.leaves import LeafView


@final
class Code(StrEnum):
    """Why an ask is pending."""

    NEVER_FITS = "NeverFits"
    QUEUE_MAX = "QueueMax"
    QUEUE_MAX_APPS = "QueueMaxApps"
    STATE_AWARE_TURN = "StateAwareTurn"
    BLOCKED = "Blocked"
    GANG_UNDEFINED = "GangUndefined"
    GANG_TOO_FEW_MEMBERS = "GangTooFewMembers"
    GANG_SURPLUS = "GangSurplus"
    GANG_CYCLE_INVALID = "GangCycleInvalid"
    GANG_TIMED_OUT = "GangTimedOut"
    PERMIT_WAITING = "PermitWaiting"
    NO_NODE_FITS = "NoNodeFits"


def why_pending(
    leaf: LeafView, app: ViewApp, ask: Ask, nodes: NodeIndex, group: ViewGroup | None
) -> str:
    """Say why a pending ask was not placed.

    Args:
        leaf: The queue of its application.
        app: Its application.
        ask: The ask.
        nodes: The nodes.
        group: The group of its gang, or None if it is a plain ask.

    Returns:
        The code of the first reason that applies, a colon, and the reason in words.
    """
    refused = None if group is None else _gang_refuses(group, ask)
    for reason in (
        refused,
        _never_fits(leaf, ask, nodes),
        _queue_max(leaf, ask),
        _queue_max_apps(leaf, app),
        _state_aware_turn(leaf, app),
        _blocked(leaf, ask),
        None if group is None else _gang_gave_up(group, ask),
    ):
        if reason is not None:
            return reason
    return _no_node_fits(ask, nodes)


def _gang_of(group: ViewGroup, ask: Ask) -> ViewGang:
    return next(gang for gang in group.gangs if gang.name == ask.gang)


def _gang_refuses(group: ViewGroup, ask: Ask) -> str | None:
    """Say why PreFilter refuses a member, whatever room there is."""
    gang = _gang_of(group, ask)
    if gang.satisfied:
        return None
    if gang.state is GangState.TIMED_OUT:
        return f"{Code.GANG_TIMED_OUT}: gang {gang.name} has timed out"
    if gang.definition is None:
        return f"{Code.GANG_UNDEFINED}: gang {gang.name} is not defined"
    least = gang.definition.min_member
    if gang.children < least:
        return (
            f"{Code.GANG_TOO_FEW_MEMBERS}: gang {gang.name} has {gang.children} members, "
            f"and needs {least}"
        )
    if not gang.missing:
        return (
            f"{Code.GANG_SURPLUS}: gang {gang.name} holds {gang.held} nodes and needs {least}, "
            f"but {_lacking(group)}"
        )
    return None


def _lacking(group: ViewGroup) -> str:
    """Say which gangs of a group are not complete."""
    known = {gang.name: gang for gang in group.gangs}
    lacking: list[str] = []
    for name in group.names:
        gang = known.get(name)
        if gang is None or gang.definition is None:
            lacking.append(f"{name}, which is not defined")
        elif not gang.complete():
            lacking.append(f"{gang.missing} more of {name}")
    return f"its group lacks {', '.join(lacking)}"


def _gang_gave_up(group: ViewGroup, ask: Ask) -> str | None:
    """Say that a Strict group was tried and given up."""
    gang = _gang_of(group, ask)
    if gang.satisfied or gang.cycle_valid or not group.strict:
        return None
    return (
        f"{Code.GANG_CYCLE_INVALID}: the Strict group of gang {gang.name} does not fit as a whole, "
        f"which needs room for {gang.missing} more members of this gang"
    )


def why_waiting(gang: ViewGang, group: ViewGroup) -> str:
    """Say what a waiting member waits for."""
    least = 0 if gang.definition is None else gang.definition.min_member
    return f"{Code.PERMIT_WAITING}: {gang.held} of {least} members hold nodes; {_lacking(group)}"


def why_parked(gang: ViewGang) -> str:
    """Say why a member is parked."""
    return f"{Code.GANG_TIMED_OUT}: gang {gang.name} has timed out"


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
