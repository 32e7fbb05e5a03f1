"""A job as an importer finds it: an application with its asks; and when jobs really started."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

Amounts = Mapping[str, int | float | str]
"""Resources as a feed writes them, such as ``{"vcore": 4, "memory": 1024}``."""

NONE: Final[Mapping[str, str]] = {}
_NEVER: Final = -(2**63)


@final
@attrs.frozen
class Part:
    """Asks of one job that are alike.

    Attributes:
        ask: The name of the ask; with a count above 1 the beginning of the names.
        resources: What each of them needs.
        count: How many they are.
        selector: The attributes that the node must have.
        node: The only node on which they may run, or None.
        run_us: How long each runs, in microseconds; None if it holds its room to the end.
        priority: Its priority.
        priority_class: Its priority class, which says its priority then, or None.
        retries: How often it is tried again after its work has failed.
        estimate_us: How long it was expected to run, in microseconds, or None.
    """

    ask: str
    resources: Amounts
    count: int = 1
    selector: Mapping[str, str] = NONE
    node: str | None = None
    run_us: int | None = None
    priority: int = 0
    priority_class: str | None = None
    retries: int = 0
    estimate_us: int | None = None

    def event(self, app: str, gang: str | None) -> dict[str, object]:
        """Return the event that adds the asks.

        Args:
            app: The application.
            gang: The gang whose members they are, or None.
        """
        event: dict[str, object] = {
            "op": "add_ask",
            "app": app,
            "ask": self.ask,
            "resources": self.resources,
        }
        if self.priority_class is not None:
            event["priority_class"] = self.priority_class
        elif self.priority:
            event["priority"] = self.priority
        if self.count > 1:
            event["count"] = self.count
        if gang is not None:
            event["gang"] = gang
        if self.node is not None:
            event["node"] = self.node
        if self.selector:
            event["selector"] = self.selector
        if self.run_us is not None:
            event["run_for"] = in_seconds(self.run_us)
        if self.retries:
            event["retries"] = self.retries
        # IMPORT-13
        if self.estimate_us is not None:
            event["estimate"] = in_seconds(self.estimate_us)
        return event


def in_seconds(time_us: int) -> int | float:
    """Return how long work runs, in seconds; work that took no time runs for 1 µs."""
    whole, part = divmod(max(time_us, 1), 1_000_000)
    return whole if not part else max(time_us, 1) / 1_000_000


@final
@attrs.frozen
class Job:
    """A job: what is submitted at one instant to one application.

    Attributes:
        at_us: When it was submitted, in microseconds: since 1970 in UTC, or since the start of a
            trace without dates.
        app: The name of its application. Several jobs may have the same one.
        queue: The path of its queue.
        parts: What it asks for.
        user: Who submitted it; empty if nobody is known.
        groups: The groups of the user.
        is_gang: Whether all its asks start together or not at all.
        gang: The gang of its asks that another event defines, or None.
        is_alone: Whether no other job has the same application.
        start_us: When it really started, in microseconds as ``at_us``; None if it did not, or
            nothing says it. No feed has it: a :class:`Starts` keeps it.
        partition: The part of the other system that it ran in, for the figures by partition.
    """

    at_us: int
    app: str
    queue: str
    parts: Sequence[Part]
    user: str = ""
    groups: Sequence[str] = ()
    is_gang: bool = False
    gang: str | None = None
    is_alone: bool = False
    start_us: int | None = None
    partition: str = ""

    def app_event(self, app: str) -> dict[str, object]:
        """Return the event that submits the application under a name."""
        event: dict[str, object] = {"op": "add_app", "app": app, "queue": self.queue}
        if self.user:
            event["user"] = self.user
        if self.groups:
            event["groups"] = list(self.groups)
        return event

    @property
    def ends_us(self) -> int | None:
        """When the last of it has ended at the earliest; None if it holds room to the end."""
        longest = 0
        for part in self.parts:
            if part.run_us is None:
                return None
            longest = max(longest, part.run_us)
        return self.at_us + longest


@final
class Starts:
    """When the jobs of a feed really started, in the order of the events that add their asks.

    Some 20 bytes a job: a feed may have a million of them.

    Attributes:
        origin_us: When the first job came, in microseconds: the start of the feed.
        partitions: The names of the partitions that jobs ran in.
    """

    def __init__(self) -> None:
        self.origin_us = 0
        self.partitions: list[str] = []
        self._numbers: dict[str, int] = {}
        self._starts_us = array("q")
        self._events = array("i")
        self._places = array("i")

    def __len__(self) -> int:
        return len(self._starts_us)

    def add(self, start_us: int | None, partition: str, events: int) -> None:
        """Add the next job.

        Args:
            start_us: When it started, in microseconds as the jobs have it, or None.
            partition: Its partition.
            events: How many events add its asks.
        """
        number = self._numbers.setdefault(partition, len(self._numbers))
        if number == len(self.partitions):
            self.partitions.append(partition)
        self._starts_us.append(_NEVER if start_us is None else start_us)
        self._places.append(number)
        self._events.append(events)

    def start_us(self, job: int) -> int | None:
        """Return when a job started, in microseconds since the start of the feed, or None."""
        start_us = self._starts_us[job]
        return None if start_us == _NEVER else start_us - self.origin_us

    def events_of(self, job: int) -> int:
        """Return how many events add the asks of a job."""
        return self._events[job]

    def partition_of(self, job: int) -> str:
        """Return the partition of a job; empty if nothing says it."""
        return self.partitions[self._places[job]]
