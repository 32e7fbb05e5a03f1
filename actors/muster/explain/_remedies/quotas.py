"""Remedies that concern the quotas of queues: ``max`` and ``maxapplications``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.explain._remedies.case import Case, told
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Knob, smallest
from muster.explain._remedies.settings import QueueChange, configure
from muster.explain._writing import Written
from muster_core.values.quantities import format_quantity
from muster_core.view.tree.queue import ViewQueue

# Looking up a member of an enum takes ten times as long.
_MAX: Final = RemedyKind.MAX
_MAX_APPLICATIONS: Final = RemedyKind.MAX_APPLICATIONS

Limit = tuple[str, str]
"""The path of a queue, and a resource type that its ``max`` names."""


def quota_remedies(case: Case) -> Iterator[Remedy]:
    """Try higher limits of queues."""
    yield from _raise_max(case)
    yield from _raise_applications(case)


@final
@attrs.frozen
class Limits:
    """The limits above an ask that leave too little room for it.

    Attributes:
        case: The ask.
        names: The limits: the path of a queue and a type, in order.
        knobs: The range of each limit for the search.
    """

    case: Case
    names: Sequence[Limit]
    knobs: Sequence[Knob]

    @classmethod
    def for_room(cls, case: Case, wanted: Mapping[str, int]) -> Limits:
        """Return the limits that leave too little room for ``wanted``."""
        own, names, knobs = case.event.wanted, list[Limit](), list[Knob]()
        for queue in case.path:
            for name, most in queue.config.max.amounts:
                used = queue.used(name)
                needed = used + wanted.get(name, 0)
                if wanted.get(name, 0) and needed > most:
                    least = min(max(used + own[name], most), needed)
                    names.append((queue.config.path, name))
                    knobs.append(Knob(needed, least, case.steps.get(name, 1), floor=most))
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
                parts.append(f"{told({name: value})} instead of {now} as max of {path}")
        return ", and ".join(parts)


def _raise_max(case: Case) -> Iterator[Remedy]:
    """Raise limits that are too low for the ask; if that fails, for all that may come first."""
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
    remedies = case.found(_MAX, limits.labels(), found, limits.text, events)
    return next(remedies, None)


def _growing(case: Case) -> Iterator[Mapping[str, int]]:
    """Yield growing amounts to make room for: the ask, its group, up to all that is pending."""
    yield case.event.wanted
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
    """Raise ``maxapplications`` if a queue above the ask lets no more applications run.

    If another application starts first, a queue that is not full now may become full; so the
    search may raise the limit of every queue that has one.
    """
    if not any(queue.is_full() for queue in case.path):
        return
    counts = Counts.above(case)

    def events(values: tuple[int, ...]) -> list[Written]:
        return [configure(case.machine, counts.changes(values))]

    found = smallest(_works(case, events), counts.knobs)
    yield from case.found(_MAX_APPLICATIONS, counts.labels(), found, counts.text, events)


@final
@attrs.frozen
class Counts:
    """The ``maxapplications`` of the queues above an ask.

    Attributes:
        paths: The paths of the queues that have a limit.
        knobs: The range of each limit for the search.
    """

    paths: Sequence[str]
    knobs: Sequence[Knob]

    @classmethod
    def above(cls, case: Case) -> Counts:
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


def _applications(case: Case, queue: ViewQueue) -> Knob:
    now = queue.config.max_applications
    guess = queue.running + 1 if queue.is_full() else now
    return Knob(max(guess, len(case.snapshot.apps)), guess, floor=now)
