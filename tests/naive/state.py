"""The naive model's state: what exists, and nothing that can be computed from more than an ask
or a queue of it.

Also: undoing a trial, back-offs, failed binds, what was taken and lost, scopes, and estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Final

import attrs

from muster_core.config.model import (
    Acl,
    Configuration,
    QueueConfig,
    SchedulingOrder,
    Settings,
    Template,
)
from muster_core.decisions import Decision, Kind, Reason
from muster_core.gangs import NO_FIELDS, GangDefinition, GangFields, define
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.values.affinity import Affinity, Taint, Toleration
from muster_core.values.configuration import LimitEntry
from muster_core.values.devices import DeviceNeed, DeviceStock

ROOT = "root"

RECOVERY = "root.@recovery@"
"""Where applications go that placement rules leave without a queue, if they insist."""

MILLI = 1000
"""How much of a device there is in all."""

GONE_STATES = frozenset({"Completed"})
RUNNING_STATES = frozenset({"Starting", "Running"})


@attrs.frozen
class PriorityClass:
    """The value of a priority class, and whether its asks may preempt."""

    value: int
    preempts: bool


BUILT_IN_CLASSES = {
    "system-cluster-critical": PriorityClass(2_000_000_000, preempts=True),
    "system-node-critical": PriorityClass(2_000_001_000, preempts=True),
}


@attrs.define(eq=False)
class Ask:
    """One ask; it has a node while it is waiting or bound.

    ``creation`` is the position of its event, and of its object in a list of objects;
    ``since_us`` is when it came, or was last released from being bound; ``failed_on``
    is the node on which its bind failed, if that is the last thing that happened to it
    as of the end of a batch; ``keeps`` says that it is a node service that keeps its node;
    ``needs`` is what it needs of devices, and ``devices`` the numbers of those that it holds;
    ``retries`` is how often its work may still fail; ``failed_binds`` is how many of its
    binds failed in a row, and ``failed_at_us`` when the last of them did; ``estimate_us`` is
    how long it will run, as its event says, and ``bound_at_us`` when it was bound; ``run_limit_us``
    is how long it may run, as its event says, and ``limit_us`` how long it may as it was bound;
    ``once`` says that it is gone after it was bound.
    """

    app: App
    name: str
    resources: Resources
    priority: int
    creation: tuple[int, int]
    number: int
    required: str | None
    selector: dict[str, str]
    run_for_us: int | None
    preempts: bool = False
    since_us: int = 0
    gang: str | None = None
    says: GangFields = NO_FIELDS
    place: AskPlace = AskPlace.PENDING
    node: str | None = None
    held_order: int = 0
    bound_order: int = 0
    ends_at: int | None = None
    failures: int = 0
    failed_on: str | None = None
    keeps: bool = False
    retries: int = 0
    failed_binds: int = 0
    failed_at_us: int = 0
    needs: Mapping[str, DeviceNeed] = attrs.field(factory=dict[str, DeviceNeed])
    devices: dict[str, tuple[int, ...]] | None = None
    estimate_us: int | None = None
    bound_at_us: int = 0
    run_limit_us: int | None = None
    start_by_us: int | None = None
    limit_us: int | None = None
    once: bool = False
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    wants: dict[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        of_devices = {kind: need.milli or MILLI * need.count for kind, need in self.needs.items()}
        self.wants = {**self.resources, **as_resources(of_devices)}

    def say(self, kind: Kind, node: str | None, reason: Reason | None = None) -> Decision:
        """Make a decision about this ask."""
        return Decision(
            kind,
            app=self.app.name,
            ask=self.name,
            node=node,
            queue=self.app.queue,
            gang=self.gang,
            reason=reason,
        )

    @property
    def full(self) -> str:
        """Its name with that of its application."""
        return f"{self.app.name}/{self.name}"

    @property
    def held(self) -> bool:
        """It has a node."""
        return self.node is not None


@attrs.define(eq=False)
class App:
    """One application; a Completed one is only remembered, it is in no queue any more.

    ``counts_for`` is the group for whose limits it counts, if it does for any.
    """

    name: str
    queue: str
    creation: tuple[int, int]
    skips_starting: bool
    user: str | None = None
    groups: tuple[str, ...] = ()
    counts_for: str | None = None
    state: str = "New"
    deadline: int | None = None
    asks: dict[str, Ask] = attrs.field(factory=dict[str, Ask])

    def pending(self) -> list[Ask]:
        """Return the asks that compete for a node."""
        return [ask for ask in self.asks.values() if ask.place is AskPlace.PENDING]

    def held(self) -> list[Ask]:
        """Return the asks that have one, waiting or bound."""
        return [ask for ask in self.asks.values() if ask.held]


@attrs.define(eq=False)
class Gang:
    """A gang that is defined or has members; which ones, the asks say.

    Attributes:
        name: Its full name.
        manifest: What its object says, or None without one.
        noted: What annotations said; it stays while the gang has members.
        forgotten: Its definition was removed: what annotations on members that are
            still there said counts again only when it is defined anew.
        creation: The position of the event that defined it; None while it is not.
        failed: Which member made its cycle invalid, as ``app/ask``.
        since_us: When the present wait began.
        timeouts: How many timeouts in a row have marked it.
        timeout: When the timeout was that has marked it, and which one in a row for its group.
    """

    name: str
    manifest: GangFields | None = None
    noted: GangFields = NO_FIELDS
    forgotten: bool = False
    creation: int | None = None
    satisfied: bool = False
    timed_out: bool = False
    cycle_valid: bool = True
    failed: str | None = None
    since_us: int | None = None
    timeouts: int = 0
    timeout: tuple[int, int] | None = None

    @property
    def definition(self) -> GangDefinition | None:
        """What defines it: annotations over the object; None if nothing does."""
        return define(self.noted.over(self.manifest or NO_FIELDS))


@attrs.define(eq=False)
class Queue:
    """One queue, configured or made on the fly; ``limits`` is its ``max``."""

    path: str
    is_parent: bool
    guaranteed: Resources
    limits: dict[str, int]
    max_applications: int
    settings: Settings
    template: Template | None = None
    acls: tuple[Acl, ...] = ()
    entries: tuple[LimitEntry, ...] = ()
    dynamic: bool = False
    draining: bool = False


@attrs.define
class PastUsage:
    """The usage of a user or queue up to the end of the last tick, and since then: by type."""

    used: dict[str, int] = attrs.field(factory=dict[str, int])
    recent: dict[str, int] = attrs.field(factory=dict[str, int])


@attrs.define(eq=False)
class Node:
    """One node; what is used on it is the sum of the asks waiting or bound there.

    ``written`` is its ``capacity`` without its devices, which are its ``stock``; ``reserved`` is what
    others have of it that are no asks.
    """

    name: str
    written: Resources
    attributes: dict[str, str]
    schedulable: bool
    stock: Mapping[str, DeviceStock] = attrs.field(factory=dict[str, DeviceStock])
    reserved: Mapping[str, int] = attrs.field(factory=dict[str, int])
    taints: tuple[Taint, ...] = ()
    capacity: Resources = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.equip(self.written, self.stock)

    def equip(self, written: Resources, stock: Mapping[str, DeviceStock]) -> None:
        """Give it another capacity or other devices, which count as a resource type."""
        self.written, self.stock = written, stock
        of_devices = {kind: MILLI * stock.count for kind, stock in self.stock.items()}
        self.capacity = Resources({**written, **as_resources(of_devices)})

    def for_asks(self, name: str) -> int:
        """Return how much of a type others leave to asks; less than nothing if they have more."""
        return self.capacity[name] - self.reserved.get(name, 0)


@attrs.frozen
class AskShape:
    """What an ask needs, of devices and of resources, each sorted by type."""

    devices: tuple[tuple[str, DeviceNeed], ...]
    resources: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, devices: Mapping[str, DeviceNeed], resources: Mapping[str, int]) -> AskShape:
        """Make the shape of an ask."""
        return cls(tuple(sorted(devices.items())), tuple(sorted(resources.items())))

    def only(self, types: Collection[str]) -> AskShape:
        """Leave of its resources those of some types."""
        return AskShape(self.devices, tuple(one for one in self.resources if one[0] in types))


@attrs.frozen(order=True)
class Instant:
    """When asks are released that hold a node: known ends by time, then the unknown ones.

    Attributes:
        is_unknown: It is that of a single ask whose end is not known.
        place: The time in microseconds; of an unknown one the place of its assignment.
    """

    is_unknown: bool
    place: int

    @property
    def start_us(self) -> int | None:
        """The time in microseconds; None if it is unknown."""
        return None if self.is_unknown else self.place


@attrs.frozen(eq=False)
class Reservation:
    """The nodes that are kept for those who cannot be placed yet, as they were found.

    Attributes:
        scope: The path of the queue whose scope it is of.
        group: The names of the gangs of its group; none of an ask by itself.
        start: The first instant at which all can be placed.
        nodes: Who gets which node, in the order in which they were placed.
    """

    scope: str
    group: frozenset[str]
    start: Instant
    nodes: tuple[tuple[Ask, str], ...]

    @property
    def asks(self) -> frozenset[Ask]:
        """Return whom it is for."""
        return frozenset(ask for ask, _ in self.nodes)


@attrs.define(eq=False)
class Searches:
    """For which parties a round sought reservations.

    Attributes:
        began: The moves that there were when the round began.
        sought: The moves that there were when each party was sought for, the first time.
    """

    began: int
    sought: dict[frozenset[Ask], int] = attrs.field(factory=dict[frozenset[Ask], int])


@attrs.define(eq=False)
class Rounds:
    """The changes by the rounds of the present batch, as far as they can be undone.

    Attributes:
        log_length: The length of the log when they began.
        states: State and deadline of each application then.
        bound: The asks that they bound and that are still bound.
        evicted: The asks whose eviction they announced.
    """

    log_length: int = 0
    states: dict[str, tuple[str, int | None]] = attrs.field(
        factory=dict[str, tuple[str, int | None]]
    )
    bound: list[Ask] = attrs.field(factory=list[Ask])
    evicted: list[Ask] = attrs.field(factory=list[Ask])


def empty_configuration() -> Configuration:
    """Return the configuration in force before the first event."""
    return Configuration(
        partition="default", root=QueueConfig(name=ROOT, path=ROOT, is_parent=True)
    )


@attrs.define(eq=False)
class World:
    """Everything that there is, and the log and the instant of the present or last batch.

    ``shapes`` are the shapes of all asks with devices that ever came, and ``learned`` those that
    are typical as long as no others are named.

    The present or last round has ``reserved``, the round before it ``reserved_before``; what is
    reserved for each ask was ``announced`` when the batch before ended; each round of the batch
    has its ``searches``. ``usage`` is what queues have had, by path, and their users, by path and
    name. Where parents share by weight it was found what their children have ``deserved`` since the
    rounds of the batch began, by path. ``over_since`` is since when queues are over their ``max``, by path.
    ``reached`` counts how often rules were reached, to tell whether scenarios
    are about them.
    """

    config: Configuration = attrs.field(factory=empty_configuration)
    queues: dict[str, Queue] = attrs.field(factory=dict[str, Queue])
    apps: dict[str, App] = attrs.field(factory=dict[str, App])
    nodes: dict[str, Node] = attrs.field(factory=dict[str, Node])
    classes: dict[str, PriorityClass] = attrs.field(factory=lambda: dict(BUILT_IN_CLASSES))
    gangs: dict[str, Gang] = attrs.field(factory=dict[str, Gang])
    log: list[Decision] = attrs.field(factory=list[Decision])
    rounds: Rounds = attrs.field(factory=Rounds)
    now_us: int = 0
    positions: int = 0
    item: int = 0
    moves: int = 0
    taken: dict[Ask, object] = attrs.field(factory=dict[Ask, object])
    lost: set[object] = attrs.field(factory=set[object])
    shapes: list[AskShape] = attrs.field(factory=list[AskShape])
    learned: list[AskShape] = attrs.field(factory=list[AskShape])
    reserved: list[Reservation] = attrs.field(factory=list[Reservation])
    reserved_before: list[Reservation] = attrs.field(factory=list[Reservation])
    announced: dict[Ask, Decision] = attrs.field(factory=dict[Ask, Decision])
    searches: list[Searches] = attrs.field(factory=list[Searches])
    usage: dict[tuple[str, str | None], PastUsage] = attrs.field(
        factory=dict[tuple[str, str | None], PastUsage]
    )
    over_since: dict[str, int] = attrs.field(factory=dict[str, int])
    reached: Counter[str] = attrs.field(factory=Counter[str])
    deserved: dict[str, dict[str, int]] = attrs.field(factory=dict[str, dict[str, int]])

    @property
    def event_position(self) -> tuple[int, int]:
        """The position of what is coming: of the event, and in a list of objects."""
        return (self.positions, self.item)

    def in_queues(self) -> list[App]:
        """Return the applications that are in a queue, the oldest first."""
        present = [app for app in self.apps.values() if app.state not in GONE_STATES]
        return sorted(present, key=lambda app: app.creation)

    def below(self, path: str) -> list[App]:
        """Return the applications in a queue or below it, the oldest first."""
        return [app for app in self.in_queues() if path in lineage(app.queue)]

    def asks(self) -> list[Ask]:
        """Return all asks."""
        return [ask for app in self.apps.values() for ask in app.asks.values()]

    def bound(self) -> list[Ask]:
        """Return the bound asks in the order in which they were bound."""
        asks = [ask for ask in self.asks() if ask.place is AskPlace.BOUND]
        return sorted(asks, key=lambda ask: ask.bound_order)

    def waiting(self) -> list[Ask]:
        """Return the waiting asks in the order in which they began to wait."""
        asks = [ask for ask in self.asks() if ask.place is AskPlace.WAITING]
        return sorted(asks, key=lambda ask: ask.held_order)

    def pending(self) -> list[Ask]:
        """Return the pending asks."""
        return [ask for ask in self.asks() if ask.place is AskPlace.PENDING]

    def children(self, path: str) -> list[Queue]:
        """Return the queues directly below a queue."""
        return [queue for queue in self.queues.values() if parent_path(queue.path) == path]


def parent_path(path: str) -> str | None:
    """Return the path of the queue above, or None for the root."""
    above, dot, _ = path.rpartition(".")
    return above if dot else None


@cache
def lineage(path: str) -> tuple[str, ...]:
    """Return a path and the paths above it, up to the root."""
    above = parent_path(path)
    return (path,) if above is None else (path, *lineage(above))


def device_type(kind: str) -> str:
    """Return the resource type that stands for a type of devices."""
    return f"device/{kind}"


def as_resources(devices: Mapping[str, int]) -> dict[str, int]:
    """Return milli of devices as resources."""
    return {device_type(kind): milli for kind, milli in devices.items()}


def total_of(asks: Iterable[Ask]) -> dict[str, int]:
    """Add up what asks want, type by type."""
    return total(ask.wants for ask in asks)


def total(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up amounts, type by type."""
    result: dict[str, int] = {}
    for amount in amounts:
        add(result, amount)
    return result


