"""A binder in asyncio, which learns why its work ends."""

import asyncio
from collections.abc import Callable

import muster
import muster.asyncio


class Tasks:
    """Does the work of asks in the program's loop."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Do the work of an allocation."""
        print(f"{allocation.ask} runs on {allocation.node}")
        started()
        try:
            await asyncio.sleep(3600 if allocation.ask == "long" else 0.01)  # the work
        except asyncio.CancelledError:
            print(f"{allocation.ask} is stopped: {allocation.ending}")
            raise
        print(f"{allocation.ask} is done")


async def main() -> None:
    async with muster.asyncio.open_scheduler(binder=Tasks()) as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})
        report = await scheduler.add_app("report", "root.batch")
        short = await report.add_ask("short", {"vcore": 1})
        await (await short.bound()).ended()

        long = await report.add_ask("long", {"vcore": 1})
        await long.bound()
        await scheduler.remove_node("node-1")  # the ask is pending again
        await scheduler.add_node("node-2", {"vcore": 1})
        await long.bound()


asyncio.run(main())
