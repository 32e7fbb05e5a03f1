"""What is in use of a limit, and how often each limit has refused something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.limits.requests import Requests
from muster.service.problems import Problem

if TYPE_CHECKING:
    from muster.service.options import Limits

RETRY_AFTER_S: Final = 1
"""When a client that was refused for lack of room may come again, in seconds."""

NAMES: Final = (
    "body",
    "body_time",
    "calls",
    "connections",
    "events",
    "head",
    "head_time",
    "idle_time",
    "nesting",
    "streams",
    "write_time",
)
"""The names of all limits, as the metrics and the log have them."""


# ACCESS-10
@final
class Refusals:
    """Counts what was refused, by limit.

    Attributes:
        by_limit: For each name in :data:`NAMES` how often this limit has refused something.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(NAMES, 0)

    @property
    def by_limit(self) -> Mapping[str, int]:
        """Return how often each limit has refused something."""
        return self._counts

    def count(self, limit: str) -> None:
        """Count that a limit has refused something.

        Args:
            limit: Its name, one of :data:`NAMES`.
        """
        self._counts[limit] += 1


@final
class Slots:
    """A limit on how many of something there are at the same time.

    Args:
        limit: The name of the limit.
        most: How many there may be.
        refusals: Counts what is refused.

    Attributes:
        limit: The name of the limit.
        most: How many there may be.
        in_use: How many there are.
    """

    def __init__(self, limit: str, most: int, refusals: Refusals) -> None:
        self.limit = limit
        self.most = most
        self.in_use = 0
        self._refusals = refusals

    def take(self) -> None:
        """Take a place; whoever takes one has to :meth:`leave` it.

        Raises:
            Problem: 503 if none is free; it is counted.
        """
        if self.in_use >= self.most:
            self._refusals.count(self.limit)
            told = f"there are {self.in_use} {self.limit} already: come again later"
            raise Problem(503, told, headers={"Retry-After": str(RETRY_AFTER_S)})
        self.in_use += 1

    def leave(self) -> None:
        """Give the place back."""
        self.in_use -= 1

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a place for the time of a block; raises as :meth:`take`."""
        self.take()
        try:
            yield
        finally:
            self.leave()


@final
@attrs.frozen(eq=False)
class Usage:
    """All limits of a service, with what is in use and what was refused.

    Attributes:
        limits: How much the service takes.
        refusals: What was refused, by limit.
        connections: The open connections.
        streams: The open streams.
        calls: The calls that wait for an answer of the scheduler.
        requests: What is counted of requests.
    """

    limits: Limits
    refusals: Refusals
    connections: Slots
    streams: Slots
    calls: Slots
    requests: Requests

    @classmethod
    def of(cls, limits: Limits) -> Usage:
        """Return the usage of a service that begins."""
        refusals = Refusals()
        return cls(
            limits,
            refusals,
            Slots("connections", limits.connections, refusals),
            Slots("streams", limits.streams, refusals),
            Slots("calls", limits.calls, refusals),
            Requests(),
        )

    def refuse(self, limit: str, status: int, detail: str) -> Problem:
        """Count a refusal, and return the problem to raise.

        Args:
            limit: The name of the limit, one of :data:`NAMES`.
            status: The status of the response.
            detail: What is too much, and what would be right.
        """
        self.refusals.count(limit)
        return Problem(status, detail)

    # ACCESS-11
    def check_events(self, count: int) -> None:
        """Check how many events a request has.

        Raises:
            Problem: 413 if they are too many; it is counted.
        """
        most = self.limits.events
        if count > most:
            told = f"the request has more than {most} events: send them in several"
            raise self.refuse("events", 413, told)

    def check_nesting(self, value: object) -> None:
        """Check how deep a value of JSON or msgpack is nested; lists and maps are levels.

        Raises:
            Problem: 400 if it is too deep; it is counted.
        """
        most = self.limits.nesting
        level, depth = [value], 0
        while level := [one for one in level if isinstance(one, (list, tuple, dict))]:
            depth += 1
            if depth > most:
                told = f"a value is nested deeper than {most} levels"
                raise self.refuse("nesting", 400, told)
            level = [
                inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
            ]
