"""The coordinator as a task, also by a clock.

What goes into one batch, when timers fire, what is recorded.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from typing_extensions import override

import muster
from muster import BrokenSchedulerError
from muster._runtime.entry import BOUND as ENTRY_BOUND
from muster._runtime.requests import Answer
from muster._runtime.virtual_coordinator import Finish, Settle, Submit, refuse_unanswered
from muster.testing import Inputs, Interleaving, Recording, check
from muster_core.decisions import Announced, Kind
from muster_core.errors import RefusedError
from muster_core.events import AddApp, AddAsk, AddNode, Release, RemoveApp
from muster_core.owners.app_messages import AppReport, ToApplication
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.queue import QueueMachine, QueueReport, ToQueue
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from tests.actors.program import APP, NODE, ONE, S, ask, bound, refusals, shuffled, watchdog
from tests.actors.service import Gate, Later

# Replies


async def test_a_reply_is_given_to_the_waiter() -> None:
    reply: Answer[int] = Answer()
    reply.give(3)

    assert await reply.wait() == 3
    assert await reply.wait() == 3


async def test_a_reply_can_be_an_error() -> None:
    reply: Answer[int] = Answer()
    reply.fail(RefusedError("no"))

    with pytest.raises(RefusedError, match="no"):
        await reply.wait()


async def test_who_is_cancelled_loses_the_reply() -> None:
    reply: Answer[int] = Answer()
    async with trio.open_nursery() as nursery:
        waiting = Later(nursery, reply.wait)
        await wait_all_tasks_blocked()
        waiting.scope.cancel()
        await wait_all_tasks_blocked()
        assert waiting.scope.cancelled_caught

        reply.give(3)  # No task waits any more, which is no error.


async def test_a_reply_that_is_there_is_not_lost() -> None:
    reply: Answer[int] = Answer()
    reply.give(3)
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await reply.wait() == 3

    assert not scope.cancelled_caught


async def test_what_was_answered_is_not_refused_any_more() -> None:
    reply: Answer[None] = Answer()
    reply.give(None)
    refuse_unanswered(Settle(None, reply))

    await reply.wait()


async def test_requests_without_an_answer_fail() -> None:
    reply: Answer[None] = Answer()
    refuse_unanswered(Submit("bad"))
    refuse_unanswered(Finish(None, reply))

    with pytest.raises(muster.ClosedSchedulerError):
        await reply.wait()


# The journal


async def test_one_write_for_each_batch() -> None:
    journal = BatchJournal()
    async with muster.open_simulation(journal=journal) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.settle()  # This decides nothing.
        await scheduler.submit(APP)
        await scheduler.submit(AddAsk("a", "k", ONE, run_for_us=S))
        await scheduler.settle()
        await scheduler.snapshot()  # Nor does this.
        await scheduler.finish()

    assert [batch[0].at_us for batch in journal.batches] == [0, S, 31 * S]
    decisions = [one for batch in journal.batches for one in batch]
    assert [one.seq for one in decisions] == list(range(1, len(decisions) + 1))


async def test_an_epoch_within_a_batch_writes_nothing() -> None:
    journal = BatchJournal()
    async with muster.open_simulation(journal=journal) as scheduler:
        await scheduler.request(APP)
        await scheduler.request(ask())
        with pytest.raises(RefusedError):
            await scheduler.request(ask())
        assert journal.batches == []

    (batch,) = journal.batches
    kinds = [one.decision.kind for one in batch]
    assert kinds[:3] == [Kind.APP_STATE, Kind.APP_STATE, Kind.REJECTED]


async def test_the_journal_gets_a_decision_before_its_owner() -> None:
    seen: list[list[AskPlace]] = []

    class CuriousJournal:
        def write(self, batch: Sequence[Announced]) -> None:
            if any(one.decision.kind is Kind.BOUND for one in batch):
                seen.append([one.place for one in machine.snapshot().asks])

    async with muster.open_simulation(journal=CuriousJournal()) as scheduler:
        await scheduler.submit(APP)
        await scheduler.submit(ask())
        await scheduler.settle()
        machines: list[ApplicationMachine] = []
        await scheduler.examine(lambda state: machines.extend(state.apps.values()))
        (machine,) = machines
        await scheduler.submit(NODE)
        await scheduler.snapshot()
        after = [one.place for one in machine.snapshot().asks]

    assert seen == [[AskPlace.PENDING]]
    assert after == [AskPlace.BOUND]


# Owners without messages


async def test_only_those_concerned_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: set[str] = set()
    app_handle, queue_handle = ApplicationMachine.handle, QueueMachine.handle

    def handle_app(self: ApplicationMachine, message: ToApplication) -> AppReport | None:
        woken.add(self.identity.name)
        return app_handle(self, message)

    def handle_queue(self: QueueMachine, message: ToQueue) -> QueueReport | None:
        woken.add(self.path)
        return queue_handle(self, message)

    async with muster.open_simulation() as scheduler:
        for name in "abc":
            await scheduler.submit(AddApp(name, f"root.{name}"))
        await scheduler.snapshot()
        monkeypatch.setattr(ApplicationMachine, "handle", handle_app)
        monkeypatch.setattr(QueueMachine, "handle", handle_queue)
        await scheduler.submit(ask(app="b"))
        await scheduler.settle()
        notified = set(woken)
        await scheduler.snapshot()
        monkeypatch.undo()

    assert notified == {"b"}
    assert woken == {"b", "root.b", "root"}


async def test_a_name_that_comes_again_while_the_old_one_leaves() -> None:
    log = Recording()
    async with muster.open_simulation(journal=log, interleave=Interleaving(1)) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask())
        await scheduler.settle()
        await scheduler.submit(RemoveApp("a"))
        await scheduler.submit(AddApp("a", "root.other"))
        await scheduler.submit(ask("new"))
        await scheduler.submit(Release("a", "k"), index=9)
        snapshot = await check(scheduler)

    assert [one.name for one in snapshot.apps["a"].asks] == ["new"]
    assert snapshot.queues.keys() == {"root", "root.other"}
    assert [one.decision.index for one in log.decisions if one.decision.kind is Kind.REJECTED] == [
        9
    ]


# Interrupts


class Interrupt(trio.abc.Instrument):
    """Sends the process an interrupt, as Ctrl-C does, before a step of any task."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.count = 0

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        del task
        self.count += 1
        if self.count == self._at:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_at_every_step() -> None:
    """It comes out as what it is, what was announced stays, and nothing hangs."""

    async def program(log: Recording) -> None:
        with watchdog():
            async with muster.open_simulation(journal=log) as scheduler:
                await scheduler.submit(NODE)
                await scheduler.request(APP)
                await scheduler.submit(AddAsk("a", "k", ONE, count=5, run_for_us=S))
                await scheduler.snapshot()
                await scheduler.finish()

    whole = Recording()
    steps = Interrupt(0)
    with shuffled(1):
        trio.run(program, whole, instruments=[steps])

    for at in range(1, steps.count + 1):
        log, interrupt, came_out = Recording(), Interrupt(at), False
        with shuffled(1):
            try:
                trio.run(program, log, instruments=[interrupt])
            except KeyboardInterrupt:
                came_out = True
        # A run can be a step shorter than the first: trio tidies up tasks of its own.
        assert came_out == (interrupt.count >= at)
        assert log.decisions == whole.decisions[: len(log.decisions)]


