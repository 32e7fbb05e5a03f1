"""``muster serve`` starts, says when it is ready, and ends at a signal.

Nothing that was answered is lost.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Final

import httpx
import pytest
import trio
import trio.testing
import yaml

from muster.service.health import ALIVE_S, Health
from muster.service.replication.followers import Followers
from muster.service.replication.leadership import Leadership
from tests.actors.serving.served import (
    CONFIG,
    PATIENCE_S,
    RawConnection,
    Served,
    decisions,
    decisions_until,
    until,
)


def test_it_answers(tmp_path: Path) -> None:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        assert served.client.get("/readyz").json() == {"ready": True, "batch": 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_a_signal(tmp_path: Path, number: int) -> None:
    with Served(tmp_path) as served:
        assert served.stop(number) == 0


# ACCESS-22: who does not serve needs none of its packages

WITHOUT = """
import sys
for name in ("starlette", "h11", "httpx", "orjson", "prometheus_client"):
    sys.modules[name] = None
from muster.cli._main import main
main(sys.argv[1:])
"""


def without(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the packages of the service are missing."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_package_is_missing() -> None:
    result = without("serve")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        'Error: muster serve needs the extra "serve", since httpx is missing: '
        "pip install 'muster-scheduler[serve]'\n"
    )


@pytest.mark.parametrize(
    "arguments", [["--help"], ["serve", "--help"], ["token", "new", "ci", "--role", "reader"]]
)
def test_others_do_not_need_it(arguments: list[str]) -> None:
    result = without(*arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout


PROJECT = Path(__file__).parents[3]


def test_the_example(tmp_path: Path) -> None:
    jobs = yaml.safe_load((PROJECT / "examples" / "serve" / "jobs.yaml").read_text("utf-8"))
    state = tmp_path / "build" / "serve"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    command = [sys.executable, "examples/serve/serve.py", "--state", str(state)]
    with subprocess.Popen(
        [*command, "--listen", listen],
        cwd=PROJECT,
        env={**os.environ, "STEP": "0.02"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("Muster runs at"))
            assert line.startswith(f"Muster runs at http://{listen}, ")
            url = f"http://{listen}"
            kept = state.with_name("serve.token")
            token = kept.read_text().strip()
            assert {kept.stat().st_mode & 0o777, state.stat().st_mode & 0o777} == {0o600, 0o700}
            assert httpx.get(f"{url}/api/v1/asks", trust_env=False).status_code == 401
            with httpx.Client(
                base_url=url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=PATIENCE_S,
                trust_env=False,
            ) as client:
                decisions_until(client, 11, kind="released", reason="completed")
                found = decisions(client)
                log = client.get("/api/v1/asks/flaky/download/logs?attempt=1").text
                gangs = [one for one in jobs if one["op"] == "apply"]
                again = client.post("/api/v1/events", json=gangs).json()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            status = process.wait(PATIENCE_S)
        finally:
            process.kill()

    assert [one["error"] for one in again] == [None]
    ends = Counter((one["app"], one["reason"]) for one in found if one["kind"] == "released")
    assert ends == {
        ("array", "completed"): 7,
        ("flaky", "completed"): 2,
        ("flaky", "failed"): 1,
        ("together", "completed"): 2,
    }
    assert log == "attempt 1 of a download from mirror-2\nconnection reset\n"
    assert f"    export MUSTER_TOKEN={token}\n" in rest
    assert (status, rest.splitlines()[-1]) == (0, "The service has ended. Jobs that ran go on.")
    shown = re.findall(r"^ +\S*muster (\w+)", rest, re.MULTILINE)
    assert {"get", "why", "logs", "decisions"} == set(shown)


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
    health = Health("none", Leadership(Followers(None, 5.0), None))
    health.is_ready = True
    health.note_answer(7)
    health.note_probe()
    await trio.sleep(ALIVE_S)
    assert health.life()[0] == health.readiness()[0] == 200
    await trio.sleep(0.5)
    status, answer = health.life()
    assert status == 503
    assert answer["alive"] is False
    assert answer["detail"] == "the scheduler was asked 5.5 s ago, and has run no batch since"
    assert health.readiness()[0] == 503
    health.note_answer(8)
    assert health.life() == (
        200,
        {"alive": True, "ready": True, "ending": False, "batch": 8, "problems": {}, "run": "none"},
    )


def test_problems_of_files_make_it_no_less_alive() -> None:
    health = Health("none", Leadership(Followers(None, 5.0), None))
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
    messages = [json.loads(one).get("message", "") for one in served.lines]
    assert any(one.startswith("listening on http://") for one in messages)
    assert messages[-1] == "the service has ended"
    assert "secret" not in "".join(served.lines)


POST: Final = ("POST /api/v1/events HTTP/1.1", "Host: localhost", "Content-Type: application/json")

#: Ignores Ctrl-C and the end of the terminal, as in a background job below nohup.
IGNORING: Final = """\
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def app(name: str) -> list[dict[str, str]]:
    return [{"op": "add_app", "app": name, "queue": "root.prod"}]


