"""The reasons why an ask is not running."""

from __future__ import annotations

from muster_core.values.reasons import (
    UNKNOWN_START,
    Code,
    ComparedKey,
    Explanation,
    Fact,
    Forecast,
    Level,
    Outlook,
    Passed,
    PendingReason,
    Reserved,
    Shortfall,
    Start,
)

__all__ = [
    "UNKNOWN_START",
    "Code",
    "ComparedKey",
    "Explanation",
    "Fact",
    "Forecast",
    "Level",
    "Outlook",
    "Passed",
    "PendingReason",
    "Reserved",
    "Shortfall",
    "Start",
]
