"""The case: the ask and the state that the search for remedies works on.

A :class:`Remedy` is a change that alone lets the ask start. The smallest numbers that work are
searched for, if trying is the only way to know. In a copy of the state without all other asks, one
sees what keeps the ask from starting at all: a change with which it starts there is one with which
it starts when the others have ended, and its amounts are the smallest of that kind, however full the
cluster is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from math import gcd
from typing import Final, Literal, TypeAlias, final

import attrs

from muster.explain._remedies.trials import Trials, evicted_in, node_of
from muster.feeds import Raw
from muster.feeds._kinds import EventFields
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddAsk
from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask, FailedBinds
from muster_core.reasons import Explanation
from muster_core.snapshots import AskPlace, GangSnapshot, Snapshot
from muster_core.structures.amounts import add_to
from muster_core.values.affinity import admits, repelling
from muster_core.view.gangs import ViewGang
from muster_core.view.reasons.shortfalls import amount as amount_text, listed
from muster_core.view.tree.queue import ViewQueue

AT_ONCE: Final = "at once"
"""The start of an ask that is bound in the rounds of the instant of the change."""

Starts: TypeAlias = int | Literal["at once", "unknown"]
"""A start in microseconds since the origin, :data:`AT_ONCE` or
:data:`~muster_core.reasons.UNKNOWN_START`."""


@final
class RemedyKind(StrEnum):
    """The kind of change."""

    PRIORITY = "priority"
    RESUBMIT = "resubmit"
    AGE = "age"
    ESTIMATE = "estimate"
    GUARANTEED = "guaranteed"
    WEIGHT = "weight"
    MAX = "max"
    MAX_APPLICATIONS = "maxapplications"
    LIMIT = "limit"
    PROPERTY = "property"
    PREEMPTION = "preemption"
    DEFINE_GANG = "define_gang"
    MORE_MEMBERS = "more_members"
    MIN_MEMBER = "min_member"
    RENEW_GANG = "renew_gang"
    SCHEDULABLE = "schedulable"
    ATTRIBUTES = "attributes"
    RESERVED = "reserved"
    TOLERATION = "toleration"
    AFFINITY = "affinity"
    CAPACITY = "capacity"
    NODE = "node"
    COMBINED = "combined"
    REMOVE_AHEAD = "remove_ahead"
    RELEASE = "release"


@final
@attrs.frozen
class Remedy:
    """A change that was tried on a copy of the state, and let the ask start.

    Attributes:
        kind: The kind of change.
        text: The change in words.
        node: The node on which the ask was bound; None if it does not start at once.
        events: The events of a feed that make the change, to be added after the last event of
            the instant. The first one closes the batch of the instant.
        smallest: The amounts of the change by name, in base units, if trials have shown that none
            of them can be one less (for an ask that does not start even alone: where all others
            have ended); for ``min_member``, by how much it is lowered. None if the
            change has no amount, or the search stopped early.
        evicted: The asks that the change evicts, as ``app/ask``.
        starts: When the ask starts after the change. If that is not at once, the ask could not start
            without the change, whatever ended; and with it, it starts when others have ended.
    """

    kind: RemedyKind
    text: str
    node: str | None
    events: tuple[Mapping[str, Raw], ...]
    smallest: Mapping[str, int] | None = None
    evicted: tuple[str, ...] = ()
    starts: Starts = AT_ONCE

    # OUTLOOK-33
    @property
    def is_applicable(self) -> bool:
        """Whether events can be sent, and are enough; else a machine must be there, be larger or be left by others first."""
        changes = [event for event in self.events if event["op"] != "settle"]
        return bool(changes) and not any(
            event["op"] == "add_node"
            or (event["op"] == "update_node" and not {"capacity", "reserved"}.isdisjoint(event))
            for event in changes
        )


_PASSES: Final = 6
"""The most passes over all numbers; after them the result may not be the smallest."""


@final
@attrs.frozen
class NumberRange:
    """A number that the search may lower.

    Attributes:
        value: The number to begin with.
        guess: The likely result, never more than ``value``.
        step: The likely result is a multiple of it.
        floor: The lowest number allowed, usually the current setting; never more than ``guess``.
    """

    value: int
    guess: int
    step: int = 1
    floor: int = 0


@final
@attrs.frozen
class Smallest:
    """The result of a search.

    Attributes:
        values: A number for each knob; together they work.
        raised: Whether each is above its floor.
        proved: Whether trials have shown that none of them can be one less.
    """

    values: tuple[int, ...]
    raised: tuple[bool, ...]
    proved: bool


def smallest(
    works: Callable[[tuple[int, ...]], bool], knobs: Sequence[NumberRange]
) -> Smallest | None:
    """Lower numbers as far as possible, one after the other.

    Larger numbers do not always work: another ask may take the surplus. So the result is the
    lower end of *a* range of numbers that work.

    If there are several knobs, each is first tried at its floor: a change that is not needed is
    left out, even if a small one would do harm.

    Args:
        works: Whether these numbers work.
        knobs: The numbers to begin with.

    Returns:
        The result; None if neither the guesses nor the numbers to begin with work.
    """
    known: dict[tuple[int, ...], bool] = {}

    def tried(values: tuple[int, ...]) -> bool:
        if values not in known:
            known[values] = works(values)
        return known[values]

    values = before = tuple(knob.value for knob in knobs)
    guesses = tuple(knob.guess for knob in knobs)
    if tried(guesses):
        values = guesses
    elif not tried(values):
        return None
    for _ in range(_PASSES):
        before = values
        for place, knob in enumerate(knobs):

            def one(value: int, place: int = place, values: tuple[int, ...] = values) -> bool:
                return tried((*values[:place], value, *values[place + 1 :]))

            if len(knobs) > 1 and values[place] > knob.floor and one(knob.floor):
                lowered = knob.floor
            else:
                lowered = _lowest(one, values[place], knob)
            values = (*values[:place], lowered, *values[place + 1 :])
        if values == before:
            break
    raised = tuple(value > knob.floor for value, knob in zip(values, knobs, strict=True))
    return Smallest(values, raised, proved=values == before)


def _lowest(works: Callable[[int], bool], value: int, knob: NumberRange) -> int:
    """Return a number, at most ``value``, that works while one less does not."""
    low = knob.floor - 1  # A number that does not work, or is not allowed.
    if knob.guess < value:
        if works(knob.guess):
            value = knob.guess
        else:
            low = knob.guess
    while value > low + 1:
        if not works(value - 1):
            return value
        value -= 1
        if low < knob.floor:
            if works(knob.floor):
                return knob.floor
            low = knob.floor
        value = _bisect(works, low, value, knob.step)
    return value


def _bisect(works: Callable[[int], bool], low: int, high: int, step: int) -> int:
    """Narrow the range from a number that does not work to a higher one that does."""
    while high - low > 1:
        middle = (low + high) // 2
        on_grid = middle - middle % step
        if low < on_grid < high:
            middle = on_grid
        elif low < on_grid + step < high:
            middle = on_grid + step
        elif high % step == 0:
            return high
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def least_above(works: Callable[[int], bool], low: int, high: int) -> int | None:
    """Find a number that works while the one before it does not, in ever longer steps.

    Args:
        works: Whether a number works.
        low: A number that does not work.
        high: The highest number allowed.

    Returns:
        The number; None if the highest does not work either.
    """
    if high <= low or not works(high):
        return None
    gap = 1
    while low + gap < high:
        if works(low + gap):
            high = low + gap
            break
        low += gap
        gap *= 2
    return _bisect(works, low, high, 1)


@final
class Case:
    """An ask that is not bound, and the state around it.

    Args:
        scheduler: The scheduler, between two batches.
        trials: Tries events on copies of it.
        event: The event that adds only this ask, under its own name.
        explanation: Why it is not running.
        at_us: The instant, in microseconds.
        real: The case with all the other asks, if this one is without them; or None.
    """

    def __init__(
        self,
        scheduler: PlainScheduler,
        trials: Trials,
        event: AddAsk,
        explanation: Explanation,
        at_us: int,
        real: Case | None = None,
    ) -> None:
        self.real = real
        self.scheduler = scheduler
        self.trials = trials
        self.event = event
        self.explanation = explanation
        self.at_us = at_us

    @property
    def machine(self) -> CoordinatorMachine:
        """The coordinator's machine."""
        return self.scheduler.machine

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by name."""
        return self.machine.view.nodes.nodes

    @cached_property
    def path(self) -> Sequence[ViewQueue]:
        """The queue of the ask and all its parents, nearest first."""
        key = self.machine.registry.queues[self.explanation.queue].key
        return self.machine.view.queues[key].upward()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The whole state."""
        return self.scheduler.snapshot()

    def names_in(self, app: str) -> set[str]:
        """Return the names of the asks of an application, also of those that are left out here."""
        real = self.snapshot if self.real is None else self.real.snapshot
        return {ask.name for ask in real.apps[app].asks}

    @cached_property
    def gang(self) -> ViewGang | None:
        """Its gang; None if it has none, or a satisfied one, which no longer constrains it."""
        gang = self.machine.view.gangs.get(self.event.gang or "")
        return None if gang is None or gang.satisfied else gang

    @cached_property
    def group(self) -> Sequence[ViewGang]:
        """The gangs of its group; empty if :attr:`gang` is None."""
        return () if self.gang is None else self.machine.view.group_of(self.gang.name)

    @cached_property
    def ask(self) -> Ask:
        """The ask in the state."""
        app = self.machine.view.apps[self.machine.registry.app_key(self.event.app)]
        found = app.find(self.event.ask)
        assert found is not None, "a case without its ask"
        return found

    @cached_property
    def back_off(self) -> FailedBinds | None:
        """The failed binds of the ask if it backs off, or None."""
        app = self.machine.view.apps[self.machine.registry.app_key(self.event.app)]
        return app.in_a_row[self.event.ask] if self.event.ask in app.backing_off else None

    @cached_property
    def under_same_limits(self) -> frozenset[str]:
        """The applications that count for every limit of a user or a group that refuses the ask."""
        apps = self.machine.view.apps
        app = apps[self.machine.registry.app_key(self.event.app)]
        ask = app.find(self.event.ask)
        refusing = [
            limit
            for limit in app.limits
            if (ask is not None and not limit.admits_more(ask))
            or (limit.is_full and not app.running)
        ]
        if not refusing:
            return frozenset()
        first, *others = refusing
        counted = [
            other for key, other in first.apps.items() if all(key in limit.apps for limit in others)
        ]
        return frozenset(other.identity.name for other in counted)

    @cached_property
    def combined(self) -> Mapping[str, int]:
        """The resources to place before the ask is bound: its own, or those its group lacks."""
        if self.gang is None:
            return dict(self.event.wanted)
        total = self._sum(gang.pending for gang in self._gangs)
        add_to(total, self._parked)
        return total or dict(self.event.wanted)

    @property
    def _gangs(self) -> list[GangSnapshot]:
        return [self.snapshot.gangs[gang.name] for gang in self.group]

    @cached_property
    def _parked(self) -> dict[str, int]:
        """The resources of parked members of its group, pending again once it is renewed."""
        return self._sum(gang.parked for gang in self._gangs)

    def _sum(self, members: Iterable[Iterable[tuple[str, str]]]) -> dict[str, int]:
        """Return the sum of the resources of asks, given by application and name."""
        names = {name for some in members for name in some}
        total: dict[str, int] = {}
        for app in {app for app, _ in names}:
            for ask in self.snapshot.apps[app].asks:
                if (app, ask.name) in names:
                    add_to(total, ask.resources)
        return total

    @cached_property
    def lacking(self) -> int:
        """How many asks to place before the ask is bound: 1, or as many as its group lacks."""
        return max(sum(len(gang.pending) + len(gang.parked) for gang in self._gangs), 1)

    @cached_property
    def pending(self) -> Mapping[str, int]:
        """The pending resources of all queues, of the types in :attr:`combined`."""
        total = dict(self.snapshot.queues["root"].pending)
        add_to(total, self._parked)
        return {name: max(total.get(name, 0), amount) for name, amount in self.combined.items()}

    @cached_property
    def steps(self) -> Mapping[str, int]:
        """The greatest common divisor of the amounts of all asks, by type."""
        found: dict[str, int] = {}
        for app in self.snapshot.apps.values():
            for ask in app.asks:
                for name, amount in ask.resources.items():
                    found[name] = gcd(found.get(name, 0), amount)
        return found

    def matches(self, node: Node, *, attributes: bool = True) -> bool:
        """Return whether the ask may use a node, free or not.

        Args:
            node: The node.
            attributes: Whether its attributes count.
        """
        if self.event.node not in {None, node.name}:
            return False
        if node.taints and repelling(node.taints, self.event.tolerations):
            return False
        return not attributes or self._has_attributes(node.name, node.attributes)

    def _has_attributes(self, name: str, attributes: Mapping[str, str]) -> bool:
        affinity = self.event.affinity
        if affinity is not None and not admits(affinity, name, attributes):
            return False
        return all(attributes.get(key) == value for key, value in self.event.selector.items())

    def required_attributes(self, name: str, attributes: Mapping[str, str]) -> dict[str, str]:
        """Return the attributes that the selector requires, and those that the affinity lacks.

        Of an affinity it is what the first term lacks that becomes true by more attributes.

        Args:
            name: The name of a node.
            attributes: The attributes of the node.
        """
        selected = dict(self.event.selector)
        if self.event.affinity is None:
            return selected
        for term in ((), *self.event.affinity):
            more = dict(selected)
            for one in term:
                value = one.value_for(name, {**attributes, **more})
                if value is not None:
                    more[one.key] = value
            if self._has_attributes(name, {**attributes, **more}):
                return more
        return selected

    def lack(self, node: Node) -> dict[str, int]:
        """Return the resources that a node lacks to hold the ask; empty if it has room."""
        used, capacity, reserved = node.used, node.capacity, node.reserved
        # RESERVED-2
        lack = {
            name: amount + used.get(name, 0) + reserved.get(name, 0) - capacity.get(name, 0)
            for name, amount in self.event.wanted.items()
        }
        return {name: amount for name, amount in lack.items() if amount > 0}

    def by_lack(self, nodes: Iterable[Node]) -> list[Node]:
        """Return nodes sorted by how much they lack for the ask, least first."""
        wanted = self.event.wanted

        def key(node: Node) -> tuple[float, str]:
            return sum(amount / wanted[name] for name, amount in self.lack(node).items()), node.name

        return sorted(nodes, key=key)

    def remedy(
        self,
        kind: RemedyKind,
        text: str,
        events: Sequence[EventFields],
        *,
        smallest: Mapping[str, int] | None = None,
    ) -> Remedy | None:
        """Try events; return them as a remedy if the ask is then bound, otherwise None.

        Args:
            kind: The kind of change.
            text: The change in words.
            events: The events that make it.
            smallest: Its amounts, if the search has shown that none of them can be one less.
        """
        after = self.trials.after(events)
        node = None if after is None else node_of(after, self.event.app, self.event.ask)
        if after is None or node is None:
            return None
        least = None if self.trials.exhausted else smallest
        put = self.trials.put_first(events)
        return Remedy(kind, text, node, put, least or None, evicted_in(after))

    def found(
        self,
        kind: RemedyKind,
        names: Sequence[str],
        found: Smallest | None,
        text: Callable[[tuple[int, ...]], str],
        events: Callable[[tuple[int, ...]], Sequence[EventFields]],
    ) -> Iterator[Remedy]:
        """Yield the result of a search as a remedy, if there is one.

        Args:
            kind: The kind of change.
            names: The names of the amounts.
            found: The result of the search, or None.
            text: Returns the amounts in words.
            events: Returns the events that set the amounts.
        """
        if found is None:
            return
        values = found.values
        raised = zip(names, values, found.raised, strict=True)
        amounts = {name: value for name, value, counts in raised if counts}
        remedy = self.remedy(
            kind, text(values), events(values), smallest=amounts if found.proved else None
        )
        if remedy is not None:
            yield remedy


