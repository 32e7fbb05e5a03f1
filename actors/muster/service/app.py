"""The application: all routes of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette

from muster.service.api import config, decisions, events, health
from muster.service.endpoints.routing import routes_of

if TYPE_CHECKING:
    from muster.service.endpoints.table import Endpoint
    from muster.service.state import Service

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *events.ENDPOINTS,
    *config.ENDPOINTS,
    *decisions.ENDPOINTS,
    *health.ENDPOINTS,
)
"""All end points that the OpenAPI document names, in its order."""


def make_app(service: Callable[[], Service]) -> Starlette:
    """Return the application.

    Args:
        service: Returns the running service.
    """
    return Starlette(routes=routes_of(service, ENDPOINTS))
