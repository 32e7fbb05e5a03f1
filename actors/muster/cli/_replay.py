"""``muster replay``: a feed in virtual time, its decisions, and a summary."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TypeVar, final

import attrs
import click
import trio

from muster.cli._interrupt import Interrupt
from muster.cli._options import (
    DIFFERENT,
    FILE,
    INTERRUPTED,
    STDIN,
    STDOUT,
    UNUSABLE,
    Format,
    as_instant,
    complain,
    error_map,
    example,
    format_option,
    name_of,
    print_json,
)
from muster.cli._progress import Progress
from muster.cli._summary import as_map, print_summary
from muster.feeds import DecisionLog, FeedError
from muster.replay import Remark, Tally, replay

T = TypeVar("T")


@final
@attrs.frozen
class Arguments:
    """What to replay, and how.

    Attributes:
        feed: The name of the feed.
        decisions: The name of the decision log, or None.
        until_us: When to end, in microseconds, or None.
        strict: Whether to stop at the first refusal.
    """

    feed: str
    decisions: str | None
    until_us: int | None
    strict: bool

    @property
    def log_on_stdout(self) -> bool:
        """Whether the decision log takes standard output."""
        return self.decisions == STDOUT


@click.command("replay", epilog=example("muster replay feed.yaml --decisions decisions.jsonl"))
@click.argument("feed", type=FILE)
@click.option(
    "--decisions",
    type=FILE,
    metavar="FILE",
    help="Write every decision there: JSON Lines, or msgpack if its name ends in .msgpack; with "
    ".gz behind it for gzip. `-` is standard output; the summary goes to standard error then.",
)
@click.option(
    "--until",
    "until_us",
    callback=as_instant,
    metavar="TIME",
    help="End at this time since the start, in seconds or like 1h30m. [default: when the feed "
    "has ended and no timer is left]",
)
@click.option("--strict", is_flag=True, help="Stop at the first event that is refused.")
@format_option
@click.pass_context
def command(
    context: click.Context,
    *,
    feed: str,
    decisions: str | None,
    until_us: int | None,
    strict: bool,
    output: Format,
) -> None:
    """Replay a feed in virtual time, and sum up what happened.

    FEED is YAML, JSON Lines or msgpack, gzip-compressed or not; `-` is standard input. In the
    summary a job is an application, and an ask waits from when it came until it is bound for
    the first time. Ctrl-C ends the replay, and sums up what was done so far.

    Exit status: 0 if all is fine, 1 if an event was refused, 2 if the feed cannot be read or
    the log cannot be written, 130 after Ctrl-C.
    """
    arguments = Arguments(feed, decisions, until_us, strict)
    tally, interrupt = Tally(), Interrupt()
    try:
        _run(arguments, tally, interrupt)
    except KeyboardInterrupt:  # while the feed was read
        pass
    except FeedError as error:
        complain(str(error))
        if output is Format.JSON:
            print_json({"error": error_map(error)}, err=arguments.log_on_stdout)
        context.exit(UNUSABLE)
    _report(arguments, tally, interrupt, output)
    context.exit(INTERRUPTED if interrupt.hit else DIFFERENT if tally.refused else 0)


def _run(arguments: Arguments, tally: Tally, interrupt: Interrupt) -> None:
    """Replay the feed, from opening the files to closing them.

    Raises:
        FeedError: If one of them cannot be used.
        KeyboardInterrupt: After Ctrl-C while the feed was read.
    """
    terminal_is_taken = arguments.log_on_stdout and sys.stdout.isatty()
    progress = Progress(tally, shown=not terminal_is_taken)
    with ExitStack() as stack:
        stack.enter_context(interrupt)
        # Reading starts before the log is opened: a feed that cannot be read must not cost
        # an older log its content.
        items = _begun(interrupt.reads(progress.read(arguments.feed)))
        journals: list[DecisionLog] = []
        if arguments.decisions is not None:
            _check_apart(arguments.feed, arguments.decisions)
            journals.append(stack.enter_context(DecisionLog(arguments.decisions)))
        stack.enter_context(progress.line())

        async def run() -> None:
            with interrupt.scope():
                await replay(
                    items,
                    journals=journals,
                    tally=tally,
                    until_us=arguments.until_us,
                    strict=arguments.strict,
                )

        trio.run(run)


def _begun(items: Iterator[T]) -> Iterable[T]:
    """Read the first item now."""
    for first in items:
        return chain([first], items)
    return ()


def _check_apart(feed: str, decisions: str) -> None:
    paths = [Path(name) for name in (feed, decisions)]
    both = STDIN not in {feed, decisions} and all(path.is_file() for path in paths)
    if both and paths[0].samefile(paths[1]):
        raise FeedError(decisions, "is the feed as well: write the log to another file")


def _report(arguments: Arguments, tally: Tally, interrupt: Interrupt, output: Format) -> None:
    summary = tally.summary()
    err = arguments.log_on_stdout
    if output is Format.JSON:
        print_json(as_map(summary, interrupted=interrupt.hit), err=err)
        return
    feed = name_of(arguments.feed)
    _tell(feed, "warning", summary.first_warnings, summary.warnings)
    _tell(feed, "refused", summary.first_refusals, summary.refused)
    print_summary(summary, interrupted=interrupt.hit, err=err)


def _tell(feed: str, what: str, first: Sequence[Remark], number: int) -> None:
    """Say on standard error what there is to say of events."""
    for remark in first:
        place = f"event {remark.index}" if remark.line is None else remark.line
        click.echo(f"{feed}:{place}: {what}: {remark.message}", err=True)
    if len(first) < number:
        click.echo(f"{feed}: {what}: … {number:,} in all", err=True)
