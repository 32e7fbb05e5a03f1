"""Events in the bodies of requests: JSON, JSON lines or msgpack, within the limits.

What the readers of feeds refuse is refused here with the same words: an event that is wrong by
itself becomes a problem of this event, and a body that cannot be divided into events is a problem
of the request. An event that has only the commonest fields, with values of the usual types, needs
no general parser; all others are left to the parser of feeds, which knows all rules.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from json import JSONDecodeError
from typing import Final, cast, final

import orjson

from muster._runtime.clock import SMALL_PIECE
from muster.feeds import Expect, FeedError, FeedOrigin, Raw, RawEvent, Refused, Settle, parse
from muster.feeds._encodings import read_msgpack
from muster.feeds._json import read_jsonl, read_listed
from muster.feeds._kinds import SOME_RESOURCES, FieldError
from muster.feeds._raw import TOO_DEEP
from muster.service.access import Principal
from muster.service.input.permissions import as_user
from muster.service.limits import Usage, too_much
from muster.service.payloads import Problem
from muster_core.events import AddAsk, Event, Release, RemoveAsk
from muster_core.resources import Resources
from muster_core.structures.steps import Steps
from muster_core.values.event_fields import PRIORITIES

JSON: Final = "application/json"
LINES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/x-jsonlines"})
MSGPACK: Final = frozenset(
    {"application/msgpack", "application/vnd.msgpack", "application/x-msgpack"}
)
MEDIA: Final = frozenset({JSON, *LINES, *MSGPACK})
"""The media types of events."""

_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
"""The longest body that is parsed in one go, which holds up others no longer than some 30 ms."""

_DIGITS_AS_ZEROS: Final = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_LONG_NUMBER: Final = b"0" * 19
"""What may be an integer of more than 64 bits, which the fast parser makes a float of.

It is looked for in a copy in which each digit is a zero, which takes a tenth of the time that a
regular expression takes.
"""

_LIST_HEADS: Final = {0xDC: 2, 0xDD: 4}
"""The first byte of a longer list in msgpack, and how many bytes its length has."""

_STEP: Final = 64
"""How many events are looked at between two pauses."""


# INPUT-1, INPUT-2
def raw_events(body: bytes, media: str, usage: Usage) -> Steps[list[RawEvent]]:
    """Return the events of a body, in order.

    Args:
        body: The body.
        media: Its media type.
        usage: Knows the limits, and counts what is refused.

    Raises:
        Problem: 400 if it is not what its media type says, 413 if it is beyond a limit.
    """
    is_list = False
    if media == JSON:
        body = body.removeprefix(codecs.BOM_UTF8)
        is_list = body.lstrip()[:1] == b"["
        fast = yield from _parse_fast(body, usage, is_list=is_list)
        if fast is not None:
            return fast
        found = yield from _parse_json(body, usage)
    elif media in MSGPACK:
        count, rest = _unwrap_list(body)
        is_list = count is not None
        found = yield from _parse_feed(read_msgpack(BytesIO(rest), "the body"), usage)
        if count is not None and count != len(found):
            raise Problem(400, f"the body: a list of {count}, and there are {len(found)} values")
    else:
        found = yield from _parse_feed(read_jsonl(BytesIO(body), "the body"), usage)
    if not found and not is_list:
        raise Problem(400, "the body is empty: send at least one event")
    most = usage.limits.nesting - is_list
    for number, event in enumerate(found):
        if not number % _STEP:
            yield
        if event.problem == TOO_DEEP or _is_deeper(event.value, most):
            raise _too_deep(usage)
    return found


def _parse_fast(body: bytes, usage: Usage, *, is_list: bool) -> Steps[list[RawEvent] | None]:
    """Return the events of JSON; None if the other parser has to look at it.

    The fast parser does not detect a duplicate key in a map. But each entry of a map has a colon.
    So if there are as many entries as colons, every key is there once.
    """
    if len(body) > _AT_ONCE_BYTES or _LONG_NUMBER in body.translate(_DIGITS_AS_ZEROS):
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None  # the other parser says it with the words of a feed
    yield
    events: list[Raw] = value if is_list else [value]
    _check_events(usage, len(events))
    entries, most = 0, usage.limits.nesting - is_list
    for number, event in enumerate(events):
        if not number % _STEP:
            yield
        if type(event) is not dict:
            return None
        found = _entries_in(event, most)
        if found is None:
            raise _too_deep(usage)
        entries += found
    if entries != body.count(b":"):
        return None  # a key is there twice, or a text has a colon
    return [RawEvent(index, None, event) for index, event in enumerate(events)]


def _entries_in(event: dict[str, Raw], most: int) -> int | None:
    """Return how many entries the maps of an event have; None if it is nested too deep."""
    entries, is_flat = len(event), True
    for part in event.values():
        if type(part) is dict:
            # Most maps in events have only texts and numbers.
            entries += len(part)
            for one in part.values():
                if type(one) is dict or type(one) is list:
                    is_flat = False
                    entries += _entries_of(one)
        elif type(part) is list:
            is_flat = False
            entries += _entries_of(part)
    return None if not is_flat and _is_deeper(event, most) else entries


def _entries_of(value: Raw) -> int:
    """Return how many entries the maps in a value have together."""
    entries = 0
    waiting: list[Raw] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            entries += len(one)
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return entries


def _parse_json(body: bytes, usage: Usage) -> Steps[list[RawEvent]]:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} (0x{body[error.start]:02x}): {error.reason}"
        raise Problem(400, f"the body is not UTF-8: {detail}") from None
    found: list[RawEvent] = []
    try:
        for value, problem in read_listed(text):
            yield
            _check_events(usage, len(found) + 1)
            found.append(RawEvent(len(found), None, value, problem))
    except JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        detail = f"the body is not JSON: {error.msg} ({where})"
        raise Problem(400, detail, line=error.lineno) from None
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    return found


def _parse_feed(events: Iterator[RawEvent], usage: Usage) -> Steps[list[RawEvent]]:
    found: list[RawEvent] = []
    try:
        for event in events:
            yield
            _check_events(usage, len(found) + 1)
            found.append(event)
    except FeedError as error:
        raise Problem(400, str(error)) from None
    return found


def _unwrap_list(packed: bytes) -> tuple[int | None, bytes]:
    """Return how many values the list around all values has, or None without one; and they."""
    first = packed[0] if packed else 0
    if 0x90 <= first <= 0x9F:
        return first & 0x0F, packed[1:]
    if first in _LIST_HEADS:
        end = 1 + _LIST_HEADS[first]
        return int.from_bytes(packed[1:end]), packed[end:]
    return None, packed


def _check_events(usage: Usage, count: int) -> None:
    """Check how many events a request has so far.

    Raises:
        Problem: 413 if that is too many.
    """
    most = usage.limits.events
    if count > most:
        message = f"the request has more than {most} events: send the rest in another one"
        raise too_much("events", most, 413, message)


def _too_deep(usage: Usage) -> Problem:
    most = usage.limits.nesting
    return too_much("nesting", most, 413, f"the body is nested deeper than {most} levels")


def _is_deeper(value: Raw, most: int) -> bool:
    """Return whether lists and maps are nested deeper than so many levels."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        if depth > most:
            return True
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return False


