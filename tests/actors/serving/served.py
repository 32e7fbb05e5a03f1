"""A real ``muster serve``, a service in a thread of this process, and clients for both."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, final
from urllib.parse import urlsplit

import attrs
import httpx
import pytest
import trio

from muster.service.options import BackendOptions, ServeOptions
from muster.service.serve import serve

PATIENCE_S: Final = 180.0
"""How long anything is waited for, in seconds; it is never reached on a machine that works."""

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: prod, resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}}
          - {name: dev}
"""


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < PATIENCE_S, "it has never come about"


@final
class Served:
    """A running ``muster serve``, as a context manager.

    Args:
        folder: Where the configuration is written, if ``config`` is a text.
        arguments: Further arguments of the command.
        config: The configuration, or None for none.
        listen: Where it listens; nothing to let it choose.
        environment: Further environment variables.
        verify: The file of the certificate authority for TLS, or None.
        prefix: A program with arguments that becomes the command.
        until_ready: Whether to wait until it answers requests.

    Attributes:
        urls: The addresses that it says it listens on.
        lines: The lines of its standard error, as far as :meth:`line` has read them.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        config: str | None = CONFIG,
        listen: Sequence[str] = ("127.0.0.1:0",),
        environment: Mapping[str, str] | None = None,
        verify: str | None = None,
        until_ready: bool = True,
        prefix: Sequence[str] = (),
    ) -> None:
        command = [
            *prefix,
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "muster",
            "serve",
            *arguments,
        ]
        for address in listen:
            command += ["--listen", address]
        if config is not None:
            path = folder / "queues.yaml"
            path.write_text(config, encoding="utf-8")
            command += ["--config", str(path)]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        self.lines: list[str] = []
        self._queue: Queue[str | None] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.urls: list[str] = []
        try:
            while len(self.urls) < max(len(listen), 1):
                line = self.line("listening on ")
                found = re.search(r'listening on ([^\s"]+)', line)
                assert found is not None, line
                self.urls.append(found[1])
            if until_ready:
                self.line(r"\bready\b")
        except BaseException:
            self.kill()
            raise
        self.client = self.client_of(self.urls[0], verify)

    @staticmethod
    def client_of(url: str, verify: str | None = None) -> httpx.Client:
        """Return a client for an address that it listens on."""
        context = True if verify is None else ssl.create_default_context(cafile=verify)
        uds = url.removeprefix("unix:") if url.startswith("unix:") else None
        return httpx.Client(
            base_url=url if uds is None else "http://localhost",
            transport=httpx.HTTPTransport(verify=context, uds=uds),
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self.process.poll() is None:
            assert self.stop() == 0, "\n".join(self.lines)
        else:
            self.kill()

    def line(self, pattern: str) -> str:
        """Return the next line of its standard error that a pattern is found in."""
        while True:
            try:
                line = self._queue.get(timeout=PATIENCE_S)
            except Empty:
                lines = "\n".join(self.lines)
                msg = f"no line like {pattern!r} in {PATIENCE_S} s:\n{lines}"
                raise AssertionError(msg) from None
            if line is None:
                lines = "\n".join(self.lines)
                msg = f"it ended before a line like {pattern!r}:\n{lines}"
                raise AssertionError(msg)
            self.lines.append(line)
            if re.search(pattern, line):
                return line

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; return its exit status."""
        self.process.send_signal(number)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._close()
        return status

    def lines_with(self, text: str) -> list[str]:
        """Return the lines of standard error with a text, as far as they were read."""
        return [line for line in self.lines if text in line]

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        client: httpx.Client | None = getattr(self, "client", None)
        if client is not None:
            client.close()
        self._reader.join(PATIENCE_S)
        while not self._queue.empty():
            line = self._queue.get()
            if line is not None:
                self.lines.append(line)
        assert self.process.stderr is not None
        self.process.stderr.close()


