"""Clocks, the task that rings when a timer is due, and what a scheduler measures of itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster._runtime.clock import BOUNDS_S, Meter, Timekeeper, Timings, TrioClock, WallClock
from muster._surface.allocation import BIND_ATTEMPTS, BIND_TIMEOUT_S
from muster._surface.open import open_parts
from muster._surface.scheduler import Scheduler
from muster.testing import Recording
from tests.actors.program import S
from tests.actors.service import Later, pass_time, service

ONE = {"vcore": 1}


def since(log: Recording, kind: muster.Kind) -> list[int]:
    """Return the instants of the decisions of a kind."""
    return [one.at_us for one in log.decisions if one.decision.kind is kind]


# Trio's clock


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, 0),
        (0.000_000_4, 0),
        (0.000_000_6, 1),
        (0.1 + 0.2, 300_000),
        (1.000_001, 1_000_001),
        (31_536_000.000_001, 31_536_000_000_001),
    ],
)
async def test_the_time_is_rounded(seconds: float, expected: int, mock_clock: MockClock) -> None:
    mock_clock.jump(seconds)

    assert TrioClock().now_us() == expected


async def test_waiting_until_an_instant(mock_clock: MockClock) -> None:
    clock = TrioClock()
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, lambda: clock.wait_until_us(1_500_000))
        await pass_time(mock_clock, 1.499_999)
        assert not waiting.is_over

        await pass_time(mock_clock, 0.000_001)

        assert waiting.is_over


@pytest.mark.parametrize("start", [0.0, 0.1, 1234.567_891_3, 190_880.367_224_7, 1e6 + 1 / 3])
async def test_who_has_waited_finds_that_it_is_time(start: float, mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    mock_clock.jump(start)
    clock = TrioClock()
    for step in (1, 3, 7, 999_999, 1_000_003):
        at_us = clock.now_us() + step
        await clock.wait_until_us(at_us)
        assert clock.now_us() == at_us


async def test_an_instant_that_is_over_is_not_waited_for(mock_clock: MockClock) -> None:
    mock_clock.jump(5)
    for at_us in (0, 4_999_999, 5_000_000, -1):
        await TrioClock().wait_until_us(at_us)

    assert trio.current_time() == 5


async def test_an_instant_that_the_rounded_time_has_reached_is_over(mock_clock: MockClock) -> None:
    mock_clock.jump(0.999_999_6)
    await TrioClock().wait_until_us(1_000_000)

    assert trio.current_time() == 0.999_999_6


async def test_waiting_may_be_cancelled(mock_clock: MockClock) -> None:
    clock = TrioClock()
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, lambda: clock.wait_until_us(1_000_000))
        await wait_all_tasks_blocked()
        waiting.scope.cancel()
        again = Later(nursery, lambda: clock.wait_until_us(500_000))
        await pass_time(mock_clock, 0.5)

        assert waiting.scope.cancelled_caught
        assert again.is_over


# Instants of a scheduler


async def test_instants_count_from_the_opening(mock_clock: MockClock) -> None:
    mock_clock.jump(1_000)
    log = Recording()
    async with service(journal=log) as scheduler:
        mock_clock.jump(2.5)
        await scheduler.add_ask("a", "k", ONE)

    assert since(log, muster.Kind.BOUND) == [2_500_000]


@pytest.mark.parametrize(
    ("run_for", "us"), [(3, 3_000_000), (0.000_001, 1), ("1m30s", 90_000_000), (0.3, 300_000)]
)
async def test_a_timer_fires_at_its_time_and_not_before(
    run_for: float | str, us: int, mock_clock: MockClock
) -> None:
    log = Recording()
    async with service(journal=log) as scheduler:
        await scheduler.add_ask("a", "k", ONE, run_for=run_for)
        if us > 1:
            await pass_time(mock_clock, (us - 1) / 1e6)
            assert since(log, muster.Kind.RELEASED) == []

        await pass_time(mock_clock, 0.000_001)

        assert since(log, muster.Kind.RELEASED) == [us]


async def test_timers_that_a_jump_has_passed_fire_each_at_its_own_time(
    mock_clock: MockClock,
) -> None:
    log = Recording()
    async with service(cores=3, journal=log) as scheduler:
        for seconds in (7, 3, 5):
            await scheduler.add_ask("a", f"k{seconds}", ONE, run_for=seconds)

        await pass_time(mock_clock, 100)
        await scheduler.settle()

        assert since(log, muster.Kind.RELEASED) == [3_000_000, 5_000_000, 7_000_000]


async def test_timers_fire_before_what_comes_after_them(mock_clock: MockClock) -> None:
    log = Recording()
    async with service(journal=log) as scheduler:
        await scheduler.add_ask("a", "k", ONE, run_for=3)
        await wait_all_tasks_blocked()
        mock_clock.jump(10)  # The call below comes before anybody was woken by the jump.
        with pytest.raises(muster.RefusedError):
            await scheduler.release("a", "k")

        assert since(log, muster.Kind.RELEASED) == [3_000_000]


# Clocks of a program


@attrs.define
class HandClock:
    """A clock whose hands the test turns, forward or back."""

    time_us: int = 77
    _moved: trio.Event = attrs.field(factory=trio.Event)

    def now_us(self) -> int:
        return self.time_us

    async def wait_until_us(self, at_us: int) -> None:
        while self.time_us < at_us:
            await self._moved.wait()

    async def turn(self, us: int) -> None:
        await wait_all_tasks_blocked()
        self.time_us += us
        self._moved.set()
        self._moved = trio.Event()
        await wait_all_tasks_blocked()


async def test_a_clock_of_the_program() -> None:
    (clock, log) = (HandClock(), Recording())
    async with service(clock=clock, journal=log) as scheduler:
        await clock.turn(500)
        allocation = await (await scheduler.add_ask("a", "k", ONE, run_for=1)).bound()
        await clock.turn(999_999)
        assert since(log, muster.Kind.RELEASED) == []

        await clock.turn(1)

        assert await allocation.ended() is muster.Reason.COMPLETED
    assert since(log, muster.Kind.BOUND) == [500]
    assert since(log, muster.Kind.RELEASED) == [1_000_500]


@attrs.define
class FastClock:
    """A clock that is a thousand times as fast as trio's."""

    def now_us(self) -> int:
        return round(trio.current_time() * 1e9)

    async def wait_until_us(self, at_us: int) -> None:
        await trio.sleep_until(at_us / 1e9)


