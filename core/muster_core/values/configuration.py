"""A configuration as the machines use it: typed, checked, nothing inherited left to do.

CONFIG-2, CONFIG-39. The tree of :class:`QueueConfig` holds for each queue what was
written (``guaranteed``, ``max``, …) and :class:`Settings`, its properties with
the inherited ones filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import final

import attrs

from muster_core.values.resources import Resources


@final
class SortPolicy(StrEnum):
    """``application.sort.policy``: the order of the applications of a leaf."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"


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


@final
@attrs.frozen
class Settings:
    """The properties of one queue, defaults and inherited values filled in.

    Attributes:
        sort_policy: ``application.sort.policy``.
        sort_by_priority: ``application.sort.priority`` is ``enabled``.
        blocking: ``application.sort.blocking`` is ``enabled``.
        fence: ``priority.policy`` is ``fence``.
        offset: ``priority.offset``, an int32.
        queue_priority: ``queue.priority``, 0 … 2147483647.
        reclaimable: ``queue.reclaimable``.
        create: ``queue.create`` is ``enabled``.
        preemption_policy: ``preemption.policy``.
        preemption_delay_us: ``preemption.delay`` in microseconds.
        gang_wait_us: ``gang.wait.time`` in microseconds.
        deadlock_policy: ``gang.deadlock.policy``.
    """

    sort_policy: SortPolicy = SortPolicy.FIFO
    sort_by_priority: bool = True
    blocking: bool = False
    fence: bool = False
    offset: int = 0
    queue_priority: int = 0
    reclaimable: bool = True
    create: bool = True
    preemption_policy: PreemptionPolicy = PreemptionPolicy.DEFAULT
    preemption_delay_us: int = 30_000_000
    gang_wait_us: int = 600_000_000
    deadlock_policy: DeadlockPolicy = DeadlockPolicy.RESOLVE


@final
@attrs.frozen
class Acl:
    """Who is admitted: users, groups, or all.

    Attributes:
        everybody: ``*`` stands on either side.
        users: The names of users.
        groups: The names of groups.
    """

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@final
@attrs.frozen
class Template:
    """What a queue made on the fly gets: the ``childtemplate`` of a queue above it.

    Attributes:
        properties: The properties as written.
    """

    guaranteed: Resources
    max: Limits
    max_applications: int
    properties: tuple[tuple[str, str], ...]


@final
@attrs.frozen
class Limits:
    """A ``max``: a type that is not named is not limited, one with 0 is not allowed.

    Attributes:
        amounts: Type and amount in base units, in the order of the names.
    """

    amounts: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Limits:
        """Make one from the amount of each type that is named, zeros included."""
        return cls(tuple(sorted(amounts.items())))

    def __bool__(self) -> bool:
        """Say whether any type is named."""
        return bool(self.amounts)


@final
@attrs.frozen
class QueueConfig:
    """One configured queue.

    Attributes:
        name: Its own name, in lower case.
        path: Its full path from ``root``, in lower case.
        is_parent: It has children, or says ``parent: true``, or is the root.
        guaranteed: What it is guaranteed; 0 is the same as not named.
        max: What it may use at the most.
        max_applications: 0 is no limit.
        settings: Its properties, with inherited ones.
        own_properties: The properties as written; for inheritance.
        template: Its own ``childtemplate``, or None.
        submit_acl: None where it gives none.
        admin_acl: None where it gives none.
        children: In the order of the text.
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
    children: tuple[QueueConfig, ...] = ()


@final
@attrs.frozen
class Configuration:
    """The partition that runs, and what was said while it was loaded.

    Attributes:
        partition: Its name.
        node_sort: The order of nodes.
        node_weights: Type and weight, in the order of the names.
        preemption_enabled: ``preemption.enabled``.
        root: The queue ``root``.
        warnings: What an operator should know, in the order of the text.
    """

    partition: str
    root: QueueConfig
    node_sort: NodeSortPolicy = NodeSortPolicy.FAIR
    node_weights: tuple[tuple[str, float], ...] = (("memory", 1.0), ("vcore", 1.0))
    preemption_enabled: bool = True
    warnings: tuple[str, ...] = ()
