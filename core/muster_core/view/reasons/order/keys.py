"""The keys by which two asks are compared, level by level (ORDER-5 to ORDER-18)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from muster_core.values.reasons import Code, ComparedKey, Level, PendingReason
from muster_core.view.tree.queue import ParentView
from muster_core.view.tree.sort_keys import ASK_PARTS, app_key, app_parts, queue_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.view.reasons.turns import Turn
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.sort_keys import Part, Value

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_NOT_YOUR_TURN: Final = Code.NOT_YOUR_TURN

_DIGITS: Final = (3, 6, 9, 17)
"""The numbers of digits for shares: the fewest with which two values differ."""

_BETTER: Final[Mapping[str, str]] = {
    "queue.priority": "its queue.priority {other} is higher than {own}",
    "currentPriority": "its currentPriority {other} is higher than {own}",
    "share": "its fair share {other} is less than {own}",
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
    config, mine, theirs = own.leaf.config, own.app, other.app
    names = mine.identity.name, theirs.identity.name
    keys = app_key(config, mine, total), app_key(config, theirs, total)
    levels.append(Level(config.path, *names, _compared(app_parts(config.settings), *keys)))
    if mine is theirs:
        keys = mine.order_of(own.ask), mine.order_of(other.ask)
        levels.append(Level(names[0], own.ask.name, other.ask.name, _compared(ASK_PARTS, *keys)))
    return tuple(levels)


def _levels_of_queues(own: LeafView, other: LeafView, total: Mapping[str, int]) -> Iterator[Level]:
    steps = zip(pairwise(reversed(own.line)), pairwise(reversed(other.line)), strict=False)
    for (parent, mine), (_, theirs) in steps:
        assert isinstance(parent, ParentView), "what has children is a parent"
        keys = mine.key_in(parent, total), theirs.key_in(parent, total)
        compared = _compared(queue_parts(parent.config.settings), *keys)
        yield Level(parent.config.path, mine.config.path, theirs.config.path, compared)
        if mine is not theirs:
            return


def _compared(
    parts: Iterable[Part], own: Iterable[Value], other: Iterable[Value]
) -> tuple[ComparedKey, ...]:
    """Compare two keys part by part; the first part in which they differ decides."""
    found: list[ComparedKey] = []
    open_still = True
    for part, mine, theirs in zip(parts, own, other, strict=True):
        decides = open_still and mine != theirs
        open_still = open_still and not decides
        shown = _shown(part.value(mine), part.value(theirs))
        found.append(ComparedKey(part.name, *shown, decides))
    return tuple(found)


def _shown(own: Value, other: Value) -> tuple[str, str]:
    """Format two values, so that different ones look different."""
    if isinstance(own, tuple) and isinstance(other, tuple):
        return _told_apart(own, other)
    if isinstance(own, float) and isinstance(other, float):
        return _told_apart((own,), (other,))
    return f"{own}", f"{other}"


def _told_apart(own: tuple[float, ...], other: tuple[float, ...]) -> tuple[str, str]:
    digits = next((some for some in _DIGITS if _written(own, some) != _written(other, some)), 3)
    return _written(own, digits), _written(other, digits)


def _written(shares: tuple[float, ...], digits: int) -> str:
    return " ".join(f"{share:.{digits}g}" for share in shares) or "0"


def not_your_turn(first: Turn, levels: tuple[Level, ...]) -> PendingReason:
    """Return which ask is tried before another, and which key decides."""
    level = levels[-1]
    key = next(key for key in level.keys if key.decides)
    why = _BETTER[key.name].format(own=key.own or "none", other=key.other or "none")
    message = f"{first.name} is tried before it: {level.other} in {level.at}, as {why}"
    facts = {
        "first": first.name,
        "at": level.at,
        "key": key.name,
        "own": key.own,
        "other": key.other,
    }
    return PendingReason(_NOT_YOUR_TURN, message, facts)
