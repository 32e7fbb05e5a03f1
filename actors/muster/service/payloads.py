"""Payloads of HTTP: values as JSON, problems, and the bodies of requests.

Errors are ``application/problem+json``, as RFC 9457 has it. The gate in front of the service holds
the limit of the length of a body.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, final

import orjson
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request


def as_json(value: object) -> bytes:
    """Return a value as JSON, with a line feed at the end; keys are texts."""
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer of more than 64 bits, or a text that is not Unicode
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


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


async def body_of(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        Problem: 400 if the client goes away before it has sent the whole of it.
    """
    parts: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the connection ended within the body")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


# INPUT-1
def media_of(request: Request, known: Collection[str], default: str) -> str:
    """Return the media type of the body of a request.

    Args:
        request: The request.
        known: The media types that are right.
        default: The one of a body that does not say.

    Raises:
        Problem: 415 if it is another one, or compressed.
    """
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in {"", "identity"}:
        raise Problem(415, f"content-encoding: {packing[:100]!r}: send it as it is")
    written = request.headers.get("content-type", "")
    media = written.partition(";")[0].strip().lower()
    if not media:
        return default
    if media not in known:
        right = ", ".join(sorted(known))
        raise Problem(415, f"content-type: {media[:100]!r}: must be one of {right}")
    return media
