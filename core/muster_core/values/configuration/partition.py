"""A checked configuration, with defaults and inherited values filled in.

CONFIG-2, CONFIG-39. The tree of :class:`QueueConfig` holds what was written for each queue
(``guaranteed``, ``max``, …) and its :class:`Settings`: its properties, including inherited ones.
"""

from __future__ import annotations

from enum import StrEnum
from typing import final

import attrs

from muster_core.values.configuration.limits import Limits
from muster_core.values.configuration.placement_rules import PlacementRule
from muster_core.values.configuration.user_limits import LimitEntry
from muster_core.values.devices import DeviceNeeds
from muster_core.values.errors import Problem
from muster_core.values.resources import Resources


@final
class SortPolicy(StrEnum):
    """``application.sort.policy``: the order of the applications of a leaf."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"


# BACKFILL-1
@final
class SchedulingOrder(StrEnum):
    """``scheduling.order``: whether asks may overtake others that do not fit."""

    GREEDY = "greedy"
    STRICT = "strict"
    BACKFILL = "backfill"


@final
class PreemptionPolicy(StrEnum):
    """``preemption.policy`` of a queue."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


@final
class DeadlockPolicy(StrEnum):
    """``gang.deadlock.policy`` of the root queue."""

    RESOLVE = "resolve"
    REPORT = "report"


@final
class NodeSortPolicy(StrEnum):
    """``nodesortpolicy.type`` of a partition."""

    FAIR = "fair"
    BINPACKING = "binpacking"
    # DEVICE-14
    BESTFIT = "bestfit"
    FGD = "fgd"


# CONFIG-39
@final
@attrs.frozen
class Settings:
    """The properties of one queue, with defaults and inherited values filled in.

    Attributes:
        sort_policy: ``application.sort.policy``.
        sort_by_priority: Whether ``application.sort.priority`` is ``enabled``.
        blocking: Whether ``application.sort.blocking`` is ``enabled``.
        fence: Whether ``priority.policy`` is ``fence``.
        offset: ``priority.offset``, an int32.
        queue_priority: ``queue.priority``, 0 … 2147483647.
        reclaimable: ``queue.reclaimable``.
        create: Whether ``queue.create`` is ``enabled``; None if neither the queue nor one
            above it says so.
        preemption_policy: ``preemption.policy``.
        preemption_delay_us: ``preemption.delay`` in microseconds.
        required_node: Whether ``preemption.required.node`` is ``enabled``.
        gang_wait_us: ``gang.wait.time`` in microseconds.
        deadlock_policy: ``gang.deadlock.policy``.
        bind_retry_us: ``bind.retry.delay`` in microseconds; 0 is off.
        scheduling_order: ``scheduling.order`` as the queue itself says it.
        backfill_depth: ``backfill.depth`` as the queue itself says it, 1 … 100.
        estimate_us: ``estimate.default`` in microseconds, or None if it is unknown.
        priority_limit: ``priority.limit``, an int32; None if neither the queue nor one above it
            says so. No decision depends on it: a service refuses asks by it.
    """

    sort_policy: SortPolicy = SortPolicy.FIFO
    sort_by_priority: bool = True
    blocking: bool = False
    fence: bool = False
    offset: int = 0
    queue_priority: int = 0
    reclaimable: bool = True
    create: bool | None = None
    preemption_policy: PreemptionPolicy = PreemptionPolicy.DEFAULT
    preemption_delay_us: int = 30_000_000
    required_node: bool = False
    gang_wait_us: int = 600_000_000
    deadlock_policy: DeadlockPolicy = DeadlockPolicy.RESOLVE
    bind_retry_us: int = 0
    scheduling_order: SchedulingOrder = SchedulingOrder.GREEDY
    backfill_depth: int = 1
    estimate_us: int | None = None
    priority_limit: int | None = None


@final
@attrs.frozen
class Acl:
    """An access control list: the users and groups that it admits.

    Attributes:
        everybody: Whether it admits every user, by a ``*`` among the users or groups.
        users: The names of users.
        groups: The names of groups.
    """

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@final
@attrs.frozen
class Template:
    """A ``childtemplate``: the settings of dynamic queues below the queue that has it.

    Attributes:
        properties: The properties as written.
    """

    guaranteed: Resources
    max: Limits
    max_applications: int
    properties: tuple[tuple[str, str], ...]


@final
@attrs.frozen
class QueueConfig:
    """One configured queue.

    Attributes:
        name: Its own name, in lower case.
        path: Its full path from ``root``, in lower case.
        is_parent: Whether it has children, has ``parent: true``, or is the root.
        guaranteed: Its ``guaranteed``; a type with 0 counts as not named.
        max: Its ``max``.
        max_applications: Its ``maxapplications``; 0 means no limit.
        settings: Its properties, including inherited ones.
        own_properties: Its properties as written; for inheritance.
        template: Its own ``childtemplate``, or None.
        submit_acl: Its ``submitacl``, or None.
        admin_acl: Its ``adminacl``, or None.
        limits: Its ``limits``; those of the root are those of the partition.
        children: Its children, in the order of the text.
    """

    name: str
    path: str
    is_parent: bool
    guaranteed: Resources = Resources()
    max: Limits = Limits()
    max_applications: int = 0
    settings: Settings = Settings()
    own_properties: tuple[tuple[str, str], ...] = ()
    template: Template | None = None
    submit_acl: Acl | None = None
    admin_acl: Acl | None = None
    limits: tuple[LimitEntry, ...] = ()
    children: tuple[QueueConfig, ...] = ()


# DEVICE-17
@final
@attrs.frozen
class TypicalAsk:
    """A typical ask of ``nodesortpolicy.typical``, for which ``fgd`` keeps devices usable.

    Attributes:
        devices: What it needs of each type of devices, in the order of the types.
        resources: What else it needs.
        weight: How much it counts, 1 … 1,000,000.
    """

    devices: DeviceNeeds
    resources: Resources = Resources()
    weight: int = 1


@final
@attrs.frozen
class NamedType:
    """Where a configuration names a resource type for the first time.

    Attributes:
        name: The type.
        path: The path of the field.
        file: The name of the file, or None for a configuration given inline.
        line: The line, from 1, or None if it is not known.
    """

    name: str
    path: str
    file: str | None = None
    line: int | None = None


@final
@attrs.frozen
class Configuration:
    """The partition that runs, and the warnings from loading it.

    Attributes:
        partition: Its name.
        node_sort: The order of nodes.
        node_weights: Pairs of a type and its weight, sorted by type.
        preemption_enabled: ``preemption.enabled``.
        root: The queue ``root``.
        placement_rules: Its ``placementrules``; empty if applications name their queues.
        warnings: Messages for an operator, in the order of the text; they are announced.
        told: The same warnings with their places, and those about names that look like a slip,
            which are told to the author of the text and not announced.
        types: The resource types that it names, in the order of the text.
        typical: The typical asks for ``fgd``; empty if they are learned.
    """

    partition: str
    root: QueueConfig
    node_sort: NodeSortPolicy = NodeSortPolicy.FAIR
    # ORDER-25
    node_weights: tuple[tuple[str, float], ...] = (("memory", 1.0), ("vcore", 1.0))
    preemption_enabled: bool = True
    placement_rules: tuple[PlacementRule, ...] = ()
    warnings: tuple[str, ...] = ()
    # Two configurations are the same wherever they stand.
    told: tuple[Problem, ...] = attrs.field(default=(), eq=False)
    types: tuple[NamedType, ...] = attrs.field(default=(), eq=False)
    typical: tuple[TypicalAsk, ...] = ()
