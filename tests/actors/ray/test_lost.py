"""Work that was lost from sight is over before its ask begins again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import trio
from trio.testing import MockClock

import muster
from muster import Reason
from muster.ray import Call, RayBinder
from tests.actors.ray.puppets import (
    ONE,
    Puppet,
    Stage,
    asked,
    begun,
    connected,
    followed,
    node,
    passing,
    running,
    scheduled,
)
from tests.actors.ray.test_detached import leave_running, program

pytestmark = pytest.mark.usefixtures("watchdog")

FAST: Final = 20
"""How many virtual seconds are one second."""

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


async def test_a_command_whose_start_was_not_heard_may_run_as_well(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with scheduled(tmp_path, grace_period=GRACE_S, scheduler=LONG) as (
        scheduler,
        agent,
        stage,
    ):
        await asked(scheduler)
        await agent.heard("run")
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
        await agent.heard("cancel")
        killed_at = trio.current_time()
        agent.kill()
        again = await next_agent(stage, mock_clock)
        await asked(scheduler)
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


async def test_work_whose_end_was_heard_is_over(tmp_path: Path, mock_clock: MockClock) -> None:
    async with scheduled(tmp_path, grace_period=1000, scheduler=LONG) as (scheduler, agent, stage):
        allocation = await running(scheduler, agent)
        await agent.say("ended", id=1, status=0, value=None)
        assert await allocation.ended() is Reason.COMPLETED
        agent.kill()
        killed_at = trio.current_time()
        again = await next_agent(stage, mock_clock)
        await asked(scheduler)
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
            runs = [await again.heard("run") for _ in range(2)]
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
                adopted = await stage.agent.heard("adopt")
                await stage.agent.failed(adopted, "not_started")
                await stage.agent.heard("fetched")
            else:
                await stage.agent.heard("end")
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
            await stage.agent.heard("end")
            assert scheduler.ask("a", "k") is not None
            closed_at = trio.current_time()
        assert trio.current_time() < closed_at + 1000
