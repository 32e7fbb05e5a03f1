"""What a server takes: events in bulk and one by one, with a store, by HTTP.

The server is a process of its own, pinned to one core, and this process is pinned to another one,
if there are two. So nothing that the client does costs the server anything.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import trio

from benchmarks.figures import Better, Figure

LEAVES: Final = 10
APPS: Final = 100
NODES: Final = 1_000
BULK: Final = 100_000
"""How many asks come in bulk."""
A_REQUEST: Final = 5_000
"""How many of them are in one request."""
RATE: Final = 1_000
"""How many single requests come a second."""
SINGLES_S: Final = 10.0
"""For how long they come."""
CONNECTIONS: Final = 32
ALIVE: Final = "/healthz"

_QUEUES: Final = ", ".join(f"{{name: q{at}}}" for at in range(LEAVES))
_CONFIG: Final = (
    "partitions: [{name: default, queues: "
    f"[{{name: root, submitacl: '*', queues: [{_QUEUES}]}}]}}]"
)
_PATH: Final = "/api/v1/events"

Event = dict[str, object]


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    try:
        return [*_bulk(scale, cores[0]), *_singles(scale, cores[0])]
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _served(core: int) -> Generator[int]:
    """Run a server with a cluster, pinned to a core; yield its port."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "queues.yaml")
        config.write_text(_CONFIG, encoding="utf-8")
        pinned = ["taskset", "-c", str(core)] if shutil.which("taskset") else []
        command = [*pinned, sys.executable, "-m", "muster", "serve", "--config", str(config)]
        command += ["--state", str(Path(folder, "state")), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            port = _port(process.stderr)
            _post(port, [*_nodes(), *_apps()])
            yield port
        finally:
            process.terminate()
            process.wait(60)


def _port(lines: IO[str]) -> int:
    """Return the port of a server when it is ready; its other lines are thrown away."""
    port = 0
    for line in lines:
        found = re.search(r"listening on http://[^:]+:([0-9]+)", line)
        port = port if found is None else int(found[1])
        if "ready" in line:
            threading.Thread(target=lambda: [None for _ in lines], daemon=True).start()
            return port
    msg = "the server ended before it was ready"
    raise RuntimeError(msg)


def _nodes() -> list[Event]:
    capacity = {"vcore": 128, "memory": "512Gi"}
    return [{"op": "add_node", "node": f"n-{at}", "capacity": capacity} for at in range(NODES)]


def _apps() -> list[Event]:
    return [
        {"op": "add_app", "app": f"app-{at}", "queue": f"root.q{at % LEAVES}"} for at in range(APPS)
    ]


def _ask(number: int) -> Event:
    amounts = {"vcore": 1, "memory": "1Gi"}
    return {
        "op": "add_ask",
        "app": f"app-{number % APPS}",
        "ask": f"a{number}",
        "resources": amounts,
    }


def _post(port: int, events: Sequence[Event]) -> None:
    _send(http.client.HTTPConnection("127.0.0.1", port), json.dumps(events).encode())


def _send(connection: http.client.HTTPConnection, body: bytes) -> None:
    connection.request("POST", _PATH, body, {"Content-Type": "application/json"})
    answer = connection.getresponse().read()
    assert b'"ok":false' not in answer, answer[:300]


def _bulk(scale: float, core: int) -> list[Figure]:
    requests = max(2, int(BULK * scale) // A_REQUEST)
    bodies = [
        json.dumps([_ask(number * A_REQUEST + at) for at in range(A_REQUEST)]).encode()
        for number in range(requests)
    ]
    with _served(core) as port:
        done = threading.Event()
        waits: list[float] = []
        watcher = threading.Thread(target=_watch, args=(port, done, waits))
        watcher.start()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        began = time.perf_counter()
        for body in bodies:
            _send(connection, body)
        took = time.perf_counter() - began
        done.set()
        watcher.join()
    rate = requests * A_REQUEST / took
    higher = Better.HIGHER
    return [
        Figure("serve", "events in bulk", rate, "a second", target=20_000, better=higher),
        Figure("serve", "health meanwhile, longest", max(waits) * 1e3, "ms", target=100),
    ]


def _watch(port: int, done: threading.Event, waits: list[float]) -> None:
    """Note how long answers about health take."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while not waits or not done.wait(0.02):
        began = time.perf_counter()
        connection.request("GET", ALIVE)
        connection.getresponse().read()
        waits.append(time.perf_counter() - began)


def _singles(scale: float, core: int) -> list[Figure]:
    count = max(100, int(RATE * SINGLES_S * scale))
    waits: list[float] = []
    with _served(core) as port:
        trio.run(_load, port, count, waits)
    waits.sort()
    p99 = waits[int(len(waits) * 0.99)]
    note = f"half of them within {waits[len(waits) // 2] * 1e3:.1f} ms"
    return [
        Figure("serve", f"{RATE} single requests a second, p99", p99 * 1e3, "ms", 50, note=note)
    ]


async def _load(port: int, count: int, waits: list[float]) -> None:
    """Send single events at their instants, whether or not those before are answered."""
    numbers = iter(range(count))
    begins = trio.current_time() + 0.2

    async def caller() -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            for number in numbers:
                due = begins + number / RATE
                await trio.sleep_until(due)
                await _single(stream, port, json.dumps(_ask(number)).encode())
                waits.append(trio.current_time() - due)

    async with trio.open_nursery() as nursery:
        for _ in range(CONNECTIONS):
            nursery.start_soon(caller)


async def _single(stream: trio.SocketStream, port: int, body: bytes) -> None:
    head = (
        f"POST {_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    await stream.send_all(head.encode() + body)
    answer = b""
    while not answer.rstrip().endswith(b"]"):
        answer += await stream.receive_some()
    assert b'"ok":true' in answer, answer
