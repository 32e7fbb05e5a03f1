"""What ``muster serve`` bears: a real process on one core, its clients on another.

All times are of the clock on the wall. Other programs on the machine make them longer, never
shorter; so what is repeated counts with the best of its rounds, each of which is short.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, product
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from typing import Final, final

from benchmarks.figures import Better, Figure, cells, with_unit
from benchmarks.served import (
    EVENTS,
    Connection,
    Served,
    at_a_rate,
    at_once,
    get_request,
    header,
    in_parallel,
    post_request,
    read_all,
)

Events = Iterator[dict[str, object]]

ROUNDS: Final = 5
APPS: Final = 100
SINGLES: Final = 2_000
"""How many single requests a round has, at 1,000 a second."""

CONNECTIONS: Final = 50
STREAMS: Final = 100
STREAMED: Final = 20_000
"""How many asks are let in while the streams are read."""

PIECE: Final = 500
"""How many asks a request has meanwhile."""

LISTED: Final = 100_000
LISTED_AT_MOST: Final = 1_000
TIMES: Final = 20
"""How often a list is asked for."""


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    return [figure for name in CASES for figure in measure_case(name, scale)]


def measure_case(name: str, scale: float) -> list[Figure]:
    """Measure one case, with a service of its own.

    Args:
        name: Its name in :data:`CASES`.
        scale: The share of the full size.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with Served(place, place / "log") as served:
            return CASES[name](served, scale)


def cluster(nodes: int = 100, apps: int = APPS) -> Events:
    """Yield a cluster on which all asks of these measurements fit, and applications."""
    for at in range(nodes):
        yield {
            "op": "add_node",
            "node": f"node-{at:05}",
            "capacity": {"vcore": 10_000, "memory": "100Ti"},
        }
    for at in range(apps):
        yield {"op": "add_app", "app": f"app-{at}", "queue": f"root.parent-{at % 5}.leaf-{at % 10}"}


def asks(numbers: range, vcore: int = 1) -> Events:
    """Yield asks, in turns for all applications."""
    for at in numbers:
        yield {
            "op": "add_ask",
            "app": f"app-{at % APPS}",
            "ask": f"ask-{at}",
            "resources": {"vcore": vcore, "memory": f"{1 + at % 3}Gi"},
            "priority": at % 4,
        }


def too_large(numbers: range) -> Events:
    """Yield asks that fit on no node."""
    return asks(numbers, vcore=20_000)


def releases(numbers: range) -> Events:
    """Yield the ends of these asks."""
    for at in numbers:
        yield {"op": "release", "app": f"app-{at % APPS}", "ask": f"ask-{at}"}


# Events in bulk


def _bulk(served: Served, scale: float) -> list[Figure]:
    """Submit asks that are bound and released, and asks that wait, on two connections."""
    size = max(10, int(EVENTS * scale))
    served.post(cluster())
    rates: dict[str, list[float]] = {"bound and released": [], "that wait": []}
    used_s: dict[str, list[float]] = {what: [] for what in rates}
    firsts = count(0, size)
    with served.connect() as one, served.connect() as two:
        for _, what in product(range(ROUNDS), rates):
            requests = [_in_bulk(what, firsts, size) for _ in range(2)]
            before = served.processor_s()
            took_s = in_parallel([one, two], requests)
            events = sum(map(len, requests)) * size
            rates[what].append(events / took_s)
            used_s[what].append((served.processor_s() - before) / events)
    return [
        Figure(
            "serve",
            f"events in bulk: asks {what}",
            max(found),
            "a second",
            20_000,
            Better.HIGHER,
            note=f"{_each(used_s[what])}; slowest round {min(found):,.0f} a second",
        )
        for what, found in rates.items()
    ]


def _in_bulk(what: str, firsts: Iterator[int], size: int) -> list[bytes]:
    """Return four requests."""
    requests: list[bytes] = []
    for _ in range(2):
        one, other = (range(at, at + size) for at in (next(firsts), next(firsts)))
        waiting = what == "that wait"
        events = (too_large(one), too_large(other)) if waiting else (asks(one), releases(one))
        requests += [post_request(list(part)) for part in events]
    return requests


