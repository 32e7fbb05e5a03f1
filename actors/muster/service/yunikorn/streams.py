"""Events of the ring, and streams of them that do not end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, final

import attrs
from starlette.responses import StreamingResponse
from typing_extensions import override

from muster.service.ledger.state import EventRing, RingEvent, YuniKornEventCode
from muster.service.payloads import Problem, as_json
from muster.service.yunikorn.objects.values import Made
from muster.service.yunikorn.protocol import JSON, YuniKornError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from muster.service.limits import Slots


# REST-15
def event(one: RingEvent, origin_us: int) -> Made:
    """Return an event.

    Args:
        one: The event.
        origin_us: The origin of its time, in microseconds since 1970.
    """
    number, at_us, about, other, amounts, message = one
    what = YuniKornEventCode(number)
    made: Made = {"type": what.type, "objectID": about}
    if other:
        made["referenceID"] = other
    if message:
        made["message"] = str(message)
    made["timestampNano"] = (origin_us + at_us) * 1_000
    made["eventChangeType"] = what.change
    made["eventChangeDetail"] = what.detail
    made["resource"] = _resource(amounts)
    return made


def _resource(amounts: Mapping[str, int] | None) -> Made:
    """Return amounts as YuniKorn's messages write them: what is 0 has no value."""
    if not amounts:
        return {}
    values = {kind: {"value": amount} if amount else {} for kind, amount in amounts.items()}
    return {"resources": values}


# REST-16
def batch(ring: EventRing, events: Sequence[RingEvent] | None, origin_us: int) -> Made:
    """Return some events of the ring; None if they begin where there are none."""
    return {
        "InstanceUUID": ring.instance,
        "LowestID": ring.lowest,
        "HighestID": ring.highest,
        "EventRecords": None if events is None else [event(one, origin_us) for one in events],
    }


PER_HOST: Final = 15
"""How many streams one host may have open."""

_PIECE: Final = 200


@final
@attrs.frozen(eq=False)
class OpenStream:
    """A stream that is open.

    Attributes:
        host: The name under which the service was asked.
        at: When it was opened.
    """

    host: str
    at: datetime


@final
class Streams:
    """The open streams of events.

    Args:
        slots: The limit on all streams of the service.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._open: dict[int, OpenStream] = {}
        self._last = 0

    def as_maps(self) -> list[dict[str, str]]:
        """Return the open streams, as a state dump tells them."""
        return [{"Name": one.host, "CreatedAt": one.at.isoformat()} for one in self._open.values()]

    def enter(self, host: str) -> int:
        """Count a stream; return its number.

        Raises:
            Wrong: 503 if there are too many.
        """
        hosts = Counter(one.host for one in self._open.values())
        if hosts[host] >= PER_HOST:
            raise YuniKornError(503, "Too many streaming connections")
        try:
            self._slots.take()
        except Problem as problem:
            headers = problem.headers
            raise YuniKornError(503, "Too many streaming connections", headers=headers) from problem
        self._last += 1
        self._open[self._last] = OpenStream(host, datetime.now(UTC))
        return self._last

    def leave(self, number: int) -> None:
        """Count a stream no more."""
        if self._open.pop(number, None) is not None:
            self._slots.leave()


@final
class EventLines(StreamingResponse):
    """The latest events and each that follows, one a line; there is no end.

    Args:
        streams: The open streams.
        ring: The events.
        origin_us: The origin of their time, in microseconds since 1970.
        host: The name under which the service was asked.
        count: How many of the latest events come first.

    Raises:
        Wrong: 503 if there are too many streams.
    """

    # REST-17
    def __init__(
        self, streams: Streams, ring: EventRing, origin_us: int, host: str, count: int
    ) -> None:
        self._streams = streams
        self._ring = ring
        self._number = streams.enter(host)
        first = max(ring.next - count, ring.lowest)
        headers = {"Content-Type": JSON, "X-Accel-Buffering": "no"}
        super().__init__(_lines(ring, origin_us, first), headers=headers)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client leaves, or the service ends."""
        self._ring.readers += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ring.readers -= 1
            self._streams.leave(self._number)


async def _lines(ring: EventRing, origin_us: int, place: int) -> AsyncIterator[bytes]:
    yield as_json({"InstanceUUID": ring.instance})
    while await ring.wait(place):
        if place < ring.lowest:
            lost = YuniKornError(500, "the stream was read too slowly, and events are gone")
            yield as_json(lost.as_map())
            return
        some = ring.since(place, _PIECE)
        place += len(some)
        yield b"".join([as_json(event(one, origin_us)) for one in some])
