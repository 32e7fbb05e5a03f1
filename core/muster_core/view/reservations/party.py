"""Parties: the asks that a reservation is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import attrs

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang, ViewGroup
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp


MemberKey = tuple[int, int, int]
"""Which ask it is: the key of its application, and its place in the input."""


@final
class Member(NamedTuple):
    """An ask of a party.

    Attributes:
        app: Its application.
        ask: The ask.
    """

    app: ViewApp
    ask: Ask

    @property
    def key(self) -> MemberKey:
        """What no other ask has."""
        return (self.app.identity.key, self.ask.seq, self.ask.number)

    def is_pending(self) -> bool:
        """Return whether the ask is pending, so that it may hold what is reserved for it."""
        return self.app.pending.get(self.ask.name) is self.ask


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


# BACKFILL-16
def group_of(state: ViewState, ask: Ask) -> ViewGroup | None:
    """Return the group of an ask, if its gang constrains it."""
    if ask.gang is None or state.gangs[ask.gang].satisfied:
        return None
    return state.gang_index.group_of(state.gangs[ask.gang])


def pending_of(gang: ViewGang) -> list[Member]:
    """Return the pending members of a gang that do not back off, in no particular order."""
    return [
        Member(slot.app, ask) for slot in gang.slots.values() for ask, _ in slot.members.values()
    ]
