"""``muster explain``: explain why an ask is not running, and what would help."""

from __future__ import annotations

from typing import final

import attrs
import click

from muster.cli._explain.text import print_answer, print_overview
from muster.cli._options import (
    DIFFERENT,
    FILE,
    UNUSABLE,
    Format,
    complain,
    error_map,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.cli._sources import Instant, as_time, opened_at
from muster.explain import Answer, Fate, Hold, Overview, RefusedSoFar, explain, explain_all
from muster.explain._maps import explanation_map, passed_map, reason_map, remedy_map
from muster.feeds import FeedError, date_text
from muster_core.decisions import seconds


@final
@attrs.frozen
class AskName:
    """The names of an ask and its application, as the user wrote them."""

    app: str
    ask: str


def _as_ask(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> AskName | None:
    """Parse the name of an ask.

    Raises:
        click.BadParameter: If it is not the name of an ask.
    """
    if value is None:
        return None
    app, slash, ask = value.partition("/")
    if not (app and slash and ask) or "/" in ask:
        msg = f"{value!r} is not an ask: write it as application/ask, such as 'job-1/worker-0'"
        raise click.BadParameter(msg)
    return AskName(app, ask)


# COMMAND-4
@click.command("explain", epilog=example("muster explain feed.yaml --at 1h30m --ask job/worker-3"))
@click.argument("feed", type=FILE)
@click.option(
    "--at",
    callback=as_time,
    metavar="TIME",
    help="The instant since the start, in seconds, like 1h30m or 01:30:00; its events are included. "
    "It may be a date such as 2026-01-31T18:30:00Z. [default: the instant of the last event]",
)
@click.option(
    "--ask",
    callback=_as_ask,
    metavar="APP/ASK",
    help="The ask to explain. `worker-3` belongs to an `add_ask` of `worker` with a `count`.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Explain all asks that are not running, grouped by their dominant reason.",
)
@click.option(
    "--why-only",
    is_flag=True,
    help="Do not search for changes that would help. (Each trial needs a copy of the state.)",
)
@format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    feed: str,
    at: Instant | None,
    ask: AskName | None,
    everything: bool,
    why_only: bool,
    output: Format,
) -> None:
    """Say why an ask is not running at an instant, and what would help.

    Replays FEED in virtual time up to that instant. Prints all reasons, the dominant one first,
    and compares the ask with the one that is tried first, at every level of the queue tree. Then
    prints changes that would help: first what lets the ask start at all, and when it then starts,
    then what gets it bound at once. Each was tried alone. You can copy its events into the feed,
    behind the events of the instant. Amounts are the smallest that are enough. `-` is standard input. A state directory is replayed from the newest checkpoint
    before the instant.

    Prints events that were refused up to that instant on standard error.

    Exit status: 0 if there is an answer, 1 if the feed has no such ask or all its events were
    refused, 2 if the arguments or the feed cannot be used.
    """
    if ask is None and not everything:
        msg = "give --ask APP/ASK, or --all for all asks that are not running"
        raise click.UsageError(msg)
    if ask is not None and everything:
        msg = "--ask and --all exclude each other: give one of them"
        raise click.UsageError(msg)
    try:
        with opened_at(feed, at) as source:
            at_us = source.us(at, "--at")
            if ask is None:
                overview = explain_all(source.items, at_us=at_us, kept=source.kept)
                _tell_refusals(feed, overview.refusals)
                _tell_all(feed, overview, output, source.origin.us)
                context.exit(DIFFERENT if overview.refusals.all else 0)
            answer = explain(
                source.items,
                ask.app,
                ask.ask,
                at_us=at_us,
                search=not why_only,
                kept=source.kept,
            )
    except FeedError as error:
        complain(str(error))
        if output is Format.JSON:
            print_json({"error": error_map(error)})
        context.exit(UNUSABLE)
    _tell_refusals(feed, answer.refusals)
    origin_us, found = source.origin.us, _answer_map(answer)
    if output is Format.JSON:
        print_json({**_head(feed, origin_us), **found})
    else:
        print_answer(answer, found, origin_us, searched=not why_only)
    if answer.whereabouts.fate is Fate.UNKNOWN:
        complain(f"{name_of(feed)}: {answer.app}/{answer.ask}: {answer.whereabouts.message}")
        context.exit(DIFFERENT)
    if answer.refusals.all:
        context.exit(DIFFERENT)


def _tell_refusals(feed: str, refusals: RefusedSoFar) -> None:
    """Print the refused events of the feed to standard error."""
    for remark in refusals.first:
        place = f"event {remark.index}" if remark.line is None else remark.line
        complain(f"{name_of(feed)}:{place}: refused: {remark.message}")
    if len(refusals.first) < refusals.count:
        complain(f"{name_of(feed)}: refused: … {refusals.count:,} in all")
    if refusals.all:
        complain(f"{name_of(feed)}: every event was refused: is it a feed?")


def _tell_all(feed: str, overview: Overview, output: Format, origin_us: int | None) -> None:
    if output is Format.JSON:
        print_json({**_head(feed, origin_us), **_overview_map(overview)})
    else:
        print_overview(overview, origin_us)


def _head(feed: str, origin_us: int | None) -> dict[str, object]:
    origin = None if origin_us is None else date_text(origin_us)
    return {"feed": name_of(feed), "origin": origin}


def _at(at_us: int | None) -> int | float | None:
    return None if at_us is None else seconds(at_us)


def _answer_map(answer: Answer) -> dict[str, object]:
    where, later = answer.whereabouts, answer.held_back_later
    return {
        "at": _at(answer.at_us),
        "app": answer.app,
        "ask": answer.ask,
        "refused": answer.refusals.count,
        "fate": where.fate.value,
        "since": _at(where.since_us),
        "node": where.node,
        "queue": where.queue,
        "message": where.message,
        "code": None if where.code is None else where.code.value,
        "index": where.index,
        "line": where.line,
        "ended_by": None
        if where.ended_by is None
        else {"index": where.ended_by.index, "line": where.ended_by.line},
        "before": None if where.before is None else _hold_map(where.before),
        "ends_at": _at(answer.ends_at_us),
        "passed": [passed_map(one) for one in where.passed],
        **explanation_map(answer.explanation),
        "held_back_later": None if later is None else reason_map(later),
        "remedies": [remedy_map(remedy) for remedy in answer.remedies],
        "trials": answer.trials,
        "exhausted": answer.exhausted,
    }


def _hold_map(hold: Hold) -> dict[str, object]:
    return {
        "node": hold.node,
        "from": seconds(hold.from_us),
        "until": seconds(hold.until_us),
        "waiting": hold.waiting,
        "reason": hold.reason.value,
        "message": hold.message,
    }


def _overview_map(overview: Overview) -> dict[str, object]:
    return {
        "at": _at(overview.at_us),
        "refused": overview.refusals.count,
        "count": overview.count,
        "groups": [
            {
                "code": group.code.value,
                "count": group.count,
                "queues": dict(group.queues),
                "longest": _at(group.longest_us),
                "examples": [
                    {
                        "ask": f"{one.app}/{one.ask}",
                        "queue": one.queue,
                        "since": _at(one.since_us),
                        "message": one.dominant.message,
                    }
                    for one in group.examples
                ],
            }
            for group in overview.groups
        ],
    }
