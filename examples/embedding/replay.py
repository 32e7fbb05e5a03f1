"""Record what a scheduler gets, and replay it in a simulation."""

import trio
from trio.testing import MockClock

import muster
from muster.testing import Inputs, Recording


async def main() -> None:
    record, log = Inputs(), Recording()
    async with muster.open_scheduler(record=record, journal=log) as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})
        report = await scheduler.add_app("report", "root.batch")
        first, second = await report.add_asks("part", {"vcore": 1}, count=2, run_for=90)
        await first.bound()
        print(f"the first one at {trio.current_time():g} s")
        await second.bound()
        print(f"the second one at {trio.current_time():g} s")

    again = await record.replay()
    print(f"{len(log.decisions)} decisions; the same again: {list(again) == log.decisions}")


trio.run(main, clock=MockClock(autojump_threshold=0))