def _each(used_s: Sequence[float]) -> str:
    """Format the processor time of the service for each request, in the best round."""
    return f"{with_unit(min(used_s) * 1e6, 'µs')} of the processor each"


# Single requests


def _singles(served: Served, scale: float) -> list[Figure]:
    """Submit single asks and their ends, at a fixed rate and as fast as possible."""
    size = max(20, int(SINGLES * scale))
    served.post(cluster())
    late: list[list[float]] = []
    rates: list[float] = []
    used_s: list[float] = []
    numbers = count()
    connections = [served.connect() for _ in range(CONNECTIONS)]
    for _ in range(ROUNDS):
        late.append(at_a_rate(connections, _single(numbers, size), 1_000))
        before = served.processor_s()
        rates.append(size / at_once(connections, _single(numbers, size)))
        used_s.append((served.processor_s() - before) / size)
    for one in connections:
        one.socket.close()
    best = min(late, key=_p99)
    half, most = (with_unit(part * 1e3, "ms") for part in (median(best), max(best)))
    note = f"half {half}, longest {most}"
    return [
        Figure(
            "serve", "1,000 single requests a second: 99 %", _p99(best) * 1e3, "ms", 50, note=note
        ),
        Figure(
            "serve",
            "single requests, as many as it bears",
            max(rates),
            "a second",
            better=Better.HIGHER,
        ),
        Figure("serve", "single requests: of the processor, each", min(used_s) * 1e3, "ms", 0.3),
    ]


