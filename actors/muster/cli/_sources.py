"""What a command reads: a feed, or a state directory in place of one; and instants in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs
import click

from muster.cli._options import as_instant
from muster.feeds import FeedItem, KeptFeed, is_directory, origin_of, read_feed
from muster_core.decisions import seconds

LARGEST_INT64: Final = 2**63 - 1
"""The last instant that a state directory can hold, in microseconds."""

if TYPE_CHECKING:
    from muster_core.facts import Facts

Function = TypeVar("Function", bound=Callable[..., object])

_DATE: Final = re.compile(r"[0-9]{4}-")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


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
            click.UsageError: If it is a date, and no state directory says when the start was; or
                it is a date before the start.
        """
        if not self.is_date:
            return self.us
        if origin_us is None:
            msg = f"{option}: only a state directory knows dates: give a time since the start"
            raise click.UsageError(msg)
        if self.us < origin_us:
            origin = (_EPOCH + origin_us * _MICROSECOND).isoformat()
            raise click.UsageError(f"{option}: is before the start of the directory, {origin}")
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
    if value is None or not _DATE.match(value.strip()):
        at_us = as_instant(context, parameter, value)
        return None if at_us is None else Instant(at_us)
    try:
        date = datetime.fromisoformat(value.strip())
    except ValueError:
        msg = f"{value!r} is no date: write it like 2026-01-31 or 2026-01-31T18:30:00Z"
        raise click.BadParameter(msg) from None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return Instant((date - _EPOCH) // _MICROSECOND, is_date=True)


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
    if since_us is not None and until_us is not None and until_us < since_us:
        msg = f"--until: {seconds(until_us)} s is before --since, {seconds(since_us)} s"
        raise click.UsageError(msg)
    return since_us, until_us


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
@attrs.frozen
class Source:
    """A feed that is open, or a state directory as one.

    Attributes:
        items: What is in it.
        facts: The state with which it begins, or None.
        origin_us: The origin of time, in microseconds since 1970 in UTC; None if it is not known.
        kept: The state directory, or None.
    """

    items: Iterator[FeedItem]
    facts: Facts | None = None
    origin_us: int | None = None
    kept: KeptFeed | None = None

    def us(self, instant: Instant | None, option: str) -> int | None:
        """Return an instant in microseconds since the start; None for None."""
        return None if instant is None else instant.since(self.origin_us, option)


# COMMAND-12, COMMAND-14
@contextmanager
def opened(
    name: str,
    read: Callable[[str], Iterator[FeedItem]] = read_feed,
    *,
    since: Instant | None = None,
    until: Instant | None = None,
    exact: bool = True,
) -> Generator[Source]:
    """Open a feed, or a state directory.

    Args:
        name: Its name.
        read: Reads a feed.
        since: Where to begin; only in a state directory.
        until: Where to end, likewise.
        exact: See :class:`muster.feeds.KeptFeed`.

    Raises:
        FeedError: If a state directory cannot be read.
        click.UsageError: If a feed is to begin or to end somewhere.
    """
    if not is_directory(name):
        given = [option for option, one in (("--since", since), ("--until", until)) if one]
        if given:
            msg = f"{given[0]} needs a state directory: a feed has no state to begin or end with"
            raise click.UsageError(msg)
        yield Source(read(name))
        return
    origin_us = origin_of(name)
    since_us, until_us = span_of(since, until, origin_us)
    with KeptFeed(name, since_us=since_us, until_us=until_us, exact=exact) as kept:
        yield Source(kept.items(), kept.facts, origin_us, kept)


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
        yield Source(read_feed(name))
        return
    origin_us = origin_of(name)
    at_us = LARGEST_INT64 - 1 if at is None else at.since(origin_us, "--at")
    with KeptFeed(name, since_us=min(at_us, LARGEST_INT64 - 1) + 1, exact=False) as kept:
        yield Source(kept.items(), kept.facts, origin_us, kept)
