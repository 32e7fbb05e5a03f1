"""Work that outlives the program: left alone, adopted, or ended.

What was lost from sight is over before its ask begins again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

import muster
from muster import Reason
from muster.ray import Call, RayBinder, Result, Survivor
from muster_core.resources import Resources
from tests.actors.ray.puppets import (
    ONE,
    Puppet,
    Stage,
    add_ask,
    begun,
    connected,
    followed,
    node,
    passing,
    running,
    scheduled,
)

pytestmark = pytest.mark.usefixtures("watchdog")

FAST: Final = 20
"""How many virtual seconds are one second."""


def survivor(name: str, **changes: object) -> dict[str, Any]:
    """Return a run of an earlier program, of a core on the node ``a1``."""
    return {
        "name": name,
        "node": "a1",
        "state": "running",
        "cpus": 1.0,
        "gpus": 0.0,
        "memory": 0,
        "resources": {},
        **changes,
    }


@asynccontextmanager
async def program(
    folder: Path,
    stage: Stage,
    *,
    done: list[Result] | None = None,
    **options: Any,  # noqa: ANN401 - those of the binder
) -> AsyncGenerator[muster.Scheduler]:
    """Have a scheduler with a store, whose binder runs detached work."""
    results: list[Result] = [] if done is None else done
    keywords: dict[str, Any] = {"detached": True} | options
    binder = RayBinder(
        stage.ray, lambda _: "true", done=lambda _, result: results.append(result), **keywords
    )
    async with (
        muster.open_scheduler(binder=binder, store=folder / "state") as scheduler,
        followed(stage.ray, scheduler),
    ):
        yield scheduler


async def leave_running(folder: Path) -> str:
    """Let a program end while its work runs, and return the name of the run."""
    async with connected(folder, node("a1")) as stage, program(folder, stage) as scheduler:
        run_of = await running(scheduler, stage.agent)
    return f"a/k/{run_of.number}"


# Left alone, and found again


async def test_a_scheduler_that_closes_leaves_the_work_alone(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage, program(tmp_path, stage) as scheduler:
        await running(scheduler, stage.agent)
    assert stage.agent.rest == [{"end": True}], "and no cancel"


async def test_work_that_was_left_is_adopted_by_its_name(tmp_path: Path) -> None:
    done: list[Result] = []
    name = await leave_running(tmp_path)

    async with (
        connected(tmp_path, node("a1")) as stage,
        program(tmp_path, stage, done=done, grace_period=3) as scheduler,
    ):
        adopted = await stage.agent.expect("adopt")
        assert adopted == {"do": "adopt", "id": 1, "name": name, "grace_s": 3}
        await stage.agent.started(adopted)
        allocation = await scheduler.ask("a", "k").bound()
        await stage.agent.ended(adopted, 4)
        assert await allocation.ended() is Reason.COMPLETED
        assert (await stage.agent.expect("fetched"))["id"] == adopted["id"]
    assert done == [Result(status=4)]


async def test_work_that_is_gone_begins_again(tmp_path: Path, mock_clock: MockClock) -> None:
    name = await leave_running(tmp_path)
    async with connected(tmp_path, node("a1")) as stage, program(tmp_path, stage) as scheduler:
        adopted = await stage.agent.expect("adopt")
        await stage.agent.failed(adopted, "not_started")
        assert (await stage.agent.expect("fetched"))["id"] == adopted["id"]
        mock_clock.rate = FAST
        again = await stage.agent.begin()
        assert again["name"] != name
        allocation = await scheduler.ask("a", "k").bound()
        await stage.agent.ended(again)
        assert await allocation.ended() is Reason.COMPLETED


async def test_work_of_a_binder_that_is_not_detached_begins_again(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    name = await leave_running(tmp_path)
    async with (
        connected(tmp_path, node("a1")) as stage,
        program(tmp_path, stage, detached=False) as scheduler,
    ):
        ended = await stage.agent.expect("end")
        assert ended["name"] == name, "or it would run twice"
        mock_clock.rate = FAST
        again = await stage.agent.begin()
        allocation = await scheduler.ask("a", "k").bound()
        await stage.agent.ended(again)
        assert await allocation.ended() is Reason.COMPLETED


async def test_the_same_agent_goes_on_when_the_scheduler_is_opened_again(tmp_path: Path) -> None:
    done: list[Result] = []
    async with connected(tmp_path, node("a1")) as stage:
        async with program(tmp_path, stage) as scheduler:
            ask = await add_ask(scheduler)
            run = await stage.agent.begin()
            await ask.bound()
        async with program(tmp_path, stage, done=done) as scheduler:
            allocation = await scheduler.ask("a", "k").bound()
            await stage.agent.ended(run, 6)
            assert await allocation.ended() is Reason.COMPLETED
            assert (await stage.agent.expect("fetched"))["id"] == run["id"]
    assert done == [Result(status=6)]


async def test_an_end_that_comes_between_two_schedulers_is_not_lost(tmp_path: Path) -> None:
    done: list[Result] = []
    async with connected(tmp_path, node("a1")) as stage:
        async with program(tmp_path, stage) as scheduler:
            ask = await add_ask(scheduler)
            run = await stage.agent.begin()
            await ask.bound()
        await stage.agent.ended(run, 6)
        await stage.ray.survivors()
        async with program(tmp_path, stage, done=done):
            assert (await stage.agent.expect("fetched"))["id"] == run["id"]
    assert done == [Result(status=6)]


# Ended


async def test_without_a_store_a_scheduler_that_closes_ends_the_work(tmp_path: Path) -> None:
    async with scheduled(tmp_path, detached=True) as (scheduler, agent, _):
        await running(scheduler, agent)
    assert [message.get("received", {}).get("do") for message in agent.rest] == ["cancel", None]


async def test_work_whose_ask_goes_is_ended(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage, program(tmp_path, stage) as scheduler:
        await running(scheduler, stage.agent)
        await scheduler.remove_app("a")
        assert (await stage.agent.expect("cancel"))["id"] == 1
    assert stage.agent.rest == [{"end": True}]


@pytest.mark.parametrize("how", ["work", "lost"])
async def test_work_that_has_failed_is_dropped(tmp_path: Path, how: str) -> None:
    async with scheduled(tmp_path, detached=True, scheduler={"bind_attempts": 1}) as (
        scheduler,
        agent,
        _,
    ):
        ask = await add_ask(scheduler)
        run = await agent.expect("run")
        await agent.failed(run, how)
        with pytest.raises(muster.BindFailedError):
            await ask.bound()
        assert (await agent.expect("fetched"))["id"] == run["id"]


async def test_work_that_was_lost_with_its_agent_is_ended_before_it_begins_again(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, detached=True, grace_period=3) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        agent.kill()
        mock_clock.rate = FAST
        again = await stage.agents.next()
        await again.expect("connect")
        await again.say("connected", ray="2", python="3")
        name = f"a/k/{allocation.number}"
        assert await again.expect("end") == {"do": "end", "name": name, "grace_s": 3}
        await again.expect("follow")
        await again.say("nodes", nodes=[node("a1")])
        run = await again.begin()
        assert run["name"] != name
        await again.ended(run)


async def test_what_nobody_adopts_in_time_is_ended(tmp_path: Path, mock_clock: MockClock) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("b%2Fc/forgot%25ten/3"), survivor("other"))
        async with scheduled_on(stage, adopt_within=60, grace_period=4) as scheduler:
            await pass_time(stage, mock_clock, 59)
            await add_ask(scheduler, "early")
            early = await stage.agent.begin()
            await stage.agent.ended(early)
            assert await stage.agent.expect("fetched")
            await pass_time(stage, mock_clock, 2)

            ended = await stage.agent.expect("end")
            assert ended == {"do": "end", "name": "b%2Fc/forgot%25ten/3", "grace_s": 4}
            assert await stage.ray.survivors() == (), "nobody has to look after it"
            await add_ask(scheduler, "late")
            late = await stage.agent.begin()
            await stage.agent.ended(late)


async def pass_time(stage: Stage, clock: MockClock, seconds: int) -> None:
    """Let time pass, in which the agent beats."""
    for _ in range(seconds):
        clock.jump(1)
        await stage.agent.say("beat")
        await stage.ray.survivors()


@asynccontextmanager
async def scheduled_on(
    stage: Stage,
    **options: Any,  # noqa: ANN401 - those of the binder
) -> AsyncGenerator[muster.Scheduler]:
    """Have a scheduler without a store, whose binder runs detached work."""
    binder = RayBinder(stage.ray, lambda _: "true", detached=True, **options)
    async with (
        muster.open_scheduler(binder=binder) as scheduler,
        followed(stage.ray, scheduler),
    ):
        yield scheduler


# Adopted without a store


async def test_what_an_earlier_program_has_left_is_listed(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1", labels={"name": "n"}), node_name="name") as stage:
        rich = survivor("b/2/5", gpus=2.0, memory=7, resources={"licence": 1.0}, state="ended")
        away = survivor("b/3/6", node="gone", state="placed")
        await stage.agent.leave(survivor("a%2Fb/c%25/4"), rich, away)

        assert await stage.ray.survivors() == (
            Survivor("a/b", "c%", 4, "n", Resources({"vcore": 1000}), "running"),
            Survivor(
                "b",
                "2",
                5,
                "n",
                Resources({"vcore": 1000, "nvidia.com/gpu": 2, "memory": 7, "licence": 1}),
                "ended",
            ),
            Survivor("b", "3", 6, None, Resources({"vcore": 1000}), "placed"),
        )


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "k", "labels": {"applicationId": "a"}},
    "spec": {
        "nodeName": "a1",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    },
}


async def test_an_ask_on_the_same_node_goes_on_with_the_work(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("a/k/77"))
        async with scheduled_on(stage) as scheduler:
            (found,) = await stage.ray.survivors()
            assert (found.app, found.ask, found.node) == ("a", "k", "a1")
            await scheduler.apply(POD)
            adopted = await stage.agent.expect("adopt")
            assert adopted["name"] == "a/k/77"
            await stage.agent.started(adopted)
            allocation = await scheduler.ask("a", "k").bound()
            await stage.agent.ended(adopted)
            assert await allocation.ended() is Reason.COMPLETED


async def test_work_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    silent = survivor("a/k/77", state="silent", node="", cpus=0.0)
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(silent)
        async with scheduled_on(stage) as scheduler:
            (found,) = await stage.ray.survivors()
            assert (found.state, found.node, found.resources) == ("silent", None, Resources())
            await scheduler.apply(POD)
            await stage.agent.order(survivors=[survivor("a/k/77")])
            adopted = await stage.agent.expect("adopt")
            assert adopted["name"] == "a/k/77"
            await stage.agent.started(adopted)
            allocation = await scheduler.ask("a", "k").bound()
            await stage.agent.ended(adopted)
            assert await allocation.ended() is Reason.COMPLETED


async def test_work_that_did_not_answer_and_is_gone_begins_anew(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("a/k/77", state="silent"))
        async with scheduled_on(stage) as scheduler:
            await stage.ray.survivors()
            await stage.agent.order(survivors=[])
            await scheduler.apply(POD)
            run = await stage.agent.begin()
            assert run["name"] != "a/k/77"
            await stage.agent.ended(run)


@pytest.mark.parametrize(
    "changes", [{"node": "a2"}, {"cpus": 2.0}, {"state": "placed"}], ids=["node", "amounts", "gate"]
)
async def test_work_that_is_not_the_same_is_ended_and_begins_again(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    async with connected(tmp_path, node("a1"), node("a2")) as stage:
        await stage.agent.leave(survivor("a/k/77", **changes))
        async with scheduled_on(stage) as scheduler:
            await stage.ray.survivors()
            await scheduler.apply(POD)
            assert (await stage.agent.expect("end"))["name"] == "a/k/77"
            await stage.agent.ended(await stage.agent.begin())


GRACE_S: Final = 50
"""The grace period: an agent, which takes some real time to start, is there sooner."""

LONG: Final[dict[str, Any]] = {"bind_timeout": 1000.0, "bind_attempts": 1}


async def next_agent(stage: Stage, clock: MockClock, *nodes: str) -> Puppet:
    """Let time pass until there is another agent, which lists nodes."""
    clock.rate = FAST
    agent = await stage.agents.next()
    await agent.greet(*(node(name) for name in nodes or ("a1",)))
    return agent


async def test_a_command_has_its_grace_period_after_its_agent(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, grace_period=GRACE_S, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        allocation = await running(scheduler, agent)
        killed_at = trio.current_time()
        agent.kill()
        assert await allocation.ended() is Reason.NODE_LOST
        again = await next_agent(stage, mock_clock)
        assert trio.current_time() < killed_at + GRACE_S
        run = await begun(stage, mock_clock, again)

        assert killed_at + GRACE_S + 1 < trio.current_time()
        await again.ended(run)


async def test_a_command_whose_start_was_not_reported_may_run_as_well(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, grace_period=GRACE_S, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        await add_ask(scheduler)
        await agent.expect("run")
        killed_at = trio.current_time()
        agent.kill()
        again = await next_agent(stage, mock_clock)
        await again.ended(await begun(stage, mock_clock, again))

        assert killed_at + GRACE_S + 1 < trio.current_time()


async def test_a_command_that_is_being_evicted_has_its_grace_period_too(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, grace_period=GRACE_S, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        await agent.order(cancels=False)
        allocation = await running(scheduler, agent)
        await scheduler.remove_app("a")
        assert await allocation.ended() is Reason.REMOVED
        await agent.expect("cancel")
        killed_at = trio.current_time()
        agent.kill()
        again = await next_agent(stage, mock_clock)
        await add_ask(scheduler)
        await again.ended(await begun(stage, mock_clock, again))

        assert killed_at + GRACE_S + 1 < trio.current_time()


async def test_a_callable_dies_with_its_agent(tmp_path: Path, mock_clock: MockClock) -> None:
    async with scheduled(tmp_path, Call(print), grace_period=1000, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        await running(scheduler, agent)
        killed_at = trio.current_time()
        agent.kill()
        again = await next_agent(stage, mock_clock)
        await again.ended(await begun(stage, mock_clock, again))

        assert trio.current_time() < killed_at + 900


async def test_work_whose_end_was_reported_is_over(tmp_path: Path, mock_clock: MockClock) -> None:
    async with scheduled(tmp_path, grace_period=1000, scheduler=LONG) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        await agent.say("ended", id=1, status=0, value=None)
        assert await allocation.ended() is Reason.COMPLETED
        agent.kill()
        killed_at = trio.current_time()
        again = await next_agent(stage, mock_clock)
        await add_ask(scheduler)
        await again.ended(await begun(stage, mock_clock, again))

        assert trio.current_time() < killed_at + 900


async def test_the_grace_period_begins_when_the_agent_has_ended(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, grace_period=GRACE_S, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        await agent.order(stays=True)
        allocation = await running(scheduler, agent)
        await agent.order(beats=False)
        silent_at = trio.current_time()
        mock_clock.rate = FAST
        assert await allocation.ended() is Reason.NODE_LOST
        again = await next_agent(stage, mock_clock)
        await again.ended(await begun(stage, mock_clock, again))

        # It is lost after ten seconds of silence, and killed after ten more.
        assert silent_at + 10 + 10 + GRACE_S < trio.current_time()


async def test_without_a_follower_the_ask_stays_bound_meanwhile(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        binder = RayBinder(stage.ray, lambda _: "true", grace_period=GRACE_S)
        async with muster.open_scheduler(binder=binder, bind_attempts=1) as scheduler:
            await scheduler.add_node("a1", ONE)
            allocation = await running(scheduler, stage.agent)
            killed_at = trio.current_time()
            stage.agent.kill()
            again = await next_agent(stage, mock_clock)
            assert allocation.ending is None
            await again.ended(await begun(stage, mock_clock, again))

            assert await allocation.ended() is Reason.BIND_FAILED
            assert killed_at + GRACE_S + 1 < trio.current_time()


async def test_an_ask_that_waits_for_longer_than_a_start_may_take_is_not_to_blame(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    short: dict[str, Any] = {"bind_timeout": 20.0, "bind_attempts": 1}
    async with scheduled(tmp_path, grace_period=GRACE_S, scheduler=short) as (
        scheduler,
        agent,
        stage,
    ):
        await running(scheduler, agent)
        killed_at = trio.current_time()
        agent.kill()
        again = await next_agent(stage, mock_clock)
        await again.ended(await begun(stage, mock_clock, again))

        assert killed_at + GRACE_S + 1 < trio.current_time()


async def test_members_of_a_gang_begin_together_again(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    def work(held: muster.Allocation) -> Call | str:
        return Call(print) if held.ask == "m-0" else "true"

    async with scheduled(
        tmp_path, work, nodes=2, grace_period=GRACE_S, scheduler={"bind_timeout": 1000.0}
    ) as (scheduler, agent, stage):
        await scheduler.add_gang("g", 2)
        app = await scheduler.add_app("a", "root.q")
        asks = await app.add_asks("m", {"vcore": 2}, 2, gang="g")
        for _ in range(2):
            await agent.begin()
        for ask in asks:
            await ask.bound()
        agent.kill()
        again = await next_agent(stage, mock_clock, "a1", "a2")
        async with passing(stage, mock_clock):
            runs = [await again.expect("run") for _ in range(2)]
        gates = [run["gate"] for run in runs]
        assert gates[0] is not None, "no member begins alone"
        assert gates[0] == gates[1]
        for run in runs:
            await again.started(run)
            await again.ended(run)
        for ask in asks:
            assert await (await ask.bound()).ended() is Reason.COMPLETED


@pytest.mark.parametrize("is_over", [False, True], ids=["bound", "over"])
async def test_a_scheduler_that_closes_waits_no_longer_than_it_may(
    tmp_path: Path, mock_clock: MockClock, is_over: bool
) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        binder = RayBinder(stage.ray, lambda _: "true", grace_period=10_000, closing_grace=3)
        async with muster.open_scheduler(binder=binder) as scheduler:
            if is_over:
                async with followed(stage.ray, scheduler):
                    allocation = await running(scheduler, stage.agent)
                    stage.agent.kill()
                    assert await allocation.ended() is Reason.NODE_LOST
                    mock_clock.rate = FAST
                    await trio.sleep(20)
                    closed_at = trio.current_time()
            else:
                await scheduler.add_node("a1", ONE)
                allocation = await running(scheduler, stage.agent)
                stage.agent.kill()
                mock_clock.rate = FAST
                await trio.sleep(20)
                assert allocation.ending is None
                closed_at = trio.current_time()
        assert closed_at + 2 < trio.current_time() < closed_at + 1000


async def test_an_endless_grace_period_is_not_waited_for(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    endless = float("inf")
    async with scheduled(tmp_path, grace_period=endless, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        await running(scheduler, agent)
        agent.kill()
        again = await next_agent(stage, mock_clock)
        await again.ended(await begun(stage, mock_clock, again))


# The work of an earlier program


@pytest.mark.parametrize("detached", [False, True])
async def test_work_of_an_earlier_program_has_its_grace_period(
    tmp_path: Path, mock_clock: MockClock, detached: bool
) -> None:
    await leave_running(tmp_path)
    mock_clock.rate = FAST
    async with connected(tmp_path, node("a1")) as stage:
        opened_at = trio.current_time()
        async with program(tmp_path, stage, detached=detached, grace_period=20) as scheduler:
            if detached:  # and the earlier program was not
                adopted = await stage.agent.expect("adopt")
                await stage.agent.failed(adopted, "not_started")
                await stage.agent.expect("fetched")
            else:
                await stage.agent.expect("end")
            run = await begun(stage, mock_clock, stage.agent)
            assert opened_at + 20 + 1 < trio.current_time()
            allocation = await scheduler.ask("a", "k").bound()
            await stage.agent.ended(run)
            assert await allocation.ended() is Reason.COMPLETED


async def test_an_earlier_program_does_not_hold_one_that_closes(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    await leave_running(tmp_path)
    mock_clock.rate = FAST
    async with connected(tmp_path, node("a1")) as stage:
        async with program(
            tmp_path, stage, detached=False, grace_period=10_000, closing_grace=3
        ) as scheduler:
            await stage.agent.expect("end")
            assert scheduler.ask("a", "k") is not None
            closed_at = trio.current_time()
        assert trio.current_time() < closed_at + 1000
