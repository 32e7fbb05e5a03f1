"""Ray and Slurm in asyncio, against an agent and commands that do what the test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import muster
from muster import Reason
from muster.asyncio import Mode, Scheduler, open_scheduler
from muster.asyncio.ray import Cluster, RayBinder, connect
from muster.asyncio.slurm import Slurm, SlurmBinder, connect as connect_slurm
from muster.ray import RayUnreachableError, Result
from muster.slurm import JobResult, SlurmError
from tests.actors.asyncio.program import both_modes, run
from tests.actors.ray.puppets import ONE, Puppet, agents, node
from tests.actors.slurm.conftest import FakeSlurm, fake_slurm

pytestmark = pytest.mark.usefixtures("watchdog")

LONG_S = 60.0
"""How long to wait for anything, in seconds; only a failing test waits so long."""

Script = Callable[[Puppet], Awaitable[None]]


@asynccontextmanager
async def played(folder: Path, script: Script) -> AsyncGenerator[None]:
    """Let an agent do what a script says, once it has listed a node and is followed."""
    ready = threading.Event()

    async def play() -> None:
        async with agents(folder) as them:
            ready.set()
            agent = await them.next()
            await agent.greet(node("a1"))
            await agent.expect("follow")
            await script(agent)
            assert (await agent.next()).get("end"), "the program says nothing more"

    playing = asyncio.create_task(asyncio.to_thread(trio.run, play))
    await asyncio.to_thread(ready.wait, LONG_S)
    yield
    await playing


@asynccontextmanager
async def cluster_nodes(cluster: Cluster, scheduler: Scheduler) -> AsyncGenerator[None]:
    """Follow the nodes during a block, which begins when they are there."""
    there = asyncio.Event()
    following = asyncio.create_task(cluster.follow(scheduler, started=there.set))
    await there.wait()
    yield
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


@both_modes
def test_work_is_run_and_judged_in_the_loop(tmp_path: Path, mode: Mode) -> None:
    seen: list[object] = []

    def work(allocation: muster.Allocation) -> str:
        seen.append(threading.current_thread())
        return f"echo {allocation.ask}"

    def done(allocation: muster.Allocation, result: Result) -> None:
        seen.append((allocation.ask, result, threading.current_thread()))

    async def script(agent: Puppet) -> None:
        begun = await agent.begin()
        assert begun["work"]["run"] == "echo k"
        await agent.ended(begun, 4)

    async def main() -> None:
        async with (
            played(tmp_path, script),
            connect(str(tmp_path / "socket"), python=str(tmp_path / "python")) as ray,
            open_scheduler(mode=mode, binder=RayBinder(ray, work, done=done)) as scheduler,
            cluster_nodes(ray, scheduler),
        ):
            await scheduler.add_app("a", "root.q")
            ask = await scheduler.add_ask("a", "k", ONE)
            allocation = await ask.bound()
            assert allocation.node == "a1"
            assert await allocation.ended() is Reason.COMPLETED

    run(main)
    here = threading.main_thread()
    assert seen == [here, ("k", Result(status=4), here)]


def test_work_whose_ask_goes_is_cancelled(tmp_path: Path) -> None:
    async def script(agent: Puppet) -> None:
        begun = await agent.begin()
        assert (await agent.expect("cancel"))["id"] == begun["id"]

    async def main() -> None:
        async with (
            played(tmp_path, script),
            connect(str(tmp_path / "socket"), python=str(tmp_path / "python")) as ray,
            open_scheduler(binder=RayBinder(ray, lambda _: "true")) as scheduler,
            cluster_nodes(ray, scheduler),
        ):
            await scheduler.add_app("a", "root.q")
            allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
            await scheduler.remove_app("a")
            assert await allocation.ended() is Reason.REMOVED

    run(main)


def test_work_that_done_judges_as_failed_has_failed(tmp_path: Path) -> None:
    def done(_: muster.Allocation, result: Result) -> None:
        raise muster.WorkFailedError(f"exit status {result.status}")

    is_bound = threading.Event()

    async def script(agent: Puppet) -> None:
        begun = await agent.begin()
        await trio.to_thread.run_sync(is_bound.wait, LONG_S)
        await agent.ended(begun, 9)

    async def main() -> None:
        async with (
            played(tmp_path, script),
            connect(str(tmp_path / "socket"), python=str(tmp_path / "python")) as ray,
            open_scheduler(binder=RayBinder(ray, lambda _: "true", done=done)) as scheduler,
            cluster_nodes(ray, scheduler),
        ):
            await scheduler.add_app("a", "root.q")
            allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
            is_bound.set()
            assert await allocation.ended() is Reason.FAILED

    run(main)


def test_the_end_of_detached_work_is_dropped_when_it_is_kept(tmp_path: Path) -> None:
    async def script(agent: Puppet) -> None:
        begun = await agent.begin()
        assert begun["detached"]
        await agent.ended(begun)
        assert (await agent.expect("fetched"))["id"] == begun["id"]

    async def main() -> None:
        async with (
            played(tmp_path, script),
            connect(str(tmp_path / "socket"), python=str(tmp_path / "python")) as ray,
            open_scheduler(
                binder=RayBinder(ray, lambda _: "true", detached=True), store=tmp_path / "state"
            ) as scheduler,
            cluster_nodes(ray, scheduler),
        ):
            await scheduler.add_app("a", "root.q")
            allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
            assert await allocation.ended() is Reason.COMPLETED

    run(main)


def test_a_run_without_a_binder(tmp_path: Path) -> None:
    begun: list[object] = []

    async def script(agent: Puppet) -> None:
        await agent.ended(await agent.begin(), 3)

    async def main() -> None:
        async with (
            played(tmp_path, script),
            connect(str(tmp_path / "socket"), python=str(tmp_path / "python")) as ray,
            open_scheduler() as scheduler,
            cluster_nodes(ray, scheduler),
        ):
            await scheduler.add_app("a", "root.q")
            allocation = await (await scheduler.add_ask("a", "k", ONE)).bound()
            async with allocation.running():
                result = await ray.run(
                    allocation, "exit 3", started=lambda: begun.append(threading.current_thread())
                )
            assert result == Result(status=3)

    run(main)
    assert begun == [threading.main_thread()]


def test_where_no_ray_is_the_error_is_that_of_trio(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(RayUnreachableError, match="cannot be started"):
            async with connect("x", python=str(tmp_path / "nothing")):
                pass

    run(main)


AMOUNTS: dict[str, int | float | str] = {"vcore": 1, "memory": "1Mi"}

fake = pytest.fixture(fake_slurm)


@asynccontextmanager
async def slurm_nodes(slurm: Slurm, scheduler: Scheduler) -> AsyncGenerator[None]:
    """Follow the nodes during a block, which begins when they are there."""
    there = asyncio.Event()
    following = asyncio.create_task(slurm.follow(scheduler, started=there.set))
    await there.wait()
    yield
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


@both_modes
def test_jobs_are_run_and_judged_in_the_loop(fake: FakeSlurm, mode: Mode) -> None:
    results: list[tuple[str, int, bool]] = []
    here = threading.get_ident()

    def work(held: muster.Allocation) -> str:
        assert threading.get_ident() == here
        if held.ask == "bad":
            raise ValueError("no command for this one")
        return "true"

    def done(held: muster.Allocation, result: JobResult) -> None:
        results.append((held.ask, result.status, threading.get_ident() == here))

    async def main() -> None:
        async with connect_slurm(every=0.05) as slurm:
            binder = SlurmBinder(slurm, work, done=done, grace_period=0.1, closing_grace=0.05)
            assert (slurm.is_connected, slurm.trouble) == (True, None)
            async with (
                open_scheduler(binder=binder, bind_attempts=1, mode=mode) as scheduler,
                slurm_nodes(slurm, scheduler),
            ):
                app = await scheduler.add_app("a", "root.q")
                ask = await app.add_ask("x", AMOUNTS)
                await until(lambda: len(fake.jobs) == 1)
                fake.job(1, job_state="RUNNING", nodes="n1")
                held = await ask.bound()
                fake.job(1, job_state="FAILED", exit_code=3 << 8)
                assert await held.ended() is muster.Reason.COMPLETED

                bad = await app.add_ask("bad", AMOUNTS)
                with pytest.raises(muster.BindFailedError) as failed:
                    await bad.bound()
                assert str(failed.value.__cause__) == "no command for this one"

                await app.add_ask("evicted", AMOUNTS)
                await until(lambda: len(fake.jobs) == 2)
                fake.job(2, job_state="RUNNING", nodes="n1")
                await app.ask("evicted").bound()
                await app.remove()
                await until(lambda: fake.jobs[1]["job_state"] == "FAILED")

    run(main)
    assert results == [("x", 3, True)]


def test_connect_says_why_it_cannot(fake: FakeSlurm) -> None:
    async def main() -> None:
        with pytest.raises(SlurmError, match="partition: 'q': there are p, other"):
            async with connect_slurm(partition="q"):
                pass

    run(main)
    assert fake.jobs == []


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; other processes make it hold."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
