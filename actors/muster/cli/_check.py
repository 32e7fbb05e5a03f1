"""``muster check`` and ``muster validate``: verdicts on feeds and on configurations.

``check`` compares the results of feeds with their ``expect`` events, and puts the differences into
words; ``validate`` lists the problems of configurations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, final

import attrs
import click
import trio

from muster.cli._inputs import error_map, feed_hint, read_configuration_text
from muster.cli._options import (
    DIFFERENT,
    FILE,
    INTERRUPTED,
    UNUSABLE,
    Format,
    complain,
    example,
    format_option,
    name_of,
    print_json,
    problem_map,
    warning_line,
    warning_text,
)
from muster.config_files import parse_configuration
from muster.feeds import FeedError, KeptFeed, is_directory, read_feed
from muster.figures.text import counted
from muster.replay import Check, Difference, MissingValue, Value
from muster_core.config.model import Configuration, QueueConfig
from muster_core.errors import ConfigError, Problem

_MOST_SHOWN: Final = 20
"""The most items of a list that are shown."""

_KINDS: Final = {
    "queues": "queue",
    "apps": "application",
    "gangs": "gang",
    "usage": "usage",
}
"""What the names of these fields name; those of other fields name asks."""


def is_refusal(difference: Difference) -> bool:
    """Return whether a difference is a refused event that no ``expect`` covers."""
    field = difference.field.partition("[")[0]
    return field == "rejected" and isinstance(difference.expected, MissingValue)


def words_of(difference: Difference) -> str:
    """Return a difference in words."""
    field, expected, found = difference.field, difference.expected, difference.found
    if is_refusal(difference):
        return f"this event is refused, and no `expect` expects it: {_as_text(found)}"
    # EXPECT-9, EXPECT-10
    kind, bracket, _ = field.partition("[")
    if bracket and kind in {"rejected", "warnings"}:
        return f"{field}: {_part(kind, expected, found)}"
    # EXPECT-14
    if isinstance(found, MissingValue):
        what = _KINDS.get(field.partition(".")[0], "ask")
        return f"{field}: there is no such {what}{found.guess}"
    if isinstance(expected, list) and isinstance(found, list):
        return f"{field}: {_lists(expected, found)}"
    return f"{field}: expected {_as_text(expected)}, found {_as_text(found)}"


def _part(kind: str, expected: Value, found: Value) -> str:
    """Say how a message differs from the text that should be a part of it."""
    what, more = ("warning", "warning came")
    if kind == "rejected":
        what, more = ("refused event", "event was refused")
    if isinstance(expected, MissingValue):
        return f"this {what} is not expected: {_as_text(found)}"
    wanted = f"expected a {what} with {_as_text(expected)} in its message"
    if isinstance(found, MissingValue):
        return f"{wanted}, and no further {more}"
    return f"{wanted}, found {_as_text(found)}"


def _lists(expected: Sequence[str], found: Sequence[str]) -> str:
    """Say how two lists differ; a beginning that is the same is left out of a long one."""
    if max(len(expected), len(found)) > _MOST_SHOWN:
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(expected, found, strict=False))
        same = len([*equal])
        rest = f"expected {_as_text([*expected[same:]])}, found {_as_text([*found[same:]])}"
        return f"after {same:,} that are the same, {rest}" if same else rest
    return f"expected {_as_text([*expected])}, found {_as_text([*found])}"


def _as_text(value: Value) -> str:
    match value:
        case str() if value and value.isprintable():
            return value
        case list():
            items = [_as_text(item) for item in value[:_MOST_SHOWN]]
            if len(value) > _MOST_SHOWN:
                items.append(f"… {len(value)} in all")
            return f"[{', '.join(items)}]"
        case dict():
            return f"{{{', '.join(f'{name}: {part}' for name, part in value.items())}}}"
        case _:
            return json.dumps(value)


_ACCEPTING: Final = (
    "if these refusals are right, list a part of each message in `rejected` of the next `expect`, in "
    "order"
)
"""What to do about refused events that no `expect` covers."""


@final
@attrs.frozen
class FeedVerdict:
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
    `expect` expects, with its line. For a state directory, makes all decisions again and compares
    them with the kept ones. Prints warnings about configurations, and about resource types that
    look like a slip, on standard error. `-` is standard input.

    Exit status: 0 if there is no difference, 1 if there is one (or a warning, with --strict), 2 if a feed cannot be read, 130
    after Ctrl-C.
    """
    verdicts: list[FeedVerdict] = []
    is_text = output is Format.TEXT
    for feed in feeds:
        verdicts.append(_feed_verdict(feed, strict))
        if is_text:
            _print_feed_verdict(verdicts[-1])
        if verdicts[-1].interrupted:
            break
    status = max(verdict.status for verdict in verdicts)
    if output is Format.JSON:
        print_json(
            {"ok": status == 0, "feeds": [_feed_verdict_map(verdict) for verdict in verdicts]}
        )
    context.exit(status)


