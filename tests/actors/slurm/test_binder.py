"""What becomes of asks, by what Slurm says of their jobs.

The members of a step meet, or none of them starts.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

import muster
import muster.slurm
from muster.slurm import Command, JobLostError, JobResult, SlurmBinder
from muster.slurm._binder import GangMeetings
from muster.slurm._jobs import BatchJob
from muster.slurm._nodes import Share
from muster.slurm._sbatch import MemberWork
from tests.actors.slurm.conftest import PATIENCE_S, FakeSlurm

ONE: dict[str, int | float | str] = {"vcore": 1, "memory": "1Mi"}


@asynccontextmanager
async def opened(
    statuses: list[int] | None = None,
    *,
    bind_timeout: float = PATIENCE_S,
    bind_attempts: int | None = 1,
    adopt_within: float = 60.0,
    grace_period: float = 0.1,
    looks_every: float = 2.0,
) -> AsyncGenerator[muster.Scheduler]:
    """Open a scheduler with two nodes, which looks at them every so many seconds."""

    def done(_: muster.Allocation, result: JobResult) -> None:
        if statuses is not None:
            statuses.append(result.status)

    with trio.fail_after(2 * PATIENCE_S):
        async with muster.slurm.connect(every=0.05, adopt_within=adopt_within) as slurm:
            binder = SlurmBinder(slurm, lambda _: "true", done=done, grace_period=grace_period)
            async with (
                muster.open_scheduler(
                    binder=binder, bind_timeout=bind_timeout, bind_attempts=bind_attempts
                ) as scheduler,
                trio.open_nursery() as nursery,
            ):
                await nursery.start(partial(slurm.follow, scheduler, every=looks_every))
                yield scheduler
                nursery.cancel_scope.cancel()


async def add(scheduler: muster.Scheduler) -> muster.Ask:
    """Add an ask."""
    return await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE)


async def test_one_job_pinned_and_with_the_amounts(fake: FakeSlurm) -> None:
    async with opened() as scheduler:
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE, node="n2")
        await fake.until(lambda: len(fake.jobs) == 1)
        (arguments,) = fake.calls("sbatch")
        assert {
            "--parsable",
            "--no-requeue",
            "--partition=p",
            "--nodelist=n2",
            "--nodes=1",
            "--ntasks=1",
            "--cpus-per-task=1",
            "--mem=1M",
            "--comment=muster:a/x/1",
        } <= set(arguments)
        fake.job(1, job_state="RUNNING", nodes="n2")
        assert (await ask.bound()).node == "n2"


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [("COMPLETED", 0, 0), ("FAILED", 7 << 8, 7), ("FAILED", 9, -9), ("FAILED", 137 << 8, -9)],
)
async def test_job_that_has_ended_has_completed(
    fake: FakeSlurm, state: str, exit_code: int, status: int
) -> None:
    statuses: list[int] = []
    async with opened(statuses) as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING")
        held = await ask.bound()
        fake.job(1, job_state="COMPLETING", exit_code=exit_code)
        fake.job(1, job_state=state, exit_code=exit_code)
        assert await held.ended() is muster.Reason.COMPLETED
    assert statuses == [status]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"job_state": "TIMEOUT"}, "job 1: TIMEOUT"),
        ({"job_state": "CANCELLED"}, "job 1: CANCELLED"),
        ({"job_state": "OUT_OF_MEMORY", "exit_code": 9}, "job 1: OUT_OF_MEMORY"),
        ({"job_state": "DEADLINE"}, "job 1: DEADLINE"),
        ({"job_state": "FAILED", "state_reason": "JobLaunchFailure"}, "it could not be started"),
        ({"job_state": "FAILED", "exit_code": 12}, "is not there on the node"),
    ],
)
async def test_job_that_has_not_ended_by_itself_is_a_failed_bind(
    fake: FakeSlurm, change: dict[str, Any], message: str
) -> None:
    statuses: list[int] = []
    async with opened(statuses) as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, **change)
        with pytest.raises(muster.BindFailedError) as failed:
            await ask.bound()
    assert message in str(failed.value.__cause__)
    assert statuses == []


async def test_preempted_job_is_no_attempt(fake: FakeSlurm) -> None:
    async with opened() as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="PREEMPTED")
        await fake.until(lambda: len(fake.jobs) == 2)
        fake.job(2, job_state="RUNNING")
        await ask.bound()


async def test_lost_node_is_removed_and_its_job_is_no_attempt(fake: FakeSlurm) -> None:
    async with opened(looks_every=0.1) as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", nodes="n1")
        held = await ask.bound()
        fake.job(1, job_state="NODE_FAIL")
        nodes = ["NodeName=n2 CPUTot=4 RealMemory=1000 State=IDLE Partitions=p"]
        fake.set(nodes=["NodeName=n1 CPUTot=4 State=DOWN* Partitions=p", *nodes])
        assert await held.ended() is muster.Reason.NODE_LOST
        await fake.until(lambda: len(fake.jobs) == 2)
        assert fake.jobs[1]["wanted"] == "n2"
        fake.job(2, job_state="RUNNING", nodes="n2")
        await ask.bound()


async def test_refused_job_says_what_slurm_has_said(fake: FakeSlurm) -> None:
    fake.set(sbatch="refuses")
    async with opened() as scheduler:
        with pytest.raises(muster.BindFailedError) as failed:
            await (await add(scheduler)).bound()
    assert "Invalid account" in str(failed.value.__cause__)


@pytest.mark.parametrize(
    ("behaviour", "submissions"), [("unheard", 1), ("lost", 2), ("chats", 1), ("stammers", 1)]
)
async def test_job_is_submitted_once_also_if_the_answer_is_lost(
    fake: FakeSlurm, behaviour: str, submissions: int
) -> None:
    fake.set(sbatch=behaviour)
    async with opened() as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING")
        await ask.bound()
        assert len(fake.calls("sbatch")) == submissions
        assert [job["job_state"] for job in fake.jobs] == ["RUNNING"]


async def test_ask_that_is_removed_while_sbatch_runs_leaves_no_job(fake: FakeSlurm) -> None:
    fake.set(held=True)
    async with opened() as scheduler:
        await add(scheduler)
        await fake.until(lambda: len(fake.calls("sbatch")) == 1)
        await scheduler.remove_app("a")
        await fake.until(lambda: len(fake.calls("squeue")) > 2)
        fake.set(held=False)
        await fake.until(lambda: [job["job_state"] for job in fake.jobs] == ["CANCELLED"])


@pytest.mark.parametrize("name", ["it's", 'say "x"', "a\nb", "ä 猫 %41", "*", "$(x) `x`"])
async def test_odd_names_are_found_again(fake: FakeSlurm, name: str) -> None:
    async with opened() as scheduler:
        app = await scheduler.add_app(name, "root.q")
        ask = await app.add_ask(name, ONE)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING")
        await ask.bound()
        (arguments,) = fake.calls("sbatch")
        assert all(argument.isascii() and "\n" not in argument for argument in arguments)
        fake.add(comment=fake.jobs[0]["comment"])  # the same run once more
        await fake.until(lambda: fake.jobs[1]["job_state"] == "CANCELLED")
        assert fake.jobs[0]["job_state"] == "RUNNING"


async def test_names_that_are_too_long_for_a_comment_are_refused(fake: FakeSlurm) -> None:
    async with opened() as scheduler:
        app = await scheduler.add_app("a" * 200, "root.q")
        ask = await app.add_ask("猫" * 100, ONE)
        with pytest.raises(muster.BindFailedError) as failed:
            await ask.bound()
    assert "too long for a comment of Slurm" in str(failed.value.__cause__)
    assert fake.jobs == []


async def test_silence_changes_nothing(fake: FakeSlurm) -> None:
    statuses: list[int] = []
    async with opened(statuses) as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING")
        held = await ask.bound()
        fake.set(away=True)
        queries = len(fake.calls("squeue"))
        await fake.until(lambda: len(fake.calls("squeue")) > queries + 5)
        assert held.ending is None
        assert len((await scheduler.snapshot()).nodes) == 2
        fake.job(1, job_state="COMPLETED")
        fake.set(away=False)
        assert await held.ended() is muster.Reason.COMPLETED
    assert statuses == [0]


async def test_eviction_waits_until_a_silent_slurm_says_that_the_job_is_gone(
    fake: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.slurm._jobs._TERM_AGAIN_S", 0.05)
    async with opened() as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", nodes="n1")
        held = await ask.bound()
        fake.set(away=True)
        await scheduler.remove_node(held.node)
        await fake.until(lambda: len(fake.calls("scancel")) > 1)
        assert len(fake.jobs) == 1, "the same ask does not run before its earlier run is gone"
        fake.set(away=False)
        await fake.until(lambda: len(fake.jobs) == 2)
        assert fake.jobs[0]["job_state"] == "FAILED"


async def test_eviction_asks_first_and_cancels_after_the_grace_period(fake: FakeSlurm) -> None:
    fake.set(deaf=True)
    async with opened() as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING")
        await ask.bound()
        await scheduler.remove_app("a")
        await fake.until(lambda: fake.jobs[0]["job_state"] == "CANCELLED")
    assert fake.calls("scancel")[:2] == [["--batch", "--signal=TERM", "1"], ["1"]]


async def test_job_that_slurm_has_forgotten_is_a_failed_bind(fake: FakeSlurm) -> None:
    async with opened() as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.forget(1)
        with pytest.raises(muster.BindFailedError) as failed:
            await ask.bound()
    assert "does not know it any more" in str(failed.value.__cause__)


async def test_second_job_of_a_run_is_cancelled_and_jobs_of_others_are_not(
    fake: FakeSlurm,
) -> None:
    async with opened() as scheduler:
        ask = await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING")
        await ask.bound()
        fake.add(comment="muster:a/x/1", job_state="PENDING")
        fake.add(comment="a job of mine")
        fake.add(comment="other:a/x/1")
        await fake.until(lambda: fake.jobs[1]["job_state"] == "CANCELLED")
        assert [job["job_state"] for job in fake.jobs] == [
            "RUNNING",
            "CANCELLED",
            "RUNNING",
            "RUNNING",
        ]


async def test_job_of_an_earlier_program_for_the_same_ask_ends_first(fake: FakeSlurm) -> None:
    fake.add(comment="muster:a/x/7")
    async with opened() as scheduler:
        await add(scheduler)
        await fake.until(lambda: len(fake.jobs) == 2)
        assert fake.jobs[0]["job_state"] == "FAILED"
        assert fake.calls("scancel") == [["--batch", "--signal=TERM", "1"]]


async def test_jobs_that_nobody_takes_over_end(fake: FakeSlurm) -> None:
    fake.add(comment="muster:b/y/7")
    fake.add(comment="muster:default%2Fring/*/8-9 0,")
    fake.add(comment="muster:c/z/3", job_state="COMPLETED")
    fake.add(comment="mine")
    async with opened(adopt_within=0):
        await fake.until(
            lambda: (
                [job["job_state"] for job in fake.jobs]
                == ["FAILED", "COMPLETED", "COMPLETED", "RUNNING"]
            )
        )


async def test_gang_is_one_job_and_each_end_is_its_own(fake: FakeSlurm) -> None:
    statuses: list[int] = []
    async with opened(statuses) as scheduler:
        await scheduler.add_gang("ring", 3)
        app = await scheduler.add_app("a", "root.q")
        for place, node in enumerate(("n1", "n2", "n2")):
            await app.add_ask(f"m{place}", ONE, gang="ring", node=node)
        asks = [app.ask(f"m{place}") for place in range(3)]
        await fake.until(lambda: len(fake.jobs) == 1)
        ((*arguments,),) = fake.calls("sbatch")
        assert ":" in arguments, "n2 gives twice as much as n1"
        tag = fake.jobs[0]["comment"]
        fake.job(1, job_state="RUNNING", batch_host="n1")
        held = [await ask.bound() for ask in asks]
        fake.job(1, comment=f"{tag} ,5,,")
        assert await held[1].ended() is muster.Reason.COMPLETED
        assert statuses == [5]
        assert (held[0].ending, held[2].ending) == (None, None)
        # What a lost node takes with it has not ended, although its step has a status.
        fake.job(1, job_state="NODE_FAIL", comment=f"{tag} 0,5,1,")
        assert await held[0].ended() is muster.Reason.COMPLETED
        assert held[2].ending is None
        await scheduler.remove_node("n2")
        assert await held[2].ended() is muster.Reason.NODE_LOST
    assert statuses == [5, 0]


async def test_gang_of_which_a_member_does_not_come_waits_for_nobody(fake: FakeSlurm) -> None:
    async with opened() as scheduler:
        await scheduler.add_gang("ring", 2)
        app = await scheduler.add_app("a", "root.q")
        asks = [await app.add_ask(f"m{place}", ONE, gang="ring") for place in range(2)]
        await fake.until(lambda: len(fake.jobs) == 1)
        await scheduler.remove_app("a")
        await fake.until(lambda: fake.jobs[0]["job_state"] == "CANCELLED")
        del asks


async def test_node_that_drains_goes_down_and_comes_back(fake: FakeSlurm) -> None:
    line = "NodeName=n1 CPUTot=4 RealMemory=1000 State={} Partitions=p Gres=(null)"
    other = fake.nodes[1]
    async with opened(looks_every=0.1) as scheduler:
        ask = await (await scheduler.add_app("a", "root.q")).add_ask("x", ONE, node="n1")
        await fake.until(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", nodes="n1")
        held = await ask.bound()

        async def becomes(state: str, schedulable: bool | None) -> None:
            fake.set(nodes=[line.format(state), other])
            with trio.fail_after(PATIENCE_S):
                while await is_open(scheduler, "n1") is not schedulable:  # noqa: ASYNC110
                    await trio.sleep(0.02)

        await becomes("MIXED+DRAIN", schedulable=False)
        assert held.ending is None
        await becomes("MIXED", schedulable=True)
        await becomes("DOWN*", schedulable=None)
        assert await held.ended() is muster.Reason.NODE_LOST
        await fake.until(lambda: fake.jobs[0]["job_state"] == "FAILED")
        await becomes("IDLE", schedulable=True)
        await fake.until(lambda: len(fake.jobs) == 2)
        fake.job(2, job_state="RUNNING", nodes="n1")
        await ask.bound()


async def is_open(scheduler: muster.Scheduler, name: str) -> bool | None:
    """Return whether a node takes work; None if it is not there."""
    node = (await scheduler.snapshot()).nodes.get(name)
    return None if node is None else node.schedulable


async def vcores(scheduler: muster.Scheduler) -> dict[str, int]:
    """Return what the nodes of a scheduler have."""
    nodes = (await scheduler.snapshot()).nodes
    return {name: node.capacity["vcore"] for name, node in nodes.items()}


async def test_a_node_that_was_removed_by_hand_is_added_when_it_has_changed(
    fake: FakeSlurm,
) -> None:
    line = "NodeName={0} CPUTot={1} RealMemory=1000 State=IDLE Partitions=p Gres=(null)"
    async with opened(looks_every=0.1) as scheduler:
        await scheduler.remove_node("n1")
        fake.set(nodes=[line.format("n1", 8), line.format("n2", 8)])
        with trio.fail_after(PATIENCE_S):
            while await vcores(scheduler) != {"n1": 8000, "n2": 8000}:  # noqa: ASYNC110
                await trio.sleep(0.02)
        fake.set(nodes=[line.format("n2", 8), "NodeName=n1 CPUTot=8 State=DOWN Partitions=p"])
        with trio.fail_after(PATIENCE_S):
            while await vcores(scheduler) != {"n2": 8000}:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert fake.jobs == []


async def test_nodes_of_an_earlier_program_are_taken_over(fake: FakeSlurm) -> None:
    with trio.fail_after(PATIENCE_S):
        async with (
            muster.slurm.connect(every=0.05) as slurm,
            muster.open_scheduler() as scheduler,
            trio.open_nursery() as nursery,
        ):
            attributes = {"slurm/partition": "p"}
            await scheduler.add_node("n1", {"vcore": 1}, attributes=attributes)
            await scheduler.add_node("gone", {"vcore": 1}, attributes=attributes)
            await scheduler.add_node("own", {"vcore": 1})
            await scheduler.update_node("n1", schedulable=False)  # an operator of Muster
            await nursery.start(slurm.follow, scheduler)
            nodes = (await scheduler.snapshot()).nodes
            assert set(nodes) == {"n1", "n2", "own"}
            assert nodes["n1"].capacity["vcore"] == 4000
            assert (nodes["n1"].schedulable, nodes["n2"].schedulable) == (False, True)
            nursery.cancel_scope.cancel()
    assert fake.jobs == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partition": "q"}, "partition: 'q': there are p, other"),
        ({"reservation": "night"}, "Reservation night not found"),
        ({"every": 0}, "every: 0: must be a number of seconds above 0"),
        ({"every": float("nan")}, "every: nan: must be a number"),
        ({"adopt_within": -1}, "adopt_within: -1: must be a number of seconds from 0"),
        ({"namespace": "a b"}, "namespace: 'a b': must be letters"),
        ({"gangs": "both"}, "gangs: 'both': must be one of job, components"),
        ({"resources": {"cpu": "x", "mem": "x"}}, "two resources of Slurm have one name"),
    ],
)
async def test_arguments_of_connect(
    fake: FakeSlurm, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(muster.MusterError, match=message):
        async with muster.slurm.connect(**arguments):
            pass
    assert fake.jobs == []


@pytest.mark.parametrize("grace", [-1, float("nan")])
async def test_grace_period_is_checked(fake: FakeSlurm, grace: float) -> None:
    async with muster.slurm.connect() as slurm:
        with pytest.raises(ValueError, match="grace_period"):
            SlurmBinder(slurm, lambda _: "true", grace_period=grace)
        with pytest.raises(ValueError, match="closing_grace"):
            SlurmBinder(slurm, lambda _: "true", closing_grace=grace)
    assert fake.jobs == []


BATCH = cast("BatchJob", object())
"""What is submitted; nothing here looks at it."""


def work(number: int) -> MemberWork:
    return MemberWork(number, "n1", Share(1, None), Command("true"), {}, 1.0)


class Members:
    """The members of a step of three, and how they end."""

    def __init__(self) -> None:
        self.gathering = GangMeetings()
        #: Whether an earlier run of a member is still ending.
        self.earlier = False
        self.submitted: list[tuple[int, ...]] = []
        self.joined: list[int] = []
        self.lost: list[int] = []

    async def join(self, number: int) -> None:
        def submit(works: tuple[MemberWork, ...]) -> BatchJob:
            self.submitted.append(tuple(work.number for work in works))
            return BATCH

        async def prepare() -> MemberWork:
            return work(number)

        try:
            batch = await self.gathering.join(7, 3, prepare, submit, lambda: self.earlier)
        except JobLostError:
            self.lost.append(number)
        else:
            assert batch is BATCH
            self.joined.append(number)


async def test_last_one_submits_for_all(autojump_clock: MockClock) -> None:
    members = Members()
    async with trio.open_nursery() as nursery:
        for number in (9, 7, 8):
            nursery.start_soon(members.join, number)
    assert members.submitted == [(7, 8, 9)]
    assert sorted(members.joined) == [7, 8, 9]
    assert autojump_clock.current_time() == 0
    assert members.gathering.is_empty


async def test_nobody_waits_for_ever_for_one_that_does_not_come(
    autojump_clock: MockClock,
) -> None:
    members = Members()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.join, 7)
        nursery.start_soon(members.join, 8)
    assert (members.submitted, sorted(members.lost)) == ([], [7, 8])
    assert autojump_clock.current_time() == 10
    assert members.gathering.is_empty
    await members.join(9)  # late
    assert members.lost[-1] == 9
    assert autojump_clock.current_time() == 10
    assert members.gathering.is_empty


async def test_member_that_waits_for_its_own_earlier_run_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    members = Members()
    members.earlier = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.join, 7)
        nursery.start_soon(members.join, 8)
        await trio.sleep(95)
        members.earlier = False
        nursery.start_soon(members.join, 9)
    assert members.submitted == [(7, 8, 9)]
    assert autojump_clock.current_time() == 95


async def test_nobody_is_waited_for_longer_than_an_earlier_run(autojump_clock: MockClock) -> None:
    members = Members()
    members.earlier = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.join, 7)
        nursery.start_soon(members.join, 8)
        await trio.sleep(95)
        members.earlier = False
    assert (members.submitted, sorted(members.lost)) == ([], [7, 8])
    assert autojump_clock.current_time() == 100
    assert members.gathering.is_empty


async def test_nobody_starts_if_one_has_left(autojump_clock: MockClock) -> None:
    members = Members()
    scope = trio.CancelScope()

    async def leave() -> None:
        with scope:
            await members.join(7)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        nursery.start_soon(members.join, 8)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(members.join, 9)
    assert (members.submitted, sorted(members.lost)) == ([], [8, 9])
    assert autojump_clock.current_time() == 0
    assert members.gathering.is_empty


async def test_one_that_is_cancelled_when_the_job_is_submitted_still_has_to_end_its_part(
    autojump_clock: MockClock,
) -> None:
    members = Members()
    scope = trio.CancelScope()

    async def leave() -> None:
        with scope:
            await members.join(7)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        nursery.start_soon(members.join, 8)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await members.join(9)  # before the first one learns of it
    assert members.submitted == [(7, 8, 9)]
    assert sorted(members.joined) == [7, 8, 9]
    assert autojump_clock.current_time() == 0


async def test_nothing_stays_behind_if_all_leave(autojump_clock: MockClock) -> None:
    members = Members()
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(members.join, 7)
            nursery.start_soon(members.join, 8)
    assert (members.submitted, members.lost) == ([], [])
    assert members.gathering.is_empty
    assert autojump_clock.current_time() == 1


async def test_one_that_cannot_say_what_it_runs_lets_nobody_wait(
    autojump_clock: MockClock,
) -> None:
    members = Members()

    async def fail() -> MemberWork:
        raise ValueError("no command")

    async def bad() -> None:
        with pytest.raises(ValueError, match="no command"):
            await members.gathering.join(7, 3, fail, lambda _: BATCH, lambda: False)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.join, 7)
        nursery.start_soon(members.join, 8)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(bad)
    assert (members.submitted, sorted(members.lost)) == ([], [7, 8])
    assert autojump_clock.current_time() == 0
