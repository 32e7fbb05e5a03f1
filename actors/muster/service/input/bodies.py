"""The body of a request: its bytes within the limit, and its media type."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request


async def body_of(request: Request, most: int) -> bytes:
    """Return the body of a request.

    Args:
        request: The request.
        most: The most bytes that it may have.

    Raises:
        Problem: 413 if it is longer.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise too_long(most)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_long(most)
        parts.append(part)
    return b"".join(parts)


def too_long(most: int) -> Problem:
    """Return the problem of a body that is too long."""
    return Problem(413, f"the body is longer than {most} bytes", limit="body_bytes", most=most)


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
