"""What has been counted since the ledger began."""

from __future__ import annotations

from typing import final

import attrs


@final
@attrs.define
class QueueCounts:
    """What has happened in one queue."""

    allocated: int = 0
    released: int = 0
    completed: int = 0


@final
@attrs.define
class Counts:
    """What has happened.

    Attributes:
        allocated: How many asks took a node.
        released: How many asks gave their node back.
        failed_binds: How many binds failed.
        refused_asks: How many events with new asks were refused.
        new_apps: How many applications came.
        accepted_apps: How many became Accepted.
        refused_apps: How many were refused.
        completed_apps: How many became Completed.
        queues: The same of each queue, by path.
    """

    allocated: int = 0
    released: int = 0
    failed_binds: int = 0
    refused_asks: int = 0
    new_apps: int = 0
    accepted_apps: int = 0
    refused_apps: int = 0
    completed_apps: int = 0
    queues: dict[str, QueueCounts] = attrs.field(factory=dict[str, QueueCounts])

    def of(self, queue: str) -> QueueCounts:
        """Return the counts of a queue."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = QueueCounts()
        return found
