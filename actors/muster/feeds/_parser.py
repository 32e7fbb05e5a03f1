"""The parser: from raw events to typed items, each with its instant.

The first ``at`` that is a date sets the date from which all instants count.

Files that are no feeds are refused with one line that says what the file is, and what to do with
it. A feed may have bad events, so no event is looked at more closely for this: a file is a feed
if at most :data:`MOST_BEFORE` other values precede its first event, a map with ``op``. These are
held back until then, so that no caller acts on a file of another kind.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, final

import attrs

from muster.feeds._configuration import EventOrigin
from muster.feeds._encodings import read_input, read_raw
from muster.feeds._fields import guessed, parse_fields
from muster.feeds._files import HEAD_BYTES, FeedError, Input, Source
from muster.feeds._items import Content, FeedItem, Refused
from muster.feeds._kinds import Date, FieldError, date_text, display_value
from muster.feeds._operations import AT, OP, OPS, Op
from muster.feeds._raw import Encoding, Raw, RawEvent
from muster.feeds._state_directory import is_directory, read_kept
from muster_core.config.tree import is_null
from muster_core.decisions import MICROSECONDS

MOST_BEFORE: Final = 1000
"""The most values that are no events before the first event of a feed."""

EXAMPLE: Final = "`- {op: add_node, node: n1, capacity: {vcore: 4}}`"

_FEED: Final = "a feed is a list of events, such as " + EXAMPLE
_EMPTY: Final = "is empty, not a feed: " + _FEED
_BINARY: Final = "is binary, not a feed: a feed is YAML, JSON or msgpack, or one of them in gzip"
_DATABASE: Final = (
    "is a database, not a feed: if it is the one of a state directory, name the directory"
)
_TEXT: Final = "is text, not a feed: " + _FEED
_NOTHING: Final = "is no feed: no value in it is an event, a map with `op`, such as " + EXAMPLE
_CONFIGURATION: Final = "is a configuration, not a feed: check it with `muster validate {file}`"
_DECISIONS: Final = (
    "is a decision log, not a feed: compare it with another one with `muster compare {file} OTHER`, "
    "or name the feed that it comes from"
)
_OBJECTS: Final = (
    "has objects of Kubernetes and is not a feed: make one of it with "
    "`muster import kubernetes {file} -o FEED`"
)
_SWF: Final = (
    "is a workload in SWF, not a feed: make one of it with `muster import swf {file} -o FEED`"
)
_SACCT: Final = (
    "is output of sacct, not a feed: make one of it with `muster import slurm {file} -o FEED`"
)
_CSV: Final = (
    "is CSV, not a feed: make one of it with `muster import csv {file} --mapping MAPPING -o FEED`"
)

_HAS_OP: Final = re.compile(rb"""(?:^|[\s{,"'-])op["']?\s*:|\xa2op""", re.MULTILINE)
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_OBJECT: Final = re.compile(r"\{?\s*[\"']?(?:apiVersion|kind|items|metadata)[\"']?\s*:")
_API: Final = re.compile(r"\bapiVersion[\"']?\s*:")
_CONFIG_MAP: Final = re.compile(r"\bkind[\"']?\s*:\s*[\"']?ConfigMap\b")
_PARTITIONS: Final = re.compile(r"[\"']?partitions[\"']?\s*:")
_SWF_LINE: Final = re.compile(r"\s*(?:-?[0-9]+(?:\.[0-9]+)?\s+){17}-?[0-9]+(?:\.[0-9]+)?\s*")
_JOB_ID: Final = re.compile(r"(?:.*[|\s])?JobID(?:Raw)?(?:[|\s].*)?", re.IGNORECASE)
_NAME: Final = re.compile(r'[\w"][\w "./()%-]*')


# COMMAND-21
def read_events(
    source: Source, *, encoding: Encoding | None = None, logs: bool = False
) -> Iterator[RawEvent]:
    """Read the raw events of a feed lazily, and of nothing else.

    Args:
        source: A path, ``-`` for standard input, or a stream of bytes, which stays open.
        encoding: Its encoding; None to detect it from its name and its first bytes.
        logs: Whether it may be a decision log.

    Yields:
        Each event as written, invalid ones included.

    Raises:
        FeedError: If it cannot be opened, if it is a file of another kind, or if a later part of it
            cannot be read.
    """
    feed = Input(source)
    try:
        yield from only_events(feed, encoding, logs=logs)
    finally:
        feed.close()


def only_events(
    feed: Input, encoding: Encoding | None = None, *, logs: bool = False
) -> Iterator[RawEvent]:
    """Read what is open already; see :func:`read_events`."""
    head = feed.head
    has_op = _HAS_OP.search(head) is not None
    problem = None if has_op else _describe_head(head)
    if problem is not None:
        raise _error(feed.name, problem)
    raws = read_input(feed, encoding)
    before: list[RawEvent] = []
    broken: FeedError | None = None
    try:
        for raw in raws:
            before.append(raw)
            if _is_event(raw.value) or (logs and is_decision_map(raw.value)):
                break
            problem = _describe_value(raw.value)
            if problem is not None or len(before) > MOST_BEFORE:
                problem = problem or _NOTHING
                break
        else:
            if before and not has_op:  # With `op` it has events that are broken.
                problem = _describe_unknown(head, before)
    except FeedError as error:
        broken = error
        if not has_op and not error.problem.startswith("cannot be read"):
            problem = _describe_unknown(head, before)
    if problem is not None:
        raise _error(feed.name, problem) from broken
    yield from before
    if broken is not None:
        raise broken
    yield from raws


def is_decision_map(value: Raw) -> bool:
    """Return whether a raw value is a decision of a log, not an event of a feed."""
    return isinstance(value, dict) and OP.name not in value and {"seq", "kind"} <= value.keys()


def is_feed(content: bytes) -> bool:
    """Return whether the content of a file begins with an event of a feed."""
    try:
        first = next(read_raw(io.BytesIO(content)), None)
    except FeedError:
        return False
    return first is not None and _is_event(first.value)


def word_of(name: str) -> str:
    """Return how a file is named on a command line."""
    return "-" if name == "standard input" else shlex.quote(name)


def _error(name: str, problem: str) -> FeedError:
    return FeedError(name, problem.replace("{file}", word_of(name)))


def _is_event(value: Raw) -> bool:
    return isinstance(value, dict) and OP.name in value


def _describe_value(value: Raw) -> str | None:
    """Return the message about a file with a value that is no event; None if it may be a feed."""
    if not isinstance(value, dict):
        return None
    if "partitions" in value:
        return _CONFIGURATION
    if is_decision_map(value):
        return _DECISIONS
    if {"apiVersion", "kind"} <= value.keys():
        data = value.get("data")
        is_map = value["kind"] == "ConfigMap" and isinstance(data, dict)
        return _CONFIGURATION if is_map else _OBJECTS
    return None


def _describe_head(head: bytes) -> str | None:
    """Return the message about a file whose first bytes show that it is no feed; or None."""
    if not head.strip() and len(head) < HEAD_BYTES:
        return _EMPTY
    if head.startswith(b"SQLite format 3\x00"):
        return _DATABASE
    lines = _lines(head)
    if not lines:
        return None
    text = "\n".join(lines)
    if _PARTITIONS.match(text):
        return _CONFIGURATION
    if _OBJECT.match(text) and _API.search(text):
        is_map = "queues.yaml" in text and _CONFIG_MAP.search(text)
        return _CONFIGURATION if is_map else _OBJECTS
    if lines[0].startswith(";") or _SWF_LINE.fullmatch(lines[0]):
        return _SWF
    return _describe_table(lines)


def _lines(head: bytes) -> list[str]:
    """Return the whole lines of a head, without comments and marks of YAML documents."""
    text = head.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    return [line for line in lines if line.strip() and not line.startswith(("#", "---", "%"))]


def _describe_table(lines: list[str]) -> str | None:
    """Return the message about a table with a row of titles, or None."""
    first, second = lines[0], lines[1] if len(lines) > 1 else ""
    if ":" not in first and _JOB_ID.fullmatch(first):
        return _SACCT
    for separator in ",;\t|":
        names = first.split(separator)
        is_table = len(names) > 1 and all(_NAME.fullmatch(name.strip()) for name in names)
        if is_table and second.count(separator) >= len(names) - 1:
            return _CSV
    return None


def _describe_unknown(head: bytes, values: list[RawEvent]) -> str:
    """Return the message about a file without any event."""
    if head[:2] not in {b"\xff\xfe", b"\xfe\xff"}:
        if _CONTROL.search(head):
            return _BINARY
        try:
            # The head may end within a character.
            head.decode("utf-8") if len(head) < HEAD_BYTES else head[: head.rfind(b"\n")].decode()
        except UnicodeDecodeError:
            return _BINARY
    return _NOTHING if any(not isinstance(raw.value, str) for raw in values) else _TEXT


_PARSE: Final = AT.kind.parse


@final
@attrs.define
class FeedOrigin:
    """The date of the start of a feed, known after the first ``at`` that is a date.

    Attributes:
        us: The date, in microseconds since 1970 in UTC; None as long as no date was read.
    """

    us: int | None = None


@final
class Instants:
    """Finds the instant of each event of a feed, in the order of the events.

    Args:
        origin: Gets the date of the start.
    """

    def __init__(self, origin: FeedOrigin) -> None:
        self._origin = origin
        self._now_us = 0

    # FEED-10
    def of(self, value: Raw, problems: list[FieldError]) -> int:
        """Return the instant of an event, in microseconds since the start.

        It is its ``at`` if that is valid, else the instant of the event before it.

        Args:
            value: The event as written.
            problems: Gets the problem of its ``at``, if there is one.
        """
        written = value.get(AT.name) if isinstance(value, dict) else None
        # FEED-8
        if is_null(written):
            return self._now_us
        try:
            at = _PARSE(written)
            if type(at) is int and at >= self._now_us:  # the usual case
                self._now_us = at
            else:
                self._now_us = self._valid_us(at, written)
        except FieldError as error:
            problems.append(error.inside(AT.name))
        return self._now_us

    # FEED-9
    def _valid_us(self, at: object, written: Raw) -> int:
        """Return an instant in microseconds since the start.

        Raises:
            FieldError: If it cannot follow what was before it.
        """
        assert isinstance(at, int | Date)
        at_us = self._since_origin(at, written) if isinstance(at, Date) else at
        if at_us >= self._now_us:
            return at_us
        before = self._now_text(is_date=isinstance(at, Date))
        message = f"{display_value(written)} is before the event before it, which is at {before}"
        raise FieldError(message)

    # FEED-86
    def _since_origin(self, date: Date, written: Raw) -> int:
        origin = self._origin
        if origin.us is None:
            if self._now_us:
                message = (
                    f"{display_value(written)} is a date, and the event before it is at "
                    f"{self._now_text(is_date=False)}: write a time since the start, or make the "
                    "first time that is not 0 a date"
                )
                raise FieldError(message)
            origin.us = date.us
        if date.us < origin.us:
            start = date_text(origin.us)
            message = f"{display_value(written)} is before the start of the feed, which is {start}"
            raise FieldError(message)
        return date.us - origin.us

    def _now_text(self, *, is_date: bool) -> str:
        if is_date and self._origin.us is not None:
            return date_text(self._origin.us + self._now_us)
        return f"{self._now_us / MICROSECONDS:.15g} s"


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
            directory, :func:`origin_of` returns it. None if it is not needed.
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
    start = FeedOrigin() if origin is None else origin
    instants = Instants(start)
    for raw in raws:
        problems: list[FieldError] = []
        at_us = instants.of(raw.value, problems)
        content = _content(raw, problems, EventOrigin(base or Path(), raw.line, start.us))
        yield FeedItem(raw.index, raw.line, at_us, content)


# FEED-1
def _content(raw: RawEvent, problems: list[FieldError], origin: EventOrigin) -> Content:
    if raw.problem is not None:
        return Refused(f"event: {raw.problem}")
    if not isinstance(raw.value, dict):
        return Refused(f"event: {display_value(raw.value)} is not a map")
    written = {name: value for name, value in raw.value.items() if name not in {"op", "at"}}
    op = _op(raw.value, problems)
    if op is None:
        return _refused(problems)
    values = parse_fields(op.fields, written, problems, null_is_absent=op.null_is_absent)
    if problems:
        return _refused(problems)
    try:
        return op.build(values, origin)
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
        message = f"{display_value(written)} is no operation; there are: {', '.join(OPS)}{guess}"
        problems.append(FieldError(message, OP.name))
    return op


# FEED-15
def _refused(problems: list[FieldError]) -> Refused:
    messages = [str(problem) for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        messages.append(f"and {len(problems) - _MOST_PROBLEMS} more problems")
    return Refused("; ".join(messages))
