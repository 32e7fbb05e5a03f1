"""An observer that is fast enough, and one that is not."""

import trio

import muster


async def show(decisions: muster.Decisions) -> None:
    async for announced in decisions:
        decision = announced.decision
        print(decision.kind, decision.ask, decision.node, decision.reason or "")


async def main() -> None:
    async with trio.open_nursery() as nursery, muster.open_scheduler() as scheduler:
        binds = scheduler.decisions(kinds={"bound", "released"}, queue="root.batch")
        nursery.start_soon(show, binds)
        sleepy = scheduler.decisions(app="report", buffer=4, lag=muster.Lag.SKIP)

        await scheduler.add_node("node-1", {"vcore": 2})
        report = await scheduler.add_app("report", "root.batch")
        await report.add_asks("part", {"vcore": 1}, count=2)
        await scheduler.release("report", "part-0")
    # The scheduler is closed, so `show` has ended. `sleepy` can still read its buffer.
    last = await sleepy.take()
    print(f"{sleepy.missed} missed, then {', '.join(one.decision.kind for one in last)}")


trio.run(main)
