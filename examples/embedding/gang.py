"""A gang of three that has room, and a gang of four that waits for room and times out."""

import trio
from trio.testing import MockClock

import muster


async def train(scheduler: muster.Scheduler, name: str, workers: int) -> None:
    gang = await scheduler.add_gang(name, workers, mode="NonStrict", wait_time="5m")
    app = await scheduler.add_app(name, "root.research")
    asks = await app.add_asks("worker", {"gpu": 1}, count=workers, gang=name)
    try:
        await gang.satisfied()
    except muster.GangTimedOutError as error:
        print(f"{trio.current_time():3.0f} s: {error}")
        await app.remove()
        return
    nodes = [(await ask.bound()).node for ask in asks]
    print(f"{trio.current_time():3.0f} s: {name} has {', '.join(nodes)}")


async def main() -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.add_node("gpu-1", {"gpu": 2})
        await scheduler.add_node("gpu-2", {"gpu": 2})
        await train(scheduler, "small", 3)
        await train(scheduler, "large", 4)


trio.run(main, clock=MockClock(autojump_threshold=0))