async def test_a_failure_of_the_coordinator_itself_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: object) -> None:
        msg = "bug"
        raise KeyError(msg)

    monkeypatch.setattr("muster_core.coordinator.coordinator.CoordinatorMachine.decide", fails)
    with pytest.raises(BrokenSchedulerError, match="the coordinator failed on Settle") as caught:
        async with muster.open_simulation() as scheduler:
            await scheduler.settle()

    assert isinstance(caught.value.__cause__, KeyError)


class BatchJournal:
    """A journal that keeps batches apart."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Announced]] = []

    def write(self, batch: Sequence[Announced]) -> None:
        self.batches.append(batch)

    def bound(self) -> list[list[str]]:
        """Return what each batch has bound, leaving out those that have bound nothing."""
        return [names for batch in self.batches if (names := bound(batch))]


async def jump(clock: MockClock, seconds: float) -> None:
    """Let everything come to rest, then time pass, then everything come to rest again."""
    await wait_all_tasks_blocked()
    clock.jump(seconds)
    await wait_all_tasks_blocked()


# Batches


async def test_what_comes_at_the_same_time_goes_into_one_batch() -> None:
    log = BatchJournal()
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit_many([NODE, APP])
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(scheduler.submit, ask(f"k{number}"))

    assert [sorted(names) for names in log.bound()] == [["a/k0", "a/k1", "a/k2"]]


async def test_a_caller_is_answered_when_the_decisions_are_announced() -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask())

        assert bound(log.decisions) == ["a/k"]


async def test_many_events_are_one_batch_in_their_order() -> None:
    log = BatchJournal()
    async with muster.open_scheduler(journal=log) as scheduler:
        refusals = await scheduler.submit_many([NODE, APP, ask("k", count=9), ask("k-3"), APP])

    assert [refusal is None for refusal in refusals] == [True, True, True, False, False]
    assert "'k-3' is already an ask" in str(refusals[3])
    assert log.bound() == [["a/k-0", "a/k-1", "a/k-2", "a/k-3"]]


async def test_calls_of_one_task_keep_their_order() -> None:
    record = Inputs()
    async with muster.open_scheduler(record=record) as scheduler:
        await scheduler.submit(APP)
        for number in range(20):
            await scheduler.submit(ask(f"k{number}"))

    events = [event for _, event in record.steps if isinstance(event, AddAsk)]
    assert [event.ask for event in events] == [f"k{number}" for number in range(20)]


async def test_a_refusal_has_the_index_of_its_event() -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit_many([NODE, NODE, APP, APP])

    rejected = [one.decision for one in log.decisions if one.decision.kind is Kind.REJECTED]
    assert [decision.index for decision in rejected] == [1, 3]


async def test_a_release_by_name_and_by_handle_in_one_batch() -> None:
    log = Recording()
    answers: list[bool] = []
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit_many([NODE, APP])
        allocation = await (await scheduler.add_ask("a", "k", {"vcore": 0.001})).bound()
        await wait_all_tasks_blocked()

        async def release() -> None:
            answers.append(await allocation.release())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(release)

    assert sorted(answers) == [False, False, True]
    assert refusals(log.decisions) == []


async def test_nothing_is_decided_when_nothing_comes() -> None:
    log = BatchJournal()
    record = Inputs()
    async with muster.open_scheduler(journal=log, record=record) as scheduler:
        for _ in range(5):
            await scheduler.settle()
            await scheduler.snapshot()
        statistics = scheduler.statistics()

    assert statistics.batches == 1  # the one in which the queues come
    assert record.steps == [(0, None)]


async def test_settling_waits_for_all_that_was_let_in_before() -> None:
    log = Recording()
    with watchdog():
        async with (
            trio.open_nursery() as nursery,
            muster.open_scheduler(journal=log, interleave=Interleaving(3)) as scheduler,
        ):
            await scheduler.submit_many([NODE, APP])
            for number in range(4):
                nursery.start_soon(scheduler.submit, ask(f"k{number}"))
            await wait_all_tasks_blocked()
            await scheduler.settle()

            assert len(bound(log.decisions)) == 4


async def test_load_reaches_who_makes_it() -> None:
    gate = trio.Event()
    answered: list[int] = []
    with watchdog():
        async with (
            muster.open_scheduler(interleave=gate.wait) as scheduler,
            trio.open_nursery() as nursery,
        ):

            async def call(number: int) -> None:
                await scheduler.settle()
                answered.append(number)

            for number in range(2 * ENTRY_BOUND):
                nursery.start_soon(call, number)
            await wait_all_tasks_blocked()
            assert not answered
            gate.set()

    assert len(answered) == 2 * ENTRY_BOUND


async def test_a_burst_lets_others_run() -> None:
    """Not even one call with many events, and one long round, keep the thread for themselves."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery, muster.open_scheduler() as scheduler:
        await scheduler.submit_many([NODE, APP])
        nursery.start_soon(others)
        before = turns
        await scheduler.submit_many([ask(f"k{number}") for number in range(20_000)])
        during = turns - before
        nursery.cancel_scope.cancel()

    assert during > 20


