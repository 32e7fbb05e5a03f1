"""In asyncio: the scheduler runs in a thread, the work in the program's loop."""

import asyncio

import muster
import muster.asyncio


async def work(ask: muster.asyncio.Ask, seconds: float) -> None:
    allocation = await ask.bound()
    try:
        async with allocation.running():
            await asyncio.sleep(seconds)  # the work
            print(f"{ask.name} is done on {allocation.node}")
    except muster.AllocationEndedError as error:
        print(f"{ask.name} was cut short: {error.reason}")


async def main() -> None:
    async with muster.asyncio.open_scheduler() as scheduler, asyncio.TaskGroup() as group:
        await scheduler.add_node("node-1", {"vcore": 1})
        report = await scheduler.add_app("report", "root.batch")
        for ask in await report.add_asks("part", {"vcore": 1}, count=2):
            group.create_task(work(ask, 0.01))


asyncio.run(main())
