"""Why an ask is behind others: the order of a round that began now, and the place of an ask in it.

The order in which asks would be tried (ROUND-9, ORDER-15); the keys by which two asks are compared,
level by level (ORDER-5 to ORDER-18); the place of a pending ask among all pending asks (OUTLOOK-1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, takewhile
from typing import Final, final

import attrs

from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.ranking import Rank
from muster_core.structures.steps import PART, Steps, in_pieces
from muster_core.values.reasons import Code, ComparedKey, Fact, Level, PendingReason
from muster_core.values.resources import format_duration
from muster_core.view.eviction.actions import is_refused
from muster_core.view.reasons.shortfalls import named
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import (
    ASK_PARTS,
    PAST_SHARE,
    KeyPart,
    KeyValue,
    ParentView,
    ViewQueue,
    app_parts,
    first_leaf,
    queue_parts,
)


@final
@attrs.frozen(eq=False)
class Turn:
    """An ask with its application and leaf."""

    leaf: LeafView
    app: ViewApp
    ask: Ask

    @property
    def name(self) -> str:
        """The ask as ``app/ask``."""
        return named(self.app, self.ask)


@final
class TurnOrder:
    """The order of a round that begins now; results are kept until something changes."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The first asks of leaves, by the key of the leaf.
        self._in_leaves: dict[int, Turn | None] = {}
        #: The asks that may block strict scopes, by the key of the queue that makes the scope.
        self._in_scopes: dict[int, Turn | None] = {}
        #: The first ask of all; empty until it is computed.
        self._first: list[Turn | None] = []

    def has(self, turn: Turn) -> bool:
        """Return whether a pending ask has a turn, provided that its leaf is entered."""
        # BACKOFF-6
        if turn.ask.name in turn.app.backing_off:
            return False
        return not is_refused(self._state, turn.ask) and turn.leaf.competes(turn.app)

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
        """Return the queue that keeps strict order above a leaf, and its possible blocker, or None."""
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
        if app.is_within_limits(ask) or is_refused(self._state, ask):
            return False
        if turn.leaf is not first.leaf:
            is_tried = turn.leaf.enters() and app in turn.leaf.competing()
            return is_tried and self._is_leaf_before(turn.leaf, first.leaf)
        if app is first.app:
            return turn.leaf.order_of(app, ask) < turn.leaf.order_of(app, first.ask)
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
                if not is_refused(self._state, ask)
                and not (is_limited and not app.is_within_limits(ask))
            )
            first = min(asks, key=partial(leaf.order_of, app), default=None)
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
        return PendingReason(Code.BLOCKED, message, {"behind": first.name})


_DIGITS: Final = (3, 6, 9, 17)
"""The numbers of digits for shares: the fewest with which two values differ."""

_BETTER: Final[Mapping[str, str]] = {
    "queue.priority": "its queue.priority {other} is higher than {own}",
    "currentPriority": "its currentPriority {other} is higher than {own}",
    "share": "its fair share {other} is less than {own}",
    "pastShare": "its past share {other} is less than {own}",
    "pending": "its pending share {other} is larger than {own}",
    "path": "its path {other} comes before {own}",
    "priority": "its priority {other} is higher than {own}",
    "usage": "its usage {other} is less than {own}",
    "creation": "it was created first, {other} before {own}",
    "gang": "its gang {other} comes before {own}",
    "submission": "it came first, {other} before {own}",
    "number": "its number {other} is before {own}",
}
"""Why the other ask comes first, by the deciding key."""

# SHARE-16
_BETTER_BY_WEIGHT: Final[Mapping[str, str]] = {
    "share": "its share {other} of what it deserves is less than {own}",
    "usage": "its usage {other} of what the queue deserves is less than {own}",
}
"""The same where queues deserve by weight."""


def compare(own: Turn, other: Turn, total: Mapping[str, int]) -> tuple[Level, ...]:
    """Compare the paths to two asks, from the root to the first level where they differ.

    Args:
        own: The ask that is explained.
        other: The ask that is tried first.
        total: The capacity of all nodes.
    """
    levels = list(_levels_of_queues(own.leaf, other.leaf, total))
    if own.leaf is not other.leaf:
        return tuple(levels)
    leaf, mine, theirs = own.leaf, own.app, other.app
    config, names = leaf.config, (mine.identity.name, theirs.identity.name)
    keys = leaf.rank_of(mine, total), leaf.rank_of(theirs, total)
    levels.append(Level(config.path, *names, _compare_in(leaf, app_parts(config.settings), *keys)))
    if mine is theirs:
        keys = leaf.order_of(mine, own.ask), leaf.order_of(mine, other.ask)
        levels.append(
            Level(names[0], own.ask.name, other.ask.name, _compare_in(leaf, ASK_PARTS, *keys))
        )
    return tuple(levels)