def _feed_verdict(feed: str, strict: bool) -> FeedVerdict:
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
    return FeedVerdict(name_of(feed), check, error, strict, interrupted)


def _print_feed_verdict(verdict: FeedVerdict) -> None:
    check = verdict.check
    for warning in check.warnings:
        complain(warning_text(verdict.name, warning))
    for difference in check.differences:
        click.echo(f"{_remark_place(verdict.name, difference)}: {words_of(difference)}")
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


def _remark_place(name: str, difference: Difference) -> str:
    if difference.line is None:
        return f"{name}: event {difference.index}"
    return f"{name}:{difference.line}"


def _feed_verdict_map(verdict: FeedVerdict) -> dict[str, object]:
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


@final
@attrs.frozen
class ConfigurationVerdict:
    """The result for one file.

    Attributes:
        name: The name of the file.
        configuration: The configuration, or None if it is refused or cannot be read.
        problems: Why it is refused.
        unreadable: Why it cannot be read, or None.
        strict: Whether a warning counts like a problem.
    """

    name: str
    configuration: Configuration | None = None
    problems: tuple[Problem, ...] = ()
    unreadable: str | None = None
    strict: bool = attrs.field(default=False, kw_only=True)

    @property
    def status(self) -> int:
        """The exit status."""
        if self.unreadable is not None:
            return UNUSABLE
        return DIFFERENT if self.problems or (self.strict and self.warnings) else 0

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The warnings about a valid configuration."""
        return () if self.configuration is None else self.configuration.located_warnings


# COMMAND-3
@click.command("validate", epilog=example("muster validate queues.yaml"))
@click.argument("configs", nargs=-1, required=True, type=FILE, metavar="CONFIG...")
@click.option(
    "--partition",
    metavar="NAME",
    help="The partition to run. [default: `default`, or the only one]",
)
@click.option("--strict", is_flag=True, help="Fail on warnings, too.")
@format_option
@click.pass_context
def validate_command(
    context: click.Context,
    configs: tuple[str, ...],
    *,
    partition: str | None,
    strict: bool,
    output: Format,
) -> None:
    """Check configurations in YuniKorn's `queues.yaml` form.

    Prints every problem and every warning with the line and the path of the field. `-` is
    standard input.

    Exit status: 0 if all are valid, 1 if one is refused (or has a warning, with --strict), 2 if
    one cannot be read.
    """
    verdicts = [_configuration_verdict(config, partition, strict=strict) for config in configs]
    status = max(verdict.status for verdict in verdicts)
    if output is Format.JSON:
        print_json(
            {
                "ok": status == 0,
                "configs": [_configuration_verdict_map(verdict) for verdict in verdicts],
            }
        )
    else:
        for verdict in verdicts:
            _print_configuration_verdict(verdict)
    context.exit(status)


def _configuration_verdict(
    config: str, partition: str | None, *, strict: bool
) -> ConfigurationVerdict:
    name, text = name_of(config), None
    try:
        text = read_configuration_text(config)
        if text is None:
            return ConfigurationVerdict(name, unreadable="is closed")
        configuration = parse_configuration(text, file=name, partition=partition)
        return ConfigurationVerdict(name, configuration, strict=strict)
    except ConfigError as error:
        hint = None if text is None else feed_hint(name, text)
        return ConfigurationVerdict(name, problems=() if hint else error.problems, unreadable=hint)
    except OSError as error:
        return ConfigurationVerdict(name, unreadable=error.strerror or str(error))


def _print_configuration_verdict(verdict: ConfigurationVerdict) -> None:
    for problem in verdict.problems:
        click.echo(problem)
    for warning in verdict.warnings:
        click.echo(warning_line(warning.file, warning.line, warning.path, warning.message))
    if verdict.unreadable is not None:
        complain(f"{verdict.name}: {verdict.unreadable}")
    elif verdict.configuration is None:
        click.echo(f"{verdict.name}: refused ({counted(len(verdict.problems), 'problem')})")
    elif verdict.status:
        count = counted(len(verdict.warnings), "warning")
        click.echo(f"{verdict.name}: valid, but not without warnings ({count})")
    else:
        queues = counted(_queues(verdict.configuration.root), "queue")
        click.echo(f"{verdict.name}: ok (partition {verdict.configuration.partition}, {queues})")


def _queues(queue: QueueConfig) -> int:
    return 1 + sum(_queues(child) for child in queue.children)


def _configuration_verdict_map(verdict: ConfigurationVerdict) -> dict[str, object]:
    configuration = verdict.configuration
    return {
        "config": verdict.name,
        "ok": verdict.status == 0,
        "partition": None if configuration is None else configuration.partition,
        "problems": [problem_map(problem) for problem in verdict.problems],
        "warnings": [problem_map(warning) for warning in verdict.warnings],
        "error": None
        if verdict.unreadable is None
        else {"file": verdict.name, "line": None, "message": verdict.unreadable},
    }
