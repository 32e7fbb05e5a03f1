"""The reasons why an ask is not running."""

from __future__ import annotations

from muster_core.values.reasons import (
    Code,
    ComparedKey,
    Explanation,
    Fact,
    Level,
    PendingReason,
)

__all__ = [
    "Code",
    "ComparedKey",
    "Explanation",
    "Fact",
    "Level",
    "PendingReason",
]
