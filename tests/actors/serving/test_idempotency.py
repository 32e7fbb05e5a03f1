"""``Idempotency-Key``: a repeat of a request changes nothing, whatever happened in between."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import pytest
from httpx import Response

from muster._runtime.requests import RequestKey
from muster.service.input.submission import IdempotencyKeys
from muster.service.payloads import Problem
from muster.store import StateReader
from tests.actors.serving.served import PATIENCE_S, Served

PATH = "/api/v1/events"
_NUMBERS = count()


@pytest.fixture(scope="module", params=["with a store", "without"])
def served(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    state = ("--state", str(folder / "state")) if request.param == "with a store" else ()
    with Served(folder, *state) as running:
        yield running


def events(name: str) -> bytes:
    """Return events of which one is refused and one is invalid, and which succeed only once."""
    ask = {"op": "add_ask", "app": name, "ask": "a", "resources": {"vcore": 1}}
    new = {"op": "add_app", "app": name, "queue": "root.dev"}
    return json.dumps([new, {"op": "nonsense"}, ask, ask]).encode()


def post(served: Served, body: bytes, key: str, **headers: str) -> Response:
    return served.client.post(
        PATH,
        content=body,
        headers={"content-type": "application/json", "idempotency-key": key, **headers},
    )


def new_name() -> str:
    return f"app-{next(_NUMBERS)}"


def test_a_repeat_gets_the_same_answer_and_changes_nothing(served: Served) -> None:
    # INPUT-6
    name, key = new_name(), "the key"

    first, again = (post(served, events(name), key) for _ in range(2))

    assert [one["ok"] for one in first.json()] == [True, False, True, False]
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    for header in ("Muster-Batch", "Muster-First-Seq", "Muster-Last-Seq"):
        assert int(again.headers[header]) == int(first.headers[header])
    without = served.client.post(
        PATH, content=events(name), headers={"content-type": "application/json"}
    )
    assert [one["ok"] for one in without.json()] == [False] * 4


def test_another_content_with_the_same_key_is_refused(served: Served) -> None:
    # INPUT-7
    key = "another key"
    assert post(served, events(new_name()), key).status_code == 200

    answer = post(served, events(new_name()), key)

    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "Idempotency-Key: 'another key': it was used for a request with other content"
    )


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\tkey", "\xe9"])
def test_a_key_is_short_and_printable(served: Served, key: str) -> None:
    # INPUT-6
    answer = served.client.post(
        PATH,
        content=events(new_name()),
        headers=[
            (b"content-type", b"application/json"),
            (b"idempotency-key", key.encode("latin-1")),
        ],
    )

    assert answer.status_code == 400
    assert "must be 1 to 255 printable characters" in answer.json()["detail"]


def test_a_repeat_while_the_request_is_under_way_has_to_come_again() -> None:
    # INPUT-7
    repeats = IdempotencyKeys(None)
    request = RequestKey("ann", "k", b"digest")

    with repeats.under_way(request):
        with pytest.raises(Problem) as refused, repeats.under_way(request):
            pytest.fail("two of them are carried out at once")
        with repeats.under_way(attrs.evolve(request, user="bob")):
            pass
    assert refused.value.status == 409
    assert refused.value.headers == {"Retry-After": "1"}
    assert "send it again after a second" in refused.value.detail
    with repeats.under_way(request):
        pass


def test_a_key_survives_the_end_of_the_process(tmp_path: Path) -> None:
    # INPUT-6
    state, body = str(tmp_path / "state"), events("app")
    with Served(tmp_path, "--state", state) as served:
        first = post(served, body, "k")
        post(served, events("other"), "other")

    with Served(tmp_path, "--state", state) as served:
        again = post(served, body, "k")
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["Muster-Last-Seq"] == first.headers["Muster-Last-Seq"]
        assert again.json() == first.json()
        assert post(served, events("third"), "k").status_code == 422


def is_kept(state: Path, key: str) -> bool:
    with StateReader(state) as reader:
        return reader.request("", key) is not None


def send(served: Served, body: bytes, key: str) -> socket.socket:
    """Send a request, and do not wait for its answer."""
    to = urlsplit(served.urls[0])
    connection = socket.create_connection((to.hostname, to.port), timeout=PATIENCE_S)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {to.netloc}\r\nContent-Type: application/json\r\n"
        f"Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def test_killed_before_it_could_answer_it_never_does_it_twice(tmp_path: Path) -> None:
    # INPUT-6
    chance, state = random.Random(1), tmp_path / "state"
    waits = [None, *(chance.uniform(0, 0.02) for _ in range(4)), None]
    let_in = 0
    for number, wait_s in enumerate(waits):
        body, key = events(f"app-{number}"), f"key-{number}"
        served = Served(tmp_path, "--state", str(state))
        with send(served, body, key):
            until = time.monotonic() + (PATIENCE_S if wait_s is None else wait_s)
            # Either it is certain that it is on disk, or it may be anywhere.
            while time.monotonic() < until and not (wait_s is None and is_kept(state, key)):
                pass
            served.kill()
        was_kept = is_kept(state, key)
        assert was_kept or wait_s is not None

        with Served(tmp_path, "--state", str(state)) as again:
            answer = post(again, body, key)

        assert [one["ok"] for one in answer.json()] == [True, False, True, False]
        assert ("idempotency-replayed" in answer.headers) == was_kept
        let_in += 3
        with StateReader(state) as reader:
            # The first event is the configuration of the first start.
            assert reader.event_count(0) == 1 + let_in
