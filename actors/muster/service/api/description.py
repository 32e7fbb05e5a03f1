"""The description of the service: ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.responses import Response

from muster.service.access.who import OpenAccess, Role
from muster.service.endpoints.document import document_of
from muster.service.endpoints.table import Answer, Asked, Endpoint, json_response


def endpoint_of(described: Callable[[], Sequence[Endpoint]]) -> Endpoint:
    """Return the end point that describes all others, and itself.

    Args:
        described: Returns the end points to describe.
    """

    async def describe(asked: Asked) -> Response:
        secured = not isinstance(asked.service.access, OpenAccess)
        return json_response(document_of(described(), secured=secured))

    return Endpoint(
        "GET",
        "/openapi.json",
        "This document: all end points, what they take, and what they answer.",
        Role.READER,
        describe,
        answers={200: Answer("The document, as OpenAPI 3.1 has it.", {"type": "object"})},
        tag="service",
    )
