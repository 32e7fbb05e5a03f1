"""The naive model's state: what is there, and nothing that can be computed from it.

No totals, no priorities, no orders are kept. Whoever wants one computes it from
the asks, so that nothing here can be stale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache

import attrs

from muster_core.config.model import Acl, Configuration, QueueConfig, Settings, Template
from muster_core.decisions import Decision, Kind, Reason
from muster_core.gangs import NO_FIELDS, GangDefinition, GangFields, define
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
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
    how long it will run, as its event says, and ``bound_at_us`` when it was bound.
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
        """Give the asks that compete for a node."""
        return [ask for ask in self.asks.values() if ask.place is AskPlace.PENDING]

    def held(self) -> list[Ask]:
        """Give the asks that have one, waiting or bound."""
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


@attrs.define(eq=False)
class Node:
    """One node; what is used on it is the sum of the asks waiting or bound there.

    ``written`` is its ``capacity`` without its devices, which are its ``stock``.
    """

    name: str
    written: Resources
    attributes: dict[str, str]
    schedulable: bool
    stock: Mapping[str, DeviceStock] = attrs.field(factory=dict[str, DeviceStock])
    capacity: Resources = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.equip(self.written, self.stock)

    def equip(self, written: Resources, stock: Mapping[str, DeviceStock]) -> None:
        """Give it another capacity or other devices, which count as a resource type."""
        self.written, self.stock = written, stock
        of_devices = {kind: MILLI * stock.count for kind, stock in self.stock.items()}
        self.capacity = Resources({**written, **as_resources(of_devices)})


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
        """Give whom it is for."""
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
    """What the rounds of the present batch have done, as far as it can be undone.

    Attributes:
        said: The length of the log when they began.
        states: State and deadline of each application then.
        bound: What was bound by them and is bound still.
        evicted: What they evicted, and said so.
    """

    said: int = 0
    states: dict[str, tuple[str, int | None]] = attrs.field(
        factory=dict[str, tuple[str, int | None]]
    )
    bound: list[Ask] = attrs.field(factory=list[Ask])
    evicted: list[Ask] = attrs.field(factory=list[Ask])


def empty_configuration() -> Configuration:
    """Give what is in force before the first configuration."""
    return Configuration(
        partition="default", root=QueueConfig(name=ROOT, path=ROOT, is_parent=True)
    )


@attrs.define(eq=False)
class World:
    """Everything that there is, and the log and the instant of the present or last batch.

    ``came`` are the shapes of all asks with devices that ever came, and ``learned`` those that
    are typical as long as no others are named.

    The present or last round has ``reserved``, the round before it ``reserved_before``; what is
    reserved for each ask was ``announced`` when the batch before ended; each round of the batch
    has its ``searches``. ``reached`` counts how often rules were reached, to tell whether scenarios
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
    came: list[AskShape] = attrs.field(factory=list[AskShape])
    learned: list[AskShape] = attrs.field(factory=list[AskShape])
    reserved: list[Reservation] = attrs.field(factory=list[Reservation])
    reserved_before: list[Reservation] = attrs.field(factory=list[Reservation])
    announced: dict[Ask, Decision] = attrs.field(factory=dict[Ask, Decision])
    searches: list[Searches] = attrs.field(factory=list[Searches])
    reached: Counter[str] = attrs.field(factory=Counter[str])

    @property
    def here(self) -> tuple[int, int]:
        """The position of what is coming: of the event, and in a list of objects."""
        return (self.positions, self.item)

    def in_queues(self) -> list[App]:
        """Give the applications that are in a queue, the oldest first."""
        present = [app for app in self.apps.values() if app.state not in GONE_STATES]
        return sorted(present, key=lambda app: app.creation)

    def below(self, path: str) -> list[App]:
        """Give the applications in a queue or below it, the oldest first."""
        return [app for app in self.in_queues() if path in lineage(app.queue)]

    def asks(self) -> list[Ask]:
        """Give all asks."""
        return [ask for app in self.apps.values() for ask in app.asks.values()]

    def bound(self) -> list[Ask]:
        """Give the bound asks in the order in which they were bound."""
        asks = [ask for ask in self.asks() if ask.place is AskPlace.BOUND]
        return sorted(asks, key=lambda ask: ask.bound_order)

    def waiting(self) -> list[Ask]:
        """Give the waiting asks in the order in which they began to wait."""
        asks = [ask for ask in self.asks() if ask.place is AskPlace.WAITING]
        return sorted(asks, key=lambda ask: ask.held_order)

    def pending(self) -> list[Ask]:
        """Give the pending asks."""
        return [ask for ask in self.asks() if ask.place is AskPlace.PENDING]

    def children(self, path: str) -> list[Queue]:
        """Give the queues directly below a queue."""
        return [queue for queue in self.queues.values() if parent_path(queue.path) == path]


def parent_path(path: str) -> str | None:
    """Give the path of the queue above, or None for the root."""
    above, dot, _ = path.rpartition(".")
    return above if dot else None


@cache
def lineage(path: str) -> tuple[str, ...]:
    """Give a path and the paths above it, up to the root."""
    above = parent_path(path)
    return (path,) if above is None else (path, *lineage(above))


def device_type(kind: str) -> str:
    """Give the resource type that stands for a type of devices."""
    return f"device/{kind}"


def as_resources(devices: Mapping[str, int]) -> dict[str, int]:
    """Give milli of devices as resources."""
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