async def test_a_fast_clock(mock_clock: MockClock) -> None:
    log = Recording()
    async with service(clock=FastClock(), journal=log) as scheduler:
        await scheduler.add_ask("a", "k", ONE, run_for=60)
        await pass_time(mock_clock, 0.059)
        assert since(log, muster.Kind.RELEASED) == []

        await pass_time(mock_clock, 0.001)

        assert since(log, muster.Kind.RELEASED) == [60_000_000]


async def test_the_time_of_binders_is_trio_s(mock_clock: MockClock) -> None:
    class EndlessBinder:
        async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
            await trio.sleep_forever()

    options: dict[str, Any] = {"binder": EndlessBinder(), "bind_timeout": 5, "bind_attempts": 1}
    async with service(clock=HandClock(), **options) as scheduler:
        ask = await scheduler.add_ask("a", "k", ONE)
        await pass_time(mock_clock, 5)

        with pytest.raises(muster.BindFailedError):
            await ask.bound()


@attrs.define
class InstantRecord:
    """Takes down when something was let in, or a batch closed."""

    instants_us: list[int] = attrs.field(factory=list[int])

    def enter(self, at_us: int, _: object) -> None:
        self.instants_us.append(at_us)

    def close(self, at_us: int) -> None:
        self.instants_us.append(at_us)


async def test_a_clock_that_goes_back() -> None:
    (clock, log, record) = (HandClock(), Recording(), InstantRecord())
    async with service(clock=clock, journal=log, record=record) as scheduler:
        await clock.turn(5_000_000)
        await scheduler.add_ask("a", "k", ONE, run_for=2)
        await clock.turn(-4_000_000)
        await scheduler.add_ask("a", "m", {"vcore": "1m"})
        await clock.turn(3_000_000)
        await scheduler.release("a", "k")
        await scheduler.settle()
        await clock.turn(2_000_000)

    for instants in ([one.at_us for one in log.decisions], record.instants_us):
        assert instants == sorted(instants)
    assert since(log, muster.Kind.BOUND) == [5_000_000, 5_000_000]


async def test_a_timer_waits_for_a_clock_that_went_back() -> None:
    (clock, log) = (HandClock(), Recording())
    async with service(clock=clock, journal=log) as scheduler:
        await scheduler.add_ask("a", "k", ONE, run_for=2)
        await clock.turn(-1_000_000)
        await clock.turn(2_500_000)
        assert since(log, muster.Kind.RELEASED) == []

        await clock.turn(500_000)

    assert since(log, muster.Kind.RELEASED) == [2_000_000]


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
async def running_timekeeper(bell: Bell) -> AsyncGenerator[Timekeeper, None]:
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
    async with running_timekeeper(bell) as keeper:
        mock_clock.jump(1.5)

        assert keeper.now_us() == 1_500_000


