"""A point of history each minute: how many applications and containers ran."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, final

MINUTE_US: Final = 60_000_000
KEPT: Final = 1_440
"""How many points are kept: those of a day."""


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
        containers: How many asks hold a node.
        minute: The minutes since the origin that have a point.
        points: The points, oldest first.
    """

    def __init__(self) -> None:
        self.apps = 0
        self.containers = 0
        self.minute: int | None = None
        self.points: deque[Point] = deque(maxlen=KEPT)

    def pass_until(self, now_us: int) -> None:
        """Add the points of the minutes that have ended, before anything changes."""
        minute = now_us // MINUTE_US
        if self.minute is None:
            self.minute = minute
        if minute > self.minute:
            first = max(self.minute + 1, minute - KEPT + 1)
            for number in range(first, minute + 1):
                self.points.append(Point(number * MINUTE_US, self.apps, self.containers))
            self.minute = minute
