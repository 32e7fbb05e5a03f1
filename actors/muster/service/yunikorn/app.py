"""The application of YuniKorn's end points, and its port of its own with the web UI at the root."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, compile_path
from starlette.staticfiles import StaticFiles

from muster.service.access import WHO, Role
from muster.service.payloads import Problem
from muster.service.yunikorn import endpoints, protocol
from muster.service.yunikorn.endpoints import Handler, YuniKornRequest
from muster.service.yunikorn.protocol import (
    NoEndpoint,
    Streams,
    YuniKornError,
    answer_wrong,
    plain,
    wrong_response,
)
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from muster.service.state import Service


_LOG: Final = logging.getLogger("muster.service")

_P: Final = "/ws/v1/partition/{p}"

PATHS: Final[Mapping[str, tuple[str, Handler]]] = {
    "/ws/v1/clusters": ("GET", endpoints.clusters),
    "/ws/v1/partitions": ("GET", endpoints.all_partitions),
    f"{_P}/queues": ("GET", endpoints.tree),
    f"{_P}/queue/{{q}}": ("GET", endpoints.queue),
    f"{_P}/queue/{{q}}/applications": ("GET", endpoints.applications_of_queue),
    f"{_P}/queue/{{q}}/applications/{{state}}": ("GET", endpoints.applications_of_queue),
    f"{_P}/queue/{{q}}/application/{{a}}": ("GET", endpoints.one_application),
    f"{_P}/application/{{a}}": ("GET", endpoints.one_application),
    f"{_P}/applications/{{state}}": ("GET", endpoints.applications),
    f"{_P}/nodes": ("GET", endpoints.nodes),
    f"{_P}/node/{{n}}": ("GET", endpoints.one_node),
    f"{_P}/placementrules": ("GET", endpoints.rules),
    f"{_P}/usage/users": ("GET", endpoints.all_users),
    f"{_P}/usage/user/{{u}}": ("GET", endpoints.users),
    f"{_P}/usage/groups": ("GET", endpoints.all_groups),
    f"{_P}/usage/group/{{g}}": ("GET", endpoints.groups),
    "/ws/v1/scheduler/healthcheck": ("GET", endpoints.health),
    "/ws/v1/scheduler/node-utilizations": ("GET", endpoints.utilizations),
    "/ws/v1/history/apps": ("GET", endpoints.history_of_apps),
    "/ws/v1/history/containers": ("GET", endpoints.history_of_containers),
    "/ws/v1/events/batch": ("GET", endpoints.events),
    "/ws/v1/events/stream": ("GET", endpoints.event_stream),
    "/ws/v1/config": ("GET", endpoints.configuration),
    "/ws/v1/validate-conf": ("POST", endpoints.validation),
    "/ws/v1/metrics": ("GET", endpoints.metrics),
    "/ws/v1/fullstatedump": ("GET", endpoints.to_dump),
    "/ws/v1/stack": ("GET", endpoints.to_stack),
    "/debug/fullstatedump": ("GET", endpoints.dump),
    "/debug/stack": ("GET", endpoints.stack),
}
"""All end points: their paths, their methods, and what they answer."""

NOT_THERE: Final = "404 page not found\n"
"""What is said of a path of no end point."""

_ORIGIN: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "X-Requested-With,Content-Type,Accept,Origin",
}


_ROUTES: Final = (
    *((compile_path(path)[0], method, handler) for path, (method, handler) in PATHS.items()),
    # The web UI writes a queue as it is, though its name may have slashes.
    (
        re.compile("/ws/v1/partition/(?P<p>[^/]+)/queue/(?P<q>[^/]+(/[^/]+)+)/applications$"),
        "GET",
        endpoints.applications_of_queue,
    ),
)


def find(path: str) -> tuple[str, Handler, dict[str, str]] | None:
    """Return the method, the handler and the names of a path that is not decoded, or None."""
    for pattern, method, handler in _ROUTES:
        found = pattern.match(path)
        if found is not None:
            names = found.groupdict().items()
            return method, handler, {name: protocol.of_path(part) for name, part in names}
    return None


@final
class YuniKorn:
    """The ASGI application of all these end points.

    Args:
        service: Returns the running service.
    """

    def __init__(self, service: Callable[[], Service]) -> None:
        self._service = service
        self._streams: Streams | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive, send)
        response = await self._response(request)
        await response(scope, receive, send)

    # REST-1
    async def _response(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1")
        found = find(path)
        if found is None:
            return _not_there(request, path)
        method, handler, parts = found
        service = self._service()
        allows_others = service.options.cors
        if request.method == "OPTIONS" and allows_others:
            response = plain("")
        elif request.method != method:
            response = plain("Method Not Allowed\n", 405, {"Allow": method})
        else:
            if self._streams is None:
                self._streams = Streams(service.usage.streams)
            response = await _answered(
                YuniKornRequest(service, self._streams, request, parts), handler
            )
        if allows_others:
            response.headers.update(_ORIGIN)
            methods = "GET, OPTIONS" if method == "GET" else f"OPTIONS, {method}"
            response.headers["Access-Control-Allow-Methods"] = methods
        return response


def _not_there(request: Request, path: str) -> Response:
    """Return the response for a path of no end point; one slash too many is told."""
    without = path.removesuffix("/")
    if without != path and find(without) is not None:
        query = request.scope["query_string"].decode("latin-1")
        return plain("", 301, {"Location": f"{without}?{query}" if query else without})
    return plain(NOT_THERE, 404)


async def _answered(asked: YuniKornRequest, handler: Handler) -> Response:
    """Return the response of an end point, whatever happens."""
    request = asked.request
    try:
        who = request.scope[WHO] = asked.service.access.who(request)
        if who.role < Role.READER:
            raise YuniKornError(403, "this needs a token of a reader")
        return await handler(asked)
    except YuniKornError as wrong:
        if isinstance(wrong.__cause__, Problem):
            asked.service.usage.refusals.note(wrong.__cause__)
        return await answer_wrong(request, wrong)
    except NoEndpoint:
        return plain(NOT_THERE, 404)
    except Problem as problem:
        asked.service.usage.refusals.note(problem)
        refused = YuniKornError(problem.status, problem.detail, headers=problem.headers)
        return await answer_wrong(request, refused)
    except MusterError as error:
        return await answer_wrong(request, YuniKornError(500, str(error)))
    except Exception:  # noqa: BLE001 - a bug in one answer must not end the service
        # The client learns nothing of the inside; the log has all of it.
        _LOG.exception("%s %s", request.method, request.url.path)
        return await answer_wrong(request, YuniKornError(500, "the service has a bug here"))


# The style sheet of the UI is switched on by an inline event handler.
POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src-attr 'unsafe-inline'"
)


def routes(service: Callable[[], Service]) -> list[BaseRoute]:
    """Return the routes of YuniKorn's end points.

    Args:
        service: Returns the running service.
    """
    app = YuniKorn(service)
    return [Route("/ws/{path:path}", app), Route("/debug/{path:path}", app)]


# REST-1
def may_come_from_anywhere(scope: Scope) -> bool:
    """Return whether other web sites may send a request, if they may read these end points."""
    path: str = scope["path"]
    return path.startswith("/ws/")


# REST-3
def refusal(scope: Scope, problem: Problem) -> Response:
    """Return the response to a request that does not come to an end point.

    Args:
        scope: The request.
        problem: Why.
    """
    path: str = scope["path"]
    if not path.startswith(("/ws/", "/debug/")):
        return problem.response()
    return wrong_response(YuniKornError(problem.status, problem.detail, headers=problem.headers))


# REST-25
def make_site(service: Callable[[], Service], folder: Path | None) -> Starlette:
    """Return the application of the port of its own.

    Args:
        service: Returns the running service.
        folder: The folder with the built web UI, or None.
    """
    found = routes(service)
    if folder is not None:
        files = StaticFiles(directory=folder, html=True)
        found.append(Mount("/", _with_policy(files)))
    return Starlette(routes=found, exception_handlers={HTTPException: _nothing_there})


async def _nothing_there(request: Request, error: Exception) -> Response:
    """Return the response for a path where there is nothing, or a method that is none there."""
    del request
    assert isinstance(error, HTTPException), f"{error!r} is handled here"
    told = NOT_THERE if error.status_code == 404 else f"{error.detail}\n"
    return plain(told, error.status_code, error.headers)


def _with_policy(app: ASGIApp) -> ASGIApp:
    """Return an application whose answers say what the browser may do."""

    async def with_policy(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"content-security-policy", POLICY.encode())]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_with_policy)

    return with_policy
