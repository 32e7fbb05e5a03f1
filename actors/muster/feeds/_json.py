"""JSON: events one per line, or in one list, read event by event from text of any length.

In JSON Lines, a bad line is refused and the lines after it are still read. A list has no line that
ends an event, so text that is not JSON ends the feed. A value that JSON can say but no feed (``NaN``,
a repeated key, a number that is too large) refuses only its event.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NoReturn, TypeAlias, final

from muster.feeds._files import CHUNK_BYTES, FeedError
from muster.feeds._raw import TOO_DEEP, Raw, RawEvent, problem_of_value
from muster_core.config.tree import MAX_DEPTH

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line that is parsed, so that a feed without line ends does not fill memory."""

_SPACE: Final = re.compile(r"[ \t\n\r]+")


# FEED-81
def read_jsonl(stream: BinaryIO, _name: str) -> Iterator[RawEvent]:
    """Read events one by one; blank lines are skipped."""
    index, number, decoder = 0, 0, _LineDecoder()
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) >= MAX_LINE_BYTES and not line.endswith(b"\n"):
            _skip_line(stream)
            yield RawEvent(index, number, None, f"the line is longer than {MAX_LINE_BYTES} bytes")
        elif line.isspace() or not line:
            continue
        else:
            value, problem = decoder.decode(line)
            yield RawEvent(index, number, value, problem)
        index += 1


@final
class _NumberError(ValueError):
    """A number that is not valid JSON, or that does not fit a float."""


@final
class _LineDecoder:
    """Reads the lines of one feed."""

    def __init__(self) -> None:
        self._maps = MapBuilder()
        self._decoder = json_decoder(self._maps)

    def decode(self, line: bytes) -> tuple[Raw, str | None]:
        """Read one line; return its value, and the problem with it or None."""
        try:
            return self._decoded(line)
        except UnicodeDecodeError as error:
            return None, f"the line is not UTF-8: byte 0x{line[error.start]:02x}: {error.reason}"
        except json.JSONDecodeError as error:
            return None, f"the line is not JSON: {error.msg} (column {error.colno})"
        except _NumberError as error:
            return None, f"the line is not JSON: {error}"
        except ValueError:  # the only other cause: Python limits the digits of an integer
            return None, "the line is not JSON: a number has too many digits"
        except RecursionError:
            return None, TOO_DEEP

    def _decoded(self, line: bytes) -> tuple[Raw, str | None]:
        twice, text = self._maps.repeated, line.decode().rstrip("\r\n")
        twice.clear()
        if text.startswith("\ufeff"):
            json.loads(text)  # It raises the error that says so.
        value: Raw = self._decoder.decode(text)
        return value, duplicate_key(twice[0]) if twice else _trouble(line, value)


def read_listed(text: str) -> Iterator[tuple[Raw, str | None]]:
    """Read the items of a JSON list one by one, or the only value of a text that is no list.

    Yields:
        Each value, and the problem with it or None.

    Raises:
        ValueError: If it is not JSON.
    """
    maps = MapBuilder()
    reader = json_decoder(maps)
    at = _after_space(text, 0)
    is_list = text.startswith("[", at)
    at += is_list
    if is_list and text.startswith("]", _after_space(text, at)):
        at = _after_space(text, at) + 1
    else:
        more = True
        while more:
            maps.repeated.clear()
            try:
                value, at = reader.raw_decode(text, _after_space(text, at))
            except RecursionError:
                yield None, TOO_DEEP
                return
            twice = maps.repeated
            yield value, duplicate_key(twice[0]) if twice else problem_of_value(value)
            at = _after_space(text, at)
            more = is_list and text.startswith(",", at)
            if is_list and not more and not text.startswith("]", at):
                msg = "Expecting ',' or ']'"
                raise json.JSONDecodeError(msg, text, at)
            at += is_list
    if _after_space(text, at) < len(text):
        msg = "Extra data"
        raise json.JSONDecodeError(msg, text, _after_space(text, at))


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


