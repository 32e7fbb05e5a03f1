"""JSON: one list of events, read event by event.

A list has no line that ends an event, so text that is not JSON ends the feed. A value that JSON
can say but no feed (``NaN``, a repeated key, a number that is too large) refuses only its event.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, final

from muster.feeds._encodings.jsonl import TOO_DEEP, Maps, finite, stands_twice
from muster.feeds._encodings.raw import MAX_DEPTH, Raw, RawEvent, trouble
from muster.feeds._encodings.source import CHUNK_BYTES
from muster.feeds._errors import FeedError

MAX_EVENT_CHARACTERS: Final = 64 * 1024 * 1024
"""The longest event that is parsed, so that a list without an end does not fill the memory."""

_SOON_CHARACTERS: Final = 1024 * 1024
"""Up to this length an event is tried again after each chunk; a longer one less and less often."""

_LONGEST_TOKEN: Final = 16
"""More characters than any token has that can break off, but for a text."""

_AFTER: Final = frozenset(" \t\n\r,]")
"""What may stand after a value."""

_BEGINNING: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*(?:\]|\{\s*["}])')
_SPACE: Final = re.compile(r"[ \t\n\r]*")


def is_json_list(head: bytes) -> bool:
    """Return whether some first bytes look like those of a list of JSON objects.

    A YAML list in brackets that a person wrote has no quotes around its keys.
    """
    return _BEGINNING.match(head) is not None


# FEED-90
def read_json_list(stream: BinaryIO, name: str) -> Iterator[RawEvent]:
    """Read events one by one.

    Raises:
        FeedError: If the stream is not one list in JSON, or not text.
    """
    text = _Text(stream, name)
    text.take("[")
    if text.next() == "]":
        text.take("]")
    else:
        index, more = 0, True
        while more:
            line, value, problem = text.value()
            yield RawEvent(index, line, value, problem)
            index += 1
            more = text.take(",]") == ","
    if text.next():
        raise text.error("not JSON: something follows the end of the list")


@final
class _Text:
    """The text of a stream, of which only what is not read yet is in memory."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        # See `_Checked` about `read1`.
        self._read = getattr(stream, "read1", stream.read)
        self._name = name
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._text = ""
        self._at = 0
        self._line = 1
        self._has_ended = False
        self._maps = Maps()
        self._problems: list[str] = []
        self._reader = json.JSONDecoder(
            object_pairs_hook=self._maps.made,
            parse_constant=self._no_number,
            parse_float=self._float,
            parse_int=self._int,
        )

    def next(self) -> str:
        """Return the next character that is no space; an empty text at the end."""
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
            raise self.error(f"not JSON: {repr(found) if found else 'the end'} instead of {wanted}")
        self._at += 1
        return found

    def value(self) -> tuple[int, Raw, str | None]:
        """Return the line of the next value, the value, and the problem with it or None.

        Raises:
            FeedError: If it is not JSON.
        """
        self.next()
        while True:
            self._problems.clear()
            self._maps.repeated.clear()
            try:
                value, end = self._reader.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if not (self._may_go_on(error) and self._more_of_value()):
                    raise self.error(f"not JSON: {error.msg}", error.pos) from error
                continue
            except RecursionError:
                raise self.error(TOO_DEEP) from None
            is_whole = self._text[end : end + 1] in _AFTER or end < len(self._text) - _LONGEST_TOKEN
            if is_whole or not self._more():  # `12` may go on as `123`, and `1.` as `1.5`
                line, problem = self._line, self._problem(value, end)
                self._pass_to(end)
                return line, value, problem

    def error(self, problem: str, at: int | None = None) -> FeedError:
        """Return an error with the line of a place, by default of the next character."""
        place = self._at if at is None else at
        return FeedError(self._name, problem, self._line + self._text.count("\n", self._at, place))

    def _pass_to(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        """Return whether a value may only be incomplete."""
        is_late = error.pos >= len(self._text) - _LONGEST_TOKEN
        return is_late or error.msg.startswith("Unterminated string")

    def _more_of_value(self) -> bool:
        pending = len(self._text) - self._at
        if pending > MAX_EVENT_CHARACTERS:
            msg = f"an event is longer than {MAX_EVENT_CHARACTERS} characters"
            raise self.error(msg)
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

    def _problem(self, value: Raw, end: int) -> str | None:
        if self._problems:
            return self._problems[0]
        if self._maps.repeated:
            return stands_twice(self._maps.repeated[0])
        # Almost no value can have such a problem, and to walk every value would be slow.
        text, at = self._text, self._at
        depth = text.count("{", at, end) + text.count("[", at, end)
        if depth > MAX_DEPTH or text.find("\\ud", at, end) >= 0 or text.find("\\uD", at, end) >= 0:
            return trouble(value)
        return None

    def _no_number(self, constant: str) -> None:
        self._problems.append(f"{constant} is no number")

    def _float(self, text: str) -> float | None:
        try:
            return finite(text)
        except ValueError as error:
            self._problems.append(str(error))
            return None

    def _int(self, text: str) -> int | None:
        try:
            return int(text)
        except ValueError:  # Python limits the digits of an integer
            self._problems.append("a number has too many digits")
            return None
