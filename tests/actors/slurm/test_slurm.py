"""Slurm's commands, and jobs of earlier programs and of others: taken over, ended, or left alone."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import muster
import muster.slurm
from muster import Reason
from muster.slurm import JobResult, Slurm, SlurmBinder
from muster.slurm._commands import SilentError, SlurmCommands, SlurmError
from tests.actors.slurm.conftest import PATIENCE_S, FakeSlurm
from tests.actors.slurm.test_binder import ONE

pytestmark = pytest.mark.usefixtures("watchdog")

SETTLED_S = 5.0
"""When it is settled which jobs are taken over, after the nodes are there."""


@asynccontextmanager
async def scheduled(
    slurm: Slurm,
    store: Path,
    results: list[tuple[str, int]] | None = None,
    *,
    detached: bool = True,
    looks_every: float = 2.0,
) -> AsyncGenerator[muster.Scheduler]:
    """Open a scheduler with a store, whose jobs are left alone when it closes.

    It looks at the nodes every so many seconds.
    """

    def done(held: muster.Allocation, result: JobResult) -> None:
        if results is not None:
            results.append((held.ask, result.status))

    binder = SlurmBinder(slurm, lambda _: "true", done=done, grace_period=0.1, detached=detached)
    async with (
        muster.open_scheduler(
            binder=binder, store=store, bind_timeout=PATIENCE_S, bind_attempts=1
        ) as scheduler,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(partial(slurm.follow, scheduler, every=looks_every))
        yield scheduler
        nursery.cancel_scope.cancel()


async def start_one(fake: FakeSlurm, scheduler: muster.Scheduler) -> None:
    """Let one ask run."""
    ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)
    await fake.until(lambda: len(fake.jobs) == 1)
    fake.job(1, job_state="RUNNING", batch_host="n1")
    await ask.bound()


async def ended(scheduler: muster.Scheduler) -> Reason:
    """Wait until the ask has ended."""
    return await (await scheduler.app("a").ask("x").bound()).ended()


async def test_next_scheduler_on_the_same_connection_goes_on(
    fake: FakeSlurm, tmp_path: Path
) -> None:
    results: list[tuple[str, int]] = []
    with trio.fail_after(2 * PATIENCE_S):
        async with muster.slurm.connect(every=0.05) as slurm:
            async with scheduled(slurm, tmp_path / "store") as scheduler:
                await start_one(fake, scheduler)
            assert fake.jobs[0]["job_state"] == "RUNNING"
            async with scheduled(slurm, tmp_path / "store", results) as scheduler:
                fake.job(1, job_state="FAILED", exit_code=7 << 8)
                assert await ended(scheduler) is Reason.COMPLETED
    assert results == [("x", 7)]
    assert len(fake.jobs) == 1


async def test_job_that_was_left_ends_before_its_ask_runs_again(
    fake: FakeSlurm, tmp_path: Path
) -> None:
    with trio.fail_after(2 * PATIENCE_S):
        async with muster.slurm.connect(every=0.05) as slurm:
            async with scheduled(slurm, tmp_path / "store") as scheduler:
                await start_one(fake, scheduler)
            async with scheduled(slurm, tmp_path / "other store") as scheduler:
                ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)
                await fake.until(lambda: len(fake.jobs) == 2)
                assert fake.jobs[0]["job_state"] == "FAILED"
                fake.job(2, job_state="RUNNING")
                await ask.bound()


async def test_of_two_jobs_of_a_run_the_one_that_runs_is_taken_over(
    fake: FakeSlurm, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 1
    results: list[tuple[str, int]] = []
    with trio.fail_after(2 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await start_one(fake, scheduler)
        tag = fake.jobs[0]["comment"]
        # As another program has left them, whose store was removed: its numbers were the same.
        fake.job(1, job_state="COMPLETED")
        fake.add(comment=tag, job_state="RUNNING", batch_host="n1")
        fake.add(comment=tag, job_state="PENDING")
        fake.add(comment=tag.rpartition("/")[0] + "/999", job_state="PENDING")
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store", results) as scheduler,
        ):
            await scheduler.app("a").ask("x").bound()
            mock_clock.jump(SETTLED_S)
            await fake.until(
                lambda: [job["job_state"] for job in fake.jobs[2:]] == ["CANCELLED"] * 2
            )
            fake.job(2, job_state="FAILED", exit_code=3 << 8)
            assert await ended(scheduler) is Reason.COMPLETED
    assert results == [("x", 3)]
    assert len(fake.jobs) == 4


async def test_job_that_was_being_submitted_when_the_program_ended_is_taken_over(
    fake: FakeSlurm, tmp_path: Path
) -> None:
    results: list[tuple[str, int]] = []
    with trio.fail_after(3 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await start_one(fake, scheduler)
        (job,) = fake.jobs
        fake.forget(1)

        async def arrive() -> None:
            queries = len(fake.calls("squeue"))
            await fake.until(lambda: len(fake.calls("squeue")) > queries + 2)
            fake.add(**job)
            fake.set(away=False)

        async with muster.slurm.connect(every=0.05) as slurm, trio.open_nursery() as nursery:
            fake.set(away=True)
            nursery.start_soon(arrive)
            async with scheduled(slurm, tmp_path / "store", results, looks_every=0.1) as scheduler:
                await scheduler.app("a").ask("x").bound()
                fake.job(1, job_state="FAILED", exit_code=6 << 8)
                assert await ended(scheduler) is Reason.COMPLETED
    assert results == [("x", 6)]
    assert fake.calls("scancel") == []


async def test_start_that_waits_for_a_silent_slurm_is_no_attempt(
    fake: FakeSlurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("muster.slurm._connection._SILENT_S", 0.2)
    with trio.fail_after(2 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store", looks_every=0.05) as scheduler,
        ):
            assert (slurm.is_connected, slurm.trouble) == (True, None)
            fake.set(away=True)
            await fake.until(lambda: not slurm.is_connected)
            assert "Unable to contact slurm controller" in str(slurm.trouble)
            ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)
            message = "the work of a/x could not be started: Slurm does not answer: scontrol: "
            await fake.until(lambda: caplog.text.count(message) > 1)
            fake.set(away=False)
            await fake.until(lambda: len(fake.jobs) == 1)
            fake.job(1, job_state="RUNNING", batch_host="n1")
            await ask.bound()
            assert slurm.is_connected


async def test_run_that_was_never_submitted_is_no_attempt(fake: FakeSlurm, tmp_path: Path) -> None:
    with trio.fail_after(2 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await start_one(fake, scheduler)
        fake.forget(1)
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await fake.until(lambda: len(fake.jobs) == 1)
            fake.job(1, job_state="RUNNING")
            await scheduler.app("a").ask("x").bound()


async def test_job_that_slurm_forgets_has_left_its_result(fake: FakeSlurm, tmp_path: Path) -> None:
    statuses: list[tuple[str, int]] = []
    results = tmp_path / "results"
    results.mkdir()
    with trio.fail_after(2 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05, results=results) as slurm,
            scheduled(slurm, tmp_path / "store", statuses) as scheduler,
        ):
            await start_one(fake, scheduler)
            name = fake.jobs[0]["comment"].rpartition("/")
            (results / f"{name[0].replace('/', '%2F')}-{name[2]}").write_text("4\n", "ascii")
            fake.forget(1)
            assert await ended(scheduler) is Reason.COMPLETED
    assert statuses == [("x", 4)]


async def test_result_of_another_store_is_not_taken_for_that_of_a_job(
    fake: FakeSlurm, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    results.mkdir()
    for number in range(20):
        (results / f"muster:a%2Fx-{number}").write_text("4\n", "ascii")
    with trio.fail_after(2 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05, results=results) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await start_one(fake, scheduler)
            fake.forget(1)
            assert await ended(scheduler) is Reason.BIND_FAILED


async def test_jobs_of_other_users_are_theirs(fake: FakeSlurm) -> None:
    stranger = os.geteuid() + 1
    fake.add(comment="muster:a/x/7", user_id=stranger)
    with trio.fail_after(2 * PATIENCE_S):
        async with muster.slurm.connect(every=0.05, adopt_within=0) as slurm:
            binder = SlurmBinder(slurm, lambda _: "true", grace_period=0.1)
            async with (
                muster.open_scheduler(binder=binder, bind_timeout=PATIENCE_S) as scheduler,
                trio.open_nursery() as nursery,
            ):
                await nursery.start(slurm.follow, scheduler)
                app = await scheduler.add_app("a", "root.q")
                ask = await app.add_ask("x", ONE)
                await fake.until(lambda: len(fake.jobs) == 2)
                fake.job(2, job_state="RUNNING", user_id=os.geteuid())
                await ask.bound()
                fake.add(comment=fake.jobs[1]["comment"], user_id=stranger)
                fake.add(comment=fake.jobs[1]["comment"], user_id=os.geteuid())
                await fake.until(lambda: fake.jobs[3]["job_state"] == "CANCELLED")
                assert [job["job_state"] for job in fake.jobs[:3]] == ["RUNNING"] * 3
                nursery.cancel_scope.cancel()


async def test_member_of_a_gang_does_not_run_beside_one_that_nobody_has_taken_over(
    fake: FakeSlurm, tmp_path: Path, mock_clock: MockClock
) -> None:
    mock_clock.rate = 1
    with trio.fail_after(3 * PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await scheduler.add_gang("ring", 2)
            app = await scheduler.add_app("a", "root.q")
            asks = await app.add_asks("m", ONE, 2, gang="ring")
            await fake.until(lambda: len(fake.jobs) == 1)
            fake.job(1, job_state="RUNNING", batch_host="n1")
            for ask in asks:
                await ask.bound()
        # The program was killed while it evicted a member, which is not in the store any more.
        name, _, numbers = fake.jobs[0]["comment"].rpartition("/")
        first = int(numbers.partition("-")[0])
        fake.job(1, comment=f"{name}/{first - 1}-{first + 1}")
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            scheduled(slurm, tmp_path / "store") as scheduler,
        ):
            await scheduler.app("a").add_ask("again", ONE, gang="ring")
            for name in ("m-0", "m-1"):
                await scheduler.app("a").ask(name).bound()
            assert len(fake.jobs) == 1
            mock_clock.jump(SETTLED_S)
            await fake.until(lambda: len(fake.jobs) == 2)
            assert fake.jobs[0]["comment"].endswith(" 143,,")
            assert fake.jobs[0]["job_state"] == "RUNNING"
            fake.job(2, job_state="RUNNING")
            await scheduler.app("a").ask("again").bound()


async def test_the_names_of_files_may_be_no_text() -> None:
    printed = await SlurmCommands().run(("od", "-An", "-tx1"), "\udcff")
    assert printed.split() == ["ff"]


@pytest.mark.parametrize(("argument", "stdin"), [("", "\ud800"), ("\ud800", ""), ("\0", "")])
async def test_what_cannot_be_said_is_refused(argument: str, stdin: str) -> None:
    with pytest.raises(SlurmError, match="cat: ") as caught:
        await SlurmCommands().run(("cat", argument), stdin)
    assert not isinstance(caught.value, SilentError), "nothing was asked"
