"""Snapshots: frozen copies of the state between two batches."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, final

import attrs

from muster_core.enumerations import quick_members
from muster_core.gangs import GangDefinition
from muster_core.values.affinity import Taint
from muster_core.values.application_states import AppState
from muster_core.values.event_fields import Work
from muster_core.values.records import MAP
from muster_core.values.resources import Resources


@final
@quick_members
class AskPlace(StrEnum):
    """The place of an ask; an ask is in exactly one place."""

    PENDING = "pending"
    PARKED = "parked"
    WAITING = "waiting"
    BOUND = "bound"


@final
@attrs.frozen
class AskSnapshot:
    """An ask.

    Attributes:
        resources: The resources that it asks for or holds.
        node: The node that it holds, or None unless it is waiting or bound.
        retries: How often it is still tried again after its work has failed.
        failed_binds: How many of its binds have failed in a row.
        last_failed_us: When the last of these failed, in microseconds since the start, or None.
        work: Its work, or None.
        devices: The numbers of the devices that it holds, by type.
        aged: Its present priority, with its age; None if it is bound or its queue lets nothing age.
    """

    name: str
    place: AskPlace
    priority: int
    resources: Resources
    node: str | None = None
    gang: str | None = None
    retries: int = 0
    failed_binds: int = 0
    last_failed_us: int | None = None
    work: Work | None = None
    devices: Mapping[str, tuple[int, ...]] = attrs.field(factory=MAP)
    aged: int | None = None


@final
@attrs.frozen
class AppSnapshot:
    """An application.

    Attributes:
        group: The group for which it counts in limits, ``*`` for the one of all users, or None.
    """

    name: str
    queue: str
    state: AppState
    priority: int | None
    asks: tuple[AskSnapshot, ...]
    user: str | None = None
    group: str | None = None


@final
@attrs.frozen
class QueueSnapshot:
    """A queue.

    Attributes:
        recomputations: How often its ``currentPriority`` was computed so far; 0 while asks of some
            queue age, as it is then computed whenever they do.
        children: How many queues or applications are directly below it.
    """

    key: int
    path: str
    draining: bool
    priority: int | None
    allocated: Mapping[str, int]
    pending: Mapping[str, int]
    recomputations: int
    children: int


@final
@attrs.frozen
class GangSnapshot:
    """A gang, or a placeholder for members of a gang that is not defined.

    Attributes:
        definition: Its definition with defaults filled in, or None.
        waiting: Its waiting members as ``(application, ask)``, in the order in which they
            began to wait.
        since_us: When its present wait began, in microseconds since the start, or None.
    """

    name: str
    definition: GangDefinition | None
    satisfied: bool = False
    timed_out: bool = False
    cycle_valid: bool = True
    waiting: tuple[tuple[str, str], ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    pending: tuple[tuple[str, str], ...] = ()
    parked: tuple[tuple[str, str], ...] = ()
    since_us: int | None = None


@final
@attrs.frozen
class LimitSnapshot:
    """The usage of a limit by a user or a group.

    Attributes:
        queue: The path of the queue that has the limit.
        user: The user; None if it is the limit of a group, or of all applications without a user.
        group: The group, ``*`` for the one of all others; None if it is the limit of a user.
        max: The ``maxresources``; a type that is not named is not limited.
        max_applications: The ``maxapplications``; 0 means no limit.
    """

    queue: str
    user: str | None
    group: str | None
    max: Mapping[str, int]
    max_applications: int
    allocated: Mapping[str, int]
    running: int


@final
@attrs.frozen
class DeviceSnapshot:
    """The devices of one type on a node.

    Attributes:
        free: The free milli of each device, by number.
    """

    model: str | None
    free: tuple[int, ...]


@final
@attrs.frozen
class NodeSnapshot:
    """A node.

    Attributes:
        used: The resources of the asks on it.
        attributes: Its attributes, which selectors of asks name.
        reserved: The usage of others than asks.
        taints: Its taints.
    """

    name: str
    capacity: Mapping[str, int]
    used: Mapping[str, int]
    schedulable: bool
    attributes: Mapping[str, str] = attrs.field(factory=MAP)
    devices: Mapping[str, DeviceSnapshot] = attrs.field(factory=MAP)
    reserved: Mapping[str, int] = attrs.field(factory=MAP)
    taints: tuple[Taint, ...] = attrs.field(default=(), kw_only=True)


# EXPECT-15
@final
@attrs.frozen
class ReservationSnapshot:
    """The reservation for an ask.

    Attributes:
        start_us: When the reservation starts, in microseconds since the start, or None if that is
            not known.
        scope: The path of the queue whose ``scheduling.order`` it belongs to.
    """

    node: str
    start_us: int | None
    scope: str


# USAGE-16
@final
@attrs.frozen
class UsageSnapshot:
    """The recent usage of a queue, or of a user of a leaf.

    Attributes:
        queue: The path of the queue, or of the leaf of the user.
        user: The user, ``""`` for the nameless one; None if this is the usage of the queue.
        used: The usage at the last end of a tick by type, in base units times microseconds, without
            zeros.
        past_share: The past share.
        weight: The weight among the siblings: ``queue.weight``, and 1 for a user.
        half_life_us: In which time half is forgotten, in microseconds.
        had: The part that it had of what it and its siblings have used, from 0 to 1: past share times
            weight, divided by the sum of these.
        due: The part that its weight gives it, above 0 and at most 1.
    """

    queue: str
    user: str | None
    used: Mapping[str, int]
    past_share: float
    weight: int
    half_life_us: int
    had: float
    due: float

    @property
    def name(self) -> str:
        """Its name in ``expect``: ``path``, or ``path/user``."""
        return self.queue if self.user is None else f"{self.queue}/{self.user}"

    @property
    def unit_seconds(self) -> dict[str, int]:
        """The usage in base units times seconds, rounded down, without zeros."""
        return {name: most for name, used in self.used.items() if (most := used // _SECOND_US)}


_SECOND_US: Final = 1_000_000


@final
@attrs.frozen
class Snapshot:
    """The whole state at the end of a batch.

    Attributes:
        at_us: The instant, in microseconds since the start.
        apps: Every application that has not completed, by name.
        completed: The names of completed applications; if there are very many, the latest ones.
        shares: The fair share of every queue, by path.
        deserved: What each queue deserves whose parent shares by weight, by path; without zeros.
        nodes: Every node, by name, in the order in which they are tried.
        gangs: Every gang that is defined or has members, by full name.
        limits: Every limit of a user or a group for which an application counts, by queue; the
            users come before the groups.
        reservations: The reservations that the last round has left, by ``app/ask``: by the path of
            the scope, then in the order of the reservations and of placing.
        usage: What every queue below a parent with a ``usage.half.life`` has used lately, and every
            user of a leaf with ``usage.users``: by path, the users after their leaf.
    """

    at_us: int
    apps: Mapping[str, AppSnapshot]
    completed: frozenset[str]
    queues: Mapping[str, QueueSnapshot]
    shares: Mapping[str, float]
    nodes: Mapping[str, NodeSnapshot]
    gangs: Mapping[str, GangSnapshot] = attrs.field(factory=MAP)
    limits: tuple[LimitSnapshot, ...] = ()
    reservations: Mapping[str, ReservationSnapshot] = attrs.field(factory=MAP)
    usage: tuple[UsageSnapshot, ...] = ()
    deserved: Mapping[str, Mapping[str, int]] = attrs.field(factory=MAP)


@final
@attrs.frozen
class Statistics:
    """Counts since the start.

    Attributes:
        requests: Events, including refused ones.
        steps: Steps of rounds: asks tried on a node, and leaves found blocked.
        bound: Binds.
        refused: Refused events.
        decisions: Announced decisions.
    """

    requests: int
    batches: int
    steps: int
    bound: int
    refused: int
    decisions: int
