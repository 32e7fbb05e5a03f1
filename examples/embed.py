"""A scheduler inside a program: an urgent ask preempts other work, which continues later."""

import trio
from trio.testing import MockClock

import muster

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: batch
          - {name: web, properties: {preemption.delay: 10s}}
"""


async def work(ask: muster.Ask, seconds: float) -> None:
    """Do the work of an ask. Start it again after each eviction, until it is done."""
    while True:
        allocation = await ask.bound()
        say(f"{ask.name} runs on {allocation.node}")
        try:
            async with allocation.running():
                await trio.sleep(seconds)  # the work
                say(f"{ask.name} is done")
            return
        except muster.AllocationLostError:  # here: the urgent ask needs the node
            await trio.sleep(1)  # clean up
            say(f"{ask.name} has made room, and waits")


def say(what: str) -> None:
    print(f"{trio.current_time():3.0f} s: {what}")


async def main() -> None:
    async with muster.open_scheduler(QUEUES) as scheduler, trio.open_nursery() as nursery:
        await scheduler.add_node("node-1", {"vcore": 2, "memory": "8Gi"})
        report = await scheduler.add_app("report", "batch")
        for ask in await report.add_asks("part", {"vcore": 2}, count=2):
            nursery.start_soon(work, ask, 60)

        await trio.sleep(5)
        await scheduler.add_priority_class("urgent", 1000, preemption_policy="PreemptLowerPriority")
        shop = await scheduler.add_app("shop", "web")
        page = await shop.add_ask("page", {"vcore": 2}, priority_class="urgent")
        nursery.start_soon(work, page, 20)


trio.run(main, clock=MockClock(autojump_threshold=0))  # time jumps, so that you need not wait
