"""Files that are no feeds: say in one line what a file is, and what to do with it.

A feed may have bad events, so no event is looked at more closely here than this: a file is a feed
if an event, a map with ``op``, stands before :data:`MOST_BEFORE` others. What comes before it is
held back until then, so that nobody acts on a file of another kind.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from typing import Final

from muster.feeds._encodings.raw import Encoding, Raw, RawEvent
from muster.feeds._encodings.read import read_input, read_raw
from muster.feeds._encodings.source import HEAD_BYTES, Input, Source
from muster.feeds._errors import FeedError
from muster.feeds._ops import OP

MOST_BEFORE: Final = 1000
"""How many values that are no events may stand before the first event of a feed."""

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
    told = None if has_op else _told_by_head(head)
    if told is not None:
        raise _error(feed.name, told)
    raws = read_input(feed, encoding)
    before: list[RawEvent] = []
    broken: FeedError | None = None
    try:
        for raw in raws:
            before.append(raw)
            if _is_event(raw.value) or (logs and is_decision_map(raw.value)):
                break
            told = _told_by_value(raw.value)
            if told is not None or len(before) > MOST_BEFORE:
                told = told or _NOTHING
                break
        else:
            if before and not has_op:  # With `op` it has events that are broken.
                told = _told_of_nothing(head, before)
    except FeedError as error:
        broken = error
        if not has_op and not error.problem.startswith("cannot be read"):
            told = _told_of_nothing(head, before)
    if told is not None:
        raise _error(feed.name, told) from broken
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


def _error(name: str, told: str) -> FeedError:
    return FeedError(name, told.replace("{file}", word_of(name)))


def _is_event(value: Raw) -> bool:
    return isinstance(value, dict) and OP.name in value


def _told_by_value(value: Raw) -> str | None:
    """Return what a file is that has a value which is no event, or None if it may be a feed."""
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


def _told_by_head(head: bytes) -> str | None:
    """Return what a file is whose first bytes leave no doubt, and have no event; or None."""
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
    return _told_of_table(lines)


def _lines(head: bytes) -> list[str]:
    """Return the whole lines of a head, without comments and what begins a document of YAML."""
    text = head.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    return [line for line in lines if line.strip() and not line.startswith(("#", "---", "%"))]


def _told_of_table(lines: list[str]) -> str | None:
    """Return what a file with a row of titles is, or None."""
    first, second = lines[0], lines[1] if len(lines) > 1 else ""
    if ":" not in first and _JOB_ID.fullmatch(first):
        return _SACCT
    for separator in ",;\t|":
        names = first.split(separator)
        is_table = len(names) > 1 and all(_NAME.fullmatch(name.strip()) for name in names)
        if is_table and second.count(separator) >= len(names) - 1:
            return _CSV
    return None


def _told_of_nothing(head: bytes, values: list[RawEvent]) -> str:
    """Return what a file is in which nothing is an event."""
    if head[:2] not in {b"\xff\xfe", b"\xfe\xff"}:
        if _CONTROL.search(head):
            return _BINARY
        try:
            # The head may end within a character.
            head.decode("utf-8") if len(head) < HEAD_BYTES else head[: head.rfind(b"\n")].decode()
        except UnicodeDecodeError:
            return _BINARY
    return _NOTHING if any(not isinstance(raw.value, str) for raw in values) else _TEXT
