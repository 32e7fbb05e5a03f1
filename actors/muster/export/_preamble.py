"""Events that lead to a state, for a feed that begins with it.

What is bound is bound again where it was: as a Pod that names its node, or, where a Pod cannot say
what the ask has, by ``add_ask`` while its node alone accepts asks. Meanwhile no queue has limits. Then
the configuration and the nodes become what they were, and what is pending is added. That this leads
to the state is not believed but tried, and every difference is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar, final

import attrs

from muster.feeds import Expect, RawEvent, Refused, Settle, parse, write_event
from muster.feeds._configuration import write_configuration
from muster.feeds._kinds import EventFields
from muster.replay import event_of
from muster_core.config.model import Configuration, QueueConfig
from muster_core.config.properties import QUEUE_CREATE
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import MICROSECONDS, Kind
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    Configure,
    Event,
    FailBind,
    Manifest,
    PodObject,
    SetUsage,
    UpdateNode,
)
from muster_core.facts import AppFacts, Facts, NodeFacts, QueueFacts
from muster_core.gangs import NO_FIELDS, GangFields
from muster_core.owners.asks import Allocation, Ask
from muster_core.resources import Resources, UnitSeconds
from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot, Snapshot
from muster_core.values.application_states import SKIP_STARTING_TAG
from muster_core.values.devices import DeviceStock, without_devices

_ENABLED = "enabled"


def wide_configuration(facts: Facts) -> EventFields:
    """Return a configuration with all queues of a state that no application makes.

    Queues that drain are in it, and drain when the configuration in force follows.

    Args:
        facts: The state.
    """
    made = {*facts.coordinator.admission.dynamic}
    below: dict[int | None, list[QueueFacts]] = {}
    for queue in facts.queues:
        if queue.key not in made:
            below.setdefault(queue.parent, []).append(queue)
    (root,) = below[None]
    config = Configuration(
        facts.configuration.partition, _unlimited_queue(root, below), preemption_enabled=False
    )
    return write_configuration(config)


def _unlimited_queue(queue: QueueFacts, below: dict[int | None, list[QueueFacts]]) -> QueueConfig:
    config, is_root = queue.config, queue.parent is None
    own = {name: text for name, text in config.own_properties if name != QUEUE_CREATE.name}
    if is_root:
        own[QUEUE_CREATE.name] = _ENABLED
    return QueueConfig(
        config.name,
        config.path,
        config.is_parent,
        own_properties=tuple(own.items()),
        children=tuple(_unlimited_queue(child, below) for child in below.get(queue.key, ())),
    )


T = TypeVar("T")

_MOST_NAMES: Final = 3
"""How many of one kind are named."""


def differences(wanted: Snapshot, found: Snapshot) -> Iterator[str]:
    """Yield the differences, a sentence for each kind."""
    yield from _compared("nodes", wanted.nodes, found.nodes, lambda one: one)
    yield from _compared("queues", wanted.queues, found.queues, _compared_queue)
    yield from _compared("applications", wanted.apps, found.apps, _compared_app)
    yield from _compared("asks", _asks(wanted), _asks(found), lambda one: one)
    yield from _compared("gangs", wanted.gangs, found.gangs, _gang)
    if wanted.limits != found.limits:
        yield "what users and groups have of their limits differs"


def _compared(
    what: str, wanted: Mapping[str, T], found: Mapping[str, T], look: Callable[[T], object]
) -> Iterator[str]:
    names = [
        name
        for name in {**wanted, **found}
        if name not in wanted or name not in found or look(wanted[name]) != look(found[name])
    ]
    if names:
        more = f", … {len(names):,} in all" if len(names) > _MOST_NAMES else ""
        yield f"{what} that are not as they were: {', '.join(names[:_MOST_NAMES])}{more}"


def _compared_queue(queue: QueueSnapshot) -> object:
    return queue.draining, queue.allocated, queue.pending


def _compared_app(app: AppSnapshot) -> object:
    return app.queue, app.state, app.user, app.group


def _asks(snapshot: Snapshot) -> Mapping[str, object]:
    return {
        f"{app.name}/{ask.name}": (
            *(ask.place, ask.node, ask.priority, ask.aged, ask.resources, ask.gang),
            ask.devices,
        )
        for app in snapshot.apps.values()
        for ask in app.asks
    }


def _gang(gang: GangSnapshot) -> object:
    return gang.definition, gang.satisfied, gang.timed_out


_SETTLE: Final = Settle()
_MOST: Final = 5
"""The most refusals that are reported."""

_SHORTER: Final = "asks run only as long as was left, also if they run again"
_ALONE: Final = "bound asks with devices are in no gang"
_ENDLESS: Final = "bound asks lose their `run_for`"
_TAMER: Final = "asks may preempt, and no priority class says so"

_Held = tuple[str, Allocation]
_Step = Event | Settle


@final
@attrs.frozen
class Preamble:
    """The beginning of a feed.

    Attributes:
        at_us: The instant of all its events, in microseconds.
        events: Its events.
        scheduler: The scheduler after these events.
        notes: The differences, in sentences for a person.
    """

    at_us: int
    events: tuple[EventFields, ...]
    scheduler: PlainScheduler
    notes: tuple[str, ...]


# COMMAND-14
def preamble_of(facts: Facts) -> Preamble:
    """Return events that lead to a state.

    Args:
        facts: The state.

    Raises:
        FeedError: If an event cannot be written.
    """
    writing = _State(facts)
    written: list[EventFields] = [{"op": "configure", "config": wide_configuration(facts)}]
    written += [_written(step) for step in writing.steps()]
    at_us = facts.coordinator.now_us
    scheduler = PlainScheduler()
    notes = [*_let_in(scheduler, written, at_us)]
    notes += differences(PlainScheduler(facts=facts).snapshot(), scheduler.snapshot())
    return Preamble(at_us, tuple(written), scheduler, (*notes, *writing.unsaid()))


def _written(step: _Step) -> EventFields:
    return {"op": "settle"} if isinstance(step, Settle) else write_event(step)


def _let_in(scheduler: PlainScheduler, written: Iterable[EventFields], at_us: int) -> Iterator[str]:
    """Let in the preamble; yield its refusals."""
    for item in parse(RawEvent(index, None, one) for index, one in enumerate(written)):
        match item.content:
            case Settle():
                scheduler.settle(at_us)
            case Refused(message):
                yield f"event {item.index} cannot be read again: {message}"
            case Expect():
                pass  # there is none in a preamble
            case event:
                scheduler.submit(event, at_us, item.index)
    scheduler.settle(at_us)
    refused = [one.decision for one in scheduler.announced if one.decision.kind is Kind.REJECTED]
    for decision in refused[:_MOST]:
        yield f"event {decision.index} is refused: {decision.message}"
    if len(refused) > _MOST:
        yield f"… {len(refused):,} events are refused in all"


@final
class _State:
    """The events for one state."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._own = facts.coordinator
        self._now_us = self._own.now_us
        self._nodes = {node.name: node for node in self._own.view.nodes}
        self._ends_us = {
            (app, ask): at_us for at_us, _, app, ask in self._own.view.timers.completions
        }
        self._gang_fields = {
            (member.key, member.ask): says
            for gang in self._own.admission.gangs
            for member, says in gang.members
        }
        self._few = set(self._few_bound())
        #: How many asks are not quite as they were, by what is missing.
        self._missing: Counter[str] = Counter()

    def _few_bound(self) -> Iterator[str]:
        """Yield gangs bound below ``min_member``."""
        for gang in self._facts.gangs:
            bound = sum(place == "bound" for _, place in gang.members)
            if gang.definition is not None and bound < gang.definition.min_member:
                yield gang.name

    def steps(self) -> Iterator[_Step]:
        """Yield the events, with the ends of batches."""
        own = self._own
        for one in own.admission.classes:
            yield AddPriorityClass(one.name, one.value, one.preempts)
        used = self._used()
        for node in own.view.nodes:
            room = {
                name: max(used.get(node.name, {}).get(name, 0), dict(node.capacity).get(name, 0))
                for name in {**dict(node.capacity), **used.get(node.name, {})}
            }
            yield AddNode(
                node.name,
                Resources(without_devices(room)),
                dict(node.attributes),
                schedulable=False,
                devices=_stocks(node),
                taints=node.taints,
            )
        for app in self._facts.apps:
            yield _app(app)
        gangs = {gang.key: gang.name for gang in self._facts.gangs}
        for gang in own.admission.gangs:
            if gang.given is not None:
                yield AddGang(gangs[gang.key], gang.given)
        yield _SETTLE
        yield from self._holding()
        yield Configure(own.admission.configuration)
        yield from self._usage()
        for node in own.view.nodes:
            yield from self._restored(node)
        yield _SETTLE
        yield from self._pending()

    def _usage(self) -> Iterator[SetUsage]:
        """Yield the recent usage, with that of the present tick so far."""
        paths = {queue.key: queue.config.path for queue in self._facts.queues}
        for one in self._own.view.usage:
            amounts = Counter(dict(one.used))
            amounts.update(dict(one.recent))
            seconds = {name: amount // MICROSECONDS for name, amount in amounts.items()}
            yield SetUsage(paths[one.queue], UnitSeconds(seconds), one.user)

    def _used(self) -> dict[str, dict[str, int]]:
        used: dict[str, dict[str, int]] = {}
        for _, held in (*self._held("bound"), *self._held("waiting")):
            amounts = used.setdefault(held.node, {})
            for name, amount in held.ask.resources.items():
                amounts[name] = amounts.get(name, 0) + amount
        return used

    def _held(self, place: str) -> list[_Held]:
        """Return the allocations in one place, in the order in which they were made."""
        found: list[_Held] = [
            (app.identity.name, held)
            for app in self._facts.apps
            for held in (app.bound if place == "bound" else app.waiting)
        ]
        return sorted(found, key=lambda one: one[1].number)

    def _restored(self, node: NodeFacts) -> Iterator[Event]:
        capacity = Resources(without_devices(dict(node.capacity)))
        reserved = Resources(dict(node.reserved)) if node.reserved else None
        yield UpdateNode(node.name, capacity, schedulable=node.schedulable, reserved=reserved)

    def _holding(self) -> Iterator[_Step]:
        """Yield the asks with nodes: first the bound ones, then the waiting ones."""
        keys = {app.identity.name: app.identity.key for app in self._facts.apps}
        later: list[tuple[str, AddAsk]] = []
        for app, held in self._held("bound"):
            event = self._bound(keys[app], app, held)
            if self._is_a_pod(event, held):
                yield _pod(event, held.node)
            else:
                later.append((held.node, event))
        yield _SETTLE
        for app, held in self._held("waiting"):
            later.append((held.node, self._event(keys[app], app, held.ask)))
        before: str | None = None
        for node, event in later:
            if node != before:
                yield _SETTLE
                if before is not None:
                    yield UpdateNode(before, schedulable=False)
                yield UpdateNode(node, schedulable=True)
                before = node
            yield event
        yield _SETTLE

    def _bound(self, key: int, app: str, held: Allocation) -> AddAsk:
        """Return the event for a bound ask, which runs only as long as is left."""
        event = self._event(key, app, held.ask)
        if event.devices and event.gang in self._few:
            self._missing[_ALONE] += 1
            event = attrs.evolve(event, gang=None, says=NO_FIELDS)
        end_us = self._ends_us.get((key, held.ask.name))
        limit_us = held.limit_us
        if limit_us is None and (end_us is None or event.run_for_us is None):
            return event
        self._missing[_SHORTER] += 1
        if end_us is not None and event.run_for_us is not None:
            event = attrs.evolve(event, run_for_us=max(end_us - self._now_us, 1))
        if limit_us is not None:
            left_us = max(held.bound_us + limit_us - self._now_us, 1)
            event = attrs.evolve(event, run_limit_us=left_us)
        return event

    def _is_a_pod(self, event: AddAsk, held: Allocation) -> bool:
        if event.devices:  # No Pod has devices.
            return False
        if event.run_for_us is None:
            return True
        node = self._nodes[held.node]
        fits = held.ask.shape.matches(node.name, dict(node.attributes), _stocks(node), node.taints)
        if fits and event.gang not in self._few:
            return False
        self._missing[_ENDLESS] += 1
        return True

    def _event(self, key: int, app: str, ask: Ask) -> AddAsk:
        event = event_of(app, ask, self._own.admission.classes)
        if ask.preempts and event.priority_class is None:
            self._missing[_TAMER] += 1
        says: GangFields = self._gang_fields.get((key, ask.name), NO_FIELDS)
        # TIME-10
        if event.start_by_us is not None and event.start_by_us < self._now_us:
            event = attrs.evolve(event, start_by_us=None)
        return attrs.evolve(event, says=says)

    def _pending(self) -> Iterator[Event]:
        """Yield the asks without a node, in the order in which they came."""
        found = [
            (ask.seq, ask.number, app.identity.key, app.identity.name, ask, is_parked)
            for app in self._facts.apps
            for asks, is_parked in ((app.pending, False), (app.parked, True))
            for ask in asks
        ]
        for _, _, key, app, ask, is_parked in sorted(found, key=lambda one: one[:3]):
            event = self._event(key, app, ask)
            yield attrs.evolve(event, timed_out=True) if is_parked else event
        for one in self._facts.apps:
            for name, times in one.spoilt:
                yield FailBind(one.identity.name, name, times)

    def unsaid(self) -> Iterator[str]:
        """Yield the parts of the state that no event can express."""
        own, apps = self._own, self._facts.apps
        waits = sum(gang.since_us is not None for gang in self._facts.gangs)
        asks = sum(len(app.pending) + len(app.parked) for app in apps)
        lost = sum(len(app.in_a_row) for app in apps)
        for number, what in (
            (asks, "asks that are not bound begin to wait now, and came alone, not by a `count`"),
            (waits, "gangs begin their waits now"),
            (len(own.view.timers.state_ends), "applications begin the time of their state now"),
            *((number, what) for what, number in self._missing.items()),
            (lost, "asks lose the count of their failed binds, and do not back off"),
            (sum(map(len, own.admission.completed)), "names of completed applications are free"),
            (len(own.view.keepers), "node services keep no node"),
            (len(own.view.usage), "usages are rounded down, with what the present tick has had"),
            (len(own.view.history.held) + len(own.view.history.lost), "evictions are forgotten"),
        ):
            if number:
                yield f"{what} ({number:,})"


def _app(app: AppFacts) -> AddApp:
    one = app.identity
    user, groups = one.user
    tags = {SKIP_STARTING_TAG: "true"} if one.skip_starting else {}
    return AddApp(one.name, one.path, user, groups, tags)


def _stocks(node: NodeFacts) -> dict[str, DeviceStock]:
    return {kind: DeviceStock(count, model) for kind, count, model in node.devices}


def _pod(event: AddAsk, node: str) -> Apply:
    """Return a Pod that is bound from the start."""
    ask = attrs.evolve(event, run_for_us=None)
    return Apply((Manifest(PodObject(event.app, event.ask, ask=ask, node=node)),))
