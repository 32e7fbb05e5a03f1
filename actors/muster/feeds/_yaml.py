"""YAML: one list of events, or one document per event, built while the parser runs.

Theory of operation. As soon as the tree of one feed event is complete, it is yielded and forgotten,
so a list of any length replays in constant memory. (A node with an anchor is kept until its document
ends, because any later node may refer to it.)

An error in one event (an unknown tag, a repeated key, an alias without an anchor) refuses only
that event. Text that the parser itself cannot read ends the feed.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, TypeAlias, final

from muster._yaml import (
    Sign,
    Token,
    TreeBuilder,
    YamlError,
    YamlRules,
    check_characters,
    read_tokens,
)
from muster.feeds._files import FeedError
from muster.feeds._raw import TOO_DEEP, Raw, RawEvent
from muster_core.config.tree import LocatedMap, is_null

_MAX_NODES: Final = 1_000_000
"""How many values one event may have; a value counts each time that an alias repeats it."""

MAX_VALUE_CHARACTERS: Final = 16 * 1024 * 1024
"""How much text is read for one value, so that what is no YAML does not fill the memory.

A line may be longer: a list of events in JSON often has no line end.
"""


_RULES: Final = YamlRules(
    is_whole=False,
    most_values=_MAX_NODES,
    unknown_tag="the tag {} is not known",
    no_unicode="{} is not Unicode text",
    too_deep=TOO_DEEP,
    too_many=f"has more than {_MAX_NODES} values, aliases counted",
    unknown_alias="the alias *{} names no complete node",
    no_merge="<< takes a map or a list of maps",
)


def _tokens(text: _Text, above: int) -> Iterator[Token]:
    for token in read_tokens(text, above):
        text.unparsed = 0
        yield token


@final
class _Text:
    """A stream of bytes as the text stream that the parser reads.

    The parser can decode bytes itself, but then it does not report the line of a bad byte.

    Attributes:
        unparsed: How many characters were read since the parser has found a token.
    """

    def __init__(self, stream: BinaryIO, name: str, line: int) -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._name = name
        self._decoder: codecs.IncrementalDecoder | None = None
        self._line = line
        self.unparsed = 0

    # FEED-81
    def read(self, size: int, /) -> str:
        """Return some text, at least one character unless the end is reached."""
        while True:
            chunk: bytes = self._read(size)
            if self._decoder is None:
                self._decoder = codecs.getincrementaldecoder(_encoding(chunk))()
            text = self._decoded(self._decoder, chunk)
            self.unparsed += len(text)
            if self.unparsed > MAX_VALUE_CHARACTERS:
                problem = f"a value is longer than {MAX_VALUE_CHARACTERS} characters"
                raise FeedError(self._name, problem, self._line)
            if text or not chunk:
                return text

    def _decoded(self, decoder: codecs.IncrementalDecoder, chunk: bytes) -> str:
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = self._line + bytes(error.object[: error.start]).count(b"\n")
            problem = f"not text: byte 0x{error.object[error.start]:02x}: {error.reason}"
            raise FeedError(self._name, problem, line) from error
        check_characters(text, self._line)
        self._line += text.count("\n")
        return text


def _encoding(start: bytes) -> str:
    return "utf-16" if start[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8-sig"


def read_yaml(stream: BinaryIO, name: str) -> Iterator[RawEvent]:
    """Read events one by one.

    Raises:
        FeedError: If the stream is not YAML, or not text.
    """
    reader = _Reader(stream, name)
    return (raw for raw, _ in reader.read(reader.document))


def read_objects(stream: BinaryIO, name: str, above: int = 0) -> Iterator[tuple[RawEvent, str]]:
    """Read Kubernetes objects one by one: each document, or each item of a List, with its kind.

    The kind is the one of the List around the object, such as ``PodList``, if that precedes the
    items and names theirs, or an empty text.

    Args:
        stream: The stream.
        name: Its name for messages.
        above: How many lines of its file are above it.

    Raises:
        FeedError: If the stream is not YAML, or not text.
    """
    reader = _Reader(stream, name, above)
    return reader.read(reader.objects)


_Found: TypeAlias = "tuple[int, Raw, str | None, str]"
"""The line, the value and the problem of an event, and the kind of the List around it."""


@final
class _Reader:
    """Reads the events of a stream one after the other."""

    def __init__(self, stream: BinaryIO, name: str, above: int = 0) -> None:
        self._name = name
        self._tokens = _tokens(_Text(stream, name, above + 1), above)
        self._builder = TreeBuilder(self._tokens, _RULES)

    def read(self, part: Callable[[Token], Iterator[_Found]]) -> Iterator[tuple[RawEvent, str]]:
        """Yield the events of each part, which begins with a token."""
        index = 0
        try:
            for token in self._tokens:
                for line, value, problem, kind in part(token):
                    yield RawEvent(index, line, value, problem), kind
                    index += 1
        except YamlError as error:
            raise FeedError(self._name, str(error), error.line) from error

    # FEED-3
    def document(self, first: Token) -> Iterator[_Found]:
        """Yield the events of the document whose start, or whose only node, is ``first``."""
        if first.sign is Sign.DOCUMENT:
            self._builder.forget_anchors()
        elif first.sign is Sign.LIST:
            yield from self._items("")
        else:
            value, problem = self._builder.build(first)
            # A `---` at the end of the feed leaves an empty document, which is no event.
            if problem is not None or not is_null(value):
                yield first.line, value, problem, ""

    def objects(self, first: Token) -> Iterator[_Found]:
        """Yield the objects of the document whose start, or whose only node, is ``first``."""
        if first.sign is not Sign.MAP:
            yield from self.document(first)
            return
        whole = LocatedMap(first.line)
        has_items, problem = False, None
        for token in self._tokens:
            if token.sign is Sign.END:
                break
            key, wrong = self._builder.build(token)
            value_token = next(self._tokens)
            if key == "items" and value_token.sign is Sign.LIST:
                has_items = True
                yield from self._items(str(whole.get("kind", "")))
                continue
            value, worse = self._builder.build(value_token)
            problem = problem or wrong or worse
            if isinstance(key, str):
                whole[key] = value
        if not has_items:
            yield first.line, whole, problem, ""

    def _items(self, kind: str) -> Iterator[_Found]:
        """Yield the items of a list whose start was read."""
        build = self._builder.build
        for token in self._tokens:
            if token.sign is Sign.END:
                break
            yield token.line, *build(token), kind
