"""Slurm in asyncio, against commands that do what the test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

import muster
from muster.asyncio import Mode, Scheduler, open_scheduler
from muster.asyncio.slurm import Slurm, SlurmBinder, connect
from muster.slurm import JobResult, SlurmError
from tests.actors.asyncio.program import both_modes, run
from tests.actors.slurm.conftest import FakeSlurm, fake_slurm

pytestmark = pytest.mark.usefixtures("watchdog")

ONE: dict[str, int | float | str] = {"vcore": 1, "memory": "1Mi"}

fake = pytest.fixture(fake_slurm)


@asynccontextmanager
async def followed(slurm: Slurm, scheduler: Scheduler) -> AsyncGenerator[None]:
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
    told: list[tuple[str, int, bool]] = []
    here = threading.get_ident()

    def work(held: muster.Allocation) -> str:
        assert threading.get_ident() == here
        if held.ask == "bad":
            raise ValueError("no command for this one")
        return "true"

    def done(held: muster.Allocation, result: JobResult) -> None:
        told.append((held.ask, result.status, threading.get_ident() == here))

    async def main() -> None:
        async with connect(every=0.05) as slurm:
            binder = SlurmBinder(slurm, work, done=done, grace_period=0.1)
            async with (
                open_scheduler(binder=binder, bind_attempts=1, mode=mode) as scheduler,
                followed(slurm, scheduler),
            ):
                app = await scheduler.add_app("a", "root.q")
                ask = await app.add_ask("x", ONE)
                await until(lambda: len(fake.jobs) == 1)
                fake.job(1, job_state="RUNNING", nodes="n1")
                held = await ask.bound()
                fake.job(1, job_state="FAILED", exit_code=3 << 8)
                assert await held.ended() is muster.Reason.COMPLETED

                bad = await app.add_ask("bad", ONE)
                with pytest.raises(muster.BindFailedError) as failed:
                    await bad.bound()
                assert str(failed.value.__cause__) == "no command for this one"

                await app.add_ask("evicted", ONE)
                await until(lambda: len(fake.jobs) == 2)
                fake.job(2, job_state="RUNNING", nodes="n1")
                await app.ask("evicted").bound()
                await app.remove()
                await until(lambda: fake.jobs[1]["job_state"] == "FAILED")

    run(main)
    assert told == [("x", 3, True)]


def test_connect_says_why_it_cannot(fake: FakeSlurm) -> None:
    async def main() -> None:
        with pytest.raises(SlurmError, match="partition: 'q': there are p, other"):
            async with connect(partition="q"):
                pass

    run(main)
    assert fake.jobs == []


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; other processes make it hold."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
