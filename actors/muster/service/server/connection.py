"""A connection: HTTP/1.1 by Hypercorn and h11, with limits on the time of everything.

Only HTTP/1.1 is spoken, also over TLS, so that every limit holds for every request: no upgrade to
HTTP/2 or to a web socket leads around them.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import h11
import trio
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.typing import (
    AppWrapper,
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    H11SendableEvent,
    Scope,
)
from typing_extensions import override

from muster.service.payloads import PROBLEM_JSON, Problem, as_json

if TYPE_CHECKING:
    from hypercorn.config import Config
    from hypercorn.trio.worker_context import WorkerContext

    from muster.service.limits import Usage


_LOG: Final = logging.getLogger("muster.service")


@final
class ConnectionTasks(TaskGroup):
    """The tasks of a connection.

    Pieces of a request go to their task without a turn of trio's scheduler, as long as none has
    to wait: a small request has two of them, and each would take a turn on both sides.
    """

    @override
    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the task of a request; return what takes the pieces of the request."""
        giving: trio.MemorySendChannel[ASGIReceiveEvent]
        taking: trio.MemoryReceiveChannel[ASGIReceiveEvent]
        giving, taking = trio.open_memory_channel(config.max_app_queue_size)

        async def give(event: ASGIReceiveEvent) -> None:
            try:
                giving.send_nowait(event)
            except trio.WouldBlock:
                await giving.send(event)

        async def take() -> ASGIReceiveEvent:
            try:
                return taking.receive_nowait()
            except trio.WouldBlock:
                return await taking.receive()

        async def answer() -> None:
            try:
                await app(scope, take, send, trio.to_thread.run_sync, trio.from_thread.run)
            except BaseExceptionGroup as group:
                if group.split(trio.Cancelled)[1] is None:
                    raise
                _LOG.exception("an answer has ended by a bug")
            except Exception:  # noqa: BLE001 - a bug in one answer must not end the others
                _LOG.exception("an answer has ended by a bug")
            finally:
                await send(None)

        untyped: Any = self  # Hypercorn says no type of `spawn`.
        untyped.spawn(answer)
        return give


_MAX_READ_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 64 * 1024

_LINGER_S: Final = 1.0
"""How long a client may go on to send after its answer, so that it can read the answer."""

_SPARE_HEAD_S: Final = 2.0
"""How long a connection beyond the limit has for its request."""

Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]

_TOLD: Final = {
    400: "the request is no HTTP/1.1",
    403: "there are no web sockets here",
    408: "the head of the request did not arrive in time",
    431: "the head of the request is too long",
}


