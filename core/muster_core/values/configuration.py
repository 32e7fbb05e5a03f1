"""A checked configuration: queues, limits and placement rules, with inherited values.

CONFIG-2, CONFIG-39. The tree of :class:`QueueConfig` holds what was written for each queue
(``guaranteed``, ``max``, …) and its :class:`Settings`: its properties, including inherited ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, final

import attrs

from muster_core.enumerations import quick_members
from muster_core.values.devices import DeviceNeeds
from muster_core.values.errors import Problem
from muster_core.values.resources import Resources


# CONFIG-25
@final
@attrs.frozen
class Limits:
    """A ``max``: types that it does not name have no limit, and types with 0 are not allowed.

    Attributes:
        amounts: Pairs of a type and its limit in base units, sorted by type.
    """

    amounts: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Limits:
        """Create limits from the amount of each named type; zeros are kept."""
        return cls(tuple(sorted(amounts.items())))

    def __bool__(self) -> bool:
        """Return whether it limits any type."""
        return bool(self.amounts)


EVERY_NAME: Final = "*"
"""In ``users`` or ``groups``: all that no other entry of the queue names."""


# LIMIT-2, PLACEMENT-4
USER_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
"""The legal names of users."""

# LIMIT-2, PLACEMENT-4
GROUP_NAME: Final = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
"""The legal names of groups."""


@final
@attrs.frozen
class LimitEntry:
    """One entry of the ``limits`` of a queue.

    Each user and each group that it names has the limit alone.

    Attributes:
        users: The names of users, or ``*``.
        groups: The names of groups, or ``*``.
        max: Its ``maxresources``; a type that is not named is not limited, 0 allows nothing.
        max_applications: Its ``maxapplications``; 0 means no limit.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max: Limits = Limits()
    max_applications: int = 0


@final
@quick_members
class RuleName(StrEnum):
    """The ``name`` of a placement rule: the source of the name of the queue."""

    PROVIDED = "provided"
    USER = "user"
    TAG = "tag"
    FIXED = "fixed"


@final
@attrs.frozen
class PlacementFilter:
    """The ``filter`` of a placement rule: whom the rule is for.

    Attributes:
        deny: Whether its ``type`` is ``deny``: the rule is for those that it does not hit.
    """

    deny: bool = False
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@final
@attrs.frozen
class PlacementRule:
    """One rule of ``placementrules``, or the rule for its parent queue.

    Attributes:
        name: The source of the name of the queue.
        value: Its ``value`` as written: the name of a tag, or a queue; empty if there is none.
        create: Whether the queue that it gives may be made.
        filter: Whom it is for.
        parent: The rule that gives the queue above, or None for ``root``.
    """

    name: RuleName
    value: str = ""
    create: bool = False
    filter: PlacementFilter = PlacementFilter()
    parent: PlacementRule | None = None


@final
@quick_members
class SortPolicy(StrEnum):
    """``application.sort.policy``: the order of the applications of a leaf."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"


# BACKFILL-1
@final
@quick_members
class SchedulingOrder(StrEnum):
    """``scheduling.order``: whether asks may overtake others that do not fit."""

    GREEDY = "greedy"
    STRICT = "strict"
    BACKFILL = "backfill"


@final
@quick_members
class PreemptionPolicy(StrEnum):
    """``preemption.policy`` of a queue."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


@final
@quick_members
class DeadlockPolicy(StrEnum):
    """``gang.deadlock.policy`` of the root queue."""

    RESOLVE = "resolve"
    REPORT = "report"


