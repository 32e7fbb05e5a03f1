"""Snapshots: frozen copies of the state."""

from __future__ import annotations

from muster_core.values.snapshots import (
    AppSnapshot,
    AskPlace,
    AskSnapshot,
    DeviceSnapshot,
    GangSnapshot,
    LimitSnapshot,
    NodeSnapshot,
    QueueSnapshot,
    ReservationSnapshot,
    Snapshot,
    Statistics,
    UsageSnapshot,
)

__all__ = [
    "AppSnapshot",
    "AskPlace",
    "AskSnapshot",
    "DeviceSnapshot",
    "GangSnapshot",
    "LimitSnapshot",
    "NodeSnapshot",
    "QueueSnapshot",
    "ReservationSnapshot",
    "Snapshot",
    "Statistics",
    "UsageSnapshot",
]
