"""Monitoring: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from muster.service.access import Role
from muster.service.backends.registry import BACKENDS
from muster.service.endpoints.routes import Answer, ApiRequest, Endpoint, json_response
from muster.service.endpoints.schemas import BOOLEAN, TEXT, TEXTS, Schema

if TYPE_CHECKING:
    from muster.service.health import Health


_RETRY_AFTER_S: Final = "1"

_BATCH: Final[Schema] = {"type": "integer", "minimum": 0}
_PROBLEMS: Final[Schema] = {"type": "object", "additionalProperties": TEXTS}

_BACKENDS: Final = {name: one.health for name, one in BACKENDS.items() if one.health is not None}

_REPLICA: Final[Schema] = {
    "type": "object",
    "description": "whether it leads or follows, and how far who follows is behind",
    "required": ["role", "term"],
    "properties": {
        "role": {"enum": ["leader", "follower"]},
        "term": _BATCH,
        "leader": TEXT,
        "connected": BOOLEAN,
        "batches_behind": _BATCH,
        "seconds_behind": {"type": "number", "minimum": 0},
        "followers": _BATCH,
        "differences": _BATCH,
        "difference": TEXT,
        "sync": {"enum": ["strict", "available"]},
        "alone": BOOLEAN,
        "held": BOOLEAN,
        "detail": TEXT,
    },
}

LIFE: Final[Schema] = {
    "type": "object",
    "required": ["alive", "ready", "ending", "batch", "problems", "run"],
    "properties": {
        "alive": BOOLEAN,
        "ready": BOOLEAN,
        "ending": BOOLEAN,
        "batch": _BATCH,
        "problems": _PROBLEMS,
        "run": {"type": "string", "description": "what runs commands: the option --run"},
        "replica": _REPLICA,
        **_BACKENDS,
        "detail": TEXT,
    },
}

READINESS: Final[Schema] = {
    "type": "object",
    "required": ["ready", "batch"],
    "properties": {"ready": BOOLEAN, "batch": _BATCH, "detail": TEXT, **_BACKENDS},
}


def response_about(health: Health, path: str) -> Response | None:
    """Return the response of ``/healthz`` or ``/readyz``; None for any other path."""
    match path:
        case "/healthz":
            status, answer = health.life()
        case "/readyz":
            status, answer = health.readiness()
        case _:
            return None
    return json_response(answer, status, {} if status == 200 else {"Retry-After": _RETRY_AFTER_S})


async def _answer(request: ApiRequest) -> Response:
    response = response_about(request.service.health, request.http.scope["path"])
    assert response is not None, request.http.scope["path"]
    return response


HEALTH_ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/healthz",
        "Whether the scheduler is alive: it answers its heartbeat within 5 seconds.",
        Role.ANYONE,
        _answer,
        answers={
            200: Answer("It is alive; `problems` has what is wrong with files read again.", LIFE),
            503: Answer("It is not; `detail` says why.", LIFE),
        },
        tag="service",
    ),
    Endpoint(
        "GET",
        "/readyz",
        "Whether recovery is over, and requests are answered.",
        Role.ANYONE,
        _answer,
        answers={
            200: Answer(
                "It is over; if what runs commands does not answer, it says since when.", READINESS
            ),
            503: Answer("It is not, or the service ends; `detail` says which.", READINESS),
        },
        tag="service",
    ),
)


PLAIN: Final = "text/plain"
OPEN: Final = "application/openmetrics-text"


async def _metrics(request: ApiRequest) -> Response:
    text, media = await request.service.metrics.scrape(request.http.headers.get("accept", ""))
    return Response(text, 200, {"content-type": media})


METRICS_ENDPOINTS: Final = (
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
