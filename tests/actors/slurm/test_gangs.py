"""A gang whose job has not started starts later as a whole, or not at all: never a part of it."""

from __future__ import annotations

import pytest

import muster
from muster import Reason
from tests.actors.slurm.conftest import FakeSlurm
from tests.actors.slurm.test_binder import opened

pytestmark = pytest.mark.usefixtures("watchdog")


def three_nodes(fake: FakeSlurm) -> None:
    """Add a third node to the Slurm."""
    line = "NodeName={0} CPUTot=4 RealMemory=1000 State=IDLE Partitions=p Gres=(null)"
    fake.set(nodes=[line.format(name) for name in ("n1", "n2", "n3")])


async def gang(scheduler: muster.Scheduler, size: int, vcores: int = 3) -> list[muster.Ask]:
    """Ask for a gang."""
    await scheduler.add_gang("ring", size)
    app = await scheduler.add_app("a", "root.q")
    return list(await app.add_asks("m", {"vcore": vcores, "memory": "1Mi"}, size, gang="ring"))


def of_gang(job: dict[str, str]) -> tuple[bool, int]:
    """Return whether a job is that of a gang, and how many nodes it has."""
    return "/*/" in job["comment"], len(job["wanted"].split(","))


async def test_member_that_has_lost_its_node_before_the_start_does_not_run_alone(
    fake: FakeSlurm,
) -> None:
    three_nodes(fake)
    async with opened() as scheduler:
        asks = await gang(scheduler, 2)
        await fake.until(lambda: len(fake.jobs) == 1)
        lost = fake.jobs[0]["wanted"].split(",")[1]
        await scheduler.remove_node(lost)  # Slurm still has it
        await fake.until(lambda: len(fake.jobs) == 2)
        assert fake.jobs[0]["job_state"] == "CANCELLED"
        assert of_gang(fake.jobs[1]) == (True, 2)
        assert lost not in fake.jobs[1]["wanted"].split(",")
        fake.job(2, job_state="RUNNING", batch_host="n1")
        for ask in asks:
            await ask.bound()
        assert len(fake.jobs) == 2


async def test_gang_that_slurm_refuses_comes_again_as_a_whole(fake: FakeSlurm) -> None:
    fake.set(sbatch="refuses")
    async with opened(bind_attempts=3) as scheduler:
        asks = await gang(scheduler, 3, 1)
        await fake.until(lambda: len(fake.jobs) == 1)
        assert of_gang(fake.jobs[0])[0]
        fake.job(1, job_state="RUNNING", batch_host="n1")
        for ask in asks:
            await ask.bound()
        assert len(fake.calls("sbatch")) == 2


async def test_member_of_a_gang_that_runs_comes_again_alone(fake: FakeSlurm) -> None:
    three_nodes(fake)
    async with opened() as scheduler:
        asks = await gang(scheduler, 2)
        await fake.until(lambda: len(fake.jobs) == 1)
        tag, wanted = fake.jobs[0]["comment"], fake.jobs[0]["wanted"].split(",")
        fake.job(1, job_state="RUNNING", batch_host=wanted[0])
        held = [await ask.bound() for ask in asks]
        lost = next(one for one in held if one.node == wanted[1])
        other = next(one for one in held if one is not lost)
        await scheduler.remove_node(lost.node)
        assert await lost.ended() is Reason.NODE_LOST
        ends = ("143", "") if lost.number < other.number else ("", "143")
        fake.job(1, comment=f"{tag} {','.join(ends)}")
        await fake.until(lambda: len(fake.jobs) == 2)
        assert of_gang(fake.jobs[1]) == (False, 1)
        fake.job(2, job_state="RUNNING", batch_host="n3")
        await next(ask for ask in asks if ask.name == lost.ask).bound()
        assert other.ending is None


async def test_member_that_is_bound_later_waits_until_the_gang_has_started(
    fake: FakeSlurm,
) -> None:
    three_nodes(fake)
    async with opened() as scheduler:
        await gang(scheduler, 2)
        await fake.until(lambda: len(fake.jobs) == 1)
        third = await scheduler.app("a").add_ask(
            "later", {"vcore": 3, "memory": "1Mi"}, gang="ring"
        )
        queries = len(fake.calls("squeue"))
        await fake.until(lambda: len(fake.calls("squeue")) > queries + 5)
        assert len(fake.jobs) == 1
        fake.job(1, job_state="RUNNING", batch_host="n1")
        await fake.until(lambda: len(fake.jobs) == 2)
        fake.job(2, job_state="RUNNING", batch_host="n3")
        await third.bound()


async def running(fake: FakeSlurm, scheduler: muster.Scheduler) -> list[muster.Allocation]:
    """Let a gang of two run."""
    asks = await gang(scheduler, 2, 1)
    await fake.until(lambda: len(fake.jobs) == 1)
    fake.job(1, job_state="RUNNING", batch_host="n1")
    return [await ask.bound() for ask in asks]


async def test_member_that_has_not_begun_is_asked_to_end_when_it_has(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.slurm._jobs._TERM_AGAIN_S", 0.05)
    async with opened(grace_period=20) as scheduler:
        fake.set(steps=False)
        held = await running(fake, scheduler)
        await held[0].release()
        await fake.until(lambda: signals(fake) > 0)
        fake.set(steps=True)
        await fake.until(lambda: fake.jobs[0]["comment"].endswith(" 143,"))
        assert [call[0] for call in fake.calls("scancel")] == ["--signal=TERM"]
        assert held[1].ending is None


def signals(fake: FakeSlurm) -> int:
    """Return how often it was looked for a member that is to get a signal."""
    return sum("--steps" in call for call in fake.calls("squeue"))


async def test_silence_does_not_end_the_others_of_a_gang(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.slurm._jobs._KILL_AGAIN_S", 0.25)
    monkeypatch.setattr("muster.slurm._jobs._TERM_AGAIN_S", 0.01)
    async with opened(grace_period=0) as scheduler:
        fake.set(deaf=True)
        held = await running(fake, scheduler)
        await held[0].release()
        await fake.until(lambda: ["--signal=KILL", "1.0"] in fake.calls("scancel"))
        fake.set(away=True)
        monkeypatch.setattr("muster.slurm._jobs._KILL_AGAIN_S", 0.01)
        queries = signals(fake)
        await fake.until(lambda: signals(fake) > queries + 15)
        fake.set(away=False, deaf=False)
        await fake.until(lambda: fake.jobs[0]["comment"].endswith(" 143,"))
        assert held[1].ending is None
        assert fake.jobs[0]["job_state"] == "RUNNING"
