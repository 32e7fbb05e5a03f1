"""HTTP over a bare socket: what a client library hides can be done, such as leaving in the middle."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from random import Random
from types import TracebackType
from typing import Any, Final, Self, final

import attrs
import h11
import trio

PATIENCE_S: Final = 180.0
"""How long an answer may take, in seconds; it is never reached by a server that works."""

PART_BYTES: Final = 65_536


class CutError(Exception):
    """The connection has ended before all of the answer was there."""


class StuckError(Exception):
    """There was no answer in time."""


@final
@attrs.frozen
class Request:
    """A request.

    Attributes:
        method: Its method.
        target: Its path and query.
        headers: Its headers, but for those about its length.
        body: Its body.
        chunked: Whether the body goes in chunks.
    """

    method: str
    target: str
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    body: bytes = b""
    chunked: bool = False


@final
@attrs.frozen
class Answer:
    """An answer.

    Attributes:
        status: Its status.
        headers: Its headers, with names in lower case.
        body: Its body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - what a server says can be anything
        """Return the body as JSON."""
        return json.loads(self.body)

    def number(self, header: str) -> int | None:
        """Return a header that is a number, or None without it."""
        found = self.headers.get(header)
        return None if found is None else int(found)


@final
class Wire:
    """A connection with the server, as an asynchronous context manager.

    Args:
        port: The port of the server on this machine.
        receive_bytes: The size of the buffer for what comes, or None for the usual one.
        part_bytes: How much is taken at once of what has come.
    """

    def __init__(
        self, port: int, receive_bytes: int | None = None, part_bytes: int = PART_BYTES
    ) -> None:
        self._port = port
        self._receive_bytes = receive_bytes
        self._part_bytes = part_bytes
        self._stream: trio.SocketStream
        self._http = h11.Connection(h11.CLIENT)

    async def __aenter__(self) -> Self:
        made = trio.socket.socket()
        if self._receive_bytes is not None:
            made.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, self._receive_bytes)
        try:
            with trio.fail_after(PATIENCE_S):
                await made.connect(("127.0.0.1", self._port))
        except OSError as error:
            made.close()
            raise CutError(str(error)) from None
        except BaseException:
            made.close()
            raise
        self._stream = trio.SocketStream(made)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.socket.close()

    def written(self, request: Request) -> bytes:
        """Return a request as it goes over the wire; after that, its answer can be read."""
        headers = [("Host", "localhost"), *request.headers.items()]
        if request.chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        elif request.body or request.method != "GET":
            headers.append(("Content-Length", str(len(request.body))))
        http = self._http
        parts = [
            http.send(h11.Request(method=request.method, target=request.target, headers=headers))
        ]
        step = max(1, len(request.body) // 3) if request.chunked else max(1, len(request.body))
        parts += [
            http.send(h11.Data(data=request.body[at : at + step]))
            for at in range(0, len(request.body), step)
        ]
        parts.append(http.send(h11.EndOfMessage()))
        return b"".join(part or b"" for part in parts)

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            CutError: If the server has ended the connection.
            StuckError: If it does not take them.
        """
        try:
            with trio.fail_after(PATIENCE_S):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            raise StuckError("the server does not read what is sent") from None
        except trio.BrokenResourceError as error:
            raise CutError(str(error)) from None

    async def ask(self, request: Request, slowly: Random | None = None) -> Answer:
        """Send a request, and return its answer.

        Args:
            request: The request.
            slowly: If given, the answer is read in small parts with pauses.

        Raises:
            CutError: If the connection ends before.
            StuckError: If there is no answer in time.
        """
        await self.send(self.written(request))
        return await self.answer(slowly)

    async def answer(self, slowly: Random | None = None) -> Answer:
        """Return the answer; see :meth:`ask`."""
        head: Mapping[str, str] = {}
        status, body = 0, bytearray()
        async for event in self.events(slowly):
            match event:
                case h11.Response():
                    status = event.status_code
                    head = {name.decode(): value.decode() for name, value in event.headers}
                case h11.Data():
                    body += event.data
                case _:
                    pass
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Answer(status, head, bytes(body))

    async def events(self, slowly: Random | None = None) -> AsyncIterator[h11.Event]:
        """Yield what comes, until the answer is complete.

        Raises:
            CutError: If the connection ends before.
            StuckError: If nothing comes for too long.
        """
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise CutError(str(error)) from None
            if event is h11.NEED_DATA:
                if slowly is not None:
                    await trio.sleep(slowly.random() * 0.02)
                self._http.receive_data(
                    await self._received(self._part_bytes if slowly is None else 4096)
                )
                continue
            if isinstance(event, h11.ConnectionClosed):
                raise CutError("the connection was closed")
            assert not isinstance(event, type), "h11 wants nothing else"
            yield event
            if isinstance(event, h11.EndOfMessage):
                return

    async def _received(self, most: int) -> bytes:
        try:
            with trio.fail_after(PATIENCE_S):
                return bytes(await self._stream.receive_some(most))
        except trio.TooSlowError:
            raise StuckError(f"nothing came for {PATIENCE_S:g} s") from None
        except trio.BrokenResourceError as error:
            raise CutError(str(error)) from None
