"""A real ``muster serve`` on one core, and a client that costs little on the other.

The client sends bytes that were prepared before, over sockets that stay open, and reads only what
it has to of an answer: its status and its length.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Final, Self, final

PATIENCE_S: Final = 120.0
"""How long anything is waited for, in seconds; it is never reached on a machine that works."""

_LISTENING: Final = "listening on http://"
_GOOD: Final = (b"HTTP/1.1 200", b"HTTP/1.1 503")
"""How a good answer begins; 503 is what health may say."""

_CPU_CLOCK: Final = 2
"""What makes the clock of the processor time of a process out of its number, as Linux has it."""

_READ_BYTES: Final = 256 * 1024


@final
class Served:
    """A service with a process of its own, as a context manager.

    It has a core of its own, and the present process another one, if there are two.

    Args:
        folder: Its state directory is below it; None for a service that keeps nothing.
        log: The file for its standard error.
        *arguments: Further arguments of the command.

    Attributes:
        port: The port on which it listens.
        is_over: Whether it ends by itself, with an error.
    """

    def __init__(self, folder: Path | None, log: Path, *arguments: str) -> None:
        state = () if folder is None else ("--state", str(folder / "state"))
        command = [sys.executable, "-m", "muster", "serve", *state, "--listen", "127.0.0.1:0"]
        command += arguments
        is_second = "--follow" in arguments
        self.is_over = False
        self._log = log
        self._cores = {*range(os.cpu_count() or 1)} if is_second else os.sched_getaffinity(0)
        with log.open("wb") as errors:
            # The service inherits it; one that follows leaves the core of its leader alone.
            own = max(self._cores) if is_second else min(self._cores)
            os.sched_setaffinity(0, {own})
            self._process = subprocess.Popen(command, stderr=errors, stdin=subprocess.DEVNULL)
            os.sched_setaffinity(0, {max(self._cores)})
        self.port = self._find_port()

    def _find_port(self) -> int:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self._process.poll() is None:
            lines = self._log.read_text(encoding="utf-8").splitlines()
            if any("ready" in line for line in lines):
                listening = next(line for line in lines if _LISTENING in line)
                return int(listening.partition(_LISTENING)[2].split()[0].rpartition(":")[2])
            time.sleep(0.02)
        self._process.kill()
        raise RuntimeError(self._log.read_text(encoding="utf-8"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.send_signal(signal.SIGTERM if error is None else signal.SIGKILL)
        status = self._process.wait(PATIENCE_S)
        os.sched_setaffinity(0, self._cores)
        is_fine = error is not None or self.is_over or status == 0
        assert is_fine, self._log.read_text(encoding="utf-8")[-2_000:]

    def processor_s(self) -> float:
        """Return how long the service has used the processor, in seconds."""
        return time.clock_gettime((~self._process.pid << 3) | _CPU_CLOCK)

    def connect(self) -> Connection:
        """Return a new connection."""
        return Connection(self.port)

    def post(self, events: Iterable[dict[str, object]]) -> None:
        """Submit events, in requests of the largest size that the service takes."""
        waiting = list(events)
        with self.connect() as connection:
            for first in range(0, len(waiting), EVENTS):
                connection.ask(post_request(waiting[first : first + EVENTS]))


EVENTS: Final = 10_000
"""How many events a request may have."""


@final
class Connection:
    """A connection that stays open, for one request after the other.

    Args:
        port: The port of the service.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        #: The head of the last answer, in lower case.
        self.head = b""
        #: When the request was due whose answer is on its way; the sender sets it.
        self.due_s = 0.0
        self._got = bytearray()
        self._begin = 0
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: bytes) -> bytes:
        """Send a request; wait for the answer, and return its body.

        Raises:
            RuntimeError: The service has refused the request, or it has closed the connection.
        """
        self.socket.sendall(request)
        while (body := self.read()) is None:
            pass
        if not (self.head.startswith(b"http/1.1 200") or request.startswith(b"GET /healthz")):
            raise RuntimeError(body.decode(errors="replace"))
        return body

    def read(self) -> bytes | None:
        """Read once; return the body of the answer, or None if it is not complete.

        Raises:
            RuntimeError: The service has refused the request, or it has closed the connection.
        """
        got = self._got
        piece = self.socket.recv(_READ_BYTES)
        got += piece
        if not self._end and (end := got.find(b"\r\n\r\n")) >= 0:
            self.head = bytes(got[:end]).lower() + b"\r\n"
            if not got.startswith(_GOOD):
                raise RuntimeError(bytes(got).decode(errors="replace"))
            self._begin = end + 4
            self._end = self._begin + int(header(self.head, b"content-length"))
        if self._end and len(got) >= self._end:
            body = bytes(got[self._begin : self._end])
            got.clear()
            self._end = 0
            return body
        if not piece:
            msg = "the service has closed the connection"
            raise RuntimeError(msg)
        return None


