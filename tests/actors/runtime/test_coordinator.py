from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from typing_extensions import override

import muster
from muster import BrokenSchedulerError
from muster._runtime.requests import Answer
from muster._runtime.virtual_coordinator import Finish, Settle, Submit, refuse_unanswered
from muster.testing import Interleaving, Recording, check
from muster_core.decisions import Announced, Kind
from muster_core.errors import RefusedError
from muster_core.events import AddApp, AddAsk, Release, RemoveApp
from muster_core.owners.app_messages import AppReport, ToApplication
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.queue import QueueMachine, QueueReport, ToQueue
from muster_core.snapshots import AskPlace
from tests.actors.program import APP, NODE, ONE, S, ask, shuffled, watchdog
from tests.actors.service import Later


class Batches:
    """A journal that keeps batches apart."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Announced]] = []

    def write(self, batch: Sequence[Announced]) -> None:
        self.batches.append(batch)


# Replies


async def test_a_reply_is_given_to_whoever_waits() -> None:
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

        reply.give(3)  # Nobody waits any more, and nobody is hurt.


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


async def test_requests_without_an_answer_are_told() -> None:
    reply: Answer[None] = Answer()
    refuse_unanswered(Submit("bad"))
    refuse_unanswered(Finish(None, reply))

    with pytest.raises(muster.ClosedSchedulerError):
        await reply.wait()


# The journal


async def test_one_write_for_each_batch() -> None:
    journal = Batches()
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
    journal = Batches()
    async with muster.open_simulation(journal=journal) as scheduler:
        await scheduler.request(APP)
        await scheduler.request(ask())
        with pytest.raises(RefusedError):
            await scheduler.request(ask())
        assert journal.batches == []

    (batch,) = journal.batches
    kinds = [one.decision.kind for one in batch]
    assert kinds[:3] == [Kind.APP_STATE, Kind.APP_STATE, Kind.REJECTED]


async def test_the_journal_hears_of_a_decision_before_its_owner() -> None:
    seen: list[list[AskPlace]] = []

    class Curious:
        def write(self, batch: Sequence[Announced]) -> None:
            if any(one.decision.kind is Kind.BOUND for one in batch):
                seen.append([one.place for one in machine.snapshot().asks])

    async with muster.open_simulation(journal=Curious()) as scheduler:
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


# Owners that are told nothing


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
        monkeypatch.undo()

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
