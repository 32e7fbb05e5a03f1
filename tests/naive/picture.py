"""Everything that an order needs, computed anew from the asks.

Properties, totals, priorities, shares, free devices.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, wraps
from typing import Any, TypeVar

import attrs

from muster_core.config.model import (
    DeadlockPolicy,
    NodeSortPolicy,
    PreemptionPolicy,
    SchedulingOrder,
    Settings,
    SortPolicy,
)
from muster_core.snapshots import AskPlace
from muster_core.values.devices import DeviceNeed
from tests.naive.state import (
    MILLI,
    ROOT,
    RUNNING_STATES,
    App,
    Ask,
    AskShape,
    Node,
    Queue,
    World,
    add,
    device_type,
    lineage,
    total,
    total_of,
)

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}


def parse_offset(text: str) -> int:
    """Read ``priority.offset`` as Go's ``strconv.ParseInt(text, 10, 32)``; what it refuses is 0."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return 0
    value = int(text)
    return value if INT32_MIN <= value <= INT32_MAX else 0


def parse_duration_us(text: str) -> int:
    """Read a duration such as ``30s``, ``1m30s`` or ``0``."""
    parts = re.findall(r"([0-9]+)(us|ms|s|m|h)?", text)
    return sum(int(number) * _UNITS_US[unit or "s"] for number, unit in parts)


def resolve(texts: Mapping[str, str], parent: Settings | None) -> Settings:
    """Return the settings of a queue below one with the settings ``parent`` (None: the root)."""
    above = Settings() if parent is None else inherit(parent)
    own = {name.lower(): text.strip().lower() for name, text in texts.items()}

    def flag(name: str) -> bool | None:
        return own[name] in {"enabled", "true"} if name in own else None

    def switch(name: str, otherwise: bool) -> bool:
        answer = flag(name)
        return otherwise if answer is None else answer

    def duration(name: str, otherwise: int) -> int:
        return parse_duration_us(own[name]) if name in own else otherwise

    estimate = above.estimate_us
    if "estimate.default" in own:
        estimate = parse_duration_us(own["estimate.default"])
    limit = above.priority_limit
    if "priority.limit" in own:
        limit = int(own["priority.limit"])
    settings = Settings(
        sort_policy=SortPolicy(own.get("application.sort.policy", above.sort_policy)),
        sort_by_priority=switch("application.sort.priority", above.sort_by_priority),
        blocking=switch("application.sort.blocking", above.blocking),
        fence=own.get("priority.policy") == "fence",
        offset=parse_offset(own.get("priority.offset", "")),
        queue_priority=int(own.get("queue.priority", "0")),
        reclaimable=switch("queue.reclaimable", above.reclaimable),
        create=above.create if (own_create := flag("queue.create")) is None else own_create,
        preemption_policy=PreemptionPolicy(own.get("preemption.policy", above.preemption_policy)),
        preemption_delay_us=duration("preemption.delay", above.preemption_delay_us),
        required_node=switch("preemption.required.node", above.required_node),
        bind_retry_us=duration("bind.retry.delay", above.bind_retry_us),
        scheduling_order=SchedulingOrder(own.get("scheduling.order", "greedy")),
        backfill_depth=int(own.get("backfill.depth", "1")),
        estimate_us=estimate,
        run_limit_us=duration("run.limit", above.run_limit_us),
        quota_preemption_us=duration("quota.preemption.delay", 0),
        min_runtime_us=duration("preemption.min.runtime", above.min_runtime_us),
        aging_us=duration("priority.aging", above.aging_us),
        aging_limit=int(own.get("priority.aging.limit", above.aging_limit)),
        share_by_weight=own.get("share.policy") == "weight",
        weight=int(own.get("queue.weight", "1")),
        half_life_us=duration("usage.half.life", above.half_life_us),
        usage_of_users=switch("usage.users", above.usage_of_users),
        priority_limit=limit,
        second_try=above.second_try,
    )
    if parent is not None:
        return settings
    return attrs.evolve(
        settings,
        gang_wait_us=duration("gang.wait.time", above.gang_wait_us),
        deadlock_policy=DeadlockPolicy(own.get("gang.deadlock.policy", above.deadlock_policy)),
        second_try=switch("gang.second.try", above.second_try),
        gang_retry_us=duration("gang.retry.delay", above.gang_retry_us),
        gang_retry_limit=int(own.get("gang.retry.limit", above.gang_retry_limit)),
    )