def header(head: bytes, name: bytes) -> bytes:
    """Return the value of a header, from a head in lower case; empty without it."""
    return head.partition(b"\r\n" + name + b":")[2].partition(b"\r\n")[0].strip()


def get_request(path: str, *headers: str) -> bytes:
    """Return the bytes of a GET request."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
    return "\r\n".join(lines).encode()


def post_request(events: Sequence[dict[str, object]]) -> bytes:
    """Return the bytes of a request that submits events."""
    body = json.dumps(events, separators=(",", ":")).encode()
    head = (
        "POST /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def at_a_rate(
    connections: Sequence[Connection], requests: Sequence[bytes], a_second: float
) -> list[float]:
    """Send requests at a fixed rate, whether answers have come or not; return the latencies.

    A latency counts from the moment when the request was due, so a service that cannot keep up is
    seen to be late. A request that is due while all connections wait is sent as soon as one is
    free.
    """
    poll = select.epoll()
    by_number = {one.socket.fileno(): one for one in connections}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    free = list(connections)
    latencies: list[float] = []
    sent, every, began = 0, 1 / a_second, time.perf_counter()
    while len(latencies) < len(requests):
        now = time.perf_counter()
        while sent < len(requests) and free and began + sent * every <= now:
            connection = free.pop()
            connection.due_s = began + sent * every
            connection.socket.sendall(requests[sent])
            sent += 1
        wait = PATIENCE_S
        if free and sent < len(requests):
            wait = max(0.0, began + sent * every - time.perf_counter())
        found = poll.poll(wait)
        assert found or wait < PATIENCE_S, "the service does not answer"
        for number, _ in found:
            connection = by_number[number]
            if connection.read() is not None:
                latencies.append(time.perf_counter() - connection.due_s)
                free.append(connection)
    poll.close()
    return latencies


def at_once(connections: Sequence[Connection], requests: Sequence[bytes]) -> float:
    """Send requests, on each connection the next when one was answered; return the seconds."""
    began = time.perf_counter()
    at_a_rate(connections, requests, 1e9)
    return time.perf_counter() - began


def in_parallel(connections: Sequence[Connection], requests: Sequence[Sequence[bytes]]) -> float:
    """Send on each connection its own requests, one after the other; return the seconds."""
    refused: list[bytes] = []

    def ask(connection: Connection, own: Sequence[bytes]) -> None:
        refused.extend(body for body in map(connection.ask, own) if b'"ok":false' in body)

    senders = [Thread(target=ask, args=pair) for pair in zip(connections, requests, strict=True)]
    began = time.perf_counter()
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    took_s = time.perf_counter() - began
    assert not refused, refused[0][:1_000]
    return took_s


def read_all(
    sockets: Sequence[socket.socket],
    take: Callable[[int, bytes], None],
    is_over: Callable[[], bool],
) -> None:
    """Read from sockets until a condition holds.

    Args:
        sockets: The sockets.
        take: Called with the place of a socket, and the bytes that came.
        is_over: Whether to end.
    """
    poll = select.epoll()
    places = {one.fileno(): place for place, one in enumerate(sockets)}
    for number in places:
        poll.register(number, select.EPOLLIN)
    while not is_over():
        found = poll.poll(PATIENCE_S)
        assert found, "nothing comes any more"
        for number, _ in found:
            piece = sockets[places[number]].recv(_READ_BYTES)
            assert piece, "the service has closed a stream"
            take(places[number], piece)
    poll.close()
