"""What is beyond a limit is refused, and holds nobody else up."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from muster.service.limits import NAMES, Slots, Usage
from muster.service.options import Limits
from muster.service.payloads import Problem
from tests.actors.serving.raw import Raw
from tests.actors.serving.served import PATIENCE_S, Served, until

SMALL = ("--max-body-bytes=20000", "--max-head-bytes=3000")
SHORT = ("--max-head-time=0.3s", "--max-body-time=0.6s", "--max-write-time=0.3s")

POST = ("POST /api/v1/events HTTP/1.1", "Host: localhost", "Content-Type: application/json")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Give a server that takes little, and has time."""
    with Served(tmp_path_factory.mktemp("small"), *SMALL) as served:
        yield served


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Give a server that does not wait for what comes piece by piece."""
    with Served(tmp_path_factory.mktemp("hasty"), *SHORT) as served:
        yield served


@pytest.fixture(scope="module")
def bored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Give a server that ends idle connections, after longer than a client sleeps."""
    with Served(tmp_path_factory.mktemp("bored"), "--max-idle-time=2s") as served:
        yield served


# ACCESS-11: a body has so many bytes, and not more, whether it says so or not


def test_a_body_that_says_it_is_too_long(small: Served) -> None:
    response = small.client.post("/api/v1/events", content=b"[" + b" " * 20_000)

    assert response.status_code == 413
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == "the body is longer than 20000 bytes"


def test_a_body_of_unknown_length_that_is_too_long(small: Served) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    assert small.client.post("/api/v1/events", content=parts()).status_code == 413


def test_a_body_that_is_just_right(small: Served) -> None:
    response = small.client.post("/api/v1/events", content=b"[" + b" " * 19_998 + b"]")

    assert response.status_code == 200


def test_a_body_that_nobody_wants_is_thrown_away(small: Served) -> None:
    """Its sender gets the answer, and its connection does not hang."""

    def parts() -> Iterator[bytes]:
        for _ in range(200):
            yield b" " * 1000

    assert small.client.post("/nowhere", content=parts()).status_code == 404
    assert small.client.post("/nowhere", content=b" " * 1_000_000).status_code == 413


