"""Long work lets other tasks run; counted in passes of trio, never by the clock."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import Final

import pytest
import trio
from typing_extensions import override

import muster
from muster._runtime import clock as pace_module
from muster._runtime.clock import PIECE, PORTION, SMALL_PIECE, Pace, slices
from muster._runtime.observers import Decisions, Filter, Lag, Observers
from muster.testing import Recording
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddAsk, AddNode, Event
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Ask as CoreAsk
from muster_core.resources import Resources
from muster_core.structures.steps import PART, SIZE, Steps
from tests.actors.program import ONE, bound, watchdog

MANY: Final = 5 * PORTION


class PassCounter(trio.abc.Instrument):
    """Counts how often tasks of a name have their turn in one pass, at the most."""

    def __init__(self) -> None:
        self.number = 0
        self.most: Counter[str] = Counter()
        self._now: Counter[str] = Counter()

    @override
    def after_io_wait(self, timeout: float) -> None:
        del timeout
        self.number += 1
        for name, count in self._now.items():
            self.most[name] = max(self.most[name], count)
        self._now.clear()

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._now[task.name.rpartition(".")[2]] += 1

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count in the block."""
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)


@asynccontextmanager
async def turns_of_others() -> AsyncGenerator[list[None]]:
    """Yield a list that grows by one with each turn of another task in the block."""
    turns: list[None] = []

    async def count() -> None:
        while True:
            turns.append(None)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await trio.lowlevel.checkpoint()
        yield turns
        nursery.cancel_scope.cancel()


