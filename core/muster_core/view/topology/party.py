"""The members that are to find room in one domain together: the one at hand, then the others.

TOPOLOGY-8, TOPOLOGY-9.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from muster_core.view.gangs.member import pending_of

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.gangs.member import Member
    from muster_core.view.topology.picture import Picture


# TOPOLOGY-8, TOPOLOGY-9
def equal_party(gang: ViewGang, ask: Ask) -> int:
    """Return how many members are to find room, if they are equal and of one application; else 0.

    It is for things as they are, where it saves finding the members themselves.

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
def party_of(picture: Picture, gang: ViewGang, member: Member) -> list[Member]:
    """Return a pending member, and the others that its gang lacks, in order.

    Args:
        picture: Who holds nodes.
        gang: The gang.
        member: The member.
    """
    placed = picture.difference.placed
    # TOPOLOGY-9
    lacking = gang.missing - 1
    if lacking > 0 and placed:
        lacking -= sum(one.ask.gang == gang.name for one, _ in placed.values())
    if lacking <= 0:
        return [member]
    pending = pending_of(gang)
    if placed:
        pending = [one for one in pending if one.holder not in placed]
    others = (one for one in picture.order().sorted(pending) if one.ask is not member.ask)
    return [member, *islice(others, lacking)]
