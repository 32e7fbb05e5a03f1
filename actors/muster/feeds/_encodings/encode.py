"""Encoders: write a value that every encoding supports as the bytes of one event.

The bytes of consecutive events form a feed, and nothing is needed between them; but in JSON they
are the items of a list. :class:`Encoder` writes what stands around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, final

import msgpack

from muster.feeds._encodings.raw import Encoding, Raw

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
        """Return the bytes of the next event, with those that stand before it."""
        data = self._encode(value)
        if not self._is_list:
            return data
        # The first event stands on the line of the bracket: that line tells what the feed is.
        before = b"," if self._has_begun else b"["
        self._has_begun = True
        return before + data

    def end(self) -> bytes:
        """Return the bytes that stand after the last event."""
        if not self._is_list:
            return b""
        return b"]\n" if self._has_begun else b"[]\n"
