"""A checked configuration, with defaults and inherited values filled in."""

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
