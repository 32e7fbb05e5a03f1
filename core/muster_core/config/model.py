"""A checked configuration, with defaults and inherited values filled in."""

from __future__ import annotations

from muster_core.values.configuration import (
    Acl,
    Configuration,
    DeadlockPolicy,
    LimitEntry,
    Limits,
    NamedType,
    NodeSortPolicy,
    PlacementFilter,
    PlacementRule,
    PreemptionPolicy,
    QueueConfig,
    RuleName,
    SchedulingOrder,
    Settings,
    SortPolicy,
    Template,
    TypicalAsk,
)

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
    "TypicalAsk",
]
