"""Calls with queues on a cluster of Ray: ``python first.py ADDRESS``."""

import random
import sys

import trio

import muster
from muster.ray import Call, RayBinder, Result, connect

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: batch, resources: {max: {vcore: 1}}}
          - {name: urgent, properties: {priority.offset: "10"}}
"""


def near_pi(seed: int) -> float:
    """Estimate pi; this runs in a worker of Ray."""
    chance = random.Random(seed)
    hits = sum(chance.random() ** 2 + chance.random() ** 2 < 1 for _ in range(100_000))
    return hits / 25_000


async def main(address: str) -> None:
    results: dict[str, float] = {}
    finished = trio.Event()

    def work(held: muster.Allocation) -> Call:
        """Say what is to run for an ask that got a node."""
        return Call(near_pi, (held.number,))

    def done(held: muster.Allocation, result: Result) -> None:
        """Take the result of an ask."""
        results[f"{held.app}/{held.ask}"] = float(str(result.value))
        if len(results) == 5:
            finished.set()

    async with connect(address) as ray:
        binder = RayBinder(ray, work, done=done)
        async with (
            muster.open_scheduler(QUEUES, binder=binder) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(ray.follow, scheduler)
            slow = await scheduler.add_app("night", "batch")
            await slow.add_asks("part", {"vcore": 1}, count=4)  # one at a time: it is the max
            quick = await scheduler.add_app("page", "urgent")
            await quick.add_ask("now", {"vcore": 1})
            await finished.wait()
            nursery.cancel_scope.cancel()
    for name, value in sorted(results.items()):
        print(f"{name}: {value:.2f}")


if __name__ == "__main__":
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "auto")