# Time


async def test_a_timer_fires_at_its_time_and_not_before(mock_clock: MockClock) -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit_many([NODE, APP, AddAsk("a", "k", ONE, run_for_us=10 * S)])
        await jump(mock_clock, 9.999999)
        assert [one.decision.kind for one in log.decisions].count(Kind.RELEASED) == 0
        await jump(mock_clock, 0.000001)
        (released,) = [one for one in log.decisions if one.decision.kind is Kind.RELEASED]

    assert released.at_us == 10 * S


async def test_timers_that_are_due_together_fire_at_their_own_times(mock_clock: MockClock) -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit_many([NODE, APP])
        for number in (3, 1, 2):
            await scheduler.submit(AddAsk("a", f"k{number}", ONE, run_for_us=number * S))
        await jump(mock_clock, 100)
        releases = [one for one in log.decisions if one.decision.kind is Kind.RELEASED]

    assert [(one.at_us, one.decision.ask) for one in releases] == [
        (1 * S, "k1"),
        (2 * S, "k2"),
        (3 * S, "k3"),
    ]


async def test_an_earlier_timer_comes_first_though_it_was_set_later(mock_clock: MockClock) -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log) as scheduler:
        await scheduler.submit_many([NODE, APP, AddAsk("a", "late", ONE, run_for_us=50 * S)])
        await wait_all_tasks_blocked()
        await scheduler.submit(AddAsk("a", "soon", ONE, run_for_us=5 * S))
        await jump(mock_clock, 5)

        assert [one.decision.ask for one in log.decisions if one.decision.reason] == ["soon"]


