"""Asks that need not be tried in a round with scopes, since they are sure to fail without an effect.

In such a round every ask is tried in its turn, as the first that fails in a scope has a
reservation, or blocks the scope. Once a backfill scope has all the reservations that it may have, an
ask of it that fits nowhere concerns nobody, like one outside all scopes. Of such asks those are hidden
that have a shape for which no node or no headroom is left, until there may be more room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from muster_core.view.placement.placements import Placements
    from muster_core.view.reservations.in_force import InForce
    from muster_core.view.state.view_state import ViewState


# ROUND-10
@final
class Hiding:
    """Hides asks from a round.

    Args:
        state: The view.
        placements: Places and releases asks.
        in_force: What is reserved.
    """

    def __init__(self, state: ViewState, placements: Placements, in_force: InForce) -> None:
        self._state = state
        self._placements = placements
        self._in_force = in_force
        self._is_active = False
        #: What was the case when asks were hidden: how often there was more room or a group was
        #: bound; and which shapes fitted, what had changed on nodes, and how much was reserved.
        self._room = (0, 0)
        self._seen = (0, 0, 0)

    def start(self, *, active: bool) -> None:
        """Begin a round.

        Args:
            active: Whether asks may be hidden: there can be no more room later than before but
                after a release that is known.
        """
        self._state.show_all()
        self._is_active = active
        self._seen = (0, 0, -1)

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
            if isinstance(queue, LeafView) and queue.pending_mask and self._concerns_nobody(queue):
                self._hide_in(queue)
        state.refresh()

    def _concerns_nobody(self, leaf: LeafView) -> bool:
        """Return whether an ask of a leaf that fits nowhere has no effect in this round."""
        if not leaf.may_hide:
            return False
        scopes = self._state.scopes
        scope = scopes.of(leaf)
        if scope is None:
            return True
        return scopes.backfill(leaf) is not None and self._in_force.is_saturated(scope)

    def _hide_in(self, leaf: LeafView) -> None:
        shapes, admitted = self._state.shapes, EVERY_SHAPE
        for queue in leaf.line:
            admitted &= queue.admits
        pending = leaf.pending_mask & shapes.singles | shapes.gangs
        is_new = leaf.hide(pending & ~(self._state.fitting & admitted))
        if leaf.under_limits:
            leaf.hide_refused(shapes)
        if is_new or leaf.under_limits:
            self._state.note_hidden(leaf)
