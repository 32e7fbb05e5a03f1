"""Parties, the asks that a reservation is for, and what is reserved for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.gangs.member import Member, pending_of
from muster_core.view.topology.difference import Difference
from muster_core.view.topology.order import Order

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGroup
    from muster_core.view.gangs.member import MemberKey
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.reservations.later.rooms import Place
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue


@final
@attrs.frozen(eq=False)
class Party:
    """The asks that a reservation is for.

    Attributes:
        members: The asks, in no particular order.
        group: The names of the gangs of the group whose missing members they are; empty for a
            plain ask.
        keys: What tells it from parties of other asks.
    """

    members: tuple[Member, ...]
    group: tuple[str, ...]
    keys: frozenset[MemberKey] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find what tells it from other parties."""
        object.__setattr__(self, "keys", frozenset(member.key for member in self.members))

    # BACKFILL-15
    def is_that_of(self, other: Party) -> bool:
        """Return whether another party is for the same group, which may have lacked others, or ask.

        A member is an ask alone while its gang is satisfied. It holds one node in either party, so
        one reservation is enough for it.
        """
        is_same_group = bool(self.group) and self.group == other.group
        return is_same_group or not self.keys.isdisjoint(other.keys)


@final
@attrs.frozen(eq=False)
class Reservation:
    """What is reserved for a party.

    Attributes:
        scope: The queue to whose scope it belongs.
        party: The party.
        start: When it starts.
        places: The node of each member, in the order of placing.
    """

    scope: ViewQueue
    party: Party
    start: Instant
    places: tuple[Place, ...]

    @property
    def start_us(self) -> int | None:
        """When it starts, in microseconds, or None if that is not known."""
        is_unknown, at = self.start
        return None if is_unknown else at


# BACKFILL-16
def group_of(state: ViewState, ask: Ask) -> ViewGroup | None:
    """Return the group of an ask, if its gang constrains it."""
    if ask.gang is None or state.gangs[ask.gang].satisfied:
        return None
    return state.gang_index.group_of(state.gangs[ask.gang])


# BACKFILL-16
def party_of(state: ViewState, app: ViewApp, ask: Ask) -> Party | None:
    """Return the party of an ask, or None if it has none.

    Args:
        state: The view; it is up to date.
        app: The application of the ask.
        ask: The ask.
    """
    group = group_of(state, ask)
    if group is None:
        return Party((Member(app, ask),), ())
    if not group.may_complete():
        return None
    order = Order(state, Difference(state))
    members: list[Member] = []
    for gang in group.gangs:
        if gang.missing:
            members += order.sorted(pending_of(gang))[: gang.missing]
    return Party(tuple(members), group.names)
