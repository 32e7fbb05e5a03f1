"""What a scheduler measures of itself."""

from __future__ import annotations

import trio

from muster._runtime.clock import BOUNDS_S, Meter, Timings, WallClock
from muster._surface.allocation import BIND_ATTEMPTS, BIND_TIMEOUT_S
from muster._surface.open import open_parts
from muster._surface.scheduler import Scheduler


def test_timings_fall_into_buckets() -> None:
    timings = Timings((0.1, 1.0))
    for took_s in (0.0, 0.1, 0.11, 1.0, 1.01, 50.0):
        timings.note(took_s)

    assert timings.counts == [2, 2, 2]
    assert timings.sum_s == 0.0 + 0.1 + 0.11 + 1.0 + 1.01 + 50.0


async def test_batches_are_measured() -> None:
    meter = Meter()
    async with open_parts(
        None,
        partition=None,
        binder=None,
        bind_timeout=BIND_TIMEOUT_S,
        bind_attempts=BIND_ATTEMPTS,
        clock=WallClock(),
        journal=None,
        record=None,
        store=None,
        interleave=None,
        meter=meter,
    ) as parts:
        scheduler = Scheduler(parts.statistics, parts.client, parts.observers.admit)
        assert sum(meter.decide.counts) == 0
        await scheduler.submit({"op": "add_app", "app": "a", "queue": "q"})
        await scheduler.settle()
        await trio.lowlevel.checkpoint()

        assert parts.waiting() == 0

    assert sum(meter.decide.counts) == 1
    assert meter.decide.sum_s > 0
    assert len(meter.decide.counts) == len(BOUNDS_S) + 1
    assert sum(meter.commit.counts) == 0
