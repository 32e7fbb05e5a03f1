"""What a service needs of the program's side: how the connection stands, and ending runs."""

from __future__ import annotations

from math import nan
from pathlib import Path

import pytest
import trio

from muster.ray import Cluster, RayBinder, RayLostError, Survivor
from muster_core.errors import EventError
from tests.actors.ray.puppets import connected, node, running, scheduled
from tests.actors.ray.test_detached import survivor

pytestmark = pytest.mark.usefixtures("watchdog")


def standing(ray: Cluster) -> tuple[bool, int, bool]:
    """Give whether it is connected, how often that was lost, and whether there is trouble."""
    return ray.is_connected, ray.restarts, ray.trouble is not None


async def test_how_the_connection_stands(tmp_path: Path) -> None:
    async with connected(tmp_path) as stage:
        ray = stage.ray
        assert standing(ray) == (True, 0, False)
        stage.agent.kill()
        again = await stage.agents.next()
        assert standing(ray) == (False, 1, True)
        await again.greet()
        await ray.survivors()
        assert standing(ray) == (True, 1, False)


async def test_a_survivor_is_ended_and_waited_for(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("a/k/77"), survivor("a/l/78"))
        first, second = await stage.ray.survivors()
        ended = trio.Event()

        async def end() -> None:
            await stage.ray.end(first, 3)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end)
            assert await stage.agent.heard("end") == {"do": "end", "name": "a/k/77", "grace_s": 3}
            await stage.ray.survivors()  # it is still there
            assert not ended.is_set()
            await stage.agent.leave(survivor("a/l/78"))
            await ended.wait()
        assert await stage.ray.survivors() == (second,)


async def test_a_survivor_cannot_be_ended_without_an_agent(tmp_path: Path) -> None:
    async with connected(tmp_path, node("a1")) as stage:
        await stage.agent.leave(survivor("a/k/77"))
        (found,) = await stage.ray.survivors()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_raises_lost, stage.ray, found)
            await stage.agent.heard("end")
            stage.agent.kill()


async def _raises_lost(ray: Cluster, found: Survivor) -> None:
    with pytest.raises(RayLostError):
        await ray.end(found, 3)


@pytest.mark.parametrize(("closing", "wanted"), [(3.0, 3.0), (20.0, 10.0), (None, 10.0)])
async def test_work_may_take_less_time_to_end_when_the_scheduler_closes(
    tmp_path: Path, closing: float | None, wanted: float
) -> None:
    async with scheduled(tmp_path, closing_grace=closing) as (scheduler, agent, _):
        await running(scheduler, agent)
    heard = [told["heard"] for told in agent.rest if "heard" in told]
    assert [(one["do"], one["grace_s"]) for one in heard] == [("cancel", wanted)]


@pytest.mark.parametrize("closing", [-1.0, nan])
async def test_a_time_that_is_none(tmp_path: Path, closing: float) -> None:
    async with connected(tmp_path) as stage:
        with pytest.raises(EventError, match="closing_grace"):
            RayBinder(stage.ray, lambda _: "true", closing_grace=closing)
