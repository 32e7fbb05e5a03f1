"""A service with a scheduler inside: what every call takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, assert_type

import trio

import muster
from muster import testing
from muster.config_files import parse_configuration, read_configuration
from muster_core.events import AddNode, Outcome, Release
from muster_core.reasons import Fact
from muster_core.snapshots import (
    AppSnapshot,
    AskSnapshot,
    GangSnapshot,
    LimitSnapshot,
    NodeSnapshot,
    QueueSnapshot,
)

QUEUES = "partitions: [{name: default, queues: [{name: root, queues: [{name: team}]}]}]"


async def configure(scheduler: muster.Scheduler) -> None:
    """Configure a scheduler in each way that there is."""
    assert_type(await scheduler.configure(QUEUES), None)
    await scheduler.configure(Path("queues.yaml"), partition="default")
    await scheduler.configure(parse_configuration(QUEUES))
    await scheduler.configure(read_configuration("queues.yaml"))
    await scheduler.configure({"partitions": [{"name": "default"}]})
    await scheduler.add_priority_class("high", 1000)
    await scheduler.set_usage("root.a", {"vcore": 7200, "memory": "1Ti"}, user="alice")
    await scheduler.add_priority_class("top", 2000, preemption_policy="PreemptLowerPriority")


async def nodes(scheduler: muster.Scheduler) -> None:
    """Amounts are written as in a feed, or in base units."""
    assert_type(await scheduler.add_node("a", {"vcore": 4, "memory": "16Gi"}), None)
    await scheduler.add_node("b", muster.Resources({"vcore": 4000}))
    await scheduler.add_node("c", {"vcore": 0.5}, attributes={"zone": "1"}, schedulable=False)
    await scheduler.add_node("d", {}, devices={"gpu": {"count": 4, "model": "A100"}, "nic": 2})
    await scheduler.update_node("d", devices={"gpu": 2})
    await scheduler.update_node("c", capacity={"vcore": 1}, attributes={}, schedulable=True)
    await scheduler.remove_node("c")


async def applications(scheduler: muster.Scheduler) -> None:
    """An application gives asks, and these give allocations."""
    app = await scheduler.add_app("app", "root.team", user="u", groups=["g"], tags={"k": "v"})
    await scheduler.add_app("placed", user="u")
    assert_type(app, muster.Application)
    assert_type(app.name, str)
    ask = await app.add_ask("one", {"vcore": 1}, priority=5, selector={"zone": "1"}, node="a")
    assert_type(ask, muster.Ask)
    many = await app.add_asks("many", {"vcore": 1}, 3, priority_class="high", run_for="1m30s")
    assert_type(many, tuple[muster.Ask, ...])
    assert_type(app.ask("one"), muster.Ask)
    assert_type(await app.remove(), None)

    assert_type(scheduler.app("app"), muster.Application)
    assert_type(scheduler.ask("app", "one"), muster.Ask)
    options: muster.AskOptions = {"run_for": 2.5, "priority": None, "retries": 3}
    assert_type(await scheduler.add_ask("app", "two", {"vcore": 1}, **options), muster.Ask)
    assert_type(await scheduler.add_asks("app", "x", {"gpu": 1}, 2), tuple[muster.Ask, ...])
    await scheduler.remove_ask("app", "two")
    await scheduler.release("app", "one")
    assert_type(await scheduler.release("app", "two", outcome="failed", message="why"), None)
    await scheduler.remove_app("app")


def why(explanation: muster.Explanation) -> None:
    """Look into what keeps an ask from running."""
    assert_type(explanation.outlook, muster.Outlook | None)
    assert_type(explanation.shortfalls, tuple[muster.Shortfall, ...])
    if explanation.outlook is not None:
        assert_type(explanation.outlook.forecast, muster.Forecast | None)
        assert_type(explanation.outlook.reserved, muster.Reserved | None)
    assert_type((explanation.app, explanation.ask, explanation.queue), tuple[str, str, str])
    assert_type((explanation.place, explanation.since_us), tuple[muster.AskPlace, int])
    assert_type(explanation.reasons, tuple[muster.PendingReason, ...])
    assert_type(explanation.dominant, muster.PendingReason)
    assert_type(explanation.first, str | None)
    for reason in explanation.reasons:
        assert_type((reason.code, reason.message), tuple[muster.Code, str])
        assert_type(reason.facts.get("left_us"), Fact | None)
    for level in explanation.levels:
        assert_type(level, muster.Level)
        assert_type((level.at, level.own, level.other), tuple[str, str, str])
        for key in level.keys:
            assert_type(key, muster.ComparedKey)
            assert_type((key.name, key.own, key.other, key.decides), tuple[str, str, str, bool])


async def work(ask: muster.Ask) -> None:
    """Hold what an ask is given, for as long as it lasts."""
    assert_type(ask.app, str)
    assert_type(ask.name, str)
    explanation = await ask.why()
    assert_type(explanation, muster.Explanation | None)
    if explanation is not None:
        why(explanation)
    allocation = await ask.bound()
    assert_type(allocation, muster.TrioAllocation)
    either: muster.Allocation = allocation
    assert_type(either.ending, muster.Reason | Literal["closing"] | None)
    assert_type(either.message, str | None)
    assert_type((allocation.app, allocation.ask), tuple[str, str])
    assert_type((allocation.node, allocation.queue), tuple[str, str])
    assert_type(allocation.gang, str | None)
    assert_type(allocation.resources, muster.Resources)
    assert_type(allocation.resources["vcore"], int)
    assert_type(allocation.devices, Mapping[str, tuple[int, ...]])
    lasting: AbstractAsyncContextManager[trio.CancelScope] = allocation.running()
    try:
        async with lasting as scope:
            assert_type(scope, trio.CancelScope)
    except muster.PreemptedError as error:
        assert_type(error.reason, muster.Reason)
    except muster.AllocationLostError as error:
        assert_type(error.reason, muster.Reason)
    except muster.AllocationEndedError as error:
        assert_type(error.reason, muster.Reason)
    assert_type(await allocation.release(), bool)
    assert_type(await allocation.release(outcome="failed", message="exit status 1"), bool)
    await allocation.release(Outcome.COMPLETED)
    assert_type(await allocation.ended(), muster.Reason)
    await ask.remove()


async def gangs(scheduler: muster.Scheduler) -> None:
    """A gang, defined in both ways, and waited for."""
    gang = await scheduler.add_gang(
        "train", 2, total=4, mode="Strict", wait_time="5m", groups=["train", "eval"], user="olga"
    )
    assert_type(gang, muster.Gang)
    assert_type(gang.name, str)
    await scheduler.add_ask("app", "w", {"gpu": 1}, gang="train", annotations={"k": "v"})
    await scheduler.add_ask("app", "v", {}, devices={"gpu": {"milli": 250}})
    try:
        assert_type(await gang.satisfied(), None)
    except (muster.GangTimedOutError, muster.GangRemovedError):
        await gang.remove()
    assert_type(scheduler.gang("train"), muster.Gang)
    await scheduler.remove_gang("train")
    await scheduler.apply({"kind": "PodGroup", "metadata": {"name": "g"}})
    await scheduler.apply(Path("pods.yaml"))
    await scheduler.delete("kind: PodGroup\nmetadata: {name: g}")


async def events(scheduler: muster.Scheduler) -> None:
    """Events go in as objects, or as maps as in a feed."""
    assert_type(await scheduler.submit(Release("app", "one")), None)
    await scheduler.submit({"op": "release", "app": "app", "ask": "one"})
    refusals = await scheduler.submit_many(
        [
            AddNode("d", muster.Resources({"vcore": 1000})),
            {"op": "remove_node", "node": "d"},
        ]
    )
    assert_type(refusals, tuple[muster.RefusedError | None, ...])


async def watch(scheduler: muster.Scheduler) -> None:
    """Read decisions, one by one or all that are there."""
    observer = scheduler.decisions(
        kinds={muster.Kind.BOUND, "released"},
        app="app",
        queue="root.team",
        gang="train",
        where=lambda announced: announced.decision.node == "a",
        buffer=16,
        lag=muster.Lag.SKIP,
    )
    assert_type(observer, muster.Decisions)
    async with observer as entered:
        assert_type(entered, muster.Decisions)
        async for announced in observer:
            assert_type(announced, muster.Announced)
            assert_type((announced.seq, announced.at_us), tuple[int, int])
            assert_type(announced.as_map(), dict[str, object])
            decision = announced.decision
            assert_type(decision, muster.Decision)
            assert_type(decision.kind, muster.Kind)
            assert_type(decision.reason, muster.Reason | None)
        assert_type(await observer.take(), Sequence[muster.Announced])
        assert_type(observer.missed, int)
    observer.close()
    try:
        await scheduler.decisions(lag="drop").take()
    except muster.LaggedError as error:
        assert_type(error.missed, int)


async def look(scheduler: muster.Scheduler) -> None:
    """Look at the state."""
    assert_type(await scheduler.settle(), None)
    assert_type(await scheduler.asks(queue="root"), tuple[muster.Ask, ...])
    await scheduler.checkpoint()
    snapshot = await scheduler.snapshot()
    assert_type(snapshot, muster.Snapshot)
    assert_type(snapshot.apps["app"], AppSnapshot)
    assert_type(snapshot.apps["app"].asks, tuple[AskSnapshot, ...])
    assert_type(snapshot.apps["app"].asks[0].place, muster.AskPlace)
    assert_type(snapshot.queues["root"], QueueSnapshot)
    assert_type(snapshot.nodes["a"], NodeSnapshot)
    assert_type(snapshot.gangs["default/train"], GangSnapshot)
    assert_type(snapshot.limits, tuple[LimitSnapshot, ...])
    statistics = scheduler.statistics()
    assert_type(statistics, muster.Statistics)
    assert_type((statistics.bound, statistics.batches), tuple[int, int])
    await testing.check(scheduler)
    await scheduler.examine(lambda examined: None)


async def errors(scheduler: muster.Scheduler) -> None:
    """Tell the errors apart."""
    try:
        await work(scheduler.ask("app", "one"))
    except muster.ConfigError as error:
        assert_type([problem.message for problem in error.problems], list[str])
    except muster.BindFailedError as error:
        assert_type(error.attempts, int)
        assert_type(error.__cause__, BaseException | None)
    except muster.AskFailedError as error:
        assert_type(error.reported, str | None)
    except (muster.AskRemovedError, muster.AskParkedError):
        pass
    except (muster.EventError, muster.RefusedError):
        pass
    except (muster.ClosedSchedulerError, muster.BrokenSchedulerError):
        pass
    except muster.MusterError:
        pass


async def main() -> None:
    """Open it, do all of it, and close it."""
    assert_type(muster.__version__, str)
    opened = muster.open_scheduler(QUEUES, partition="default")
    several: AbstractAsyncContextManager[muster.Scheduler] = opened
    async with several as scheduler:
        assert_type(scheduler, muster.Scheduler)
        for part in (configure, nodes, applications, gangs, events, watch, look, errors):
            await part(scheduler)


if __name__ == "__main__":
    trio.run(main)
