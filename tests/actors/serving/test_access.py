"""Tokens, and limits: no request passes without a token where one is needed.

A request beyond a limit does not hold up other clients.
"""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from muster.service.access import (
    Principal,
    Role,
    TokensError,
    append,
    mint,
    parse_tokens,
    principal_of,
    read_tokens,
)
from muster.service.limits import Slots, Usage
from muster.service.options import NAMES, Limits
from muster.service.payloads import Problem
from tests.actors.serving.served import CONFIG, PATIENCE_S, RawConnection, Served, until

DIGEST: Final = "0" * 64

SECRETS: Final = {role: f"secret-of-{role.name.lower()}" for role in Role if role}


def line_of(role: Role, secret: str, name: str | None = None) -> str:
    user = "- -" if role is not Role.SUBMITTER else "sue dev,ops"
    digest = sha256(secret.encode()).hexdigest()
    return f"{name or role.name.lower()} {role.name.lower()} {user} {digest}"


TOKENS: Final = "\n".join(
    ["# who may do what", "", *(line_of(role, secret) for role, secret in SECRETS.items())]
)


# ACCESS-2: the file of tokens


def test_a_line_says_who_somebody_is() -> None:
    tokens = parse_tokens(["ci submitter sue dev,ops " + DIGEST, "a admin - - " + "1" * 64], "t")

    assert [one.who for one in tokens.tokens] == [
        Principal("ci", Role.SUBMITTER, "sue", ("dev", "ops")),
        Principal("a", Role.ADMIN),
    ]
    assert tokens.tokens[0].line() == "ci submitter sue dev,ops " + DIGEST
    assert tokens.tokens[1].line() == "a admin - - " + "1" * 64


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["ci reader - -"], "t:1: has 4 words: must be name role user groups sha256-of-token"),
        (["# x", "ci reder - - " + DIGEST], "t:2: role: 'reder': must be one of reader"),
        (["ci anyone - - " + DIGEST], "t:1: role: 'anyone': must be one of reader"),
        (["ci reader - - abc"], "t:1: sha256-of-token: must be 64 hexadecimal digits"),
        (["ci submitter - - " + DIGEST], "t:1: user: a submitter needs one"),
        (["ci reader - g " + DIGEST], "t:1: groups: there is no user who could be in them"),
        (["ci reader u a,,b " + DIGEST], "t:1: groups: 'a,,b': must be names"),
        (["n\x07 reader - - " + DIGEST], "t:1: name: 'n\\x07': must be 1 to 253 characters"),
        (
            ["a reader - - " + DIGEST, "a reader - - " + "1" * 64],
            "t:2: name: 'a' is in line 1 already",
        ),
        (
            ["a reader - - " + DIGEST, "b reader - - " + DIGEST],
            "t:2: sha256-of-token: this token is in line 1 already",
        ),
    ],
)
def test_a_wrong_line_is_named(lines: list[str], problem: str) -> None:
    with pytest.raises(TokensError, match=re.escape(problem)):
        parse_tokens(lines, "t")


def test_a_token_by_mistake_is_not_shown() -> None:
    with pytest.raises(TokensError) as raised:
        parse_tokens(["ci reader - - muster_secret"], "t")
    assert "muster_secret" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TokensError, match="missing: cannot be read: No such file"):
        read_tokens(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"# x\n\xff")
    with pytest.raises(TokensError, match="binary:2: is not UTF-8"):
        read_tokens(tmp_path / "binary")


# ACCESS-5: making tokens


def test_a_token_is_added_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# first", encoding="utf-8")
    path.chmod(0o644)
    secret, token = mint(principal_of("ci", "submitter", "sue", ("dev",)))
    append(path, token)

    assert path.read_text(encoding="utf-8") == f"# first\n{token.line()}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_tokens(path).holder(secret.encode()) == token.who
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]