def _single(numbers: Iterator[int], size: int) -> list[bytes]:
    """Return requests with an event each: asks, and at some distance their ends."""
    at = [next(numbers) for _ in range(size // 2)]
    distance = min(100, size // 4)
    adds = [post_request(list(asks(range(one, one + 1)))) for one in at]
    ends = [post_request(list(releases(range(one, one + 1)))) for one in at]
    together = adds[:distance]
    for add, end in zip(adds[distance:], ends, strict=False):
        together += (add, end)
    return together + ends[-distance:]


def _p99(latencies: Sequence[float]) -> float:
    return quantiles(latencies, n=100)[98]


# Streams


@final
class Numbers:
    """Checks the numbers of the decisions of a stream.

    Attributes:
        last: The number of the last decision that came.
        wrong: How many came whose number was not the one after.
    """

    def __init__(self) -> None:
        self.last = 0
        self.wrong = 0
        self._rest: bytes = b""

    def take(self, piece: bytes) -> None:
        """Add a piece of the stream."""
        together = self._rest + piece
        end = together.rfind(b"\n\n") + 2
        if end < 2:
            self._rest = together
            return
        self._rest = together[end:]
        for found in _EVENT.finditer(together, 0, end):
            self.wrong += int(found[1]) != self.last + 1
            self.last = int(found[1])


_EVENT: Final = re.compile(rb"id: ([0-9]+)\nevent: decision\n")


def _streams(served: Served, scale: float) -> list[Figure]:
    """Submit asks while many clients read the decisions; check each number on each stream."""
    total = max(PIECE, int(STREAMED * scale))
    pieces = [range(at, min(total, at + PIECE)) for at in range(0, total, PIECE)]
    requests = [post_request(list(asks(piece))) for piece in pieces]
    readers = [Numbers() for _ in range(STREAMS)]
    sockets = [served.connect().socket for _ in readers]
    for one in sockets:
        one.sendall(get_request("/api/v1/decisions?after=0", "Accept: text/event-stream"))
    served.post(cluster())
    last: list[int] = []
    began = time.perf_counter()

    def send() -> None:
        with served.connect() as connection:
            for request in requests:
                connection.ask(request)
            last.append(int(header(connection.head, b"muster-last-seq")))

    def is_over() -> bool:
        return bool(last) and min(reader.last for reader in readers) >= last[0]

    sender = Thread(target=send)
    sender.start()
    read_all(sockets, lambda at, piece: readers[at].take(piece), is_over)
    sender.join()
    took_s = time.perf_counter() - began
    for one in sockets:
        one.close()
    wrong = sum(reader.wrong for reader in readers)
    delivered = sum(reader.last for reader in readers)
    rate = f"{delivered:,} delivered, {delivered / took_s:,.0f} a second"
    return [
        Figure("serve", f"{STREAMS} streams: decisions that miss", wrong, "", 0, note=rate),
        Figure(
            "serve",
            f"{STREAMS} streams: decisions",
            last[0] / took_s,
            "a second",
            better=Better.HIGHER,
        ),
    ]


# Lists


def _lists(served: Served, scale: float) -> list[Figure]:
    """Ask for a hundred of many asks: the first ones, those of a queue, those in the middle."""
    total = max(1_000, int(LISTED * scale))
    served.post(cluster())
    served.post(too_large(range(total)))
    with served.connect() as connection:
        behind = ""
        for _ in range(total // 2 // LISTED_AT_MOST):
            path = f"/api/v1/asks?limit={LISTED_AT_MOST}&fields=ask{behind}"
            behind = "&after=" + json.loads(connection.ask(get_request(path)))["next"]
        paths = {
            "the first": "",
            "in the middle": behind,
            "of a queue": "&queue=root.parent-1.leaf-1",
            "of a queue and a state": "&queue=root.parent-1&state=pending",
            "of an application": "&app=app-77",
            "with a reason": "&reason=NeverFits",
            "of a state that has none": "&state=bound",
        }
        return [
            _timed(connection, f"/api/v1/asks?limit=100{given}", f"100 of 100,000 asks, {what}", 20)
            for what, given in paths.items()
        ]


def _timed(connection: Connection, path: str, what: str, target_ms: float | None) -> Figure:
    """Ask again and again; return how long an answer takes."""
    request = get_request(path)
    connection.ask(request)
    times: list[float] = []
    for _ in range(TIMES):
        start = time.perf_counter()
        connection.ask(request)
        times.append((time.perf_counter() - start) * 1e3)
    note = f"half {with_unit(median(times), 'ms')}, longest {with_unit(max(times), 'ms')}"
    return Figure("serve", what, min(times), "ms", target_ms, note=note)


# Health


def _health(served: Served, scale: float) -> list[Figure]:
    """Ask for the health again and again while one batch of many asks is decided."""
    size = max(10, int(1_000 * scale))
    served.post(cluster(1_000))
    times: list[float] = []
    over = Event()

    def ask() -> None:
        with served.connect() as connection:
            while not over.is_set():
                start = time.perf_counter()
                connection.ask(get_request("/healthz"))
                times.append((time.perf_counter() - start) * 1e3)
                time.sleep(0.002)

    asker = Thread(target=ask)
    asker.start()
    start = time.perf_counter()
    served.post({**one, "count": size} for one in asks(range(100)))
    took_s = time.perf_counter() - start
    over.set()
    asker.join()
    return [
        Figure(
            "serve",
            "/healthz while a batch of 100,000 asks is decided: longest",
            max(times),
            "ms",
            100,
            note=f"{len(times)} answers in {took_s:.1f} s, half {with_unit(median(times), 'ms')}",
        )
    ]


# YuniKorn's end points


def _yunikorn(served: Served, scale: float) -> list[Figure]:
    """Ask for all queues and all nodes, as YuniKorn's page does."""
    queues, nodes = max(10, int(1_000 * scale)), max(10, int(10_000 * scale))
    served.post(cluster(nodes, 0))
    served.post(
        {"op": "add_app", "app": f"app-{at}", "queue": f"root.parent-{at % 10}.leaf-{at}"}
        for at in range(queues)
    )
    with served.connect() as connection:
        return [
            _timed(connection, f"/ws/v1/partition/default/{what}", label, None)
            for what, label in (("queues", "1,000 queues"), ("nodes", "10,000 nodes"))
        ]


CASES: Final[Mapping[str, Callable[[Served, float], list[Figure]]]] = {
    "bulk": _bulk,
    "singles": _singles,
    "streams": _streams,
    "lists": _lists,
    "health": _health,
    "yunikorn": _yunikorn,
}

if __name__ == "__main__":
    for case in sys.argv[2:] or CASES:
        for one in measure_case(case, float(sys.argv[1])):
            print(*cells(one), sep=" | ")
