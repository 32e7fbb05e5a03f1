"""The inputs of a comparison: feeds, and decision logs as :class:`muster.feeds.DecisionLog` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

import attrs

from muster.feeds import FeedError, FeedItem, Raw, RawEvent, Refused, is_decision_map
from muster_core.decisions import MICROSECONDS, Announced, Decision, Kind, Reason


def events_of(items: Iterable[FeedItem], name: str) -> Iterator[FeedItem]:
    """Yield the items of a feed; raise an error at its end if none of them is a valid event.

    A single event that cannot be read is refused. If no event can be read, the file is no feed,
    but perhaps a configuration.

    Args:
        items: The feed.
        name: Its name, for errors.

    Yields:
        Its items.

    Raises:
        FeedError: At its end, if it is not empty and all its items are refused.
    """
    first: FeedItem | None = None
    is_feed = False
    for item in items:
        if not isinstance(item.content, Refused):
            is_feed = True
        elif first is None:
            first = item
        yield item
    if is_feed or first is None or not isinstance(first.content, Refused):
        return
    place = "" if first.line is not None else f"event {first.index}: "
    problem = f"{place}{first.content.message}; nothing in it can be read as an event"
    raise FeedError(name, problem, first.line)


_TEXTS: Final = ("app", "ask", "node", "queue", "gang", "state", "message")
_NUMBERS: Final = ("priority", "index", "line")
_FIELDS: Final = frozenset({"seq", "at", "kind", "reason", "start", *_TEXTS, *_NUMBERS})
_KINDS: Final[Mapping[str, Kind]] = {kind.value: kind for kind in Kind}
_REASONS: Final[Mapping[str, Reason]] = {reason.value: reason for reason in Reason}
_NEEDED: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.ASSIGNED: ("app", "ask", "queue", "node"),
    Kind.WAITING: ("app", "ask", "queue", "node"),
    Kind.BOUND: ("app", "ask", "queue", "node"),
    Kind.RELEASED: ("app", "ask", "queue", "reason"),
    Kind.APP_STATE: ("app", "queue", "state"),
    Kind.RESERVED: ("app", "ask", "node"),
}
"""The fields that a comparison needs, by kind of decision."""


@final
@attrs.frozen
class LoggedDecision:
    """A decision in a log.

    Attributes:
        index: Its index in the log, from 0.
        line: Its line in the log, from 1, or None in msgpack.
        announced: The decision.
    """

    index: int
    line: int | None
    announced: Announced


def is_decision(raw: RawEvent) -> bool:
    """Return whether a raw value is a decision of a log, not an event of a feed."""
    return is_decision_map(raw.value)


def read_decisions(raws: Iterable[RawEvent], name: str) -> Iterator[LoggedDecision]:
    """Read a decision log lazily, decision by decision.

    Args:
        raws: The content of the log, from :func:`muster.feeds.read_raw`.
        name: The name of the log, for errors.

    Yields:
        Each decision; their numbers go up, and time does not go back.

    Raises:
        FeedError: If an entry is no decision, or is out of order.
    """
    seq, at_us = 0, 0
    for raw in raws:
        problem = raw.problem
        announced: Announced | None = None
        if problem is None:
            try:
                announced = _announced(raw.value)
            except _NoDecisionError as error:
                problem = str(error)
        if announced is not None and announced.seq <= seq:
            problem = f"seq: {announced.seq} comes after {seq}; numbers go up"
        elif announced is not None and announced.at_us < at_us:
            problem = f"at: {announced.at_us / MICROSECONDS:g} is before the decision before it"
        if announced is None or problem is not None:
            place = "" if raw.line is not None else f"decision {raw.index}: "
            raise FeedError(name, f"{place}no decision of a log: {problem}", raw.line)
        seq, at_us = announced.seq, announced.at_us
        yield LoggedDecision(raw.index, raw.line, announced)


@final
class _NoDecisionError(Exception):
    """A value is no decision; the message names the field and the value."""


def _announced(value: Raw) -> Announced:
    if not isinstance(value, dict):
        msg = "it is not a map"
        raise _NoDecisionError(msg)
    for field in value:
        if field not in _FIELDS:
            msg = f"{field}: there is no such field; there are: {', '.join(sorted(_FIELDS))}"
            raise _NoDecisionError(msg)
    kind = _kind(value)
    for field in _NEEDED.get(kind, ()):
        if value.get(field) is None:
            msg = f"{field}: is missing, of a decision {kind.value!r}"
            raise _NoDecisionError(msg)
    app, ask, node, queue, gang, state, message = (_text(value, field) for field in _TEXTS)
    priority, index, line = (_number(value, field) for field in _NUMBERS)
    start_us = None if value.get("start") is None else _instant_us(value, "start")
    decision = Decision(
        kind,
        app,
        ask,
        node,
        queue,
        gang,
        _reason(value),
        state,
        priority,
        message,
        index,
        line,
        devices=_devices(value),
        start_us=start_us,
    )
    seq = _number(value, "seq")
    if seq is None or seq < 1:
        msg = f"seq: {value.get('seq')!r} is no number from 1"
        raise _NoDecisionError(msg)
    return Announced(seq, _instant_us(value, "at"), decision)


def _kind(value: Mapping[str, Raw]) -> Kind:
    written = value.get("kind")
    kind = _KINDS.get(written) if isinstance(written, str) else None
    if kind is None:
        msg = f"kind: {written!r} is none; there are: {', '.join(_KINDS)}"
        raise _NoDecisionError(msg)
    return kind


def _reason(value: Mapping[str, Raw]) -> Reason | None:
    written = value.get("reason")
    if written is None:
        return None
    reason = _REASONS.get(written) if isinstance(written, str) else None
    if reason is None:
        msg = f"reason: {written!r} is none; there are: {', '.join(_REASONS)}"
        raise _NoDecisionError(msg)
    return reason


def _text(value: Mapping[str, Raw], field: str) -> str | None:
    written = value.get(field)
    if written is None or isinstance(written, str):
        return written
    msg = f"{field}: {written!r} is no text"
    raise _NoDecisionError(msg)


def _number(value: Mapping[str, Raw], field: str) -> int | None:
    written = value.get(field)
    if written is None or (isinstance(written, int) and not isinstance(written, bool)):
        return written
    msg = f"{field}: {written!r} is no whole number"
    raise _NoDecisionError(msg)


def _devices(value: Mapping[str, Raw]) -> dict[str, tuple[int, ...]] | None:
    """Return the numbers of devices by type; None if there are none."""
    written = value.get("devices")
    if written is None:
        return None
    found: dict[str, tuple[int, ...]] = {}
    for kind, numbers in written.items() if isinstance(written, dict) else ():
        if isinstance(numbers, list):
            found[kind] = tuple(one for one in numbers if type(one) is int)
    if not isinstance(written, dict) or [[*one] for one in found.values()] != [*written.values()]:
        msg = f"devices: {written!r} is no map from types to lists of numbers"
        raise _NoDecisionError(msg)
    return found


def _instant_us(value: Mapping[str, Raw], field: str) -> int:
    written = value.get(field)
    if isinstance(written, bool) or not isinstance(written, int | float) or written < 0:
        msg = f"{field}: {written!r} is no time in seconds"
        raise _NoDecisionError(msg)
    return round(written * MICROSECONDS)
