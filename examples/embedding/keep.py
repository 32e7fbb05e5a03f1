"""Keep the state of a scheduler on disk: the second opening goes on where the first one ended."""

from pathlib import Path
from tempfile import TemporaryDirectory

import trio

import muster


async def main(folder: Path) -> None:
    async with muster.open_scheduler(store=folder) as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})
        report = await scheduler.add_app("report", "root.batch")
        await report.add_asks("part", {"vcore": 1}, count=3)

    async with muster.open_scheduler(store=folder) as scheduler:
        print("pending:", *(ask.name for ask in await scheduler.asks(state="pending")))
        for ask in await scheduler.asks(state="bound"):
            allocation = await ask.bound()
            print(f"{ask.name} has {allocation.node}, and is done now")
            await allocation.release()
        print("bound:", *(ask.name for ask in await scheduler.asks(state="bound")))


with TemporaryDirectory() as temporary:  # a service takes a folder that stays
    trio.run(main, Path(temporary))
