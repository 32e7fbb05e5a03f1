"""Decisions: the results of the scheduler, for the decision log."""

from __future__ import annotations

from muster_core.values.decisions import (
    EVICTIONS,
    GONE,
    MICROSECONDS,
    Announced,
    Decision,
    Kind,
    Reason,
    announce,
    decision_on_app,
    decision_on_ask,
    ends_ask,
    seconds,
)

__all__ = [
    "EVICTIONS",
    "GONE",
    "MICROSECONDS",
    "Announced",
    "Decision",
    "Kind",
    "Reason",
    "announce",
    "decision_on_app",
    "decision_on_ask",
    "ends_ask",
    "seconds",
]
