"""What queues report, and what a queue is told: one closed union, :data:`ToQueue`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from muster_core.owners.messages.from_applications import AppReport, Values
from muster_core.values.configuration import QueueConfig
from muster_core.values.records import record


@final
@record
class QueueSummary:
    """What a queue publishes of itself.

    Attributes:
        key: Its number.
        parent: The number of its parent, or None for the root.
        config: Its settings.
        draining: It takes no new applications.
        values: What counts of it in its parent.
        priority: Its ``currentPriority``, or None.
        gone: It has ceased to exist.
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
    """All that an epoch changed in a queue and below, at once.

    Attributes:
        key: Which queue.
        epoch: The epoch.
        credits: How many requests to applications it answers.
        queues: The queues that it speaks of, each parent before its children.
        apps: The applications that it speaks of.
    """

    key: int
    epoch: int
    credits: int
    queues: tuple[QueueSummary, ...]
    apps: tuple[AppReport, ...]

    @property
    def gone(self) -> bool:
        """Whether the queue that reports has ceased to exist."""
        return self.queues[0].gone


@final
@record
class SetQueue:
    """The queue's settings, from now on."""

    config: QueueConfig
    draining: bool


@final
@record
class Retire:
    """The queue is empty and is to go."""


@final
@record
class CommitQueue:
    """What the rounds changed in the children of a queue, by their keys."""

    children: Mapping[int, Values]


@final
@record
class Expect:
    """So many children will report for an epoch; then the queue is to report itself."""

    epoch: int
    children: int


ToQueue = SetQueue | Retire | CommitQueue | Expect | AppReport | QueueReport
"""Everything that a queue is told."""
