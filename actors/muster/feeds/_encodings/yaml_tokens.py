"""From the bytes of a YAML feed to the tokens from which nodes are built."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, Final, final

from muster._yaml import NotYamlError, Token, check_characters, read_tokens as parsed
from muster.feeds._errors import FeedError

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
