"""Remedies that concern what queues may have: ``max`` and ``maxapplications``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import final

import attrs

from muster.explain._remedies.case import Case, told
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Knob, smallest
from muster.explain._remedies.settings import QueueChange, configure
from muster.explain._writing import Written
from muster_core.values.quantities import format_quantity
from muster_core.view.tree.queue import ViewQueue

Limit = tuple[str, str]
"""A queue by its path, and a type of which it may have only so much."""


def quota_remedies(case: Case) -> Iterator[Remedy]:
    """Try what can be done about the limits of queues."""
    yield from _raise_max(case)
    yield from _raise_applications(case)


@final
@attrs.frozen
class Limits:
    """The limits above an ask that leave too little for what it wants.

    Attributes:
        case: The ask.
        names: The limits: the path of a queue and a type, in order.
        knobs: What each would have to be.
    """

    case: Case
    names: Sequence[Limit]
    knobs: Sequence[Knob]

    @classmethod
    def for_room(cls, case: Case, wanted: Mapping[str, int]) -> Limits:
        """Give the limits that leave too little for so much."""
        own, names, knobs = case.event.resources, list[Limit](), list[Knob]()
        for queue in case.path:
            for name, most in queue.config.max.amounts:
                used = queue.allocated.get(name, 0)
                needed = used + wanted.get(name, 0)
                if wanted.get(name, 0) and needed > most:
                    least = min(max(used + own[name], most), needed)
                    names.append((queue.config.path, name))
                    knobs.append(Knob(needed, least, case.steps.get(name, 1), floor=most))
        return cls(case, names, knobs)

    def labels(self) -> list[str]:
        """Give what the amounts are called."""
        return [f"{path}/{name}" for path, name in self.names]

    def changes(self, values: Sequence[int]) -> dict[str, QueueChange]:
        """Give the changes of queues that make the limits what they are to be."""
        most: dict[str, dict[str, int]] = {}
        for (path, name), value, knob in zip(self.names, values, self.knobs, strict=True):
            if value > knob.floor:
                most.setdefault(path, {})[name] = value
        return {path: QueueChange(max=amounts) for path, amounts in most.items()}

    def text(self, values: Sequence[int]) -> str:
        """Say in words what the limits are to be."""
        parts: list[str] = []
        for (path, name), value, knob in zip(self.names, values, self.knobs, strict=True):
            if value > knob.floor:
                now = format_quantity(name, knob.floor)
                parts.append(f"{told({name: value})} instead of {now} as max of {path}")
        return ", and ".join(parts)


def _raise_max(case: Case) -> Iterator[Remedy]:
    """Raise what is too low for the ask alone; else for all that might come before it."""
    for wanted in _growing(case):
        raised = _raise_for(case, Limits.for_room(case, wanted))
        if raised is not None:
            yield raised
            return


def _raise_for(case: Case, limits: Limits) -> Remedy | None:
    if not limits.names:
        return None

    def events(values: tuple[int, ...]) -> list[Written]:
        return [configure(case.machine, limits.changes(values))]

    found = smallest(_works(case, events), limits.knobs)
    remedies = case.found(RemedyKind.MAX, limits.labels(), found, limits.text, events)
    return next(remedies, None)


def _growing(case: Case) -> Iterator[Mapping[str, int]]:
    """Give what there should be room for: the ask, its group, and all that is pending."""
    yield case.event.resources
    yield case.together
    everything = case.pending
    size = dict(case.together)
    while any(size[name] < everything[name] for name in size):
        size = {name: min(2 * amount, everything[name]) for name, amount in size.items()}
        yield size


def _works(
    case: Case, events: Callable[[tuple[int, ...]], Sequence[Written]]
) -> Callable[[tuple[int, ...]], bool]:
    return lambda values: case.trials.bind(events(values))


def _raise_applications(case: Case) -> Iterator[Remedy]:
    """Let more applications run in the queues that let no more of them run.

    Where another one comes first, what has room now may be full then; so all that is limited
    may be raised.
    """
    if not any(queue.gates()[1] for queue in case.path):
        return
    counts = Counts.above(case)

    def events(values: tuple[int, ...]) -> list[Written]:
        return [configure(case.machine, counts.changes(values))]

    found = smallest(_works(case, events), counts.knobs)
    yield from case.found(RemedyKind.MAX_APPLICATIONS, counts.labels(), found, counts.text, events)


@final
@attrs.frozen
class Counts:
    """How many applications may run in the queues above an ask that limit it.

    Attributes:
        paths: The queues, by path.
        knobs: What the limit of each would have to be.
    """

    paths: Sequence[str]
    knobs: Sequence[Knob]

    @classmethod
    def above(cls, case: Case) -> Counts:
        """Give all such queues, also those that may have one more application now."""
        limited = [queue for queue in case.path if queue.config.max_applications]
        return cls(
            [queue.config.path for queue in limited],
            [_applications(case, queue) for queue in limited],
        )

    def labels(self) -> list[str]:
        """Give what the numbers are called."""
        return [f"{path}/maxapplications" for path in self.paths]

    def _raised(self, values: Sequence[int]) -> list[tuple[str, int, int]]:
        chosen = zip(self.paths, values, self.knobs, strict=True)
        return [(path, value, knob.floor) for path, value, knob in chosen if value > knob.floor]

    def changes(self, values: Sequence[int]) -> dict[str, QueueChange]:
        """Give the changes of queues that make the limits what they are to be."""
        return {
            path: QueueChange(max_applications=value) for path, value, _ in self._raised(values)
        }

    def text(self, values: Sequence[int]) -> str:
        """Say in words what the limits are to be."""
        return ", and ".join(
            f"{value} instead of {now} as maxapplications of {path}"
            for path, value, now in self._raised(values)
        )


def _applications(case: Case, queue: ViewQueue) -> Knob:
    now = queue.config.max_applications
    guess = queue.running + 1 if queue.gates()[1] else now
    return Knob(max(guess, len(case.snapshot.apps)), guess, floor=now)
