"""Read raw events from bytes in any encoding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import BinaryIO, Final

from muster.feeds._encodings.json_list import is_json_list, read_json_list
from muster.feeds._encodings.jsonl import read_jsonl
from muster.feeds._encodings.msgpack import read_msgpack
from muster.feeds._encodings.raw import Encoding, RawEvent
from muster.feeds._encodings.source import Input, Source
from muster.feeds._encodings.yaml import read_yaml

SUFFIXES: Final[Mapping[str, Encoding]] = {
    ".yaml": Encoding.YAML,
    ".yml": Encoding.YAML,
    ".jsonl": Encoding.JSON_LINES,
    ".ndjson": Encoding.JSON_LINES,
    ".msgpack": Encoding.MSGPACK,
    ".mp": Encoding.MSGPACK,
    ".mpk": Encoding.MSGPACK,
}
"""The file name suffixes that tell the encoding of a feed; ``.gz`` may follow.

``.json`` is not among them: such a file may hold a list, or JSON Lines.
"""

# FEED-2
_READERS: Final[Mapping[Encoding, Callable[[BinaryIO, str], Iterator[RawEvent]]]] = {
    Encoding.YAML: read_yaml,
    Encoding.JSON: read_json_list,
    Encoding.JSON_LINES: read_jsonl,
    Encoding.MSGPACK: read_msgpack,
}

_BRACKET: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")


def read_raw(source: Source, *, encoding: Encoding | None = None) -> Iterator[RawEvent]:
    """Read a feed lazily, event by event.

    Args:
        source: A path, ``-`` for standard input, or a stream of bytes, which stays open.
        encoding: Its encoding; None to detect it from its name and its first bytes.

    Yields:
        Each event as written, invalid ones included.

    Raises:
        FeedError: If the feed cannot be opened, or a later part of it cannot be read.
    """
    feed = Input(source)
    try:
        yield from read_input(feed, encoding)
    finally:
        feed.close()


def read_input(feed: Input, encoding: Encoding | None = None) -> Iterator[RawEvent]:
    """Read a feed that is already open; see :func:`read_raw`."""
    found = encoding or detect(feed.head, feed.name)
    # FEED-90
    if found is Encoding.JSON and not _BRACKET.match(feed.head):
        found = Encoding.JSON_LINES
    return _READERS[found](feed.stream, feed.name)


def encoding_of(name: str) -> Encoding | None:
    """Return the encoding that a file name tells, or None."""
    return SUFFIXES.get(suffix_of(name))


def suffix_of(name: str) -> str:
    """Return the suffix of a file name in lower case, without ``.gz``."""
    path = PurePath(name.lower())
    return PurePath(path.stem).suffix if path.suffix == ".gz" else path.suffix


def detect(head: bytes, name: str) -> Encoding:
    """Detect the encoding of a feed.

    It is msgpack if it starts with a byte with which no text and nearly every msgpack value
    starts. Otherwise the name decides. Otherwise it is JSON if it starts like a list of JSON
    objects, and JSON Lines if the first line is a complete JSON object, or looks like the broken
    start of one. Everything else is YAML.
    """
    if head and (0x80 <= head[0] <= 0xC0 or head[0] in {0xDE, 0xDF}):
        return Encoding.MSGPACK
    named = encoding_of(name)
    if named is not None:
        return named
    if is_json_list(head):
        return Encoding.JSON
    line = head.lstrip().split(b"\n", 1)[0].strip()
    return Encoding.JSON_LINES if _is_json_line(line) else Encoding.YAML


def _is_json_line(line: bytes) -> bool:
    line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.startswith(b"{"):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        # A JSON generator writes `{"op"…`. YAML written by hand has no quotes there, and
        # pretty-printed JSON has nothing after the brace.
        return line[1:].lstrip().startswith(b'"')
    return True
