#!/usr/bin/env python3
"""Two jobs of four workers that need one another, on four CPUs: ``python gangs.py plain ADDRESS``.

A worker begins to train when all workers of its job are there, as with most training frameworks.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

import muster
import muster.ray

JOBS = ("red", "blue")
SIZE = 4
PATIENCE_S = 5  # a job trains for 1 s


def train(folder: str, job: str, worker: str) -> None:
    """Be a worker of a job: wait for the others, then train for a second."""
    Path(folder, f"{job}.{worker}").touch()
    while len(there(folder, job)) < SIZE:
        time.sleep(0.02)
    time.sleep(1)


def there(folder: str, job: str) -> list[Path]:
    """Return the workers of a job that have begun."""
    return list(Path(folder).glob(f"{job}.*"))


def plain(address: str, folder: str) -> None:
    ray: Any = importlib.import_module("ray")
    ray.init(address, log_to_driver=False, logging_level="ERROR")
    worker = ray.remote(num_cpus=1)(train)
    began_at = time.monotonic()
    both = [worker.remote(folder, job, f"worker-{n}") for n in range(SIZE) for job in JOBS]

    while sum(len(there(folder, job)) for job in JOBS) < SIZE:
        time.sleep(0.02)
    ended, _ = ray.wait(both, num_returns=len(both), timeout=PATIENCE_S)
    if len(ended) == len(both):
        print(f"both have ended after {time.monotonic() - began_at:.1f} s")
        return
    print(f"stands still: {len(ended)} of {len(both)} workers have ended, and since {PATIENCE_S} s")
    for job in JOBS:
        print(
            f"{len(there(folder, job))} of {SIZE} workers of {job} hold a CPU and wait for the rest"
        )


async def with_muster(address: str, folder: str) -> None:
    def work(held: muster.Allocation) -> muster.ray.Call:
        return muster.ray.Call(train, (folder, held.app, held.ask))

    async with muster.ray.connect(address, warm=2) as ray:
        binder = muster.ray.RayBinder(ray, work)
        async with (
            muster.open_scheduler(binder=binder) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(ray.follow, scheduler)
            began_at = trio.current_time()
            workers = list[muster.Ask]()
            for job in JOBS:
                await scheduler.add_gang(job, SIZE)
                app = await scheduler.add_app(job, "root.research")
                workers += await app.add_asks("worker", {"vcore": 1}, SIZE, gang=job)
            for worker in workers:
                await (await worker.bound()).ended()
                if worker.name == f"worker-{SIZE - 1}":
                    print(f"{worker.app} has ended after {trio.current_time() - began_at:.1f} s")
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in {"plain", "muster"}:
        sys.exit("usage: gangs.py plain|muster ADDRESS")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        if sys.argv[1] == "plain":
            plain(sys.argv[2], temporary)
        else:
            trio.run(with_muster, sys.argv[2], temporary)
