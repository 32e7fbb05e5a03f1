"""The whole surface in asyncio, end to end, in both modes, with the same store.

Journals are awaited in the program's loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import trio

import muster
from muster import (
    AllocationEndedError,
    Announced,
    AskRemovedError,
    ClosedSchedulerError,
    ConfigError,
    EventError,
    GangRemovedError,
    PreemptedError,
    Reason,
    RefusedError,
)
from muster._runtime import announcer as journals
from muster.asyncio import Mode, open_scheduler
from muster.store import StateReader
from muster.testing import check
from muster_core.events import AddNode, Event, RemoveNode
from muster_core.resources import Resources
from tests.actors.asyncio.program import both_modes, names, outcome, read, run, small, turns, until

QUEUES = {"partitions": [{"name": "default", "queues": [{"name": "root"}]}]}

PREEMPTION = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        queues:
          - name: q
            properties: {preemption.delay: 0s}
"""


@both_modes
def test_from_a_node_to_an_allocation_and_back(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler, vcore=2)
            app = scheduler.app("a")
            ask = await app.add_ask("k", {"vcore": 1})
            allocation = await ask.bound()
            assert (allocation.app, allocation.ask, allocation.node) == ("a", "k", "n")
            assert allocation.queue == "root.q"
            assert allocation.resources == Resources({"vcore": 1000})
            assert allocation.gang is None
            assert await allocation.release() is True
            assert await allocation.release() is False
            assert await allocation.ended() is Reason.COMPLETED
            await check(scheduler)

    run(main)


@both_modes
def test_arguments_that_do_not_fit_are_an_error_of_the_caller_alone(mode: Mode) -> None:
    async def main() -> None:
        wrong: dict[str, Any] = {"priorty": 1}
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            with pytest.raises(TypeError, match=r"'priorty'; options of an ask are priority, "):
                await scheduler.add_ask("a", "k", {"vcore": 1}, **wrong)
            with pytest.raises(TypeError, match=r"add_node\(\).*'priorty'"):
                await scheduler.add_node("m", {"vcore": 1}, **wrong)
            with pytest.raises(TypeError, match=r"decisions\(\).*'priorty'"):
                scheduler.decisions(**wrong)
            await check(scheduler)

    run(main)


RULES = """
partitions:
  - name: default
    placementrules: [{name: user, create: true}]
"""


@both_modes
def test_rules_choose_the_queue_of_an_application(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(RULES, mode=mode) as scheduler:
            await scheduler.add_node("n", {"vcore": 2})
            app = await scheduler.add_app("a", user="sue")
            ask = await app.add_ask("k", {"vcore": 1})
            assert (await ask.bound()).queue == "root.sue"
            with pytest.raises(RefusedError, match=r"app: 'b': no placement rule matched: rule 1"):
                await scheduler.add_app("b", "root.sue")
            await check(scheduler)

    run(main)


@both_modes
def test_every_method(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(QUEUES, mode=mode) as scheduler:
            await scheduler.configure(PREEMPTION)
            await scheduler.add_priority_class("high", 10)
            await small(scheduler, vcore=4)
            await scheduler.update_node("n", schedulable=False)
            asks = await scheduler.add_asks("a", "k", {"vcore": 1}, 3, priority_class="high")
            assert names(asks) == ["k-0", "k-1", "k-2"]
            assert str(await asks[0].why()).startswith("No")
            await asks[2].remove()
            await scheduler.remove_ask("a", "k-1")
            await scheduler.update_node("n", schedulable=True)
            await asks[0].bound()
            await scheduler.release("a", "k-0")
            await scheduler.submit({"op": "add_node", "node": "m", "capacity": {"vcore": 1}})
            refusals = await scheduler.submit_many(
                RemoveNode(name) for name in ("m", "nowhere", "m")
            )
            assert [one is None for one in refusals] == [True, False, False]
            gang = await scheduler.add_gang("g", 2)
            await scheduler.app("a").add_asks("m", {"vcore": 1}, 2, gang="g")
            await gang.satisfied()
            assert gang.name == scheduler.gang("g").name == "g"
            await scheduler.remove_gang("g")
            with pytest.raises(GangRemovedError):
                await gang.satisfied()
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "k8s"},
                "status": {"allocatable": {"cpu": "2"}},
            }
            await scheduler.apply(node)
            assert (await scheduler.snapshot()).nodes.keys() == {"n", "k8s"}
            await scheduler.delete(node)
            await scheduler.settle()
            assert scheduler.statistics().bound == 3
            await scheduler.remove_node("n")
            await scheduler.app("a").remove()
            with pytest.raises(RefusedError):
                await scheduler.remove_app("a")
            with pytest.raises(RefusedError):
                await scheduler.ask("a", "k").bound()
            assert repr(scheduler.ask("a", "k")) == "<Ask a/k>"
            await check(scheduler)

    run(main)


