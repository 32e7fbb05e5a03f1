"""A service on asyncio: the same names, with the same types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, assert_type, final

import muster
import muster.asyncio
from muster.testing import Recording
from muster_core.events import Release


@final
class Containers:
    """A binder."""

    async def run(self, allocation: muster.asyncio.Allocation, started: Callable[[], None]) -> None:
        """Start the work, say so, and come back when it has ended."""
        await asyncio.sleep(1)
        started()
        try:
            await asyncio.sleep(10)
        finally:
            assert_type(allocation.ending, muster.Reason | Literal["closing"] | None)
            assert_type(allocation.message, str | None)

    async def resume(
        self, allocation: muster.asyncio.Allocation, started: Callable[[], None]
    ) -> None:
        """Find the work again."""
        raise LookupError(allocation.ask)


async def set_up(scheduler: muster.asyncio.Scheduler) -> None:
    """Nodes, configuration and classes."""
    assert_type(await scheduler.configure(Path("queues.yaml"), partition="default"), None)
    await scheduler.add_priority_class("top", 2000, preemption_policy="PreemptLowerPriority")
    await scheduler.set_usage("root.a", {"vcore": 7200}, user="alice")
    await scheduler.add_node("a", {"vcore": 4, "memory": "16Gi"}, attributes={"zone": "1"})
    await scheduler.update_node("a", schedulable=False)
    await scheduler.remove_node("a")
    await scheduler.apply({"kind": "PodGroup", "metadata": {"name": "g"}})
    await scheduler.delete("kind: PodGroup\nmetadata: {name: g}")
    await scheduler.submit({"op": "release", "app": "app", "ask": "one"})
    refusals = await scheduler.submit_many([Release("app", "one")])
    assert_type(refusals, tuple[muster.RefusedError | None, ...])


async def ask(scheduler: muster.asyncio.Scheduler) -> None:
    """Applications, asks and gangs."""
    app = await scheduler.add_app("app", "root.team", user="u", groups=["g"], tags={"k": "v"})
    await scheduler.add_app("placed", user="u")
    assert_type(app, muster.asyncio.Application)
    assert_type(app.name, str)
    assert_type(await app.add_ask("one", {"vcore": 1}, priority=5), muster.asyncio.Ask)
    options: muster.AskOptions = {"node": "a", "run_for": "90s"}
    many = await app.add_asks("many", {"vcore": 1}, count=3, **options)
    assert_type(many, tuple[muster.asyncio.Ask, ...])
    assert_type(app.ask("one"), muster.asyncio.Ask)
    await app.remove()
    assert_type(await scheduler.add_ask("app", "two", {"vcore": 1}), muster.asyncio.Ask)
    assert_type(
        await scheduler.add_asks("app", "x", {"vcore": 1}, 2), tuple[muster.asyncio.Ask, ...]
    )
    assert_type(scheduler.app("app"), muster.asyncio.Application)
    assert_type(scheduler.ask("app", "one"), muster.asyncio.Ask)
    await scheduler.remove_ask("app", "two")
    await scheduler.release("app", "one")
    await scheduler.release("app", "two", outcome="failed", message="why")
    await scheduler.remove_app("app")

    gang = await scheduler.add_gang("train", 2, total=4, mode="Strict", wait_time=300)
    await scheduler.add_gang("web", 2, topology={"spread": "zone", "max": 1})
    assert_type(gang, muster.asyncio.Gang)
    assert_type(gang.name, str)
    assert_type(await gang.satisfied(), None)
    await gang.remove()
    assert_type(scheduler.gang("train"), muster.asyncio.Gang)
    await scheduler.remove_gang("train")


async def work(wanted: muster.asyncio.Ask) -> None:
    """Hold what an ask is given, for as long as it lasts."""
    assert_type((wanted.app, wanted.name), tuple[str, str])
    assert_type(await wanted.why(), muster.Explanation | None)
    allocation = await wanted.bound()
    assert_type(allocation, muster.asyncio.AsyncioAllocation)
    assert_type((allocation.app, allocation.ask, allocation.node), tuple[str, str, str])
    assert_type((allocation.queue, allocation.gang), tuple[str, str | None])
    assert_type(allocation.resources, muster.Resources)
    try:
        async with allocation.running() as nothing:
            assert_type(nothing, None)
    except muster.AllocationEndedError as error:
        assert_type(error.reason, muster.Reason)
    assert_type(await allocation.release(), bool)
    assert_type(await allocation.release("failed", message="exit status 1"), bool)
    assert_type(await allocation.ended(), muster.Reason)
    await wanted.remove()


async def watch(scheduler: muster.asyncio.Scheduler) -> None:
    """Decisions, and the state."""
    observer = scheduler.decisions(kinds={"bound"}, queue="root.team", lag=muster.Lag.SKIP)
    assert_type(observer, muster.asyncio.Decisions)
    async with observer:
        async for announced in observer:
            assert_type(announced, muster.Announced)
        assert_type(await observer.take(), Sequence[muster.Announced])
        assert_type(observer.missed, int)
    observer.close()
    await scheduler.settle()
    assert_type(await scheduler.asks(state="bound"), tuple[muster.asyncio.Ask, ...])
    await scheduler.checkpoint()
    assert_type(await scheduler.snapshot(), muster.Snapshot)
    assert_type(scheduler.statistics(), muster.Statistics)
    await scheduler.examine(lambda examined: None)


async def main() -> None:
    """Open it, do all of it, and close it."""
    binder: muster.asyncio.Binder = Containers()
    resuming: muster.asyncio.ResumingBinder = Containers()
    opened = muster.asyncio.open_scheduler(
        Path("queues.yaml"),
        mode=muster.asyncio.Mode.GUEST,
        binder=binder,
        bind_timeout=5,
        bind_attempts=None,
        journal=Recording(),
    )
    several: AbstractAsyncContextManager[muster.asyncio.Scheduler] = opened
    async with several as scheduler:
        assert_type(scheduler, muster.asyncio.Scheduler)
        await asyncio.gather(set_up(scheduler), ask(scheduler), watch(scheduler))
        await work(scheduler.ask("app", "one"))
    async with muster.asyncio.open_scheduler(mode="thread", binder=resuming):
        pass


if __name__ == "__main__":
    asyncio.run(main())
