"""``muster check``: compare the results of feeds with their ``expect`` events."""

from __future__ import annotations

from typing import Final, final

import attrs
import click
import trio

from muster.cli._check.text import is_refusal, words_of
from muster.cli._options import (
    DIFFERENT,
    FILE,
    INTERRUPTED,
    UNUSABLE,
    Format,
    complain,
    error_map,
    example,
    format_option,
    name_of,
    print_json,
    warning_text,
)
from muster.feeds import FeedError, KeptFeed, is_directory, read_feed
from muster.figures.text import counted
from muster.replay import Check, Difference

_ACCEPTING: Final = (
    "if these refusals are right, list a part of each message in `rejected` of the next `expect`, in "
    "order"
)
"""What to do about refused events that no `expect` covers."""


@final
@attrs.frozen
class Verdict:
    """The result for one feed.

    Attributes:
        name: The name of the feed.
        check: The check, with its differences.
        error: Why the feed cannot be read, or None.
        strict: Whether a warning counts like a difference.
        interrupted: Whether Ctrl-C ended the check.
    """

    name: str
    check: Check
    error: FeedError | None
    strict: bool
    interrupted: bool = False

    @property
    def status(self) -> int:
        """The exit status."""
        if self.interrupted:
            return INTERRUPTED
        if self.error is not None:
            return UNUSABLE
        warned = self.strict and self.check.warnings
        return DIFFERENT if self.check.differences or warned else 0


# COMMAND-2
@click.command("check", epilog=example("muster check feed.yaml"))
@click.argument("feeds", nargs=-1, required=True, type=FILE, metavar="FEED...")
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
@format_option
@click.pass_context
def command(context: click.Context, feeds: tuple[str, ...], strict: bool, output: Format) -> None:
    """Replay feeds, and compare the results with their `expect` events.

    Prints each difference with the line of its `expect`, and each refused event that no
    `expect` expects, with its line. Of a state directory, all decisions are made again and
    compared with those that are kept. Prints warnings about configurations and about resource types
    that look like a slip on standard error. `-` is standard input.

    Exit status: 0 if there is no difference, 1 if there is one (or a warning, with --strict), 2 if a feed cannot be read, 130
    after Ctrl-C.
    """
    verdicts: list[Verdict] = []
    is_text = output is Format.TEXT
    for feed in feeds:
        verdicts.append(_verdict(feed, strict))
        if is_text:
            _print(verdicts[-1])
        if verdicts[-1].interrupted:
            break
    status = max(verdict.status for verdict in verdicts)
    if output is Format.JSON:
        print_json({"ok": status == 0, "feeds": [_as_map(verdict) for verdict in verdicts]})
    context.exit(status)


def _verdict(feed: str, strict: bool) -> Verdict:
    check = Check()
    error: FeedError | None = None
    interrupted = False
    try:
        if is_directory(feed):
            with KeptFeed(feed) as kept:
                check.run_again(kept)
        else:
            trio.run(check.run, read_feed(feed, only_feeds=True))
    except FeedError as unreadable:
        error = unreadable
    except KeyboardInterrupt:
        interrupted = True
    return Verdict(name_of(feed), check, error, strict, interrupted)


def _print(verdict: Verdict) -> None:
    check = verdict.check
    for warning in check.warnings:
        complain(warning_text(verdict.name, warning))
    for difference in check.differences:
        click.echo(f"{_place(verdict.name, difference)}: {words_of(difference)}")
    # EXPECT-13
    if any(is_refusal(difference) for difference in check.differences):
        click.echo(f"{verdict.name}: {_ACCEPTING}")
    if verdict.error is not None:
        complain(str(verdict.error))
        return
    found = counted(len(check.differences), "difference") if check.differences else "ok"
    events, expects = counted(check.events, "event"), counted(check.expects, "expect")
    if is_directory(verdict.name):
        expects = counted(check.batches, "batch", "batches")
    so_far = ", interrupted" if verdict.interrupted else ""
    click.echo(f"{verdict.name}: {found} ({events}, {expects}{so_far})")


def _place(name: str, difference: Difference) -> str:
    if difference.line is None:
        return f"{name}: event {difference.index}"
    return f"{name}:{difference.line}"


def _as_map(verdict: Verdict) -> dict[str, object]:
    check = verdict.check
    return {
        "feed": verdict.name,
        "ok": verdict.status == 0,
        "events": check.events,
        "expects": check.expects,
        **({"batches": check.batches} if is_directory(verdict.name) else {}),
        "interrupted": verdict.interrupted,
        "warnings": [attrs.asdict(warning) for warning in check.warnings],
        "differences": [attrs.asdict(difference) for difference in check.differences],
        "error": None if verdict.error is None else error_map(verdict.error),
    }
