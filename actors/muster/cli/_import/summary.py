"""What an import says at its end: what is in the feed, what is not, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from muster.cli._options import STDOUT
from muster.feeds import date_text
from muster.figures.text import counted
from muster.importing import Cause, Workload, Written
from muster.importing.workload.texts import seconds_of

_MOST_QUEUES = 8
"""The most queues that are named."""


_CHANGED = "in the feed in another form"


def lines(workload: Workload, written: Written, target: str) -> Iterator[str]:
    """Yield the lines of the summary."""
    account = workload.account
    read = " and ".join(counted(number, what) for what, number in sorted(account.read.items()))
    yield f"read: {read}"
    name = "standard output" if target == STDOUT else target
    gangs = f" ({counted(written.gangs, 'gang')})" if written.gangs else ""
    yield (
        f"{name}: {counted(written.apps, 'application')} with {counted(written.asks, 'ask')}"
        f"{gangs} on {counted(written.nodes, 'node')}"
    )
    if written.first_us is not None and written.last_us is not None:
        first, last = (_instant(at_us, written) for at_us in (written.first_us, written.last_us))
        yield f"submitted: from {first} to {last}"
    named = ", ".join(written.queues[:_MOST_QUEUES])
    more = len(written.queues) - _MOST_QUEUES
    yield f"queues: {named}" + (f" and {more:,} more" if more > 0 else "")
    if workload.remarks:
        yield "configuration:"
        yield from (f"  {remark}" for remark in workload.remarks)
    for title, causes in (
        ("left out", account.left_out),
        ("not in the feed", account.notes),
        (_CHANGED, account.changes),
    ):
        if causes:
            yield f"{title}:"
            yield from map(_cause, causes)


def _instant(at_us: int, written: Written) -> str:
    return date_text(at_us) if written.is_dated else f"{seconds_of(at_us)} s"


def _cause(cause: Cause) -> str:
    example = f": {cause.example}" if cause.example else ""
    first = f"first {cause.first}" if cause.count > 1 else cause.first
    return f"  {counted(cause.count, cause.what)}: {cause.text} ({first}{example})"


def as_map(workload: Workload, written: Written, target: str) -> dict[str, object]:
    """Return the summary as JSON."""
    account = workload.account
    return {
        "feed": target,
        "read": dict(sorted(account.read.items())),
        "taken": dict(sorted(account.taken.items())),
        "left_out": [_cause_map(cause) for cause in account.left_out],
        "not_in_feed": [_cause_map(cause) for cause in account.notes],
        "in_another_form": [_cause_map(cause) for cause in account.changes],
        "remarks": list(workload.remarks),
        "events": written.events,
        "apps": written.apps,
        "asks": written.asks,
        "gangs": written.gangs,
        "nodes": written.nodes,
        "queues": list(written.queues),
        "first": None if written.first_us is None else _json_instant(written.first_us, written),
        "last": None if written.last_us is None else _json_instant(written.last_us, written),
    }


def instant_of(written: Written) -> Callable[[int], str | int | float]:
    """Return what writes an instant, given in microseconds since the start of a feed, for JSON."""
    origin_us = written.first_us or 0
    return lambda at_us: _json_instant(origin_us + at_us, written)


def _json_instant(at_us: int, written: Written) -> str | int | float:
    return date_text(at_us) if written.is_dated else seconds_of(at_us)


def _cause_map(cause: Cause) -> dict[str, object]:
    return {
        "what": cause.what,
        "cause": cause.text,
        "count": cause.count,
        "first": cause.first,
        "example": cause.example,
    }
