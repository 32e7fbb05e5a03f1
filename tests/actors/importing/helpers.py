"""Imports for tests: the command, and the events of the feed that it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.actors.cli.helpers import run, run_json, written

Event = dict[str, Any]


def imported(kind: str, source: Path, *options: object) -> tuple[list[Event], dict[str, Any]]:
    """Import a dump; return the events of the feed, and the summary."""
    feed = source.parent / "feed.jsonl"
    words = [option if isinstance(option, Path) else str(option) for option in options]
    status, summary = run_json("import", kind, source, "-o", feed, *words)
    assert status == 0, summary
    events = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    return events, summary


def events_of(events: list[Event], op: str) -> list[Event]:
    """Return the events of an operation, without its name."""
    return [
        {name: value for name, value in event.items() if name != "op"}
        for event in events
        if event["op"] == op
    ]


def refusal(kind: str, source: Path, *options: object) -> str:
    """Return why a dump is refused, with exit status 2 and without a feed."""
    feed = source.parent / "feed.jsonl"
    words = [option if isinstance(option, Path) else str(option) for option in options]
    result = run("import", kind, source, "-o", feed, *words)
    assert result.exit_code == 2, result.output
    assert not feed.exists()
    return result.stderr


__all__ = ["Event", "events_of", "imported", "refusal", "written"]
