"""Remedies of several parts, for asks that have more than one obstacle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

import attrs

from muster.explain._remedies.case import Case
from muster.explain._remedies.gangs import gang_parts
from muster.explain._remedies.nodes import NewNode, count_of, more_room, new_nodes, room_text
from muster.explain._remedies.parts import Part
from muster.explain._remedies.quotas import Counts, Limits
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._remedies.search import Knob, smallest
from muster.explain._remedies.settings import QueueChange, configure
from muster.explain._remedies.user_limits import Raise
from muster.explain._writing import Written
from muster_core.config.model import SortPolicy
from muster_core.nodes.node import Node

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
    while True:
        bounds = (Counts.above(case), Limits.for_room(case, size), Raise.for_room(case, size))
        remedy = _Combined(case, part, bounds, _room_of(case, size)).remedy()
        if remedy is not None or all(size[name] >= everything[name] for name in size):
            return remedy
        size = {name: min(2 * amount, everything[name]) for name, amount in size.items()}


@final
@attrs.frozen
class _RoomOnNode:
    """Room on the node that the ask requires.

    Attributes:
        case: The ask.
        node: The node.
        size: The resources to make room for.
    """

    case: Case
    node: Node
    size: Mapping[str, int]

    def knobs(self) -> list[Knob]:
        wanted, steps = self.case.event.wanted, self.case.steps
        return [
            Knob(self.size[name], min(wanted[name], self.size[name]), steps.get(name, 1))
            for name in self.labels()
        ]

    def labels(self) -> list[str]:
        return sorted(self.size)

    def _added(self, values: Sequence[int]) -> dict[str, int]:
        room = zip(self.labels(), values, strict=True)
        return {name: amount for name, amount in room if amount}

    def events(self, values: Sequence[int]) -> list[Written]:
        room = self._added(values)
        return [more_room(self.case, self.node, room)] if room else []

    def text(self, values: Sequence[int]) -> str:
        room = self._added(values)
        return room_text(self.case, self.node, room) if room else ""


@final
@attrs.frozen
class _RoomOnNewNodes:
    """Room on new nodes.

    Attributes:
        case: The ask.
        new: What they have.
    """

    case: Case
    new: NewNode

    def knobs(self) -> list[Knob]:
        # OUTLOOK-34
        if self.case.real is None:
            return [Knob(1, 1)]
        return [count_of(self.case, self.new)]

    def labels(self) -> list[str]:
        return ["nodes"]

    def events(self, values: Sequence[int]) -> list[Written]:
        return self.new.events(self.case, values[0])

    def text(self, values: Sequence[int]) -> str:
        return self.new.text(self.case, values[0]) if values[0] else ""


def _room_of(case: Case, size: Mapping[str, int]) -> _RoomOnNode | _RoomOnNewNodes:
    node = case.nodes.get(case.event.node or "")
    if node is None:
        return _RoomOnNewNodes(case, new_nodes(case)[0])
    return _RoomOnNode(case, node, size)


@final
@attrs.frozen
class _Combined:
    """Room on nodes and higher bounds for the ask, combined with a part of another kind.

    Attributes:
        case: The ask.
        part: The other part.
        bounds: What may be raised in its queues: ``maxapplications``, ``max``, and the limits of its
            user and its group.
        room: The room on nodes.
    """

    case: Case
    part: Part
    bounds: Sequence[Counts | Limits | Raise]
    room: _RoomOnNode | _RoomOnNewNodes

    def remedy(self) -> Remedy | None:
        knobs = [knob for one in self.bounds for knob in one.knobs]
        labels = [label for one in self.bounds for label in one.labels()]
        knobs += self.room.knobs()
        found = smallest(lambda values: self.case.trials.bind(self._events(values)), knobs)
        labels += self.room.labels()
        remedies = self.case.found(_COMBINED, labels, found, self._text, self._events)
        return next(remedies, None)

    def _split(self, values: Sequence[int]) -> tuple[Iterator[_Bound], Sequence[int]]:
        """Return each bound with its values, and the values of the room."""
        begin = 0
        found: list[_Bound] = []
        for one in self.bounds:
            found.append((one, values[begin : begin + len(one.knobs)]))
            begin += len(one.knobs)
        return iter(found), values[begin:]

    def _events(self, values: tuple[int, ...]) -> list[Written]:
        bounds, room = self._split(values)
        changes = dict(self.part.changes)
        for one, some in bounds:
            for path, change in one.changes(some).items():
                changes[path] = changes.get(path, QueueChange()).and_also(change)
        events = list(self.part.events)
        if changes:
            events.append(configure(self.case.machine, changes))
        return [*events, *self.room.events(room)]

    def _text(self, values: tuple[int, ...]) -> str:
        bounds, room = self._split(values)
        words = [self.part.text, *(one.text(some) for one, some in bounds), self.room.text(room)]
        return ", and ".join(word for word in words if word)


_Bound: TypeAlias = "tuple[Counts | Limits | Raise, Sequence[int]]"
