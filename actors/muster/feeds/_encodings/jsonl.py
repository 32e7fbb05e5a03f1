"""JSON Lines: one event per line. A bad line is refused; the lines after it are still read."""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final, NoReturn, final

from muster.feeds._encodings.raw import MAX_DEPTH, Raw, RawEvent, trouble
from muster.feeds._encodings.source import CHUNK_BYTES

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line that is parsed, so that a feed without line ends does not fill memory."""

TOO_DEEP: Final = f"is nested deeper than {MAX_DEPTH} levels"
"""The problem of a value that is nested too deep for functions that walk it."""

_SPACE: Final = re.compile(r"[ \t\n\r]+")


# FEED-81
def read_jsonl(stream: BinaryIO, _name: str) -> Iterator[RawEvent]:
    """Read events one by one; blank lines are skipped."""
    index, number = 0, 0
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
            value, problem = decode(line)
            yield RawEvent(index, number, value, problem)
        index += 1


@final
class _NumberError(ValueError):
    """A number that is not valid JSON, or that does not fit a float."""


def decode(line: bytes) -> tuple[Raw, str | None]:
    """Read one line; return its value, and the problem with it or None."""
    try:
        return _decoded(line)
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


def _decoded(line: bytes) -> tuple[Raw, str | None]:
    maps = Maps()
    value: Raw = json.loads(
        line.decode().rstrip("\r\n"),
        object_pairs_hook=maps.made,
        parse_constant=_no_number,
        parse_float=finite,
    )
    if maps.repeated:
        return value, stands_twice(maps.repeated[0])
    return value, _trouble(line, value)


def read_listed(text: str) -> Iterator[tuple[Raw, str | None]]:
    """Read the items of a JSON list one by one, or the only value of a text that is no list.

    Yields:
        Each value, and the problem with it or None.

    Raises:
        ValueError: If it is not JSON.
    """
    maps = Maps()
    reader = json.JSONDecoder(
        object_pairs_hook=maps.made, parse_constant=_no_number, parse_float=finite
    )
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
            yield value, stands_twice(twice[0]) if twice else trouble(value)
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
class Maps:
    """Makes maps, and notes the keys that stand twice in one.

    Attributes:
        repeated: These keys.
    """

    def __init__(self) -> None:
        self.repeated: list[str] = []

    def made(self, pairs: list[tuple[str, Raw]]) -> dict[str, Raw]:
        """Return a map without the keys that stand twice."""
        made = dict(pairs)
        if len(made) != len(pairs):
            keys = Counter(key for key, _ in pairs)
            twice = [key for key, times in keys.items() if times > 1]
            self.repeated.extend(twice)
            for key in twice:  # neither of the values counts
                del made[key]
        return made


def stands_twice(key: str) -> str:
    """Return the problem of a map in which a key stands twice."""
    return f"the key {key[:80]!r} stands twice"


def _trouble(line: bytes, value: Raw) -> str | None:
    # Almost no line can have such a problem, and to walk every value would be slow.
    if b"\\ud" in line or b"\\uD" in line or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        return trouble(value)
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