@final
class _Protocol(H11Protocol):
    """HTTP/1.1, which stays HTTP/1.1.

    Args:
        refused: Called with the status when a request is refused before it is one.
    """

    refused: Callable[[int], None]
    #: The head of an answer that has a body of a known length: both go out together.
    _held: bytes = b""

    @override
    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        """Send a part of an answer; a head goes with the body that it announces, in one piece."""
        try:
            data = self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        data = self._held + (data or b"")
        self._held = b""
        if isinstance(event, h11.Response) and any(name == _LENGTH for name, _ in event.headers):
            self._held = data
        elif data:
            await self.send(RawData(data=data))

    @override
    async def _check_protocol(self, event: h11.Request) -> None:
        """Change to no other protocol; who asks for one is answered in this one."""

    @override
    async def _create_stream(self, request: h11.Request) -> None:
        """Begin to answer a request; one that asks for a web socket is refused."""
        if _asks_for_web_socket(request):
            await self._send_error_response(403)
            await self.send(Closed())
        else:
            await super()._create_stream(request)

    @override
    async def _send_error_response(self, status_code: int) -> None:
        self.refused(status_code)
        problem = Problem(status_code, _TOLD.get(status_code, "the request is refused"))
        body = as_json(problem.as_map())
        headers = [
            (b"content-type", PROBLEM_JSON.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        head = h11.Response(
            status_code=status_code,
            headers=list(chain(headers, self.config.response_headers("h11"))),
        )
        # At once: an answer that has begun meanwhile must not come between its head and its body.
        events = (head, h11.Data(data=body), h11.EndOfMessage())
        data = b"".join([self.connection.send(event) or b"" for event in events])
        await self.send(RawData(data))

    @property
    def is_answering(self) -> bool:
        """Return whether an answer has begun, and its task still sends it."""
        return self.stream is not None and self.connection.our_state is h11.SEND_BODY

    async def refuse(self, status: int) -> None:
        """Answer a request that has not arrived as a whole."""
        connection = self.connection
        if connection.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            await self._send_error_response(status)


def _asks_for_web_socket(request: h11.Request) -> bool:
    headers = dict(request.headers)
    tokens = headers.get(b"connection", b"").lower().split(b",")
    is_web_socket = headers.get(b"upgrade", b"").strip().lower() == b"websocket"
    return is_web_socket and b"upgrade" in map(bytes.strip, tokens)


_LENGTH: Final = b"content-length"


@final
class Connection:
    """A connection with a client.

    Args:
        stream: The stream.
        app: Answers requests.
        config: The settings of Hypercorn.
        context: What its connections share.
        usage: The limits.
        spare: Whether it is one beyond the limit, which only health is told.
    """

    def __init__(
        self,
        stream: Stream,
        app: AppWrapper,
        config: Config,
        context: WorkerContext,
        usage: Usage,
        *,
        spare: bool,
    ) -> None:
        self._stream = stream
        self._app = app
        self._config = config
        self._context = context
        self._usage = usage
        self._limits = usage.limits
        self._spare = spare
        self._writing = trio.Lock()
        self._reading = trio.CancelScope()
        self._protocol: _Protocol
        #: Whether no request is being read or answered.
        self._is_idle = True
        #: Whether the first byte of a head has come, and the head is not complete.
        self._head_began = False
        #: Whether the last answer was sent, and nothing that comes matters any more.
        self._is_finished = False
        self._is_cut = False
        #: Whether nothing that comes matters any more, though an answer is still being sent.
        self._is_deaf = False
        #: Whether the client was told that nothing more comes.
        self._is_silent = False

    async def run(self) -> None:
        """Answer the requests of the client, until one of the two ends the connection."""
        try:
            if isinstance(self._stream, trio.SSLStream):
                with trio.fail_after(self._limits.head_s):
                    await self._stream.do_handshake()
            await self._answer()
        except trio.TooSlowError:
            self._usage.refusals.count("head_s")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client has gone, or speaks no TLS.
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _answer(self) -> None:
        is_tls = isinstance(self._stream, trio.SSLStream)
        below = self._transport.socket
        client, server = _place(below.getpeername()), _place(below.getsockname())
        async with ConnectionTasks() as group:
            self._protocol = _Protocol(
                self._app,
                self._config,
                self._context,
                group,
                ConnectionState({"spare": self._spare}),
                is_tls,
                client,
                server,
                self._send,
            )
            self._protocol.refused = self._refused
            self._expect_head()
            with self._reading:
                await self._read()
            if self._reading.cancelled_caught and self._is_idle and not self._is_finished:
                await self._time_is_up()
                await self._close_politely()
            await self._protocol.handle(Closed())

    @property
    def _transport(self) -> trio.SocketStream:
        stream = self._stream
        return stream.transport_stream if isinstance(stream, trio.SSLStream) else stream

    # What comes

    async def _read(self) -> None:
        while True:
            try:
                data = bytes(await self._stream.receive_some(_MAX_READ_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if self._is_finished or self._is_deaf:
                if not data:
                    return
                continue  # The client still sends, and has its answer.
            if data and self._is_idle and not self._head_began:
                self._head_began = True
                self._reading.deadline = trio.current_time() + self._head_s
            await self._protocol.handle(RawData(data))
            if not data:
                return

    @property
    def _head_s(self) -> float:
        return min(self._limits.head_s, _SPARE_HEAD_S) if self._spare else self._limits.head_s

    def _expect_head(self) -> None:
        """Wait for a request, but not for ever."""
        self._is_idle, self._head_began = True, False
        idle_s = min(self._limits.idle_s, _SPARE_HEAD_S) if self._spare else self._limits.idle_s
        self._reading.deadline = trio.current_time() + idle_s

    async def _time_is_up(self) -> None:
        """Take leave of a client that has sent no whole request in time."""
        if self._context.terminated.is_set():
            return
        if self._head_began:
            await self._protocol.refuse(408)
        else:
            self._usage.refusals.count("idle_s")

    def _refused(self, status: int) -> None:
        if status == 431:
            self._usage.refusals.count("head_bytes")
        elif status == 408:
            self._usage.refusals.count("head_s")
        told = _TOLD.get(status, "refused")
        fields = {"what": "request", "status": status, "address": self.address}
        _LOG.info("- - %d %s %s", status, told, self.address, extra={"fields": fields})

    @property
    def address(self) -> str:
        """Return the address of the client, for the log."""
        return address_of(_place_of_peer(self._transport.socket))

    # What goes

    async def _send(self, event: Event) -> None:
        """Do what the protocol says."""
        match event:
            case RawData(data):
                await self._write(data)
            case Updated(idle=True):
                self._expect_head()
                if self._context.terminated.is_set():
                    self._reading.cancel()
            case Updated():
                self._is_idle = False
                self._reading.deadline = math.inf
            case Closed() if self._protocol.is_answering:
                # What comes is no HTTP any more, and an answer has begun: it is sent to its end.
                self._is_deaf = True
            case Closed():
                await self._finish()
            case _:
                pass

    # ACCESS-13
    async def _write(self, data: bytes) -> None:
        """Send something; a client that reads nothing for too long is cut off."""
        try:
            self._writing.acquire_nowait()  # `async with` would take a turn of the scheduler
        except trio.WouldBlock:
            await self._writing.acquire()
        try:
            await self._write_alone(data)
        finally:
            self._writing.release()

    async def _write_alone(self, data: bytes) -> None:
        if self._is_cut or self._is_silent:
            return
        try:
            for at in range(0, len(data), _PIECE_BYTES):
                with trio.fail_after(self._limits.write_s):
                    await self._stream.send_all(data[at : at + _PIECE_BYTES])
            return
        except trio.TooSlowError:
            self._usage.refusals.count("write_s")
            _LOG.warning("%s reads nothing of its answer, and is cut off", self.address)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except trio.Cancelled:
            # Something may be sent in part, so nothing can follow.
            self._is_cut = True
            self._reading.cancel()
            raise
        await self._cut()

    async def _cut(self) -> None:
        """End the connection at once, with what was not sent."""
        self._is_cut = True
        with suppress(OSError):
            self._transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        await trio.aclose_forcefully(self._stream)
        self._reading.cancel()

    async def _finish(self) -> None:
        """Send nothing more; what still comes is read for a moment, and thrown away.

        A socket that is closed with something unread in it takes back what the client has not
        read yet.
        """
        if self._is_finished or self._is_cut:
            return
        self._is_finished = True
        self._reading.deadline = trio.current_time() + _LINGER_S
        await self._close_politely()

    async def _close_politely(self) -> None:
        """Say that nothing more comes."""
        with trio.move_on_after(_LINGER_S), suppress(*_GONE):
            async with self._writing:
                self._is_silent = True
                if isinstance(self._stream, trio.SSLStream):
                    await self._stream.aclose()
                else:
                    await self._stream.send_eof()

    def end_if_idle(self) -> None:
        """End the connection, unless a request is under way; then it ends after the answer."""
        if self._is_idle:
            self._reading.cancel()


_GONE: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.BusyResourceError,
)

_AT_ONCE: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00"
"""For SO_LINGER: on, and for 0 seconds."""


def _place(name: object) -> tuple[str, int] | None:
    """Return the IP address and the port of a socket; None for a Unix socket."""
    if isinstance(name, tuple):
        host, port = cast("tuple[str, int]", name)[:2]
        return host, port
    return None


def _place_of_peer(below: trio.socket.SocketType) -> tuple[str, int] | None:
    with suppress(OSError):
        return _place(below.getpeername())
    return None


def address_of(client: tuple[str, int] | None) -> str:
    """Return the address of a client as the log has it; `-` for a Unix socket."""
    if client is None:
        return "-"
    host, port = client
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
