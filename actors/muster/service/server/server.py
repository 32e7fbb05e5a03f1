"""The server: takes connections, within their limit and over TLS, until the service ends."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, final

import trio

from muster.service.limits import RETRY_AFTER_S, Usage
from muster.service.payloads import Problem
from muster.service.server.connection import Connection, Stream
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from muster.service.server.addresses import BoundSocket


_PROTOCOL: Final = "http/1.1"


@final
class CertificateError(MusterError):
    """A certificate or its key cannot be used."""


# ACCESS-14
@final
class Certificate:
    """The certificate that the service shows; it can be read again.

    Args:
        cert: The file of the certificate, with those between it and the root.
        key: The file of its key.

    Attributes:
        context: The context for connections.

    Raises:
        CertificateError: If the files cannot be used.
    """

    def __init__(self, cert: Path, key: Path) -> None:
        self.cert = cert
        self.key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        self.context.set_alpn_protocols([_PROTOCOL])
        self.read()

    def read(self) -> None:
        """Read the files; new connections get what is in them.

        Raises:
            CertificateError: If they cannot be used; then those before stay.
        """
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self.cert, self.key, _refuse_password
            )
            self.context.load_cert_chain(self.cert, self.key, _refuse_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            msg = f"TLS: {self.cert} with {self.key}: {error}"
            raise CertificateError(msg) from None


def _refuse_password() -> str:
    """Refuse a key with a password, which cannot be typed in."""
    msg = "the key has a password, and must have none"
    raise ValueError(msg)


_LOG: Final = logging.getLogger("muster.service")

_SPARE: Final = 16
"""How many connections beyond the limit may ask for health; others are closed at once."""


@final
class Server:
    """Takes connections and answers their requests.

    Args:
        usage: The limits.
    """

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._connections: set[Connection] = set()
        self._accepting = trio.CancelScope()
        self._everything = trio.CancelScope()
        self._spare = 0
        self._is_ending = False
        self._is_empty = trio.Event()

    async def run(
        self,
        fronts: Sequence[tuple[BoundSocket, ASGIApp]],
        tls: SSLContext | None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Take connections until :meth:`drain`.

        Args:
            fronts: The sockets, each with the application that answers there.
            tls: The certificate for TCP, or None.
            task_status: Started when connections are taken.
        """
        with self._everything:
            async with trio.open_nursery() as nursery:
                with self._accepting:
                    async with trio.open_nursery() as accepting:
                        for bound, app in fronts:
                            listener = _listener(bound, tls)
                            handle = partial(self._handle, app)
                            accepting.start_soon(
                                partial(
                                    trio.serve_listeners,
                                    handle,
                                    [listener],
                                    handler_nursery=nursery,
                                )
                            )
                        task_status.started()
                for bound, _ in fronts:
                    bound.close()
        self._is_empty.set()

    async def _handle(self, app: ASGIApp, stream: Stream) -> None:
        try:
            await self._serve(app, stream)
        except Exception:  # noqa: BLE001 - a bug in one connection must not end the others
            _LOG.exception("a connection has ended by a bug")

    # ACCESS-12
    async def _serve(self, app: ASGIApp, stream: Stream) -> None:
        slots = self._usage.connections
        try:
            slots.take()
        except Problem as problem:
            self._usage.refusals.note(problem)
            if self._spare < _SPARE:
                self._spare += 1
                try:
                    await self._talk(app, stream, spare=True)
                finally:
                    self._spare -= 1
                return
            await _turn_away(stream)
            return
        try:
            await self._talk(app, stream, spare=False)
        finally:
            slots.leave()

    async def _talk(self, app: ASGIApp, stream: Stream, *, spare: bool) -> None:
        connection = Connection(stream, app, self._usage, lambda: self._is_ending, spare=spare)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.remove(connection)

    # ACCESS-15
    async def drain(self, grace_s: float) -> bool:
        """Take no more connections and requests, and answer those under way.

        Args:
            grace_s: How long they may take, in seconds; then they are cut off.

        Returns:
            Whether all were answered.
        """
        self._is_ending = True
        self._accepting.cancel()
        for connection in [*self._connections]:
            connection.end_if_idle()
        with trio.move_on_after(grace_s):
            await self._is_empty.wait()
            return True
        self._everything.cancel()
        await self._is_empty.wait()
        return False


def _listener(
    bound: BoundSocket, tls: SSLContext | None
) -> trio.SocketListener | trio.SSLListener[trio.SocketStream]:
    bound.socket.setblocking(False)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(bound.socket))
    if tls is None or bound.address.path is not None:
        return listener
    return trio.SSLListener(listener, tls, https_compatible=True)


_TURNED_AWAY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Retry-After: %d\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % RETRY_AFTER_S
)


async def _turn_away(stream: Stream) -> None:
    """Close a connection that is too many; without TLS, with a word."""
    try:
        if isinstance(stream, trio.SocketStream):
            # The buffer of a new socket has room, so this does not wait for the client.
            with trio.move_on_after(0.1):
                await stream.send_all(_TURNED_AWAY)
    except (OSError, trio.BrokenResourceError):
        pass
    finally:
        await trio.aclose_forcefully(stream)
