"""Remedies that concern limits: ``max`` and ``maxapplications`` of queues, and those of users and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.explain._remedies.case import (
    Case,
    NumberRange,
    Remedy,
    RemedyKind,
    amounts_in_words,
    smallest,
)
from muster.explain._remedies.trials import QueueChange, configure
from muster.feeds._kinds import EventFields
from muster_core.config.model import LimitEntry, Limits
from muster_core.values.configuration import EVERY_NAME
from muster_core.values.resources import format_quantity
from muster_core.view.reasons.shortfalls import named_limit
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import LimitKey, ViewLimit
from muster_core.view.tree.queue import ViewQueue

Limit = tuple[str, str]
"""The path of a queue, and a resource type that its ``max`` names."""


def quota_remedies(case: Case) -> Iterator[Remedy]:
    """Try higher limits of queues."""
    yield from _raise_max(case)
    yield from _raise_applications(case)


@final
@attrs.frozen
class QuotaLimits:
    """The limits above an ask that leave too little room for it.

    Attributes:
        case: The ask.
        names: The limits: the path of a queue and a type, in order.
        knobs: The range of each limit for the search.
    """

    case: Case
    names: Sequence[Limit]
    knobs: Sequence[NumberRange]

    @classmethod
    def for_room(cls, case: Case, wanted: Mapping[str, int]) -> QuotaLimits:
        """Return the limits that leave too little room for ``wanted``."""
        own, names, knobs = case.event.wanted, list[Limit](), list[NumberRange]()
        for queue in case.path:
            for name, most in queue.config.max.amounts:
                used = queue.used(name)
                needed = used + wanted.get(name, 0)
                if wanted.get(name, 0) and needed > most:
                    least = min(max(used + own[name], most), needed)
                    names.append((queue.config.path, name))
                    knobs.append(NumberRange(needed, least, case.steps.get(name, 1), floor=most))
        return cls(case, names, knobs)

    def labels(self) -> list[str]:
        """Return the names of the amounts."""
        return [f"{path}/{name}" for path, name in self.names]

    def changes(self, values: Sequence[int]) -> dict[str, QueueChange]:
        """Return the changes of queues that set the limits to ``values``."""
        most: dict[str, dict[str, int]] = {}
        for (path, name), value, knob in zip(self.names, values, self.knobs, strict=True):
            if value > knob.floor:
                most.setdefault(path, {})[name] = value
        return {path: QueueChange(max=amounts) for path, amounts in most.items()}

    def text(self, values: Sequence[int]) -> str:
        """Return the new limits in words."""
        parts: list[str] = []
        for (path, name), value, knob in zip(self.names, values, self.knobs, strict=True):
            if value > knob.floor:
                now = format_quantity(name, knob.floor)
                parts.append(f"{amounts_in_words({name: value})} instead of {now} as max of {path}")
        return ", and ".join(parts)


def _raise_max(case: Case) -> Iterator[Remedy]:
    """Raise limits that are too low for the ask; if that fails, for all that may come first."""
    for wanted in _growing(case):
        raised = _raise_for(case, QuotaLimits.for_room(case, wanted))
        if raised is not None:
            yield raised
            return


def _raise_for(case: Case, limits: QuotaLimits) -> Remedy | None:
    if not limits.names:
        return None

    def events(values: tuple[int, ...]) -> list[EventFields]:
        return [configure(case.machine, limits.changes(values))]

    found = smallest(_works(case, events), limits.knobs)
    remedies = case.found(RemedyKind.MAX, limits.labels(), found, limits.text, events)
    return next(remedies, None)


def _growing(case: Case) -> Iterator[Mapping[str, int]]:
    """Yield growing amounts to make room for: the ask, its group, up to all that is pending."""
    yield case.event.wanted
    yield case.combined
    everything = case.pending
    size = dict(case.combined)
    while any(size[name] < everything[name] for name in size):
        size = {name: min(2 * amount, everything[name]) for name, amount in size.items()}
        yield size


def _works(
    case: Case, events: Callable[[tuple[int, ...]], Sequence[EventFields]]
) -> Callable[[tuple[int, ...]], bool]:
    return lambda values: case.trials.bind(events(values))


def _raise_applications(case: Case) -> Iterator[Remedy]:
    """Raise ``maxapplications`` if a queue above the ask lets no more applications run.

    If another application starts first, a queue that is not full now may become full; so the
    search may raise the limit of every queue that has one.
    """
    if not any(queue.is_full() for queue in case.path):
        return
    counts = ApplicationLimits.above(case)

    def events(values: tuple[int, ...]) -> list[EventFields]:
        return [configure(case.machine, counts.changes(values))]

    found = smallest(_works(case, events), counts.knobs)
    yield from case.found(RemedyKind.MAX_APPLICATIONS, counts.labels(), found, counts.text, events)


@final
@attrs.frozen
class ApplicationLimits:
    """The ``maxapplications`` of the queues above an ask.

    Attributes:
        paths: The paths of the queues that have a limit.
        knobs: The range of each limit for the search.
    """

    paths: Sequence[str]
    knobs: Sequence[NumberRange]

    @classmethod
    def above(cls, case: Case) -> ApplicationLimits:
        """Return the limits of all queues above an ask, full or not."""
        limited = [queue for queue in case.path if queue.config.max_applications]
        return cls(
            [queue.config.path for queue in limited],
            [_applications(case, queue) for queue in limited],
        )

    def labels(self) -> list[str]:
        """Return the names of the numbers."""
        return [f"{path}/maxapplications" for path in self.paths]

    def _raised(self, values: Sequence[int]) -> list[tuple[str, int, int]]:
        chosen = zip(self.paths, values, self.knobs, strict=True)
        return [(path, value, knob.floor) for path, value, knob in chosen if value > knob.floor]

    def changes(self, values: Sequence[int]) -> dict[str, QueueChange]:
        """Return the changes of queues that set the limits to ``values``."""
        return {
            path: QueueChange(max_applications=value) for path, value, _ in self._raised(values)
        }

    def text(self, values: Sequence[int]) -> str:
        """Return the new limits in words."""
        return ", and ".join(
            f"{value} instead of {now} as maxapplications of {path}"
            for path, value, now in self._raised(values)
        )


def _applications(case: Case, queue: ViewQueue) -> NumberRange:
    now = queue.config.max_applications
    guess = queue.running + 1 if queue.is_full() else now
    return NumberRange(max(guess, len(case.snapshot.apps)), guess, floor=now)


APPLICATIONS: Final = ""
"""The name of ``maxapplications`` among the types of a limit."""


def user_limit_remedies(case: Case) -> Iterator[Remedy]:
    """Try higher limits for the user and the group of the ask, and for no others."""
    for wanted in (case.event.wanted, case.combined):
        raise_ = RaisedLimits.for_room(case, wanted)
        if not raise_.limits:
            continue
        found = smallest(raise_.works, raise_.knobs)
        remedies = case.found(RemedyKind.LIMIT, raise_.labels(), found, raise_.text, raise_.events)
        remedy = next(remedies, None)
        if remedy is not None:
            yield remedy
            return


@final
@attrs.frozen
class RaisedLimits:
    """The limits that leave too little for an ask, to be raised together.

    Attributes:
        case: The ask.
        limits: Each limit, with the type of which it leaves too little.
        knobs: The range of each for the search.
    """

    case: Case
    limits: Sequence[tuple[ViewLimit[ViewApp], str]]
    knobs: Sequence[NumberRange]

    @classmethod
    def for_room(cls, case: Case, wanted: Mapping[str, int]) -> RaisedLimits:
        """Return the limits that leave too little room for ``wanted``."""
        own, knobs = case.event.wanted, list[NumberRange]()
        limits = list[tuple[ViewLimit[ViewApp], str]]()
        app = case.machine.view.apps[case.machine.registry.app_key(case.event.app)]
        for limit in app.limits:
            for name, most in limit.entry.max.amounts:
                used = limit.used.get(name, 0)
                needed = used + wanted.get(name, 0)
                if wanted.get(name, 0) and needed > most:
                    least = min(max(used + own[name], most), needed)
                    limits.append((limit, name))
                    knobs.append(NumberRange(needed, least, case.steps.get(name, 1), floor=most))
            if limit.is_full and not app.running:
                most = limit.entry.max_applications
                limits.append((limit, APPLICATIONS))
                knobs.append(
                    NumberRange(limit.running + len(limit.apps), limit.running + 1, floor=most)
                )
        return cls(case, limits, knobs)

    def labels(self) -> list[str]:
        """Return the names of the amounts."""
        return [
            f"{limit.path}/{'*' if limit.key.name is None else limit.key.name}"
            f"/{name or 'maxapplications'}"
            for limit, name in self.limits
        ]

    def events(self, values: tuple[int, ...]) -> list[EventFields]:
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
                    amount, now = amounts_in_words({name: value}), format_quantity(name, knob.floor)
                parts.append(f"{amount} instead of {now} as {named_limit(limit)}")
        return ", and ".join(parts)


def raised(
    entries: tuple[LimitEntry, ...], key: LimitKey, name: str, value: int
) -> tuple[LimitEntry, ...]:
    """Return the limits of a queue with another one for a single user or group.

    Args:
        entries: The limits of the queue.
        key: The key of the limit that changes.
        name: The type, or :data:`APPLICATIONS`.
        value: The new amount.
    """
    name_text = EVERY_NAME if key.name is None else key.name
    for at, entry in enumerate(entries):
        named = entry.groups if key.of_group else entry.users
        if name_text in named or EVERY_NAME in named:
            own = _changed(entry, name, value)
            own = attrs.evolve(
                own,
                users=() if key.of_group else (name_text,),
                groups=(name_text,) if key.of_group else (),
            )
            rest = _without(entry, name_text, of_group=key.of_group)
            kept = () if rest is None else (rest,)
            # What follows a * is refused; a * may only stand behind.
            both = (*kept, own) if name_text == EVERY_NAME else (own, *kept)
            return (*entries[:at], *both, *entries[at + 1 :])
    return entries


def _changed(entry: LimitEntry, name: str, value: int) -> LimitEntry:
    if name == APPLICATIONS:
        return attrs.evolve(entry, max_applications=value)
    return attrs.evolve(entry, max=Limits.of({**dict(entry.max.amounts), name: value}))


def _without(entry: LimitEntry, who: str, *, of_group: bool) -> LimitEntry | None:
    """Return an entry without one of its names; None if no name is left."""
    users = entry.users if of_group else tuple(one for one in entry.users if one != who)
    groups = tuple(one for one in entry.groups if one != who) if of_group else entry.groups
    return attrs.evolve(entry, users=users, groups=groups) if users or groups else None