def _compare_in(
    leaf: LeafView, parts: Sequence[KeyPart], own: Rank, other: Rank
) -> tuple[ComparedKey, ...]:
    """Compare two keys of a leaf, in which asks may have levels in place of their priorities."""
    if leaf.aging is not None and parts[0].name == "priority":
        own, other = _with_priority(leaf, own), _with_priority(leaf, other)
    return _compare_keys(parts, own, other)


def _with_priority(leaf: LeafView, key: Rank) -> Rank:
    level, *rest = key
    assert isinstance(level, int), "a key does not begin with a priority"
    return (-(leaf.priority_at(-level) or 0), *rest)


def _levels_of_queues(own: LeafView, other: LeafView, total: Mapping[str, int]) -> Iterator[Level]:
    steps = zip(pairwise(reversed(own.line)), pairwise(reversed(other.line)), strict=False)
    for (parent, mine), (_, theirs) in steps:
        assert isinstance(parent, ParentView), "what has children is a parent"
        keys = mine.key_in(parent, total), theirs.key_in(parent, total)
        compared = _compare_keys(queue_parts(parent.config.settings), *keys)
        yield Level(parent.config.path, mine.config.path, theirs.config.path, compared)
        if mine is not theirs:
            return


def _compare_keys(
    parts: Iterable[KeyPart], own: Iterable[KeyValue], other: Iterable[KeyValue]
) -> tuple[ComparedKey, ...]:
    """Compare two keys part by part; the first part in which they differ decides."""
    found: list[ComparedKey] = []
    open_still = True
    for part, mine, theirs in zip(parts, own, other, strict=True):
        decides = open_still and mine != theirs
        open_still = open_still and not decides
        shown = _format_both(part.value(mine), part.value(theirs))
        found.append(ComparedKey(part.name, *shown, decides))
    return tuple(found)


def _format_both(own: KeyValue, other: KeyValue) -> tuple[str, str]:
    """Format two values, so that different ones look different."""
    if isinstance(own, tuple) and isinstance(other, tuple):
        return _distinct(own, other)
    if isinstance(own, float) and isinstance(other, float):
        return _distinct((own,), (other,))
    return f"{own}", f"{other}"


def _distinct(own: tuple[float, ...], other: tuple[float, ...]) -> tuple[str, str]:
    digits = next(
        (some for some in _DIGITS if _format_value(own, some) != _format_value(other, some)), 3
    )
    return _format_value(own, digits), _format_value(other, digits)


def _format_value(shares: tuple[float, ...], digits: int) -> str:
    return " ".join(f"{share:.{digits}g}" for share in shares) or "0"


# REASON-10
def _age(turn: Turn, name: str, child: str, *, of_ask: bool) -> int:
    """Return how much of the priority that decides is age, on the path to one of two asks.

    Args:
        turn: The ask at the end of the path.
        name: The key that decides.
        child: The child on the path where the paths part.
        of_ask: Whether they part in an application.
    """
    leaf, app, ask = turn.leaf, turn.app, turn.ask
    if name == "currentPriority":
        queue = next(one for one in leaf.line if one.config.path == child)
        return min(_ages_in(queue))[-1]
    if name != "priority":
        return 0
    if of_ask:
        return leaf.priority_of(app, ask) - ask.priority
    return min(_ages_of(leaf, app))[-1]


_Aged = tuple[int, int, int]
"""The place of an ask in the input, its number, and how much of its priority is age."""


def _ages_of(leaf: LeafView, app: ViewApp) -> Iterator[_Aged]:
    """Yield the asks that give an application its priority."""
    top = leaf.priority_at(app.tally.top())
    for ask in app.each_pending():
        priority = leaf.priority_of(app, ask)
        if priority == top:
            yield ask.seq, ask.number, priority - ask.priority


def _ages_in(queue: ViewQueue) -> Iterator[_Aged]:
    """Yield the asks that give a queue its priority; a fence gives it by itself."""
    top = queue.tally.top()
    if queue.config.settings.fence and queue.parent is not None:
        yield 0, 0, 0
    elif isinstance(queue, LeafView):
        for app in queue.apps.values():
            if app.counted == top:
                yield from _ages_of(queue, app)
    elif isinstance(queue, ParentView):
        for child in queue.children.values():
            if child.counted == top:
                yield from _ages_in(child)


