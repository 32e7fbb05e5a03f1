"""Remedies that concern the limits of users and groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.explain._remedies.case import Case, told
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Knob, smallest
from muster.explain._remedies.settings import QueueChange, configure
from muster.explain._writing import Written
from muster_core.config.model import LimitEntry, Limits
from muster_core.values.configuration.user_limits import EVERY_NAME
from muster_core.values.quantities import format_quantity
from muster_core.view.reasons.user_limits import named_limit
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.user_limit import LimitKey, ViewLimit

# Looking up a member of an enum takes ten times as long.
_LIMIT: Final = RemedyKind.LIMIT

APPLICATIONS: Final = ""
"""Stands for ``maxapplications`` among the types of a limit."""


def user_limit_remedies(case: Case) -> Iterator[Remedy]:
    """Try higher limits for the user and the group of the ask, and for nobody else."""
    for wanted in (case.event.wanted, case.together):
        raise_ = Raise.for_room(case, wanted)
        if not raise_.limits:
            continue
        found = smallest(raise_.works, raise_.knobs)
        remedies = case.found(_LIMIT, raise_.labels(), found, raise_.text, raise_.events)
        remedy = next(remedies, None)
        if remedy is not None:
            yield remedy
            return


@final
@attrs.frozen
class Raise:
    """The limits that leave too little for an ask, to be raised together.

    Attributes:
        case: The ask.
        limits: Each limit, with the type of which it leaves too little.
        knobs: The range of each for the search.
    """

    case: Case
    limits: Sequence[tuple[ViewLimit[ViewApp], str]]
    knobs: Sequence[Knob]

    @classmethod
    def for_room(cls, case: Case, wanted: Mapping[str, int]) -> Raise:
        """Return the limits that leave too little room for ``wanted``."""
        own, knobs = case.event.wanted, list[Knob]()
        limits = list[tuple[ViewLimit[ViewApp], str]]()
        app = case.machine.view.apps[case.machine.registry.app_key(case.event.app)]
        for limit in app.limits:
            for name, most in limit.entry.max.amounts:
                used = limit.used.get(name, 0)
                needed = used + wanted.get(name, 0)
                if wanted.get(name, 0) and needed > most:
                    least = min(max(used + own[name], most), needed)
                    limits.append((limit, name))
                    knobs.append(Knob(needed, least, case.steps.get(name, 1), floor=most))
            if limit.is_full and not app.running:
                most = limit.entry.max_applications
                limits.append((limit, APPLICATIONS))
                knobs.append(Knob(limit.running + len(limit.apps), limit.running + 1, floor=most))
        return cls(case, limits, knobs)

    def labels(self) -> list[str]:
        """Return the names of the amounts."""
        return [
            f"{limit.path}/{'*' if limit.key.name is None else limit.key.name}"
            f"/{name or 'maxapplications'}"
            for limit, name in self.limits
        ]

    def events(self, values: tuple[int, ...]) -> list[Written]:
        """Return the events that set the limits to ``values``."""
        return [configure(self.case.machine, self.changes(values))]

    def changes(self, values: Sequence[int]) -> dict[str, QueueChange]:
        """Return the changes of queues that set the limits to ``values``."""
        entries: dict[str, tuple[LimitEntry, ...]] = {}
        queues = self.case.machine.registry.queues
        for (limit, name), value, knob in zip(self.limits, values, self.knobs, strict=True):
            if value == knob.floor:
                continue
            before = entries.get(limit.path, queues[limit.path].config.limits)
            entries[limit.path] = raised(before, limit.key, name, value)
        return {path: QueueChange(limits=limits) for path, limits in entries.items()}

    def works(self, values: tuple[int, ...]) -> bool:
        """Return whether the ask is bound with these limits."""
        return self.case.trials.bind(self.events(values))

    def text(self, values: Sequence[int]) -> str:
        """Return the new limits in words."""
        parts: list[str] = []
        for (limit, name), value, knob in zip(self.limits, values, self.knobs, strict=True):
            if value > knob.floor:
                if name == APPLICATIONS:
                    amount, now = f"maxapplications {value}", f"{knob.floor}"
                else:
                    amount, now = told({name: value}), format_quantity(name, knob.floor)
                parts.append(f"{amount} instead of {now} as {named_limit(limit)}")
        return ", and ".join(parts)


def raised(
    entries: tuple[LimitEntry, ...], key: LimitKey, name: str, value: int
) -> tuple[LimitEntry, ...]:
    """Return the limits of a queue with another one for a single user or group.

    Args:
        entries: The limits of the queue.
        key: Whose limit changes.
        name: The type, or :data:`APPLICATIONS`.
        value: The new amount.
    """
    who = EVERY_NAME if key.name is None else key.name
    for at, entry in enumerate(entries):
        named = entry.groups if key.of_group else entry.users
        if who in named or EVERY_NAME in named:
            own = _changed(entry, name, value)
            own = attrs.evolve(
                own,
                users=() if key.of_group else (who,),
                groups=(who,) if key.of_group else (),
            )
            rest = _without(entry, who, of_group=key.of_group)
            kept = () if rest is None else (rest,)
            # What follows a * is refused; a * may only stand behind.
            both = (*kept, own) if who == EVERY_NAME else (own, *kept)
            return (*entries[:at], *both, *entries[at + 1 :])
    return entries


def _changed(entry: LimitEntry, name: str, value: int) -> LimitEntry:
    if name == APPLICATIONS:
        return attrs.evolve(entry, max_applications=value)
    return attrs.evolve(entry, max=Limits.of({**dict(entry.max.amounts), name: value}))


def _without(entry: LimitEntry, who: str, *, of_group: bool) -> LimitEntry | None:
    """Return an entry without one of its names; None if it then names nobody."""
    users = entry.users if of_group else tuple(one for one in entry.users if one != who)
    groups = tuple(one for one in entry.groups if one != who) if of_group else entry.groups
    return attrs.evolve(entry, users=users, groups=groups) if users or groups else None
