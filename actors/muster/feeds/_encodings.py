"""Encodings of feeds: from bytes to raw events and back. They do not know what an event means.

:func:`read_raw` detects the encoding of a feed and reads its events. :class:`Encoder` writes values
as the bytes of events; nothing is needed between these, but in JSON they are the items of a list.

msgpack is a stream of maps, with nothing between them. No lines mark the next event, so bytes that
are not msgpack end the feed. Valid msgpack that is no event (another type, a repeated key, text that
is not UTF-8) is refused, and the feed goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, BinaryIO, Final, final

import msgpack

from muster.feeds._files import CHUNK_BYTES, FeedError, Input, Source
from muster.feeds._json import is_json_list, read_json_list, read_jsonl
from muster.feeds._raw import Encoding, Raw, RawEvent, problem_of_value
from muster.feeds._yaml import read_yaml

# A text that every YAML parser, not only ours, reads as a text without quotes.
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*|[0-9]+(\.[0-9]+)?[A-Za-z]+", re.ASCII)
_NOT_TEXTS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_TO_ESCAPE: Final = re.compile(
    "[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LONGEST_KEY: Final = 1000
"""In YAML a key of more than 1024 characters must start with ``?``."""


_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def to_json_line(value: object) -> bytes:
    """Write a value as one line of JSON."""
    # Lone surrogates (from a file name in a message) are written as JSON escapes.
    return _JSON.encode(value).encode(errors="backslashreplace") + b"\n"


def to_msgpack(value: object) -> bytes:
    """Write a value as msgpack."""
    packed: bytes = msgpack.packb(value, unicode_errors="backslashreplace")
    return packed


def to_yaml_item(value: Raw) -> bytes:
    """Write a value as an item of a YAML list, in one line."""
    return f"- {_flow(value)}\n".encode()


def _flow(value: Raw) -> str:
    match value:
        case str():
            return _yaml_text(value)
        case list():
            return f"[{', '.join(_flow(part) for part in value)}]"
        case dict():
            return f"{{{', '.join(_entry(key, part) for key, part in value.items())}}}"
        case _:
            return json.dumps(value, allow_nan=False)


def _entry(key: str, value: Raw) -> str:
    text = _yaml_text(key)
    return f"{'? ' if len(text) > _LONGEST_KEY else ''}{text}: {_flow(value)}"


def _yaml_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXTS:
        return text
    return _TO_ESCAPE.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


ENCODERS: Final[Mapping[Encoding, Callable[[Raw], bytes]]] = {
    Encoding.YAML: to_yaml_item,
    Encoding.JSON: to_json_line,
    Encoding.JSON_LINES: to_json_line,
    Encoding.MSGPACK: to_msgpack,
}
"""How the bytes of one event are written, for each encoding."""


# FEED-90
@final
class Encoder:
    """Writes the events of one feed, one after the other.

    Args:
        encoding: The encoding.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encode = ENCODERS[encoding]
        self._is_list = encoding is Encoding.JSON
        self._has_begun = False

    def event(self, value: Raw) -> bytes:
        """Return the bytes of the next event, with those that precede it."""
        data = self._encode(value)
        if not self._is_list:
            return data
        # The first event is on the line of the bracket: that line shows what the feed is.
        before = b"," if self._has_begun else b"["
        self._has_begun = True
        return before + data

    def end(self) -> bytes:
        """Return the bytes after the last event."""
        if not self._is_list:
            return b""
        return b"]\n" if self._has_begun else b"[]\n"


MAX_EVENT_BYTES: Final = 256 * 1024 * 1024
"""The largest event that is read."""

MAX_ITEMS: Final = 1_000_000
"""The most items that one list or map may announce: memory is reserved before they are read."""


def read_msgpack(stream: BinaryIO, name: str) -> Iterator[RawEvent]:
    """Read events one by one.

    Raises:
        FeedError: If the stream is not msgpack, or ends within an event.
    """
    problems: list[str] = []
    unpacker = _unpacker(problems)
    index, fed, taken = 0, 0, 0
    try:
        while chunk := _read(stream):
            unpacker.feed(chunk)
            fed += len(chunk)
            for value in unpacker:
                taken = unpacker.tell()
                yield RawEvent(
                    index, None, value, problems[0] if problems else problem_of_value(value)
                )
                problems.clear()
                index += 1
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        problem = (
            f"event {index} at byte {taken}: not msgpack: {str(error) or type(error).__name__}"
        )
        raise FeedError(name, problem) from error
    if fed > taken:
        raise FeedError(name, f"event {index} at byte {taken}: the feed ends within it")


def _read(stream: BinaryIO) -> bytes:
    chunk: bytes = getattr(stream, "read1", stream.read)(CHUNK_BYTES)
    return chunk


def _unpacker(problems: list[str]) -> Any:  # noqa: ANN401 - the stubs are not always installed
    def as_map(pairs: list[tuple[object, Raw]]) -> dict[str, Raw]:
        made: dict[str, Raw] = {}
        twice: set[str] = set()
        for key, value in pairs:
            if not isinstance(key, str):
                problems.append(f"the key {ascii(key)[:80]} is no text")
            elif key in made:
                problems.append(f"the key {ascii(key)[:80]} stands twice")
                twice.add(key)
            else:
                made[key] = value
        return {key: made[key] for key in made if key not in twice} if twice else made

    return msgpack.Unpacker(
        object_pairs_hook=as_map,
        strict_map_key=False,
        unicode_errors="surrogateescape",  # `problem_of_value` refuses it; later events are read
        max_buffer_size=MAX_EVENT_BYTES,
        max_array_len=MAX_ITEMS,
        max_map_len=MAX_ITEMS,
    )


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
