"""The metrics: ``/metrics``, as Prometheus reads them."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from muster.service.access.who import Role
from muster.service.endpoints.table import Answer, Asked, Endpoint

PLAIN: Final = "text/plain"
OPEN: Final = "application/openmetrics-text"


async def _metrics(asked: Asked) -> Response:
    text, media = await asked.service.metrics.scrape(asked.request.headers.get("accept", ""))
    return Response(text, 200, {"content-type": media})


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/metrics",
        "The metrics, as Prometheus reads them.",
        Role.READER,
        _metrics,
        answers={
            200: Answer(
                "The metrics, in Prometheus' text format or as OpenMetrics.",
                {"type": "string"},
                PLAIN,
                others={OPEN: {"type": "string"}},
            )
        },
        tag="service",
    ),
)
