"""Pending asks with their applications, as whoever looks for nodes passes them around."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

if TYPE_CHECKING:
    from muster_core.nodes.node import Holder
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.tree.application import ViewApp


MemberKey = tuple[int, int, int]
"""Which ask it is: the key of its application, and its place in the input."""


@final
class Member(NamedTuple):
    """An ask of a gang or of a party.

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

    @property
    def holder(self) -> Holder:
        """What a node knows it by: at any time, no other ask has that."""
        return (self.app.identity.key, self.ask.name)

    def is_pending(self) -> bool:
        """Return whether the ask is pending, so that it may hold what is reserved for it."""
        return self.app.pending.get(self.ask.name) is self.ask


def pending_of(gang: ViewGang) -> list[Member]:
    """Return the pending members of a gang that do not back off, in no particular order."""
    return [
        Member(slot.app, ask) for slot in gang.slots.values() for ask, _ in slot.members.values()
    ]
