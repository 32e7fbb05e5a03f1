"""Requests by bare sockets: half of a head, a slow body, a reader who does not read."""

from __future__ import annotations

import socket
import ssl
from types import TracebackType
from typing import Self, final
from urllib.parse import urlsplit

from tests.actors.serving.served import PATIENCE_S


@final
class Raw:
    """A bare connection with a server, as a context manager.

    Args:
        url: Where the server listens: ``http://…``, ``https://…`` or ``unix:…``.
        verify: The file of the certificate authority for TLS.
        receive_bytes: The size of the buffer for what comes, or None for the usual one.
    """

    def __init__(
        self, url: str, verify: str | None = None, receive_bytes: int | None = None
    ) -> None:
        if url.startswith("unix:"):
            made = socket.socket(socket.AF_UNIX)
            place: str | tuple[str | None, int | None] = url.removeprefix("unix:")
        else:
            parts = urlsplit(url)
            made = socket.socket(socket.AF_INET6 if "[" in url else socket.AF_INET)
            place = (parts.hostname, parts.port)
        made.settimeout(PATIENCE_S)
        if receive_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            made.connect(place)
        except OSError:
            made.close()
            raise
        if verify is not None:
            context = ssl.create_default_context(cafile=verify)
            made = context.wrap_socket(made, server_hostname=urlsplit(url).hostname)
        self.socket = made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *lines: str, body: bytes = b"") -> None:
        """Send the lines of a head, and what follows it."""
        self.socket.sendall("".join(f"{line}\r\n" for line in lines).encode("latin-1") + body)

    def get(self, path: str, *headers: str) -> tuple[int, bytes]:
        """Send a whole request; return the status and everything else of the answer."""
        self.send(f"GET {path} HTTP/1.1", "Host: localhost", *headers, "Connection: close", "")
        return self.answer()

    def answer(self) -> tuple[int, bytes]:
        """Return the status of an answer, and everything until the server ends the connection."""
        content = self.rest()
        assert content.startswith(b"HTTP/1.1 "), content[:200]
        return int(content[9:12]), content

    def rest(self) -> bytes:
        """Return everything until the server ends the connection, in one way or the other."""
        parts: list[bytes] = []
        try:
            while part := self.socket.recv(65_536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)
