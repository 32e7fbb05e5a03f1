"""Why an ask is not running: the closed set of reasons."""

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
