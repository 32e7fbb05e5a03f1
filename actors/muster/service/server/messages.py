"""Messages of HTTP/1.1: requests as they come, and the bytes of their answers.

Nearly every request has a plain head, which regular expressions read here. Any other one is left
to h11, which knows all rules: chunked bodies, upgrades, older versions, and all that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache
from time import time
from typing import Final, TypeAlias, final

import h11

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Names in lower case, and values."""

_HEAD_END: Final = b"\r\n\r\n"
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PLAIN_HEAD: Final = re.compile(
    rb"([A-Z]+) ([\x21-\x7e]+) HTTP/1\.1((?:\r\n" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*)+)"
)
_FIELD: Final = re.compile(rb"\r\n([^:]+):[\t ]*([^\r]*)")
_NOT_PLAIN: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})
_MAX_DIGITS: Final = 18


@final
class IncomingRequest:
    """A request whose head has come.

    Args:
        method: The method.
        target: What it is for.
        version: The version of HTTP that the client speaks.
        headers: The headers.
        buffer: What has come on the connection and was not taken.
        body_bytes: How long the body is; of no account with a reader.
        reader: Reads the body, if the head is not plain.

    Attributes:
        method: The method.
        target: What it is for.
        version: The version of HTTP that the client speaks.
        headers: The headers.
        is_whole: Whether the whole body was taken.
        goes_on: Whether the client leaves the connection open for further requests.
    """

    def __init__(
        self,
        method: str,
        target: bytes,
        version: str,
        headers: Headers,
        buffer: bytearray,
        *,
        body_bytes: int = 0,
        reader: h11.Connection | None = None,
    ) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self._buffer = buffer
        self._left = body_bytes
        self._reader = reader
        #: What h11 has read of the body, and was not taken; whether it has read all of it.
        self._ready = bytearray()
        self._is_read = False
        self.is_whole = not body_bytes and reader is None
        self.goes_on = True

    def take(self) -> bytes | None:
        """Return a piece of the body, the last one if it is whole now; None if none has come."""
        if self._reader is not None:
            piece = bytes(self._ready)
            self._ready.clear()
            self.is_whole = self._is_read
        else:
            piece = bytes(self._buffer[: self._left])
            del self._buffer[: self._left]
            self._left -= len(piece)
            self.is_whole = not self._left
        return piece if piece or self.is_whole else None

    def feed(self, data: bytes) -> None:
        """Take what has come; empty data is the end of what the client sends.

        Raises:
            h11.RemoteProtocolError: If it is no body, or ends before its end.
        """
        if self._reader is not None:
            self._reader.receive_data(data)
            self.read_ahead(self._reader)
        elif data:
            self._buffer += data
        else:
            msg = "the body is cut short"
            raise h11.RemoteProtocolError(msg)

    def read_ahead(self, reader: h11.Connection) -> None:
        """Let h11 read what has come of the body.

        Raises:
            h11.RemoteProtocolError: If it is no body, or something follows the last request.
        """
        while isinstance(event := reader.next_event(), h11.Data):
            self._ready += event.data
        if isinstance(event, h11.EndOfMessage):
            self._buffer += reader.trailing_data[0]
            self._is_read = True
            reader.next_event()

    def wants_to_go_on(self) -> bool:
        """Return whether the client waits for a word before it sends the body."""
        return self._reader is not None and self._reader.they_are_waiting_for_100_continue


def plain_request(buffer: bytearray) -> IncomingRequest | None:
    """Take a request with a plain head from what has come; None if it has not, or is not plain."""
    end = buffer.find(_HEAD_END)
    found = _PLAIN_HEAD.fullmatch(buffer, 0, end) if end > 0 else None
    if found is None:
        return None
    method, target, fields = found.groups()
    headers = [(name.lower(), value.rstrip(b" \t")) for name, value in _FIELD.findall(fields)]
    known = dict(headers)
    length = known.get(b"content-length", b"0")
    connection = known.get(b"connection", b"keep-alive").lower()
    if (
        b"host" not in known
        or len(known) != len(headers)
        or not _NOT_PLAIN.isdisjoint(known)
        or not (length.isdigit() and len(length) <= _MAX_DIGITS)
        or connection not in {b"keep-alive", b"close"}
        or (connection == b"close" and len(buffer) > end + len(_HEAD_END) + int(length))
    ):
        return None
    del buffer[: end + len(_HEAD_END)]
    request = IncomingRequest(
        method.decode(), bytes(target), "1.1", headers, buffer, body_bytes=int(length)
    )
    request.goes_on = connection != b"close"
    return request


