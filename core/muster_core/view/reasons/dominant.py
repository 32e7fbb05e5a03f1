"""The dominant reasons of many asks: only their codes, and what asks have in common only once.

Whatever decides a code is decided by the same functions as in an explanation. What most of the
reasons depend on is the application, the shape and the gang of an ask: a *cell*. So they are found
once for each cell, and for an ask only what is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.values.reasons import Code
from muster_core.view.gangs.standing import topology_of
from muster_core.view.reasons import gangs
from muster_core.view.reasons.failed_binds import bind_failed
from muster_core.view.reasons.quotas import over_max, queue_max, queue_max_apps, state_aware_turn
from muster_core.view.reasons.turns import Turn
from muster_core.view.reasons.user_limits import limit_reasons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.permits.permits import Permits
    from muster_core.view.reasons.rooms import Rooms
    from muster_core.view.reasons.turns import Turns
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_PERMIT_WAITING: Final = Code.PERMIT_WAITING
_GANG_TIMED_OUT: Final = Code.GANG_TIMED_OUT
_NEVER_FITS: Final = Code.NEVER_FITS
_BLOCKED: Final = Code.BLOCKED
_GANG_CYCLE_INVALID: Final = Code.GANG_CYCLE_INVALID
_BACKING_OFF: Final = Code.BACKING_OFF
_BIND_FAILED: Final = Code.BIND_FAILED
_TOPOLOGY: Final = Code.TOPOLOGY


@final
@attrs.frozen
class Common:
    """What the pending asks of a cell have in common.

    Attributes:
        early: The dominant reason of all of them, or None.
        blocking: Whether their leaf is blocking, so that one may be blocked and another not.
        cycle: Whether the cycle of their gang is invalid.
        late: The reason of those without one of their own, or None if each has its own.
    """

    early: Code | None
    blocking: bool = False
    cycle: bool = False
    late: Code | None = None


@final
class Dominants:
    """Finds dominant reasons between two batches; a new one is needed after each change.

    Args:
        state: The view, which is only read.
        permits: What happened to gang members in the last round.
        turns: The order of a round that begins now.
        rooms: What room nodes have.
        finder: Finds nodes.
    """

    def __init__(
        self, state: ViewState, permits: Permits, turns: Turns, rooms: Rooms, finder: NodeFinder
    ) -> None:
        self._state = state
        self._finder = finder
        self._permits = permits
        self._turns = turns
        self._cells: dict[tuple[ViewApp, Shape, str | None], Common] = {}
        self._rooms = rooms

    def code(self, app: ViewApp, name: str) -> Code | None:
        """Return the code of the dominant reason of an ask that is not bound.

        Args:
            app: Its application.
            name: Its name.

        Returns:
            The code; None if only the whole explanation tells.
        """
        if name in app.parked:
            return _GANG_TIMED_OUT
        if name in app.waiting:
            return _PERMIT_WAITING
        ask = app.find(name)
        assert ask is not None, "the reason of an ask that does not exist"
        cell = self._cell(app, ask)
        if cell.early is not None:
            return cell.early
        if cell.blocking and self._turns.blocked(Turn(self._state.leaf_of(app), app, ask)):
            return _BLOCKED
        if cell.cycle:
            return _GANG_CYCLE_INVALID
        if name in app.backing_off:
            return _BACKING_OFF
        if app.failed_on and bind_failed(app, ask) is not None:
            return _BIND_FAILED
        return cell.late

    def possible(self, app: ViewApp, ask: Ask) -> frozenset[Code] | None:
        """Return the dominant reasons that the pending asks of a cell may have.

        Args:
            app: An application.
            ask: One of its pending asks, which names the cell.

        Returns:
            The reasons; None if it may be any.
        """
        cell = self._cell(app, ask)
        if cell.early is not None:
            return frozenset((cell.early,))
        if cell.late is None:
            return None
        codes = {cell.late}
        if cell.blocking:
            codes.add(_BLOCKED)
        if cell.cycle:
            codes.add(_GANG_CYCLE_INVALID)
        if app.backing_off:
            codes.add(_BACKING_OFF)
        if app.failed_on:
            codes.add(_BIND_FAILED)
        return frozenset(codes)

    def _cell(self, app: ViewApp, ask: Ask) -> Common:
        key = (app, ask.shape, ask.gang)
        found = self._cells.get(key)
        if found is None:
            found = self._cells[key] = self._common(app, ask)
        return found

    def _common(self, app: ViewApp, ask: Ask) -> Common:
        leaf = self._state.leaf_of(app)
        early = next(self._early(leaf, app, ask), None)
        if early is not None:
            return Common(early)
        gang = None if ask.gang is None else self._state.gangs[ask.gang]
        cycle = gang is not None and not gang.satisfied and self._permits.is_cycle_invalid(gang)
        late = self._rooms.why_none(leaf, ask)
        if late is None and gang is not None and topology_of(gang) is not None:
            late = self._by_topology(leaf, app, ask, gang)
        return Common(None, leaf.config.settings.blocking, cycle, late)

    # TOPOLOGY-15
    def _by_topology(self, leaf: LeafView, app: ViewApp, ask: Ask, gang: ViewGang) -> Code | None:
        """Return the reason of asks that a node has room for; None if each has its own."""
        if gang.missing > 1:  # It depends on the others that the gang lacks besides each.
            return None
        node = self._finder.find(leaf, app, ask, self._state.bit_of(ask))
        return _TOPOLOGY if node is None else None

    # REASON-2
    def _early(self, leaf: LeafView, app: ViewApp, ask: Ask) -> Iterator[Code]:
        """Yield the reasons of all asks of a cell, in the order of the codes."""
        gang = None if ask.gang is None else self._state.gangs[ask.gang]
        if gang is not None and not gang.satisfied:
            refusal = gangs.refusal(gang, self._state.gang_index.group_of(gang))
            if refusal is not None:
                yield refusal.code
        if any(over_max(leaf, ask)) or not self._rooms.ever_fits(ask.shape):
            yield _NEVER_FITS
        for found in (
            queue_max(leaf, ask),
            *limit_reasons(app, ask),
            queue_max_apps(leaf, app),
            state_aware_turn(leaf, app),
        ):
            if found is not None:
                yield found.code
