"""Remedies of several parts, for asks that have more than one obstacle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.explain._remedies.case import Case
from muster.explain._remedies.gangs import gang_parts
from muster.explain._remedies.nodes import more_room, room_text
from muster.explain._remedies.parts import Part
from muster.explain._remedies.quotas import Counts, Limits
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Knob, smallest
from muster.explain._remedies.settings import QueueChange, configure
from muster.explain._writing import Written
from muster_core.config.model import SortPolicy

# Looking up a member of an enum takes ten times as long.
_COMBINED: Final = RemedyKind.COMBINED
_FIFO: Final = SortPolicy.FIFO
_STATE_AWARE: Final = SortPolicy.STATE_AWARE

_TOLD: Final = 2
"""How many combined remedies are reported."""


def combined_remedies(case: Case) -> Iterator[Remedy]:
    """Try changes that are not about room, each with all the room that the ask then needs."""
    found: list[Part] = []
    for part in _parts(case):
        if any(_has_all_of(part, less) for less in found):
            continue  # A part of this change is enough.
        remedy = _with_room(case, part)
        if remedy is not None:
            yield remedy
            found.append(part)
            if len(found) == _TOLD:
                return


def _has_all_of(part: Part, less: Part) -> bool:
    events = all(event in part.events for event in less.events)
    return events and all(part.changes.get(path) == one for path, one in less.changes.items())


def _parts(case: Case) -> Iterator[Part]:
    yield Part()
    gangs = list(gang_parts(case))
    yield from gangs
    orders = list(_order_changes(case))
    yield from orders
    for order in orders:
        for part in gangs:
            text = f"{part.text}, and {order.text}"
            yield attrs.evolve(part, text=text, changes=order.changes)


def _order_changes(case: Case) -> Iterator[Part]:
    """Yield changes of leaf properties that hold asks back: each alone, then all together."""
    leaf = case.path[0].config
    properties: dict[str, str] = {}
    if leaf.settings.blocking:
        properties["application.sort.blocking"] = "disabled"
    if leaf.settings.sort_policy is _STATE_AWARE:
        properties["application.sort.policy"] = _FIFO.value
    choices = [{name: value} for name, value in properties.items()]
    if len(choices) > 1:
        choices.append(properties)
    for chosen in choices:
        words = ", ".join(f"{name}: {value}" for name, value in chosen.items())
        changes = {leaf.path: QueueChange(properties=chosen)}
        yield Part(f"{words} for {leaf.path}", changes=changes)


def _with_room(case: Case, part: Part) -> Remedy | None:
    everything = {name: amount + part.more.get(name, 0) for name, amount in case.pending.items()}
    size = {name: amount + part.more.get(name, 0) for name, amount in case.together.items()}
    counts = Counts.above(case)
    while True:
        remedy = _Room(case, part, counts, Limits.for_room(case, size), size).remedy()
        if remedy is not None or all(size[name] >= everything[name] for name in size):
            return remedy
        size = {name: min(2 * amount, everything[name]) for name, amount in size.items()}


@final
@attrs.frozen
class _Room:
    """Room on a node and in the queues of the ask, combined with a part of another kind.

    Attributes:
        case: The ask.
        part: The other part.
        counts: The limits on running applications in its queues.
        limits: The limits of its queues that leave too little room for ``size``.
        size: The resources to make room for.
    """

    case: Case
    part: Part
    counts: Counts
    limits: Limits
    size: Mapping[str, int]

    def remedy(self) -> Remedy | None:
        case, names = self.case, sorted(self.size)
        knobs = [*self.counts.knobs, *self.limits.knobs]
        for name in names:
            guess = min(case.event.wanted[name], self.size[name])
            knobs.append(Knob(self.size[name], guess, case.steps.get(name, 1)))
        found = smallest(lambda values: case.trials.bind(self._events(values)), knobs)
        labels = [*self.counts.labels(), *self.limits.labels(), *names]
        remedies = case.found(_COMBINED, labels, found, self._text, self._events)
        return next(remedies, None)

    def _split(self, values: Sequence[int]) -> tuple[Sequence[int], Sequence[int], dict[str, int]]:
        counts = len(self.counts.paths)
        limits = counts + len(self.limits.names)
        room = dict(zip(sorted(self.size), values[limits:], strict=True))
        added = {name: amount for name, amount in room.items() if amount}
        return values[:counts], values[counts:limits], added

    def _events(self, values: tuple[int, ...]) -> list[Written]:
        count, most, room = self._split(values)
        changes = dict(self.part.changes)
        for path, change in self.counts.changes(count).items():
            now = changes.get(path, QueueChange())
            changes[path] = attrs.evolve(now, max_applications=change.max_applications)
        for path, change in self.limits.changes(most).items():
            changes[path] = attrs.evolve(changes.get(path, QueueChange()), max=change.max)
        events = list(self.part.events)
        if changes:
            events.append(configure(self.case.machine, changes))
        if room:
            events.append(more_room(self.case, room))
        return events

    def _text(self, values: tuple[int, ...]) -> str:
        count, most, room = self._split(values)
        words = [self.part.text, self.counts.text(count), self.limits.text(most)]
        if room:
            words.append(room_text(self.case, room))
        return ", and ".join(word for word in words if word)
