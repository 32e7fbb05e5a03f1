"""Trials: events that a user may add are submitted to copies of a state; is an ask bound there?

The core is pure, so its state can be copied. The events are parsed like those of a feed: a user
who adds them to the feed gets the same result.

A changed setting needs an event with the configuration in force. It contains the current settings of
the queues, so that nothing else changes. A dynamic queue, or one that an object created, is left out
unless it changes, and a draining queue keeps draining. The ``max`` of a dynamic queue may be above
that of its parent. Such a ``max`` has no effect and no configuration may have it, so it is left out.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

import attrs

from muster.feeds import RawEvent, Refused, parse
from muster.feeds._configuration import write_configuration
from muster.feeds._kinds import EventFields, write_duration
from muster.feeds._operations import write
from muster.replay._driver import submit_item_directly
from muster_core.admission.queue_tree import QueueEntry
from muster_core.config.model import LimitEntry, Limits, QueueConfig
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import EVICTIONS, MICROSECONDS, Kind, Reason
from muster_core.events import AddGang, Apply, Manifest
from muster_core.gangs import GangDefinition, GangFields
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace


def span(length_us: int) -> str:
    """Return a duration for a property, with the largest unit that is exact."""
    for unit, name in ((1_000_000, "s"), (1_000, "ms")):
        if length_us % unit == 0:
            return f"{length_us // unit}{name}"
    return f"{length_us}us"


def settle(at_us: int) -> EventFields:
    """Return the event that closes the batch of an instant; later events form the next one."""
    return {"op": "settle", "at": write_duration(at_us)}


def add_gang(gang: str, definition: GangDefinition) -> EventFields:
    """Return the event that defines a gang."""
    says = _fields_of(definition)
    if says.total == says.min_member:
        says = attrs.evolve(says, total=None)
    return write(AddGang(gang, says))


def redefined(gang: str, definition: GangDefinition) -> list[EventFields]:
    """Return the events that change the definition of a gang, if possible without its state."""
    # TOPOLOGY-1
    if definition.topology is not None:  # No PodGroup can say it.
        return [{"op": "remove_gang", "gang": gang}, add_gang(gang, definition)]
    says = _fields_of(definition)
    if says.wait_us is not None:  # A PodGroup has whole seconds.
        says = attrs.evolve(says, wait_us=-(-says.wait_us // MICROSECONDS) * MICROSECONDS)
    return [write(Apply((Manifest(AddGang(gang, says)),)))]


def _fields_of(definition: GangDefinition) -> GangFields:
    return GangFields(
        definition.min_member,
        definition.total,
        definition.mode,
        definition.wait_us,
        definition.groups or None,
        definition.topology,
    )


@final
@attrs.frozen
class QueueChange:
    """The changed settings of one queue.

    Attributes:
        guaranteed: The new ``guaranteed`` of some types, in base units.
        max: The new ``max`` of some types, in base units.
        max_applications: The new ``maxapplications``, or None.
        properties: The new values of some properties.
        limits: The new limits of users and groups, or None.
    """

    guaranteed: Mapping[str, int] = attrs.field(factory=dict[str, int])
    max: Mapping[str, int] = attrs.field(factory=dict[str, int])
    max_applications: int | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict[str, str])
    limits: tuple[LimitEntry, ...] | None = None

    def and_also(self, other: QueueChange) -> QueueChange:
        """Return this change together with one of other settings of the same queue."""
        applications, limits = other.max_applications, other.limits
        return QueueChange(
            {**self.guaranteed, **other.guaranteed},
            {**self.max, **other.max},
            self.max_applications if applications is None else applications,
            {**self.properties, **other.properties},
            self.limits if limits is None else limits,
        )


_NOTHING: Final = QueueChange()


def configure(
    machine: CoordinatorMachine,
    changes: Mapping[str, QueueChange],
    *,
    preemption: bool | None = None,
) -> EventFields:
    """Return the event that changes some settings.

    Args:
        machine: The machine with the configuration in force and the queues.
        changes: The changed settings, by the full path of the queue.
        preemption: Whether the partition preempts; None for no change.
    """
    config = machine.registry.configuration
    root = _queue(machine.registry.queues["root"], changes, frozenset(_paths(changes)), {})
    enabled = config.preemption_enabled if preemption is None else preemption
    changed = attrs.evolve(config, root=root, preemption_enabled=enabled)
    return {"op": "configure", "config": write_configuration(changed)}


def _paths(changes: Mapping[str, QueueChange]) -> Iterator[str]:
    """Yield the paths of the queues to write: those that change, and their parents."""
    for path in changes:
        names = path.split(".")
        yield from (".".join(names[:length]) for length in range(1, len(names) + 1))


def _queue(
    entry: QueueEntry,
    changes: Mapping[str, QueueChange],
    needed: frozenset[str],
    above: Mapping[str, int],
) -> QueueConfig:
    config = entry.config
    change = changes.get(config.path, _NOTHING)
    most = dict(config.max.amounts) | dict(change.max)
    if entry.dynamic:
        most = {name: amount for name, amount in most.items() if amount <= above.get(name, amount)}
    children = tuple(
        _queue(child, changes, needed, {**above, **most})
        for child in entry.children.values()
        if child.config.path in needed or not (child.dynamic or child.applied or child.draining)
    )
    applications = change.max_applications
    return attrs.evolve(
        config,
        guaranteed=Resources(dict(config.guaranteed) | dict(change.guaranteed)),
        max=Limits.of(most),
        max_applications=config.max_applications if applications is None else applications,
        own_properties=tuple((dict(config.own_properties) | dict(change.properties)).items()),
        limits=config.limits if change.limits is None else change.limits,
        children=children,
    )


MOST: Final = 1_000
"""The most trials, however small the state is."""

_LEAST: Final = 30
"""How many trials are allowed, however large the state is."""

_BYTES: Final = 500_000_000
"""How many bytes all trials may copy, if that is more than :data:`_LEAST` trials."""

_TO_OTHERS: Final = EVICTIONS | {Reason.DEADLOCK}


# COMMAND-4
@final
class Trials:
    """Tries events on copies of a state.

    Args:
        scheduler: The scheduler, between two batches; it does not change.
        at_us: The instant of the trials, in microseconds.
        app: The application of the ask that is to be bound.
        ask: Its name.
        most: The most trials; fewer if the state is large.
    """

    def __init__(
        self, scheduler: PlainScheduler, at_us: int, app: str, ask: str, most: int = MOST
    ) -> None:
        self._state = pickle.dumps(scheduler, pickle.HIGHEST_PROTOCOL)
        self._at_us = at_us
        self._app, self._ask = app, ask
        self._remaining = min(most, max(_LEAST, _BYTES // len(self._state)))
        #: How many trials were made.
        self.made = 0

    @property
    def exhausted(self) -> bool:
        """Whether no more trials are allowed, because they would take too long."""
        return self.made >= self._remaining

    def copy(self) -> PlainScheduler:
        """Return a new copy of the state."""
        copied = pickle.loads(self._state)
        assert isinstance(copied, PlainScheduler)
        return copied

    def put_first(self, events: Sequence[EventFields]) -> tuple[EventFields, ...]:
        """Return events as a user adds them to the feed: in a batch of their own."""
        return (settle(self._at_us), *events)

    def after(self, events: Sequence[EventFields]) -> PlainScheduler | None:
        """Submit events to a copy.

        Args:
            events: The events, as written in a feed.

        Returns:
            The copy after their batch; None if one of them is refused, or no more trials are
            allowed.
        """
        if self.exhausted:
            return None
        self.made += 1
        scheduler = self.copy()
        for item in parse(
            RawEvent(index, None, event) for index, event in enumerate(self.put_first(events))
        ):
            if isinstance(item.content, Refused):
                return None
            submit_item_directly(scheduler, item)
        scheduler.settle(max(self._at_us, scheduler.machine.now_us))
        kinds = {announced.decision.kind for announced in scheduler.announced}
        return None if Kind.REJECTED in kinds else scheduler

    def node_after(self, events: Sequence[EventFields]) -> str | None:
        """Return the node on which the ask is bound at once after these events, or None."""
        scheduler = self.after(events)
        return None if scheduler is None else node_of(scheduler, self._app, self._ask)

    def bind(self, events: Sequence[EventFields]) -> bool:
        """Return whether the ask is bound at once after these events."""
        return self.node_after(events) is not None


def evicted_in(scheduler: PlainScheduler) -> tuple[str, ...]:
    """Return the asks that lost their nodes to other asks in a trial, as ``app/ask``."""
    lost = (announced.decision for announced in scheduler.announced)
    return tuple(f"{one.app}/{one.ask}" for one in lost if one.reason in _TO_OTHERS)


def node_of(scheduler: PlainScheduler, app: str, ask: str) -> str | None:
    """Return the node on which an ask is bound, or None."""
    found = scheduler.app(app)
    for one in () if found is None else found.asks:
        if one.name == ask and one.place is AskPlace.BOUND:
            return one.node
    return None