@final
class ServiceThread:
    """A service that runs in a thread of this process, as a context manager.

    Args:
        state: The state directory, or None to keep nothing.
        config: The file of the configuration, or None.
        backend: What runs commands, and how; None if nothing does.
    """

    def __init__(
        self,
        state: Path | None = None,
        config: Path | None = None,
        backend: BackendOptions | None = None,
    ) -> None:
        self._options = ServeOptions(
            config=config,
            state=state,
            listen=("127.0.0.1:0",),
            backend=backend,
        )
        self._started: queue.Queue[str | BaseException] = queue.Queue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._ends: trio.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.client: httpx.Client

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._started.put(error)

    async def _serve(self) -> None:
        self._token, self._ends = trio.lowlevel.current_trio_token(), trio.Event()
        await serve(self._options, ends=self._ends, listening=self._listening)

    def _listening(self, addresses: Sequence[str]) -> None:
        self._started.put(addresses[0])

    def __enter__(self) -> Self:
        self._thread.start()
        started = self._started.get(timeout=PATIENCE_S)
        if isinstance(started, BaseException):
            raise started
        self.client = httpx.Client(base_url=started, timeout=PATIENCE_S, trust_env=False)
        self._wait_until_ready()
        return self

    def _wait_until_ready(self) -> None:
        until = monotonic() + PATIENCE_S
        while self.client.get("/readyz").status_code != 200:
            assert monotonic() < until, "the state is not loaded"
            assert self._thread.is_alive(), "the service has ended"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        assert self._token is not None
        assert self._ends is not None
        self._token.run_sync_soon(self._ends.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        while error is None and not self._started.empty():
            left = self._started.get()
            if isinstance(left, BaseException):
                raise left

    def get(self, path: str, status: int = 200, /, **parameters: object) -> dict[str, Any]:
        """Return the answer to a request."""
        known = {name: f"{one}" for name, one in parameters.items() if one is not None}
        response = self.client.get(path, params=known)
        assert response.status_code == status, response.text
        found: dict[str, Any] = response.json()
        return found

    def all(self, path: str, limit: int = 1000, /, **parameters: object) -> list[dict[str, Any]]:
        """Return all items of a list, page by page."""
        found: list[dict[str, Any]] = []
        after: str | None = None
        while True:
            page = self.get(path, 200, limit=limit, after=after, **parameters)
            assert len(page["items"]) <= limit
            found += page["items"]
            after = page["next"]
            if after is None:
                return found
            assert len(page["items"]) == limit
            assert len(found) < 10_000_000

    def post(self, *events: dict[str, object]) -> list[dict[str, Any]]:
        """Send events, all of which are accepted; return the answers."""
        response = self.client.post("/api/v1/events", json=list(events))
        assert response.status_code == 200, response.text
        answers: list[dict[str, Any]] = response.json()
        assert all(one["ok"] for one in answers), answers
        return answers


@final
class RawConnection:
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
        """Send the lines of a head, and a body."""
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


QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues: [{name: jobs}]
"""

APP = {"op": "add_app", "app": "a", "queue": "root.jobs"}

Decision = dict[str, Any]


@cache
def as_user() -> tuple[str, ...]:
    """Return the program that runs a service without the rights of root; skip if there is none."""
    if os.geteuid() != 0:
        return ()
    prefix = (shutil.which("unshare") or "unshare", "--user")
    try:
        subprocess.run([*prefix, "true"], check=True, timeout=PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"root has no user namespace to leave its rights behind: {error}")
    return prefix


def running_commands(
    folder: Path,
    *arguments: str,
    config: str | None = QUEUES,
    environment: Mapping[str, str] | None = None,
    listen: Sequence[str] = ("127.0.0.1:0",),
    prefix: Sequence[str] = (),
) -> Served:
    """Start a service that runs commands as the user of the tests, without the rights of root."""
    return Served(
        folder,
        *("--run", "local", "--trust-local", *arguments),
        config=config,
        environment=environment,
        listen=listen,
        prefix=(*prefix, *as_user()),
    )


def node(vcores: int = 8, name: str = "here") -> dict[str, object]:
    return {"op": "add_node", "node": name, "capacity": {"vcore": vcores}}


def job(ask: str, command: object, **more: object) -> dict[str, object]:
    """Return the event of an ask of one core with a command."""
    return {
        "op": "add_ask",
        "app": "a",
        "ask": ask,
        "resources": {"vcore": 1},
        "command": command,
        **more,
    }


def submit(client: httpx.Client, *events: object) -> None:
    """Send events, none of which may be refused."""
    response = client.post("/api/v1/events", json=events)
    assert response.status_code == 200, response.text
    assert [one for one in response.json() if not one["ok"]] == []


def decisions(client: httpx.Client) -> list[Decision]:
    """Return all decisions so far."""
    response = client.get("/api/v1/decisions")
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def following(client: httpx.Client, after: int = 0) -> Iterator[Decision]:
    """Yield all decisions after one, those of the future included."""
    limit = time.monotonic() + PATIENCE_S
    headers = {"Accept": "text/event-stream"}
    with client.stream("GET", f"/api/v1/decisions?after={after}", headers=headers) as response:
        for line in response.iter_lines():
            assert time.monotonic() < limit, "no such decision for too long"
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def decisions_until(client: httpx.Client, times: int = 1, **wanted: object) -> list[Decision]:
    """Wait until there are so many decisions with these fields; give all up to there."""
    seen: list[Decision] = []
    for decision in following(client):
        seen.append(decision)
        times -= wanted.items() <= decision.items()
        if times == 0:
            return seen
    raise AssertionError(f"the stream has ended: {seen}")


def ends_of(found: list[Decision], ask: str) -> list[tuple[str, str | None]]:
    """Return the reason and the message of the end of each allocation of an ask."""
    return [
        (one["reason"], one.get("message"))
        for one in found
        if one["kind"] == "released" and one.get("ask") == ask
    ]


def patiently(condition: Callable[[], bool]) -> None:
    """Poll until a condition holds."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "waited for too long"
        time.sleep(0.01)


def output(client: httpx.Client, ask: str, **parameters: str | int) -> str:
    """Return the output of an ask of the application `a`."""
    response = client.get(f"/api/v1/asks/a/{ask}/logs", params=parameters)
    assert response.status_code == 200, response.text
    return response.text


@final
@attrs.frozen
class StreamEvent:
    """One event of a stream.

    Attributes:
        kind: Its kind.
        last_id: The last id when it came.
        data: Its data.
    """

    kind: str
    last_id: str
    data: str

    @property
    def value(self) -> dict[str, Any]:
        """Its data, which are JSON."""
        found: dict[str, Any] = json.loads(self.data)
        return found


@final
class EventReader:
    """Reads the bytes of a stream.

    Attributes:
        last_id: The last id that came.
        comments: How many comments came.
        retry: The time after which to connect again, in milliseconds.
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.comments = 0
        self.retry = 0
        self._rest = b""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> Iterator[StreamEvent]:
        """Yield the events that end in a part of the stream; the rest is kept for the next part."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if not line:
                if self._data:
                    yield StreamEvent(self._kind or "message", self.last_id, "\n".join(self._data))
                self._kind, self._data = "", []
                continue
            name, _, value = line.decode().partition(":")
            value = value.removeprefix(" ")
            match name:
                case "":
                    self.comments += 1
                case "event":
                    self._kind = value
                case "data":
                    self._data.append(value)
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry = int(value)
                case _:
                    msg = f"no field of an event: {line!r}"
                    raise AssertionError(msg)


def decisions_in(
    client: httpx.Client, target: str, last_id: str = "", until: int | None = None
) -> list[StreamEvent]:
    """Read a stream up to its end, or to a decision.

    Args:
        client: The client.
        target: The path with its query.
        last_id: Where to go on.
        until: The number of the last decision to read; None to read to the end.
    """
    headers = {"accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
    found: list[StreamEvent] = []
    reader = EventReader()
    with client.stream("GET", target, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        for part in response.iter_bytes():
            found += reader.feed(part)
            if found and until is not None and found[-1].value["seq"] >= until:
                break
    return found