@both_modes
def test_what_is_wrong_is_said_as_it_is(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            with pytest.raises(EventError):
                await scheduler.add_node("n", {"vcore": "many"})
            with pytest.raises(RefusedError):
                await scheduler.remove_node("n")
            with pytest.raises(EventError):
                scheduler.decisions(kinds=["none"])
            with pytest.raises(EventError):
                scheduler.decisions(buffer=0)
        with pytest.raises(ConfigError):
            async with open_scheduler("partitions: {}\n", mode=mode):
                pytest.fail("it is not open")
        with pytest.raises(EventError):
            async with open_scheduler(mode=mode, bind_timeout=0):
                pytest.fail("it is not open")

    run(main)


def test_a_mode_that_there_is_not() -> None:
    async def main() -> None:
        async with open_scheduler(mode="process"):
            pytest.fail("it is not open")

    with pytest.raises(ValueError, match="process"):
        run(main)


@both_modes
def test_an_ask_that_is_removed_while_a_task_waits(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 9})
            waiting = asyncio.create_task(ask.bound())
            await turns(3)
            await ask.remove()
            assert isinstance(await outcome(waiting), AskRemovedError)

    run(main)


@both_modes
def test_waiting_with_a_deadline(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 9})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ask.bound(), 0.001)
            await ask.remove()

    run(main)


@both_modes
@pytest.mark.parametrize("k", range(20))
def test_cancelled_calls_have_done_nothing(mode: Mode, k: int) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            task = asyncio.create_task(scheduler.add_node("n", {"vcore": 1}))
            await turns(k)
            task.cancel()
            result = await outcome(task)
            nodes = (await scheduler.snapshot()).nodes.keys()
            assert nodes == ({"n"} if result is None else set())
            assert result is None or isinstance(result, asyncio.CancelledError)
            await check(scheduler)

    run(main)


@both_modes
def test_what_is_given_one_by_one_is_taken_in_the_loop(mode: Mode) -> None:
    threads: list[threading.Thread] = []

    def events() -> Iterator[Event]:
        threads.append(threading.current_thread())
        yield AddNode("n", Resources({"vcore": 1}))

    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            assert await scheduler.submit_many(events()) == (None,)

    run(main)
    assert threads == [threading.main_thread()]


# Work under an allocation


@both_modes
def test_the_body_is_cancelled_when_its_allocation_is_preempted(mode: Mode) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        async with open_scheduler(PREEMPTION, mode=mode) as scheduler:
            await scheduler.add_priority_class("high", 9, preemption_policy="PreemptLowerPriority")
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            allocation = await ask.bound()
            with pytest.raises(PreemptedError) as caught:
                async with allocation.running():
                    await scheduler.add_ask("a", "urgent", {"vcore": 1}, priority_class="high")
                    await asyncio.Event().wait()
            assert caught.value.reason is Reason.PREEMPTED
            assert task.cancelling() == 0
            async with (await scheduler.ask("a", "urgent").bound()).running():
                pass
            async with (await ask.bound()).running():
                pass
            assert (await scheduler.snapshot()).nodes["n"].used == {}

    run(main)


@both_modes
def test_the_body_is_cancelled_when_its_node_is_lost(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            allocation = await ask.bound()
            with pytest.raises(AllocationEndedError) as caught:
                async with allocation.running():
                    await scheduler.remove_node("n")
                    await asyncio.Event().wait()
            assert caught.value.reason is Reason.NODE_LOST
            with pytest.raises(AllocationEndedError):
                async with allocation.running():
                    pytest.fail("it is over")

    run(main)


@both_modes
def test_a_body_that_fails_or_is_cancelled_gives_back_what_it_held(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1})
            with pytest.raises(OSError, match="no"):
                async with (await ask.bound()).running():
                    raise OSError("no")
            assert (await scheduler.snapshot()).nodes["n"].used == {}
            ask = await scheduler.add_ask("a", "l", {"vcore": 1})
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as deadline, (await ask.bound()).running():
                    deadline.reschedule(-1)
                    await asyncio.Event().wait()
            assert (await scheduler.snapshot()).nodes["n"].used == {}

    run(main)


