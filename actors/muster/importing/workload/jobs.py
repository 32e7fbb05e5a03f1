"""A job as an importer finds it: an application with its asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

Amounts = Mapping[str, int | float | str]
"""Resources as a feed writes them, such as ``{"vcore": 4, "memory": 1024}``."""

NONE: Final[Mapping[str, str]] = {}


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
