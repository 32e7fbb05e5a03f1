"""The application: all routes of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from muster.service.api import (
    config,
    decisions,
    description,
    events,
    health,
    leases,
    lists,
    logs,
    metrics,
    why,
)
from muster.service.endpoints.routing import routes_of
from muster.service.page.site import page_routes
from muster.service.problems import Problem
from muster.service.yunikorn.site import routes as yunikorn_routes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from muster.service.endpoints.table import Endpoint
    from muster.service.state import Service

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *events.ENDPOINTS,
    *config.ENDPOINTS,
    *lists.ENDPOINTS,
    *leases.ENDPOINTS,
    *why.ENDPOINTS,
    *decisions.ENDPOINTS,
    *logs.ENDPOINTS,
    *metrics.ENDPOINTS,
    *health.ENDPOINTS,
    description.endpoint_of(lambda: ENDPOINTS),
)
"""All end points that the OpenAPI document names, in its order."""


def make_app(service: Callable[[], Service]) -> Starlette:
    """Return the application.

    Args:
        service: Returns the running service.
    """
    app = Starlette(
        routes=[
            *routes_of(service, ENDPOINTS),
            *yunikorn_routes(service),
            *page_routes(service),
        ],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return app


async def _refused(request: Request, error: Exception) -> Response:
    """Return the response for a path or a method that is unknown."""
    assert isinstance(error, HTTPException), f"{error!r} is handled here"
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        told = f"{request.method} is no method here; there are: {allowed}"
    else:
        told = f"there is nothing at {request.scope['path'][:200]!r}"
    return Problem(error.status_code, told, headers=error.headers).response()