def amounts_in_words(amounts: Mapping[str, int]) -> str:
    """Return amounts as text for messages: ``8 nvidia.com/gpu and 43 vcore``."""
    return listed(amount_text(name, number) for name, number in amounts.items())


_BATCHES: Final = 100
"""How many batches the copy runs on: a back-off of the ask may end meanwhile."""


# OUTLOOK-30
def alone(case: Case) -> Case | None:
    """Return the case of an ask without all others, apart from those with which it starts.

    Args:
        case: The case of the ask.

    Returns:
        The case; None if the ask starts there, or if that was not found out.
    """
    app, ask = case.event.app, case.event.ask
    after = case.trials.after(list(_without_others(case)))
    explanation = None if after is None else after.explain(app, ask)
    if after is None or explanation is None:
        return None
    trials = Trials(after, case.at_us, app, ask)
    if _starts(trials.copy(), app, ask):
        return None
    return Case(after, trials, case.event, explanation, case.at_us, real=case)


def _starts(copy: PlainScheduler, app: str, ask: str) -> bool:
    """Return whether an ask starts if nothing but time passes."""
    for _ in range(_BATCHES):
        due_us = copy.machine.next_deadline_us()
        if due_us is None:
            break
        copy.pass_until(due_us)
        if node_of(copy, app, ask) is not None:
            return True
    return False


def _without_others(case: Case) -> Iterator[EventFields]:
    """Yield the events that end all asks but those of the group of the ask."""
    kept = {(case.event.app, case.event.ask)}
    for gang in case.group:
        if not gang.satisfied:
            found = case.snapshot.gangs[gang.name]
            kept.update((*found.pending, *found.parked, *found.waiting, *found.bound))
    apps = {app for app, _ in kept}
    for app in case.snapshot.apps.values():
        if app.name not in apps:
            yield {"op": "remove_app", "app": app.name}
            continue
        for ask in app.asks:
            if (app.name, ask.name) not in kept:
                op = "release" if ask.place is AskPlace.BOUND else "remove_ask"
                yield {"op": op, "app": app.name, "ask": ask.name}