def inherit(parent: Settings) -> Settings:
    """Return the settings of a queue that says nothing itself."""
    policy = PreemptionPolicy.DEFAULT
    if parent.preemption_policy is PreemptionPolicy.DISABLED:
        policy = PreemptionPolicy.DISABLED
    return Settings(
        sort_policy=parent.sort_policy,
        sort_by_priority=parent.sort_by_priority,
        blocking=parent.blocking,
        reclaimable=parent.reclaimable,
        create=parent.create,
        preemption_policy=policy,
        preemption_delay_us=parent.preemption_delay_us,
        required_node=parent.required_node,
        bind_retry_us=parent.bind_retry_us,
        estimate_us=parent.estimate_us,
        run_limit_us=parent.run_limit_us,
        min_runtime_us=parent.min_runtime_us,
        aging_us=parent.aging_us,
        aging_limit=parent.aging_limit,
        half_life_us=parent.half_life_us,
        usage_of_users=parent.usage_of_users,
        priority_limit=parent.priority_limit,
        second_try=parent.second_try,
    )


Thing = TypeVar("Thing", bound=Hashable)
Answer = TypeVar("Answer")


def share(part: int, whole: int) -> float:
    """Divide, where nothing of nothing is 0 and something of nothing infinite."""
    if whole == 0:
        return math.inf if part else 0.0
    return part / whole


def clamp(value: int) -> int:
    """Bring a priority into the range of an int32."""
    return max(INT32_MIN, min(INT32_MAX, value))


_HIGHEST_AGED = 1_000_000_000
"""Above this age lifts no ask."""


def present_priority(world: World, ask: Ask) -> int:
    """Return the priority of an ask now: its own, and what it has gained while it was not bound."""
    settings = world.queues[ask.app.queue].settings
    period_us = settings.aging_us
    if not period_us or ask.place is AskPlace.BOUND:
        return ask.priority
    periods = world.now_us // period_us - ask.since_us // period_us
    aged = min(ask.priority + min(settings.aging_limit, periods), max(ask.priority, _HIGHEST_AGED))
    world.reached["aged"] += aged > ask.priority
    return aged


def remembered(
    function: Callable[[Picture, Thing], Answer],
) -> Callable[[Picture, Thing], Answer]:
    """Let a question about one moment be answered once; nobody changes an answer."""

    @wraps(function)
    def answer(picture: Picture, thing: Thing) -> Answer:
        question = (function, thing)
        if question not in picture.known:
            picture.known[question] = function(picture, thing)
        found: Answer = picture.known[question]
        return found

    return answer


