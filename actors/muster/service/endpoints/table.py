"""An end point: its path, who may use it, its parameters, its answers, and its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import attrs
from starlette.responses import Response

from muster.service.access.who import Role, Who
from muster.service.encoding import as_json
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.endpoints.kinds import Parameter, Schema
    from muster.service.state import Service

T = TypeVar("T")

JSON: Final = "application/json"


@final
@attrs.frozen
class Answer:
    """An answer that an end point may give.

    Attributes:
        about: What it means.
        schema: The JSON schema of its body, or None without a body or without a schema.
        media: The media type of its body.
        others: Further media types of its body, which a client may choose, with their schemas.
        headers: Headers that it may have, with what they mean.
    """

    about: str
    schema: Schema | None = None
    media: str = JSON
    others: Mapping[str, Schema] = attrs.field(factory=dict[str, "Schema"])
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])


@final
@attrs.frozen
class Body:
    """The body that an end point takes.

    Attributes:
        about: What it means.
        schemas: For each media type the JSON schema of the body.
        required: Whether there has to be one.
        examples: For some of the media types an example.
    """

    about: str
    schemas: Mapping[str, Schema]
    required: bool = True
    examples: Mapping[str, object] = attrs.field(factory=dict[str, object])


@final
@attrs.frozen(eq=False)
class Asked:
    """A request, with its parameters read.

    Attributes:
        service: The service.
        request: The request.
        who: Who sends it.
        values: The values of all parameters of the end point, by name.
    """

    service: Service
    request: Request
    who: Who
    values: Mapping[str, Any]

    def value(self, name: str, wanted: type[T]) -> T:
        """Return the value of a parameter that is there.

        Args:
            name: The name of the parameter.
            wanted: Its type.
        """
        found = self.values[name]
        assert isinstance(found, wanted), f"{name} is {found!r}"
        return found

    def maybe(self, name: str, wanted: type[T]) -> T | None:
        """Return the value of a parameter, or None if it is not there."""
        return None if self.values[name] is None else self.value(name, wanted)


Handler = Callable[[Asked], Awaitable[Response]]
"""Answers a request; what it raises as :class:`Problem` or ``MusterError`` is told the client."""


@final
@attrs.frozen
class Endpoint:
    """An end point.

    Attributes:
        method: The method: ``GET``, ``POST``, ``PUT``, ``DELETE``.
        path: The path, with ``{name}`` for parameters, as the OpenAPI document has it. A
            parameter whose value may have slashes is written ``{name:path}``.
        summary: What it does, in a line.
        role: The least role that may use it.
        handler: Answers it.
        parameters: Its parameters.
        body: The body that it takes, or None.
        answers: Its answers by status; refusals that any end point gives need not be named.
        tag: Under which heading the document lists it.
    """

    method: str
    path: str
    summary: str
    role: Role
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: Mapping[int, Answer] = attrs.field(factory=dict[int, Answer])
    tag: str = "state"


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a value as JSON."""
    return Response(as_json(value), status, dict(headers or {}), media_type=JSON)


def not_found(what: str, name: str, guess: str = "", **members: object) -> Problem:
    """Return the problem of a name that is unknown."""
    problem = Problem(404, f"{what}: {name!r} is unknown{guess}")
    problem.members |= members
    return problem
