"""The members of a step meet, or none of them starts."""

from __future__ import annotations

from typing import cast

import pytest
import trio
from trio.testing import MockClock

from muster.slurm import Command, JobLostError
from muster.slurm._batch import Batch
from muster.slurm._gathering import Gathering
from muster.slurm._texts.amounts import Share
from muster.slurm._texts.script import Work

BATCH = cast("Batch", object())
"""What is submitted; nothing here looks at it."""


def work(number: int) -> Work:
    return Work(number, "n1", Share(1, None), Command("true"), {}, 1.0)


class Members:
    """The members of a step of three, and what becomes of them."""

    def __init__(self) -> None:
        self.gathering = Gathering(5.0)
        self.submitted: list[tuple[int, ...]] = []
        self.came: list[int] = []
        self.lost: list[int] = []

    async def join(self, number: int) -> None:
        def submit(works: tuple[Work, ...]) -> Batch:
            self.submitted.append(tuple(work.number for work in works))
            return BATCH

        try:
            batch = await self.gathering.join(7, 3, lambda: work(number), submit)
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


async def test_nobody_waits_for_ever_for_one_that_does_not_come(
    autojump_clock: MockClock,
) -> None:
    members = Members()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.join, 7)
        nursery.start_soon(members.join, 8)
    assert (members.submitted, sorted(members.lost)) == ([], [7, 8])
    assert autojump_clock.current_time() == 15
    await members.join(9)  # late
    assert members.lost[-1] == 9
    assert autojump_clock.current_time() == 15


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


async def test_one_that_cannot_say_what_it_runs_lets_nobody_wait(
    autojump_clock: MockClock,
) -> None:
    members = Members()

    def fail() -> Work:
        raise ValueError("no command")

    async def bad() -> None:
        with pytest.raises(ValueError, match="no command"):
            await members.gathering.join(7, 3, fail, lambda _: BATCH)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(members.join, 7)
        nursery.start_soon(members.join, 8)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(bad)
    assert (members.submitted, sorted(members.lost)) == ([], [7, 8])
    assert autojump_clock.current_time() == 0
