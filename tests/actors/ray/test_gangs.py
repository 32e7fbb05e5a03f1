"""Members of a gang that does not begin fail together, and begin together the next time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import muster
from muster import Reason
from tests.actors.ray.puppets import Puppet, node, scheduled

pytestmark = pytest.mark.usefixtures("watchdog")


async def gang(scheduler: muster.Scheduler, size: int, members: int = 0) -> tuple[muster.Ask, ...]:
    """Ask for a gang of members that take a node each."""
    await scheduler.add_gang("g", size)
    app = await scheduler.add_app("a", "root.q")
    return await app.add_asks("m", {"vcore": 2}, members or size, gang="g")


async def begun_together(agent: Puppet, count: int) -> dict[str, dict[str, Any]]:
    """Hear of the runs of members that have one gate; return them by their nodes."""
    runs = [await agent.heard("run") for _ in range(count)]
    gates = {(run["gate"]["name"], run["gate"]["peers"]) for run in runs}
    assert len(gates) == 1
    assert gates.pop()[1] == count
    return {run["node"]: run for run in runs}


async def test_members_that_fail_one_after_the_other_come_again_as_a_whole(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=2, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        stage,
    ):
        asks = await gang(scheduler, 2)
        for _ in range(3):
            runs = await begun_together(agent, 2)
            await agent.failed(runs["a1"], "not_started")
            await stage.ray.survivors()  # it has heard of it
            await agent.failed(runs["a2"], "gate")
        for run in (await begun_together(agent, 2)).values():
            await agent.started(run)
            await agent.ended(run)
        for ask in asks:
            assert await (await ask.bound()).ended() is Reason.COMPLETED


async def test_member_that_lost_its_node_does_not_begin_alone(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        await gang(scheduler, 2)
        runs = await begun_together(agent, 2)
        lost, other = sorted(runs)
        await agent.failed(runs[lost], "node_lost")
        await agent.failed(runs[other], "gate")
        await agent.say("nodes", nodes=[node(one) for one in ("a1", "a2", "a3") if one != lost])
        assert lost not in await begun_together(agent, 2)


async def test_member_that_is_cancelled_at_the_gate_comes_again_with_the_others(
    tmp_path: Path,
) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        await gang(scheduler, 2)
        runs = await begun_together(agent, 2)
        lost, other = sorted(runs)
        await agent.say("nodes", nodes=[node(one) for one in ("a1", "a2", "a3") if one != lost])
        assert (await agent.heard("cancel"))["id"] == runs[lost]["id"]
        await agent.failed(runs[other], "gate")
        assert lost not in await begun_together(agent, 2)


async def test_member_of_a_gang_that_has_begun_comes_again_alone(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=2, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        asks = await gang(scheduler, 2)
        runs = await begun_together(agent, 2)
        for run in runs.values():
            await agent.started(run)
        for ask in asks:
            await ask.bound()
        await agent.failed(runs["a1"], "lost")
        again = await agent.begin()
        assert (again["node"], again["gate"]) == ("a1", None)


async def test_member_that_comes_later_waits_until_the_gang_has_begun(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        stage,
    ):
        await gang(scheduler, 2, members=3)
        runs = list((await begun_together(agent, 2)).values())
        await stage.ray.survivors()
        await agent.started(runs[0])
        later = await agent.heard("run")
        assert later["gate"] is None
        assert later["node"] not in {run["node"] for run in runs}


def group(size: int) -> dict[str, Any]:
    """Give the object of the gang."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": size},
    }


async def test_gang_that_has_become_smaller_begins(tmp_path: Path) -> None:
    async with scheduled(tmp_path, nodes=3, scheduler={"bind_attempts": None}) as (
        scheduler,
        agent,
        _,
    ):
        await gang(scheduler, 3)
        runs = await begun_together(agent, 3)
        await scheduler.apply(group(2))
        await agent.say("nodes", nodes=[node("a2"), node("a3")])
        assert (await agent.heard("cancel"))["id"] == runs["a1"]["id"]
        for name in ("a2", "a3"):
            await agent.failed(runs[name], "gate")
        assert set(await begun_together(agent, 2)) == {"a2", "a3"}