def apps(state: Path) -> set[str]:
    """Return the applications that a state directory holds."""
    command = [sys.executable, "-m", "muster", "convert", str(state), "-"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    return {event["app"] for event in events if event["op"] == "add_app"}


# ACCESS-15: the end in order


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered(tmp_path: Path, number: int) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served:
        body = json.dumps(app("late")).encode()
        with (
            RawConnection(served.urls[0]) as busy,
            RawConnection(served.urls[0]) as idle,
            RawConnection(served.urls[0]) as new,
        ):
            idle.send("HEAD /healthz HTTP/1.1", "Host: localhost", "")
            assert idle.socket.recv(10_000).startswith(b"HTTP/1.1 200")
            busy.send(*POST, f"Content-Length: {len(body)}", "", body=body[:5])
            new.send("GET /healthz HTTP/1.1")
            served.client.get("/healthz")
            served.process.send_signal(number)
            served.line("the service ends")
            assert idle.rest() == b""
            assert new.rest() == b""
            with pytest.raises(ConnectionError), RawConnection(served.urls[0]) as late:
                late.get("/healthz")
            busy.socket.sendall(body[5:])
            status, answer = busy.answer()
        assert status == 200
        assert b"connection: close" in answer.lower()
        assert served.process.wait(PATIENCE_S) == 0
    assert apps(state) == {"late"}


def test_a_checkpoint_is_taken(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served:
        served.client.post("/api/v1/events", json=app("a"))
        assert served.stop() == 0
    command = [sys.executable, "-m", "muster", "store", str(state), "--format", "json"]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    found = json.loads(result.stdout)
    assert found["checkpoints"], found


def test_a_stream_ends(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        headers = {"Accept": "text/event-stream"}
        parts: list[bytes] = []

        def read() -> None:
            with (
                Served.client_of(served.urls[0]) as client,
                client.stream("GET", "/api/v1/decisions", headers=headers) as response,
            ):
                parts.extend(response.iter_raw())

        thread = Thread(target=read)
        thread.start()
        until(lambda: b"retry" in b"".join(parts))
        began = time.monotonic()
        assert served.stop() == 0
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert time.monotonic() - began < 30  # A stream would go on for ever otherwise.


def test_a_request_that_does_not_end_is_cut_off(tmp_path: Path) -> None:
    with Served(tmp_path) as served, RawConnection(served.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 100", "", body=b"[")
        served.client.get("/healthz")
        began = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - began < 30  # The body would be waited for otherwise.
        assert raw.rest() == b""
    assert any("are cut off" in line for line in served.lines)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served, RawConnection(served.urls[0]) as raw:
        assert served.client.post("/api/v1/events", json=app("a")).status_code == 200
        raw.send(*POST, "Content-Length: 100", "", body=b"[")
        served.client.get("/healthz")
        served.process.send_signal(signal.SIGTERM)
        served.line("the service ends")
        assert served.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    assert apps(state) == {"a"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_where_ctrl_c_is_ignored_at_the_start(tmp_path: Path, number: int) -> None:
    with Served(tmp_path, prefix=[sys.executable, "-c", IGNORING]) as served:
        served.process.send_signal(signal.SIGHUP)
        served.line("configuration: read again: nothing has changed")
        assert served.stop(number) == 0
    assert served.lines[-1].endswith("the service has ended")


# ACCESS-21: no room on the disk


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit, of Linux")
def test_no_room_on_the_disk(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served:
        assert served.client.post("/api/v1/events", json=app("a")).status_code == 200
        # As on a full disk, no file can grow.
        size = max(one.stat().st_size for one in state.iterdir())
        resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (size, size))
        statuses: list[int] = []
        for n in range(2000):
            try:
                response = served.client.post("/api/v1/events", json=app(f"b{n}"))
            except httpx.TransportError:
                break
            statuses.append(response.status_code)
            if response.status_code != 200:
                assert response.headers["content-type"] == "application/problem+json"
                break
        assert statuses[-1] == 503
        assert served.process.wait(PATIENCE_S) == 2
        served.kill()
    assert not any("Traceback" in line for line in served.lines)
    (message,) = [line for line in served.lines if " error " in line]
    assert str(state) in message
    # What was answered is there, and nothing else.
    kept = apps(state)
    assert kept == {"a", *(f"b{n}" for n in range(len(statuses) - 1))}
    with Served(tmp_path, "--state", str(state)) as served:
        assert served.client.get("/readyz").status_code == 200


def test_a_state_that_another_process_has(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with Served(tmp_path, "--state", state):
        command = [
            sys.executable,
            "-m",
            "muster",
            "serve",
            "--state",
            state,
            "--listen=127.0.0.1:0",
        ]
        other = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    assert other.returncode == 2
    assert "Traceback" not in other.stderr
    assert "listening" not in other.stderr
    assert state in other.stderr.splitlines()[-1]


def test_nobody_reads_its_log(tmp_path: Path) -> None:
    """The service goes on when the reader of its log has gone."""
    path = tmp_path / "socket"
    command = [sys.executable, "-m", "muster", "serve", f"--listen=unix:{path}"]
    read_end, write_end = os.pipe()
    process = subprocess.Popen(command, stderr=write_end)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as log:
        while "ready" not in (line := log.readline()):
            assert line
    with Served.client_of(f"unix:{path}") as client:
        for _ in range(3):
            assert client.get("/healthz").status_code == 200
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
