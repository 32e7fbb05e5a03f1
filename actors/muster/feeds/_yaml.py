"""YAML: one list of events, or one document per event, built while the parser runs.

Theory of operation. The builder takes the parser's tokens one by one. As soon as the node of
one feed event is complete, it is yielded and forgotten, so a list of any length replays in
constant memory. (A node with an anchor is kept until its document ends, because any later
node may refer to it.)

An error in one event (an unknown tag, a repeated key, an alias without an anchor) refuses only
that event. Text that the parser itself cannot read ends the feed.

As in configurations, an alias stands for its node, and ``<<`` merges. An anchor exists once
its node is complete, so no node can contain itself. The nodes that aliases repeat are counted,
so a short text cannot expand to an event of any size.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, Final, TypeAlias, final

import attrs

from muster._yaml import LITERAL, NotYamlError, Sign, Token, check_characters, read_tokens as parsed
from muster.feeds._files import FeedError
from muster.feeds._raw import (
    MAX_DEPTH,
    MAX_NODES,
    Literal,
    LocatedList,
    LocatedMap,
    LocatedText,
    Plain,
    Raw,
    RawEvent,
    is_null,
    is_unicode,
)

MAX_VALUE_CHARACTERS: Final = 16 * 1024 * 1024
"""How much text is read for one value, so that what is no YAML does not fill the memory.

A line may be longer: a list of events in JSON often has no line end.
"""


def read_tokens(stream: BinaryIO, name: str) -> Iterator[Token]:
    """Parse a stream step by step.

    Raises:
        FeedError: If it is not YAML, or not text.
    """
    text = _Text(stream, name)
    try:
        for token in parsed(text):
            text.unparsed = 0
            yield token
    except NotYamlError as error:
        raise FeedError(name, str(error), error.line) from error


@final
class _Text:
    """A stream of bytes as the text stream that the parser reads.

    The parser can decode bytes itself, but then it does not report the line of a bad byte.

    Attributes:
        unparsed: How many characters were read since the parser has found a token.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._name = name
        self._decoder: codecs.IncrementalDecoder | None = None
        self._line = 1
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


_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = frozenset(_TAG + name for name in ("int", "float", "bool", "null"))
_TEXT_TAGS: Final = frozenset({"!", _TAG + "str"})
_CONTAINER_TAGS: Final = frozenset({"!", _TAG + "map", _TAG + "seq"})

_TOO_DEEP: Final = 2 * MAX_DEPTH
"""The nesting at which reading ends the feed, because the parser becomes too slow."""


def read_yaml(stream: BinaryIO, name: str) -> Iterator[RawEvent]:
    """Read events one by one.

    Raises:
        FeedError: If the stream is not YAML, or not text.
    """
    tokens = read_tokens(stream, name)
    builder = _Builder(tokens, name)
    index = 0
    for token in tokens:
        for line, value, problem in builder.document(token):
            yield RawEvent(index, line, value, problem)
            index += 1


def read_objects(stream: BinaryIO, name: str) -> Iterator[tuple[RawEvent, str]]:
    """Read Kubernetes objects one by one: each document, or each item of a List, with its kind.

    The kind is what is known of it outside the object: the kind of a List that names that of
    its items before them, such as ``PodList``, or an empty text.

    Raises:
        FeedError: If the stream is not YAML, or not text.
    """
    tokens = read_tokens(stream, name)
    builder = _Builder(tokens, name)
    index = 0
    for token in tokens:
        for (line, value, problem), kind in builder.objects(token):
            yield RawEvent(index, line, value, problem), kind
            index += 1


@final
@attrs.frozen
class _Measure:
    """The size of a node; a node counts each time that an alias repeats it.

    Attributes:
        nodes: How many values it has, itself included.
        height: How deep it is nested; 0 for a text.
    """

    nodes: int = 1
    height: int = 0


_SCALAR_MEASURE: Final = _Measure()
"""The size of a text."""

_Found: TypeAlias = "tuple[int, Raw, str | None]"
"""The line, the value and the problem of an event."""


@final
@attrs.define
class _Frame:
    """A list or map that is not complete.

    Attributes:
        node: The value that is being filled.
        anchor: The name of its anchor, or None.
        nodes: How many values it has so far, itself included.
        height: How deep it is nested so far.
        key: The key whose value comes next, or None if a key comes next.
        merged: The maps that ``<<`` merges; the first takes precedence.
        repeated: The keys that occur twice; none of their values counts.
    """

    node: LocatedMap | LocatedList
    anchor: str | None
    nodes: int = 1
    height: int = 1
    key: str | None = None
    merged: list[dict[str, Raw]] = attrs.field(factory=list[dict[str, Raw]])
    repeated: list[str] = attrs.field(factory=list[str])