_MOST_KNOWN: Final = 4_096
"""How many different resources are remembered."""

_LOWEST, _HIGHEST = PRIORITIES


@final
class PlainEvents:
    """Makes plain events. It remembers resources, since many asks need the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, Raw], ...], Resources] = {}

    def convert(self, written: Mapping[str, Raw]) -> Event | None:
        """Return an event, or None if it is not plain."""
        app, ask = written.get("app"), written.get("ask")
        if type(app) is not str or type(ask) is not str or not app or not ask or "/" in app + ask:
            return None
        op = written["op"]
        if op == "add_ask":
            return self._ask(written, app, ask)
        make = _OF_ASKS.get(op) if type(op) is str else None
        return make(app, ask) if make is not None and len(written) == _OP_APP_ASK else None

    def _ask(self, written: Mapping[str, Raw], app: str, ask: str) -> Event | None:
        amounts = written.get("resources")
        resources = self._resources(amounts) if type(amounts) is dict else None
        if resources is None:
            return None
        if len(written) == _OP_APP_ASK + 1:
            return AddAsk(app, ask, resources)
        priority = written.get("priority")
        if type(priority) is not int or len(written) != _OP_APP_ASK + 2:
            return None
        return AddAsk(app, ask, resources, priority) if _LOWEST <= priority <= _HIGHEST else None

    def _resources(self, amounts: dict[str, Raw]) -> Resources | None:
        """Return resources; None if they are not plain, or invalid."""
        # Equal keys must be equal amounts: 1, 1.0 and true are equal, and not the same here.
        for amount in amounts.values():
            if type(amount) is not int and type(amount) is not str:
                return None
        key = tuple(amounts.items())
        found = self._known.get(key)
        if found is None:
            try:
                found = SOME_RESOURCES.parse(cast("Raw", amounts))
            except FieldError:
                return None
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found


_OP_APP_ASK: Final = 3
"""How many fields an event has that has only these three."""

_OF_ASKS: Final[Mapping[str, Callable[[str, str], Event]]] = {
    "release": Release,
    "remove_ask": RemoveAsk,
}
"""The operations that may have no other field."""


_AT: Final = "at: events of a running scheduler have no time of their own"
_FILE: Final = "file: no file of the server is read; send what is in it as config"


def convert_events(
    raws: Sequence[RawEvent], who: Principal, origin_us: int
) -> Steps[list[Event | str]]:
    """Return each event as its sender may submit it, or the reason why not.

    Args:
        raws: The events as written.
        who: Who sends them.
        origin_us: The origin of time, in microseconds since 1970 in UTC, from which dates count.
    """
    convert: list[Event | str] = []
    plain = PlainEvents()
    for number, raw in enumerate(raws):
        if not number % SMALL_PIECE:
            yield
        value = raw.value
        event = None
        if type(value) is dict and raw.problem is None and "op" in value:
            event = plain.convert(value)
        convert.append(as_user(convert_event(raw, origin_us), who) if event is None else event)
    return convert


# INPUT-3
def convert_event(raw: RawEvent, origin_us: int) -> Event | str:
    """Return an event, or the reason why it is none."""
    value = raw.value
    if isinstance(value, dict):
        if "at" in value:
            return _AT
        if "file" in value and value.get("op") == "configure":
            return _FILE
    (item,) = parse([raw], origin=FeedOrigin(origin_us))
    match item.content:
        case Refused(message):
            return message
        case Settle() | Expect():
            return "op: settle and expect are only for feeds: a service decides by itself"
        case event:
            return event
