"""Responses: JSON in pieces, compressed if that is worth it."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final, TypeGuard

import trio
from starlette.responses import Response

from muster.service.encoding import as_json

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.yunikorn.wrong import Wrong

JSON: Final = "application/json; charset=UTF-8"
YAML: Final = "application/x-yaml; charset=UTF-8"
TEXT: Final = "text/plain; charset=utf-8"

_LEAST_BYTES: Final = 1_400
"""From how many bytes on a body is compressed."""

_IN_A_THREAD: Final = 64 * 1024
"""From how many bytes on it is compressed in a thread."""

_PIECE: Final = 32
_LEVEL: Final = 5

_CODING: Final = re.compile(r"\s*([^;,\s]+)\s*(?:;\s*q\s*=\s*([0-9.]+)\s*)?")


async def encoded(value: object) -> bytes:
    """Return a value as JSON with a line feed; others run in between, however large it is."""
    return b"".join([piece async for piece in _pieces(value)]) + b"\n"


async def _pieces(value: object) -> AsyncIterator[bytes]:
    """Yield a value as JSON, in pieces that take a short time."""
    if _is_map(value) and any(map(_is_list, value.values())):
        mark = b"{"
        for name, one in value.items():
            yield mark + _bare(name) + b":"
            async for piece in _pieces(one):
                yield piece
            mark = b","
        yield b"}"
    elif _is_list(value) and len(value) > _PIECE:
        mark = b"["
        for first in range(0, len(value), _PIECE):
            await trio.lowlevel.checkpoint()
            yield mark + _bare(value[first : first + _PIECE])[1:-1]
            mark = b","
        yield b"]"
    elif _is_list(value) and any(map(_is_map, value)):
        mark = b"["
        for one in value:
            await trio.lowlevel.checkpoint()
            yield mark
            async for piece in _pieces(one):
                yield piece
            mark = b","
        yield b"]"
    else:
        yield _bare(value)


def _is_map(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _bare(value: object) -> bytes:
    return as_json(value)[:-1]


# REST-1
async def answer(
    request: Request,
    body: bytes,
    *,
    media: str = JSON,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a response, compressed if the client allows it and the body is long enough."""
    said = {"Content-Type": media, "Vary": "Accept-Encoding", **(headers or {})}
    if len(body) >= _LEAST_BYTES and _allows_gzip(request.headers.get("accept-encoding", "")):
        said["Content-Encoding"] = "gzip"
        if len(body) < _IN_A_THREAD:
            body = gzip.compress(body, _LEVEL)
        else:
            body = await trio.to_thread.run_sync(gzip.compress, body, _LEVEL)
    return Response(body, status, said)


async def answer_json(request: Request, value: object) -> Response:
    """Return a response with a value as JSON."""
    return await answer(request, await encoded(value))


async def answer_wrong(request: Request, wrong: Wrong) -> Response:
    """Return the response for a request that cannot be answered as it was asked."""
    body = as_json(wrong.as_map())
    return await answer(request, body, status=wrong.status, headers=wrong.headers)


def wrong_response(wrong: Wrong) -> Response:
    """Return the response for a request that cannot be answered, without compression."""
    return Response(as_json(wrong.as_map()), wrong.status, {"Content-Type": JSON, **wrong.headers})


def plain(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a short text."""
    return Response(text, status, {"Content-Type": TEXT, **(headers or {})})


def _allows_gzip(written: str) -> bool:
    """Return whether ``Accept-Encoding`` allows gzip."""
    weights: dict[str, float] = {}
    for coding in written.split(","):
        found = _CODING.fullmatch(coding)
        if found is not None:
            try:
                weights[found[1].lower()] = float(found[2] or 1)
            except ValueError:
                weights[found[1].lower()] = 0.0
    return weights.get("gzip", weights.get("*", 0.0)) > 0
