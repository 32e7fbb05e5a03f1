"""JSON of any length: its values one by one, so that a dump needs little memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NoReturn, final

from muster.feeds import FeedError
from muster.feeds._encodings.raw import Raw

CHUNK_BYTES: Final = 1 << 18
"""How much is read at once."""

LONGEST_VALUE: Final = 16 << 20
"""The longest text of one value, in characters; what is longer is no JSON of a dump."""

_BLANK: Final = re.compile(r"[ \t\r\n]*")


@final
class JsonText:
    """The text of a stream, of which only what is being read is in memory.

    Attributes:
        line: The line up to which it is read, from 1.
        is_escaped: Whether it has an escape that may stand for what is no Unicode text.

    Args:
        stream: The stream.
        name: Its name for messages.
        errors: What becomes of bytes that are not UTF-8: ``strict`` raises :class:`FeedError`.
    """

    def __init__(self, stream: BinaryIO, name: str, errors: str = "strict") -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._name = name
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors).decode
        self._text = ""
        self._at = 0
        self._is_over = False
        self.line = 1
        self.is_escaped = False

    def error(self, problem: str) -> FeedError:
        """Return the error that this is no JSON."""
        return FeedError(self._name, f"not JSON: {problem}", self.line)

    def next(self) -> str | None:
        """Return the next character that is not blank, without taking it; None at the end."""
        while True:
            self._pass(_BLANK.match(self._text, self._at).end())  # type: ignore[union-attr] # matches always
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return None

    def take(self, wanted: str) -> None:
        """Take one character.

        Raises:
            FeedError: If another one stands there.
        """
        found = self.next()
        if found != wanted:
            there = "the text ends" if found is None else f"{found!r} stands"
            raise self.error(f"{there} where {wanted!r} should stand")
        self._pass(self._at + 1)

    def parts(self, opening: str, closing: str) -> Iterator[int]:
        """Yield the line before each part of a list or map; the caller reads the part.

        Raises:
            FeedError: If something else stands there.
        """
        self.take(opening)
        if self.next() == closing:
            self.take(closing)
            return
        while True:
            self.next()
            yield self.line
            if self.next() == closing:
                self.take(closing)
                return
            self.take(",")

    def value(self) -> Raw:
        """Take one value.

        Raises:
            FeedError: If there is none.
        """
        self.next()
        while True:
            value: Raw
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._enlarged():
                    continue
                self._pass(min(error.pos, len(self._text)))
                raise self.error(error.msg) from None
            except ValueError as error:  # a number that is none, or that has too many digits
                raise self.error(str(error)) from None
            except RecursionError:
                raise self.error("is nested too deep") from None
            if end == len(self._text) and self._more():
                continue  # a number may go on
            self._pass(end)
            return value

    def _pass(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _enlarged(self) -> bool:
        """Read more of a value that may go on, twice as much each time."""
        known = len(self._text) - self._at
        if known > LONGEST_VALUE or not self._more():
            return False
        while len(self._text) < 2 * known and self._more():
            pass
        return True

    def _more(self) -> bool:
        if self._is_over:
            return False
        chunk: bytes = self._read(CHUNK_BYTES)
        self._is_over = not chunk
        try:
            text = self._decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            bad = bytes(error.object)[error.start]
            raise self.error(f"byte 0x{bad:02x} is not UTF-8: {error.reason}") from None
        self._text = self._text[self._at :] + text
        self._at = 0
        self.is_escaped = self.is_escaped or "\\u" in text or text.endswith("\\")
        return bool(text) or not self._is_over


def _no_number(text: str) -> NoReturn:
    msg = f"{text} is no number"
    raise ValueError(msg)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
