"""The facts of a checkpoint: what the owners and the coordinator own and cannot compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.admission.facts import AdmissionFacts
from muster_core.admission.routes import (
    AnyRoute,
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.owners.messages.gangs import GangFacts, LoadGang
from muster_core.owners.messages.queues import LoadQueue, QueueFacts
from muster_core.owners.messages.to_applications import AppFacts, LoadApp
from muster_core.values.records import record
from muster_core.view.facts import ViewFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.values.configuration.partition import Configuration


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

    @property
    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self.coordinator.admission.configuration

    @property
    def has_begun(self) -> bool:
        """Whether there was a batch; otherwise all follows from the configuration."""
        return self.coordinator.batches > 0

    # CHECKPOINT-5
    def routes(self) -> Iterator[AnyRoute]:
        """Iterate over the messages that start all owners, each with its own facts."""
        for queue in self.queues:
            yield StartQueue(queue.key, queue.parent, queue.config)
            yield TellQueue(queue.key, LoadQueue(queue))
        for app in self.apps:
            yield StartApp(app.identity)
            yield TellApp(app.identity.key, LoadApp(app))
        for gang in self.gangs:
            yield StartGang(gang.key, gang.name)
            yield TellGang(gang.key, LoadGang(gang))