async def test_a_batch_has_the_instant_at_which_it_is_closed(mock_clock: MockClock) -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log) as scheduler:
        await jump(mock_clock, 2.5)
        await scheduler.submit_many([NODE, APP])
        await jump(mock_clock, 1)
        await scheduler.submit(ask())

    bindings = [one.at_us for one in log.decisions if one.decision.kind is Kind.BOUND]
    assert bindings == [3.5 * S]


class UnsteadyClock:
    """A clock that goes back, which none may."""

    def __init__(self) -> None:
        self._times = [100, 50, 70, 20]

    def now_us(self) -> int:
        return self._times.pop() if len(self._times) > 1 else self._times[0]

    async def wait_until_us(self, at_us: int) -> None:
        del at_us
        await trio.sleep_forever()


async def test_time_does_not_go_back_though_a_clock_does() -> None:
    log = Recording()
    async with muster.open_scheduler(journal=log, clock=UnsteadyClock()) as scheduler:
        for event in (NODE, APP, ask("k0"), ask("k1")):
            await scheduler.submit(event)

    times = [one.at_us for one in log.decisions]
    assert times == sorted(times)


# The record


@pytest.mark.parametrize("seed", range(5))
def test_the_record_gives_the_same_decisions_once_more(seed: int) -> None:
    """DESIGN's determinism: the log depends on what was let in alone."""
    log, record = Recording(), Inputs()

    async def client(scheduler: muster.Scheduler, name: str) -> None:
        app = await scheduler.add_app(name, f"root.{name}")
        asks = await app.add_asks("k", {"vcore": 0.001}, 3, run_for=7)
        for one in asks[:2]:
            with trio.move_on_after(5):
                await (await one.bound()).release()
        with pytest.raises(muster.RefusedError):
            await scheduler.add_app(name, "root.x")

    async def run() -> Sequence[Announced]:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock)
        interleave = Interleaving(seed)
        async with muster.open_scheduler(
            journal=log, record=record, interleave=interleave
        ) as scheduler:
            await scheduler.submit(NODE)
            async with trio.open_nursery() as nursery:
                for name in ("a", "b", "c"):
                    nursery.start_soon(client, scheduler, name)
                for _ in range(8):
                    await jump(clock, 3)
            await check(scheduler)
        return await record.replay()

    with shuffled(seed):
        again = trio.run(run, clock=MockClock())

    assert again == log.decisions
    assert len(bound(log.decisions)) >= 9


