#!/usr/bin/env python3
"""Two jobs of two placement groups each, on four CPUs: ``python groups.py plain ADDRESS``.

A job needs a group of trainers and a group of evaluators, of two CPUs each, at the same time. Each
group comes as a whole in plain Ray, but the two of a job do not.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import trio

import muster
import muster.ray

JOBS = ("red", "blue")
GROUPS = ("trainers", "evaluators")
SIZE = 2
PATIENCE_S = 5  # a job runs for 1 s


def part() -> None:
    """Be a trainer or an evaluator, for a second."""
    time.sleep(1)


def plain(address: str) -> None:
    ray: Any = importlib.import_module("ray")
    util: Any = importlib.import_module("ray.util")
    strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
    ray.init(address, log_to_driver=False, logging_level="ERROR")
    began_at = time.monotonic()
    groups = {
        (job, group): util.placement_group([{"CPU": 1}] * SIZE, "PACK")
        for group in GROUPS
        for job in JOBS
    }
    for job in JOBS:  # what a job does that waits for its first group, and then for its second one
        ray.get(groups[job, GROUPS[0]].ready())
    waiting = {groups[job, GROUPS[1]].ready(): job for job in JOBS}
    ready, _ = ray.wait(list(waiting), timeout=PATIENCE_S)
    if not ready:
        print(f"stands still: since {PATIENCE_S} s")
        for job in JOBS:
            print(f"{job} holds {SIZE} CPUs for its {GROUPS[0]} and waits for its {GROUPS[1]}")
        return
    for job in [waiting[one] for one in ready]:
        parts = [
            ray.remote(num_cpus=1)(part)
            .options(scheduling_strategy=strategies.PlacementGroupSchedulingStrategy(groups[key]))
            .remote()
            for key in groups
            if key[0] == job
            for _ in range(SIZE)
        ]
        ray.get(parts)
        print(f"{job} has ended after {time.monotonic() - began_at:.1f} s")


async def with_muster(address: str) -> None:
    async with muster.ray.connect(address, warm=2) as ray:
        binder = muster.ray.RayBinder(ray, lambda _: muster.ray.Call(part))
        async with (
            muster.open_scheduler(binder=binder) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(ray.follow, scheduler)
            began_at = trio.current_time()
            parts = dict[str, list[muster.Ask]]()
            for job in JOBS:
                await scheduler.add_gang(job, SIZE * len(GROUPS))
                app = await scheduler.add_app(job, "root.research")
                parts[job] = [
                    one
                    for group in GROUPS
                    for one in await app.add_asks(group, {"vcore": 1}, SIZE, gang=job)
                ]
            for job, asks in parts.items():
                for ask in asks:
                    await (await ask.bound()).ended()
                print(f"{job} has ended after {trio.current_time() - began_at:.1f} s")
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in {"plain", "muster"}:
        sys.exit("usage: groups.py plain|muster ADDRESS")
    if sys.argv[1] == "plain":
        plain(sys.argv[2])
    else:
        trio.run(with_muster, sys.argv[2])
