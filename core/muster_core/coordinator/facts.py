"""The facts of a checkpoint: what the owners and the coordinator own and cannot compute."""

from __future__ import annotations

from typing import final

from muster_core.admission.facts import AdmissionFacts
from muster_core.owners.messages.gangs import GangFacts
from muster_core.owners.messages.queues import QueueFacts
from muster_core.owners.messages.to_applications import AppFacts
from muster_core.values.records import record
from muster_core.view.facts import ViewFacts


@final
@record
class CoordinatorFacts:
    """What the coordinator owns.

    Attributes:
        now_us: The present instant, in microseconds.
        seq: The latest position in the input.
        requests: How many events there were so far.
        batches: How many batches there were so far.
        bound: How many binds were announced so far.
        refused: How many refusals were announced so far.
        announced: How many decisions were announced so far.
        admission: What admission owns.
        view: What the view owns.
    """

    now_us: int
    seq: int
    requests: int
    batches: int
    bound: int
    refused: int
    announced: int
    admission: AdmissionFacts
    view: ViewFacts


@final
@record
class Facts:
    """The facts of the whole scheduler, between two batches.

    Attributes:
        coordinator: What the coordinator owns.
        queues: What each queue owns, by key.
        apps: What each application owns, by key.
        gangs: What each gang owns, by key.
    """

    coordinator: CoordinatorFacts
    queues: tuple[QueueFacts, ...]
    apps: tuple[AppFacts, ...]
    gangs: tuple[GangFacts, ...]
