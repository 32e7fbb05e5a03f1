"""The members that are to find room in one domain together: the one at hand, then the others.

TOPOLOGY-8, TOPOLOGY-9.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from muster_core.view.tree.queue import ParentView
from muster_core.view.tree.sort_keys import app_key

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue
    from muster_core.view.tree.slots import Slot


Member: TypeAlias = "tuple[ViewApp, Ask]"
"""A pending member of a gang, with its application."""


# TOPOLOGY-8, TOPOLOGY-9
def equal_party(gang: ViewGang, ask: Ask) -> int:
    """Return how many members are to find room, if they are equal and of one application; else 0.

    Args:
        gang: The gang.
        ask: The pending member at hand.
    """
    if ask.shape.node is not None:  # Such an ask may be on a node that is kept.
        return 0
    lacking = gang.missing
    if lacking <= 1:
        return 1
    if len(gang.slots) != 1:
        return 0
    (slot,) = gang.slots.values()
    is_there = ask.name in slot.members  # Otherwise it backs off.
    return min(lacking, len(slot.members)) if is_there and len(slot.bits) == 1 else 0


# TOPOLOGY-8
def party_of(
    state: ViewState,
    gang: ViewGang,
    member: Member,
    bring_up_to_date: Callable[[], None],
) -> list[Member]:
    """Return a pending member, and the others that its gang lacks, in order.

    Args:
        state: The view.
        gang: The gang.
        member: The member.
        bring_up_to_date: Updates the positions of applications and queues, which decide the order.
    """
    # TOPOLOGY-9
    lacking = gang.missing - 1
    if lacking <= 0:
        return [member]
    slots = list(gang.slots.values())
    if len(slots) > 1:
        bring_up_to_date()
        slots = [app.slots[gang.name] for app in _in_order(state, [slot.app for slot in slots])]
    others = ((slot.app, one) for slot in slots for one in _members(slot) if one is not member[1])
    return [member, *islice(others, lacking)]


def _members(slot: Slot[ViewApp]) -> list[Ask]:
    return sorted((ask for ask, _ in slot.members.values()), key=slot.order_of)


def _in_order(state: ViewState, apps: list[ViewApp]) -> list[ViewApp]:
    """Return applications in the order in which they would be tried if nothing were placed."""
    below: dict[int, list[ViewApp]] = {}
    for app in apps:
        for queue in state.leaf_of(app).upward():
            below.setdefault(queue.key, []).append(app)
    found: list[ViewApp] = []
    for leaf in _leaves(state, state.root, below):
        found += sorted(below[leaf.key], key=lambda app: app_key(leaf.config, app, state.total))
    return found


def _leaves(state: ViewState, queue: ViewQueue, wanted: Container[int]) -> Iterator[ViewQueue]:
    if isinstance(queue, ParentView):
        for child in queue.in_turn(wanted, state.total):
            yield from _leaves(state, child, wanted)
    else:
        yield queue
