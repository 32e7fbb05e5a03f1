"""Journals that take their time: they are awaited before anybody learns of a batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Announced
from muster._runtime.announcer import WRITE_GRACE_S, finish_within
from muster.feeds import Content, FeedItem
from muster.replay import replay
from tests.actors.program import APP, NODE, ask, tasks, watchdog
from tests.actors.service import Later


@attrs.define(eq=False)
class SlowJournal:
    """A journal whose batches are written when the test says so.

    Attributes:
        gate: Set when it may write.
        writing: How many batches it was given.
        written: How many batches it has written.
        fails: How it ends instead of writing.
        on_cancel: Called when it is cancelled.
    """

    gate: trio.Event = attrs.field(factory=trio.Event)
    writing: int = 0
    written: int = 0
    fails: BaseException | None = None
    on_cancel: Callable[[], Awaitable[object]] | None = None

    async def write(self, batch: Sequence[Announced]) -> None:
        assert batch
        self.writing += 1
        try:
            await self.gate.wait()
        except trio.Cancelled:
            if self.on_cancel is not None:
                await self.on_cancel()
            raise
        if self.fails is not None:
            raise self.fails
        self.written += 1


async def opened(journal: muster.Journal) -> None:
    """Have a scheduler with a journal, and decide something."""
    async with muster.open_scheduler(journal=journal) as scheduler:
        await scheduler.submit(APP)


async def test_nobody_learns_of_a_batch_that_is_not_written() -> None:
    journal = SlowJournal()
    with watchdog():
        async with (
            muster.open_scheduler(journal=journal) as scheduler,
            trio.open_nursery() as nursery,
        ):
            observer = scheduler.decisions()
            calls = [Later(nursery, lambda: scheduler.submit(APP))]
            await wait_all_tasks_blocked()
            assert (journal.writing, journal.written) == (1, 0)
            calls.append(Later(nursery, lambda: scheduler.submit(NODE)))
            await wait_all_tasks_blocked()
            assert [call.is_over for call in calls] == [False, False]
            taking = Later(nursery, observer.take)
            await wait_all_tasks_blocked()
            assert not taking.is_over

            journal.gate.set()

    assert journal.written == journal.writing
    assert [call.is_over for call in calls] == [True, True]
    assert taking.value


async def test_in_virtual_time_as_well() -> None:
    journal = SlowJournal()
    with watchdog():
        async with (
            muster.open_simulation(journal=journal) as scheduler,
            trio.open_nursery() as nursery,
        ):
            for event in (NODE, APP, ask()):
                await scheduler.submit(event)
            settling = Later(nursery, scheduler.settle)
            await wait_all_tasks_blocked()
            assert not settling.is_over
            journal.gate.set()

    assert journal.written == journal.writing > 0


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()], ids=repr)
async def test_its_error_comes_out_unchanged(error: BaseException) -> None:
    before = tasks()
    error.__cause__, error.__context__ = cause, context = KeyError("cause"), KeyError("context")
    journal = SlowJournal(fails=error)
    journal.gate.set()
    with watchdog(), pytest.raises(type(error)) as caught:
        await opened(journal)

    assert caught.value is error
    assert (caught.value.__cause__, caught.value.__context__) == (cause, context)
    assert tasks() == before


async def test_a_group_of_one_stays_a_group() -> None:
    error = ExceptionGroup("several files", [OSError("full")])
    journal = SlowJournal(fails=error)
    journal.gate.set()
    with watchdog(), pytest.raises(ExceptionGroup, match="several files") as caught:
        await opened(journal)

    assert caught.value.exceptions == error.exceptions


async def test_a_cancellation_does_not_cut_a_batch_short() -> None:
    journal = SlowJournal()
    observers: list[muster.Decisions] = []
    seen: list[Announced] = []
    with watchdog(), trio.CancelScope() as scope:
        async with (
            muster.open_scheduler(journal=journal) as scheduler,
            trio.open_nursery() as nursery,
        ):
            observers.append(scheduler.decisions())
            nursery.start_soon(scheduler.submit_many, (NODE, APP, ask()))
            await wait_all_tasks_blocked()
            nursery.start_soon(open_later, journal.gate)
            scope.cancel()
    with trio.CancelScope(), pytest.raises(muster.ClosedSchedulerError):
        while True:
            seen += await observers[0].take()

    assert (journal.writing, journal.written) == (1, 1)
    assert seen, "what is written reaches everybody"


async def open_later(gate: trio.Event) -> None:
    with trio.CancelScope(shield=True):
        await wait_all_tasks_blocked()
        gate.set()


async def test_a_journal_that_hangs_does_not_hold_up_a_cancelled_program_for_ever(
    mock_clock: MockClock,
) -> None:
    journal = SlowJournal()
    observers: list[muster.Decisions] = []
    before, mock_clock.autojump_threshold = tasks(), 0
    with trio.CancelScope() as scope:
        async with (
            muster.open_scheduler(journal=journal) as scheduler,
            trio.open_nursery() as nursery,
        ):
            observers.append(scheduler.decisions())
            nursery.start_soon(scheduler.submit_many, (NODE, APP, ask()))
            await trio.sleep(1)
            scope.cancel()

    assert scope.cancelled_caught
    assert trio.current_time() == 1 + WRITE_GRACE_S
    assert (journal.writing, journal.written) == (1, 0)
    with pytest.raises(muster.ClosedSchedulerError):
        await observers[0].take()
    assert tasks() == before


async def test_what_a_journal_raises_when_its_time_is_over_comes_out(
    mock_clock: MockClock,
) -> None:
    async def give_up() -> None:
        raise OSError("half written")

    mock_clock.autojump_threshold = 0
    with trio.CancelScope() as scope, pytest.raises(OSError, match="half written"):
        async with muster.open_scheduler(journal=SlowJournal(on_cancel=give_up)) as scheduler:
            scope.cancel()
            await scheduler.submit(APP)


async def test_a_journal_that_returns_something_else_is_not_awaited() -> None:
    class CountingJournal:
        count = 0

        def write(self, batch: Sequence[Announced]) -> int:
            self.count += len(batch)
            return self.count

    journal = CountingJournal()
    with watchdog():
        await opened(cast("Any", journal))

    assert journal.count


async def test_steps_come_first() -> None:
    class SteppedJournal(SlowJournal):
        steps = 0

        def write_in_steps(self, batch: Sequence[Announced]) -> Any:  # noqa: ANN401 - a generator
            yield
            self.steps += 1

    journal = SteppedJournal()
    with watchdog():
        await opened(journal)

    assert journal.steps
    assert journal.writing == 0


async def test_several_journals_of_a_replay_are_written_in_order() -> None:
    messages: list[str] = []

    class NamedJournal:
        def __init__(self, name: str) -> None:
            self.name = name

        def write(self, batch: Sequence[Announced]) -> None:
            messages.append(self.name)

    class WaitingJournal:
        def __init__(self, name: str) -> None:
            self.name = name

        async def write(self, batch: Sequence[Announced]) -> None:
            await trio.lowlevel.checkpoint()
            messages.append(self.name)

    events: tuple[Content, ...] = (NODE, APP, ask())
    feed = [FeedItem(number, None, number, event) for number, event in enumerate(events)]
    with watchdog():
        await replay(
            feed,
            journals=[
                NamedJournal("1"),
                WaitingJournal("2"),
                NamedJournal("3"),
                WaitingJournal("4"),
            ],
        )

    assert messages[:4] == ["1", "2", "3", "4"]


# What it is made of


async def sleep(seconds: float) -> None:
    await trio.sleep(seconds)


async def test_waiting_for_something_that_ends_in_time(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0
    with trio.CancelScope() as scope:
        scope.cancel()
        await finish_within(sleep(4), 5)
        assert trio.current_time() == 4
        await trio.lowlevel.checkpoint()

    assert scope.cancelled_caught


async def test_waiting_without_a_cancellation_has_no_limit(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0

    await finish_within(sleep(1000), 5)

    assert trio.current_time() == 1000
