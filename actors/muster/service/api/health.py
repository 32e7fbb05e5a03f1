"""Whether the service works: ``/healthz`` and ``/readyz``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.service.access.who import Role
from muster.service.endpoints.table import Answer, Asked, Endpoint, json_response

if TYPE_CHECKING:
    from starlette.responses import Response


async def _ready(asked: Asked) -> Response:
    return json_response({"ready": True, "batch": asked.service.ledger.batch})


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/readyz",
        "Whether recovery is over.",
        Role.ANYONE,
        _ready,
        answers={200: Answer("It is over.", {"type": "object"})},
        tag="service",
    ),
)