@final
class MapBuilder:
    """Makes maps, and records the keys that a map repeats.

    Attributes:
        repeated: These keys.
    """

    def __init__(self) -> None:
        self.repeated: list[str] = []

    def made(self, pairs: list[tuple[str, Raw]]) -> dict[str, Raw]:
        """Return a map without repeated keys."""
        made = dict(pairs)
        if len(made) != len(pairs):
            keys = Counter(key for key, _ in pairs)
            twice = [key for key, times in keys.items() if times > 1]
            self.repeated.extend(twice)
            for key in twice:  # neither of the values counts
                del made[key]
        return made


def json_decoder(maps: MapBuilder) -> json.JSONDecoder:
    """Return a decoder for the JSON of feeds that makes maps with a builder."""
    return json.JSONDecoder(
        object_pairs_hook=maps.made, parse_constant=_no_number, parse_float=finite
    )


def duplicate_key(key: str) -> str:
    """Return the problem of a map with a repeated key."""
    return f"the key {key[:80]!r} stands twice"


def _trouble(line: bytes, value: Raw) -> str | None:
    # Almost no line can have such a problem, and to walk every value would be slow.
    if b"\\ud" in line or b"\\uD" in line or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        return problem_of_value(value)
    return None


def _no_number(constant: str) -> NoReturn:
    msg = f"{constant} is no number"
    raise _NumberError(msg)


def finite(text: str) -> float:
    """Return a number with a fraction or an exponent.

    Raises:
        ValueError: If it does not fit a float.
    """
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        msg = f"{text[:40]} is too large"
        raise _NumberError(msg)
    return number


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(CHUNK_BYTES)) and not rest.endswith(b"\n"):
        pass


MAX_CHARACTERS: Final = 64 * 1024 * 1024
"""The longest value that is parsed, so that one without an end does not fill the memory."""

_SOON_CHARACTERS: Final = 1024 * 1024
"""Up to this length a value is tried again after each chunk; a longer one less and less often."""

_LONGEST_TOKEN: Final = 16
"""More characters than any token has that can break off, but for a text."""

_AFTER: Final = frozenset(" \t\n\r,]}")
"""The characters that may follow a value."""

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
        noun: The noun for a value, for messages.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        *,
        decode: Decode = _STRICT,
        errors: str = "strict",
        noun: str = "a value",
    ) -> None:
        # See `_Checked` in `source.py` about `read1`.
        self._read = getattr(stream, "read1", stream.read)
        self._name, self._noun = name, noun
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
            self._pass_to(_after_space(self._text, self._at))
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
            FeedError: If something else is there.
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
            raise self.error(f"{self._noun} is longer than {MAX_CHARACTERS} characters")
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


_BEGINNING: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*(?:\]|\{\s*["}])')


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
    values = _ValueDecoder()
    text = JsonText(stream, name, decode=values.decoded, noun="an event")
    for index, line in enumerate(text.parts("[", "]")):
        value = text.value()
        problem = values.problem() or (problem_of_value(value) if text.may_trouble() else None)
        yield RawEvent(index, line, value, problem)
    if text.next():
        raise text.no_json("something follows the end of the list")


@final
class _ValueDecoder:
    """Makes values of text, and records the problem of the last one that is JSON and still refused."""

    def __init__(self) -> None:
        self._maps = MapBuilder()
        self._problems: list[str] = []
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._maps.made,
            parse_constant=self._no_number,
            parse_float=self._float,
            parse_int=self._int,
        )

    def decoded(self, text: str, at: int) -> tuple[Raw, int]:
        """Return the value that begins at a place, and where it ends.

        Raises:
            JSONDecodeError: If it is not JSON, or not whole.
        """
        self._problems.clear()
        self._maps.repeated.clear()
        return self._decoder.raw_decode(text, at)

    def problem(self) -> str | None:
        """Return the problem of the last value, or None."""
        if self._problems:
            return self._problems[0]
        return duplicate_key(self._maps.repeated[0]) if self._maps.repeated else None

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
