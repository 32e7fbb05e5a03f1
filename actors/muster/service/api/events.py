"""Submissions: ``POST /api/v1/events``, and ``PUT /api/v1/nodes/{name}/lease``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from muster._runtime.clock import SMALL_PIECE, WallClock
from muster._runtime.requests import RequestKey
from muster.figures.text import counted, iso_date
from muster.service.access import Role
from muster.service.endpoints.routes import (
    Answer,
    ApiRequest,
    Body,
    Endpoint,
    json_response,
    not_found,
)
from muster.service.endpoints.schemas import (
    BOOLEAN,
    FLAG,
    OBJECT,
    SECONDS,
    TEXT,
    TEXTS,
    ParameterKind,
    Schema,
    about,
    array,
    header,
    in_path,
    only,
    query,
    record,
)
from muster.service.input.dry_runs import try_events
from muster.service.input.events import JSON, LINES, MEDIA, MSGPACK, convert_events, raw_events
from muster.service.input.permissions import guard_of, user_of
from muster.service.input.submission import SubmissionResult, results_of, submit
from muster.service.payloads import Problem, as_json, body_of, media_of
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.events import Event
from muster_core.structures.steps import Steps, all_at_once
from muster_core.values.names import did_you_mean

# An error belongs to its event alone, so that no other event is refused.
_EVENTS: Final[Schema] = {
    "description": "an array of events, or one event; each is a map with `op` and other fields"
}

_RESULT: Final[Schema] = only(
    record(
        index={"type": "integer", "minimum": 0, "description": "which event, from 0"},
        ok=about(BOOLEAN, "whether it was carried out"),
        error={
            "type": ["string", "null"],
            "description": "why it was not; null, too, if only others of an atomic request kept it out",
        },
        asks=about(TEXTS, "the names of the asks that it added"),
    )
)


def _key(written: str) -> str:
    if not 1 <= len(written) <= 255 or not written.isascii() or not written.isprintable():
        msg = "must be 1 to 255 printable characters of ASCII"
        raise ValueError(msg)
    return written


KEY: Final = ParameterKind(
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}, _key
)

_RESULTS: Final[Schema] = array(_RESULT)
_TRIED: Final[Schema] = record(
    results=_RESULTS,
    decisions=about(array(OBJECT), "the decisions that would follow, as lines of the decision log"),
)

_SMALL: Final = 4_096
"""The longest body that is read in one step, in bytes."""

SUBMITTED: Final[Schema] = {"oneOf": [_RESULTS, _TRIED]}


async def _submit(request: ApiRequest) -> Response:
    media = media_of(request.http, MEDIA, JSON)
    body = await body_of(request.http)
    read = _events_of(request, media, body)
    made = await request.service.client.pace.take(read) if len(body) > _SMALL else all_at_once(read)
    if request.value("dry_run", bool):
        return await _dry_run(request, made)
    # INPUT-33
    content = (media.encode(), body, *((b"atomic",) if _is_atomic(request) else ()))
    outcome, headers = await _submit_once(request, made, content)
    results = await _results(request, made, outcome.errors)
    if _is_atomic(request):
        _check(results, headers)
    return _response(request, outcome, results, headers)


def _is_atomic(request: ApiRequest) -> bool:
    return request.value("atomic", bool)


# INPUT-31
def _check(results: Sequence[Mapping[str, object]], headers: Mapping[str, str]) -> None:
    """Check that all events of an atomic request were let in.

    Raises:
        Problem: 422 if not: then none was.
    """
    errors = [one["error"] for one in results if one["error"] is not None]
    if errors:
        message = f"{len(errors)} of {counted(len(results), 'event')} would be refused, so none was let in"
        raise Problem(422, message, headers=headers, results=results)


def _events_of(request: ApiRequest, media: str, body: bytes) -> Steps[list[Event | str]]:
    raws = yield from raw_events(body, media, request.service.usage)
    return (yield from convert_events(raws, request.who, request.service.origin_us))


async def _results(
    request: ApiRequest, made: Sequence[Event | str], errors: Mapping[int, str]
) -> list[dict[str, object]]:
    any_wrong = bool(errors) or any(isinstance(one, str) for one in made)
    steps = results_of(made, errors, is_refused=any_wrong and _is_atomic(request))
    return (
        await request.service.client.pace.take(steps)
        if len(made) > SMALL_PIECE
        else all_at_once(steps)
    )


async def _dry_run(request: ApiRequest, made: Sequence[Event | str]) -> Response:
    """Return the results of a dry run; nothing changes, and no key is kept."""
    service = request.service
    events = [one for one in made if not isinstance(one, str)]
    tried = await try_events(
        service, service.intake.dry_runs, events, guard_of(request.who, service.access.users)
    )
    results = await _results(request, made, tried.errors)
    # INPUT-32
    is_refused = _is_atomic(request) and not all(one["ok"] for one in results)
    return json_response({"results": results, "decisions": [] if is_refused else tried.decisions})


# INPUT-6, INPUT-7
async def _submit_once(
    request: ApiRequest, made: Sequence[Event | str], content: Sequence[bytes]
) -> tuple[SubmissionResult, dict[str, str]]:
    """Submit events, unless their key is known; return the outcome and its headers."""
    service = request.service
    key = request.maybe("Idempotency-Key", str)
    if key is None:
        return await _admit(request, made, None), {}
    request_key = RequestKey(user_of(request.who), key, sha256(b"\0".join(content)).digest())
    repeats = service.intake.repeats

    async def carry_out() -> tuple[SubmissionResult, dict[str, str]]:
        with repeats.under_way(request_key):
            outcome = await repeats.outcome_of(request_key, service.now_us())
            if outcome is not None:
                return outcome, {"Idempotency-Replayed": "true"}
            outcome = await _admit(request, made, request_key)
            repeats.keep(request_key, service.now_us(), outcome)
            return outcome, {}

    # REPLICA-10: held back, it goes on: its key is under way until a follower has it.
    return await service.leadership.followers.unless_held(carry_out)


async def _admit(
    request: ApiRequest, made: Sequence[Event | str], key: RequestKey | None
) -> SubmissionResult:
    """Let events in; of an atomic request all or none."""
    service, is_atomic = request.service, _is_atomic(request)
    guard = guard_of(request.who, service.access.users)
    if is_atomic and any(isinstance(one, str) for one in made):
        # One is invalid, so none is let in. A dry run finds what else is wrong.
        events = [one for one in made if not isinstance(one, str)]
        tried = await try_events(service, service.intake.dry_runs, events, guard)
        return SubmissionResult(errors=tried.errors)
    return await submit(service, made, guard=guard, request=key, is_atomic=is_atomic)


def _response(
    request: ApiRequest,
    outcome: SubmissionResult,
    results: list[dict[str, object]],
    headers: dict[str, str],
) -> Response:
    """Return the answer: an array, or a line for each event if the client wants lines."""
    accepted = request.http.headers.get("accept", "")
    wanted = accepted.partition(",")[0].partition(";")[0].strip().lower()
    headers |= outcome.headers()
    if wanted in LINES:
        return Response(b"".join(map(as_json, results)), headers=headers, media_type=wanted)
    return json_response(results, headers=headers)


# INPUT-9
EVENT_ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/events",
        "Submit events; those of one request are let in together.",
        Role.SUBMITTER,
        _submit,
        parameters=(
            query(
                "dry_run",
                FLAG,
                "only answer what would be refused and which decisions would follow",
                default=False,
            ),
            query("atomic", FLAG, "let in all events, or none if one is refused", default=False),
            header(
                "Idempotency-Key",
                KEY,
                "marks the request, so that a repeat of it changes nothing; kept for a day",
            ),
        ),
        body=Body(
            "Events of a feed, without `at`, `settle` and `expect`.",
            {
                JSON: _EVENTS,
                **dict.fromkeys(sorted(LINES), TEXT),
                **{media: {"type": "string", "format": "binary"} for media in sorted(MSGPACK)},
            },
            examples={
                JSON: [
                    {"op": "add_app", "app": "etl", "queue": "root.dev"},
                    {"op": "add_ask", "app": "etl", "ask": "load", "resources": {"vcore": 1}},
                ]
            },
        ),
        answers={
            200: Answer(
                "What became of each event, in order; of a dry run also the decisions.", SUBMITTED
            ),
            400: Answer("The body cannot be read; nothing was let in."),
            409: Answer("A request with this key is under way; a repeat gets its answer."),
            413: Answer("The body is beyond a limit; nothing was let in."),
            415: Answer("The body is of another media type."),
            422: Answer(
                "With `atomic`: an event would be refused, and none was let in; `results` has what "
                "an answer with 200 has. Or the key was used for a request with other content."
            ),
        },
        tag="events",
    ),
)


async def _renew(request: ApiRequest) -> Response:
    name = request.value("name", str)
    lease_us = request.service.intake.leases.renew(name) or await _renew_when_announced(
        request, name
    )
    until = iso_date(WallClock.now_us() + lease_us, "milliseconds")
    return json_response({"node": name, "lease": lease_us / 1e6, "until": until})


# INPUT-17
async def _renew_when_announced(request: ApiRequest, name: str) -> int:
    """Renew a lease between two batches, when all nodes so far have been announced.

    Raises:
        Problem: If it cannot be renewed, with the reason.
    """

    def read(machine: CoordinatorMachine) -> Steps[int | Problem]:
        yield
        nodes = machine.view.nodes.nodes
        if name not in nodes:
            return not_found("node", name, did_you_mean(name, nodes))
        # The node may have come in the meantime.
        lease_us = request.service.intake.leases.renew(name)
        if lease_us is not None:
            return lease_us
        return Problem(409, f"node: {name!r} has no lease: it was added without one, and stays")

    found = await request.service.inspect(read)
    if isinstance(found, Problem):
        raise found
    return found


# INPUT-9
LEASE_ENDPOINTS: Final = (
    Endpoint(
        "PUT",
        "/api/v1/nodes/{name:path}/lease",
        "Renew the lease of a node, so that it stays.",
        Role.ADMIN,
        _renew,
        parameters=(in_path("name", "The name of the node."),),
        answers={
            200: Answer(
                "It is renewed.",
                record(
                    node=TEXT,
                    lease=about(SECONDS, "how long, in seconds"),
                    until=about(
                        {**TEXT, "format": "date-time"},
                        "when it runs out, by the clock of the server",
                    ),
                ),
            ),
            404: Answer("There is no such node: it may have been removed, so add it again."),
            409: Answer("The node has no lease."),
        },
        tag="state",
    ),
)
