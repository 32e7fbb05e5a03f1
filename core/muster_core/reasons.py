"""The reasons why an ask is not running."""

from __future__ import annotations

from muster_core.values.outlook import UNKNOWN_START, Forecast, Outlook, Start
from muster_core.values.reasons import (
    Code,
    ComparedKey,
    Explanation,
    Fact,
    Level,
    PendingReason,
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
    "PendingReason",
    "Start",
]
