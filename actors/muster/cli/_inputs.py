"""The inputs of a command: feeds, state directories, configurations, and instants in them.

It hides whether a feed is a file, standard input or a state directory, and which ``configure``
events a configuration on the command line replaces.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, TextIO, TypeVar, final

import attrs
import click

from muster.cli._options import (
    STDIN,
    UNUSABLE,
    Format,
    as_instant,
    complain,
    name_of,
    print_json,
    problem_map,
    warning_line,
)
from muster.compare import LeftOut, Warned
from muster.config_files import parse_configuration, read_content
from muster.feeds import (
    FeedError,
    FeedItem,
    FeedOrigin,
    KeptFeed,
    date_text,
    is_directory,
    is_feed,
    is_like_date,
    origin_of,
    parse_date,
    read_feed,
    word_of,
)
from muster.figures.text import counted
from muster.replay import Remark
from muster_core.config.model import Configuration
from muster_core.decisions import seconds
from muster_core.errors import ConfigError
from muster_core.facts import Facts


# COMMAND-8
@contextmanager
def exit_on_feed_error(output: Format, *, err: bool = False) -> Generator[None]:
    """Print why a file cannot be used, and exit with 2.

    Args:
        output: The format of the command.
        err: Whether JSON goes to standard error.
    """
    report: dict[str, object]
    try:
        yield
    except FeedError as error:
        complain(str(error))
        report = {"error": error_map(error)}
    except ConfigError as error:
        for problem in error.problems:
            complain(str(problem))
        report = {"problems": [{"file": one.file, **problem_map(one)} for one in error.problems]}
    else:
        return
    if output is Format.JSON:
        print_json(report, err=err)
    click.get_current_context().exit(UNUSABLE)


def error_map(error: FeedError) -> dict[str, object]:
    """Return the JSON form of a feed error."""
    return {"file": error.file, "line": error.line, "message": error.problem}


LARGEST_INT64: Final = 2**63 - 1
"""The last instant that a state directory can hold, in microseconds."""

Function = TypeVar("Function", bound=Callable[..., object])


@final
@attrs.frozen
class Instant:
    """An instant as a user gave it.

    Attributes:
        us: Microseconds since the start; of a date, since 1970 in UTC.
        is_date: Whether it is a date.
    """

    us: int
    is_date: bool = False

    def since(self, origin_us: int | None, option: str) -> int:
        """Return the instant in microseconds since the start.

        Args:
            origin_us: When that was, in microseconds since 1970 in UTC; None if it is not known.
            option: The option that has it, for messages.

        Raises:
            click.UsageError: If it is a date, and nothing says when the start was; or it is a date
                before the start.
        """
        if not self.is_date:
            return self.us
        if origin_us is None:
            msg = f"{option}: the feed has no dates: give a time since the start"
            raise click.UsageError(msg)
        if self.us < origin_us:
            date, start = date_text(self.us), date_text(origin_us)
            raise click.UsageError(f"{option}: {date} is before the start, {start}")
        return self.us - origin_us


# COMMAND-14
def as_time(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> Instant | None:
    """Parse an instant: a time since the start (see :func:`as_instant`), or an ISO date.

    A date without an offset is in UTC.

    Raises:
        click.BadParameter: If it is none of these.
    """
    if value is None or not is_like_date(value):
        at_us = as_instant(context, parameter, value)
        return None if at_us is None else Instant(at_us)
    try:
        return Instant(parse_date(value), is_date=True)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}") from None


# COMMAND-14
def span_of(
    since: Instant | None, until: Instant | None, origin_us: int | None
) -> tuple[int | None, int | None]:
    """Return the instants of ``--since`` and ``--until`` in microseconds since the start.

    Args:
        since: Where to begin, or None.
        until: Where to end, or None.
        origin_us: See :meth:`Instant.since`.

    Raises:
        click.UsageError: If one is not possible, or the end is before the beginning.
    """
    since_us = None if since is None else since.since(origin_us, "--since")
    until_us = None if until is None else until.since(origin_us, "--until")
    check_order(("--since", since_us), ("--until", until_us))
    return since_us, until_us


def check_order(*instants: tuple[str, int | None]) -> None:
    """Check that instants are in order.

    Args:
        *instants: The options, each with its instant in microseconds since the start, or None.

    Raises:
        click.UsageError: If one is.
    """
    given = [(option, at_us) for option, at_us in instants if at_us is not None]
    for (first, first_us), (second, second_us) in pairwise(given):
        if second_us < first_us:
            msg = f"{second}: {seconds(second_us)} s is before {first}, {seconds(first_us)} s"
            raise click.UsageError(msg)


def since_option(help_text: str) -> Callable[[Function], Function]:
    """Add ``--since`` to a command."""
    return click.option(
        "--since",
        callback=as_time,
        metavar="TIME",
        help=f"{help_text} Needs a state directory. A time since the start, or a date such as "
        "2026-01-31T18:30:00Z.",
    )


@final
@attrs.define
class Source:
    """A feed that is open, or a state directory as one.

    Attributes:
        items: What is in it.
        origin: The origin of time. That of a feed is known when its first date has been read.
        facts: The state with which it begins, or None.
        state_directory: The state directory, or None.
    """

    items: Iterator[FeedItem]
    origin: FeedOrigin
    facts: Facts | None = None
    state_directory: KeptFeed | None = None

    def us(self, instant: Instant | None, option: str) -> int | None:
        """Return an instant in microseconds since the start; None for None.

        For a date, it reads ahead up to the first date of a feed: all of that is at the start.

        Raises:
            FeedError: If the feed cannot be read.
            click.UsageError: See :meth:`Instant.since`.
        """
        if instant is None:
            return None
        if instant.is_date:
            self._read_origin()
        return instant.since(self.origin.us, option)

    # FEED-86
    def _read_origin(self) -> None:
        """Read ahead until the origin is known, or it is certain that there is none."""
        ahead: list[FeedItem] = []
        while self.origin.us is None and not (ahead and ahead[-1].at_us):
            item = next(self.items, None)
            if item is None:
                break
            ahead.append(item)
        self.items = chain(ahead, self.items)


def _read(name: str, origin: FeedOrigin) -> Iterator[FeedItem]:
    return read_feed(name, origin=origin, only_feeds=True)


# COMMAND-12, COMMAND-14
@contextmanager
def open_source(
    name: str,
    read: Callable[[str, FeedOrigin], Iterator[FeedItem]] = _read,
    *,
    origin: FeedOrigin | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    exact: bool = True,
) -> Generator[Source]:
    """Open a feed, or a state directory.

    Args:
        name: Its name.
        read: Reads a feed, and notes its origin.
        origin: Gets the origin of time, or None.
        since: Where to begin; only in a state directory.
        until: Where to end, likewise.
        exact: See :class:`muster.feeds.KeptFeed`.

    Raises:
        FeedError: If a state directory cannot be read.
        click.UsageError: If a feed is to begin or to end somewhere.
    """
    origin = FeedOrigin() if origin is None else origin
    if not is_directory(name):
        given = [option for option, one in (("--since", since), ("--until", until)) if one]
        if given:
            msg = f"{given[0]} needs a state directory: a feed has no state to begin or end with"
            raise click.UsageError(msg)
        yield Source(read(name, origin), origin)
        return
    origin.us = origin_of(name)
    since_us, until_us = span_of(since, until, origin.us)
    with KeptFeed(name, since_us=since_us, until_us=until_us, exact=exact) as kept:
        yield Source(kept.items(), origin, kept.facts, kept)


@contextmanager
def opened_at(name: str, at: Instant | None) -> Generator[Source]:
    """Open a feed, or a state directory from the newest checkpoint up to an instant.

    Args:
        name: Its name.
        at: The instant; None for the last one.

    Raises:
        FeedError: If a state directory cannot be read.
        click.UsageError: If the instant is not possible.
    """
    if not is_directory(name):
        with open_source(name) as source:
            yield source
        return
    origin = FeedOrigin(origin_of(name))
    at_us = LARGEST_INT64 - 1 if at is None else at.since(origin.us, "--at")
    with KeptFeed(name, since_us=min(at_us, LARGEST_INT64 - 1) + 1, exact=False) as kept:
        yield Source(kept.items(), origin, kept.facts, kept)


_MOST_LEFT_OUT: Final = 10
"""The most left-out `configure` events that are printed."""


def read_configuration_text(source: str) -> bytes | None:
    """Read the text of a configuration; None if the process has no standard input.

    Raises:
        OSError: If it cannot be read.
    """
    if source != STDIN:
        with Path(source).open("rb") as file:
            return read_content(file)
    stream: TextIO | None = sys.stdin
    return None if stream is None else read_content(stream.buffer)


# COMMAND-21
def feed_hint(name: str, content: bytes) -> str | None:
    """Return the message about a file that should be a configuration and is a feed; None if it is none.

    Args:
        name: Its name for messages.
        content: Its content.
    """
    if not is_feed(content):
        return None
    return f"is a feed, not a configuration: run it with `muster replay {word_of(name)}`"


def read_configuration(name: str, partition: str | None) -> Configuration:
    """Read a configuration that is in force from the start of a feed.

    Raises:
        FeedError: If it cannot be read, or is wrong.
    """
    shown, text = name_of(name), None
    try:
        text = read_configuration_text(name)
        if text is None:
            raise FeedError(shown, "cannot be read: it is closed")
        return parse_configuration(text, file=shown, partition=partition)
    except ConfigError as error:
        feed = None if text is None else feed_hint(shown, text)
        if feed is not None:
            raise FeedError(shown, feed) from error
        first, *others = error.problems
        message = "; ".join(map(str, [attrs.evolve(first, file=None, line=None), *others]))
        raise FeedError(shown, message, first.line) from error
    except OSError as error:
        raise FeedError(shown, f"cannot be read: {error.strerror or error}") from error


def warnings_of(name: str, configuration: Configuration) -> Iterable[Warned]:
    """Return the warnings about a configuration."""
    return [
        Warned(name_of(name), warning.line, warning.path, warning.message)
        for warning in configuration.located_warnings
    ]


def print_warnings(warnings: Iterable[Warned]) -> None:
    """Print warnings about configurations to standard error."""
    for warned in warnings:
        complain(warning_line(warned.file, warned.line, warned.path, warned.message))


def base_of(feed: str) -> Path:
    """Return the folder to which the files are relative that a feed names."""
    return Path() if feed == STDIN else Path(feed).parent


def print_left_out(feed: str, left_out: Sequence[LeftOut]) -> None:
    """Print the left-out `configure` events to standard error."""
    for event in left_out[:_MOST_LEFT_OUT]:
        named = "" if event.partition is None else f" (of partition {event.partition!r})"
        complain(f"{place_of(feed, event)}: `configure` is left out{named}")
    if len(left_out) > _MOST_LEFT_OUT:
        count = counted(len(left_out), "`configure` event")
        complain(f"{name_of(feed)}: … {count} left out in all")


# COMMAND-35
def uncounted_warning(config: str, number: int) -> Warned:
    """Return the warning that a configuration does not count so many `set_usage`."""
    message = f"{number:,} `set_usage` left out, as no usage.half.life or usage.users counts it"
    return Warned(name_of(config), None, "", message)


def print_refused(feed: str, first: Sequence[Remark], count: int) -> None:
    """Print the first events of a feed that were refused, and how many were, to standard error."""
    for remark in first:
        complain(f"{place_of(feed, remark)}: refused: {remark.message}")
    if len(first) < count:
        complain(f"{name_of(feed)}: refused: … {count:,} in all")


def place_of(feed: str, event: Remark | LeftOut) -> str:
    """Return the place of an event in its feed: its line, or its index."""
    place = f"event {event.index}" if event.line is None else event.line
    return f"{name_of(feed)}:{place}"