# A request that makes no sense


async def test_an_event_that_makes_no_sense_changes_nothing() -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.submit_many([NODE, APP])
        before = await check(scheduler)
        for event in (
            AddNode("n", Resources({"vcore": 1})),
            AddApp("a", "root.q"),
            Release("a", "k"),
            RemoveApp("b"),
        ):
            with pytest.raises(muster.RefusedError):
                await scheduler.submit(event)

        after = await check(scheduler)

    assert attrs.evolve(after, at_us=before.at_us) == before


# Who ends what


class FailingBinder:
    """A binder whose first run fails when a test sets an event; the others go on."""

    def __init__(self) -> None:
        self.fail = trio.Event()
        self.runs = 0

    async def run(self, _: muster.Allocation, started: Callable[[], None]) -> None:
        self.runs += 1
        started()
        if self.runs == 1:
            await self.fail.wait()
            raise OSError("no more")
        await trio.sleep_forever()


async def test_a_last_failure_does_not_remove_another_ask_of_that_name() -> None:
    binder, gate, log = FailingBinder(), Gate(), Recording()
    async with (
        muster.open_scheduler(
            binder=binder, bind_attempts=1, journal=log, interleave=gate.wait
        ) as scheduler,
        trio.open_nursery() as nursery,
    ):
        await scheduler.submit_many([NODE, APP])
        old = await scheduler.add_ask("a", "k", {"vcore": 0.001})
        await old.bound()

        async def fail() -> None:
            binder.fail.set()

        await gate.gather(
            scheduler,
            nursery,
            lambda: scheduler.submit_many([Release("a", "k"), AddAsk("a", "k", ONE)]),
            fail,
        )

        assert (await scheduler.ask("a", "k").bound()).node == "n"
        assert refusals(log.decisions) == []


async def test_what_a_caller_has_ended_before_is_not_ended_once_more() -> None:
    gate, log = Gate(), Recording()
    async with (
        muster.open_scheduler(journal=log, interleave=gate.wait) as scheduler,
        trio.open_nursery() as nursery,
    ):
        await scheduler.submit_many([NODE, APP])
        allocation = await (await scheduler.add_ask("a", "k", {"vcore": 0.001})).bound()

        (_, released) = await gate.gather(
            scheduler, nursery, lambda: scheduler.remove_node("n"), allocation.release
        )

    assert released.value is False
    assert refusals(log.decisions) == []


async def test_a_replay_ends_where_the_last_batch_was_closed() -> None:
    log, record = Recording(), Inputs()
    gate = Gate()
    with trio.CancelScope() as scope:
        async with (
            muster.open_scheduler(journal=log, record=record, interleave=gate.wait) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await scheduler.submit_many([NODE, APP])
            gate.shut()
            nursery.start_soon(scheduler.submit, ask())
            await wait_all_tasks_blocked()
            scope.cancel()

    assert isinstance(record.steps[-1][1], AddAsk)
    assert await record.replay() == log.decisions
