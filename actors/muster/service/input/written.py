"""Events as written in a body: JSON, JSON lines or msgpack, within the limits.

What the readers of feeds refuse is refused here with the same words: an event that is wrong by
itself becomes a problem of this event, and a body in which no event can be told from the next is
a problem of the request.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from json import JSONDecodeError
from typing import Final, final

import attrs
import orjson

from muster.feeds import FeedError, Raw, RawEvent
from muster.feeds._encodings.jsonl import TOO_DEEP, read_jsonl, read_listed
from muster.feeds._encodings.msgpack import read_msgpack
from muster.service.problems import Problem
from muster_core.structures.steps import Steps

JSON: Final = "application/json"
LINES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/x-jsonlines"})
MSGPACK: Final = frozenset(
    {"application/msgpack", "application/vnd.msgpack", "application/x-msgpack"}
)
MEDIA: Final = frozenset({JSON, *LINES, *MSGPACK})
"""The media types of events."""

_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""The longest body that is parsed in one go, which holds up others no longer than some 30 ms."""

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
"""What may be an integer of more than 64 bits, which the fast parser makes a float of."""

_LIST_HEADS: Final = {0xDC: 2, 0xDD: 4}
"""The first byte of a longer list in msgpack, and how many bytes its length has."""


@final
@attrs.frozen
class Bounds:
    """How much a body may have.

    Attributes:
        events: The most events.
        nesting: How deep its lists and maps may be nested, the list of all events included.
    """

    events: int
    nesting: int


# INPUT-1, INPUT-2
def raw_events(body: bytes, media: str, bounds: Bounds) -> Steps[list[RawEvent]]:
    """Return the events of a body, in order.

    Raises:
        Problem: 400 if it is not what its media type says, 413 if it is beyond a limit.
    """
    outer = 0
    if media == JSON:
        found = yield from _of_json(body, bounds)
        outer = body.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["
    elif media in MSGPACK:
        count, rest = _in_list(body)
        found = yield from _of_feed(read_msgpack(BytesIO(rest), "the body"), bounds)
        outer = count is not None
        if count is not None and count != len(found):
            raise Problem(400, f"the body: a list of {count}, and there are {len(found)} values")
    else:
        found = yield from _of_feed(read_jsonl(BytesIO(body), "the body"), bounds)
    if not found and not outer:
        raise Problem(400, "the body is empty: send at least one event")
    most = bounds.nesting - outer
    for number, event in enumerate(found):
        if not number % 64:
            yield
        if event.problem == TOO_DEEP or _is_deeper(event.value, most):
            told = f"event {number}: the body is nested deeper than {bounds.nesting} levels"
            raise Problem(413, told, limit="nesting", most=bounds.nesting)
    return found


def _of_json(body: bytes, bounds: Bounds) -> Steps[list[RawEvent]]:
    body = body.removeprefix(codecs.BOM_UTF8)
    if len(body) <= _AT_ONCE_BYTES and _LONG_NUMBER.search(body) is None:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            pass  # the other parser says it with the words of a feed
        else:
            yield
            events: list[Raw] = value if isinstance(value, list) else [value]
            _check_count(len(events), bounds)
            # Each entry of a map has a colon. Fewer entries: a key stands twice, or a text has one.
            if (yield from _entries(events)) == body.count(b":"):
                return [RawEvent(index, None, event) for index, event in enumerate(events)]
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        told = f"byte {error.start} (0x{body[error.start]:02x}): {error.reason}"
        raise Problem(400, f"the body is not UTF-8: {told}") from None
    found: list[RawEvent] = []
    try:
        for value, problem in read_listed(text):
            yield
            _check_count(len(found) + 1, bounds)
            found.append(RawEvent(len(found), None, value, problem))
    except JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Problem(
            400, f"the body is not JSON: {error.msg} ({where})", line=error.lineno
        ) from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    return found


def _entries(values: Iterable[Raw]) -> Steps[int]:
    """Return how many entries all maps have together."""
    entries = 0
    for number, value in enumerate(values):
        if not number % 256:
            yield
        if type(value) is dict:
            entries += len(value)
            for part in value.values():
                if type(part) is dict or type(part) is list:
                    entries += _entries_below(part)
        elif type(value) is list:
            entries += _entries_below(value)
    return entries


def _entries_below(value: Raw) -> int:
    entries = 0
    waiting: list[Raw] = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            entries += len(one)
            waiting.extend(one.values())
        elif type(one) is list:
            waiting.extend(one)
    return entries


def _of_feed(events: Iterator[RawEvent], bounds: Bounds) -> Steps[list[RawEvent]]:
    found: list[RawEvent] = []
    try:
        for event in events:
            yield
            _check_count(len(found) + 1, bounds)
            found.append(event)
    except FeedError as error:
        raise Problem(400, str(error)) from None
    return found


def _in_list(packed: bytes) -> tuple[int | None, bytes]:
    """Return how many values the list around all values has, or None without one; and they."""
    first = packed[0] if packed else 0
    if 0x90 <= first <= 0x9F:
        return first & 0x0F, packed[1:]
    if first in _LIST_HEADS:
        end = 1 + _LIST_HEADS[first]
        return int.from_bytes(packed[1:end]), packed[end:]
    return None, packed


def _check_count(count: int, bounds: Bounds) -> None:
    if count > bounds.events:
        raise Problem(
            413,
            f"the body has more than {bounds.events} events: send them in several requests",
            limit="events",
            most=bounds.events,
        )


def _is_deeper(value: Raw, most: int) -> bool:
    """Return whether lists and maps are nested deeper than so many levels."""
    level: list[Raw] = [value]
    for _ in range(most + 1):
        below: list[Raw] = []
        for one in level:
            if isinstance(one, dict):
                below.append(None)
                below.extend(part for part in one.values() if isinstance(part, (dict, list)))
            elif isinstance(one, list):
                below.append(None)
                below.extend(part for part in one if isinstance(part, (dict, list)))
        if not below:
            return False
        level = below
    return True
