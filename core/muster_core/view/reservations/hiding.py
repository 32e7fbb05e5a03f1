"""Asks that need not be tried in a round with scopes, since they are sure to fail without an effect.

In such a round every ask is tried in its turn, as the first that fails in a scope has a
reservation, or blocks the scope. Once a backfill scope has all the reservations that it may have, an
ask of it that fits nowhere concerns nobody, like one outside all scopes. Of such asks those are hidden
that have a shape for which no node or no headroom is left, until there may be more room; so are
Strict gangs for which there is too little of either, and what a limit of a user or a group refuses.

Before that, only those are hidden for which nothing can be reserved: what is reserved for others
leaves no node with room for them, even when everything that runs now has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from muster_core.view.placement.placements import Placements
    from muster_core.view.reservations.backfilling import Backfilling
    from muster_core.view.reservations.in_force import InForce
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.queue import ViewQueue


# ROUND-10
@final
class Hiding:
    """Hides asks from a round.

    Args:
        state: The view.
        placements: Places and releases asks.
        in_force: What is reserved.
        backfilling: Knows what is to be held.
    """

    def __init__(
        self,
        state: ViewState,
        placements: Placements,
        in_force: InForce,
        backfilling: Backfilling,
    ) -> None:
        self._state = state
        self._placements = placements
        self._in_force = in_force
        self._backfilling = backfilling
        self._is_active = False
        #: What was the case when asks were hidden: how often there was more room or a group was
        #: bound; and which shapes fitted, what had changed on nodes, and how much was reserved.
        self._room = (0, 0)
        self._seen = (0, 0, 0)
        #: The shapes of members for whose groups something may be reserved, though not for them.
        self._loose = 0

    def start(self, *, active: bool) -> None:
        """Begin a round.

        Args:
            active: Whether asks may be hidden: there can be no more room later than before but
                after a release that is known.
        """
        self._state.show_all()
        self._is_active = active
        self._seen = (0, 0, -1)
        self._loose = self._loose_members() if active else 0

    def end(self) -> None:
        """End a round: nothing is hidden."""
        self._state.show_all()
        self._is_active = False

    def refresh(self) -> None:
        """Hide what is sure to fail now; the view is up to date, and is again."""
        if not self._is_active:
            return
        state = self._state
        room = (state.nodes.grown, self._placements.groups_bound)
        if room != self._room:
            self._room = room
            self._state.show_all()
            self._seen = (0, 0, -1)
        seen = (state.nodes.fitting, state.nodes.changes, len(self._in_force.reservations))
        if seen == self._seen:
            return
        self._seen = seen
        for queue in state.queues.values():
            if isinstance(queue, LeafView) and queue.pending_mask and queue.may_hide:
                self._hide_in(queue)
        state.refresh()

    def _hide_in(self, leaf: LeafView) -> None:
        scopes, shapes, admitted = self._state.scopes, self._state.shapes, EVERY_SHAPE
        for queue in leaf.line:
            admitted &= queue.admits
        fitting, pending = self._state.fitting & admitted, leaf.pending_mask & shapes.singles
        scope = scopes.of(leaf)
        if scope is not None and not self._in_force.is_saturated(scope):
            if scopes.backfill(leaf) is not None:
                self._hide_forever(leaf, scope, fitting)
            return
        if scope is not None and scopes.backfill(leaf) is None:
            return
        is_new = leaf.hide((pending | shapes.gangs) & ~fitting)
        if leaf.under_limits:
            leaf.hide_refused(shapes)
        if is_new or leaf.under_limits:
            self._state.note_hidden(leaf)

    # BACKFILL-20
    def _hide_forever(self, leaf: LeafView, scope: ViewQueue, fitting: int) -> None:
        """Hide what has no room even when nobody holds a node but the parties of reservations.

        Nothing is reserved for it then.
        """
        last = self._backfilling.holdings_of(scope).last_fitting()
        if last is None:
            return
        singles = leaf.pending_mask & self._state.shapes.singles & ~self._loose
        gangs = self._state.gang_shapes.without_room(fitting | last)
        if leaf.hide(singles & ~(fitting | last) | gangs):
            self._state.note_hidden(leaf)

    def _loose_members(self) -> int:
        """Return the shapes of members of unsatisfied NonStrict groups.

        When one of them fails, others of its group may be those of the party.
        """
        mask, gang_index = 0, self._state.gang_index
        for gang in self._state.gangs.values():
            if not gang.satisfied and gang.slots and not gang_index.group_of(gang).strict:
                for slot in gang.slots.values():
                    for bit in slot.bits:
                        mask |= 1 << bit
        return mask
