"""The search for remedies for an ask, from a state and without a feed.

It tries the remedies of all kinds, an estimate with which the ask delays no reservation, and at last
remedies of several parts, for asks that have more than one obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias, final

import attrs

from muster.explain._remedies.case import (
    AT_ONCE,
    Case,
    NumberRange,
    Remedy,
    RemedyKind,
    Starts,
    alone,
    smallest,
)
from muster.explain._remedies.gangs import RemedyPart, gang_parts, gang_remedies
from muster.explain._remedies.limits import (
    ApplicationLimits,
    QuotaLimits,
    RaisedLimits,
    quota_remedies,
    user_limit_remedies,
)
from muster.explain._remedies.nodes import (
    NewNode,
    count_of,
    more_room,
    new_nodes,
    node_remedies,
    place_remedies,
    room_text,
)
from muster.explain._remedies.orders import ask_remedies, order_remedies
from muster.explain._remedies.trials import QueueChange, Trials, configure, evicted_in, node_of
from muster.feeds._kinds import EventFields
from muster.feeds._operations import write
from muster.figures.text import DAY, HOUR, MINUTE, SECOND
from muster.replay import event_of
from muster_core.config.model import SortPolicy
from muster_core.coordinator.plain_scheduler import PlainScheduler, forecast
from muster_core.events import AddAsk
from muster_core.nodes.node import Node
from muster_core.reasons import UNKNOWN_START, Code, Explanation
from muster_core.view.reasons.shortfalls import seconds

_TRIED: Final = 10
"""How many starts of reservations are tried at most."""

_ANY_US: Final = HOUR
"""The estimate in the events if any one will do, in microseconds."""

_UNITS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))


# BACKFILL-25
def estimate_remedies(case: Case) -> Iterator[Remedy]:
    """Try estimates with which an ask that is held back ends by the starts of reservations."""
    if all(reason.code is not Code.HELD_BACK for reason in case.explanation.reasons):
        return
    if case.trials.bind(_events(case, case.event.estimate_us)):
        return  # Then the estimate is not the cause.
    spans = _spans(case)
    for span_us in spans[:_TRIED] or [_ANY_US]:
        text = f"an estimate of {_duration_text(span_us)} or less" if spans else "an estimate"
        text = (
            f"{text}, if its work takes no longer: the ask is withdrawn and submitted again, and "
            "counts as created then"
        )
        remedy = case.remedy(RemedyKind.ESTIMATE, text, _events(case, span_us))
        if remedy is not None:
            yield remedy
            return


def _events(case: Case, estimate_us: int | None) -> list[EventFields]:
    anew = attrs.evolve(case.event, estimate_us=estimate_us)
    removal: EventFields = {"op": "remove_ask", "app": anew.app, "ask": anew.ask}
    return [removal, write(anew)]


def _spans(case: Case) -> list[int]:
    """Return how long it is to each known start of a reservation of its scope, the longest first."""
    path = {queue.config.path for queue in case.path}
    found = {
        one.start_us - case.at_us
        for one in case.machine.view.reservations().values()
        if one.scope in path and one.start_us is not None and one.start_us > case.at_us
    }
    return sorted((_rounded(span_us) for span_us in found), reverse=True)


def _rounded(span_us: int) -> int:
    """Return a time in whole seconds if it is a minute or more, and not longer."""
    return span_us - span_us % SECOND if span_us >= MINUTE else span_us


def _duration_text(span_us: int) -> str:
    """Return the exact text of a time, such as ``1 h 30 min``."""
    parts: list[str] = []
    for unit_us, name in _UNITS:
        whole, span_us = divmod(span_us, unit_us)
        if whole:
            parts.append(f"{whole:,} {name}")
    if span_us or not parts:
        parts.append(seconds(span_us))
    return " ".join(parts)


_MOST_REPORTED: Final = 2
"""How many combined remedies are reported."""


def combined_remedies(case: Case) -> Iterator[Remedy]:
    """Try changes that are not about room, each with all the room that the ask then needs."""
    found: list[RemedyPart] = []
    for part in _parts(case):
        if any(_has_all_of(part, less) for less in found):
            continue  # A part of this change is enough.
        remedy = _with_room(case, part)
        if remedy is not None:
            yield remedy
            found.append(part)
            if len(found) == _MOST_REPORTED:
                return


def _has_all_of(part: RemedyPart, less: RemedyPart) -> bool:
    events = all(event in part.events for event in less.events)
    return events and all(part.changes.get(path) == one for path, one in less.changes.items())


def _parts(case: Case) -> Iterator[RemedyPart]:
    yield RemedyPart()
    gangs = list(gang_parts(case))
    yield from gangs
    orders = list(_order_changes(case))
    yield from orders
    for order in orders:
        for part in gangs:
            text = f"{part.text}, and {order.text}"
            yield attrs.evolve(part, text=text, changes=order.changes)


def _order_changes(case: Case) -> Iterator[RemedyPart]:
    """Yield changes of leaf properties that hold asks back: each alone, then all together."""
    leaf = case.path[0].config
    properties: dict[str, str] = {}
    if leaf.settings.blocking:
        properties["application.sort.blocking"] = "disabled"
    if leaf.settings.sort_policy is SortPolicy.STATE_AWARE:
        properties["application.sort.policy"] = SortPolicy.FIFO.value
    choices = [{name: value} for name, value in properties.items()]
    if len(choices) > 1:
        choices.append(properties)
    for chosen in choices:
        words = ", ".join(f"{name}: {value}" for name, value in chosen.items())
        changes = {leaf.path: QueueChange(properties=chosen)}
        yield RemedyPart(f"{words} for {leaf.path}", changes=changes)


def _with_room(case: Case, part: RemedyPart) -> Remedy | None:
    everything = {name: amount + part.more.get(name, 0) for name, amount in case.pending.items()}
    size = {name: amount + part.more.get(name, 0) for name, amount in case.combined.items()}
    while True:
        bounds = (
            ApplicationLimits.above(case),
            QuotaLimits.for_room(case, size),
            RaisedLimits.for_room(case, size),
        )
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

    def knobs(self) -> list[NumberRange]:
        wanted, steps = self.case.event.wanted, self.case.steps
        return [
            NumberRange(self.size[name], min(wanted[name], self.size[name]), steps.get(name, 1))
            for name in self.labels()
        ]

    def labels(self) -> list[str]:
        return sorted(self.size)

    def _added(self, values: Sequence[int]) -> dict[str, int]:
        room = zip(self.labels(), values, strict=True)
        return {name: amount for name, amount in room if amount}

    def events(self, values: Sequence[int]) -> list[EventFields]:
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
        new: Their kind.
    """

    case: Case
    new: NewNode

    def knobs(self) -> list[NumberRange]:
        # OUTLOOK-34
        if self.case.real is None:
            return [NumberRange(1, 1)]
        return [count_of(self.case, self.new)]

    def labels(self) -> list[str]:
        return ["nodes"]

    def events(self, values: Sequence[int]) -> list[EventFields]:
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
        bounds: The bounds to raise in its queues: ``maxapplications``, ``max``, and the limits of
            its user and its group.
        room: The room on nodes.
    """

    case: Case
    part: RemedyPart
    bounds: Sequence[ApplicationLimits | QuotaLimits | RaisedLimits]
    room: _RoomOnNode | _RoomOnNewNodes

    def remedy(self) -> Remedy | None:
        knobs = [knob for one in self.bounds for knob in one.knobs]
        labels = [label for one in self.bounds for label in one.labels()]
        knobs += self.room.knobs()
        found = smallest(lambda values: self.case.trials.bind(self._events(values)), knobs)
        labels += self.room.labels()
        remedies = self.case.found(RemedyKind.COMBINED, labels, found, self._text, self._events)
        return next(remedies, None)

    def _split(self, values: Sequence[int]) -> tuple[Iterator[_Bound], Sequence[int]]:
        """Return each bound with its values, and the values of the room."""
        begin = 0
        found: list[_Bound] = []
        for one in self.bounds:
            found.append((one, values[begin : begin + len(one.knobs)]))
            begin += len(one.knobs)
        return iter(found), values[begin:]

    def _events(self, values: tuple[int, ...]) -> list[EventFields]:
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


_Bound: TypeAlias = "tuple[ApplicationLimits | QuotaLimits | RaisedLimits, Sequence[int]]"

_MOST_WORK: Final = 10_000
"""How much a copy of the state does to foretell a start, as for a forecast."""


# COMMAND-4
@final
class RemedySearch:
    """Tries all kinds of remedies; iterating over it yields those that work, as they are found.

    Args:
        scheduler: The scheduler, between two batches; it does not change.
        event: The event that adds only the ask, under its own name.
        explanation: Why the ask is not running.
        at_us: The instant, in microseconds.
    """

    def __init__(
        self, scheduler: PlainScheduler, event: AddAsk, explanation: Explanation, at_us: int
    ) -> None:
        # TIME-10
        if event.start_by_us is not None and event.start_by_us < at_us:
            event = attrs.evolve(event, start_by_us=None)
        self._trials = Trials(scheduler, at_us, event.app, event.ask)
        self._case = Case(scheduler, self._trials, event, explanation, at_us)
        self._alone: Case | None = None

    @property
    def made(self) -> int:
        """How many trials were made so far."""
        return self._trials.made + (0 if self._alone is None else self._alone.trials.made)

    @property
    def exhausted(self) -> bool:
        """Whether no more trials are allowed, because the state is large."""
        others = self._alone
        return self._trials.exhausted or (others is not None and others.trials.exhausted)

    # OUTLOOK-30, OUTLOOK-31
    def __iter__(self) -> Iterator[Remedy]:
        """Search, and yield the remedies: first those without which the ask never starts."""
        case = self._case
        self._alone = alone(case)
        if self._alone is None:
            yield from _changes(case, chain(estimate_remedies(case), order_remedies(case)))
            yield from ask_remedies(case)
            return
        found: list[Remedy] = []
        for remedy in _changes(self._alone):
            whole = self._in_full(remedy)
            if whole is not None:
                found.append(whole)
                yield whole
        # Nothing else than these changes lets it start, so no other one does so at once.
        if not found or any(remedy.starts != AT_ONCE for remedy in found):
            texts = {remedy.text for remedy in found}
            yield from (one for one in _changes(case) if one.text not in texts)

    # OUTLOOK-32
    def _in_full(self, remedy: Remedy) -> Remedy | None:
        """Return a remedy that helps the ask alone with its start beside all others.

        Returns:
            None if the change is refused.
        """
        case, (_, *events) = self._case, remedy.events
        app, ask = case.event.app, case.event.ask
        after = self._trials.after([dict(event) for event in events])
        if after is None:
            unknown = attrs.evolve(remedy, node=None, starts=UNKNOWN_START, evicted=())
            return unknown if self._trials.exhausted else None
        node = node_of(after, app, ask)
        if node is not None:
            return attrs.evolve(remedy, node=node, evicted=evicted_in(after))
        starts: Starts = UNKNOWN_START
        made = forecast(after.facts(), app, ask, case.at_us, most_work=_MOST_WORK)
        if made is not None and made.starts_at_us is not None:
            starts = made.starts_at_us
        return attrs.evolve(remedy, node=None, starts=starts, evicted=())


def _changes(case: Case, first: Iterable[Remedy] = ()) -> Iterator[Remedy]:
    """Try changes of limits, gangs and nodes; several at once if none is enough alone.

    Args:
        case: The ask.
        first: The remedies to try before.
    """
    found = False
    for remedy in chain(
        first,
        quota_remedies(case),
        user_limit_remedies(case),
        gang_remedies(case),
        place_remedies(case),
        node_remedies(case),
    ):
        # With few enough members a gang starts nearly anywhere: that does not say what it lacks.
        found = found or case.real is None or remedy.kind is not RemedyKind.MIN_MEMBER
        yield remedy
    if not found:
        yield from combined_remedies(case)


def event_like(scheduler: PlainScheduler, app: str, ask: str) -> AddAsk | None:
    """Return an event that adds an ask like one that is there, or None if there is none."""
    seen = scheduler.machine.app(app)
    found = None if seen is None else seen.find(ask)
    classes = scheduler.machine.registry.classes.facts()
    return None if found is None else event_of(app, found, classes)