async def test_it_rings_at_the_instant_and_once(bell: Bell, mock_clock: MockClock) -> None:
    mock_clock.jump(10)
    async with running_timekeeper(bell) as keeper:
        keeper.aim(2 * S)
        await pass_time(mock_clock, 1.999_999)
        assert bell.rung_us == []

        await pass_time(mock_clock, 0.000_001)
        await pass_time(mock_clock, 50)

    assert bell.rung_us == [12 * S]


async def test_nothing_to_aim_at(bell: Bell, mock_clock: MockClock) -> None:
    async with running_timekeeper(bell) as keeper:
        keeper.aim(None)
        await pass_time(mock_clock, 50)

    assert bell.rung_us == []


async def test_an_instant_that_is_over_rings_at_once(bell: Bell, mock_clock: MockClock) -> None:
    mock_clock.jump(3)
    async with running_timekeeper(bell) as keeper:
        keeper.aim(-1)
        await wait_all_tasks_blocked()

    assert bell.rung_us == [3 * S]


async def test_a_later_aim(bell: Bell, mock_clock: MockClock) -> None:
    async with running_timekeeper(bell) as keeper:
        keeper.aim(2 * S)
        await pass_time(mock_clock, 1)
        keeper.aim(4 * S)
        await pass_time(mock_clock, 2.999_999)
        assert bell.rung_us == []
        await pass_time(mock_clock, 0.000_001)

    assert bell.rung_us == [4 * S]


async def test_an_earlier_aim(bell: Bell, mock_clock: MockClock) -> None:
    async with running_timekeeper(bell) as keeper:
        keeper.aim(4 * S)
        await pass_time(mock_clock, 1)
        keeper.aim(2 * S)
        await pass_time(mock_clock, 1)
        assert bell.rung_us == [2 * S]
        await pass_time(mock_clock, 5)

    assert bell.rung_us == [2 * S]


async def test_an_aim_that_is_given_up_and_taken_again(bell: Bell, mock_clock: MockClock) -> None:
    async with running_timekeeper(bell) as keeper:
        keeper.aim(2 * S)
        await wait_all_tasks_blocked()
        keeper.aim(None)
        await pass_time(mock_clock, 3)
        assert bell.rung_us == []

        keeper.aim(4 * S)
        await pass_time(mock_clock, 1)

    assert bell.rung_us == [4 * S]


async def test_many_aims_at_one_moment(bell: Bell, mock_clock: MockClock) -> None:
    async with running_timekeeper(bell) as keeper:
        for at_us in (5 * S, None, 1 * S, 7 * S, None, 3 * S):
            keeper.aim(at_us)
        for seconds in (1, 1, 1, 2, 2):
            await pass_time(mock_clock, seconds)

    assert bell.rung_us == [3 * S]


async def test_an_aim_while_it_rings(bell: Bell, mock_clock: MockClock) -> None:
    bell.gate = trio.Event()
    async with running_timekeeper(bell) as keeper:
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


def test_timings_fall_into_buckets() -> None:
    timings = Timings((0.1, 1.0))
    for took_s in (0.0, 0.1, 0.11, 1.0, 1.01, 50.0):
        timings.note(took_s)

    assert timings.counts == [2, 2, 2]
    assert timings.sum_s == 0.0 + 0.1 + 0.11 + 1.0 + 1.01 + 50.0


async def test_batches_are_measured() -> None:
    meter = Meter()
    async with open_parts(
        None,
        partition=None,
        binder=None,
        bind_timeout=BIND_TIMEOUT_S,
        bind_attempts=BIND_ATTEMPTS,
        clock=WallClock(),
        journal=None,
        record=None,
        store=None,
        interleave=None,
        meter=meter,
    ) as parts:
        scheduler = Scheduler(parts.statistics, parts.client, parts.observers.admit)
        assert sum(meter.decide.counts) == 0
        await scheduler.submit({"op": "add_app", "app": "a", "queue": "q"})
        await scheduler.settle()
        await trio.lowlevel.checkpoint()

        assert parts.waiting() == 0

    assert sum(meter.decide.counts) == 1
    assert meter.decide.sum_s > 0
    assert len(meter.decide.counts) == len(BOUNDS_S) + 1
    assert sum(meter.commit.counts) == 0
