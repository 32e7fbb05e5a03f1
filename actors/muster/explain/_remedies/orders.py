"""Remedies that concern the order: priorities, settings of queues, other asks.

If a remedy takes away an ask of a gang that needs each of its members, it takes away all of them:
without one of them the others would only wait for it, and hold back others as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import Final, TypeAlias, final

import attrs

from muster.explain._remedies.case import (
    Case,
    NumberRange,
    Remedy,
    RemedyKind,
    amounts_in_words,
    least_above,
    smallest,
)
from muster.explain._remedies.trials import QueueChange, configure, node_of, settle, span
from muster.feeds._kinds import EventFields
from muster.feeds._operations import write
from muster_core.config.model import PreemptionPolicy, Settings, SortPolicy
from muster_core.config.properties import QUEUE_WEIGHT
from muster_core.decisions import Reason
from muster_core.owners.asks import FailedBinds
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace, AskSnapshot, GangSnapshot
from muster_core.values.priority import MAX_PRIORITY, most_growth
from muster_core.values.resources import MAX_INT32, MAX_QUANTITY
from muster_core.view.reasons.shortfalls import listed, seconds
from muster_core.view.tree.queue import ViewQueue

_Key: TypeAlias = tuple[str, str]
"""An application, and the name of an ask."""

_MOST_NODES: Final = 3
"""How many nodes of a gang are named."""


@final
@attrs.frozen
class RemovedAsks:
    """Asks that go together.

    Attributes:
        name: Their name: an ask, or gangs.
        asks: The asks.
        events: The events that take them away.
        is_one: Whether the name is that of one ask or gang.
    """

    name: str
    asks: Sequence[_Key]
    events: Sequence[EventFields]
    is_one: bool = True


def removed(case: Case, app: str, ask: str) -> RemovedAsks:
    """Return how an ask that is not bound is withdrawn.

    If its gang is not satisfied, all gangs of its group go that still wait, unless the ask of the
    case is in one of them.
    """
    name = next((one.gang for one in case.snapshot.apps[app].asks if one.name == ask), None)
    gangs = _waiting_with(case, name)
    members = [key for gang in gangs for key in (*gang.waiting, *gang.pending, *gang.parked)]
    if len(members) < 2 or (case.event.app, case.event.ask) in members:
        return RemovedAsks(f"{app}/{ask}", [(app, ask)], [_remove_ask(app, ask)])
    names = [gang.name for gang in gangs]
    called = f"gang{'s' if len(names) > 1 else ''} {listed(names)}"
    events = [*_withdrawn(case, members)]
    return RemovedAsks(called, members, events, is_one=len(names) == 1)


def ended(case: Case, app: str, ask: AskSnapshot) -> RemovedAsks:
    """Return how a bound ask ends: with all of its gang if that has no member to spare."""
    gang = case.snapshot.gangs.get(ask.gang or "")
    definition = None if gang is None else gang.definition
    if (
        gang is None
        or definition is None
        or gang.name == case.event.gang
        or not 1 < len(gang.bound) <= definition.min_member
    ):
        return RemovedAsks(f"{app}/{ask.name}", [(app, ask.name)], [_release_event(app, ask.name)])
    return RemovedAsks(
        f"gang {gang.name}", gang.bound, [_release_event(*key) for key in gang.bound]
    )


def nodes_of(case: Case, asks: Iterable[_Key]) -> str:
    """Return the nodes that asks hold, in words."""
    held = {
        one.node: None
        for app, name in asks
        for one in case.snapshot.apps[app].asks
        if one.name == name and one.node is not None
    }
    if len(held) > _MOST_NODES:
        return f"{len(held):,} nodes"
    return f"node{'s' if len(held) > 1 else ''} {listed(held)}"


def _waiting_with(case: Case, name: str | None) -> list[GangSnapshot]:
    """Return the gangs of the group of a gang; none if it is satisfied."""
    own = case.snapshot.gangs.get(name or "")
    if own is None or own.satisfied:
        return []
    group = case.machine.view.group_of(own.name)
    return [case.snapshot.gangs[gang.name] for gang in group]


def _withdrawn(case: Case, asks: Sequence[_Key]) -> Iterator[EventFields]:
    """Yield the events that withdraw asks: one for an application that has no others."""
    by_app: dict[str, list[str]] = {}
    for app, name in asks:
        by_app.setdefault(app, []).append(name)
    for app, names in by_app.items():
        if len(names) == len(case.snapshot.apps[app].asks):
            yield {"op": "remove_app", "app": app}
        else:
            yield from (_remove_ask(app, name) for name in names)


def _remove_ask(app: str, ask: str) -> EventFields:
    return {"op": "remove_ask", "app": app, "ask": ask}


def _release_event(app: str, ask: str) -> EventFields:
    return {"op": "release", "app": app, "ask": ask}


_AHEAD: Final = 5
"""The most asks ahead that a remedy removes."""

_RELEASED: Final = 40
"""The most bound asks whose release is tried."""

_TYPES: Final = 4
"""Up to how many types all combinations are tried for ``guaranteed``."""

_MOST_REPORTED: Final = 3
"""How many releases are reported."""


def order_remedies(case: Case) -> Iterator[Remedy]:
    """Try changes of priorities and of queue settings."""
    yield from _priority(case)
    yield from _age(case)
    yield from _guaranteed(case)
    yield from _weight(case)
    yield from _policies(case)


def _own(case: Case) -> AskSnapshot:
    asks = case.snapshot.apps[case.event.app].asks
    return next(ask for ask in asks if ask.name == case.event.ask)


def _priority(case: Case) -> Iterator[Remedy]:
    now = _own(case).priority

    def events(priority: int) -> list[EventFields]:
        anew = attrs.evolve(case.event, priority=priority, priority_class=None)
        removal: EventFields = {"op": "remove_ask", "app": anew.app, "ask": anew.ask}
        return [removal, write(anew)]

    def works(priority: int) -> bool:
        return case.trials.bind(events(priority))

    if works(now):  # Then the priority is not the cause.
        text = "the same ask, withdrawn and submitted again"
        again = case.remedy(RemedyKind.RESUBMIT, text, events(now))
        if again is not None:
            yield again
        return
    least = least_above(works, now, MAX_PRIORITY)
    if least is None:
        return
    text = (
        f"priority {least:,} instead of {now:,}: the ask is withdrawn and submitted again, "
        "and counts as created then"
    )
    amounts = {"priority": least}
    remedy = case.remedy(RemedyKind.PRIORITY, text, events(least), smallest=amounts)
    if remedy is not None:
        yield remedy


_ENDS: Final = frozenset({Reason.COMPLETED, Reason.RUN_LIMIT, Reason.EXPIRED, Reason.GANG_TIMEOUT})
"""Why asks are released at some time though nothing happens."""


# AGING-11
def _age(case: Case) -> Iterator[Remedy]:
    """Wait until the ask is old enough to come first, while nothing else happens."""
    settings, own = case.path[0].config.settings, _own(case)
    if own.aged is None:
        return
    left = own.priority + most_growth(settings.aging_limit, own.priority) - own.aged
    tick = case.machine.now_us // settings.aging_us

    def instant_us(ticks: int) -> int:
        return (tick + ticks) * settings.aging_us

    def events(ticks: int) -> list[EventFields]:
        return [settle(instant_us(ticks))]

    def works(ticks: int) -> bool:
        return case.trials.bind(events(ticks))

    high = 1
    while high < left and not works(high):
        high *= 2
    high = min(high, left)
    least = least_above(works, high // 2, high) if left > 0 else None
    if least is None:
        return
    # Others that end meanwhile may be what helps it.
    after = case.trials.after(events(least))
    if after is None or any(one.decision.reason in _ENDS for one in after.announced):
        return
    until_us = instant_us(least)
    text = (
        f"wait until {seconds(until_us)}, when age has given it priority {own.aged + least:,}: it "
        "starts with the first batch from then on"
    )
    put = case.trials.put_first(events(least))
    yield Remedy(RemedyKind.AGE, text, None, put, starts=until_us)


def _guaranteed(case: Case) -> Iterator[Remedy]:
    """Raise ``guaranteed`` of a queue so that it may reclaim for the ask."""
    for queue in case.path[:-1]:
        for remedy in _guaranteed_to(case, queue):
            yield remedy
            return


def _guaranteed_to(case: Case, queue: ViewQueue) -> Iterator[Remedy]:
    """Raise ``guaranteed`` of one type of a queue; also of two, and so on.

    A type that ``guaranteed`` does not name does not limit reclaim, so more types may be worse
    than fewer.
    """
    wanted = {
        name: min(queue.used(name) + amount, MAX_QUANTITY)
        for name, amount in case.event.wanted.items()
    }
    lacking = sorted(name for name in wanted if queue.config.guaranteed[name] < wanted[name])
    sizes = range(1, len(lacking) + 1) if len(lacking) <= _TYPES else {1, len(lacking)}
    for size in sorted(sizes):
        for names in combinations(lacking, size):
            yield from _guarantee(case, queue, {name: wanted[name] for name in names})


def _guarantee(case: Case, queue: ViewQueue, wanted: Mapping[str, int]) -> Iterator[Remedy]:
    path, now = queue.config.path, queue.config.guaranteed

    def raised(values: tuple[int, ...]) -> dict[str, int]:
        chosen = zip(wanted, values, strict=True)
        return {name: value for name, value in chosen if value > now[name]}

    def events(values: tuple[int, ...]) -> list[EventFields]:
        return [configure(case.machine, {path: QueueChange(guaranteed=raised(values))})]

    def text(values: tuple[int, ...]) -> str:
        return f"{amounts_in_words(raised(values))} guaranteed to {path}, which may then reclaim for it"

    knobs = [
        NumberRange(amount, amount, case.steps.get(name, 1), floor=now[name])
        for name, amount in wanted.items()
    ]
    found = smallest(lambda values: case.trials.bind(events(values)), knobs)
    labels = [f"{path}/{name}" for name in wanted]
    yield from case.found(RemedyKind.GUARANTEED, labels, found, text, events)


# SHARE-16
def _weight(case: Case) -> Iterator[Remedy]:
    """Raise the weight of a queue whose parent shares by weight."""
    for queue in case.path[:-1]:
        remedy = _weight_of(case, queue) if queue.by_weight else None
        if remedy is not None:
            yield remedy
            return


def _weight_of(case: Case, queue: ViewQueue) -> Remedy | None:
    path, now = queue.config.path, queue.config.settings.weight

    def events(weight: int) -> list[EventFields]:
        change = QueueChange(properties={QUEUE_WEIGHT.name: str(weight)})
        return [configure(case.machine, {path: change})]

    least = least_above(lambda weight: case.trials.bind(events(weight)), now, MAX_INT32)
    if least is None:
        return None
    text = f"{QUEUE_WEIGHT.name}: {least} instead of {now} for {path}, which then deserves more"
    amounts = {f"{path}/{QUEUE_WEIGHT.name}": least}
    return case.remedy(RemedyKind.WEIGHT, text, events(least), smallest=amounts)


def _policies(case: Case) -> Iterator[Remedy]:
    """Try other settings of the leaf and of the partition."""
    leaf = case.path[0].config
    for name, value in _other_properties(case, leaf.settings):
        change = {leaf.path: QueueChange(properties={name: value})}
        text = f"{name}: {value} for {leaf.path}"
        remedy = case.remedy(RemedyKind.PROPERTY, text, [configure(case.machine, change)])
        if remedy is not None:
            yield remedy
    yield from _minimum_run_times(case)
    if not case.machine.registry.configuration.preemption_enabled:
        events = [configure(case.machine, {}, preemption=True)]
        remedy = case.remedy(RemedyKind.PREEMPTION, "preemption.enabled: true", events)
        if remedy is not None:
            yield remedy


# RUNTIME-2
def _minimum_run_times(case: Case) -> Iterator[Remedy]:
    """Try to take the protection from the bound asks of one leaf."""
    view = case.machine.view
    protected = view.protected_leaves(case.at_us)
    for path in protected[:_MOST_REPORTED]:
        change = {path: QueueChange(properties={"preemption.min.runtime": "0s"})}
        text = f"preemption.min.runtime: 0s for {path}"
        remedy = case.remedy(RemedyKind.PROPERTY, text, [configure(case.machine, change)])
        if remedy is not None:
            yield remedy


def _other_properties(case: Case, settings: Settings) -> Sequence[tuple[str, str]]:
    """Return the properties that could be set in another way for the leaf."""
    wanted: list[tuple[str, str]] = []
    if settings.blocking:
        wanted.append(("application.sort.blocking", "disabled"))
    if settings.sort_policy is SortPolicy.STATE_AWARE:
        wanted.append(("application.sort.policy", SortPolicy.FIFO.value))
    if settings.preemption_policy is PreemptionPolicy.DISABLED:
        wanted.append(("preemption.policy", PreemptionPolicy.DEFAULT.value))
    waited_us = case.at_us - case.explanation.since_us
    if settings.preemption_delay_us > waited_us:
        wanted.append(("preemption.delay", span(waited_us)))
    if case.event.node is not None and not settings.required_node:
        wanted.append(("preemption.required.node", "enabled"))
    if case.back_off is not None:
        over_us = _longest_over_us(case.back_off, settings.bind_retry_us, case.at_us)
        wanted.append(("bind.retry.delay", span(over_us)))
    elif any(reason.code is Code.BACKING_OFF for reason in case.explanation.reasons):
        wanted.append(("bind.retry.delay", "0s"))  # Another member of its group backs off.
    return wanted


def _longest_over_us(failed: FailedBinds, delay_us: int, now_us: int) -> int:
    """Return the longest ``bind.retry.delay`` with which an ask does not back off any more."""
    times = (failed.until_us(delay_us) - failed.last_us) // delay_us
    return (now_us - failed.last_us) // times


def ask_remedies(case: Case) -> Iterator[Remedy]:
    """Try the removal or release of other asks."""
    yield from _remove_ahead(case)
    yield from _release(case)


def _remove_ahead(case: Case) -> Iterator[Remedy]:
    """Remove the asks that are tried before it, one after the other, until it is bound.

    Of a gang that still waits all members go: the others would only wait for the one.
    """
    own = f"{case.event.app}/{case.event.ask}"
    events: list[EventFields] = []
    names: list[str] = []
    gone: set[str] = set()
    first = case.explanation.first
    while first is not None and first != own and first not in gone and len(names) < _AHEAD:
        app, _, ask = first.partition("/")
        leaving = removed(case, app, ask)
        if not gone.isdisjoint(f"{its_app}/{name}" for its_app, name in leaving.asks):
            return
        gone |= {f"{its_app}/{name}" for its_app, name in leaving.asks}
        names.append(leaving.name)
        events += leaving.events
        after = case.trials.after(events)
        if after is None:
            return
        if node_of(after, case.event.app, case.event.ask) is not None:
            is_one = len(names) == 1 and leaving.is_one
            text = (
                f"without {' and '.join(names)}, which {'is' if is_one else 'are'} tried before it"
            )
            remedy = case.remedy(RemedyKind.REMOVE_AHEAD, text, events)
            if remedy is not None:
                yield remedy
            return
        explained = after.explain(case.event.app, case.event.ask)
        first = None if explained is None else explained.first


def _release(case: Case) -> Iterator[Remedy]:
    """Release a bound ask, or a gang; those with the smallest asks are tried first."""
    found = 0
    for leaving in islice(_leaving(case), _RELEASED):
        text = f"{leaving.name} ends and releases {nodes_of(case, leaving.asks)}"
        remedy = case.remedy(RemedyKind.RELEASE, text, leaving.events)
        if remedy is not None:
            yield remedy
            found += 1
            if found == _MOST_REPORTED:
                return


def _leaving(case: Case) -> Iterator[RemovedAsks]:
    """Yield what may end, each gang once."""
    seen: set[str] = set()
    for app, ask in _ends(case):
        leaving = ended(case, app, ask)
        if leaving.name not in seen:
            seen.add(leaving.name)
            yield leaving


def _ends(case: Case) -> Sequence[tuple[str, AskSnapshot]]:
    """Return the bound asks that free enough of their node, or use a queue of the ask.

    If the ask is over limits of its user or its group, those that count for these come first.
    """
    path = {queue.config.path for queue in case.path}
    limited = case.under_same_limits
    found: list[tuple[bool, float, str, AskSnapshot]] = []
    for app in case.snapshot.apps.values():
        for ask in app.asks:
            node = case.nodes.get(ask.node or "")
            if ask.place is not AskPlace.BOUND or node is None:
                continue
            lack = case.lack(node) if node.schedulable and case.matches(node) else None
            frees_room = lack is not None and all(
                ask.resources[name] >= amount for name, amount in lack.items()
            )
            if frees_room or app.queue in path:
                wanted = case.event.wanted
                size = sum(ask.resources[name] / wanted[name] for name in wanted)
                found.append((app.name not in limited, size, app.name, ask))
    found.sort(key=lambda one: (*one[:3], one[3].name))
    return [(app, ask) for *_, app, ask in found]
