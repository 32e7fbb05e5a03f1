"""Limits of users and groups for drawn configurations, mended to what the loader lets pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from muster_core.config.model import Limits, QueueConfig
from muster_core.values.configuration import EVERY_NAME, LimitEntry
from tests.naive.choices import Choices

USERS: Final = ("u1", "u2", EVERY_NAME, "u3")
GROUPS: Final = ("g1", "g2", EVERY_NAME, "g3")
ENTRY_BYTES: Final = 14

Name = tuple[str, str]
"""Whether it is a user or a group, and the name."""


@attrs.frozen
class LimitTheme:
    """What limits are made of; the simplest comes first in each.

    Attributes:
        users: They are for users.
        groups: They are for groups.
        entries: How many a queue has.
        amounts: What they give of a type; None is not named.
        apps: Their ``maxapplications``.
    """

    users: bool
    groups: bool
    entries: tuple[int, ...]
    amounts: tuple[int | None, ...]
    apps: tuple[int, ...]


@attrs.frozen
class Least:
    """The least that the queues from the root down give to one name.

    Attributes:
        max: Of each type that one of them names.
        applications: Of applications; 0 if none of them limits these.
    """

    max: Mapping[str, int] = attrs.field(factory=dict[str, int])
    applications: int = 0

    def and_also(self, entry: LimitEntry) -> Least:
        """Give the least of this and of an entry."""
        amounts = dict(self.max)
        for name, most in entry.max.amounts:
            amounts[name] = min(most, amounts.get(name, most))
        both = [apps for apps in (self.applications, entry.max_applications) if apps]
        return Least(amounts, min(both, default=0))


Above = dict[Name, Least]


def limited(
    queue: QueueConfig, theme: LimitTheme, drawn: Sequence[bytes], change: int, above: Above
) -> QueueConfig:
    """Give a queue and all below it limits that are in order.

    Args:
        queue: The queue, without limits.
        theme: What limits are made of.
        drawn: Some bytes; of the same ones a queue always gets the same limits.
        change: How much more a limit allows than these bytes say, or less.
        above: What the queues above give.
    """
    choices = Choices(drawn[sum(map(ord, queue.path)) % len(drawn)])
    entries = _mended(queue, list(_raw(choices, theme, change)), above)
    inside = dict(above)
    for entry in entries:
        for name in named(entry):
            inside[name] = inside.get(name, Least()).and_also(entry)
    children = tuple(limited(child, theme, drawn, change, inside) for child in queue.children)
    return attrs.evolve(queue, limits=entries, children=children)


def _raw(choices: Choices, theme: LimitTheme, change: int) -> Iterator[LimitEntry]:
    for _ in range(choices.of(theme.entries)):
        users = _some(choices, USERS) if theme.users else ()
        groups = _some(choices, GROUPS) if theme.groups else ()
        amounts = {name: choices.of(theme.amounts) for name in ("vcore", "memory")}
        if choices.one_in(2):
            amounts["memory"] = None
        most = {name: max(0, some + change) for name, some in amounts.items() if some is not None}
        yield LimitEntry(users, groups, Limits.of(most), choices.of(theme.apps))


def _some(choices: Choices, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(choices.of(names) for _ in range(choices.of((1, 2, 0))))


def _mended(queue: QueueConfig, raw: list[LimitEntry], above: Above) -> tuple[LimitEntry, ...]:
    """Leave out of the entries of a queue what the loader would refuse."""
    kept: list[LimitEntry] = []
    for one in raw:
        before = [name for entry in kept for name in named(entry)]
        users = _allowed("user", one.users, before)
        groups = _allowed("group", one.groups, before)
        entry = _capped(attrs.evolve(one, users=users, groups=groups), queue, above)
        if (users or groups) and (entry.max or entry.max_applications):
            kept.append(entry)
    return tuple(kept)


def _allowed(kind: str, names: tuple[str, ...], before: list[Name]) -> tuple[str, ...]:
    """Give the names that may follow others: none twice, none after ``*``, no group ``*`` first."""
    allowed = [name for one, name in before if one == kind]
    start = len(allowed)
    for name in names:
        too_early = kind == "group" and name == EVERY_NAME and not allowed
        if name not in allowed and EVERY_NAME not in allowed and not too_early:
            allowed.append(name)
    return tuple(allowed[start:])


def _capped(entry: LimitEntry, queue: QueueConfig, above: Above) -> LimitEntry:
    """Let an entry allow no more than the queue itself, and than those above allow the same."""
    amounts, most = dict(entry.max.amounts), entry.max_applications
    for cap in [given(name, above) for name in named(entry)]:
        amounts = {name: min(some, cap.max.get(name, some)) for name, some in amounts.items()}
        most = min(most or cap.applications, cap.applications or most)
    own = dict(queue.max.amounts)
    amounts = {name: min(some, own.get(name, some)) for name, some in amounts.items()}
    most = min(most, queue.max_applications or most)
    limits = Limits.of(amounts if any(amounts.values()) else {})
    return attrs.evolve(entry, max=limits, max_applications=most)


def named(entry: LimitEntry) -> list[Name]:
    """Give the users and the groups that an entry names."""
    users: list[Name] = [("user", name) for name in entry.users]
    return users + [("group", name) for name in entry.groups]


def given(name: Name, above: Above) -> Least:
    """Give the least that the queues above give to a name, or to all where none names it."""
    kind, _ = name
    return above.get(name, above.get((kind, EVERY_NAME), Least()))


def faults(queue: QueueConfig, above: Above | None = None) -> list[str]:
    """Tell what the loader would refuse of the limits of a queue and of those below it."""
    found: list[str] = []
    above = {} if above is None else above
    seen: list[Name] = []
    inside = dict(above)
    for entry in queue.limits:
        amounts, own = dict(entry.max.amounts), dict(queue.max.amounts)
        if not entry.users and not entry.groups:
            found.append("for nobody")
        if not amounts and not entry.max_applications:
            found.append("limits nothing")
        if amounts and not any(amounts.values()):
            found.append("no type above 0")
        if any(some > own.get(name, some) for name, some in amounts.items()):
            found.append("more than max")
        if 0 < queue.max_applications < entry.max_applications:
            found.append("more than maxapplications")
        for name in named(entry):
            found += _faults_of(name, entry, seen, given(name, above))
            seen.append(name)
            inside[name] = inside.get(name, Least()).and_also(entry)
    below = [fault for child in queue.children for fault in faults(child, inside)]
    return [f"{queue.path}: {fault}" for fault in found] + below


def _faults_of(name: Name, entry: LimitEntry, seen: list[Name], most: Least) -> Iterator[str]:
    kind, text = name
    if name in seen:
        yield f"{text} twice"
    if (kind, EVERY_NAME) in seen:
        yield f"{text} after *"
    if name == ("group", EVERY_NAME) and kind not in {one for one, _ in seen}:
        yield "the group * alone"
    if any(some > most.max.get(type_, some) for type_, some in entry.max.amounts):
        yield f"{text} has more than above"
    if most.applications and not 0 < entry.max_applications <= most.applications:
        yield f"{text} has more applications than above"
