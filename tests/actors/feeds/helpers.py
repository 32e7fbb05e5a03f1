"""Short ways to read a feed that stands in a test."""

from __future__ import annotations

import io
from collections.abc import Iterator
from textwrap import dedent

from muster.feeds import Content, Encoding, FeedItem, RawEvent, Refused, read_feed, read_raw


def raws(text: str | bytes, encoding: Encoding | None = None) -> list[RawEvent]:
    return list(read_raw(stream(text), encoding=encoding))


def items(text: str | bytes, encoding: Encoding | None = None) -> list[FeedItem]:
    return list(read_feed(stream(text), encoding=encoding))


def content(text: str) -> Content:
    """Give the content of the only event, written as YAML."""
    [item] = items(text, Encoding.YAML)
    return item.content


def refusal(text: str) -> str:
    """Give the message with which the only event, written as YAML, is refused."""
    found = content(text)
    assert isinstance(found, Refused), found
    return found.message


def stream(text: str | bytes) -> io.BytesIO:
    return io.BytesIO(dedent(text).encode() if isinstance(text, str) else text)


class Pieces:
    """A stream of what an iterator gives, a piece a read; counts the reads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.reads = 0

    def read(self, _size: int, /) -> bytes:
        self.reads += 1
        return next(self._pieces, b"")
