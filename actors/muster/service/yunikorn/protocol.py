"""YuniKorn's protocol: errors, responses, names in paths and queries, and streams of events.

Large answers are encoded in pieces, and compressed if that is worth it. A stream does not end.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeGuard, final
from urllib.parse import unquote, unquote_plus

import attrs
import trio
from starlette.responses import Response, StreamingResponse
from typing_extensions import override

from muster.service.ledger.state import EventRing, RingEvent, YuniKornEventCode
from muster.service.payloads import Problem, as_json
from muster.service.yunikorn.objects.values import JsonObject
from muster_core.config.queues import ROOT, canonical_path
from muster_core.values.configuration import EVERY_NAME, GROUP_NAME, USER_NAME

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from muster.service.limits import Slots
    from muster.service.yunikorn.objects.values import YuniKornState
    from muster_core.admission.queue_tree import QueueEntry


@final
class YuniKornError(Exception):
    """A request cannot be answered as it was asked.

    Args:
        status: The status of the response.
        message: What is wrong.
        headers: Further headers of the response.
    """

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})

    # REST-3
    def as_map(self) -> dict[str, object]:
        """Return the members of the answer, in the spelling of the server and in that of the UI."""
        return {
            "status_code": self.status,
            "message": self.message,
            "description": self.message,
            "StatusCode": self.status,
            "Message": self.message,
            "Description": self.message,
        }


@final
class NoEndpoint(Exception):  # noqa: N818 - an answer like others
    """A path is that of no end point after all."""


_ESCAPE: Final = re.compile(r"%(?![0-9a-fA-F]{2})")


# REST-2
def decoded_name(segment: str) -> str:
    """Return a name in a path as the router gives it: decoded once."""
    return unquote(segment)


# REST-2
def decoded_twice(name: str) -> str:
    """Return a name that was decoded once, decoded once more.

    Raises:
        YuniKornError: 400 if there is a percent sign without two digits.
    """
    if _ESCAPE.search(name):
        msg = f"invalid URL escape in {name[:100]!r}"
        raise YuniKornError(400, msg)
    return unquote_plus(name)


def check_partition(state: YuniKornState, name: str) -> None:
    """Check the name of the partition.

    Raises:
        YuniKornError: 404 if it is another one.
    """
    if name != state.partition:
        raise YuniKornError(404, "Partition not found")


def path_of_queue(written: str) -> str:
    """Return the path of a queue, in lower case, from a name that was decoded once.

    Raises:
        YuniKornError: 400 if no queue can have it; 404 if it does not begin with the root.
    """
    name = decoded_twice(written)
    try:
        path = canonical_path(name)
    except ValueError as error:
        raise YuniKornError(400, str(error)) from None
    if name.partition(".")[0].lower() != ROOT:
        raise YuniKornError(404, "Queue not found")
    return path


def queue_of(state: YuniKornState, written: str) -> QueueEntry:
    """Return a queue.

    Raises:
        YuniKornError: As :func:`path_of_queue`, and 404 if it is unknown.
    """
    entry = state.machine.registry.queues.get(path_of_queue(written))
    if entry is None:
        raise YuniKornError(404, "Queue not found")
    return entry


# REST-2
def check_user(name: str) -> None:
    """Check the name of an unknown user.

    Raises:
        YuniKornError: 400 if no user can have it.
    """
    if USER_NAME.fullmatch(name) is None:
        raise YuniKornError(400, "Invalid user name")


# REST-2
def check_group(name: str) -> None:
    """Check the name of an unknown group; ``*`` is the one of all others.

    Raises:
        YuniKornError: 400 if no group can have it.
    """
    if name != EVERY_NAME and GROUP_NAME.fullmatch(name) is None:
        raise YuniKornError(400, "Invalid group name")


JSON: Final = "application/json; charset=UTF-8"
YAML: Final = "application/x-yaml; charset=UTF-8"
TEXT: Final = "text/plain; charset=utf-8"

_LEAST_BYTES: Final = 1_400
"""From how many bytes on a body is compressed."""

_IN_A_THREAD: Final = 64 * 1024
"""From how many bytes on it is compressed in a thread."""

_PIECE: Final = 32
_LEVEL: Final = 5

_CODING: Final = re.compile(r"\s*([^;,\s]+)\s*(?:;\s*q\s*=\s*([0-9.]+)\s*)?")


async def encoded(value: object) -> bytes:
    """Return a value as JSON with a line feed; others run in between, however large it is."""
    return b"".join([piece async for piece in _pieces(value)]) + b"\n"


async def _pieces(value: object) -> AsyncIterator[bytes]:
    """Yield a value as JSON, in pieces that take a short time."""
    if _is_map(value) and any(map(_is_list, value.values())):
        mark = b"{"
        for name, one in value.items():
            yield mark + _bare(name) + b":"
            async for piece in _pieces(one):
                yield piece
            mark = b","
        yield b"}"
    elif _is_list(value) and len(value) > _PIECE:
        mark = b"["
        for first in range(0, len(value), _PIECE):
            await trio.lowlevel.checkpoint()
            yield mark + _bare(value[first : first + _PIECE])[1:-1]
            mark = b","
        yield b"]"
    elif _is_list(value) and any(map(_is_map, value)):
        mark = b"["
        for one in value:
            await trio.lowlevel.checkpoint()
            yield mark
            async for piece in _pieces(one):
                yield piece
            mark = b","
        yield b"]"
    else:
        yield _bare(value)


def _is_map(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _bare(value: object) -> bytes:
    return as_json(value)[:-1]


# REST-1
async def answer(
    request: Request,
    body: bytes,
    *,
    media: str = JSON,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a response, compressed if the client allows it and the body is long enough."""
    all_headers = {"Content-Type": media, "Vary": "Accept-Encoding", **(headers or {})}
    if len(body) >= _LEAST_BYTES and _allows_gzip(request.headers.get("accept-encoding", "")):
        all_headers["Content-Encoding"] = "gzip"
        if len(body) < _IN_A_THREAD:
            body = gzip.compress(body, _LEVEL)
        else:
            body = await trio.to_thread.run_sync(gzip.compress, body, _LEVEL)
    return Response(body, status, all_headers)


