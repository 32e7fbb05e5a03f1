"""A typed wrapper of the YAML parser: from bytes to the tokens from which nodes are built.

Only this module of the feeds knows the YAML library.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, BinaryIO, Final, cast, final

import attrs
from ruamel.yaml import YAML, events
from ruamel.yaml.error import MarkedYAMLError

from muster._yaml import UNREADABLE
from muster.feeds._errors import FeedError

_FORBIDDEN: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
"""The characters that YAML does not allow."""


@final
class Sign(Enum):
    """The kind of a token."""

    DOCUMENT = "a document starts"
    LIST = "a list starts"
    MAP = "a map starts"
    END = "the list or map ends"
    ALIAS = "what an anchor names stands here, too"
    SCALAR = "a text"


@final
@attrs.frozen
class Token:
    """One step of the parser.

    Attributes:
        sign: Its kind.
        line: Its line, from 1.
        text: The text of a scalar, or the name of an alias.
        tag: Its tag in full, or None.
        anchor: The name of its anchor, or None.
        plain: Whether it is a scalar without quotes.
    """

    sign: Sign
    line: int
    text: str = ""
    tag: str | None = None
    anchor: str | None = None
    plain: bool = False


_SIGNS: Final[dict[type[object], Sign]] = {
    events.DocumentStartEvent: Sign.DOCUMENT,
    events.SequenceStartEvent: Sign.LIST,
    events.MappingStartEvent: Sign.MAP,
    events.SequenceEndEvent: Sign.END,
    events.MappingEndEvent: Sign.END,
    events.AliasEvent: Sign.ALIAS,
    events.ScalarEvent: Sign.SCALAR,
}


def read_tokens(stream: BinaryIO, name: str) -> Iterator[Token]:
    """Parse a stream step by step.

    Raises:
        FeedError: If it is not YAML, or not text.
    """
    line = 1
    parser: Any = YAML(typ="safe", pure=True)
    try:
        event: Any
        for event in parser.parse(_Text(stream, name)):
            sign = _SIGNS.get(cast("type[object]", type(event)))
            if sign is not None:
                token = _token(sign, event)
                line = token.line
                yield token
    except MarkedYAMLError as error:
        raise _not_yaml(error, name) from error
    except UNREADABLE as error:  # The place is at the last token or soon after.
        raise FeedError(name, f"not YAML: {error}", line) from error


def _token(sign: Sign, event: Any) -> Token:  # noqa: ANN401 - the library has no types
    line: int = event.start_mark.line + 1
    match sign:
        case Sign.DOCUMENT | Sign.END:
            return Token(sign, line)
        case Sign.ALIAS:
            return Token(sign, line, event.anchor)
        case Sign.LIST | Sign.MAP:
            return Token(sign, line, "", event.tag, event.anchor)
        case Sign.SCALAR:
            return Token(sign, line, event.value, event.tag, event.anchor, not event.style)


def _not_yaml(error: Any, name: str) -> FeedError:  # noqa: ANN401 - the library has no types
    mark = error.problem_mark or error.context_mark
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    return FeedError(name, f"not YAML: {problem}", None if mark is None else mark.line + 1)


@final
class _Text:
    """A stream of bytes as the text stream that the parser reads.

    The parser can decode bytes itself, but then it does not report the line of a bad byte.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._name = name
        self._decoder: codecs.IncrementalDecoder | None = None
        self._line = 1
        self._rest = ""

    def read(self, size: int) -> str:
        """Return some text, at least one character unless the end is reached."""
        if self._decoder is not None:
            text, self._rest = self._rest or self._more(size), ""
            return text
        # The parser reads twice before it parses anything. With a pipe, that would hold back
        # the first events until more come.
        first = self._more(size)
        self._rest = first[2:]
        return first[:2]

    def _more(self, size: int) -> str:
        while True:
            chunk: bytes = self._read(size)
            if self._decoder is None:
                self._decoder = codecs.getincrementaldecoder(_encoding(chunk))()
            text = self._decoded(self._decoder, chunk)
            if text or not chunk:
                return text

    def _decoded(self, decoder: codecs.IncrementalDecoder, chunk: bytes) -> str:
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = self._line + bytes(error.object[: error.start]).count(b"\n")
            problem = f"not text: byte 0x{error.object[error.start]:02x}: {error.reason}"
            raise FeedError(self._name, problem, line) from error
        bad = _FORBIDDEN.search(text)
        if bad is not None:
            line = self._line + text.count("\n", 0, bad.start())
            problem = f"not YAML: the character U+{ord(bad[0]):04X} must not stand there"
            raise FeedError(self._name, problem, line)
        self._line += text.count("\n")
        return text


def _encoding(start: bytes) -> str:
    return "utf-16" if start[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8-sig"