def test_a_body_that_takes_too_long(hasty: Served) -> None:
    with Raw(hasty.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 10", "", body=b"[")
        status, answer = raw.answer()

    assert status == 408
    assert b"the body did not arrive within 0.6 s" in answer


def test_a_client_that_leaves_in_the_middle_of_a_body(small: Served) -> None:
    with Raw(small.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 10000", "", body=b"[")

    assert small.client.get("/healthz").status_code == 200


# ACCESS-12: the head of a request has so many bytes, and comes in time


def test_a_head_that_is_too_long(small: Served) -> None:
    response = small.client.get("/healthz", headers={"X-Long": "x" * 3000})

    assert response.status_code == 431
    assert response.headers["content-type"] == "application/problem+json"


def test_a_head_without_an_end(small: Served) -> None:
    with Raw(small.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "X-Long: " + "x" * 100_000)
        status, _ = raw.answer()

    assert status == 431


def test_a_head_that_takes_too_long(hasty: Served) -> None:
    with Raw(hasty.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost")
        status, answer = raw.answer()

    assert status == 408
    assert b"application/problem+json" in answer


def test_a_head_that_comes_byte_by_byte(hasty: Served) -> None:
    """Each byte comes soon after the one before, and the whole takes too long."""
    began = time.monotonic()
    found = b""
    with Raw(hasty.urls[0]) as raw:
        raw.socket.settimeout(0.05)
        raw.send("GET /healthz HTTP/1.1", "Host: localhost")
        while not found:
            assert time.monotonic() - began < PATIENCE_S, "nobody ended it"
            with suppress(TimeoutError):
                raw.socket.sendall(b"X")
                found = raw.socket.recv(65_536)

    assert found.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_says_nothing_is_closed(bored: Served) -> None:
    with Raw(bored.urls[0]) as raw:
        assert raw.rest() == b""


def test_a_connection_that_says_nothing_more_is_closed(bored: Served) -> None:
    with Raw(bored.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", "")
        assert raw.answer()[0] == 200


def test_what_is_no_http(small: Served) -> None:
    with Raw(small.urls[0]) as raw:
        raw.send("hello", "", "")
        status, answer = raw.answer()

    assert status == 400
    assert b"application/problem+json" in answer


def test_several_requests_at_once(small: Served) -> None:
    """They are answered one after the other."""
    request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with Raw(small.urls[0]) as raw:
        raw.socket.sendall(request * 3 + last)
        answer = raw.rest()

    assert answer.count(b"HTTP/1.1 200") == 4
    assert answer.count(b'"ready":true,"batch"') == 3


def test_a_client_that_sends_nothing_more_gets_its_answer(small: Served) -> None:
    with Raw(small.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", "")
        raw.socket.shutdown(1)
        assert raw.answer()[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        ("Connection: close, Upgrade", "Upgrade: something"),
    ],
)
def test_an_upgrade_is_not_taken(bored: Served, headers: tuple[str, ...]) -> None:
    with Raw(bored.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", *headers, "")
        status, answer = raw.answer()

    assert status == 200
    assert b"101" not in answer[:12]


def test_a_web_socket_is_refused(small: Served) -> None:
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    with Raw(small.urls[0]) as raw:
        status, _ = raw.get("/healthz", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key)
        assert status == 200
    with Raw(small.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", "Connection: Upgrade")
        raw.send("Upgrade: websocket", "Sec-WebSocket-Version: 13", key, "")
        assert raw.answer()[0] == 403


def test_the_beginning_of_http_2_is_refused(small: Served) -> None:
    with Raw(small.urls[0]) as raw:
        raw.send("PRI * HTTP/2.0", "", "SM", "")
        assert raw.answer()[0] in {400, 505}


# ACCESS-12: so many connections are open, and a few more that may ask for health


def test_connections_beyond_the_limit(tmp_path: Path) -> None:
    with Served(tmp_path, "--max-connections=3") as served, ExitStack() as stack:
        for _ in range(3):
            raw = stack.enter_context(Raw(served.urls[0]))
            raw.send("GET /healthz HTTP/1.1", "Host: localhost", "")
            assert raw.socket.recv(1000).startswith(b"HTTP/1.1 200")

        with Raw(served.urls[0]) as more:
            status, answer = more.get("/api/v1/decisions")
            assert status == 503
            assert b"retry-after: 1" in answer.lower()
            assert b"there are 3 connections already" in answer
        with Raw(served.urls[0]) as more:
            assert more.get("/healthz")[0] == 200
        with Raw(served.urls[0]) as more:
            assert more.get("/readyz")[0] == 200

        stack.close()
        # The server learns a moment later that they have gone.
        until(lambda: served.client.get("/api/v1/decisions").status_code == 200)


def test_many_connections_beyond_the_limit(tmp_path: Path) -> None:
    """Those beyond the spare ones are closed at once, and counted."""
    with Served(tmp_path, "--max-connections=1") as served, ExitStack() as stack:
        silent = [stack.enter_context(Raw(served.urls[0])) for _ in range(60)]
        for raw in silent[17:]:
            assert raw.rest()[:12] in {b"", b"HTTP/1.1 503"}
        stack.close()
        until(lambda: served.client.get("/api/v1/decisions").status_code == 200)


# ACCESS-13: a client that reads nothing is cut off


def test_a_client_that_does_not_read(hasty: Served) -> None:
    with Raw(hasty.urls[0], receive_bytes=4096) as raw:
        lines = [line for _ in range(2000) for line in ("GET /nowhere HTTP/1.1", "Host: a", "")]
        try:
            while True:
                raw.send(*lines)
        except (ConnectionResetError, BrokenPipeError):
            pass

    assert hasty.line("reads nothing of its answer, and is cut off")
    assert hasty.client.get("/healthz").status_code == 200


# ACCESS-10: every refusal is counted


def refused(served: Served) -> dict[str, float]:
    """Return what each limit has refused, as the metrics say it."""
    text = served.client.get("/metrics").text
    found = re.findall(r'^muster_refusals_total\{limit="(\w+)"\} (\S+)', text, re.MULTILINE)
    return {name: float(count) for name, count in found}


def test_refusals_are_in_the_metrics(small: Served, hasty: Served, bored: Served) -> None:
    servers = (small, hasty, bored)
    before = [refused(one) for one in servers]
    assert all(set(one) == set(NAMES) for one in before)
    small.client.post("/api/v1/events", content=b" " * 20_001)
    small.client.get("/healthz", headers={"X-Long": "x" * 3000})
    deep = b"[" * 70 + b"]" * 70
    small.client.post("/api/v1/events", content=deep)
    with Raw(bored.urls[0]) as silent, Raw(hasty.urls[0]) as slow:
        slow.send("GET /healthz HTTP/1.1")
        assert silent.rest() == b""
        assert slow.answer()[0] == 408
    grown = [
        {name for name in NAMES if now[name] > then[name]}
        for now, then in zip(map(refused, servers), before, strict=True)
    ]
    assert grown == [{"body_bytes", "head_bytes", "nesting"}, {"head_s"}, {"idle_s"}]


def test_slots() -> None:
    usage = Usage.of(Limits(streams=2))
    with usage.streams.taken(), usage.streams.taken():
        assert usage.streams.in_use == 2
        with pytest.raises(Problem) as refused:
            usage.streams.take()
    assert refused.value.status == 503
    assert refused.value.headers == {"Retry-After": "1"}
    assert refused.value.members == {"limit": "streams", "most": 2}
    assert usage.streams.in_use == 0
    usage.refusals.note(refused.value)
    usage.refusals.note(Problem(400, "this is no limit"))
    assert dict(usage.refusals.by_limit) == {**dict.fromkeys(NAMES, 0), "streams": 1}


def test_a_slot_is_given_back_after_an_error() -> None:
    slots = Slots("calls", 1)
    with pytest.raises(ZeroDivisionError), slots.taken():
        _ = 1 / slots.in_use - 1 / 0
    assert slots.in_use == 0
