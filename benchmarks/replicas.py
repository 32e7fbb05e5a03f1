"""What a follower costs its leader, how it keeps up, and how long it takes to lead.

The leader has one core; the follower shares the other one with the client, as there are two.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.figures import Figure
from benchmarks.serve import asks, cluster, releases, too_large
from benchmarks.served import EVENTS, PATIENCE_S, Connection, Served, get_request, post_request

ROUNDS: Final = 5
SINGLES: Final = 500
"""How many single requests a round has, one after the other."""

PENDING: Final = 100_000
"""How many asks are pending at a promotion."""


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    return [*_following(scale), *_sync(scale), *_promotion(scale)]


@contextmanager
def _alone() -> Generator[Served]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Served(Path(folder), Path(folder, "log")) as leader,
    ):
        leader.post(cluster())
        yield leader


@contextmanager
def _pair(*arguments: str) -> Generator[tuple[Served, Served]]:
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder, "leader"), Path(folder, "follower")
        one.mkdir()
        other.mkdir()
        with Served(one, one / "log", *arguments) as leader:
            leader.post(cluster())
            address = f"http://127.0.0.1:{leader.port}"
            with Served(other, other / "log", "--follow", address) as follower:
                _wait_until_level(leader)
                yield leader, follower


def _behind(leader: Served) -> int:
    with leader.connect() as connection:
        found = json.loads(connection.ask(get_request("/api/v1/replica")))
    behind: int = found["followers"][0]["batches_behind"] if found["followers"] else 1
    return behind


def _wait_until_level(leader: Served) -> None:
    end = time.monotonic() + PATIENCE_S
    while _behind(leader):
        assert time.monotonic() < end, "the follower is never level"
        time.sleep(0.002)


def _bulk(leader: Served, firsts: count[int], size: int) -> float:
    """Submit asks that are bound and released; return the processor seconds per event."""
    before = leader.processor_s()
    first = next(firsts)
    numbers = range(first * size, (first + 1) * size)
    leader.post([*asks(numbers), *releases(numbers)])
    return (leader.processor_s() - before) / (2 * size)


def _following(scale: float) -> list[Figure]:
    size = max(10, int(EVENTS * scale))
    alone: list[float] = []
    followed: list[float] = []
    lags: list[float] = []
    rates: list[float] = []
    firsts, others = count(), count()
    with _alone() as single:
        alone.extend(_bulk(single, firsts, size) for _ in range(ROUNDS))
    work: list[float] = []
    with _pair() as (leader, follower):
        for _ in range(ROUNDS):
            before = follower.processor_s()
            began = time.perf_counter()
            followed.append(_bulk(leader, others, size))
            done = time.perf_counter()
            _wait_until_level(leader)
            level = time.perf_counter()
            lags.append(level - done)
            rates.append((done - began) / (level - began))
            work.append((follower.processor_s() - before) / (2 * size))
    cost = median(followed) / median(alone)
    each = f"{median(alone) * 1e6:.1f} µs of the processor for an event alone"
    share = median(work) / median(followed)
    kept_up = f"with its own core it keeps level up to {1 / share:.0%} of the leader's rate"
    return [
        Figure("replicas", "processor of a leader that is followed", cost, "×", 1.05, note=each),
        Figure(
            "replicas", "processor of a follower, of its leader's", share, "×", 1.0, note=kept_up
        ),
        Figure(
            "replicas",
            "a follower is level after bulk: longest",
            max(lags),
            "s",
            note=f"it kept up with {min(rates):.0%} of the leader's rate, on the client's core",
        ),
    ]


def _latency(leader: Served, numbers: range) -> float:
    """Send single asks, one after the other; return the median seconds of an answer."""
    took: list[float] = []
    requests = [post_request([event]) for event in asks(numbers)]
    with leader.connect() as connection:
        for request in requests:
            began = time.perf_counter()
            connection.ask(request)
            took.append(time.perf_counter() - began)
    return median(took)


def _sync(scale: float) -> list[Figure]:
    size = max(10, int(SINGLES * scale))
    with _pair() as (leader, _):
        plain = min(_latency(leader, range(at * size, (at + 1) * size)) for at in range(ROUNDS))
    with _pair("--sync", "available") as (leader, _):
        synced = min(_latency(leader, range(at * size, (at + 1) * size)) for at in range(ROUNDS))
    note = f"{synced * 1e3:.2f} ms instead of {plain * 1e3:.2f} ms, at the median"
    return [Figure("replicas", "answer with --sync", synced / plain, "×", 1.5, note=note)]


def _promotion(scale: float) -> list[Figure]:
    size = max(10, int(PENDING * scale))
    with _pair() as (leader, follower):
        for first in range(0, size, EVENTS):
            leader.post(too_large(range(first, min(size, first + EVENTS))))
        _wait_until_level(leader)
        promote = (
            b"POST /api/v1/replica/promote HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
        )
        with follower.connect() as connection:
            began = time.perf_counter()
            connection.ask(promote)
            _first_write(connection)
            took_s = time.perf_counter() - began
        leader.is_over = True
    what = f"from muster promote to the first answered write, {size:,} asks pending"
    return [Figure("replicas", what, took_s, "s", 2.0)]


def _first_write(connection: Connection) -> None:
    connection.ask(post_request([{"op": "add_app", "app": "new", "queue": "root.new"}]))
