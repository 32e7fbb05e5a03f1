"""A configuration as the machines use it: typed, checked, with everything inherited filled in."""

from __future__ import annotations

from muster_core.values.configuration import (
    Acl,
    Configuration,
    DeadlockPolicy,
    Limits,
    NodeSortPolicy,
    PreemptionPolicy,
    QueueConfig,
    Settings,
    SortPolicy,
    Template,
)

__all__ = [
    "Acl",
    "Configuration",
    "DeadlockPolicy",
    "Limits",
    "NodeSortPolicy",
    "PreemptionPolicy",
    "QueueConfig",
    "Settings",
    "SortPolicy",
    "Template",
]
