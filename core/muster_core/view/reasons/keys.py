"""By which keys two competitors are compared, level by level (SPEC section 4)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from muster_core.structures.shares import dominant_share, usage_key
from muster_core.values.configuration import SortPolicy
from muster_core.values.reasons import Code, ComparedKey, Level, PendingReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.view.reasons.turns import Turn
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue

_Value = int | float | str | tuple[float, ...]

_Pair = tuple[str, _Value, _Value]
"""What is compared, and the two values."""

_DIGITS: Final = (3, 6, 9, 17)
"""With how many digits shares are written: the fewest with which two can be told apart."""

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
"""Why the other comes first, by what decides."""


def compare(own: Turn, other: Turn, total: Mapping[str, int]) -> tuple[Level, ...]:
    """Compare the ways to two asks, from the root to where they part, that level included.

    Args:
        own: The ask that is explained.
        other: The ask that is tried first.
        total: What all nodes have.
    """
    levels = list(_levels_of_queues(own.leaf, other.leaf, total))
    if own.leaf is not other.leaf:
        return tuple(levels)
    path = own.leaf.config.path
    names = own.app.identity.name, other.app.identity.name
    levels.append(Level(path, *names, _keys(_apps(own, other, total))))
    if own.app is other.app:
        levels.append(Level(names[0], own.ask.name, other.ask.name, _keys(_asks(own, other))))
    return tuple(levels)


def _levels_of_queues(own: LeafView, other: LeafView, total: Mapping[str, int]) -> Iterator[Level]:
    steps = zip(pairwise(reversed(own.line)), pairwise(reversed(other.line)), strict=False)
    for (parent, mine), (_, theirs) in steps:
        keys = _keys(_queues(parent, mine, theirs, total))
        yield Level(parent.config.path, mine.config.path, theirs.config.path, keys)
        if mine is not theirs:
            return


def _queues(
    parent: ViewQueue, own: ViewQueue, other: ViewQueue, total: Mapping[str, int]
) -> Iterator[_Pair]:
    if parent.config.settings.sort_by_priority:
        priorities = own.config.settings.queue_priority, other.config.settings.queue_priority
        yield "queue.priority", *priorities
        yield "currentPriority", _number(own.counted), _number(other.counted)
    yield "share", own.fair_share(total), other.fair_share(total)
    pending = dominant_share(own.pending, total), dominant_share(other.pending, total)
    yield "pending", *pending
    yield "path", own.config.path, other.config.path


def _apps(own: Turn, other: Turn, total: Mapping[str, int]) -> Iterator[_Pair]:
    leaf, mine, theirs = own.leaf, own.app, other.app
    settings = leaf.config.settings
    if settings.sort_by_priority:
        yield "priority", _number(mine.counted), _number(theirs.counted)
    if settings.sort_policy is SortPolicy.FAIR:
        guaranteed = leaf.config.guaranteed
        yield (
            "usage",
            usage_key(mine.allocated, guaranteed, total),
            usage_key(theirs.allocated, guaranteed, total),
        )
    yield "creation", mine.identity.key, theirs.identity.key


def _asks(own: Turn, other: Turn) -> Iterator[_Pair]:
    mine, theirs = own.app.order_of(own.ask), other.app.order_of(other.ask)
    yield "priority", -mine[0], -theirs[0]
    yield "creation", mine[1], theirs[1]
    yield "gang", mine[2], theirs[2]
    yield "submission", mine[3], theirs[3]
    yield "number", mine[4], theirs[4]


def _number(priority: int | None) -> int:
    assert priority is not None, "what has something pending has a priority"
    return priority


def _keys(pairs: Iterable[_Pair]) -> tuple[ComparedKey, ...]:
    keys: list[ComparedKey] = []
    open_still = True
    for name, own, other in pairs:
        decides = open_still and own != other
        open_still = open_still and not decides
        keys.append(ComparedKey(name, *_shown(own, other), decides))
    return tuple(keys)


def _shown(own: _Value, other: _Value) -> tuple[str, str]:
    """Write two values, so that two that differ can be told apart."""
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
    """Say who is tried before an ask, and what decides that."""
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
    return PendingReason(Code.NOT_YOUR_TURN, message, facts)