@pytest.fixture
def slice_always_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every slice is over at once, so that each caller lets others run."""
    monkeypatch.setattr(pace_module, "SLICE_S", -inf)


@pytest.fixture
def slice_never_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "SLICE_S", inf)


def steps(number: int) -> Steps[int]:
    for _ in range(number):
        yield
    return number


# The pace itself


async def work(pace: Pace, passes: PassCounter, units: list[int]) -> None:
    for _ in range(4):
        if pace.is_up():
            await pace.rest()
        units.append(passes.number)


async def work_together(pace: Pace) -> list[int]:
    """Have five tasks do four things each; return the pass in which each was done."""
    passes = PassCounter()
    units: list[int] = []
    with watchdog(), passes.counting():
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(work, pace, passes, units)
    assert len(units) == 20
    return units


@pytest.mark.usefixtures("slice_always_over")
async def test_in_each_pass_one_of_those_who_share_a_pace_goes_on() -> None:
    units = await work_together(Pace())

    assert units == list(range(units[0], units[0] + 20))


@pytest.mark.usefixtures("slice_never_over")
async def test_who_comes_back_while_the_slice_lasts_goes_on_in_the_same_pass() -> None:
    units = await work_together(Pace())

    assert len(set(units)) == 1


async def test_rest_can_be_cancelled_unless_it_is_shielded() -> None:
    pace = Pace()
    with trio.CancelScope() as scope:
        scope.cancel()
        await pace.rest(shield=True)
        assert await pace.take(steps(3), shield=True) == 3
        await pace.rest()

    assert scope.cancelled_caught


@pytest.mark.usefixtures("slice_always_over")
async def test_steps_are_paused_where_they_yield() -> None:
    async with turns_of_others() as turns:
        before = len(turns)
        assert await Pace().take(steps(10)) == 10
        assert abs(len(turns) - before - 10) <= 1


@pytest.mark.parametrize("number", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_slices(number: int) -> None:
    pieces = [list(piece) for piece in slices(range(number))]

    assert [item for piece in pieces for item in piece] == list(range(number))
    assert all(0 < len(piece) <= PIECE for piece in pieces)


# Owners are woken a few at a time


def burst(apps: int, asks: int = 1) -> list[Event]:
    events: list[Event] = []
    for number in range(apps):
        events.append(AddApp(f"a{number}", "root.q"))
        events.extend(AddAsk(f"a{number}", f"k{ask}", ONE) for ask in range(asks))
    return events


@pytest.mark.usefixtures("slice_never_over")
async def test_few_owners_of_a_large_batch_have_their_turn_in_one_pass() -> None:
    passes = PassCounter()
    async with muster.open_scheduler() as scheduler:
        await scheduler.submit_many(burst(MANY))
        with passes.counting():
            await scheduler.submit_many(
                [AddAsk(f"a{number}", "again", ONE) for number in range(MANY)]
            )
            await scheduler.snapshot()
    # Two messages are in each mailbox: the ask, and that its epoch is over.
    assert PORTION / 2 <= passes.most["run"] < PORTION + 10


@pytest.mark.usefixtures("slice_never_over")
async def test_few_owners_end_in_one_pass_when_the_scheduler_is_closed() -> None:
    passes = PassCounter()
    with passes.counting():
        async with muster.open_simulation() as simulation:
            for event in burst(MANY):
                await simulation.submit(event)
            await simulation.settle()
            passes.most.clear()

    assert PORTION <= passes.most["run"] < PORTION + 10


@pytest.mark.usefixtures("slice_always_over")
async def test_what_is_decided_does_not_depend_on_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [AddNode("n", Resources({"vcore": 150})), *burst(20, 10)]
    logs: list[Sequence[Announced]] = []
    for slice_s in (-inf, inf):
        monkeypatch.setattr(pace_module, "SLICE_S", slice_s)
        log = Recording()
        async with muster.open_simulation(journal=log) as simulation:
            for event in events:
                await simulation.submit(event)
        logs.append(log.decisions)

    assert logs[0] == logs[1]
    assert len(bound(logs[0])) == 150


# An application with very many asks

VERY_MANY: Final = 3 * PART


@pytest.mark.usefixtures("slice_always_over")
async def test_others_run_while_an_application_with_very_many_asks_comes_and_goes() -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.add_node("n", {"vcore": VERY_MANY})
        await scheduler.add_app("a", "root.q")
        async with turns_of_others() as turns:
            asks = await scheduler.add_asks("a", "k", {"vcore": 1}, VERY_MANY)
        # The owner adds and binds them, the rounds place them, and the caller gets its handles.
        assert len(turns) > 2 * VERY_MANY / SIZE + VERY_MANY / PIECE
        assert [ask.name for ask in asks] == [f"k-{number}" for number in range(VERY_MANY)]
        async with turns_of_others() as turns:
            await scheduler.remove_app("a")
        # The owner and the view remove them, their decisions are announced, and all is freed.
        assert len(turns) > 4 * VERY_MANY / SIZE
        assert not (await scheduler.snapshot()).apps


@pytest.mark.usefixtures("slice_always_over")
async def test_a_cancelled_caller_gets_handles_of_very_many_asks_that_were_added() -> None:
    made: list[muster.Ask] = []
    with watchdog(), trio.CancelScope() as whole_scope:
        async with muster.open_scheduler() as scheduler, trio.open_nursery() as nursery:
            await scheduler.add_app("a", "root.q")

            async def ask() -> None:
                made.extend(await scheduler.add_asks("a", "k", {"vcore": 1}, VERY_MANY))

            nursery.start_soon(ask)
            async for _ in scheduler.decisions():
                whole_scope.cancel()

    assert whole_scope.cancelled_caught
    assert len(made) == VERY_MANY


def memory() -> int:
    """Return how many asks there are in memory, wherever; some of them may be garbage."""
    return sum(type(one) is CoreAsk for one in gc.get_objects())


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.usefixtures("slice_always_over")
async def test_memory_is_freed_in_pieces_when_the_scheduler_is_closed(*, pending: bool) -> None:
    gc.collect()
    before = memory()
    async with turns_of_others() as turns:
        async with muster.open_scheduler() as scheduler:
            if not pending:
                await scheduler.add_node("n", {"vcore": VERY_MANY})
            await scheduler.add_app("a", "root.q")
            await scheduler.submit(AddAsk("a", "k", ONE, count=VERY_MANY))
            assert memory() == before + VERY_MANY
            turns.clear()
        # The owner and the view free what they know, in their turns.
        assert len(turns) > 2 * VERY_MANY / SIZE
        assert memory() == before
        assert scheduler.statistics().bound == (0 if pending else VERY_MANY)


@pytest.mark.usefixtures("slice_always_over")
async def test_a_cancellation_does_not_stop_the_freeing(monkeypatch: pytest.MonkeyPatch) -> None:
    free = ApplicationMachine.free
    turns_before: list[int] = []

    def cancel_and_free(machine: ApplicationMachine) -> Steps[None]:
        turns_before.append(len(turns))
        whole_scope.cancel()
        return free(machine)

    monkeypatch.setattr(ApplicationMachine, "free", cancel_and_free)
    gc.collect()
    before = memory()
    async with turns_of_others() as turns:
        with watchdog(), trio.CancelScope() as whole_scope:
            async with muster.open_simulation() as simulation:
                for event in (AddApp("a", "root.q"), AddAsk("a", "k", ONE, count=VERY_MANY)):
                    await simulation.submit(event)
                await simulation.settle()
        assert len(turns) - turns_before[0] > VERY_MANY / SIZE

    assert memory() == before


# What callers say


@pytest.mark.usefixtures("slice_always_over")
async def test_others_run_while_events_are_made_of_many_maps() -> None:
    maps = [
        {"op": "add_app", "app": f"a{number}", "queue": "q"} for number in range(8 * SMALL_PIECE)
    ]
    async with muster.open_scheduler() as scheduler:
        with pytest.raises(muster.EventError, match="not an event"):
            await scheduler.submit_many([*maps, "nothing"])  # type: ignore[list-item]
        with trio.move_on_after(0) as scope:
            await scheduler.submit_many(maps)
        assert scope.cancelled_caught
        assert not (await scheduler.snapshot()).apps
        async with turns_of_others() as turns:
            assert await scheduler.submit_many(maps) == (None,) * len(maps)

    assert len(turns) > 8


# What is announced


def decisions(number: int) -> list[Announced]:
    return [Announced(at, 0, Decision(Kind.WARNING, message="")) for at in range(1, number + 1)]


async def test_who_comes_while_a_batch_is_announced_gets_nothing_of_it() -> None:
    observers = Observers()
    here, late = (Decisions(Filter(), 10_000, Lag.DROP) for _ in range(2))
    observers.admit(here)
    batch = decisions(3 * PIECE)

    pieces = observers.publish(batch)
    next(pieces)
    next(pieces)
    observers.admit(late)
    for _ in pieces:
        pass

    assert await here.take() == tuple(batch)
    late.close()
    assert not await late.take()


async def test_who_leaves_while_a_batch_is_announced_gets_nothing_more() -> None:
    observers = Observers()
    observer = Decisions(Filter(), 10_000, Lag.DROP)
    observers.admit(observer)

    pieces = observers.publish(decisions(3 * PIECE))
    next(pieces)
    next(pieces)
    observer.close()
    for _ in pieces:
        pass

    assert not await observer.take()


@pytest.mark.usefixtures("slice_always_over")
async def test_a_cancellation_while_a_batch_is_announced_loses_no_answer() -> None:
    log = Recording()
    answers: list[int] = []
    with watchdog(), trio.CancelScope() as whole_scope:
        async with muster.open_scheduler(journal=log) as scheduler, trio.open_nursery() as nursery:
            await scheduler.add_node("n", {"vcore": 1000})
            await scheduler.add_app("a", "root.q")

            async def ask() -> None:
                asks = await scheduler.add_asks("a", "k", {"vcore": 1}, 3 * PIECE)
                answers.append(len(asks))

            async def cancel_at_the_first() -> None:
                async with scheduler.decisions(kinds={Kind.BOUND}, buffer=PIECE * 10) as seen:
                    nursery.start_soon(ask)
                    await anext(aiter(seen))
                    assert not answers
                    whole_scope.cancel()

            nursery.start_soon(cancel_at_the_first)

    assert whole_scope.cancelled_caught
    assert len(bound(log.decisions)) == 3 * PIECE
    assert answers == [3 * PIECE]


class SlowJournal:
    """A journal that lets others run after each decision."""

    def __init__(self) -> None:
        self.decisions: list[Announced] = []

    def write(self, batch: Sequence[Announced], /) -> None:
        self.decisions.extend(batch)

    def write_in_steps(self, batch: Sequence[Announced], /) -> Steps[None]:
        for one in batch:
            self.write([one])
            yield


@pytest.mark.usefixtures("slice_always_over")
async def test_a_journal_that_lets_others_run_has_a_whole_batch_before_others_learn_of_it() -> None:
    journal = SlowJournal()
    notified: list[str] = []
    with watchdog(), trio.CancelScope() as whole_scope:
        async with (
            muster.open_scheduler(journal=journal) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await scheduler.add_node("n", {"vcore": 9})
            await scheduler.add_app("a", "root.q")

            async def observe() -> None:
                await scheduler.decisions(kinds={Kind.BOUND}).take()
                notified.append("observer")

            async def ask() -> None:
                notified.extend(
                    ["answer"] * len(await scheduler.add_asks("a", "k", {"vcore": 1}, 9))
                )

            nursery.start_soon(observe)
            nursery.start_soon(ask)
            while len(bound(journal.decisions)) < 3:
                await trio.lowlevel.checkpoint()
            assert len(bound(journal.decisions)) < 9
            assert not notified
            whole_scope.cancel()

    assert len(bound(journal.decisions)) == 9
    assert notified.count("answer") == 9


@pytest.mark.parametrize("error", [OSError("full"), KeyError("mine")])
async def test_what_such_a_journal_raises_comes_out_as_it_is(error: Exception) -> None:
    class FullJournal(SlowJournal):
        @override
        def write(self, batch: Sequence[Announced], /) -> None:
            raise error

    with watchdog(), pytest.raises(type(error)) as caught:
        async with muster.open_scheduler(journal=FullJournal()) as scheduler:
            await scheduler.add_app("a", "root.q")

    assert caught.value is error


@pytest.mark.usefixtures("slice_always_over")
async def test_whose_gang_is_satisfied_is_seen_as_bound() -> None:
    number = 3 * PIECE
    async with muster.open_scheduler() as scheduler:
        await scheduler.add_app("a", "root.q")
        gang = await scheduler.add_gang("g", number)
        asks = await scheduler.add_asks("a", "k", {"vcore": 1}, number, gang="g")
        async with trio.open_nursery() as nursery:
            nodes: list[str] = []

            async def wait(ask: muster.Ask) -> None:
                nodes.append((await ask.bound()).node)

            async def look() -> None:
                await gang.satisfied()
                assert len(nodes) == number

            nursery.start_soon(look)
            for ask in asks:
                nursery.start_soon(wait, ask)
            await scheduler.add_node("n", {"vcore": number})