def unusual_request(
    event: h11.Request, reader: h11.Connection, buffer: bytearray
) -> IncomingRequest:
    """Return a request whose head h11 has read.

    Args:
        event: The head.
        reader: What has read it, and reads the body.
        buffer: Takes what follows the request.

    Raises:
        h11.RemoteProtocolError: If what follows the head is no body.
    """
    headers = list(event.headers)
    version = event.http_version.decode()
    method = event.method.decode().upper()
    request = IncomingRequest(method, event.target, version, headers, buffer, reader=reader)
    request.goes_on = version >= "1.1" and b"close" not in _tokens(headers, b"connection")
    request.read_ahead(reader)
    if not any(name in _OF_BODIES and value.strip(b"0 ") for name, value in headers):
        request.take()
    return request


_OF_BODIES: Final = frozenset({b"content-length", b"transfer-encoding"})


def asks_for_web_socket(request: IncomingRequest) -> bool:
    """Return whether a request asks to change to a web socket."""
    return (
        b"upgrade" in _tokens(request.headers, b"connection")
        and dict(request.headers).get(b"upgrade", b"").lower() == b"websocket"
    )


def _tokens(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> set[bytes]:
    values = b",".join(value for name, value in headers if name == wanted)
    return {token.strip() for token in values.lower().split(b",")}


_WITHOUT_BODY: Final = frozenset({204, 304})


@final
class Answer:
    """The bytes of an answer.

    Args:
        request: What is answered.

    Attributes:
        has_begun: Whether it has begun.
        goes_on: Whether it has ended, and another one may follow.
    """

    def __init__(self, request: IncomingRequest) -> None:
        self._request = request
        #: The head, until it goes out with what follows.
        self._head = b""
        self._has_body = True
        self._is_chunked = False
        self._left: int | None = None
        self.has_begun = False
        self.goes_on = False
        self._ends = True

    def begin(self, status: int, headers: Headers, *, ends: bool) -> bytes:
        """Begin; return what is to be sent at once.

        The head of an answer of a known length waits, and goes out with the body.

        Args:
            status: The status.
            headers: The headers.
            ends: Whether the server ends the connection after it.
        """
        self.has_begun = True
        request = self._request
        self._ends = ends or not request.goes_on
        self._has_body = request.method != "HEAD" and status not in _WITHOUT_BODY
        length = dict(headers).get(b"content-length")
        close = [(b"connection", b"close")] if ends and request.goes_on else []
        fields = [*headers, *close, (b"date", date())]
        if length is None and status not in _WITHOUT_BODY and request.version >= "1.1":
            self._is_chunked = self._has_body
            fields.append((b"Transfer-Encoding", b"chunked"))
        if not request.goes_on:
            fields.append((b"Connection", b"close"))
        self._left = None if length is None or not self._has_body else int(length)
        self._head = head_of(status, fields)
        return b"" if length is not None else self._taken_head()

    def piece(self, body: bytes, *, is_last: bool) -> bytes:
        """Return what is to be sent for a piece of the body."""
        sent = self._taken_head()
        if self._has_body and body:
            sent += b"%x\r\n%b\r\n" % (len(body), body) if self._is_chunked else body
            if self._left is not None:
                self._left -= len(body)
        if is_last:
            self.goes_on = not self._left and not self._ends
            sent += b"0\r\n\r\n" if self._is_chunked else b""
        return sent

    def _taken_head(self) -> bytes:
        head, self._head = self._head, b""
        return head


def head_of(status: int, fields: Headers) -> bytes:
    """Return the head of an answer.

    Raises:
        ValueError: If a field would be several, or is none.
    """
    lines = [b"%b: %b\r\n" % field for field in fields]
    head = b"HTTP/1.1 %d \r\n%b\r\n" % (status, b"".join(lines))
    ends = len(lines) + 2
    if head.count(b"\n") != ends or head.count(b"\r") != ends or b"\0" in head:
        msg = f"these are no fields of a head: {fields!r}"
        raise ValueError(msg)
    return head


def date() -> bytes:
    """Return the present instant as a header has it."""
    return _date_of(int(time()))


@lru_cache(maxsize=1)
def _date_of(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
