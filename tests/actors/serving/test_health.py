"""Whether the service works, and that it says so at once whatever it does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import httpx
import pytest
import trio
import trio.testing

from muster.service.health import ALIVE_S, Health
from tests.actors.serving.served import CONFIG, Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("health")) as one:
        yield one


# ACCESS-17: it is alive if the scheduler answers its heartbeat


def test_it_is_alive(served: Served) -> None:
    response = served.client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {
        "alive": True,
        "ready": True,
        "ending": False,
        "batch": response.json()["batch"],
        "problems": {},
        "run": "none",
    }
    assert served.client.head("/healthz").status_code == 200


def test_it_is_ready(served: Served) -> None:
    response = served.client.get("/readyz")
    assert (response.status_code, response.json()["ready"]) == (200, True)


def test_it_answers_while_much_is_decided(served: Served) -> None:
    """The answer comes from what is known, and never waits for the scheduler."""
    nodes = [{"op": "add_node", "node": f"n{n}", "capacity": {"vcore": 8}} for n in range(500)]
    app = {"op": "add_app", "app": "many", "queue": "root.prod"}
    asks = [
        {"op": "add_ask", "app": "many", "ask": f"k{n}-", "resources": {"vcore": 1}, "count": 1000}
        for n in range(20)
    ]
    answers: list[httpx.Response] = []

    def submit() -> None:
        with Served.client_of(served.urls[0]) as client:
            answers.append(client.post("/api/v1/events", json=[*nodes, app, *asks]))

    slowest_s = 0.0
    count = 0
    thread = Thread(target=submit)
    first = time.monotonic()
    thread.start()
    while thread.is_alive() or not count:
        began = time.monotonic()
        assert served.client.get("/healthz").status_code == 200
        slowest_s = max(slowest_s, time.monotonic() - began)
        count += 1
    thread.join()
    took_s = time.monotonic() - first

    assert all(result["ok"] for result in answers[0].json())
    assert count > 10
    # 0.1 s on a quiet machine; on a slow one the whole takes as much longer.
    assert slowest_s < max(1.0, took_s / 3)


async def test_a_scheduler_that_does_not_answer(autojump_clock: trio.testing.MockClock) -> None:
    health = Health("none")
    health.is_ready = True
    health.answered(7)
    health.asked()
    await trio.sleep(ALIVE_S)
    assert health.life()[0] == health.readiness()[0] == 200
    await trio.sleep(0.5)
    status, answer = health.life()
    assert status == 503
    assert answer["alive"] is False
    assert answer["detail"] == "the scheduler was asked 5.5 s ago, and has run no batch since"
    assert health.readiness()[0] == 503
    health.answered(8)
    assert health.life() == (
        200,
        {"alive": True, "ready": True, "ending": False, "batch": 8, "problems": {}, "run": "none"},
    )


def test_problems_of_files_make_it_no_less_alive() -> None:
    health = Health("none")
    health.note_problems("configuration", ["line 3: wrong"])
    assert health.life()[0] == 200
    assert health.life()[1]["problems"] == {"configuration": ["line 3: wrong"]}
    health.note_problems("configuration", ())
    assert health.life()[1]["problems"] == {}


# ACCESS-18: until what is kept was loaded, only health is answered


def test_while_the_state_is_loaded(tmp_path: Path) -> None:
    state = f"--state={tmp_path / 'state'}"
    with Served(tmp_path, state, "--checkpoint-every=1000000") as served:
        app = {"op": "add_app", "app": "a", "queue": "root.prod"}
        assert served.client.post("/api/v1/events", json=[app]).status_code == 200
        ask = {"op": "add_ask", "app": "a", "resources": {"vcore": 1}, "count": 500}
        for n in range(40):
            answer = served.client.post("/api/v1/events", json=[{**ask, "ask": f"k{n}-"}])
            assert answer.status_code == 200
        served.kill()

    with Served(tmp_path, state, until_ready=False) as served:
        early = [served.client.get(path) for path in ("/healthz", "/readyz", "/api/v1/decisions")]
        served.line(r"\bready\b")
        late = [served.client.get(path) for path in ("/healthz", "/readyz", "/api/v1/decisions")]

        served.kill()
    with Served(tmp_path, state, until_ready=False) as served:
        assert served.stop() == 0  # also before it is ready

    assert [one.status_code for one in early] == [200, 503, 503]
    assert early[0].json()["ready"] is False
    assert early[1].json()["detail"] == "the state is being loaded"
    assert early[2].headers["retry-after"] == "1"
    assert early[2].headers["content-type"] == "application/problem+json"
    assert [one.status_code for one in late] == [200, 200, 200]


# ACCESS-20: the log has one line for each request, and nothing that is secret


def lines_of(served: Served, *paths: str) -> list[str]:
    for path in paths:
        served.client.get(path, headers={"Authorization": "Bearer very-secret"})
    return [served.line(path.partition("?")[0].replace("\\", "\\\\")) for path in paths]


def test_lines_for_people(served: Served) -> None:
    (line,) = lines_of(served, "/nowhere/at%0Aall?token=x")
    words = line.split()
    assert words[1:5] == ["info", "GET", "/nowhere/at%0Aall", "404"]
    assert words[5].endswith("ms")
    assert words[6].endswith("B")
    assert words[7] == "-"
    assert words[8].startswith("127.0.0.1:")
    assert "secret" not in line
    assert "token" not in line


def test_lines_for_programs(tmp_path: Path) -> None:
    with Served(tmp_path, "--log=json", config=CONFIG) as served:
        (line,) = lines_of(served, "/nowhere")
    record = json.loads(line)
    assert set(record) == {
        *("at", "level", "what", "method", "path", "status"),
        *("ms", "bytes", "who", "address"),
    }
    assert (record["what"], record["status"]) == ("request", 404)
    assert json.loads(served.lines[0])["level"] == "warning"
    told = [json.loads(one).get("message", "") for one in served.lines]
    assert any(one.startswith("listening on http://") for one in told)
    assert told[-1] == "the service has ended"
    assert "secret" not in "".join(served.lines)
