"""The order in which asks would be tried if a round began now (ROUND-9, ORDER-15)."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.gangs import is_refused
from muster_core.view.reasons.words import named
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import first_leaf

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_BLOCKED: Final = Code.BLOCKED


@final
@attrs.frozen(eq=False)
class Turn:
    """An ask with its application and leaf.

    Attributes:
        leaf: The leaf of its application.
        app: Its application.
        ask: The ask.
    """

    leaf: LeafView
    app: ViewApp
    ask: Ask

    @property
    def name(self) -> str:
        """The ask as ``app/ask``."""
        return named(self.app, self.ask)


@final
class Turns:
    """The order of a round that begins now; results are kept until something changes.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The first asks of leaves, by the key of the leaf.
        self._in_leaves: dict[int, Turn | None] = {}
        #: The asks that may block strict scopes, by the key of the queue that makes the scope.
        self._in_scopes: dict[int, Turn | None] = {}
        #: The first ask of all; empty until it is computed.
        self._first: list[Turn | None] = []

    def is_refused(self, ask: Ask) -> bool:
        """Return whether PreFilter refuses a pending ask."""
        return ask.gang is not None and is_refused(self._state.gangs[ask.gang])

    def has(self, turn: Turn) -> bool:
        """Return whether a pending ask has a turn, provided that its leaf is entered."""
        # BACKOFF-6
        if turn.ask.name in turn.app.backing_off:
            return False
        return not self.is_refused(turn.ask) and turn.leaf.competes(turn.app)

    def first_in(self, leaf: LeafView) -> Turn | None:
        """Return the first ask of a leaf that has a turn if the leaf is entered, or None."""
        if leaf.key not in self._in_leaves:
            self._in_leaves[leaf.key] = self._first_in(leaf)
        return self._in_leaves[leaf.key]

    def find_firsts(self) -> Steps[None]:
        """Find the first ask of each leaf in steps, as there may be very many asks."""
        for queue in list(self._state.queues.values()):
            if isinstance(queue, LeafView) and queue.enters():
                yield
                self.first_in(queue)

    # LIMIT-10
    def first_to_block(self, leaf: LeafView) -> Turn | None:
        """Return the first ask of a blocking leaf that blocks it if it does not fit, or None."""
        first = self.first_in(leaf)
        if first is None or first.app.is_within_limits(first.ask):
            return first
        return self._first_in(leaf, is_limited=True)

    # BACKFILL-4
    def blocker_of(self, leaf: LeafView) -> tuple[str, Turn] | None:
        """Return the queue that keeps strict order above a leaf, and what may block it, or None."""
        scope = self._state.scopes.strict(leaf)
        if scope is None:
            first = self.first_to_block(leaf) if leaf.config.settings.blocking else None
            return None if first is None else (leaf.config.path, first)
        if scope.key not in self._in_scopes:
            self._in_scopes[scope.key] = self._first_below(scope)
        first = self._in_scopes[scope.key]
        return None if first is None else (scope.config.path, first)

    def _first_below(self, scope: ViewQueue) -> Turn | None:
        """Return the first ask of a strict scope that blocks it if it does not fit, or None."""
        if isinstance(scope, LeafView):
            return self.first_to_block(scope)
        wanted: set[int] = set()
        for leaf in self._state.leaves_below(scope):
            if leaf.enters() and self.first_to_block(leaf) is not None:
                wanted.update(above.key for above in leaf.upward())
        if not wanted:
            return None
        found = first_leaf(scope, wanted, self._state.total)
        assert isinstance(found, LeafView), "a queue is a parent or a leaf"
        return self.first_to_block(found)

    # LIMIT-10
    def _is_before(self, turn: Turn, first: Turn) -> bool:
        """Return whether an ask over a limit is tried before the first ask that may block."""
        app, ask = turn.app, turn.ask
        if app.is_within_limits(ask) or self.is_refused(ask):
            return False
        if turn.leaf is not first.leaf:
            return turn.leaf.enters() and self._is_leaf_before(turn.leaf, first.leaf)
        if app is first.app:
            return app.order_of(ask) < app.order_of(first.ask)
        ahead = takewhile(lambda other: other is not first.app, turn.leaf.competing())
        return any(other is app for other in ahead)

    def _is_leaf_before(self, leaf: LeafView, first: LeafView) -> bool:
        """Return whether the turn of a leaf comes before that of another one."""
        wanted = {queue.key for one in (leaf, first) for queue in one.upward()}
        return first_leaf(self._state.root, wanted, self._state.total) is leaf

    def _first_in(self, leaf: LeafView, *, is_limited: bool = False) -> Turn | None:
        for app in leaf.competing():
            asks = (
                ask
                for ask in app.pending.values()
                if not self.is_refused(ask) and not (is_limited and not app.is_within_limits(ask))
            )
            first = min(asks, key=app.order_of, default=None)
            if first is not None:
                return Turn(leaf, app, first)
        return None

    def first(self) -> Turn | None:
        """Return the ask that would be tried first of all, or None."""
        if not self._first:
            self._first.append(self._find_first())
        return self._first[0]

    def _find_first(self) -> Turn | None:
        wanted: set[int] = set()
        for queue in self._state.queues.values():
            if isinstance(queue, LeafView) and queue.enters() and self.first_in(queue) is not None:
                wanted.update(above.key for above in queue.upward())
        if not wanted:
            return None
        leaf = first_leaf(self._state.root, wanted, self._state.total)
        assert isinstance(leaf, LeafView), "a queue is a parent or a leaf"
        return self.first_in(leaf)

    def blocked(self, turn: Turn) -> PendingReason | None:
        """Return which ask of a blocking leaf comes before another, or None."""
        if turn.ask.name in turn.app.backing_off:  # It is not tried, whatever is before it.
            return None
        found = self.blocker_of(turn.leaf)
        if found is None:
            return None
        path, first = found
        if first.ask is turn.ask or self._is_before(turn, first):
            return None
        message = f"{path} keeps strict order, and {first.name} is before it and not placed"
        return PendingReason(_BLOCKED, message, {"behind": first.name})