@final
@quick_members
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
        create: Whether ``queue.create`` is ``enabled``; None if neither the queue nor one
            above it says so.
        bind_retry_us: ``bind.retry.delay`` in microseconds; 0 is off.
        gang_retry_us: ``gang.retry.delay`` in microseconds; 0 is off.
        gang_retry_limit: ``gang.retry.limit``: after how many timeouts in a row there is a retry.
        scheduling_order: ``scheduling.order`` as the queue itself says it.
        backfill_depth: ``backfill.depth`` as the queue itself says it, 1 … 100.
        estimate_us: ``estimate.default`` in microseconds, or None if it is unknown.
        run_limit_us: ``run.limit`` in microseconds; 0 is off.
        quota_preemption_us: ``quota.preemption.delay`` in microseconds; 0 is off.
        min_runtime_us: ``preemption.min.runtime`` in microseconds.
        aging_us: ``priority.aging`` in microseconds; 0 is off.
        aging_limit: ``priority.aging.limit``.
        share_by_weight: Whether ``share.policy`` is ``weight``.
        weight: ``queue.weight``, at least 1.
        half_life_us: ``usage.half.life`` in microseconds; 0 is off.
        usage_of_users: Whether ``usage.users`` is ``enabled``.
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
    gang_retry_us: int = 0
    gang_retry_limit: int = 10
    second_try: bool = False
    bind_retry_us: int = 0
    scheduling_order: SchedulingOrder = SchedulingOrder.GREEDY
    backfill_depth: int = 1
    estimate_us: int | None = None
    run_limit_us: int = 0
    quota_preemption_us: int = 0
    min_runtime_us: int = 0
    aging_us: int = 0
    aging_limit: int = 100
    share_by_weight: bool = False
    weight: int = 1
    half_life_us: int = 0
    usage_of_users: bool = False
    priority_limit: int | None = None


USAGE_USERS: Final = "usage.users"
"""The property by which a leaf counts its users."""


# USAGE-15
def usage_lacks(own: Settings, above: Settings, *, of_user: bool) -> str | None:
    """Return the property without which some usage is not counted; None if it is counted.

    Args:
        own: The settings of the queue, which count for its users.
        above: Those of the queue above it, which count for the queue itself.
        of_user: Whether it is the usage of a user of the queue.
    """
    if not (own if of_user else above).half_life_us:
        return "usage.half.life"
    return USAGE_USERS if of_user and not own.usage_of_users else None


@final
@attrs.frozen
class Acl:
    """An access control list: the users and groups that it admits.

    Attributes:
        everybody: Whether it admits every user, by a ``*`` among the users or groups.
    """

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@final
@attrs.frozen
class Template:
    """A ``childtemplate``: the settings of dynamic queues below the queue that has it."""

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
        max_applications: Its ``maxapplications``; 0 means no limit.
        own_properties: Its properties as written; for inheritance.
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
# USAGE-15
def lack_of_usage(root: QueueConfig, path: str, *, of_user: bool) -> tuple[str, str] | None:
    """Return why a configuration does not count some usage: which queue lacks which property.

    Args:
        root: The queues of the configuration.
        path: The queue that has the usage.
        of_user: Whether it is that of a user of the queue.

    Returns:
        The path and the property; None if the usage is counted, or there is no such queue.
    """
    above = queue = root
    for name in path.split(".")[1:]:
        found = next((child for child in queue.children if child.name == name), None)
        if found is None:
            return None
        above, queue = queue, found
    lacks = usage_lacks(queue.settings, above.settings, of_user=of_user)
    return None if lacks is None else ((queue if of_user else above).path, lacks)


@final
@attrs.frozen
class TypicalAsk:
    """A typical ask of ``nodesortpolicy.typical``, for which ``fgd`` keeps devices usable.

    Attributes:
        devices: Its need of each type of devices, in the order of the types.
        resources: The other resources that it needs.
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
        node_weights: Pairs of a type and its weight, sorted by type.
        quota_preemption: ``preemption.quotapreemptionenabled``.
        placement_rules: Its ``placementrules``; empty if applications name their queues.
        warnings: Messages for an operator, in the order of the text; they are announced.
        located_warnings: The same warnings with their places, and those for the author of the text
            alone, which are not announced: about names that look like a slip, and idle properties.
        types: The resource types that it names, in the order of the text.
        typical: The typical asks for ``fgd``; empty if they are learned.
    """

    partition: str
    root: QueueConfig
    node_sort: NodeSortPolicy = NodeSortPolicy.FAIR
    # ORDER-25
    node_weights: tuple[tuple[str, float], ...] = (("memory", 1.0), ("vcore", 1.0))
    preemption_enabled: bool = True
    quota_preemption: bool = False
    placement_rules: tuple[PlacementRule, ...] = ()
    warnings: tuple[str, ...] = ()
    # Lines do not count when two configurations are compared.
    located_warnings: tuple[Problem, ...] = attrs.field(default=(), eq=False)
    types: tuple[NamedType, ...] = attrs.field(default=(), eq=False)
    typical: tuple[TypicalAsk, ...] = ()