def test_a_name_is_there_already(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    append(path, mint(Principal("ci", Role.READER))[1])
    before = path.read_bytes()
    with pytest.raises(TokensError, match="name: 'ci' is there already"):
        append(path, mint(Principal("ci", Role.READER))[1])
    assert path.read_bytes() == before


def test_many_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    with ThreadPoolExecutor(8) as pool:
        tokens = [mint(Principal(f"n{n}", Role.READER))[1] for n in range(40)]
        list(pool.map(append, [path] * 40, tokens))
    assert sorted(read_tokens(path).names()) == sorted(f"n{n}" for n in range(40))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "tokens")
    append(tmp_path / "link", mint(Principal("ci", Role.READER))[1])
    assert (tmp_path / "link").is_symlink()
    assert [*read_tokens(tmp_path / "tokens").names()] == ["ci"]


def new_token(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster", "token", "new", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_command_prints_a_token_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made = new_token(
        "ci", "--role", "submitter", "--user", "sue", "--groups", "a,b", "--tokens", str(path)
    )

    assert (made.returncode, made.stderr) == (0, "")
    assert read_tokens(path).holder(made.stdout.strip().encode()) == Principal(
        "ci", Role.SUBMITTER, "sue", ("a", "b")
    )
    assert made.stdout.strip() not in path.read_text(encoding="utf-8")


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    made = new_token("ci", "--role", "submitter")
    assert (made.returncode, made.stdout) == (2, "")
    assert "user: a submitter needs one" in made.stderr
    wrong = new_token("ci", "--role", "reader", "--tokens", str(tmp_path / "no" / "tokens"))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "cannot be written: No such file or directory" in wrong.stderr


def test_the_command_without_a_file_gives_the_line() -> None:
    made = new_token("ci", "--role", "reader")
    line = made.stderr.partition("tokens: ")[2]
    tokens = parse_tokens([line], "")
    assert tokens.holder(made.stdout.strip().encode()) == Principal("ci", Role.READER)


# ACCESS-3: requests with and without


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(TOKENS, encoding="utf-8")
    with Served(folder, "--tokens", str(folder / "tokens")) as served:
        yield served


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


PATH: Final = "/api/v1/decisions"


@pytest.mark.parametrize(
    "written",
    [
        "Bearer",
        "Bearer ",
        "Token secret-of-admin",
        "secret-of-admin",
        "Bearer secret-of-admin x",
        "Bearer secret-of-admin,secret-of-admin",
        'Bearer "secret-of-admin"',
        "Bearer secret-of-admi\u00f1",
        "Bearer secret-of-admin\x01",
        "Bearer  ",
        "Bearer SECRET-OF-ADMIN",
        "Basic c2VjcmV0LW9mLWFkbWluOg==",
    ],
)
def test_other_ways_to_send_it(guarded: Served, written: str) -> None:
    with RawConnection(guarded.urls[0]) as raw:
        status, answer = raw.get(PATH, f"Authorization: {written}")
    if status == 400:  # h11 takes no control characters
        assert "\x01" in written
        return
    assert status == 401
    assert b'error="invalid_token"' in answer


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_in_any_case(guarded: Served, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} secret-of-reader"}
    assert guarded.client.get(PATH, headers=headers).status_code == 200


def test_several_headers(guarded: Served) -> None:
    headers = [("Authorization", "Bearer secret-of-admin")] * 2
    response = guarded.client.get(PATH, headers=headers)
    assert response.status_code == 401
    assert response.json()["detail"] == "send one header Authorization, not several"


def test_no_token_is_no_wrong_token(guarded: Served) -> None:
    response = guarded.client.get(PATH)
    assert response.headers["www-authenticate"] == 'Bearer realm="muster"'


def test_a_path_that_there_is_not(guarded: Served) -> None:
    response = guarded.client.get("/nowhere")
    assert response.status_code == 404
    assert response.json()["detail"] == "there is nothing at '/nowhere'"
    assert response.headers["content-type"] == "application/problem+json"


