"""Messages to queues, a closed union :data:`ToQueue`, and the reports of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from muster_core.owners.messages.from_applications import AppReport, Values
from muster_core.values.configuration.partition import QueueConfig
from muster_core.values.records import record


@final
@record
class QueueSummary:
    """The state of a queue in a report.

    Attributes:
        key: Its key.
        parent: The key of its parent, or None for the root.
        config: Its settings.
        draining: Whether it is draining: it admits no new applications.
        values: The values that it adds to its parent.
        priority: Its ``currentPriority``, or None.
        gone: Whether the queue no longer exists.
    """

    key: int
    parent: int | None
    config: QueueConfig
    draining: bool
    values: Values
    priority: int | None
    gone: bool


@final
@record
class QueueReport:
    """All changes of a queue and everything below it in an epoch.

    Attributes:
        key: The key of the queue.
        epoch: The epoch.
        credits: How many requests to applications the report answers.
        queues: The reported queues, each parent before its children.
        apps: The reported applications.
    """

    key: int
    epoch: int
    credits: int
    queues: tuple[QueueSummary, ...]
    apps: tuple[AppReport, ...]

    @property
    def gone(self) -> bool:
        """Whether the reporting queue no longer exists."""
        return self.queues[0].gone


@final
@record
class SetQueue:
    """Replace the queue's settings."""

    config: QueueConfig
    draining: bool


@final
@record
class Retire:
    """Remove the queue, which is empty."""


@final
@record
class QueueFacts:
    """What a queue owns and cannot compute, between two batches.

    Attributes:
        key: Its key.
        parent: The key of its parent, or None for the root.
        config: Its settings.
        draining: Whether it is draining.
        recomputations: How often its ``currentPriority`` was computed so far.
        stale: Whether the next one who needs its ``currentPriority`` computes it again.
    """

    key: int
    parent: int | None
    config: QueueConfig
    draining: bool
    recomputations: int
    stale: bool


@final
@record
class LoadQueue:
    """Be as these facts say; the first message to a queue that is loaded."""

    facts: QueueFacts


@final
@record
class CommitQueue:
    """The new values of children of the queue after the rounds, by their keys."""

    children: Mapping[int, Values]


@final
@record
class Expect:
    """Expect this many reports of children for an epoch, and then report."""

    epoch: int
    children: int


ToQueue = SetQueue | Retire | LoadQueue | CommitQueue | Expect | AppReport | QueueReport
"""All messages to a queue."""
