"""Who has taken what and lost it again, so that no circle goes round for ever.

Three asks can each have a right to the place of the next: one by what its queue is
guaranteed, two by their priorities. So an ask that has taken something from a node, and
was evicted from there, takes nothing more from that node until anything new comes in. Asks
of an application that are alike count as one, or each of them would have its turn. A group
of gangs that has lost what it took for its members takes nothing at all until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.shapes import Shape

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask

Alike = tuple[int, Shape, int, bool, str | None]
"""What asks have in common that differ in their names alone: the application, what they need
of a node, their priority, whether they preempt, and their gang."""

Taking = tuple[Alike, str] | tuple[str, ...]
"""Asks like these and the node from which they took; or the names of a group's gangs."""


def alike(app: int, ask: Ask) -> Alike:
    """Give what an ask has in common with others of its application.

    Args:
        app: The key of the application.
        ask: The ask.
    """
    return (app, ask.shape, ask.priority, ask.preempts, ask.gang)


@final
class EvictionHistory:
    """What was taken, and lost again, since anything new came in."""

    def __init__(self) -> None:
        #: Who holds what it has taken, by application and name.
        self._held: dict[tuple[int, str], Taking] = {}
        #: What was lost again.
        self._lost: set[Taking] = set()
        #: Who has lost anything.
        self._losers: set[Alike] = set()
        #: Goes up whenever something is forgotten.
        self.changes = 0

    def forget(self) -> None:
        """Forget everything: something new came in, or a bind has failed, which is a change."""
        self._held.clear()
        if self._lost:
            self._lost.clear()
            self._losers.clear()
            self.changes += 1

    def note(self, app: int, ask: Ask, node: str) -> None:
        """Take note that an ask has taken something from a node.

        Args:
            app: The key of its application.
            ask: The ask.
            node: The name of the node.
        """
        self._held[app, ask.name] = (alike(app, ask), node)

    def note_member(self, app: int, ask: Ask, group: tuple[str, ...]) -> None:
        """Take note that a group has taken something, and a member was placed by that.

        Args:
            app: The key of its application.
            ask: The member.
            group: The names of the group's gangs.
        """
        self._held[app, ask.name] = group

    def evicted(self, app: int, ask: Ask) -> None:
        """Take note that an ask was evicted, whether it had taken anything or not."""
        taking = self._held.pop((app, ask.name), None)
        if taking is not None:
            self._lost.add(taking)
            self._losers.add(alike(app, ask))

    def has_lost(self, app: int, ask: Ask) -> bool:
        """Say whether an ask like this has lost what it had taken from any node."""
        return bool(self._losers) and alike(app, ask) in self._losers

    def lost_on(self, app: int, ask: Ask, node: str) -> bool:
        """Say whether an ask like this has lost what it had taken from a node."""
        return (alike(app, ask), node) in self._lost

    def lost_by(self, group: tuple[str, ...]) -> bool:
        """Say whether a group has lost what it had taken."""
        return group in self._lost