def test_a_method_that_is_not_for_a_path(guarded: Served) -> None:
    response = guarded.client.request("PATCH", "/healthz")
    assert response.status_code == 405
    assert response.headers["content-type"] == "application/problem+json"
    assert "GET" in response.headers["allow"]


# ACCESS-1: without a file of tokens everybody may do everything


def test_nobody_needs_a_token_where_there_are_none(tmp_path: Path) -> None:
    with Served(tmp_path, config=CONFIG) as served:
        assert served.client.get(PATH).status_code == 200
        assert served.client.post("/api/v1/events", json=[]).status_code == 200


def test_a_wrong_file_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("nonsense", encoding="utf-8")
    command = [sys.executable, "-m", "muster", "serve", "--listen=127.0.0.1:0"]
    ended = subprocess.run(
        [*command, "--tokens", str(tmp_path / "tokens")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "tokens:1: has 1 words" in ended.stderr
    assert "Traceback" not in ended.stderr


SMALL = ("--max-body-bytes=20000", "--max-head-bytes=3000")
SHORT = ("--max-head-time=0.3s", "--max-body-time=0.6s", "--max-write-time=0.3s")

POST = ("POST /api/v1/events HTTP/1.1", "Host: localhost", "Content-Type: application/json")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a server with small limits and long timeouts."""
    with Served(tmp_path_factory.mktemp("small"), *SMALL) as served:
        yield served


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a server with short timeouts for requests in pieces."""
    with Served(tmp_path_factory.mktemp("hasty"), *SHORT) as served:
        yield served


@pytest.fixture(scope="module")
def bored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a server that ends idle connections, after longer than a client sleeps."""
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
    with RawConnection(hasty.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 10", "", body=b"[")
        status, answer = raw.answer()

    assert status == 408
    assert b"the body did not arrive within 0.6 s" in answer


def test_a_client_that_leaves_in_the_middle_of_a_body(small: Served) -> None:
    with RawConnection(small.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 10000", "", body=b"[")

    assert small.client.get("/healthz").status_code == 200


# ACCESS-12: the head of a request has so many bytes, and comes in time


def test_a_head_that_is_too_long(small: Served) -> None:
    response = small.client.get("/healthz", headers={"X-Long": "x" * 3000})

    assert response.status_code == 431
    assert response.headers["content-type"] == "application/problem+json"


def test_a_head_without_an_end(small: Served) -> None:
    with RawConnection(small.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "X-Long: " + "x" * 100_000)
        status, _ = raw.answer()

    assert status == 431


def test_a_head_that_takes_too_long(hasty: Served) -> None:
    with RawConnection(hasty.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost")
        status, answer = raw.answer()

    assert status == 408
    assert b"application/problem+json" in answer


def test_a_head_that_comes_byte_by_byte(hasty: Served) -> None:
    """Each byte comes soon after the one before, and the whole takes too long."""
    began = time.monotonic()
    found = b""
    with RawConnection(hasty.urls[0]) as raw:
        raw.socket.settimeout(0.05)
        raw.send("GET /healthz HTTP/1.1", "Host: localhost")
        while not found:
            assert time.monotonic() - began < PATIENCE_S, "nobody ended it"
            with suppress(TimeoutError):
                raw.socket.sendall(b"X")
                found = raw.socket.recv(65_536)

    assert found.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_says_nothing_is_closed(bored: Served) -> None:
    with RawConnection(bored.urls[0]) as raw:
        assert raw.rest() == b""


def test_a_connection_that_says_nothing_more_is_closed(bored: Served) -> None:
    with RawConnection(bored.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", "")
        assert raw.answer()[0] == 200


def test_what_is_no_http(small: Served) -> None:
    with RawConnection(small.urls[0]) as raw:
        raw.send("hello", "", "")
        status, answer = raw.answer()

    assert status == 400
    assert b"application/problem+json" in answer


def test_several_requests_at_once(small: Served) -> None:
    """They are answered one after the other."""
    request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with RawConnection(small.urls[0]) as raw:
        raw.socket.sendall(request * 3 + last)
        answer = raw.rest()

    assert answer.count(b"HTTP/1.1 200") == 4
    assert answer.count(b'"ready":true,"batch"') == 3


@pytest.mark.parametrize("step", [7, 61, 100_000])
def test_requests_of_all_kinds_on_one_connection(small: Served, step: int) -> None:
    """Each is answered, however it is cut into pieces, and the next one begins where it ends."""
    chunked = ("Transfer-Encoding: chunked", "", "1", "[", "1;x=y", "]", "0", "", "")
    lines = (
        *(*POST, *chunked[:-1]),
        *(*POST, "Content-Length: 3", "", "[ ]GET /readyz HTTP/1.1", "Host: localhost", ""),
        *(*POST, "Content-Length: 2, 2", "", "[]HEAD /healthz HTTP/1.1", "host:localhost", ""),
        *("GET /nowhere HTTP/1.1", "Host: localhost", "X-A: b", "X-A: c", ""),
        *(*POST, "Content-Length: 2", "Connection: close", "", "[]"),
    )
    data = "\r\n".join(lines).encode()
    with RawConnection(small.urls[0]) as raw:
        for at in range(0, len(data), step):
            raw.socket.sendall(data[at : at + step])
        answer = raw.rest()

    statuses = re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", answer)
    assert statuses == [b"200", b"200", b"200", b"200", b"200", b"404", b"200"]
    assert answer.lower().count(b"connection: close") == 1


def test_a_client_that_waits_for_a_word_before_its_body(small: Served) -> None:
    with RawConnection(small.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 2", "Expect: 100-continue", "Connection: close", "")
        assert raw.socket.recv(1000).startswith(b"HTTP/1.1 100 ")
        raw.socket.sendall(b"[]")
        assert raw.answer()[0] == 200


def test_a_body_that_is_cut_short(small: Served) -> None:
    for length in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        with RawConnection(small.urls[0]) as raw:
            raw.send(*POST, length, "", body=b"3\r\n")
            raw.socket.shutdown(1)
            status, answer = raw.answer()
        assert status == 400
        assert b"the request is no HTTP/1.1" in answer


def test_a_client_that_sends_nothing_more_gets_its_answer(small: Served) -> None:
    with RawConnection(small.urls[0]) as raw:
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
    with RawConnection(bored.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", *headers, "")
        status, answer = raw.answer()

    assert status == 200
    assert b"101" not in answer[:12]


def test_a_web_socket_is_refused(small: Served) -> None:
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    with RawConnection(small.urls[0]) as raw:
        status, _ = raw.get("/healthz", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key)
        assert status == 200
    with RawConnection(small.urls[0]) as raw:
        raw.send("GET /healthz HTTP/1.1", "Host: localhost", "Connection: Upgrade")
        raw.send("Upgrade: websocket", "Sec-WebSocket-Version: 13", key, "")
        assert raw.answer()[0] == 403


def test_the_beginning_of_http_2_is_refused(small: Served) -> None:
    with RawConnection(small.urls[0]) as raw:
        raw.send("PRI * HTTP/2.0", "", "SM", "")
        assert raw.answer()[0] in {400, 505}


# ACCESS-12: so many connections are open, and a few more that may ask for health


def test_connections_beyond_the_limit(tmp_path: Path) -> None:
    with Served(tmp_path, "--max-connections=3") as served, ExitStack() as stack:
        for _ in range(3):
            raw = stack.enter_context(RawConnection(served.urls[0]))
            raw.send("GET /healthz HTTP/1.1", "Host: localhost", "")
            assert raw.socket.recv(1000).startswith(b"HTTP/1.1 200")

        with RawConnection(served.urls[0]) as more:
            status, answer = more.get("/api/v1/decisions")
            assert status == 503
            assert b"retry-after: 1" in answer.lower()
            assert b"there are 3 connections already" in answer
        with RawConnection(served.urls[0]) as more:
            assert more.get("/healthz")[0] == 200
        with RawConnection(served.urls[0]) as more:
            assert more.get("/readyz")[0] == 200

        stack.close()
        # The server learns a moment later that they have gone.
        until(lambda: served.client.get("/api/v1/decisions").status_code == 200)


def test_many_connections_beyond_the_limit(tmp_path: Path) -> None:
    """Those beyond the spare ones are closed at once, and counted."""
    with Served(tmp_path, "--max-connections=1") as served, ExitStack() as stack:
        silent = [stack.enter_context(RawConnection(served.urls[0])) for _ in range(60)]
        for raw in silent[17:]:
            assert raw.rest()[:12] in {b"", b"HTTP/1.1 503"}
        stack.close()
        until(lambda: served.client.get("/api/v1/decisions").status_code == 200)


# ACCESS-13: a client that reads nothing is cut off


def test_a_client_that_does_not_read(hasty: Served) -> None:
    with RawConnection(hasty.urls[0], receive_bytes=4096) as raw:
        lines = [line for _ in range(2000) for line in ("GET /nowhere HTTP/1.1", "Host: a", "")]
        try:
            while True:
                raw.send(*lines)
        except (ConnectionResetError, BrokenPipeError):
            pass

    assert hasty.line("reads nothing of its answer, and is cut off")
    assert hasty.client.get("/healthz").status_code == 200
    assert hasty.line("GET /healthz")
    assert not hasty.lines_with("by a bug")


# ACCESS-10: every refusal is counted


def refusals(served: Served) -> dict[str, float]:
    """Return the refusals of each limit, from the metrics."""
    text = served.client.get("/metrics").text
    found = re.findall(r'^muster_refusals_total\{limit="(\w+)"\} (\S+)', text, re.MULTILINE)
    return {name: float(count) for name, count in found}


def test_refusals_are_in_the_metrics(small: Served, hasty: Served, bored: Served) -> None:
    servers = (small, hasty, bored)
    before = [refusals(one) for one in servers]
    assert all(set(one) == set(NAMES) for one in before)
    small.client.post("/api/v1/events", content=b" " * 20_001)
    small.client.get("/healthz", headers={"X-Long": "x" * 3000})
    deep = b"[" * 70 + b"]" * 70
    small.client.post("/api/v1/events", content=deep)
    with RawConnection(bored.urls[0]) as silent, RawConnection(hasty.urls[0]) as slow:
        slow.send("GET /healthz HTTP/1.1")
        assert silent.rest() == b""
        assert slow.answer()[0] == 408
    grown = [
        {name for name in NAMES if now[name] > then[name]}
        for now, then in zip(map(refusals, servers), before, strict=True)
    ]
    assert grown == [{"body_bytes", "head_bytes", "nesting"}, {"head_s"}, {"idle_s"}]


def test_slots() -> None:
    usage = Usage.of(Limits(streams=2))
    with usage.streams.taken(), usage.streams.taken():
        assert usage.streams.in_use == 2
        with pytest.raises(Problem) as raised:
            usage.streams.take()
    assert raised.value.status == 503
    assert raised.value.headers == {"Retry-After": "1"}
    assert raised.value.members == {"limit": "streams", "most": 2}
    assert usage.streams.in_use == 0
    usage.refusals.note(raised.value)
    usage.refusals.note(Problem(400, "this is no limit"))
    assert dict(usage.refusals.by_limit) == {**dict.fromkeys(NAMES, 0), "streams": 1}


def test_a_slot_is_given_back_after_an_error() -> None:
    slots = Slots("calls", 1)
    with pytest.raises(ZeroDivisionError), slots.taken():
        _ = 1 / slots.in_use - 1 / 0
    assert slots.in_use == 0
