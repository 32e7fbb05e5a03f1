"""A proxy in front of a real API server, which fails requests as networks and servers do.

It speaks plain HTTP to the client, and TLS to the server.
"""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final, final

import attrs
import h11
import httpx
import trio

from muster.kubernetes._api import chunks_of
from tests.kubernetes.cluster import ControlPlane

_DROPPED: Final = {
    *(b"host", b"content-length", b"transfer-encoding", b"content-encoding", b"connection"),
}


@final
@attrs.frozen
class Answer:
    """A fault: the proxy answers, and the server does not get the request."""

    status: int
    body: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])


@final
@attrs.frozen
class Cut:
    """A fault: the connection breaks after so many bytes of the answer; 0: after the server has answered."""

    after: int = 0


Fault = Answer | Cut


def status(code: int, reason: str) -> dict[str, Any]:
    """Return the body of an error of an API server."""
    fields = {"message": f"{reason}, by the proxy", "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", **fields}


@final
@attrs.frozen
class Chance:
    """Faults by chance, as networks and busy servers have them.

    Attributes:
        random: The source of chance.
        share: Which share of requests has a fault; of watches nearly all are cut in the end.
    """

    random: Random
    share: float = 0.08

    def fault(self, line: str) -> Fault | None:
        """Draw the fault of a request, or None."""
        draw = self.random
        if "watch=1" in line and draw.random() < 0.9:
            error = Answer(200, {"type": "ERROR", "object": status(410, "Expired")})
            cut = Cut(1 + int(draw.expovariate(1 / 100_000)))
            return draw.choices((cut, error, _TOO_OLD, _BUSY), (20, 1, 1, 1))[0]
        if draw.random() >= self.share:
            return None
        if line.startswith("GET"):
            cut = Cut(1 + int(draw.expovariate(1 / 2_000)))
            return draw.choice((cut, _TOO_OLD if "continue=" in line else _BUSY, _BROKEN))
        return draw.choices((Cut(), Cut(1), _CONFLICT, _BUSY, _BROKEN), (4, 1, 2, 2, 1))[0]


def _answer(code: int, reason: str, **headers: str) -> Answer:
    return Answer(code, status(code, reason), headers)


_TOO_OLD: Final = _answer(410, "Expired")
_BUSY: Final = _answer(429, "TooManyRequests", **{"Retry-After": "1"})
_BROKEN: Final = _answer(500, "InternalError")
_CONFLICT: Final = _answer(409, "Conflict")


@final
class Proxy:
    """Passes requests on; each fault meets the next request that it is for.

    Attributes:
        url: Where it listens.
        requests: The requests so far, such as ``GET /api/v1/pods?watch=1``.
        came_s: The arrival of each of them, in seconds of the clock of trio.
        upstream: The client of the server.
        chance: Faults by chance, for requests that meet no other; None for none.
        faults: How many faults of each kind there were.
    """

    def __init__(self, plane: ControlPlane, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[str] = []
        self.came_s: list[float] = []
        self.chance: Chance | None = None
        self.faults = Counter[str]()
        self.upstream = httpx.AsyncClient(
            base_url=plane.url,
            verify=ssl.create_default_context(cafile=plane.authority),
            timeout=httpx.Timeout(60, read=None),
            # The watch of a killed client stays open until the server sends an event.
            limits=httpx.Limits(max_connections=None),
        )
        self._faults: list[tuple[str, Fault]] = []
        self._open: set[trio.CancelScope] = set()
        self._is_away = False

    def add(self, part: str, *faults: Fault) -> None:
        """Add faults for the next requests that have a text in their line."""
        self._faults += [(part, one) for one in faults]

    def clear(self) -> None:
        """Remove the faults that have not met a request yet."""
        self._faults.clear()

    def cut_all(self, *, for_ever: bool = False) -> None:
        """Break all connections, and future ones if so wanted."""
        self._is_away = for_ever
        for scope in self._open:
            scope.cancel()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                if not self._is_away:
                    await self._requests(stream)
            except (trio.BrokenResourceError, httpx.TransportError, h11.RemoteProtocolError):
                pass
            finally:
                self._open.discard(scope)
                await trio.aclose_forcefully(stream)

    async def _requests(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            request = await _next(connection, stream)
            if not isinstance(request, h11.Request):
                return
            body = b""
            while isinstance(part := await _next(connection, stream), h11.Data):
                body += bytes(part.data)
            line = f"{request.method.decode()} {request.target.decode()}"
            self.requests.append(line)
            self.came_s.append(trio.current_time())
            fault = self._fault(line)
            if isinstance(fault, Answer):
                content = json.dumps(dict(fault.body)).encode() + b"\n"
                headers = [*fault.headers.items(), ("Content-Length", str(len(content)))]
                await _send(
                    connection, stream, h11.Response(status_code=fault.status, headers=headers)
                )
                await _send(connection, stream, h11.Data(data=content))
            elif not await self._pass(connection, stream, request, body, fault):
                return
            await _send(connection, stream, h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    def _fault(self, line: str) -> Fault | None:
        fault = None if self.chance is None else self.chance.fault(line)
        for number, (part, planned) in enumerate(self._faults):
            if part in line:
                del self._faults[number]
                fault = planned
                break
        match fault:
            case Answer():
                self.faults[str(fault.status) if fault.status >= 400 else "error events"] += 1
            case Cut():
                is_lost = fault.after == 0 and "watch=1" not in line
                self.faults["answers lost" if is_lost else "cuts"] += 1
            case None:
                pass
        return fault

    async def _pass(
        self,
        connection: h11.Connection,
        stream: trio.SocketStream,
        request: h11.Request,
        body: bytes,
        fault: Cut | None,
    ) -> bool:
        """Pass a request on, and the answer back; return whether the connection goes on."""
        headers = [one for one in request.headers if one[0] not in _DROPPED]
        passed = self.upstream.build_request(
            request.method.decode(), request.target.decode(), headers=headers, content=body
        )
        response = await self.upstream.send(passed, stream=True)
        async with chunks_of(response) as chunks:
            if isinstance(fault, Cut) and fault.after == 0 and "watch=1" not in str(passed.url):
                async for _ in chunks:
                    pass
                return False
            kept = [one for one in response.headers.raw if one[0].lower() not in _DROPPED]
            kept.append((b"Transfer-Encoding", b"chunked"))
            head = h11.Response(status_code=response.status_code, headers=kept)
            await _send(connection, stream, head)
            sent = 0
            async for some in chunks:
                rest = len(some) if fault is None else max(0, fault.after - sent)
                await _send(connection, stream, h11.Data(data=some[:rest]))
                sent += len(some)
                if fault is not None and sent >= fault.after:
                    return False
        return True


async def _next(connection: h11.Connection, stream: trio.SocketStream) -> object:
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        connection.receive_data(await stream.receive_some())


async def _send(connection: h11.Connection, stream: trio.SocketStream, event: h11.Event) -> None:
    data = connection.send(event)
    if data:
        await stream.send_all(data)


@asynccontextmanager
async def proxy_of(plane: ControlPlane) -> AsyncGenerator[Proxy]:
    """Start a proxy in front of an API server."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = Proxy(plane, listeners[0].socket.getsockname()[1])
    async with proxy.upstream, trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, proxy.serve, listeners)
        yield proxy
        nursery.cancel_scope.cancel()
