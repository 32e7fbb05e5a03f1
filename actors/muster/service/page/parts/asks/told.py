"""The history of an ask, an application or a gang: the decisions about it, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster.figures.devices import held_words
from muster.service.problems import Problem
from muster.service.streaming.findings import MOST
from muster.service.streaming.history import Gone
from muster_core.decisions import Announced, Kind

if TYPE_CHECKING:
    from muster.service.page.viewed import Viewed
    from muster.service.streaming.broadcast import Broadcast

_WINDOW: Final = 20_000
"""How many decisions of the store are looked through at once."""

_ENOUGH: Final = 50
"""After how many decisions about it one has to ask for more."""

_PATIENCE_S: Final = 2.0
"""After how long one has to ask for more, in seconds."""

_WORDS: Final[Mapping[Kind, str]] = {
    Kind.ASSIGNED: "assigned",
    Kind.WAITING: "waits for its gang",
    Kind.BOUND: "bound",
    Kind.RELEASED: "released",
    Kind.REJECTED: "refused",
    Kind.GANG_SATISFIED: "gang satisfied",
    Kind.GANG_TIMED_OUT: "gang timed out",
    Kind.APP_STATE: "application",
    Kind.QUEUE_PRIORITY: "priority of the queue",
    Kind.CONFIG: "configuration",
    Kind.WARNING: "warning",
    Kind.RESERVED: "reserved",
}


@final
@attrs.frozen
class Subject:
    """What a history is about.

    Attributes:
        kind: ``ask``, ``app`` or ``gang``.
        app: The application; of an ask, too.
        name: The name of the ask or the gang.
    """

    kind: str
    app: str | None
    name: str | None

    @property
    def key(self) -> tuple[str, ...]:
        """Its names."""
        return (self.kind, self.app or "", self.name or "")

    def is_meant(self, announced: Announced) -> bool:
        """Return whether a decision is about it."""
        decision = announced.decision
        match self.kind:
            case "ask":
                return decision.ask == self.name and decision.app == self.app
            case "app":
                return decision.app == self.app
            case _:
                return decision.gang == self.name


@final
@attrs.frozen
class Line:
    """A decision, as a history shows it.

    Attributes:
        seq: Its number.
        at_us: Its instant, in microseconds since the origin.
        what: What was decided.
        reason: Why, in words; empty if it has none.
        app: The application, or None.
        ask: The ask, or None.
        node: The node, or None.
        message: What else was said; may be empty.
        tone: How it is marked: ``fine``, ``wait``, ``wrong`` or empty.
        is_reserved: Whether it says that a node is reserved.
        start_us: From when on, in microseconds since the origin; None if that is not known.
        devices: The devices that the ask takes there, in words; may be empty.
    """

    seq: int
    at_us: int
    what: str
    reason: str
    app: str | None
    ask: str | None
    node: str | None
    message: str
    tone: str
    is_reserved: bool
    start_us: int | None
    devices: str

    @classmethod
    def of(cls, announced: Announced) -> Line:
        """Return a decision as it is shown."""
        decision = announced.decision
        reason = "" if decision.reason is None else decision.reason.value.replace("_", " ")
        what = _WORDS[decision.kind]
        if decision.state is not None:
            what = f"{what} {decision.state}"
        return cls(
            announced.seq,
            announced.at_us,
            what,
            reason,
            decision.app,
            decision.ask,
            decision.node,
            decision.message or "",
            _tone(decision.kind, reason),
            decision.kind is Kind.RESERVED,
            decision.start_us,
            held_words(decision.devices or {}, {}),
        )


def _tone(kind: Kind, reason: str) -> str:
    match kind:
        case Kind.BOUND | Kind.GANG_SATISFIED:
            return "fine"
        case Kind.ASSIGNED | Kind.WAITING | Kind.RESERVED:
            return "wait"
        case Kind.RELEASED:
            return "" if reason in {"completed", "removed", "cancelled"} else "wrong"
        case Kind.REJECTED | Kind.GANG_TIMED_OUT | Kind.WARNING:
            return "wrong"
        case Kind.APP_STATE | Kind.QUEUE_PRIORITY | Kind.CONFIG:
            return ""


@final
@attrs.frozen
class Told:
    """A part of a history.

    Attributes:
        lines: The decisions, newest first.
        before: The number of the decision before which the rest is; None if there is no more.
        is_kept: Whether there is a store.
        first: The number of the first decision that this service can still tell of.
    """

    lines: Sequence[Line]
    before: int | None
    is_kept: bool
    first: int


# PAGE-44
async def lately(viewed: Viewed, subject: Subject, last: int, begin_us: int | None) -> Told:
    """Return what is in memory.

    Args:
        viewed: The request.
        subject: What it is about.
        last: The number of the last decision of the state that is shown, as far as known.
        begin_us: When the thing came, in microseconds since the origin; None if nobody knows.
    """
    broadcast = viewed.service.broadcast
    tail = broadcast.tail
    # Whoever has heard of no decision yet knows no number.
    end = last if viewed.moment.is_past and last else tail.last
    is_kept = viewed.service.options.state is not None
    found, since = await viewed.service.findings.about(tail, subject.key, subject.is_meant)
    until_us = viewed.moment.past_us
    lines = [
        Line.of(one)
        for one in reversed(found)
        if one.seq <= end and (until_us is None or one.at_us <= until_us)
    ]
    before = min(since, end + 1)
    is_all = len(found) < MOST and _is_whole(_tail_begin_us(broadcast), begin_us)
    is_over = is_all or before <= (1 if is_kept else tail.first)
    return Told(lines, None if is_over else before, is_kept, tail.first)


def _is_whole(known_us: int | None, begin_us: int | None) -> bool:
    """Return whether everything since something came is known.

    Args:
        known_us: Since when all decisions are known, in microseconds since the origin, or None.
        begin_us: When it came, or None.
    """
    return known_us is not None and begin_us is not None and known_us < begin_us


def _tail_begin_us(broadcast: Broadcast) -> int | None:
    """Return the instant of the oldest decision in memory, or None."""
    block = broadcast.tail.after(broadcast.tail.first - 1)
    return None if block is None else block.announced[0].at_us


# PAGE-44
async def earlier(viewed: Viewed, subject: Subject, before: int, begin_us: int | None) -> Told:
    """Return what was decided before, as far as it is found in a short time.

    Args:
        viewed: The request.
        subject: What it is about.
        before: The number of the decision before which it is looked for.
        begin_us: When the thing came, in microseconds since the origin; None if nobody knows.

    Raises:
        StoreError: If the store cannot be read.
    """
    broadcast = viewed.service.broadcast
    first = await broadcast.first()
    if before > broadcast.tail.last + 1:
        raise Problem(400, f"before: {before}: the last decision is {broadcast.tail.last}")
    until_us = viewed.moment.past_us
    until = trio.current_time() + _PATIENCE_S
    lines: list[Line] = []
    while before > first and len(lines) < _ENOUGH and trio.current_time() < until:
        after = max(before - 1 - _WINDOW, first - 1)
        found, began_us = await _window(broadcast, subject, after, before - 1)
        lines += [
            Line.of(one) for one in reversed(found) if until_us is None or one.at_us <= until_us
        ]
        before = after + 1
        if _is_whole(began_us, begin_us):
            before = first
    more = before if before > first else None
    return Told(lines, more, viewed.service.options.state is not None, first)


async def _window(
    broadcast: Broadcast, subject: Subject, after: int, end: int
) -> tuple[list[Announced], int | None]:
    """Return the decisions of a window about a thing, and the instant of its first decision."""
    found: list[Announced] = []
    began_us: int | None = None
    with broadcast.cursor(after, lags=False) as cursor:
        while cursor.position < end:
            try:
                block = await cursor.next()
            except Gone:  # Removed since: there is nothing before it either.
                break
            if block is None:
                break
            begin = cursor.position + 1 - block.first
            announced = block.announced[begin : end + 1 - block.first]
            if began_us is None:
                began_us = announced[0].at_us
            found += filter(subject.is_meant, announced)
            cursor.position = min(block.last, end)
    return found, began_us
