"""Requests and answers are the same bytes for h11, which knows the rules of HTTP/1.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import h11
import pytest
from hypothesis import example, given, strategies as st

from muster.service.server.messages import (
    Answer,
    Headers,
    IncomingRequest,
    head_of,
    plain_request,
    unusual_request,
)

HOST: Final = b"Host: localhost\r\n"

# ACCESS-12: what is no request is refused, however its head is read


def rest_of(request: IncomingRequest, buffer: bytearray) -> tuple[bytes, bytes] | None:
    """Return the body and the bytes behind it; None if it is not whole."""
    body = b""
    while not request.is_whole:
        piece = request.take()
        if piece is None:
            return None
        body += piece
    return body, bytes(buffer)


def read_by_h11(data: bytes) -> tuple[IncomingRequest, bytearray] | None:
    """Return the request as h11 reads it; None if it is no request, or not complete."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(data)
    try:
        event = reader.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.Request):
        return None
    buffer = bytearray()
    try:
        return unusual_request(event, reader, buffer), buffer
    except h11.RemoteProtocolError:
        return None


def check_request(data: bytes) -> bool:
    """Check that a request is read as h11 reads it, if its head is plain; return whether it is."""
    buffer = bytearray(data)
    found = plain_request(buffer)
    if found is None:
        assert bytes(buffer) == data
        return False
    expected = read_by_h11(data)
    assert expected is not None, data
    other, others = expected
    for name in ("method", "target", "version", "headers", "goes_on"):
        assert getattr(found, name) == getattr(other, name), data
    assert rest_of(found, buffer) == rest_of(other, others), data
    return True


METHODS: Final = (b"GET", b"POST", b"HEAD", b"BREW", b"get", b"G T", b"PRI", b"CONNECT", b"")
TARGETS: Final = (b"/", b"/a%20b?c=d", b"*", b"http://a/b", b"/\xff", b"/ a", b"/\t", b"")
VERSIONS: Final = (b" HTTP/1.1", b" HTTP/1.0", b" HTTP/2.0", b" http/1.1", b"  HTTP/1.1", b"")
FIELDS: Final = (
    b"Host: localhost",
    b"host:b",
    b"Content-Length: 5",
    b"content-length: 05",
    b"Content-Length: 5, 5",
    b"Content-Length: -5",
    b"Content-Length:",
    b"Content-Length: 99999999999999999999",
    b"Transfer-Encoding: chunked",
    b"Connection: close",
    b"Connection: Keep-Alive",
    b"Connection: close, x",
    b"Connection: upgrade",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
    b"X-A: \xe9 b\t c \t",
    b"X-B:",
    b"X-C : d",
    b"X-D: \x00",
    b"X-E: \x01",
    b"X-F: a\rb",
    b"X-G: a\x0bb",
    b"X-H: a\nb",
    b" folded",
    b": nameless",
    b"no colon",
    b"X-A: twice",
    b"",
)
ENDS: Final = (b"\r\n", b"\n", b"\r")


def mostly_first(parts: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Draw the first part, or any."""
    return st.just(parts[0]) | st.sampled_from(parts)


@given(
    mostly_first(METHODS),
    mostly_first(TARGETS),
    mostly_first(VERSIONS),
    st.lists(st.tuples(st.sampled_from(FIELDS), mostly_first(ENDS)), max_size=3),
    st.sampled_from(
        (b"", b"12345", b"123", b"5\r\n12345\r\n0\r\n\r\n", b"12345GET / HTTP/1.1\r\n")
    ),
)
def test_a_request_of_odd_parts(
    method: bytes,
    target: bytes,
    version: bytes,
    fields: Sequence[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    lines = b"".join(field + end for field, end in fields)
    check_request(method + b" " + target + version + b"\r\n" + lines + b"\r\n" + body)
    check_request(method + b" " + target + version + b"\r\n" + HOST + lines + b"\r\n" + body)


@given(st.binary(max_size=3), st.integers(0, 200), st.integers(0, 3))
@example(b"\r\n\r\n", 0, 0)
def test_a_request_with_odd_bytes(odd: bytes, at: int, cut: int) -> None:
    usual = b"POST /a HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nX-Y: z\r\n\r\n[]GET "
    check_request(usual[:at] + odd + usual[at + cut :])


@pytest.mark.parametrize(
    "data",
    [
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /a?b=c HTTP/1.1\r\n" + HOST + b"Accept: */*\r\nConnection: keep-alive\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
        b"POST /e HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n[]GET / HTTP/1.1\r\n",
        b"POST /e HTTP/1.1\r\n" + HOST + b"Authorization: Bearer x\r\nContent-Length: 9\r\n\r\n[",
    ],
)
def test_a_usual_request_is_plain(data: bytes) -> None:
    assert check_request(data)


# What is sent


@given(
    st.sampled_from((b"GET", b"HEAD", b"POST")),
    st.sampled_from((b"1.1", b"1.0")),
    st.sampled_from((b"", b"Connection: close\r\n", b"Connection: keep-alive\r\n")),
    st.sampled_from((200, 204, 304, 404)),
    st.booleans(),
    st.lists(st.binary(min_size=1, max_size=20), max_size=3),
)
def test_an_answer(
    method: bytes, version: bytes, connection: bytes, status: int, knows: bool, parts: list[bytes]
) -> None:
    data = method + b" / HTTP/" + version + b"\r\n" + HOST + connection + b"\r\n"
    read = plain_request(bytearray(data)) or read_by_h11(data)
    assert read is not None
    request = read[0] if isinstance(read, tuple) else read
    has_body = status not in {204, 304}
    headers: Headers = [(b"content-type", b"text/plain")]
    if knows and has_body:
        headers.append((b"content-length", b"%d" % sum(map(len, parts))))
    answer = Answer(request)
    sent = answer.begin(status, headers, ends=False)
    for part in parts if has_body else []:
        sent += answer.piece(part, is_last=False)
    sent += answer.piece(b"", is_last=True)

    date = sent.partition(b"date: ")[2].partition(b"\r\n")[0]
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    while server.their_state not in {h11.DONE, h11.MUST_CLOSE}:
        server.next_event()
    events: list[h11.Event] = [
        h11.Response(status_code=status, headers=[*headers, (b"date", date)]),
        *(h11.Data(data=part) for part in parts if has_body and method != b"HEAD"),
        h11.EndOfMessage(),
    ]
    assert sent == b"".join([server.send(event) or b"" for event in events])
    assert answer.goes_on == (server.our_state is h11.DONE)


def test_an_answer_that_is_shorter_than_it_said() -> None:
    """Its client waits for the rest, so nothing may follow."""
    request = plain_request(bytearray(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"))
    assert request is not None
    answer = Answer(request)
    answer.begin(200, [(b"content-length", b"3")], ends=False)
    answer.piece(b"ab", is_last=True)
    assert not answer.goes_on


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\nb", b"a\rb", b"\0"])
def test_a_header_that_would_be_several(value: bytes) -> None:
    with pytest.raises(ValueError, match="no fields of a head"):
        head_of(200, [(b"a", value)])
