"""Limits: what is in use of each, how often each has refused something, and counts of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

import attrs

from muster._runtime.clock import Timings
from muster.service.options import NAMES, Limits
from muster.service.payloads import Problem

if TYPE_CHECKING:
    from starlette.types import Scope


ROUTE: Final = "muster.route"
"""Where the scope of a request has the template of its route."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@final
class RequestCounts:
    """Counts requests.

    Attributes:
        counts: How many there were, by route, method and status.
        times: How long it took until the answer began, by route and method.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int]] = Counter()
        self.times: dict[tuple[str, str], Timings] = {}

    def note(self, scope: Scope, status: int, took_s: float) -> None:
        """Count a request whose answer begins.

        Args:
            scope: The scope of the request.
            status: The status of the answer.
            took_s: How long it took until now, in seconds.
        """
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = scope.get(ROUTE, "other")
        self.counts[route, method, status] += 1
        times = self.times.get((route, method))
        if times is None:
            times = self.times[route, method] = Timings()
        times.note(took_s)


RETRY_AFTER_S: Final = 1
"""When a client that was refused for lack of room may come again, in seconds."""


def too_much(limit: str, most: float, status: int, detail: str) -> Problem:
    """Return the refusal of what is beyond a limit; the caller that answers it counts it.

    Args:
        limit: The name of the limit, one of :data:`NAMES`.
        most: How much there may be.
        status: The status of the response.
        detail: What is too much, and what would be right.
    """
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    return Problem(status, detail, headers=headers, limit=limit, most=most)


# ACCESS-11
def too_long(limits: Limits) -> Problem:
    """Return the refusal of a body that is too long."""
    most = limits.body_bytes
    return too_much("body_bytes", most, 413, f"the body is longer than {most} bytes")


# ACCESS-10
@final
class RefusalCounts:
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

    def note(self, problem: Problem) -> None:
        """Count a problem that is answered, if it is the refusal of a limit."""
        limit = problem.members.get("limit")
        if isinstance(limit, str):
            self.count(limit)


@final
class Slots:
    """A limit on how many of something there are at the same time.

    Args:
        limit: The name of the limit.
        most: How many there may be.

    Attributes:
        limit: The name of the limit.
        most: How many there may be.
        in_use: How many there are.
    """

    def __init__(self, limit: str, most: int) -> None:
        self.limit = limit
        self.most = most
        self.in_use = 0

    def take(self) -> None:
        """Take a place; the caller has to :meth:`leave` it.

        Raises:
            Problem: 503 if none is free.
        """
        if self.in_use >= self.most:
            message = f"there are {self.in_use} {self.limit} already: come again later"
            raise too_much(self.limit, self.most, 503, message)
        self.in_use += 1

    def leave(self) -> None:
        """Give the place back."""
        self.in_use -= 1

    @contextmanager
    def taken(self) -> Generator[None]:
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
    refusals: RefusalCounts
    connections: Slots
    streams: Slots
    calls: Slots
    requests: RequestCounts

    @classmethod
    def of(cls, limits: Limits) -> Usage:
        """Return the usage of a service that begins."""
        return cls(
            limits,
            RefusalCounts(),
            Slots("connections", limits.connections),
            Slots("streams", limits.streams),
            Slots("calls", limits.calls),
            RequestCounts(),
        )