async def answer_json(request: Request, value: object) -> Response:
    """Return a response with a value as JSON."""
    return await answer(request, await encoded(value))


async def answer_wrong(request: Request, wrong: YuniKornError) -> Response:
    """Return the response for a request that cannot be answered as it was asked."""
    body = as_json(wrong.as_map())
    return await answer(request, body, status=wrong.status, headers=wrong.headers)


def wrong_response(wrong: YuniKornError) -> Response:
    """Return the response for a request that cannot be answered, without compression."""
    return Response(as_json(wrong.as_map()), wrong.status, {"Content-Type": JSON, **wrong.headers})


def plain(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a short text."""
    return Response(text, status, {"Content-Type": TEXT, **(headers or {})})


def _allows_gzip(written: str) -> bool:
    """Return whether ``Accept-Encoding`` allows gzip."""
    weights: dict[str, float] = {}
    for coding in written.split(","):
        found = _CODING.fullmatch(coding)
        if found is not None:
            try:
                weights[found[1].lower()] = float(found[2] or 1)
            except ValueError:
                weights[found[1].lower()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0


# REST-15
def event(one: RingEvent, origin_us: int) -> JsonObject:
    """Return an event.

    Args:
        one: The event.
        origin_us: The origin of its time, in microseconds since 1970.
    """
    number, at_us, about, other, amounts, message = one
    what = YuniKornEventCode(number)
    made: JsonObject = {"type": what.type, "objectID": about}
    if other:
        made["referenceID"] = other
    if message:
        made["message"] = str(message)
    made["timestampNano"] = (origin_us + at_us) * 1_000
    made["eventChangeType"] = what.change
    made["eventChangeDetail"] = what.detail
    made["resource"] = _resource(amounts)
    return made


def _resource(amounts: Mapping[str, int] | None) -> JsonObject:
    """Return amounts as YuniKorn's messages write them: what is 0 has no value."""
    if not amounts:
        return {}
    values = {kind: {"value": amount} if amount else {} for kind, amount in amounts.items()}
    return {"resources": values}


# REST-16
def batch(ring: EventRing, events: Sequence[RingEvent] | None, origin_us: int) -> JsonObject:
    """Return some events of the ring; None if they begin where there are none."""
    return {
        "InstanceUUID": ring.instance,
        "LowestID": ring.lowest,
        "HighestID": ring.highest,
        "EventRecords": None if events is None else [event(one, origin_us) for one in events],
    }


PER_HOST: Final = 15
"""How many streams one host may have open."""

_AT_ONCE: Final = 200
"""How many events are sent at once."""


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
        """Return the open streams, as a state dump has them."""
        return [{"Name": one.host, "CreatedAt": one.at.isoformat()} for one in self._open.values()]

    def enter(self, host: str) -> int:
        """Count a stream; return its number.

        Raises:
            YuniKornError: 503 if there are too many.
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
        YuniKornError: 503 if there are too many streams.
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
        some = ring.since(place, _AT_ONCE)
        place += len(some)
        yield b"".join([as_json(event(one, origin_us)) for one in some])
