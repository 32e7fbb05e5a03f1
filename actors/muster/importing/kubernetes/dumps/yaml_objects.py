"""YAML: objects of a List one by one, so that a List of any length needs little memory."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Final, cast, final

from muster.feeds import FeedError
from muster.feeds._encodings.raw import RawEvent
from muster.feeds._encodings.source import Input
from muster.feeds._encodings.yaml import read_objects
from muster.importing.kubernetes.dumps.block_yaml import parse_item

LONGEST_ITEM: Final = 16 << 20
"""The longest text of one object, in bytes; what is longer is no dump."""

_HEAD: Final = re.compile(rb"(?:---\n)?apiVersion: v1\n(?:kind: List\n)?items:\n- ")
_HEAD_BYTES: Final = 64
_REST: Final = re.compile(
    rb"(?:apiVersion|kind|metadata):.*\n?|  (?:resourceVersion|selfLink):.*\n?"
)
_LINE: Final = re.compile(r"^line ([0-9]+)")
_ITEMS: Final = b"items:\n"
_DOCUMENT: Final = b"---\n"


def read_yaml(source: Input) -> Iterator[tuple[RawEvent, str]]:
    """Read objects: each document, each value of a list, or each item of a List.

    With each comes the kind of the List, if that stands before the items, or an empty text.

    Raises:
        FeedError: If the stream is not YAML.
    """
    stream = cast("io.BufferedReader", source.stream)  # which is what an Input has
    if _HEAD.match(stream.peek(_HEAD_BYTES)):
        return _Items(stream, source.name).read()
    return read_objects(stream, source.name)


@final
class _Items:
    """Reads Lists as kubectl prints them: each item begins with ``- `` at the start of a line."""

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        self._stream = stream
        self._name = name
        self._line = 0
        self._index = 0

    def read(self) -> Iterator[tuple[RawEvent, str]]:
        """Yield the items, and what stands behind the List."""
        item: list[bytes] = []
        size, first = 0, 0
        for text in self._stream:
            self._line += 1
            if item and text.startswith(b" "):
                item.append(text)
                size += len(text)
                if size > LONGEST_ITEM:
                    msg = f"an object is longer than {LONGEST_ITEM >> 20} MiB: this is no dump"
                    raise FeedError(self._name, msg, first)
                continue
            if item:
                yield from self._item(item, first)
                item = []
            if text.startswith(b"- "):
                item, size, first = [text], len(text), self._line
            elif text == _DOCUMENT:
                yield from self._others()
            elif not _REST.fullmatch(text) and text != _ITEMS and text.strip():
                msg = "not YAML: neither an item of a List nor what ends one stands here"
                raise FeedError(self._name, msg, self._line)
        if item:
            yield from self._item(item, first)

    def _item(self, lines: list[bytes], first: int) -> Iterator[tuple[RawEvent, str]]:
        text = b"".join(lines)
        if text.isascii():
            value = parse_item(text.decode().removesuffix("\n").split("\n"), first)
            if value is not None:
                self._index += 1
                yield RawEvent(self._index - 1, first, value), ""
                return
        yield from self._parsed(io.BytesIO(text), first - 1)

    def _others(self) -> Iterator[tuple[RawEvent, str]]:
        """Yield the objects of the documents behind a List."""
        if _HEAD.match(self._stream.peek(_HEAD_BYTES)):
            return
        yield from self._parsed(self._stream, self._line)

    def _parsed(
        self, stream: io.BytesIO | io.BufferedReader, above: int
    ) -> Iterator[tuple[RawEvent, str]]:
        """Yield objects as the parser reads them; so many lines stand above."""
        try:
            for raw, kind in read_objects(stream, self._name):
                line = above + (raw.line or 1)
                self._index += 1
                yield RawEvent(self._index - 1, line, raw.value, _moved(raw.problem, above)), kind
        except FeedError as error:
            place = None if error.line is None else above + error.line
            raise FeedError(self._name, error.problem, place) from error


def _moved(problem: str | None, above: int) -> str | None:
    """Return a problem whose line is counted from the start of the file."""
    if problem is None:
        return None
    return _LINE.sub(lambda match: f"line {int(match[1]) + above}", problem, count=1)
