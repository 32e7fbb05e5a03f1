"""Events: ``POST /api/v1/events``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from muster.service.access.who import Role
from muster.service.encoding import as_json
from muster.service.endpoints.table import Answer, Asked, Body, Endpoint, json_response
from muster.service.input.bodies import body_of, media_of
from muster.service.input.making import made_events
from muster.service.input.submitting import submit
from muster.service.input.written import JSON, LINES, MEDIA, MSGPACK, Bounds, raw_events

if TYPE_CHECKING:
    from muster.service.endpoints.kinds import Schema
    from muster.service.input.submitting import Submitted

_EVENT: Final[Schema] = {
    "type": "object",
    "properties": {"op": {"type": "string"}},
    "required": ["op"],
}

_RESULT: Final[Schema] = {
    "type": "object",
    "properties": {
        "index": {"type": "integer", "minimum": 0, "description": "which event, from 0"},
        "ok": {"type": "boolean", "description": "whether it was carried out"},
        "error": {"type": ["string", "null"], "description": "why it was not"},
        "asks": {
            "type": "array",
            "items": {"type": "string"},
            "description": "the names of the asks that it added",
        },
    },
    "required": ["index", "ok", "error", "asks"],
    "additionalProperties": False,
}

SUBMITTED: Final[Schema] = {"type": "array", "items": _RESULT}


async def _submit(asked: Asked) -> Response:
    request, limits = asked.request, asked.service.options.limits
    media = media_of(request, MEDIA, JSON)
    body = await body_of(request, limits.body_bytes)
    pace = asked.service.client.pace
    raws = await pace.take(raw_events(body, media, Bounds(limits.events, limits.nesting)))
    made = await pace.take(made_events(raws))
    return _answered(asked, await submit(asked.service.client, made))


def _answered(asked: Asked, submitted: Submitted) -> Response:
    """Return the answer: an array, or a line for each event if the client wants lines."""
    accepted = asked.request.headers.get("accept", "")
    wanted = accepted.partition(",")[0].partition(";")[0].strip().lower()
    headers = submitted.headers()
    if wanted not in LINES:
        return json_response(submitted.results, headers=headers)
    lines = b"".join(as_json(result) for result in submitted.results)
    return Response(lines, headers=headers, media_type=wanted)


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/events",
        "Submit events; those of one request are let in together.",
        Role.SUBMITTER,
        _submit,
        body=Body(
            "Events of a feed, without `at`, `settle` and `expect`.",
            {
                JSON: {"oneOf": [{"type": "array", "items": _EVENT}, _EVENT]},
                **{media: {"type": "string"} for media in sorted(LINES)},
                **{media: {"type": "string", "format": "binary"} for media in sorted(MSGPACK)},
            },
        ),
        answers={
            200: Answer("What became of each event, in order.", SUBMITTED),
            400: Answer("The body cannot be read; nothing was let in."),
            413: Answer("The body is beyond a limit; nothing was let in."),
            415: Answer("The body is of another media type."),
        },
        tag="events",
    ),
)