@final
class _Builder:
    """Builds the nodes of feed events one after the other."""

    def __init__(self, tokens: Iterator[Token], name: str) -> None:
        self._tokens = tokens
        self._name = name
        self._anchors: dict[str, tuple[Raw, _Measure]] = {}
        self._stack: list[_Frame] = []
        self._problem: str | None = None

    # FEED-3
    def document(self, first: Token) -> Iterator[_Found]:
        """Yield the events of the document whose start, or whose only node, is ``first``."""
        if first.sign is Sign.DOCUMENT:
            self._anchors.clear()
        elif first.sign is Sign.LIST:
            for token in self._tokens:
                if token.sign is Sign.END:
                    break
                yield self._event(token)
        else:
            found = self._event(first)
            _, value, problem = found
            # A `---` at the end of the feed leaves an empty document, which is no event.
            if problem is not None or not is_null(value):
                yield found

    def objects(self, first: Token) -> Iterator[tuple[_Found, str]]:
        """Yield the objects of the document whose start, or whose only node, is ``first``."""
        if first.sign is not Sign.MAP:
            for found in self.document(first):
                yield found, ""
            return
        whole = LocatedMap(first.line)
        has_items, problem = False, None
        for token in self._tokens:
            if token.sign is Sign.END:
                break
            _, key, wrong = self._event(token)
            value_token = next(self._tokens)
            if key == "items" and value_token.sign is Sign.LIST:
                has_items = True
                for item in self._tokens:
                    if item.sign is Sign.END:
                        break
                    yield self._event(item), str(whole.get("kind", ""))
                continue
            _, value, worse = self._event(value_token)
            problem = problem or wrong or worse
            if isinstance(key, str):
                whole[key] = value
        if not has_items:
            yield (first.line, whole, problem), ""

    def _event(self, first: Token) -> _Found:
        """Build the whole node that starts with ``first``."""
        self._problem = None
        value = self._step(first)
        stack, step, tokens = self._stack, self._step, self._tokens
        while stack:
            value = step(next(tokens))
        return first.line, value, self._problem

    def _step(self, token: Token) -> Raw:
        """Process one token; return the node that it completes, or None."""
        sign = token.sign
        if sign is Sign.SCALAR:
            return self._scalar(token)
        if sign is Sign.END:
            return self._close(token)
        if sign is Sign.ALIAS:
            return self._alias(token)
        self._open(token)  # no document starts inside a node
        return None

    def _open(self, token: Token) -> None:
        if token.tag is not None and token.tag not in _CONTAINER_TAGS:
            self._complain(token, f"the tag {_short(token.tag)} is not known")
        node = LocatedMap(token.line) if token.sign is Sign.MAP else LocatedList(token.line)
        self._stack.append(_Frame(node, token.anchor))
        if len(self._stack) > MAX_DEPTH:
            self._complain(token, f"is nested deeper than {MAX_DEPTH} levels")
        if len(self._stack) > _TOO_DEEP:
            raise FeedError(self._name, f"nested deeper than {_TOO_DEEP} levels", token.line)

    def _close(self, token: Token) -> Raw:
        frame = self._stack.pop()
        if isinstance(frame.node, LocatedMap):
            for key in frame.repeated:
                frame.node.pop(key, None)
            for merged in frame.merged:
                for key, value in merged.items():
                    frame.node.setdefault(key, value)
        self._put(token, frame.node, _Measure(frame.nodes, frame.height), frame.anchor)
        return frame.node

    def _scalar(self, token: Token) -> Raw:
        _, line, text, tag, anchor, style = token
        plain = not style
        if tag is not None:
            plain = tag in _PLAIN_TAGS
            if not plain and tag not in _TEXT_TAGS:
                self._complain(token, f"the tag {_short(tag)} is not known")
        if not is_unicode(text):
            self._complain(token, f"{_short(ascii(text))} is not Unicode text")
        if plain:
            value: LocatedText = Plain(text, line)
        else:
            value = (Literal if style == LITERAL else LocatedText)(text, line)
        self._put(token, value, _SCALAR_MEASURE, anchor)
        return value

    def _alias(self, token: Token) -> Raw:
        if token.text not in self._anchors:
            self._complain(token, f"the alias *{_short(token.text)} names no complete node")
        value, measure = self._anchors.get(token.text, (None, _SCALAR_MEASURE))
        self._put(token, value, measure, None)
        return value

    def _put(self, token: Token, value: Raw, measure: _Measure, anchor: str | None) -> None:
        """Add a complete node to the list or map around it, and store its anchor."""
        if anchor is not None:
            self._anchors[anchor] = (value, measure)
        if not self._stack:
            return
        frame = self._stack[-1]
        frame.nodes += measure.nodes
        if frame.height <= measure.height:
            frame.height = measure.height + 1
        if frame.nodes > MAX_NODES:
            self._complain(token, f"has more than {MAX_NODES} values, aliases counted")
        elif len(self._stack) + measure.height > MAX_DEPTH:
            self._complain(token, f"is nested deeper than {MAX_DEPTH} levels")
        else:
            self._add(frame, token, value)

    def _add(self, frame: _Frame, token: Token, value: Raw) -> None:
        node = frame.node
        if isinstance(node, LocatedList):
            node.append(value)
        elif frame.key is None:
            frame.key = self._key(frame, token, value)
        elif isinstance(frame.key, Plain) and frame.key == "<<":
            frame.key = None
            self._merge(frame, token, value)
        else:
            node[frame.key] = value
            frame.key = None

    def _key(self, frame: _Frame, token: Token, value: Raw) -> str:
        if not isinstance(value, str):
            self._complain(token, "a key is no text")
            return ""
        if value in frame.node:
            frame.repeated.append(value)
            self._complain(token, f"the key {_short(repr(value))} stands twice")
        return value

    def _merge(self, frame: _Frame, token: Token, value: Raw) -> None:
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                frame.merged.append(part)
            else:
                self._complain(token, "<< takes a map or a list of maps")

    def _complain(self, token: Token, problem: str) -> None:
        """Record a problem of the event, unless an earlier one is recorded."""
        if self._problem is None:
            self._problem = f"line {token.line}: {problem}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}…"
