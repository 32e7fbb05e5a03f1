"""Imports of a few objects, for tests."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, final

import attrs

from muster.feeds import parse_date
from muster.importing import Cause, ImportAccount, Workload, default_queues, read_queues
from muster.importing.kubernetes import FIELDS, QUEUES, read_kubernetes
from tests.actors.importing.kubernetes.samples import Object, as_json

Event = dict[str, Any]


@final
@attrs.frozen
class Fed:
    """A feed of some objects.

    Attributes:
        events: Its events.
        account: What became of the objects.
        settings: What a made configuration says of queues.
    """

    events: list[Event]
    account: ImportAccount
    settings: dict[str, Any]

    def of(self, op: str) -> list[Event]:
        """Return the events of an operation, without its name."""
        return [
            {name: value for name, value in event.items() if name not in ("op", "at")}
            for event in self.events
            if event["op"] == op
        ]

    @property
    def ask(self) -> Event:
        """The only ask."""
        (ask,) = self.of("add_ask")
        return ask

    @property
    def queues(self) -> list[str]:
        """The queue of each application."""
        return [app["queue"] for app in self.of("add_app")]

    @property
    def left_out(self) -> list[str]:
        """Why objects are left out."""
        return _texts(self.account.left_out)

    @property
    def notes(self) -> list[str]:
        """What was noted."""
        return _texts(self.account.notes)

    @property
    def changes(self) -> list[str]:
        """What is in the feed in another form."""
        return _texts(self.account.changes)


def _texts(causes: tuple[Cause, ...]) -> list[str]:
    return [f"{cause.count} {cause.what}: {cause.text}" for cause in causes]


def fed(
    *objects: Object, since: str | None = None, queues: Path | None = None, nodes_join: bool = False
) -> Fed:
    """Import objects."""
    dump, feed = as_json(*objects).encode(), io.BytesIO()
    rules = default_queues(QUEUES, FIELDS) if queues is None else read_queues(str(queues), FIELDS)
    with Workload() as workload:
        workload.since_us = None if since is None else parse_date(since)
        read_kubernetes(
            ["dump"], workload, rules, opener=lambda _: io.BytesIO(dump), nodes_join=nodes_join
        )
        workload.write(feed, {"config": {}})
    assert not workload.account.missing
    events = [json.loads(line) for line in feed.getvalue().splitlines()]
    return Fed(events, workload.account, dict(workload.settings))
