"""Remedies of several parts, for asks that are held up by more than one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.explain._case import Case, told
from muster.explain._gangs import gang_parts
from muster.explain._nodes import more_room
from muster.explain._parts import Part
from muster.explain._quotas import Limits
from muster.explain._remedies import Remedy, RemedyKind
from muster.explain._search import Knob, smallest
from muster.explain._settings import QueueChange, configure
from muster.explain._writing import Written
from muster_core.config.model import SortPolicy

_TOLD: Final = 2
"""How many of them are told."""


def combined_remedies(case: Case) -> Iterator[Remedy]:
    """Try what stands in the way but for room, together with all the room that it takes."""
    found = 0
    for part in _parts(case):
        remedy = _with_room(case, part)
        if remedy is not None:
            yield remedy
            found += 1
            if found == _TOLD:
                return


def _parts(case: Case) -> Iterator[Part]:
    yield Part()
    gangs = list(gang_parts(case))
    yield from gangs
    changes = dict(_ways_in(case))
    if changes:
        text = " and ".join(_said(path, change) for path, change in changes.items())
        yield Part(text, changes=changes)
        for part in gangs:
            yield attrs.evolve(part, text=f"{part.text}, and {text}", changes=changes)


def _ways_in(case: Case) -> Iterator[tuple[str, QueueChange]]:
    """Give the settings with which nothing but room keeps the ask out of its queues."""
    for queue in case.path:
        settings, limit = queue.config.settings, queue.config.max_applications
        full = any(above.gates()[1] for above in case.path) and limit > 0
        properties: dict[str, str] = {}
        if queue is case.path[0] and settings.blocking:
            properties["application.sort.blocking"] = "disabled"
        if queue is case.path[0] and settings.sort_policy is SortPolicy.STATE_AWARE:
            properties["application.sort.policy"] = SortPolicy.FIFO.value
        if full or properties:
            enough = max(limit, len(case.snapshot.apps)) if full else None
            yield queue.config.path, QueueChange(max_applications=enough, properties=properties)


def _said(path: str, change: QueueChange) -> str:
    words = [f"{name}: {value}" for name, value in change.properties.items()]
    if change.max_applications is not None:
        words.append(f"maxapplications: {change.max_applications}")
    return f"{', '.join(words)} for {path}"


def _with_room(case: Case, part: Part) -> Remedy | None:
    everything = {name: amount + part.more.get(name, 0) for name, amount in case.pending.items()}
    size = {name: amount + part.more.get(name, 0) for name, amount in case.together.items()}
    while True:
        remedy = _Room(case, part, Limits.for_room(case, size), size).remedy()
        if remedy is not None or all(size[name] >= everything[name] for name in size):
            return remedy
        size = {name: min(2 * amount, everything[name]) for name, amount in size.items()}


@final
@attrs.frozen
class _Room:
    """So much room on a node, and in the queues of the ask, besides a part of another kind.

    Attributes:
        case: The ask.
        part: The other part.
        limits: The limits of its queues that leave too little for that.
        size: What there is to be room for.
    """

    case: Case
    part: Part
    limits: Limits
    size: Mapping[str, int]

    def remedy(self) -> Remedy | None:
        case, names = self.case, sorted(self.size)
        knobs = [*self.limits.knobs]
        for name in names:
            guess = min(case.event.resources[name], self.size[name])
            knobs.append(Knob(self.size[name], guess, case.steps.get(name, 1)))
        found = smallest(lambda values: case.trials.bind(self._events(values)), knobs)
        labels = [*self.limits.labels(), *names]
        remedies = case.found(RemedyKind.COMBINED, labels, found, self._text, self._events)
        return next(remedies, None)

    def _split(self, values: Sequence[int]) -> tuple[Sequence[int], dict[str, int]]:
        limits = len(self.limits.names)
        room = dict(zip(sorted(self.size), values[limits:], strict=True))
        return values[:limits], {name: amount for name, amount in room.items() if amount}

    def _events(self, values: tuple[int, ...]) -> list[Written]:
        most, room = self._split(values)
        changes = dict(self.part.changes)
        for path, change in self.limits.changes(most).items():
            changes[path] = attrs.evolve(changes.get(path, QueueChange()), max=change.max)
        events = list(self.part.events)
        if changes:
            events.append(configure(self.case.conductor, changes))
        if room:
            events.append(more_room(self.case, room))
        return events

    def _text(self, values: tuple[int, ...]) -> str:
        most, room = self._split(values)
        words = [self.part.text, self.limits.text(most)]
        if room and self.case.event.node in self.case.nodes:
            words.append(f"{told(room)} free on node {self.case.event.node}")
        elif room:
            words.append(f"another node with {told(room)}")
        return ", and ".join(word for word in words if word)
