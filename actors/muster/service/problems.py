"""Errors as a client sees them: ``application/problem+json``, as RFC 9457 has it."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, final

from starlette.responses import Response

from muster.service.encoding import as_json

PROBLEM_JSON: Final = "application/problem+json"


@final
class Problem(Exception):  # noqa: N818 - the name of RFC 9457
    """A request cannot be answered as it was asked.

    Args:
        status: The status of the response.
        detail: What is wrong, and what would be right.
        headers: Further headers of the response.
        **members: Further members of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **members: object,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members

    def as_map(self) -> dict[str, object]:
        """Return the members of the answer."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }

    def response(self) -> Response:
        """Return the response."""
        return Response(as_json(self.as_map()), self.status, self.headers, media_type=PROBLEM_JSON)