# Failures, and what else may happen


@both_modes
def test_a_journal_that_fails_ends_the_block(mode: Mode) -> None:
    class FullJournal:
        def __init__(self) -> None:
            self.is_full = False

        def write(self, batch: Sequence[Announced], /) -> None:
            if self.is_full and batch:
                raise OSError("full")

    async def main() -> None:
        journal = FullJournal()
        observed: list[object] = []
        observing: list[asyncio.Task[object]] = []
        with pytest.raises(OSError, match="full"):
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                await small(scheduler)
                observing.append(asyncio.create_task(outcome(read(scheduler.decisions()))))
                journal.is_full = True
                observed.append(await outcome(scheduler.add_ask("a", "k", {"vcore": 1})))
                await asyncio.Event().wait()
        assert isinstance(observed[0], ClosedSchedulerError)
        assert isinstance(await observing[0], ClosedSchedulerError)

    run(main)


class HastyClock:
    """A clock on which every instant that a caller waits for has come."""

    def __init__(self) -> None:
        self._now_us = 0

    def now_us(self) -> int:
        return self._now_us

    async def wait_until_us(self, at_us: int) -> None:
        await trio.lowlevel.checkpoint()
        self._now_us = at_us


@both_modes
def test_timers_go_off_by_themselves(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode, clock=HastyClock()) as scheduler:
            await small(scheduler)
            ask = await scheduler.add_ask("a", "k", {"vcore": 1}, run_for="1h")
            assert await (await ask.bound()).ended() is Reason.COMPLETED

    run(main)


def test_two_schedulers_in_one_loop() -> None:
    async def main() -> None:
        async with (
            open_scheduler(mode="guest") as first,
            open_scheduler(mode="guest") as second,
            open_scheduler() as third,
        ):
            for scheduler in (first, second, third):
                await small(scheduler)
                ask = await scheduler.add_ask("a", "k", {"vcore": 1})
                assert (await ask.bound()).node == "n"

    run(main)


@both_modes
def test_the_loop_goes_on_during_a_round(mode: Mode) -> None:
    async def main() -> None:
        async with open_scheduler(mode=mode) as scheduler:
            await scheduler.add_node("n", {"vcore": 2000})
            await scheduler.add_app("a", "root.q")
            adding = asyncio.create_task(scheduler.add_asks("a", "k", {"vcore": 1}, 2000))
            rounds = 0
            while not adding.done():
                await asyncio.sleep(0)
                rounds += 1
            assert len(await adding) == 2000
            assert rounds > 10

    run(main)


CONFIG = "partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]"


class ResumingBinder:
    """A binder that finds all work again."""

    def __init__(self) -> None:
        self.resumed: list[str] = []
        self.is_over = asyncio.Event()

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        pytest.fail(f"{allocation.ask} began again")

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        self.resumed.append(allocation.ask)
        started()
        await self.is_over.wait()


@both_modes
def test_a_scheduler_goes_on_where_it_was(mode: Mode, tmp_path: Path) -> None:
    finder = ResumingBinder()

    async def begin() -> None:
        async with open_scheduler(CONFIG, mode=mode, store=tmp_path) as scheduler:
            await scheduler.add_node("n", {"vcore": 1})
            await scheduler.add_app("a", "root.q")
            await scheduler.add_ask("a", "k", {"vcore": 1})
            await scheduler.add_ask("a", "later", {"vcore": 9})
            await scheduler.checkpoint()

    async def go_on() -> None:
        async with open_scheduler(mode=mode, store=tmp_path, binder=finder) as scheduler:
            assert [ask.name for ask in await scheduler.asks(state="pending")] == ["later"]
            allocation = await scheduler.ask("a", "k").bound()
            finder.is_over.set()
            assert await allocation.ended() is muster.Reason.COMPLETED

    run(begin)
    run(go_on)
    assert finder.resumed == ["k"]
    with StateReader(tmp_path) as reader:
        assert len(reader.checkpoints()) == 2


