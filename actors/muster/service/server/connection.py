"""A connection: HTTP/1.1, with limits on the time of everything.

Only HTTP/1.1 is spoken, also over TLS, so that every limit holds for every request: no upgrade to
HTTP/2 or to a web socket leads around them. One task reads a request, answers it, and reads the
next one; the handler asks for the body when it wants it.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final
from urllib.parse import unquote

import h11
import trio

from muster.service.limits import too_long, too_much
from muster.service.payloads import PROBLEM_JSON, Problem, as_json
from muster.service.server.messages import (
    Answer,
    IncomingRequest,
    asks_for_web_socket,
    date,
    head_of,
    plain_request,
    unusual_request,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

    from muster.service.limits import Usage


_LOG: Final = logging.getLogger("muster.service")

CUT: Final = "muster.cut"
"""Where the scope of a request has what ends its answer at once."""

_MAX_READ_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 64 * 1024

_LINGER_S: Final = 1.0
"""How long a client may go on to send after its answer, so that it can read the answer."""

_REST_S: Final = 2.0
"""How long the rest of a body is thrown away, so that its sender reads the answer."""

_SPARE_HEAD_S: Final = 2.0
"""How long a connection beyond the limit has for its request."""

Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]

_REFUSALS: Final = {
    400: "the request is no HTTP/1.1",
    403: "there are no web sockets here",
    408: "the head of the request did not arrive in time",
    431: "the head of the request is too long",
}

_ASGI: Final = {"version": "3.0", "spec_version": "2.1"}
_GONE: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.BusyResourceError,
)

_AT_ONCE: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00"
"""For SO_LINGER: on, and for 0 seconds."""


@final
class Connection:
    """A connection with a client.

    Args:
        stream: The stream.
        app: Answers requests.
        usage: The limits.
        is_ending: Returns whether the service ends.
        spare: Whether it is one beyond the limit, on which only health is answered.
    """

    def __init__(
        self,
        stream: Stream,
        app: ASGIApp,
        usage: Usage,
        is_ending: Callable[[], bool],
        *,
        spare: bool,
    ) -> None:
        self._stream = stream
        self._tls = stream if isinstance(stream, trio.SSLStream) else None
        self._socket = (stream if self._tls is None else self._tls.transport_stream).socket
        self._app = app
        self._usage = usage
        self._limits = usage.limits
        self._is_ending = is_ending
        self._spare = spare
        #: What has come, and was not taken.
        self._buffer = bytearray()
        #: Ends the wait for a request in time, and an answer when it is cut off.
        self._waiting = trio.CancelScope()
        self._request: IncomingRequest
        self._answer: Answer
        #: Until when the body of the request has to come, how much of it came, and whether all.
        self._due = 0.0
        self._body_bytes = 0
        self._has_body = False
        #: Whether no request is being answered.
        self._is_idle = True
        #: Whether the first byte of a head has come, and the head is not complete.
        self._head_began = False
        #: Whether nothing more is sent.
        self._is_silent = False
        self._is_cut = trio.Event()

    async def run(self) -> None:
        """Answer the requests of the client, until one of the two ends the connection."""
        try:
            if self._tls is not None:
                with trio.fail_after(self._limits.head_s):
                    await self._tls.do_handshake()
            await self._talk()
        except trio.TooSlowError:
            self._usage.refusals.count("head_s")
        except _GONE:
            pass  # The client has gone, or speaks no TLS.
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _talk(self) -> None:
        places = [_place(self._socket.getpeername()), _place(self._socket.getsockname())]
        with self._waiting:
            while (request := await self._next_request()) is not None:
                await self._app(self._begin(request, *places), self._receive_body, self._send)
                if not self._can_go_on():
                    break
        if not self._is_idle:
            await self._discard_rest()
            await self._finish()
        elif self._waiting.cancel_called:
            await self._end_for_lateness()
            await self._end_sending()
        else:
            await self._finish()

    def end_if_idle(self) -> None:
        """End the connection, unless a request is under way; then it ends after the answer."""
        if self._is_idle:
            self._waiting.cancel()

    # Requests

    # ACCESS-12
    async def _next_request(self) -> IncomingRequest | None:
        """Wait for a request, but not for ever; return None if there is none."""
        self._is_idle = True
        if self._is_ending():
            return None
        if self._buffer:
            await trio.lowlevel.checkpoint()  # Others have their turn between two requests.
        else:
            idle_s = self._limits.idle_s
            self._waiting.deadline = trio.current_time() + self._patience_s(idle_s)
            self._buffer += await self._receive()
            if not self._buffer:
                return None
        request = plain_request(self._buffer) or await self._unusual_request()
        if self._waiting.cancel_called:
            return None  # It came too late.
        if request is not None:
            self._is_idle = False
            self._waiting.deadline = math.inf
        return request

    async def _unusual_request(self) -> IncomingRequest | None:
        """Return a request that is not plain, or not complete yet; None if it is refused."""
        self._head_began = True
        self._waiting.deadline = trio.current_time() + self._patience_s(self._limits.head_s)
        reader = h11.Connection(h11.SERVER, self._limits.head_bytes)
        reader.receive_data(bytes(self._buffer))
        self._buffer.clear()
        try:
            while (event := reader.next_event()) is h11.NEED_DATA:
                reader.receive_data(await self._receive())
            self._head_began = False
            assert isinstance(event, h11.Request), f"{event!r} is no head"
            request = unusual_request(event, reader, self._buffer)
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint)
            return None
        if asks_for_web_socket(request):
            await self._refuse(403)
            return None
        if request.wants_to_go_on():
            await self._write(head_of(100, [(b"date", date())]))
        return request

    def _patience_s(self, limit_s: float) -> float:
        return min(limit_s, _SPARE_HEAD_S) if self._spare else limit_s

    def _begin(
        self,
        request: IncomingRequest,
        client: tuple[str, int] | None,
        server: tuple[str, int] | None,
    ) -> Scope:
        """Begin to answer a request; return how ASGI has it."""
        self._request, self._answer = request, Answer(request)
        self._due = trio.current_time() + self._limits.body_s
        self._body_bytes, self._has_body = 0, False
        path, _, query = request.target.partition(b"?")
        return {
            "type": "http",
            "http_version": request.version,
            "asgi": _ASGI,
            "method": request.method,
            "scheme": "http" if self._tls is None else "https",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": request.headers,
            "client": client,
            "server": server,
            "state": {"spare": self._spare},
            "extensions": {},
            CUT: self._waiting.cancel,
        }

    def _can_go_on(self) -> bool:
        """Return whether a further request may come after this answer."""
        return self._answer.goes_on and self._request.is_whole and not self._is_silent

    # ACCESS-11
    async def _receive_body(self) -> Message:
        """Return a piece of the body; when it is whole, wait until the client leaves.

        Raises:
            Problem: 413 if the body is too long, 408 if it takes too long.
        """
        if self._has_body:
            with suppress(*_GONE):
                await self._until_left()
            return _DISCONNECT
        try:
            piece = self._request.take() or await self._next_piece()
        except h11.RemoteProtocolError as error:
            self._has_body = True
            if not self._answer.has_begun:
                await self._refuse(error.error_status_hint)
            return _DISCONNECT
        except _GONE:
            return _DISCONNECT
        self._body_bytes += len(piece)
        if self._body_bytes > self._limits.body_bytes:
            raise too_long(self._limits)
        self._has_body = self._request.is_whole
        return {"type": "http.request", "body": piece, "more_body": not self._has_body}

    async def _next_piece(self) -> bytes:
        request = self._request
        with trio.move_on_at(self._due):
            while not request.is_whole:
                request.feed(await self._receive())
                piece = request.take()
                if piece is not None:
                    return piece
            return b""
        most_s = self._limits.body_s
        raise too_much("body_s", most_s, 408, f"the body did not arrive within {most_s:g} s")

    async def _until_left(self) -> None:
        """Return when the client has left; a further request waits for its turn."""
        while not self._buffer:
            data = await self._receive()
            if not data:
                return
            self._buffer += data
        await self._is_cut.wait()

    async def _receive(self) -> bytes:
        """Return what comes; nothing if nothing more comes."""
        if self._is_cut.is_set():
            return b""
        if self._tls is not None:
            return bytes(await self._tls.receive_some(_MAX_READ_BYTES))
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            with suppress(BlockingIOError):
                return os.read(self._socket.fileno(), _MAX_READ_BYTES)

    # Answers

    async def _send(self, message: Message) -> None:
        """Send a part of an answer."""
        if message["type"] == "http.response.start":
            ends = self._spare or self._is_ending() or not self._request.is_whole
            await self._write(self._answer.begin(message["status"], message["headers"], ends=ends))
        else:
            is_last = not message.get("more_body", False)
            data = self._answer.piece(message.get("body", b""), is_last=is_last)
            await self._write(data, at_once=is_last)

    async def _refuse(self, status: int) -> None:
        """Refuse data that is no request; nothing follows."""
        if status == 431:
            self._usage.refusals.count("head_bytes")
        elif status == 408:
            self._usage.refusals.count("head_s")
        words = _REFUSALS.get(status, "refused")
        fields = {"what": "request", "status": status, "address": self.address}
        _LOG.info("- - %d %s %s", status, words, self.address, extra={"fields": fields})
        problem = Problem(status, _REFUSALS.get(status, "the request is refused"))
        body = as_json(problem.as_map())
        head = [
            (b"content-type", PROBLEM_JSON.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            (b"date", date()),
        ]
        await self._write(head_of(status, head) + body)
        self._is_silent = True

    async def _end_for_lateness(self) -> None:
        """End with a client that has sent no whole request in time."""
        if self._is_ending():
            return
        if self._head_began:
            await self._refuse(408)
        else:
            self._usage.refusals.count("idle_s")

    @property
    def address(self) -> str:
        """Return the address of the client, for the log."""
        with suppress(OSError):
            return address_of(_place(self._socket.getpeername()))
        return address_of(None)

    # ACCESS-13
    async def _write(self, data: bytes, *, at_once: bool = False) -> None:
        """Send something; a client that reads nothing for too long is cut off.

        Args:
            data: What is sent.
            at_once: Whether it needs no turn of trio if there is room for all of it.
        """
        if self._is_silent or not data:
            return
        try:
            sent = self._write_now(data) if at_once else 0
            for at in range(sent, len(data), _PIECE_BYTES):
                with trio.fail_after(self._limits.write_s):
                    await self._stream.send_all(data[at : at + _PIECE_BYTES])
            return
        except trio.TooSlowError:
            self._usage.refusals.count("write_s")
            _LOG.warning("%s reads nothing of its answer, and is cut off", self.address)
        except _GONE:
            pass
        except trio.Cancelled:
            self._is_silent = True  # Something may be sent in part, so nothing can follow.
            raise
        await self._cut()

    def _write_now(self, data: bytes) -> int:
        """Send as much as finds room; return how much it was."""
        if self._tls is None:
            with suppress(BlockingIOError):
                return os.write(self._socket.fileno(), data)
        return 0

    async def _cut(self) -> None:
        """End the connection at once, with what was not sent."""
        self._is_silent = True
        self._is_cut.set()
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        await trio.aclose_forcefully(self._stream)

    # The end

    async def _discard_rest(self) -> None:
        """Throw away what still comes of a body for a while, so that its sender reads the answer."""
        request, thrown = self._request, 0
        with trio.move_on_after(_REST_S), suppress(h11.RemoteProtocolError, *_GONE):
            while not request.is_whole and thrown <= self._limits.body_bytes:
                piece = request.take()
                if piece is None:
                    request.feed(await self._receive())
                else:
                    thrown += len(piece)

    async def _finish(self) -> None:
        """Send nothing more; what still comes is read for a moment, and thrown away.

        A socket that is closed with something unread in it takes back what the client has not
        read yet.
        """
        await self._end_sending()
        with trio.move_on_after(_LINGER_S), suppress(*_GONE):
            while await self._receive():
                pass

    async def _end_sending(self) -> None:
        """Say that nothing more comes."""
        with trio.move_on_after(_LINGER_S), suppress(*_GONE):
            if self._tls is not None:
                await self._tls.aclose()
            else:
                await self._stream.send_eof()


_DISCONNECT: Final[Message] = {"type": "http.disconnect"}


def _place(name: object) -> tuple[str, int] | None:
    """Return the IP address and the port of a socket; None for a Unix socket."""
    if isinstance(name, tuple):
        host, port = cast("tuple[str, int]", name)[:2]
        return host, port
    return None


def address_of(client: tuple[str, int] | None) -> str:
    """Return the address of a client as the log has it; `-` for a Unix socket."""
    if client is None:
        return "-"
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
