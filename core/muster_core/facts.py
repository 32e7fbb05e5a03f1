"""The facts of a checkpoint: values that hold everything of a scheduler that cannot be computed."""

from __future__ import annotations

from muster_core.admission.routes import AdmissionFacts, GangEntryFacts, GuessesFacts
from muster_core.coordinator.reports import CoordinatorFacts, Facts
from muster_core.owners.app_messages import AppFacts
from muster_core.owners.gang import GangFacts
from muster_core.owners.queue import QueueFacts
from muster_core.view.facts import (
    AlikeFacts,
    CompletionFacts,
    EvictionFacts,
    FailureFacts,
    HistoryFacts,
    LastRoundFacts,
    LearnedFacts,
    NodeFacts,
    StateEndFacts,
    TimerFacts,
    UsageFacts,
    ViewFacts,
)

__all__ = [
    "AdmissionFacts",
    "AlikeFacts",
    "AppFacts",
    "CompletionFacts",
    "CoordinatorFacts",
    "EvictionFacts",
    "Facts",
    "FailureFacts",
    "GangEntryFacts",
    "GangFacts",
    "GuessesFacts",
    "HistoryFacts",
    "LastRoundFacts",
    "LearnedFacts",
    "NodeFacts",
    "QueueFacts",
    "StateEndFacts",
    "TimerFacts",
    "UsageFacts",
    "ViewFacts",
]
