"""Routes of a table of end points: who may, parameters, errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from muster._errors import BrokenSchedulerError, ClosedSchedulerError, StoreError
from muster.service.access.who import NOBODY, WHO, Role
from muster.service.endpoints.paths import routes_by_path
from muster.service.endpoints.table import Asked, Endpoint
from muster.service.problems import Problem
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from muster.service.state import Service

_LOG: Final = logging.getLogger("muster.service")


def routes_of(service: Callable[[], Service], endpoints: Iterable[Endpoint]) -> list[BaseRoute]:
    """Return the routes of end points, in their order.

    Args:
        service: Returns the running service.
        endpoints: The end points.
    """
    return routes_by_path(service, endpoints, answered)


async def answered(service: Service, endpoint: Endpoint, request: Request) -> Response:
    """Return the response of an end point, whatever happens."""
    # ACCESS-3
    try:
        anyone = endpoint.role is Role.ANYONE
        who = request.scope[WHO] = NOBODY if anyone else service.access.who(request)
        if who.role < endpoint.role:
            needed = endpoint.role.name.lower()
            has = f"{who.name!r} has the role {who.role.name.lower()}"
            raise Problem(403, f"this needs the role {needed}; the token {has}")
        values = _values(endpoint, request)
        return await endpoint.handler(Asked(service, request, who, values))
    except Problem as problem:
        service.usage.refusals.note(problem)
        return problem.response()
    except MusterError as error:
        return problem_of(error).response()
    except Exception:  # noqa: BLE001 - a bug in one answer must not end the service
        # The client learns nothing of the inside; the log has all of it.
        _LOG.exception("%s %s", request.method, request.url.path)
        return Problem(500, "the service has a bug here; its log says more").response()


def _values(endpoint: Endpoint, request: Request) -> dict[str, object]:
    values: dict[str, object] = {}
    for parameter in endpoint.parameters:
        match parameter.where:
            case "path":
                written: str | None = request.path_params[parameter.name]
            case "query":
                written = request.query_params.get(parameter.name)
            case _:
                written = request.headers.get(parameter.name)
        values[parameter.name] = parameter.read(written)
    known = {one.name for one in endpoint.parameters if one.where == "query"}
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        right = ", ".join(sorted(known)) or "none"
        told = f"{unknown[0][:100]}: is no parameter here; known are: {right}"
        raise Problem(400, told, parameter=unknown[0][:100])
    return values


def problem_of(error: MusterError) -> Problem:
    """Return how a client is told of an error of Muster."""
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