class Picture:
    """One moment of the world, with everything computed that the orders ask for.

    Args:
        world: What there is.
        gone: Asks that are looked at as if they held nothing.
    """

    def __init__(self, world: World, gone: Collection[Ask] = ()) -> None:
        self.world = world
        self.gone = gone
        self.known: dict[tuple[object, object], Any] = {}
        self.present = world.in_queues()
        self.held = [ask for app in self.present for ask in app.held() if ask not in gone]

    @cached_property
    def total(self) -> dict[str, int]:
        """Return the total of the partition."""
        return total(node.capacity for node in self.world.nodes.values())

    @cached_property
    def asks(self) -> dict[str, list[Ask]]:
        """Return the pending asks of each queue, those below it included."""
        asks: dict[str, list[Ask]] = {path: [] for path in self.world.queues}
        for app in self.present:
            pending = app.pending()
            for path in lineage(app.queue):
                asks[path] += pending
        return asks

    @cached_property
    def allocated(self) -> dict[str, dict[str, int]]:
        """Return what the asks in each queue, and below it, hold."""
        allocated: dict[str, dict[str, int]] = {path: {} for path in self.world.queues}
        for ask in self.held:
            for path in lineage(ask.app.queue):
                add(allocated[path], ask.wants)
        return allocated

    @cached_property
    def used(self) -> dict[str, dict[str, int]]:
        """Return what the asks on each node hold."""
        used: dict[str, dict[str, int]] = {name: {} for name in self.world.nodes}
        for ask in self.held:
            add(used[ask.node or ""], ask.wants)
        return used

    @remembered
    def app_priority(self, app: App) -> int | None:
        """Return the highest priority of the pending asks, tried or not."""
        return max((present_priority(self.world, ask) for ask in app.pending()), default=None)

    @remembered
    def queue_priority(self, path: str) -> int | None:
        """Return ``currentPriority``: None where it has none."""
        settings = self.world.queues[path].settings
        if settings.fence and path != ROOT:
            return settings.offset
        if not self.asks[path]:
            return None
        inside = [self.queue_priority(child.path) for child in self.with_pending(path)]
        inside += [self.app_priority(app) for app in self.apps(path)]
        best = max(priority for priority in inside if priority is not None)
        return clamp(best + (0 if path == ROOT else settings.offset))

    @remembered
    def with_pending(self, path: str) -> list[Queue]:
        """Return the children of a queue with something pending."""
        return [child for child in self.world.children(path) if self.asks[child.path]]

    @remembered
    def apps(self, path: str) -> list[App]:
        """Return the applications of a leaf, the oldest first."""
        return [app for app in self.present if app.queue == path]

    def pending_amount(self, path: str) -> dict[str, int]:
        """Return what is pending below a queue."""
        return total_of(self.asks[path])

    @remembered
    def pending_share(self, path: str) -> float:
        """Return the dominant share of what is pending in the partition's total."""
        pending = self.pending_amount(path)
        return max((share(pending[t], self.total.get(t, 0)) for t in pending), default=0.0)

    @remembered
    def fair_share(self, path: str) -> float:
        """Return the fair share of a queue."""
        used = self.allocated[path]
        return max((share(used[t], self._deserved(path, t)) for t in used), default=0.0)

    def _deserved(self, path: str, name: str) -> int:
        deserved = self.world.deserved.get(path)
        if deserved is not None:
            return deserved.get(name, 0)
        return self._entitled(path, name)

    def _entitled(self, path: str, name: str) -> int:
        """Return what a queue has of a type where its parent does not share by weight."""
        guaranteed = self.world.queues[path].guaranteed[name]
        if guaranteed:
            return guaranteed
        whole = self.total.get(name, 0)
        limits = [self.world.queues[prefix].limits for prefix in lineage(path)]
        return min((limit[name] for limit in limits if name in limit), default=whole)

    @remembered
    def usage(self, app: App) -> list[float]:
        """Return an application's usage for ``fair``: its shares, the largest first."""
        used = total_of(ask for ask in self.held if ask.app is app)
        wholes = self.world.deserved.get(app.queue)
        if wholes is None:
            guaranteed = self.world.queues[app.queue].guaranteed
            wholes = {name: guaranteed[name] or self.total.get(name, 0) for name in used}
        return sorted((share(used[name], wholes.get(name, 0)) for name in used), reverse=True)

    def deserve(self) -> dict[str, dict[str, int]]:
        """Return what all queues deserve whose parents share by weight, by path."""
        found: dict[str, dict[str, int]] = {}
        for path in sorted(self.world.queues, key=lambda path: len(lineage(path))):
            children = sorted(self.world.children(path), key=lambda child: child.path)
            if not self.world.queues[path].settings.share_by_weight or not children:
                continue
            found |= {child.path: {} for child in children}
            names = {name for child in children for name in self._types_of(child)}
            for name in names | set(self.total):
                whole = self._entitled(path, name)
                if path in found:
                    whole = found[path].get(name, 0)
                whole = min(whole, self.total.get(name, 0))
                for child, amount in self._divided(children, name, whole).items():
                    found[child][name] = amount
        return found

    def _types_of(self, queue: Queue) -> set[str]:
        wanted = {name for ask in self.asks[queue.path] for name in ask.wants}
        return wanted | set(self.allocated[queue.path]) | set(queue.guaranteed)

    def _divided(self, children: Sequence[Queue], name: str, whole: int) -> dict[str, int]:
        """Divide an amount of a type among queues by weight."""
        floors = {child.path: child.guaranteed[name] for child in children}
        ceilings: dict[str, int] = {}
        for child in children:
            path = child.path
            wanted = self.allocated[path].get(name, 0) + self.pending_amount(path).get(name, 0)
            ceilings[path] = max(floors[path], min(child.limits.get(name, wanted), wanted))
        weights = {child.path: child.settings.weight for child in children}
        return divided(whole, weights, floors, ceilings, self.world.reached)

    def fits_headroom(self, ask: Ask) -> bool:
        """Return whether the quotas of the leaf and all above it leave room for an ask."""
        return all(
            fits_limits(ask.wants, self.allocated[path], self.world.queues[path].limits)
            for path in lineage(ask.app.queue)
        )

    @remembered
    def enters(self, path: str) -> bool:
        """Return whether a queue competes: it, or a leaf below, has a pending ask within quota."""
        return any(self.fits_headroom(ask) for ask in self.asks[path])

    @remembered
    def kept_out(self, app: App) -> bool:
        """Return whether a ``maxapplications`` on its path keeps an application waiting."""
        return bool(self.full_above(app))

    def full_above(self, app: App) -> list[str]:
        """Return the queues above an application that does not run in which as many run as may."""
        full: list[str] = []
        for path in () if runs(app) else lineage(app.queue):
            limit = self.world.queues[path].max_applications
            running = [other for other in self.world.below(path) if runs(other)]
            if limit and len(running) >= limit:
                full.append(path)
        return full


