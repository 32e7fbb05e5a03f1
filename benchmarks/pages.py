"""How long the pages of ``muster serve`` take: a real process on one core, its reader on another.

The cluster has 1,000 queues, 10,000 nodes, 40,000 running asks and 100,000 pending ones. What a
browser does with a page is not measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlencode

from benchmarks.figures import Figure, cells, with_unit
from benchmarks.served import Connection, Served, get_request

Events = Iterator[dict[str, object]]

TARGET_MS: Final = 1_000
TIMES: Final = 10
"""How often each page is asked for."""

PARENTS: Final = 10

PAGES: Final[Mapping[str, str]] = {
    "the overview": "/",
    "queues": "/queues",
    "queues with pending asks": "/queues?busy=1",
    "a queue": "/queues/root.parent-1.leaf-11",
    "asks": "/asks",
    "pending asks of a queue": "/asks?queue=root.parent-1&state=pending",
    "an ask": "/asks/app-7/wait-7",
    "an application": "/apps/app-7",
    "gangs": "/gangs",
    "nodes": "/nodes",
    "nodes by queue": "/nodes?color=queue",
    "nodes in groups, the fullest first": "/nodes?group=zone&sort=use",
    "a node": "/nodes/node-00077",
}

_FIRST: Final = "asks, the first time after a start"
_MADE: Final = "the overview of the past, made again first"
_COUNTED: Final = "the overview of the past, its reasons counted"
AFTER_START: Final = (_FIRST, _MADE, _COUNTED)
"""What is measured after the service was started again."""


def measure(scale: float) -> list[Figure]:
    """Measure each page.

    Args:
        scale: The share of the full size.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with Served(place, place / "log") as served:
            for events in (
                nodes(max(100, int(10_000 * scale))),
                apps(max(20, int(1_000 * scale))),
                asks("run", max(100, int(40_000 * scale)), max(20, int(1_000 * scale)), 4),
                asks("wait", max(100, int(100_000 * scale)), max(20, int(1_000 * scale)), 1_000),
            ):
                served.post(events)
            with served.connect() as connection:
                found = [_timed(served, connection, what, path) for what, path in PAGES.items()]
                instant = _instant(connection)
        return [*found, *_after_start(place, instant)]


def _instant(connection: Connection) -> str:
    """Return the instant of the last batch, as a page of the past names it."""
    listed = json.loads(connection.ask(get_request("/api/v1/nodes?limit=1")))
    return str(listed["time"])


def _after_start(place: Path, instant: str) -> list[Figure]:
    """Measure the first requests after a start, and pages of the past."""
    past = f"/?{urlencode({'at': instant})}"
    with Served(place, place / "log") as served, served.connect() as connection:
        return [
            _once(served, connection, _FIRST, "/asks"),
            _once(served, connection, _MADE, past, None),
            _timed(served, connection, _COUNTED, past),
        ]


def _once(
    served: Served,
    connection: Connection,
    what: str,
    path: str,
    target_ms: float | None = TARGET_MS,
) -> Figure:
    """Ask for a page once; return how long it takes."""
    before, start = served.processor_s(), time.perf_counter()
    size = len(connection.ask(get_request(path)))
    took_ms = (time.perf_counter() - start) * 1e3
    used_ms = (served.processor_s() - before) * 1e3
    note = f"once, {with_unit(used_ms, 'ms')} of the processor, {size / 1e3:,.0f} kB"
    return Figure("page", what, took_ms, "ms", target_ms, note=note)


def nodes(count: int) -> Events:
    """Yield nodes in five zones."""
    for at in range(count):
        yield {
            "op": "add_node",
            "node": f"node-{at:05}",
            "capacity": {"vcore": 32, "memory": "128Gi"},
            "attributes": {"zone": f"zone-{at % 5}"},
        }


def apps(count: int) -> Events:
    """Yield applications, each in a queue of its own."""
    for at in range(count):
        queue = f"root.parent-{at % PARENTS}.leaf-{at}"
        yield {"op": "add_app", "app": f"app-{at}", "queue": queue, "user": f"user-{at % 50}"}


def asks(name: str, count: int, of: int, vcore: int) -> Events:
    """Yield asks, in turns for all applications.

    Args:
        name: How their names begin.
        count: How many.
        of: How many applications there are.
        vcore: How many cores each asks for.
    """
    for at in range(count):
        yield {
            "op": "add_ask",
            "app": f"app-{at % of}",
            "ask": f"{name}-{at}",
            "resources": {"vcore": vcore, "memory": f"{1 + at % 5}Gi"},
            "priority": at % 4,
        }


def _timed(served: Served, connection: Connection, what: str, path: str) -> Figure:
    """Ask for a page again and again; return how long it takes."""
    request = get_request(path)
    size = len(connection.ask(request))
    times: list[float] = []
    before = served.processor_s()
    for _ in range(TIMES):
        start = time.perf_counter()
        connection.ask(request)
        times.append((time.perf_counter() - start) * 1e3)
    used_ms = (served.processor_s() - before) * 1e3 / TIMES
    note = (
        f"half {with_unit(median(times), 'ms')}, {with_unit(used_ms, 'ms')} of the processor, "
        f"{size / 1e3:,.0f} kB"
    )
    return Figure("page", what, min(times), "ms", TARGET_MS, note=note)


if __name__ == "__main__":
    for one in measure(float(sys.argv[1])):
        print(*cells(one), sep=" | ")