@both_modes
def test_a_directory_in_use_is_refused(mode: Mode, tmp_path: Path) -> None:
    async def twice() -> None:
        async with open_scheduler(CONFIG, mode=mode, store=tmp_path):
            with pytest.raises(muster.StoreError):
                async with open_scheduler(CONFIG, mode=mode, store=tmp_path):
                    pytest.fail("the block was entered")

    run(twice)


WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class SlowJournal:
    """A journal that writes when the test says so."""

    def __init__(self, error: Exception | None = None) -> None:
        self.gate = asyncio.Event()
        self.error = error
        self.who: set[str] = set()
        self.writing = 0
        self.written: list[Announced] = []
        self.cancelled = False

    async def write(self, batch: Sequence[Announced]) -> None:
        assert threading.current_thread() is threading.main_thread()
        self.who.add(WHO.get())
        self.writing += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error
        self.written += batch


@both_modes
def test_it_is_awaited_in_the_loop(mode: Mode) -> None:
    async def main() -> None:
        journal = SlowJournal()
        WHO.set("opener")
        async with open_scheduler(mode=mode, journal=journal) as scheduler:
            WHO.set("caller")
            adding = asyncio.create_task(scheduler.add_app("a", "root.q"))
            await until(lambda: journal.writing == 1)
            await turns(5)
            assert not adding.done()
            journal.gate.set()
            await adding
            assert journal.written
        assert journal.who == {"opener"}

    run(main)


@both_modes
def test_its_error_comes_out_unchanged(mode: Mode) -> None:
    async def main() -> None:
        error = OSError("full")
        journal = SlowJournal(error)
        journal.gate.set()
        with pytest.raises(OSError, match="full") as caught:
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                await outcome(small(scheduler))
                await asyncio.Event().wait()
        assert caught.value is error

    run(main)


@both_modes
def test_one_that_hangs_does_not_hold_up_a_cancelled_program_for_ever(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "WRITE_GRACE_S", 0.01)

    async def main() -> None:
        journal = SlowJournal()
        calls: list[asyncio.Task[object]] = []

        async def body() -> None:
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                calls.append(asyncio.create_task(outcome(small(scheduler))))
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await until(lambda: journal.writing == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert journal.cancelled
        assert type(await calls[0]) is muster.ClosedSchedulerError

    run(main)


@both_modes
def test_a_cancellation_does_not_cut_a_batch_short(mode: Mode) -> None:
    async def main() -> None:
        journal = SlowJournal()

        async def body() -> None:
            async with open_scheduler(mode=mode, journal=journal) as scheduler:
                await small(scheduler)

        task = asyncio.create_task(body())
        await until(lambda: journal.writing == 1)
        task.cancel()
        await turns(5)
        journal.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not journal.cancelled
        assert journal.written

    run(main)


class PlainJournal:
    """A journal that is not asynchronous."""

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()

    def write(self, batch: Sequence[Announced]) -> None:
        assert batch
        self.threads.add(threading.current_thread())


class SteppedJournal(PlainJournal):
    def write_in_steps(self, batch: Sequence[Announced]) -> object:
        yield
        self.write(batch)


@pytest.mark.parametrize("make", [PlainJournal, SteppedJournal])
def test_others_are_called_in_trio(make: Callable[[], PlainJournal]) -> None:
    async def main() -> None:
        journal = make()
        async with open_scheduler(mode=Mode.THREAD, journal=journal) as scheduler:
            await small(scheduler)
        assert threading.main_thread() not in journal.threads
        assert len(journal.threads) == 1

    run(main)


@both_modes
def test_what_makes_a_coroutine_otherwise_is_awaited_too(mode: Mode) -> None:
    class WrappedJournal:
        def __init__(self, inner: SlowJournal) -> None:
            self._inner = inner

        def write(self, batch: Sequence[Announced]) -> Awaitable[None] | None:
            return self._inner.write(batch)

    async def main() -> None:
        inner = SlowJournal()
        inner.gate.set()
        journal: muster.Journal = WrappedJournal(inner)
        async with open_scheduler(mode=mode, journal=journal) as scheduler:
            await small(scheduler)
        assert inner.written

    run(main)