def divided(
    whole: int,
    weights: Mapping[str, int],
    floors: Mapping[str, int],
    ceilings: Mapping[str, int],
    reached: Counter[str],
) -> dict[str, int]:
    """Divide an amount among queues by weight, step by step as in the specification."""
    fixed: dict[str, int] = {}
    while True:
        parts = dict.fromkeys((path for path in weights if path not in fixed), 0)
        rest = max(0, whole - sum(fixed.values()))
        unclosed: list[str] = sorted(parts)
        while rest and unclosed:
            weight = sum(weights[path] for path in unclosed)
            exact = {path: Fraction(rest * weights[path], weight) for path in unclosed}
            units = {path: math.floor(one) for path, one in exact.items()}
            by_remainder = sorted(unclosed, key=lambda path: (units[path] - exact[path], path))
            for path in by_remainder[: rest - sum(units.values())]:
                units[path] += 1
            rest, fed = 0, set[str]()
            for path in unclosed:
                parts[path] += units[path]
                if parts[path] > ceilings[path]:
                    rest += parts[path] - ceilings[path]
                    parts[path] = ceilings[path]
                    fed.add(path)
            reached["divided again"] += bool(rest and len(fed) < len(unclosed))
            unclosed = [path for path in unclosed if path not in fed]
        short = {path: floors[path] for path in parts if parts[path] < floors[path]}
        reached["raised to its guaranteed"] += len(short)
        if not short:
            return fixed | parts
        fixed |= short


def runs(app: App) -> bool:
    """Return whether an application counts against ``maxapplications``."""
    waits = any(ask.place is AskPlace.WAITING for ask in app.asks.values())
    return app.state in RUNNING_STATES or waits


def fits_limits(
    amount: Mapping[str, int], used: Mapping[str, int], limits: Mapping[str, int]
) -> bool:
    """Return whether an amount fits beside what is used; types without a limit always fit."""
    return all(
        used.get(name, 0) + value <= limits[name]
        for name, value in amount.items()
        if name in limits
    )


