"""The values of a list in a JSON document, one by one: the document may be larger than memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NoReturn, final

from muster.feeds import FeedError

CHUNK_BYTES: Final = 1 << 18
"""How much is read at once."""

LONGEST_VALUE: Final = 64 << 20
"""The longest text of one value, in characters; what is longer is no such dump."""

_BLANK: Final = re.compile(r"[ \t\r\n]*")


def values_of(stream: BinaryIO, file: str, key: str) -> Iterator[tuple[int, object]]:
    """Yield the values of the list that a JSON object has under a key, each with its line.

    Args:
        stream: The document.
        file: Its name for messages.
        key: The key.

    Raises:
        FeedError: If it is no JSON, or has no such list.
    """
    text = _Text(stream, file)
    found = False
    for _ in _parts(text, "{", "}"):
        name = text.value()
        text.take(":")
        if name == key and text.next() == "[":
            found = True
            for line in _parts(text, "[", "]"):
                yield line, text.value()
        else:
            text.value()
    if not found:
        msg = f"has no list under {key!r}"
        raise FeedError(file, msg)


def _parts(text: _Text, opening: str, closing: str) -> Iterator[int]:
    """Yield the line before each part of a list or map; the caller reads the part."""
    text.take(opening)
    if text.next() == closing:
        text.take(closing)
        return
    while True:
        text.next()
        yield text.line
        if text.next() == closing:
            text.take(closing)
            return
        text.take(",")


@final
class _Text:
    """The text of a stream, of which only what is being read is in memory.

    Attributes:
        line: The line up to which it is read, from 1.
    """

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self._stream = stream
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("backslashreplace").decode
        self._text = ""
        self._at = 0
        self._is_over = False
        self.line = 1

    def _error(self, problem: str) -> FeedError:
        return FeedError(self._file, f"is no JSON: {problem}", self.line)

    def next(self) -> str | None:
        """Return the next character that is not blank, without taking it; None at the end."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            assert blank is not None, "it matches nothing, too"
            self._pass(blank.end())
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
            there = "it ends" if found is None else f"{found!r} stands"
            raise self._error(f"{there} where {wanted!r} should stand")
        self._pass(self._at + 1)

    def value(self) -> object:
        """Take one value.

        Raises:
            FeedError: If there is none.
        """
        self.next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._enlarged():
                    continue
                self._pass(min(error.pos, len(self._text)))
                raise self._error(error.msg) from None
            except ValueError as error:  # a number that is none, or has too many digits
                raise self._error(str(error)) from None
            except RecursionError:
                raise self._error("it is nested too deep") from None
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
        chunk = self._stream.read(CHUNK_BYTES)
        self._is_over = not chunk
        self._text = self._text[self._at :] + self._decode(chunk, not chunk)
        self._at = 0
        return not self._is_over


def _no_number(text: str) -> NoReturn:
    msg = f"{text} is no number"
    raise ValueError(msg)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_number)
