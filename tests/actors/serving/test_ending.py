"""How the service ends: what is under way is answered, and nothing that was answered is lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Final

import httpx
import pytest

from tests.actors.serving.raw import Raw
from tests.actors.serving.served import PATIENCE_S, Served, until

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
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert told.returncode == 0, told.stderr
    events = [json.loads(line) for line in told.stdout.splitlines()]
    return {event["app"] for event in events if event["op"] == "add_app"}


# ACCESS-15: the end in order


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered(tmp_path: Path, number: int) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served:
        body = json.dumps(app("late")).encode()
        with Raw(served.urls[0]) as busy, Raw(served.urls[0]) as idle, Raw(served.urls[0]) as new:
            idle.send("HEAD /healthz HTTP/1.1", "Host: localhost", "")
            assert idle.socket.recv(10_000).startswith(b"HTTP/1.1 200")
            busy.send(*POST, f"Content-Length: {len(body)}", "", body=body[:5])
            new.send("GET /healthz HTTP/1.1")
            served.client.get("/healthz")
            served.process.send_signal(number)
            served.line("the service ends")
            assert idle.rest() == b""
            assert new.rest() == b""
            with pytest.raises(ConnectionError), Raw(served.urls[0]) as late:
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
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    found = json.loads(told.stdout)
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
    with Served(tmp_path) as served, Raw(served.urls[0]) as raw:
        raw.send(*POST, "Content-Length: 100", "", body=b"[")
        served.client.get("/healthz")
        began = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - began < 30  # The body would be waited for otherwise.
        assert raw.rest() == b""
    assert any("are cut off" in line for line in served.lines)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with Served(tmp_path, "--state", str(state)) as served, Raw(served.urls[0]) as raw:
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
    (told,) = [line for line in served.lines if " error " in line]
    assert str(state) in told
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
    """The service goes on when whoever read its log has gone."""
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
