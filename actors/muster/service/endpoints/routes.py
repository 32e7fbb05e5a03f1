"""End points and their routes: path, role, parameters, answers, handler, errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, final

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from muster._errors import BrokenSchedulerError, ClosedSchedulerError, StoreError
from muster.service.access import ANONYMOUS, WHO, Principal, Role
from muster.service.limits import ROUTE
from muster.service.payloads import Problem, as_json
from muster.service.replication.leadership import TERM
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

    from muster.service.endpoints.schemas import Parameter, Schema
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
class ApiRequest:
    """A request, with its parameters read.

    Attributes:
        service: The service.
        http: The request as Starlette has it.
        who: Who sends it.
        values: The values of all parameters of the end point, by name.
    """

    service: Service
    http: Request
    who: Principal
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


Handler = Callable[[ApiRequest], Awaitable[Response]]
"""Answers a request; the client gets the :class:`Problem` or ``MusterError`` that it raises."""


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


class MethodRoute(Protocol):
    """The handler of one method at one path."""

    @property
    def method(self) -> str:
        """The method, such as ``GET``, which answers ``HEAD`` as well."""
        ...

    @property
    def path(self) -> str:
        """The path, with ``{name}`` for its parts, and ``{name:path}`` if one may have slashes."""
        ...


R = TypeVar("R", bound=MethodRoute)

AnswerOf = Callable[["Service", R, Request], Awaitable[Response]]
"""Returns the response to a request, whatever happens."""


def routes_by_path(
    service: Callable[[], Service], rows: Iterable[R], answered: AnswerOf[R]
) -> list[BaseRoute]:
    """Return the routes of a table, in their order.

    A path whose last part may have slashes comes after those that it would hide.

    Args:
        service: Returns the running service.
        rows: The table.
        answered: Answers a request with the row that it is for.
    """
    by_path: dict[str, dict[str, R]] = {}
    for row in rows:
        by_path.setdefault(row.path, {})[row.method] = row
    return [
        Route(path, _Resource(service, of_path, answered), methods=[*of_path])
        for path, of_path in sorted(by_path.items(), key=lambda one: one[0].endswith(":path}"))
    ]


def with_fixed_paths(app: Starlette) -> ASGIApp:
    """Return an application that finds the routes of paths without parameters at once.

    Args:
        app: Answers all other requests; its routes answer whatever happens.
    """
    fixed = {
        one.path: one for one in app.routes if isinstance(one, Route) and not one.param_convertors
    }

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        route = fixed.get(scope["path"])
        if route is not None and scope["method"] in (route.methods or ()):
            await route.app(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


@final
@attrs.frozen
class _Resource(Generic[R]):
    """The resource at one path: a row for each method."""

    service: Callable[[], Service]
    by_method: Mapping[str, R]
    answered: AnswerOf[R]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        row = self.by_method["GET" if request.method == "HEAD" else request.method]
        scope[ROUTE] = row.path
        response = await self.answered(self.service(), row, request)
        await response(scope, receive, send)


_LOG: Final = logging.getLogger("muster.service")


def routes_of(service: Callable[[], Service], endpoints: Iterable[Endpoint]) -> list[BaseRoute]:
    """Return the routes of end points, in their order.

    Args:
        service: Returns the running service.
        endpoints: The end points.
    """
    return routes_by_path(service, endpoints, answer_endpoint)


async def answer_endpoint(service: Service, endpoint: Endpoint, request: Request) -> Response:
    """Return the response of an end point, whatever happens."""
    # ACCESS-3
    try:
        anyone = endpoint.role is Role.ANYONE
        who = request.scope[WHO] = ANONYMOUS if anyone else service.access.who(request)
        if not who.role.may(endpoint.role):
            needed = endpoint.role.name.lower()
            has = f"{who.name!r} has the role {who.role.name.lower()}"
            raise Problem(403, f"this needs the role {needed}; the token {has}")
        values = _values(endpoint, request)
        service.leadership.check(request.headers.get(TERM), who)
        return await endpoint.handler(ApiRequest(service, request, who, values))
    except Problem as problem:
        service.usage.refusals.note(problem)
        return problem.response()
    except MusterError as error:
        return problem_of(error).response()
    except Exception:  # noqa: BLE001 - a bug in one answer must not end the service
        # The client gets no internals; the log has the traceback.
        _LOG.exception("%s %s", request.method, request.url.path)
        return Problem(500, "the service has a bug here; its log says more").response()


_NO_QUERY: Final[Mapping[str, str]] = {}


def _values(endpoint: Endpoint, request: Request) -> dict[str, object]:
    values: dict[str, object] = {}
    in_query = request.query_params if request.scope["query_string"] else _NO_QUERY
    for parameter in endpoint.parameters:
        match parameter.where:
            case "path":
                written: str | None = request.path_params[parameter.name]
            case "query":
                written = in_query.get(parameter.name)
            case _:
                written = request.headers.get(parameter.name)
        values[parameter.name] = parameter.read(written)
    known = {one.name for one in endpoint.parameters if one.where == "query"}
    unknown = [name for name in in_query if name not in known]
    if unknown:
        right = ", ".join(sorted(known)) or "none"
        message = f"{unknown[0][:100]}: is no parameter here; known are: {right}"
        raise Problem(400, message, parameter=unknown[0][:100])
    return values


def problem_of(error: MusterError) -> Problem:
    """Return the problem for an error of Muster."""
    match error:
        case RefusedError():
            return Problem(409, str(error))
        case EventError():
            return Problem(422, str(error))
        case ConfigError():
            found = [
                {"line": one.line, "path": one.path, "message": one.message}
                for one in error.problems
            ]
            return Problem(422, "the configuration is refused", problems=found)
        case ClosedSchedulerError() | StoreError() | BrokenSchedulerError():
            return Problem(503, str(error), headers={"Retry-After": "5"})
        case _:
            return Problem(400, str(error))