@attrs.frozen
class Room:
    """What is free on a node.

    Attributes:
        free: Of each resource type; less than nothing where a capacity became smaller.
        devices: The free milli of each device, by number, of each type of devices.
        models: The model of each type of devices.
    """

    free: Mapping[str, int]
    devices: Mapping[str, tuple[int, ...]]
    models: Mapping[str, str | None]


@attrs.frozen
class TypicalShape:
    """A shape that many asks have, and its weight."""

    shape: AskShape
    weight: int


def typical_asks(world: World) -> tuple[TypicalShape, ...]:
    """Return the typical asks: those that are named, or else those that were learned."""
    named = [
        TypicalShape(AskShape.of(dict(one.devices), one.resources), one.weight)
        for one in world.config.typical
    ]
    if named:
        return tuple(named)
    return tuple(TypicalShape(shape, number) for shape, number in Counter(world.learned).items())


def learn(world: World) -> None:
    """Take what was learned at the start of a round, if it is time for that.

    That is in the first one that has an ask with devices, and in each that has twice as many.
    """
    known, seen = len(world.learned), len(world.shapes)
    if seen and seen >= 2 * known:
        weighted = dict(world.config.node_weights)
        world.reached["learned again" if known else "learned"] += 1
        world.learned = [shape.only(weighted) for shape in world.shapes]


def fits_devices(room: Room, kind: str, need: DeviceNeed) -> bool:
    """Return whether devices of a type are free for an ask, of a model that it takes."""
    free = room.devices.get(kind, ())
    if need.models is not None and room.models.get(kind) not in need.models:
        return False
    if need.milli:
        return any(left >= need.milli for left in free)
    return sum(left == MILLI for left in free) >= need.count


def fits(room: Room, shape: AskShape) -> bool:
    """Return whether a shape fits a node: its resources, its models, its devices."""
    has_room = all(room.free.get(name, 0) >= value for name, value in shape.resources)
    return has_room and all(fits_devices(room, kind, need) for kind, need in shape.devices)


def fragmentation(room: Room, typical: Iterable[TypicalShape]) -> int:
    """Return the fragmentation F of a node: what typical asks cannot use of its devices."""
    whole = 0
    for one in typical:
        fitting = fits(room, one.shape)
        for kind, need in one.shape.devices:
            on_one = need.milli or MILLI
            free = room.devices.get(kind, ())
            useless = [left for left in free if not fitting or left < on_one]
            whole += one.weight * sum(useless)
    return whole


@remembered
def room_of(picture: Picture, node: Node) -> Room:
    """Return what is free on a node."""
    used = picture.used[node.name]
    there = [ask for ask in picture.held if ask.node == node.name]
    devices = {kind: [MILLI] * stock.count for kind, stock in node.stock.items()}
    for ask in there:
        for kind, numbers in (ask.devices or {}).items():
            for number in numbers:
                devices[kind][number] -= ask.needs[kind].milli or MILLI
    return Room(
        free={name: node.for_asks(name) - used.get(name, 0) for name in {*node.capacity, *used}},
        devices={kind: tuple(free) for kind, free in devices.items()},
        models={kind: stock.model for kind, stock in node.stock.items()},
    )


def typical_of(picture: Picture) -> tuple[TypicalShape, ...]:
    """Return the typical asks, counted once for each picture."""
    return _typical(picture, None)


@remembered
def _typical(picture: Picture, _: None) -> tuple[TypicalShape, ...]:
    return typical_asks(picture.world)


def empty_room(node: Node) -> Room:
    """Return what would be free on a node if nothing were there."""
    return Room(
        free=node.capacity,
        devices={kind: (MILLI,) * stock.count for kind, stock in node.stock.items()},
        models={kind: stock.model for kind, stock in node.stock.items()},
    )


def has_models(node: Node, ask: Ask) -> bool:
    """Return whether a node's devices are of the models that an ask names, if it names any."""
    return all(
        need.models is None or (kind in node.stock and node.stock[kind].model in need.models)
        for kind, need in ask.needs.items()
    )


