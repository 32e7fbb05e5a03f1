"""``muster replay``: a feed in virtual time, its decisions, and a summary."""

from __future__ import annotations

from contextlib import ExitStack

import click
import trio

from muster.cli._interrupt import Interrupt
from muster.cli._main import INTERRUPTED
from muster.cli._options import (
    DIFFERENT,
    FILE,
    UNUSABLE,
    Format,
    Instant,
    complain,
    error_map,
    format_option,
    print_json,
)
from muster.cli._summary import as_map, print_summary
from muster.feeds import DecisionLog, FeedError, read_feed
from muster.replay import Tally, replay


@click.command("replay")
@click.argument("feed", type=FILE)
@click.option(
    "--decisions",
    type=FILE,
    metavar="FILE",
    help="Write every decision there: JSON Lines, or msgpack if it is named .msgpack; "
    "compressed if it is named .gz; `-` is standard output.",
)
@click.option(
    "--until",
    "until_us",
    type=Instant(),
    metavar="TIME",
    help="End at this time since the start, in seconds or as in 1h30m. Without it, time goes "
    "on after the last event until no timer is left.",
)
@click.option("--strict", is_flag=True, help="Stop at the first event that is refused.")
@format_option
@click.pass_context
def command(
    context: click.Context,
    feed: str,
    decisions: str | None,
    until_us: int | None,
    strict: bool,  # noqa: FBT001 - click hands it over by name
    output: Format,
) -> None:
    """Replay a feed in virtual time, and sum up what happened.

    FEED is YAML, JSON Lines or msgpack, gzip-compressed or not; `-` is standard input. An ask's
    wait is the time from when it came until it was bound for the first time; a job is an
    application. Ctrl-C ends the replay with what was done so far.

    Exit status: 0 if all is fine, 1 if an event was refused, 2 if the feed cannot be read,
    130 after Ctrl-C.

    \b
    Example:
        muster replay feed.yaml --decisions decisions.jsonl --until 12h
    """
    tally = Tally()
    interrupt = Interrupt()
    error: FeedError | None = None
    try:
        with ExitStack() as stack:
            journals = []
            if decisions is not None:
                journals.append(stack.enter_context(DecisionLog(decisions)))
            items = stack.enter_context(interrupt).reads(read_feed(feed))

            async def run() -> None:
                with interrupt.scope():
                    await replay(
                        items, journals=journals, tally=tally, until_us=until_us, strict=strict
                    )

            trio.run(run)
    except KeyboardInterrupt:
        pass
    except FeedError as unreadable:
        error = unreadable
    if error is not None:
        complain(error)
        if output is Format.JSON:
            print_json({"error": error_map(error)}, err=decisions == "-")
        context.exit(UNUSABLE)
    summary = tally.summary()
    if output is Format.JSON:
        print_json(as_map(summary, interrupted=interrupt.hit), err=decisions == "-")
    else:
        print_summary(summary, interrupted=interrupt.hit, err=decisions == "-")
    status = DIFFERENT if summary.refused else 0
    context.exit(INTERRUPTED if interrupt.hit else status)
