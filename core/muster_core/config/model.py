"""A checked configuration, with defaults and inherited values filled in."""

from __future__ import annotations

from muster_core.values.configuration.limits import Limits
from muster_core.values.configuration.partition import (
    Acl,
    Configuration,
    DeadlockPolicy,
    NamedType,
    NodeSortPolicy,
    PreemptionPolicy,
    QueueConfig,
    SchedulingOrder,
    Settings,
    SortPolicy,
    Template,
)
from muster_core.values.configuration.placement_rules import (
    PlacementFilter,
    PlacementRule,
    RuleName,
)
from muster_core.values.configuration.user_limits import LimitEntry

__all__ = [
    "Acl",
    "Configuration",
    "DeadlockPolicy",
    "LimitEntry",
    "Limits",
    "NamedType",
    "NodeSortPolicy",
    "PlacementFilter",
    "PlacementRule",
    "PreemptionPolicy",
    "QueueConfig",
    "RuleName",
    "SchedulingOrder",
    "Settings",
    "SortPolicy",
    "Template",
]
