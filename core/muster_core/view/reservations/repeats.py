"""Whether a round would do and reserve what the last one did, so that it need not be run.

In a partition with scopes a round tries the first asks in order whether they fit or not, and seeks
reservations for them. As long as nothing changes on which this depends, it need not be done again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.gangs.member import Member
from muster_core.view.topology.difference import Difference
from muster_core.view.topology.order import Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.reservations.in_force import InForce
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue

Changes = tuple[int, ...]
"""Counts that stay the same as long as nothing changes on which rounds depend."""


@final
class Repeats:
    """Compares what there is with what there was before the last round.

    Args:
        state: The view.
        in_force: What is reserved.
    """

    def __init__(self, state: ViewState, in_force: InForce) -> None:
        self._state = state
        self._in_force = in_force
        #: The changes so far when a round has changed nothing; None if the last one did.
        self._known: Changes | None = None
        #: The changes so far when groups were last looked at, and whether one of them is wide.
        self._looked_at: tuple[Changes, bool] = ((), False)
        #: The changes of nodes, of gangs and of all else that attempts of Strict groups have undone.
        self._undone = (0, 0, 0)

    def changes_so_far(self) -> Changes:
        """Return the changes so far without those that were undone; nothing without scopes."""
        state = self._state
        if not state.scopes:
            return ()
        nodes, gangs, moves = self._undone
        return (
            state.nodes.changes - nodes,
            state.gang_index.changes - gangs,
            state.moves - moves,
            state.reconfigured,
        )

    def undo(self, before: Changes) -> None:
        """Note that everything is again as it was when an attempt began.

        Args:
            before: The changes so far at that time.
        """
        if before:
            state, (nodes, gangs, moves, _) = self._state, before
            self._undone = (
                state.nodes.changes - nodes,
                state.gang_index.changes - gangs,
                state.moves - moves,
            )

    def end_round(self, before: Changes) -> None:
        """Note whether a round has changed anything.

        Args:
            before: The changes so far when it began.
        """
        self._known = before if before == self.changes_so_far() else None

    # BACKFILL-23
    def would_repeat(self, now_us: int) -> bool:
        """Return whether a round would try and reserve what the last one did, in vain as well.

        Args:
            now_us: The present instant, in microseconds.
        """
        state = self._state
        new, changes = state.scopes.take_new(), self.changes_so_far()
        if not state.scopes or self._known != changes or not self._in_force.holds_at(now_us):
            return False
        # DEVICE-18: the asks may have come with an application that is gone in the same batch.
        if state.learned.is_due:
            return False
        # SERVICE-11: a round may open nodes that services keep.
        return not new or not (
            state.kept_nodes or self._has_wide_group(changes) or self._concern_somebody(new)
        )

    def _concern_somebody(self, new: Sequence[tuple[ViewApp, Sequence[Ask]]]) -> bool:
        """Return whether new asks may fit, or come before anything that has a reservation."""
        state = self._state
        state.refresh()
        for app, asks in new:
            leaf = state.leaf_of(app)
            if leaf.under_limits or not leaf.may_hide:
                return True
            scope = state.scopes.of(leaf)
            if scope is not None and not self._comes_late(scope, leaf, app, asks):
                return True
            for ask in asks:
                # DEVICE-18
                if ask.shape.devices or state.nodes.find(state.bit_of(ask)) is not None:
                    return True
        return False

    def _has_wide_group(self, changes: Changes) -> bool:
        """Return whether an unsatisfied group has pending members in several applications.

        Who of them is tried first, and where they are placed, depends on the order of their queues,
        which new asks of any queue may change.
        """
        if self._looked_at[0] != changes:
            self._looked_at = changes, any(map(self._is_wide, self._state.gangs.values()))
        return self._looked_at[1]

    def _is_wide(self, gang: ViewGang) -> bool:
        if gang.satisfied or not gang.slots:
            return False
        group = self._state.gang_index.group_of(gang)
        return len({app for one in group.gangs for app in one.slots}) > 1

    # BACKFILL-15
    def _comes_late(
        self, scope: ViewQueue, leaf: LeafView, app: ViewApp, asks: Iterable[Ask]
    ) -> bool:
        """Return whether a scope has all its reservations before new asks have their turn.

        New asks may move their own queues among their siblings, with all asks there. If such a queue
        came before one with a reservation now, the new asks would come before that as well.
        """
        state, in_force = self._state, self._in_force
        if state.scopes.backfill(leaf) is None or not in_force.is_saturated(scope):
            return False
        # Each is of one application, so that who is placed first is tried first.
        firsts = [one.places[0][0] for one in in_force.of(scope)]
        order = Order(state, Difference(state))
        mine = order.first([Member(app, ask) for ask in asks])
        if len(firsts) == 1:
            (first,) = firsts
            if first.app is not app and first.app.order is app.order is not None:
                return first.app.rank < app.rank
        wanted = [*firsts, mine]
        return order.sorted(wanted) == wanted
