"""The OpenAPI document, made from the tables from which the routes are made: ``/openapi.json``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.responses import Response

from muster._version import __version__
from muster.service.access import OpenAccess, Role
from muster.service.endpoints.routes import Answer, ApiRequest, Body, Endpoint, json_response
from muster.service.payloads import PROBLEM_JSON

if TYPE_CHECKING:
    from muster.service.endpoints.schemas import Parameter


Json = dict[str, Any]

_PARAMETER: Final = re.compile(r"\{(\w+)(:\w+)?\}")

_ABOUT: Final = (
    "Muster decides which asks run where. Events go in, decisions come out. Instants in answers "
    "are in seconds since the origin of the scheduler unless their name says otherwise."
)

PROBLEM: Final[Json] = {
    "type": "object",
    "description": "What is wrong, as RFC 9457 has it.",
    "properties": {
        "type": {"type": "string", "description": "always `about:blank`"},
        "title": {"type": "string", "description": "the phrase of the status"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "what is wrong, and what would be right"},
    },
    "required": ["type", "title", "status", "detail"],
}

_REFUSALS: Final[Mapping[int, str]] = {
    400: "A parameter or the body is wrong.",
    401: "A token is needed, and none or a wrong one was sent.",
    403: "The role of the token does not allow it.",
    404: "What the path names is unknown.",
    408: "The request did not arrive in time.",
    409: "It is not possible now; nothing was changed.",
    413: "The request is beyond a limit.",
    415: "The body is of a media type that is not taken.",
    422: "It can be read, and cannot be right.",
    429: "There are too many requests; come again later.",
    503: "The service is full or about to end; come again later.",
}

_TAGS: Final[Mapping[str, str]] = {
    "events": "What clients tell the scheduler.",
    "decisions": "What the scheduler decides.",
    "asks": "The work of asks.",
    "state": "What is there now: queues, applications, asks, gangs, nodes.",
    "configuration": "The configuration in force, and a new one.",
    "service": "The service itself.",
}

_EXAMPLES: Final[Mapping[str, object]] = {
    "app": "etl",
    "ask": "load-0",
    "gang": "default/train",
    "kinds": ["bound", "released"],
    "limit": 100,
    "name": "node-1",
    "node": "node-1",
    "path": "root.dev",
    "queue": "root.dev",
}

_EXAMPLES_BELOW: Final[Mapping[tuple[str, str], object]] = {
    ("/api/v1/decisions", "after"): 0,
    ("/api/v1/gangs", "name"): "default/train",
}


# STREAM-9
def document_of(endpoints: Iterable[Endpoint], *, secured: bool) -> Json:
    """Return the OpenAPI document (3.1) of end points.

    Args:
        endpoints: The end points.
        secured: Whether those that need a role need a token.
    """
    paths: dict[str, Json] = {}
    used: list[str] = []
    for endpoint in endpoints:
        operation = _operation(endpoint, secured=secured)
        paths.setdefault(path_of(endpoint), {})[endpoint.method.lower()] = operation
        used.append(endpoint.tag)
    components: Json = {"schemas": {"Problem": PROBLEM}}
    if secured:
        components["securitySchemes"] = {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token, as `muster token new` makes it.",
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": name, "description": _TAGS.get(name, f"About {name}.")}
            for name in dict.fromkeys(used)
        ],
        "paths": paths,
        "components": components,
    }


def path_of(endpoint: Endpoint) -> str:
    """Return the path of an end point as the document has it."""
    return _PARAMETER.sub(r"{\1}", endpoint.path)


def operation_id_of(endpoint: Endpoint) -> str:
    """Return the name of an operation, such as ``get_asks_why_by_app_ask``."""
    parts = [part for part in endpoint.path.removeprefix("/api/v1").split("/") if part]
    fixed = [re.sub(r"\W+", "_", part) for part in parts if "{" not in part]
    named = [match[1] for match in _PARAMETER.finditer(endpoint.path)]
    return "_".join([endpoint.method.lower(), *fixed, *(("by", *named) if named else ())])


def _operation(endpoint: Endpoint, *, secured: bool) -> Json:
    made: Json = {
        "operationId": operation_id_of(endpoint),
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "x-muster-role": endpoint.role.name.lower(),
    }
    if endpoint.parameters:
        made["parameters"] = [_parameter(one, endpoint.path) for one in endpoint.parameters]
    if endpoint.body is not None:
        made["requestBody"] = _body(endpoint.body)
    made["responses"] = _responses(endpoint, secured=secured)
    if secured and endpoint.role > Role.ANYONE:
        made["security"] = [{"bearer": []}]
    return made


def _parameter(parameter: Parameter, path: str) -> Json:
    schema = dict(parameter.kind.schema)
    if parameter.default is not None:
        default = parameter.default
        schema["default"] = (
            [*cast("tuple[object, ...]", default)] if isinstance(default, tuple) else default
        )
    made: Json = {
        "name": parameter.name,
        "in": parameter.where,
        "description": parameter.about,
        "required": parameter.required or parameter.where == "path",
        "schema": schema,
    }
    if schema.get("type") == "array":
        made["style"], made["explode"] = "form", False
    top = path.partition("/{")[0]
    example = _EXAMPLES_BELOW.get((top, parameter.name), _EXAMPLES.get(parameter.name))
    if example is not None and _fits(schema, example):
        made["example"] = example
    return made


def _fits(schema: Mapping[str, Any], example: object) -> bool:
    """Return whether an example that other end points share is one of this schema, too."""
    match schema.get("type"):
        case "array":
            known = schema["items"].get("enum")
            return isinstance(example, list) and (known is None or {*example} <= {*known})
        case "integer":
            return isinstance(example, int)
        case "string":
            return isinstance(example, str) and "enum" not in schema
        case _:
            return False


def _body(body: Body) -> Json:
    return {
        "description": body.about,
        "required": body.required,
        "content": {
            media: {
                "schema": schema,
                **({"example": body.examples[media]} if media in body.examples else {}),
            }
            for media, schema in body.schemas.items()
        },
    }


def _responses(endpoint: Endpoint, *, secured: bool) -> Json:
    """Return all answers: those that it names, and the refusals that any end point gives."""
    found = {status: _response(status, answer) for status, answer in endpoint.answers.items()}
    for status in _refusals_of(endpoint, secured=secured):
        found.setdefault(status, _problem(_REFUSALS[status]))
    return {str(status): found[status] for status in sorted(found)}


def _refusals_of(endpoint: Endpoint, *, secured: bool) -> list[int]:
    statuses = [400, 503]  # a parameter that is unknown; the end of the service
    if secured and endpoint.role > Role.ANYONE:
        statuses += [401]
    if secured and endpoint.role > Role.READER:
        statuses += [403]
    if any(one.where == "path" for one in endpoint.parameters):
        statuses += [404]
    if endpoint.body is not None:
        statuses += [408, 409, 413, 415, 422]
    if endpoint.role > Role.ANYONE:
        statuses += [429]
    return statuses


def _response(status: int, answer: Answer) -> Json:
    if status >= HTTPStatus.BAD_REQUEST and answer.schema is None:
        return _problem(answer.about)
    made: Json = {"description": answer.about}
    content = {} if answer.schema is None else {answer.media: {"schema": answer.schema}}
    content.update({media: {"schema": schema} for media, schema in answer.others.items()})
    if content:
        made["content"] = content
    if answer.headers:
        made["headers"] = {
            name: {"description": about, "schema": {"type": "string"}}
            for name, about in answer.headers.items()
        }
    return made


def _problem(about: str) -> Json:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": about, "content": {PROBLEM_JSON: {"schema": schema}}}


def endpoint_of(described: Callable[[], Sequence[Endpoint]]) -> Endpoint:
    """Return the end point that describes all others, and itself.

    Args:
        described: Returns the end points to describe.
    """

    async def describe(request: ApiRequest) -> Response:
        secured = not isinstance(request.service.access, OpenAccess)
        return json_response(document_of(described(), secured=secured))

    return Endpoint(
        "GET",
        "/openapi.json",
        "This document: all end points, what they take, and what they answer.",
        Role.READER,
        describe,
        answers={200: Answer("The document, as OpenAPI 3.1 has it.", {"type": "object"})},
        tag="service",
    )