def not_your_turn(
    state: ViewState, own: Turn, first: Turn, levels: tuple[Level, ...]
) -> PendingReason:
    """Return which ask is tried before another, and which key decides."""
    level = levels[-1]
    key = next(key for key in level.keys if key.decides)
    better = _BETTER[key.name]
    if _is_by_weight(first, level.at, key.name):
        better = _BETTER_BY_WEIGHT.get(key.name, better)
    why = better.format(own=key.own or "none", other=key.other or "none")
    of_ask = own.app is first.app
    mine = _age(own, key.name, level.own, of_ask=of_ask)
    theirs = _age(first, key.name, level.other, of_ask=of_ask)
    ages: dict[str, Fact] = {}
    if mine or theirs:
        ages = {"own_age": mine, "other_age": theirs}
        why += f" (of these, {theirs:,} and {mine:,} are age)"
    message = f"{first.name} is tried before it: {level.other} in {level.at}, as {why}"
    if key.name == PAST_SHARE.name:
        message += f": {_has_used(state, own, level)}"
    facts = {
        "first": first.name,
        "at": level.at,
        "key": key.name,
        "own": key.own,
        "other": key.other,
        **ages,
    }
    return PendingReason(Code.NOT_YOUR_TURN, message, facts)


# REASON-11
def _has_used(state: ViewState, own: Turn, level: Level) -> str:
    """Return how much of its part the queue, or the user, on the way to an ask has used."""
    usages, total, leaf = state.timers.usages, state.total, own.leaf
    if level.at == leaf.config.path:
        user = own.app.identity.user[0] or ""
        found = next(one for one in usages.of_users(leaf, total) if one.user == user)
        user_text = f"user {user!r}" if user else "who has no user"
    else:
        parent = next(above for above in leaf.line if above.config.path == level.at)
        assert isinstance(parent, ParentView), "what has children is a parent"
        found = next(one for one in usages.of_children(parent, total) if one.queue == level.own)
        user_text = level.own
    times = f"{found.had / found.due:.2g}" if found.had else "0"
    return f"{user_text} has used {times} times its part in the last {_as_days(found.half_life_us)}"


_DAY_US: Final = 86_400_000_000


def _as_days(span_us: int) -> str:
    days, rest_us = divmod(span_us, _DAY_US)
    if rest_us or not days:
        return format_duration(span_us)
    return "day" if days == 1 else f"{days} days"


def _is_by_weight(first: Turn, at: str, key: str) -> bool:
    """Return whether a key below a queue, or in a leaf, depends on what is deserved by weight."""
    if key == "usage":
        return first.leaf.by_weight
    above = (queue for queue in first.leaf.line if queue.config.path == at)
    return any(queue.config.settings.share_by_weight for queue in above)


# OUTLOOK-1
def position(state: ViewState, turn: Turn) -> Steps[int]:
    """Return the place of a pending ask if all were taken in order and none was placed.

    None is skipped: neither one that does not fit, nor one whose queue, application or gang has
    no turn now. So the keys of the order stay as they are, and only those before it count.

    Returns:
        Its place, from 1.
    """
    ahead = 0
    for queue in _queues_ahead(turn.leaf, state.total):
        yield
        ahead += sum(sum(leaf.shapes.values()) for leaf in state.leaves_below(queue))
    for apps in in_pieces(_apps_ahead(turn, state.total)):
        yield
        ahead += sum(len(app.pending) + len(app.backing_off) for app in apps)
    own = _order_of(state, turn, turn.ask)
    for asks in in_pieces(turn.app.each_pending(), PART):
        yield
        ahead += sum(_order_of(state, turn, ask) < own for ask in asks)
    return ahead + 1


def _order_of(state: ViewState, turn: Turn, ask: Ask) -> AskOrder:
    """Return the position of a pending ask among those of the application that has the turn.

    A member may back off, so its application need not offer any member of its gang.
    """
    if turn.leaf.aging is not None:
        ask = turn.leaf.aging.ranked(turn.app, ask)
    return ask.order if ask.gang is None else ask.order_in(state.gangs[ask.gang].creation)


def _queues_ahead(leaf: LeafView, total: Mapping[str, int]) -> Iterator[ViewQueue]:
    """Iterate over the queues with pending asks that come before one on the path to a leaf."""
    for own, parent in pairwise(leaf.upward()):
        assert isinstance(parent, ParentView), "what has children is a parent"
        key = own.key_in(parent, total)
        for child in parent.children.values():
            if child is not own and any(child.pending) and child.key_in(parent, total) < key:
                yield child


def _apps_ahead(turn: Turn, total: Mapping[str, int]) -> Iterator[ViewApp]:
    """Iterate over the applications of the leaf with pending asks that come before the ask's."""
    leaf = turn.leaf
    key = leaf.rank_of(turn.app, total)
    for app in leaf.apps.values():
        if app is not turn.app and any(app.each_pending()) and leaf.rank_of(app, total) < key:
            yield app
