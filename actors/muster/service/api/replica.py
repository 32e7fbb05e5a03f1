"""A second server in the API: what a follower requests from its leader, and how it takes over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, final

import attrs
import trio
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from typing_extensions import override

from muster._errors import StoreError
from muster._version import __version__
from muster.service.access import Role
from muster.service.api.decisions import LINES
from muster.service.endpoints.routes import JSON, Answer, ApiRequest, Body, Endpoint, json_response
from muster.service.endpoints.schemas import (
    BOOLEAN,
    TEXT,
    TEXT_KIND,
    ParameterKind,
    Schema,
    array,
    integer,
    maybe,
    query,
    record,
)
from muster.service.payloads import Problem, body_of, media_of
from muster.service.replication.following import BEAT_S, FollowError
from muster.service.streams import LongResponse
from muster.store import StateReader
from muster.store._copies import BatchGroup, copy_of, frame_of, groups_after
from muster.store._rows import FORMAT

if TYPE_CHECKING:
    from starlette.types import Send

    from muster.service.replication.followers import Follower, Followers
    from muster.service.state import Service
    from muster.service.streams import Broadcast

T = TypeVar("T")

_FRAMES: Final = "application/vnd.muster.frames"
"""The media type of a stream of frames: each its length (4 bytes) and a value as msgpack."""

_MOST: Final = 2**63 - 1
_NUMBER: Final = integer(0, _MOST)
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_SECONDS: Final[Schema] = {"type": "number", "minimum": 0}

_FOLLOWER: Final = record(
    follower=TEXT,
    url=TEXT,
    version=TEXT,
    connected=BOOLEAN,
    batch=_COUNT,
    batches_behind=_COUNT,
    seconds_behind=_SECONDS,
    difference=maybe(TEXT),
)

_ABOUT: Final[Schema] = {
    "type": "object",
    "required": ["role", "term", "version", "format", "origin_us", "partition", "batch"],
    "properties": {
        "role": {"enum": ["leader", "follower"]},
        "term": _COUNT,
        "leader": TEXT,
        "version": TEXT,
        "format": _COUNT,
        "origin_us": {"type": "integer"},
        "partition": TEXT,
        "batch": _COUNT,
        "batches_behind": _COUNT,
        "seconds_behind": _SECONDS,
        "followers": array(_FOLLOWER),
    },
}


def _directory(service: Service) -> Path:
    if service.options.state is None:
        raise Problem(404, "nothing is kept here, so nobody can follow: start it with --state")
    return service.options.state


def _leader_directory(service: Service) -> Path:
    """Return the state directory of a server that leads.

    Raises:
        Problem: 404 without one, 503 if it follows another server.
    """
    directory = _directory(service)
    leadership = service.leadership
    if leadership.leader is not None:
        message = f"this server follows {leadership.leader}: follow that one"
        raise Problem(503, message, headers={"Retry-After": "1"})
    return directory


# REPLICA-9
async def _about(request: ApiRequest) -> Response:
    service, leadership = request.service, request.service.leadership
    directory = _directory(service)

    def read() -> dict[str, object]:
        with StateReader(directory) as reader:
            meta = reader.meta
            return {"origin_us": meta.origin_us, "partition": meta.partition}

    answer: dict[str, object] = {
        "role": leadership.role,
        "term": leadership.term,
        "version": __version__,
        "format": FORMAT,
        **await trio.to_thread.run_sync(read),
        "batch": leadership.followers.last,
        "followers": leadership.followers.rows(),
    }
    if leadership.following is not None:
        behind = leadership.following.behind()
        answer |= {
            "leader": leadership.leader,
            "batches_behind": behind.batches,
            "seconds_behind": round(behind.seconds, 3),
        }
    return json_response(answer)


@final
class _CopyStream(LongResponse):
    """The frames of a copy of the store."""

    def __init__(self, broadcast: Broadcast, directory: Path) -> None:
        super().__init__(broadcast, _FRAMES, {})
        self._directory = directory

    @override
    async def _follow(self, send: Send) -> bytes:
        frames = copy_of(self._directory)
        try:
            while (frame := await trio.to_thread.run_sync(next, frames, None)) is not None:
                await self._push(send, frame)
        finally:
            frames.close()
        return b""


# REPLICA-2
async def _checkpoint(request: ApiRequest) -> Response:
    return _CopyStream(request.service.broadcast, _leader_directory(request.service))


# REPLICA-11
async def _check_place(directory: Path, batch: int, digest: str) -> None:
    """Check that this history has a batch, so that a follower can go on after it.

    Raises:
        Problem: 409 if another batch has its number, or none has it yet; 410 if what comes next was
            removed.
    """

    def read() -> Problem | None:
        with StateReader(directory) as reader:
            anchor, last = reader.meta.anchor, reader.last()
            if batch < anchor.batch:
                message = f"batches up to {anchor.batch} were removed, as `keep` says"
                return Problem(410, f"{message}: begin with a checkpoint", first=anchor.batch + 1)
            if batch > last.batch:
                message = f"batch {batch} is not here: the last one is {last.batch}"
                return Problem(409, f"{message}: begin with a checkpoint", last=last.batch)
            (place,) = reader.places([batch])
            if place.digest.hex() != digest:
                message = f"batch {batch} is another one here: the histories differ"
                return Problem(409, f"{message}: begin with a checkpoint", last=last.batch)
        return None

    problem = await trio.to_thread.run_sync(read)
    if problem is not None:
        raise problem


async def _place(request: ApiRequest) -> Response:
    directory = _leader_directory(request.service)
    batch, digest = request.value("batch", int), request.value("digest", str)
    await _check_place(directory, batch, digest)
    return json_response({"batch": batch})


@final
class _BatchStream(LongResponse):
    """The batches after one, as long as the connection holds.

    Args:
        service: The service, which leads.
        directory: Its state directory.
        after: The batch.
        held: Counts the follower.
    """

    def __init__(
        self,
        service: Service,
        directory: Path,
        after: int,
        held: AbstractContextManager[Follower],
    ) -> None:
        super().__init__(service.broadcast, _FRAMES, {}, held=held)
        self._leadership = service.leadership
        self._followers: Followers = service.leadership.followers
        self._directory = directory
        self._after = after

    # REPLICA-3
    @override
    async def _follow(self, send: Send) -> bytes:
        followers = self._followers
        await self._push(send, self._beat())
        while True:
            recent = followers.recent(self._after)
            if recent is not None:
                self._after, frame = recent
                await self._push(send, frame)
            elif self._after < followers.last:
                await self._send_kept(send)
            elif followers.is_over:
                return b""
            else:
                with trio.move_on_after(BEAT_S) as waiting:
                    await followers.wait_for_batches(self._after)
                if waiting.cancelled_caught:
                    await self._push(send, self._beat())

    def _beat(self) -> bytes:
        return frame_of(["beat", self._leadership.term, self._followers.last])

    async def _send_kept(self, send: Send) -> None:
        """Send the batches that are no longer in memory, from the store."""

        def open_store() -> tuple[StateReader, Iterator[BatchGroup]]:
            reader = StateReader(self._directory)
            return reader, groups_after(reader, self._after)

        reader, groups = await trio.to_thread.run_sync(open_store)
        try:
            while (group := await trio.to_thread.run_sync(next, groups, None)) is not None:
                await self._push(send, group.frame())
                self._after = group.rows[-1].number
                if self._followers.recent(self._after) is not None:
                    return
        finally:
            reader.close()


async def _batches(request: ApiRequest) -> Response:
    service = request.service
    directory = _leader_directory(service)
    after = request.value("after", int)
    await _check_place(directory, after, request.value("digest", str))
    reading = service.leadership.followers.reading(
        request.value("follower", str)[:200],
        (request.maybe("url", str) or "")[:200],
        (request.maybe("version", str) or "")[:50],
        after,
    )
    return _BatchStream(service, directory, after, reading)


async def _fields(request: ApiRequest) -> Mapping[str, Any]:
    return _fields_of(await body_of(request.http))


def _fields_of(written: bytes) -> Mapping[str, Any]:
    found: object = None
    with suppress(ValueError):
        found = json.loads(written)
    if not isinstance(found, dict):
        raise Problem(400, "the body must be a map in JSON")
    return cast("dict[str, Any]", found)


def _number(fields: Mapping[str, Any], name: str) -> int:
    value = _field(fields, name, int)
    if not 0 <= value <= _MOST:
        raise Problem(400, f"{name}: {value}: must be a whole number from 0 to {_MOST}")
    return value


def _field(fields: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = fields.get(name)
    if type(value) is not kind:
        raise Problem(400, f"{name}: {str(value)[:100]!r}: must be of type {kind.__name__}")
    return value


# REPLICA-6, REPLICA-10
async def _acknowledged(request: ApiRequest) -> Response:
    _leader_directory(request.service)
    followers = request.service.leadership.followers
    if media_of(request.http, {JSON, LINES}, JSON) == JSON:
        _note_acknowledgement(followers, await _fields(request))
        return Response(status_code=204)
    left = b""
    # The follower goes on after its last batch, on another connection.
    with suppress(ClientDisconnect):
        async for some in request.http.stream():
            *lines, left = (left + some).split(b"\n")
            for line in lines:
                _note_acknowledgement(followers, _fields_of(line))
    if left:
        _note_acknowledgement(followers, _fields_of(left))
    return Response(status_code=204)


def _note_acknowledgement(followers: Followers, fields: Mapping[str, Any]) -> None:
    name, batch = _field(fields, "follower", str), _number(fields, "batch")
    followers.acknowledge(name, batch)
    if "difference" in fields:
        followers.note_difference(name, _field(fields, "difference", str)[:2000])


# REPLICA-12
async def _promote(request: ApiRequest) -> Response:
    service = request.service
    following = service.following
    if following is None or service.leadership.leader is None:
        term = service.leadership.term
        raise Problem(409, f"this server leads already, with term {term}")
    election = service.election
    try:
        if election is None:
            made = await following.promote(service.client)
        else:
            made = await election.take(following)
    except (StoreError, FollowError) as error:
        raise Problem(503, str(error)) from error
    await following.tell_old_leader(made.term)
    return json_response(
        {
            "term": made.term,
            "batch": made.batch,
            "leader_batch": made.leader_batch,
            "seconds": round(made.seconds, 3),
            "detail": str(made),
        }
    )


# REPLICA-14
async def _over(request: ApiRequest) -> Response:
    fields = await _fields(request)
    term, url = _number(fields, "term"), _field(fields, "url", str)[:200]
    is_over = request.service.leadership.observe_term(term, url, "the server that was promoted")
    return json_response({"over": is_over, "term": request.service.leadership.term})


_DIGEST: Final = ParameterKind({"type": "string", "pattern": "^[0-9a-f]{64}$"}, str)
_STREAM: Final[Schema] = {"type": "string", "format": "binary"}
_NOT_HERE: Final = {
    404: Answer("Nothing is kept here."),
    503: Answer("This server follows another one."),
}
_AT: Final = {
    409: Answer("The histories differ, or there is no such batch yet."),
    410: Answer("What comes next was removed."),
    **_NOT_HERE,
}


def _body(about: str, *required: str, **properties: Schema) -> Body:
    schema = {"type": "object", "required": [*required], "properties": properties}
    return Body(about, {JSON: schema})


_ACKNOWLEDGED: Final = _body(
    "The follower, its last batch, and what it decided otherwise; or a line for each of several, "
    "which counts as soon as it comes.",
    "follower",
    "batch",
    follower=TEXT,
    batch=_COUNT,
    difference=TEXT,
)


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/replica",
        "Which server this is, and who follows it.",
        Role.READER,
        _about,
        answers={
            200: Answer("Its role and its followers.", _ABOUT),
            404: Answer("Nothing is kept here."),
        },
        tag="replica",
    ),
    Endpoint(
        "GET",
        "/api/v1/replica/checkpoint",
        "A copy of what is kept, with which a follower begins.",
        Role.REPLICA,
        _checkpoint,
        answers={200: Answer("Frames.", _STREAM, _FRAMES), **_NOT_HERE},
        tag="replica",
    ),
    Endpoint(
        "GET",
        "/api/v1/replica/place",
        "Whether a follower can go on after a batch.",
        Role.REPLICA,
        _place,
        parameters=(
            query("batch", _NUMBER, "the number of the batch", default=0),
            query("digest", _DIGEST, "its digest", default=""),
        ),
        answers={200: Answer("It can.", record(batch=_COUNT)), **_AT},
        tag="replica",
    ),
    Endpoint(
        "GET",
        "/api/v1/replica/batches",
        "The batches after one, as they come.",
        Role.REPLICA,
        _batches,
        parameters=(
            query("after", _NUMBER, "the number of the batch before the first one", default=0),
            query("digest", _DIGEST, "the digest of that batch", default=""),
            query("follower", TEXT_KIND, "what the follower calls itself", default="follower"),
            query("url", TEXT_KIND, "where the follower is reached"),
            query("version", TEXT_KIND, "the version of the follower"),
        ),
        answers={200: Answer("Frames, without an end.", _STREAM, _FRAMES), **_AT},
        tag="replica",
    ),
    Endpoint(
        "POST",
        "/api/v1/replica/acknowledged",
        "Tell the leader what is on disk, or what was decided otherwise.",
        Role.REPLICA,
        _acknowledged,
        body=attrs.evolve(_ACKNOWLEDGED, schemas={**_ACKNOWLEDGED.schemas, LINES: TEXT}),
        answers={204: Answer("It is noted."), **_NOT_HERE},
        tag="replica",
    ),
    Endpoint(
        "POST",
        "/api/v1/replica/promote",
        "Make a follower the leader.",
        Role.ADMIN,
        _promote,
        answers={
            200: Answer(
                "It leads; `detail` says what of the old leader is not here.",
                record(
                    term=_COUNT, batch=_COUNT, leader_batch=_COUNT, seconds=_SECONDS, detail=TEXT
                ),
            ),
            409: Answer("It leads already."),
        },
        tag="replica",
    ),
    Endpoint(
        "POST",
        "/api/v1/replica/over",
        "Tell a leader that another server leads with a higher term.",
        Role.REPLICA,
        _over,
        body=_body("The term, and where who leads with it is reached.",
            "term",
            "url",
            term=_COUNT, url=TEXT),
        answers={200: Answer("Whether it is over.", record(over=BOOLEAN, term=_COUNT))},
        tag="replica",
    ),
)  # fmt: skip
"""The end points of followers."""
