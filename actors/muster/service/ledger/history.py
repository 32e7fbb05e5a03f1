"""History: counts since the beginning; a point each minute, what ran; and series beside it."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, final

import attrs

from muster.service.ledger.series import Series

MINUTE_US: Final = 60_000_000
KEPT: Final = 1_440
"""How many points are kept: those of a day."""


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


@final
class Point(NamedTuple):
    """What ran at the end of a minute.

    Attributes:
        at_us: The end of the minute, in microseconds since the origin.
        apps: How many applications were Starting or Running.
        containers: How many asks held a node.
    """

    at_us: int
    apps: int
    containers: int


@final
class History:
    """The latest points, and what runs now.

    Attributes:
        apps: How many applications are Starting or Running.
        minute: The minutes since the origin that have a point.
        points: The points, oldest first.
        series: What was used, what waited, and how long.
    """

    def __init__(self) -> None:
        self.apps = 0
        self.minute: int | None = None
        self.points: deque[Point] = deque(maxlen=KEPT)
        self.series = Series()

    @property
    def containers(self) -> int:
        """How many asks hold a node."""
        return self.series.held

    def pass_until(self, now_us: int) -> None:
        """Add the points of the minutes that have ended, before anything changes."""
        minute = now_us // MINUTE_US
        if self.minute is None:
            self.minute = minute
        if minute > self.minute:
            first = max(self.minute + 1, minute - KEPT + 1)
            for number in range(first, minute + 1):
                self.points.append(Point(number * MINUTE_US, self.apps, self.containers))
            self.series.pass_minutes(self.minute, minute)
            self.minute = minute
