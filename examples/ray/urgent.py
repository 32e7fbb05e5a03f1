#!/usr/bin/env python3
"""An urgent task behind 32 others of half a second, on four CPUs: ``python urgent.py plain ADDRESS``."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import trio

import muster
import muster.ray

OTHERS = 32
WORK_S = 0.5
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: nightly}
          - {name: people, properties: {preemption.delay: 0s}}
"""


def work() -> float:
    """Work for half a second; return when it began."""
    began_at = time.time()
    while time.time() < began_at + WORK_S:
        time.sleep(0.01)  # a preemption interrupts Python code, but no long sleep
    return began_at


def plain(address: str) -> None:
    ray: Any = importlib.import_module("ray")
    ray.init(address, log_to_driver=False, logging_level="ERROR")
    task = ray.remote(num_cpus=1)(work)
    ray.get([task.remote() for _ in range(4)])  # there are workers now
    others = [task.remote() for _ in range(OTHERS)]
    time.sleep(WORK_S / 2)

    asked_at = time.time()
    print(f"the urgent task has waited {ray.get(task.remote()) - asked_at:.1f} s")
    ray.get(others)


async def with_muster(address: str) -> None:
    began = dict[str, float]()
    runs = list[str]()

    def what(held: muster.Allocation) -> muster.ray.Call:
        runs.append(held.ask)
        return muster.ray.Call(work)

    def done(held: muster.Allocation, result: muster.ray.Result) -> None:
        assert isinstance(result.value, float)
        began[held.ask] = result.value

    async with muster.ray.connect(address, warm=2) as ray:
        binder = muster.ray.RayBinder(ray, what, done=done)
        async with (
            muster.open_scheduler(QUEUES, binder=binder) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(ray.follow, scheduler)
            report = await scheduler.add_app("report", "root.nightly")
            others = await report.add_asks("part", {"vcore": 1}, OTHERS)
            for ask in others[:4]:
                await ask.bound()
            await trio.sleep(WORK_S / 2)

            policy = "PreemptLowerPriority"
            await scheduler.add_priority_class("urgent", 1000, preemption_policy=policy)
            shop = await scheduler.add_app("shop", "root.people")
            asked_at = time.time()
            page = await shop.add_ask("page", {"vcore": 1}, priority_class="urgent")
            await (await page.bound()).ended()
            print(f"the urgent task has waited {began['page'] - asked_at:.1f} s")
            for ask in others:
                while await (await ask.bound()).ended() is not muster.Reason.COMPLETED:
                    pass  # it has made room, and will run again
            print(f"{len(runs) - OTHERS - 1} of the others has made room for it, and ran again")
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in {"plain", "muster"}:
        sys.exit("usage: urgent.py plain|muster ADDRESS")
    if sys.argv[1] == "plain":
        plain(sys.argv[2])
    else:
        trio.run(with_muster, sys.argv[2])
