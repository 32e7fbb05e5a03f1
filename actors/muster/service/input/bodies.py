"""The body of a request, and its media type. The door holds the limit of its length."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request


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
