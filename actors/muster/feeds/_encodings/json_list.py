"""JSON: one list of events, read event by event.

A list has no line that ends an event, so text that is not JSON ends the feed. A value that JSON
can say but no feed (``NaN``, a repeated key, a number that is too large) refuses only its event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, final

from muster.feeds._encodings.json_text import JsonText
from muster.feeds._encodings.jsonl import Maps, finite, stands_twice
from muster.feeds._encodings.raw import Raw, RawEvent, trouble

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
    values = _Values()
    text = JsonText(stream, name, decode=values.decoded, what="an event")
    for index, line in enumerate(text.parts("[", "]")):
        value = text.value()
        problem = values.problem() or (trouble(value) if text.may_trouble() else None)
        yield RawEvent(index, line, value, problem)
    if text.next():
        raise text.no_json("something follows the end of the list")


@final
class _Values:
    """Makes values of text, and notes what is wrong with the last one though it is JSON."""

    def __init__(self) -> None:
        self._maps = Maps()
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
        """Return what is wrong with the last value, or None."""
        if self._problems:
            return self._problems[0]
        return stands_twice(self._maps.repeated[0]) if self._maps.repeated else None

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
