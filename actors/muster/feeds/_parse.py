"""Parse raw events into typed items, each with its instant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from muster.feeds._configure import Origin
from muster.feeds._encodings.raw import Encoding, Raw, RawEvent
from muster.feeds._encodings.read import read_input
from muster.feeds._encodings.source import Input, Source
from muster.feeds._fields.kinds import FieldError, told
from muster.feeds._fields.table import guessed, parse_fields
from muster.feeds._items import Content, FeedItem, Refused
from muster.feeds._kept import is_directory, read_kept
from muster.feeds._ops import OP, OPS, Op
from muster.feeds._origin import FeedOrigin, Instants
from muster.feeds._other_files import only_events

_MOST_PROBLEMS: Final = 10
"""How many problems of one event its message names."""


def read_feed(
    source: Source,
    *,
    encoding: Encoding | None = None,
    origin: FeedOrigin | None = None,
    only_feeds: bool = False,
) -> Iterator[FeedItem]:
    """Read a feed lazily, item by item.

    A state directory is read from its first batch on, with a ``settle`` after each batch. If its
    first batches were removed, :class:`KeptFeed` has the state with which the others begin.
    ``file`` in a ``configure`` event is relative to the folder of the feed, or to the working
    folder if the feed is a stream.

    Args:
        source: A path, ``-`` for standard input, a stream of bytes, which stays open, or the path
            of a state directory.
        encoding: Its encoding; None to detect it from its name and its first bytes.
        origin: Gets the date of its start when the first ``at`` that is a date is read; of a state
            directory, :func:`origin_of` returns it. None if nobody wants to know.
        only_feeds: Whether a file of another kind is an error, which says what it is. If not, each
            value in it is an event that is refused.

    Yields:
        Each event, refused ones included.

    Raises:
        FeedError: If the feed cannot be opened, if a later part of it cannot be read, or if
            it is a file of another kind and only feeds are read.
    """
    if isinstance(source, (str, os.PathLike)) and is_directory(source):
        yield from read_kept(source)
        return
    feed = Input(source)
    try:
        read = only_events if only_feeds else read_input
        yield from parse(read(feed, encoding), base=feed.base, origin=origin)
    finally:
        feed.close()


def parse(
    raws: Iterable[RawEvent], *, base: Path | None = None, origin: FeedOrigin | None = None
) -> Iterator[FeedItem]:
    """Parse raw events into items.

    Args:
        raws: The raw events, in order.
        base: The folder to which ``file`` in a ``configure`` event is relative; None for
            the working folder.
        origin: Gets the date of the start, as for :func:`read_feed`.

    Yields:
        One item for each raw event.
    """
    instants = Instants(FeedOrigin() if origin is None else origin)
    for raw in raws:
        problems: list[FieldError] = []
        at_us = instants.of(raw.value, problems)
        yield FeedItem(raw.index, raw.line, at_us, _content(raw, problems, base or Path()))


# FEED-1
def _content(raw: RawEvent, problems: list[FieldError], base: Path) -> Content:
    if raw.problem is not None:
        return Refused(f"event: {raw.problem}")
    if not isinstance(raw.value, dict):
        return Refused(f"event: {told(raw.value)} is not a map")
    written = {name: value for name, value in raw.value.items() if name not in {"op", "at"}}
    op = _op(raw.value, problems)
    if op is None:
        return _refused(problems)
    values = parse_fields(op.fields, written, problems, null_is_absent=op.null_is_absent)
    if problems:
        return _refused(problems)
    try:
        return op.build(values, Origin(base, raw.line))
    except FieldError as error:
        return _refused([error])


# FEED-1, FEED-14
def _op(value: dict[str, Raw], problems: list[FieldError]) -> Op | None:
    if OP.name not in value:
        problems.append(FieldError("is missing", OP.name))
        return None
    written = value[OP.name]
    op = OPS.get(written) if isinstance(written, str) else None
    if op is None:
        guess = guessed(str(written), tuple(OPS)) if isinstance(written, str) else ""
        message = f"{told(written)} is no operation; there are: {', '.join(OPS)}{guess}"
        problems.append(FieldError(message, OP.name))
    return op


# FEED-15
def _refused(problems: list[FieldError]) -> Refused:
    told_problems = [str(problem) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        told_problems.append(f"and {len(problems) - _MOST_PROBLEMS} more problems")
    return Refused("; ".join(told_problems))
