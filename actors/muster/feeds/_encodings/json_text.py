"""JSON of any length: its values one by one, so that a feed or a dump needs little memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NoReturn, TypeAlias, final

from muster.feeds._encodings.jsonl import TOO_DEEP
from muster.feeds._encodings.raw import MAX_DEPTH, Raw
from muster.feeds._encodings.source import CHUNK_BYTES
from muster.feeds._errors import FeedError

MAX_CHARACTERS: Final = 64 * 1024 * 1024
"""The longest value that is parsed, so that one without an end does not fill the memory."""

_SOON_CHARACTERS: Final = 1024 * 1024
"""Up to this length a value is tried again after each chunk; a longer one less and less often."""

_LONGEST_TOKEN: Final = 16
"""More characters than any token has that can break off, but for a text."""

_AFTER: Final = frozenset(" \t\n\r,]}")
"""What may stand after a value."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")


def _no_number(text: str) -> NoReturn:
    msg = f"{text} is no number"
    raise ValueError(msg)


Decode: TypeAlias = Callable[[str, int], tuple[Raw, int]]
"""Returns the value that begins at a place of a text, and where it ends.

It raises :class:`ValueError` for what is not JSON, or what it refuses.
"""

_STRICT: Final[Decode] = json.JSONDecoder(parse_constant=_no_number).raw_decode
"""Refuses a number that is none, or that has too many digits."""


@final
class JsonText:
    """The text of a stream, of which only what is not read yet is in memory.

    Attributes:
        line: The line up to which it is read, from 1.

    Args:
        stream: The stream.
        name: Its name for messages.
        decode: Makes values of text.
        errors: What becomes of bytes that are not UTF-8: ``strict`` raises :class:`FeedError`.
        what: What a value is, for messages.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        decode: Decode = _STRICT,
        errors: str = "strict",
        what: str = "a value",
    ) -> None:
        # See `_Checked` in `source.py` about `read1`.
        self._read = getattr(stream, "read1", stream.read)
        self._name, self._what = name, what
        self._value = decode
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors).decode
        self._text = ""
        self._at = 0
        self._has_ended = False
        self.line = 1
        self._may_trouble = False

    def next(self) -> str:
        """Return the next character that is no space, without taking it; an empty text at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._pass_to(self._at if found is None else found.end())
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> str:
        """Pass over the next character that is no space, and return it.

        Raises:
            FeedError: If it is not one of those that are expected.
        """
        found = self.next()
        if not found or found not in expected:
            wanted = " or ".join(map(repr, expected))
            raise self.no_json(f"{repr(found) if found else 'the end'} instead of {wanted}")
        self._at += 1
        return found

    def parts(self, opening: str, closing: str) -> Iterator[int]:
        """Yield the line of each part of a list or map; the caller takes the part.

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
            if self.take(f",{closing}") == closing:
                return

    def value(self) -> Raw:
        """Take one value.

        Raises:
            FeedError: If it is not JSON.
        """
        self.next()
        while True:
            try:
                value, end = self._value(self._text, self._at)
            except json.JSONDecodeError as error:
                if not (self._may_go_on(error) and self._more_of_value()):
                    raise self.no_json(error.msg, error.pos) from error
                continue
            except ValueError as error:
                raise self.no_json(str(error)) from None
            except RecursionError:
                raise self.error(TOO_DEEP) from None
            is_whole = self._text[end : end + 1] in _AFTER or end < len(self._text) - _LONGEST_TOKEN
            if is_whole or not self._more():  # `12` may go on as `123`, and `1.` as `1.5`
                self._may_trouble = self._may_trouble or self._is_odd(end)
                self._pass_to(end)
                return value

    def may_trouble(self) -> bool:
        """Return whether a value since the last call may be one that no feed can say.

        It is nested deep, or has an escape that may stand for what is no Unicode text.
        """
        found, self._may_trouble = self._may_trouble, False
        return found

    def no_json(self, problem: str, at: int | None = None) -> FeedError:
        """Return the error that something is not JSON, with the line of a place; see :meth:`error`."""
        return self.error(f"not JSON: {problem}", at)

    def error(self, problem: str, at: int | None = None) -> FeedError:
        """Return an error with the line of a place in the text, by default of the next character."""
        place = self._at if at is None else at
        return FeedError(self._name, problem, self.line + self._text.count("\n", self._at, place))

    def _pass_to(self, end: int) -> None:
        self.line += self._text.count("\n", self._at, end)
        self._at = end

    def _is_odd(self, end: int) -> bool:
        # Almost no value can have such a problem, and to walk every value would be slow.
        text, at = self._text, self._at
        depth = text.count("{", at, end) + text.count("[", at, end)
        return (
            depth > MAX_DEPTH or text.find("\\ud", at, end) >= 0 or text.find("\\uD", at, end) >= 0
        )

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Return whether a value may only be incomplete."""
        is_late = error.pos >= len(self._text) - _LONGEST_TOKEN
        return is_late or error.msg.startswith("Unterminated string")

    def _more_of_value(self) -> bool:
        pending = len(self._text) - self._at
        if pending > MAX_CHARACTERS:
            raise self.error(f"{self._what} is longer than {MAX_CHARACTERS} characters")
        if not self._more():
            return False
        if pending > _SOON_CHARACTERS:
            while len(self._text) < 2 * pending and self._more():
                pass
        return True

    def _more(self) -> bool:
        """Read some more text; return False at the end."""
        if self._has_ended:
            return False
        chunk: bytes = self._read(CHUNK_BYTES)
        self._has_ended = not chunk
        try:
            more = self._decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            problem = f"not text: byte 0x{error.object[error.start]:02x}: {error.reason}"
            # The bytes before the bad one are the last text that there is.
            self._text += bytes(error.object[: error.start]).decode()
            raise self.error(problem, len(self._text)) from error
        self._text = self._text[self._at :] + more
        self._at = 0
        return True
