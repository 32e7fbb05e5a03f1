"""The members of a step meet, or none of them starts."""

from __future__ import annotations

from typing import cast

import pytest
import trio
from trio.testing import MockClock

from muster.slurm import Command, JobLostError
from muster.slurm._binder import GangMeetings
from muster.slurm._jobs import BatchJob
from muster.slurm._nodes import Share
from muster.slurm._sbatch import MemberWork

BATCH = cast("BatchJob", object())
"""What is submitted; nothing here looks at it."""


def work(number: int) -> MemberWork:
    return MemberWork(number, "n1", Share(1, None), Command("true"), {}, 1.0)


class Members:
    """The members of a step of three, and what becomes of them."""

    def __init__(self) -> None:
        self.gathering = GangMeetings()
        #: Whether an earlier run of a member is still ending.
        self.earlier = False
        self.submitted: list[tuple[int, ...]] = []
        self.came: list[int] = []
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
            self.came.append(number)


async def test_last_one_submits_for_all(autojump_clock: MockClock) -> None:
    members = Members()
    async with trio.open_nursery() as nursery:
        for number in (9, 7, 8):
            nursery.start_soon(members.join, number)
    assert members.submitted == [(7, 8, 9)]
    assert sorted(members.came) == [7, 8, 9]
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
        await members.join(9)  # before the first one hears of it
    assert members.submitted == [(7, 8, 9)]
    assert sorted(members.came) == [7, 8, 9]
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