def add(result: dict[str, int], amount: Mapping[str, int]) -> None:
    """Add an amount to a sum, type by type."""
    for name, value in amount.items():
        result[name] = result.get(name, 0) + value


_ASK: Final = (
    *("place", "node", "held_order", "bound_order", "ends_at", "failures", "since_us"),
    *("failed_binds", "failed_at_us", "bound_at_us", "devices", "limit_us"),
)
_APP: Final = ("state", "deadline")
_GANG: Final = ("satisfied", "since_us")


class Trial:
    """Remembers everything that placing and evicting asks changes.

    Args:
        world: What there is.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._log = list(world.log)
        self._moves = world.moves
        self._taken, self._lost = dict(world.taken), set(world.lost)
        self._gangs = dict(world.gangs)
        self._asks = {name: dict(app.asks) for name, app in world.apps.items()}
        self._rounds = attrs.evolve(
            world.rounds, bound=list(world.rounds.bound), evicted=list(world.rounds.evicted)
        )
        rows: list[tuple[Ask | App | Gang, tuple[str, ...]]] = []
        rows += [(ask, _ASK) for ask in world.asks()]
        rows += [(app, _APP) for app in world.apps.values()]
        rows += [(gang, _GANG) for gang in world.gangs.values()]
        self._values = [(one, name, getattr(one, name)) for one, names in rows for name in names]

    def undo(self) -> None:
        """Bring everything back; once."""
        for one, name, value in self._values:
            setattr(one, name, value)
        self._world.log, self._world.moves = self._log, self._moves
        self._world.rounds = self._rounds
        self._world.gangs = self._gangs
        for name, asks in self._asks.items():
            self._world.apps[name].asks = asks
        self._world.taken, self._world.lost = self._taken, self._lost


Alike = tuple[object, ...]


def alike(ask: Ask) -> Alike:
    """Return what asks have in common that differ in their names alone."""
    wants, selector = tuple(sorted(ask.wants.items())), tuple(sorted(ask.selector.items()))
    needs = tuple(sorted(ask.needs.items()))
    return (
        ask.app.name,
        wants,
        needs,
        selector,
        *(frozenset(ask.tolerations), _in_no_order(ask.affinity)),
        ask.required,
        ask.priority,
        ask.preempts,
        ask.gang,
    )


def _in_no_order(affinity: Affinity | None) -> frozenset[object] | None:
    """Leave out of an affinity in which order it was written, and what was written twice."""
    if affinity is None:
        return None
    return frozenset(
        frozenset((one.key, one.operator, frozenset(one.values)) for one in term)
        for term in affinity
    )


def forget(world: World) -> None:
    """Forget what was taken: something new came in, or a bind failed."""
    world.taken.clear()
    world.lost.clear()


def evicted(world: World, ask: Ask) -> None:
    """Take note that an ask was evicted, which may have taken something before."""
    taking = world.taken.pop(ask, None)
    if taking is not None:
        world.lost.add(taking)


def note_failed_binds(world: World) -> None:
    """Note for each ask the node of its failed bind, from the log of the batch that ends now."""
    for app in world.apps.values():
        for ask in app.asks.values():
            decisions = [one for one in world.log if (one.app, one.ask) == (app.name, ask.name)]
            ask.failed_on = _failed_on(ask, decisions)


def _failed_on(ask: Ask, decisions: list[Decision]) -> str | None:
    """Follow an ask: what is undone in the batch in which it was done counts for nothing."""
    node, before = ask.failed_on, None
    for one in decisions:
        if one.kind is Kind.ASSIGNED:
            node, before = None, node
        elif one.kind is Kind.RELEASED:
            failed = one.reason is Reason.BIND_FAILED
            node, before = (one.node if failed else before), None
    return node


_MOST = 64
"""A back-off is never longer than so many times the delay."""


def failed(ask: Ask, now_us: int) -> None:
    """The bind of an ask failed once more: at once, when it was to start, or in its work."""
    ask.failed_binds += 1
    ask.failed_at_us = now_us


def lost(ask: Ask, now_us: int) -> None:
    """An ask was released from being bound and is pending again, though no bind failed."""
    ask.since_us = now_us
    ask.failed_binds = 0


def ends(world: World, ask: Ask) -> int | None:
    """Return the instant from which on a pending ask is tried again; None if no bind failed.

    The delay is that of the leaf now, as it is of ``preemption.delay``.
    """
    delay_us = world.queues[ask.app.queue].settings.bind_retry_us
    if not ask.failed_binds or not delay_us:
        return None
    return ask.failed_at_us + delay_us * min(1 << (ask.failed_binds - 1), _MOST)


def backs_off(world: World, ask: Ask) -> bool:
    """Return whether an ask, if it is pending, is left out wherever asks are picked."""
    end_us = ends(world, ask)
    return end_us is not None and world.now_us < end_us


def awake(world: World, asks: list[Ask]) -> list[Ask]:
    """Leave of some pending asks those that may be picked."""
    return [ask for ask in asks if not backs_off(world, ask)]


def deadlines(world: World) -> list[int]:
    """Return the instants, later than now, at which pending asks may be picked again."""
    found = [ends(world, ask) for ask in world.pending() if backs_off(world, ask)]
    return [end_us for end_us in found if end_us is not None]


def scope_of(world: World, leaf: str) -> Queue | None:
    """Return the queue below which a leaf is in one scope with others; None if there is none."""
    for path in reversed(lineage(leaf)):
        queue = world.queues[path]
        if queue.settings.scheduling_order is not SchedulingOrder.GREEDY:
            return queue
    return None


def backfill_scope(world: World, ask: Ask) -> Queue | None:
    """Return the queue of the backfill scope in which an ask is."""
    found = scope_of(world, ask.app.queue)
    if found is None or found.settings.scheduling_order is not SchedulingOrder.BACKFILL:
        return None
    return found


def blocked_by(world: World, ask: Ask) -> set[str]:
    """Return the paths of what an ask that did not fit shuts: its leaf, or a strict scope."""
    leaf = world.queues[ask.app.queue]
    blocked = {leaf.path} if leaf.settings.blocking else set[str]()
    scope = scope_of(world, leaf.path)
    if scope is not None and scope.settings.scheduling_order is SchedulingOrder.STRICT:
        world.reached["strict stop"] += 1
        blocked.add(scope.path)
    return blocked


def estimate_us(world: World, ask: Ask) -> int | None:
    """Return how long an ask will run once it is bound, in microseconds; None if unknown."""
    if ask.estimate_us is not None:
        return ask.estimate_us
    if ask.run_for_us is not None:
        return ask.run_for_us
    limit_us = ask.limit_us if ask.place is AskPlace.BOUND else run_limit_us(world, ask)
    if limit_us is not None:
        world.reached["a run limit is the estimate"] += 1
        return limit_us
    return world.queues[ask.app.queue].settings.estimate_us


def run_limit_us(world: World, ask: Ask) -> int | None:
    """Return for how long an ask may run that is bound now, in microseconds; None for ever."""
    of_leaf_us = world.queues[ask.app.queue].settings.run_limit_us
    limits = [ask.run_limit_us, of_leaf_us or None]
    return min((limit for limit in limits if limit is not None), default=None)


def expected_end_us(world: World, ask: Ask) -> int | None:
    """Return when an ask is expected to end, always later than now; None if unknown."""
    length_us = estimate_us(world, ask)
    if ask.place is not AskPlace.BOUND or length_us is None:
        return None
    while ask.bound_at_us + length_us <= world.now_us:
        world.reached["exceeded"] += 1
        length_us *= 2
    return ask.bound_at_us + length_us


def release_of(world: World, ask: Ask) -> Instant:
    """Return when an ask is released that holds a node."""
    end_us = expected_end_us(world, ask)
    return Instant(True, ask.held_order) if end_us is None else Instant(False, end_us)


def instants(world: World) -> list[Instant]:
    """Return every instant at which something is released, the first first."""
    return sorted({release_of(world, ask) for ask in world.asks() if ask.held})


def released_by(world: World, instant: Instant, staying: Collection[Ask]) -> set[Ask]:
    """Return what is released up to an instant; some asks stay whatever is expected of them."""
    held = {ask for ask in world.asks() if ask.held} - set(staying)
    return {ask for ask in held if release_of(world, ask) <= instant}


def is_after_now(world: World, instant: Instant) -> bool:
    """Return whether an instant, found some time ago, is still to come."""
    if instant.is_unknown:
        return instant in instants(world)
    return instant.place > world.now_us