def lacking(room: Room, ask: Ask) -> set[str]:
    """Return the types of devices of which an ask does not fit a node, as resource types."""
    return {
        device_type(kind) for kind, need in ask.needs.items() if not fits_devices(room, kind, need)
    }


def can_hold(room: Room, ask: Ask) -> bool:
    """Return whether an ask has room on a node."""
    return fits(room, AskShape.of(ask.needs, ask.resources))


def taken_by(picture: Picture, node: Node, ask: Ask) -> dict[str, tuple[int, ...]] | None:
    """Return the numbers of the devices that an ask takes on a node that it fits, type by type."""
    if not ask.needs:
        return None
    numbers: dict[str, tuple[int, ...]] = {}
    room = without_resources(room_of(picture, node), ask.resources)
    for kind, need in sorted(ask.needs.items()):
        numbers[kind] = _numbers(picture, room, kind, need)
        room = without_devices(room, kind, need, numbers[kind])
    return numbers


def taken_anyway(picture: Picture, node: Node, ask: Ask) -> dict[str, tuple[int, ...]] | None:
    """Return the devices that an ask takes on a node whose devices may not be free.

    Then the free ones come first, and a share is taken of the device that has most free.
    """
    free = room_of(picture, node).devices
    if not lacking(room_of(picture, node), ask):
        return taken_by(picture, node, ask)
    numbers: dict[str, tuple[int, ...]] = {}
    for kind, need in ask.needs.items():
        if need.milli:
            most_first = sorted((-left, number) for number, left in enumerate(free[kind]))
            numbers[kind] = tuple(number for _, number in most_first[:1])
        else:
            whole_first = sorted((left < MILLI, number) for number, left in enumerate(free[kind]))
            numbers[kind] = tuple(number for _, number in whole_first[: need.count])
    return numbers


def _numbers(picture: Picture, room: Room, kind: str, need: DeviceNeed) -> tuple[int, ...]:
    """Return the devices that are taken of a type: of those that fit, the best."""
    free = room.devices[kind]
    reached = picture.world.reached
    if need.count:
        reached["whole ones"] += 1
        return tuple(number for number, left in enumerate(free) if left == MILLI)[: need.count]
    fitting = [number for number, left in enumerate(free) if left >= need.milli]
    fullest = min(fitting, key=lambda number: (free[number], number))
    reached["a share, of several devices"] += fullest != fitting[0]
    if picture.world.config.node_sort is not NodeSortPolicy.FGD:
        return (fullest,)
    typical = typical_of(picture)

    def after(number: int) -> tuple[int, int]:
        left = without_devices(room, kind, need, (number,))
        return (fragmentation(left, typical), number)

    best = min(fitting, key=after)
    reached["a share, by least fragmentation"] += best != fullest
    return (best,)


def without_resources(room: Room, amounts: Mapping[str, int]) -> Room:
    """Return what is free once amounts are taken."""
    free = dict(room.free)
    for name, value in amounts.items():
        free[name] = free.get(name, 0) - value
    return attrs.evolve(room, free=free)


def without_devices(room: Room, kind: str, need: DeviceNeed, numbers: Iterable[int]) -> Room:
    """Return what is free once devices are taken."""
    free = list(room.devices[kind])
    for number in numbers:
        free[number] -= need.milli or MILLI
    return attrs.evolve(room, devices={**room.devices, kind: tuple(free)})


def after_placing(picture: Picture, node: Node, ask: Ask) -> Room:
    """Return what is free on a node that an ask fits, once it is there."""
    room = without_resources(room_of(picture, node), ask.resources)
    for kind, numbers in (taken_by(picture, node, ask) or {}).items():
        room = without_devices(room, kind, ask.needs[kind], numbers)
    return room


def some_held(asks: Sequence[Ask], node: Node) -> bool:
    """Return whether a device of a node is held by one of some asks."""
    return any(ask.node == node.name and ask.devices for ask in asks)
