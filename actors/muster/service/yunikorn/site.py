"""A port of its own: YuniKorn's end points, and its web UI at the root."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from muster.service.yunikorn.answers import plain, wrong_response
from muster.service.yunikorn.app import NOT_THERE, YuniKorn
from muster.service.yunikorn.wrong import Wrong

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from muster.service.problems import Problem
    from muster.service.state import Service

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
    return wrong_response(Wrong(problem.status, problem.detail, headers=problem.headers))


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
