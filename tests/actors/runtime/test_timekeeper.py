"""The task that rings when a timer is due."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from muster._runtime.clock import Timekeeper, TrioClock
from tests.actors.program import S
from tests.actors.service import pass_time


@attrs.define
class Bell:
    """Hears when it was rung, and may be slow to."""

    rung_us: list[int] = attrs.field(factory=list[int])
    gate: trio.Event | None = None

    async def ring(self) -> None:
        self.rung_us.append(TrioClock().now_us())
        if self.gate is not None:
            await self.gate.wait()


@pytest.fixture
def bell() -> Bell:
    return Bell()


@asynccontextmanager
async def keeping(bell: Bell) -> AsyncGenerator[Timekeeper, None]:
    """Have a timekeeper run for the time of the block."""
    clock = TrioClock()
    async with trio.open_nursery() as nursery:
        keeper = Timekeeper(clock, clock.now_us(), bell.ring)
        nursery.start_soon(keeper.run)
        await wait_all_tasks_blocked()
        yield keeper
        nursery.cancel_scope.cancel()


async def test_time_counts_from_the_start(bell: Bell, mock_clock: MockClock) -> None:
    mock_clock.jump(7)
    async with keeping(bell) as keeper:
        mock_clock.jump(1.5)

        assert keeper.now_us() == 1_500_000


async def test_it_rings_at_the_instant_and_once(bell: Bell, mock_clock: MockClock) -> None:
    mock_clock.jump(10)
    async with keeping(bell) as keeper:
        keeper.aim(2 * S)
        await pass_time(mock_clock, 1.999_999)
        assert bell.rung_us == []

        await pass_time(mock_clock, 0.000_001)
        await pass_time(mock_clock, 50)

    assert bell.rung_us == [12 * S]


async def test_nothing_to_aim_at(bell: Bell, mock_clock: MockClock) -> None:
    async with keeping(bell) as keeper:
        keeper.aim(None)
        await pass_time(mock_clock, 50)

    assert bell.rung_us == []


async def test_an_instant_that_is_over_rings_at_once(bell: Bell, mock_clock: MockClock) -> None:
    mock_clock.jump(3)
    async with keeping(bell) as keeper:
        keeper.aim(-1)
        await wait_all_tasks_blocked()

    assert bell.rung_us == [3 * S]


async def test_a_later_aim(bell: Bell, mock_clock: MockClock) -> None:
    async with keeping(bell) as keeper:
        keeper.aim(2 * S)
        await pass_time(mock_clock, 1)
        keeper.aim(4 * S)
        await pass_time(mock_clock, 2.999_999)
        assert bell.rung_us == []
        await pass_time(mock_clock, 0.000_001)

    assert bell.rung_us == [4 * S]


async def test_an_earlier_aim(bell: Bell, mock_clock: MockClock) -> None:
    async with keeping(bell) as keeper:
        keeper.aim(4 * S)
        await pass_time(mock_clock, 1)
        keeper.aim(2 * S)
        await pass_time(mock_clock, 1)
        assert bell.rung_us == [2 * S]
        await pass_time(mock_clock, 5)

    assert bell.rung_us == [2 * S]


async def test_an_aim_that_is_given_up_and_taken_again(bell: Bell, mock_clock: MockClock) -> None:
    async with keeping(bell) as keeper:
        keeper.aim(2 * S)
        await wait_all_tasks_blocked()
        keeper.aim(None)
        await pass_time(mock_clock, 3)
        assert bell.rung_us == []

        keeper.aim(4 * S)
        await pass_time(mock_clock, 1)

    assert bell.rung_us == [4 * S]


async def test_many_aims_at_one_moment(bell: Bell, mock_clock: MockClock) -> None:
    async with keeping(bell) as keeper:
        for at_us in (5 * S, None, 1 * S, 7 * S, None, 3 * S):
            keeper.aim(at_us)
        for seconds in (1, 1, 1, 2, 2):
            await pass_time(mock_clock, seconds)

    assert bell.rung_us == [3 * S]


async def test_an_aim_while_it_rings(bell: Bell, mock_clock: MockClock) -> None:
    bell.gate = trio.Event()
    async with keeping(bell) as keeper:
        keeper.aim(1 * S)
        await pass_time(mock_clock, 1)
        assert bell.rung_us == [1 * S]
        keeper.aim(2 * S)
        await pass_time(mock_clock, 5)
        assert bell.rung_us == [1 * S]

        bell.gate.set()
        await wait_all_tasks_blocked()

    assert bell.rung_us == [1 * S, 6 * S]


async def test_aiming_before_it_runs(bell: Bell, mock_clock: MockClock) -> None:
    clock = TrioClock()
    keeper = Timekeeper(clock, clock.now_us(), bell.ring)
    keeper.aim(1 * S)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run)
        await pass_time(mock_clock, 1)
        nursery.cancel_scope.cancel()

    assert bell.rung_us == [1 * S]
