"""Owners as tasks: their mailboxes, and batches with checkpoints."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, settings, strategies as st
from trio.testing import wait_all_tasks_blocked

import muster
from muster._runtime.batches import Batches, DecidedBatch
from muster._runtime.clock import Pace
from muster._runtime.owners import (
    ApplicationOwner,
    GangOwner,
    Mailbox,
    Owner,
    QueueOwner,
    SendSnapshot,
)
from muster.testing import Interleaving, Recording
from muster_core.config import default_configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, RemoveApp, RemoveGang
from muster_core.facts import Facts
from muster_core.gangs import GangDefinition, GangFields
from muster_core.owners.app_messages import (
    AddAsks,
    AppReport,
    Close,
    CommitApp,
    Dismiss,
    Enlist,
    Values,
)
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Allocation, AppIdentity, Origin
from muster_core.owners.gang import (
    DefineGang,
    GangMachine,
    GangReport,
    JoinGang,
    MemberKey,
    MoveMember,
)
from muster_core.owners.queue import CommitQueue, Expect, QueueMachine, QueueReport, Retire
from muster_core.resources import Resources
from muster_core.snapshots import AppSnapshot, AskPlace, GangSnapshot, QueueSnapshot
from muster_core.values.application_states import AppState
from tests.actors.program import APP, NODE, ask, private_attribute, settled, watchdog
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Marker, Scenario, Step, run_plainly
from tests.share import share

IDENTITY = AppIdentity(5, "a", 1, "root")


def application(
    interleaving: Interleaving | None = None,
) -> tuple[ApplicationOwner, Mailbox[AppReport]]:
    reports: Mailbox[AppReport] = Mailbox()
    machine = ApplicationMachine(IDENTITY)
    return Owner("application", "a", machine, reports, Mailbox(interleaving), Pace()), reports


def queue() -> tuple[QueueOwner, Mailbox[QueueReport]]:
    reports: Mailbox[QueueReport] = Mailbox()
    machine = QueueMachine(1, None, default_configuration().root)
    return Owner("queue", "root", machine, reports, Mailbox(), Pace()), reports


@asynccontextmanager
async def running(owner: ApplicationOwner | QueueOwner | GangOwner) -> AsyncGenerator[None]:
    with watchdog():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            yield
            nursery.cancel_scope.cancel()


async def survey(owner: ApplicationOwner) -> AppSnapshot:
    reply: Mailbox[AppSnapshot] = Mailbox()
    owner.mailbox.put(SendSnapshot(reply))
    (snapshot,) = await reply.take_all()
    return snapshot


# Applications


async def test_an_application_reports_once_for_all_its_messages() -> None:
    owner, reports = application()
    async with running(owner):
        await settled()
        owner.mailbox.put(Enlist(Origin(5)), wake=False)
        owner.mailbox.put(AddAsks(Origin(6), ask("k"), 3), wake=False)
        owner.mailbox.put(AddAsks(Origin(7), ask("k"), 4), wake=False)  # refused
        await settled()
        assert reports.drain() == []

        owner.mailbox.put(Close(1))
        (report,) = await reports.take_all()

    assert isinstance(report, AppReport)
    assert (report.epoch, report.credits, report.gone) == (1, 3, False)
    assert report.values == Values(3, {"vcore": 1}, {})


async def test_a_commit_that_wakes_nobody_is_seen_by_whatever_comes_after_it() -> None:
    owner, _ = application()
    async with running(owner):
        owner.mailbox.put(Enlist(Origin(5)))
        owner.mailbox.put(AddAsks(Origin(6), ask("k"), 0))
        before = await survey(owner)
        (pending,) = private_attribute(owner.machine, "_places").pending.values()
        owner.mailbox.put(CommitApp((Allocation(pending, "n", 1),)), wake=False)
        await settled()
        assert owner.machine.snapshot() == before

        after = await survey(owner)

    assert after.state is AppState.STARTING
    assert [(one.name, one.place, one.node) for one in after.asks] == [("k", AskPlace.BOUND, "n")]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
async def test_an_application_ends_when_it_is_gone(seed: int | None) -> None:
    owner, reports = application(None if seed is None else Interleaving(seed))
    with watchdog():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            owner.mailbox.put(Enlist(Origin(5)))
            owner.mailbox.put(Dismiss(Origin(6)))
            await settled()
            owner.mailbox.put(Close(1))

    (report,) = reports.drain()
    assert isinstance(report, AppReport)
    assert report.gone


async def test_an_application_that_fails_says_on_what() -> None:
    owner, _ = application()
    # A commit about an ask that is not there can only be a bug.
    owner.mailbox.put(CommitApp((), failed=("missing",)))

    with pytest.raises(muster.BrokenSchedulerError) as caught:
        await owner.run()

    message = (
        "CommitApp(bound=(), failed=('missing',), released=(), waiting=(), parked=(), in_a_row=(), "
        "ended=())"
    )
    expected = f"the application 'a' failed on {message}"
    assert str(caught.value) == expected
    assert isinstance(caught.value.__cause__, KeyError)


async def test_the_error_names_the_message_in_a_few_words() -> None:
    owner, _ = application()
    owner.mailbox.put(CommitApp((), failed=("missing",) * 1000))

    with pytest.raises(muster.BrokenSchedulerError) as caught:
        await owner.run()

    assert len(str(caught.value)) < 600


# Queues


async def test_a_queue_reports_when_all_children_have_reported() -> None:
    owner, reports = queue()
    values = Values(7, {"vcore": 1}, {})
    report = AppReport(IDENTITY, 1, 1, (), values, gone=False)
    async with running(owner):
        owner.mailbox.put(report)  # A child may be faster than the announcement of the epoch.
        await settled()
        assert reports.drain() == []
        owner.mailbox.put(Expect(1, 1))

        (whole,) = await reports.take_all()
        reply: Mailbox[QueueSnapshot] = Mailbox()
        owner.mailbox.put(SendSnapshot(reply))
        (snapshot,) = await reply.take_all()

    assert whole.apps == (report,)
    assert whole.summary.values == values
    assert (snapshot.path, snapshot.priority, snapshot.children) == ("root", 7, 1)


async def test_a_queue_ends_when_it_is_gone() -> None:
    owner, reports = queue()
    with watchdog():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            owner.mailbox.put(Retire(), wake=False)
            owner.mailbox.put(Expect(1, 0))

    (report,) = reports.drain()
    assert report.gone


async def test_a_queue_that_fails_says_on_what() -> None:
    owner, _ = queue()
    owner.mailbox.put(CommitQueue({3: Values(None, {}, {})}))
    private_attribute(owner.machine, "_children")[3] = Values(
        None, {"vcore": 1}, {}
    )  # Not in its sums: a bug.

    with pytest.raises(muster.BrokenSchedulerError, match="the queue 'root' failed on CommitQ"):
        await owner.run()


# Gangs


MEMBER = MemberKey(5, "a", "k")


def gang() -> tuple[GangOwner, Mailbox[GangReport]]:
    reports: Mailbox[GangReport] = Mailbox()
    machine = GangMachine(3, "default/g")
    return Owner("gang", "default/g", machine, reports, Mailbox(), Pace()), reports


async def test_a_gang_reports_when_it_is_asked_to() -> None:
    owner, reports = gang()
    async with running(owner):
        owner.mailbox.put(DefineGang(GangDefinition(2, 2), 9))
        owner.mailbox.put(JoinGang((MEMBER,), AskPlace.PENDING, (9, 0, 0)))
        await settled()
        assert reports.drain() == []
        owner.mailbox.put(Close(4))

        (report,) = await reports.take_all()
        reply: Mailbox[GangSnapshot] = Mailbox()
        owner.mailbox.put(SendSnapshot(reply))
        (snapshot,) = await reply.take_all()

    assert (report.key, report.epoch, report.creation, report.gone) == (3, 4, 9, False)
    assert snapshot == GangSnapshot("default/g", GangDefinition(2, 2), pending=(("a", "k"),))


async def test_a_gang_ends_when_it_is_gone() -> None:
    owner, reports = gang()
    with watchdog():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            owner.mailbox.put(JoinGang((MEMBER,), AskPlace.PENDING, (9, 0, 0)))
            owner.mailbox.put(MoveMember(MEMBER, None))
            owner.mailbox.put(Close(1))

    (report,) = reports.drain()
    assert report.gone


async def test_a_gang_that_fails_says_on_what() -> None:
    owner, _ = gang()
    # A member that is not there has moved: a bug.
    owner.mailbox.put(MoveMember(MEMBER, None))

    expected = "the gang 'default/g' failed on MoveMember"
    with watchdog(), pytest.raises(muster.BrokenSchedulerError, match=expected) as caught:
        await owner.run()

    assert isinstance(caught.value.__cause__, AssertionError)


# In a scheduler


async def test_a_queue_that_fails_ends_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(self: QueueMachine, message: object) -> None:
        raise ArithmeticError(self.path)

    with watchdog(), pytest.raises(muster.BrokenSchedulerError) as caught:
        async with muster.open_simulation() as scheduler:
            await scheduler.settle()
            monkeypatch.setattr(QueueMachine, "handle", handle)
            await scheduler.submit(APP)
            await scheduler.settle()

    assert str(caught.value).startswith("the queue 'root.q' failed on Expect(")
    assert isinstance(caught.value.__cause__, ArithmeticError)


async def test_an_interrupt_in_an_owner_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(self: ApplicationMachine, message: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ApplicationMachine, "handle", handle)
    with watchdog(), pytest.raises(KeyboardInterrupt):
        async with muster.open_simulation() as scheduler:
            await scheduler.submit(APP)


async def test_owners_come_and_go() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.snapshot()
        before = trio.lowlevel.current_statistics().tasks_living
        await scheduler.submit(NODE)
        await scheduler.submit(APP)
        await scheduler.submit(ask())
        await scheduler.snapshot()
        assert trio.lowlevel.current_statistics().tasks_living == before + 2  # and its queue

        await scheduler.submit(RemoveApp("a"))
        await scheduler.snapshot()
        await settled()
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_gang_that_fails_ends_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(self: GangMachine, message: object) -> None:
        raise ArithmeticError(self.name)

    with watchdog(), pytest.raises(muster.BrokenSchedulerError) as caught:
        async with muster.open_simulation() as scheduler:
            await scheduler.settle()
            monkeypatch.setattr(GangMachine, "handle", handle)
            await scheduler.submit(AddGang("default/g", GangFields(1)))
            await scheduler.settle()

    assert str(caught.value).startswith("the gang 'default/g' failed on DefineGang(")
    assert isinstance(caught.value.__cause__, ArithmeticError)


async def test_gangs_come_and_go() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.snapshot()
        before = trio.lowlevel.current_statistics().tasks_living
        await scheduler.submit(AddGang("default/g", GangFields(1)))
        assert set((await scheduler.snapshot()).gangs) == {"default/g"}
        assert trio.lowlevel.current_statistics().tasks_living == before + 1

        await scheduler.submit(RemoveGang("default/g"))
        assert (await scheduler.snapshot()).gangs == {}
        await settled()
        assert trio.lowlevel.current_statistics().tasks_living == before


async def test_an_owner_that_waits_keeps_no_report() -> None:
    async with muster.open_simulation() as scheduler:
        await scheduler.submit(AddNode("n", Resources({"vcore": 9})))
        for name in ("a", "b", "c"):
            await scheduler.submit(AddApp(name, "q"))
            await scheduler.submit(AddAsk(name, "k", Resources({"vcore": 1})))
        await scheduler.settle()
        await wait_all_tasks_blocked()
        gc.collect()

        assert [one for one in gc.get_objects() if isinstance(one, AppReport | QueueReport)] == []


async def take_into(mailbox: Mailbox[int], taken: list[list[int]]) -> None:
    while True:
        taken.append(await mailbox.take_all())


async def test_takes_everything_in_the_order_of_putting() -> None:
    mailbox: Mailbox[int] = Mailbox()
    for message in range(3):
        mailbox.put(message, wake=message == 1)

    assert await mailbox.take_all() == [0, 1, 2]
    assert mailbox.drain() == []


async def test_waits_until_it_is_woken() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.put(1, wake=False)
        mailbox.put(2, wake=False)
        await settled()
        assert taken == []
        mailbox.put(3)
        await settled()
        assert taken == [[1, 2, 3]]
        nursery.cancel_scope.cancel()


async def test_waking_without_a_message_wakes_nobody() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.wake()
        await settled()
        assert taken == []
        mailbox.put(1, wake=False)
        mailbox.wake()
        await settled()
        assert taken == [[1]]
        nursery.cancel_scope.cancel()


async def test_two_wakes_before_it_runs_are_one() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.put(1)
        mailbox.put(2)
        await settled()
        assert taken == [[1, 2]]
        nursery.cancel_scope.cancel()


async def test_one_that_comes_back_finds_what_was_put_without_waking() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1, wake=False)

    with watchdog():
        assert await mailbox.take_all() == [1]


async def test_taking_is_a_checkpoint_with_and_without_messages() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.take_all()
    assert scope.cancelled_caught

    assert mailbox.drain() == [1]  # A cancelled taker has taken nothing.
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.take_all()
    assert scope.cancelled_caught


async def test_a_cancelled_taker_is_not_woken_any_more() -> None:
    mailbox: Mailbox[int] = Mailbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, list[list[int]]())
        await settled()
        nursery.cancel_scope.cancel()

    mailbox.put(1)  # This would fail if it still waited.

    with watchdog():
        assert await mailbox.take_all() == [1]


async def test_cancellation_after_the_wake_loses_no_message() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[list[int]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_into, mailbox, taken)
        await settled()
        mailbox.put(1)
        nursery.cancel_scope.cancel()

    assert [*taken, mailbox.drain()] == [[1], []]


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_lost_whatever_the_interleaving(seed: int) -> None:
    mailbox: Mailbox[tuple[int, int]] = Mailbox(Interleaving(seed))
    delay = Interleaving(seed + 1000)

    async def putter(who: int) -> None:
        for number in range(20):
            mailbox.put((who, number), wake=(seed + who + number) % 3 == 0 or number == 19)
            await delay()

    taken: list[tuple[int, int]] = []
    with watchdog():
        async with trio.open_nursery() as nursery:
            for who in range(3):
                nursery.start_soon(putter, who)
            while len(taken) < 60:
                taken.extend(await mailbox.take_all())

    for who in range(3):
        assert [message for message in taken if message[0] == who] == [
            (who, number) for number in range(20)
        ]


def written(recording: Recording) -> Callable[[DecidedBatch], Awaitable[None]]:
    """Return what announces a batch to a recording."""

    async def announce(decided: DecidedBatch) -> None:
        recording.write(decided.announced)

    return announce


def new(machine: CoordinatorMachine, recording: Recording) -> Batches:
    return Batches(machine, None, Pace(), written(recording))


async def play(scenario: Scenario, seed: int) -> tuple[Sequence[Announced], list[Facts]]:
    """Take steps with tasks, all of which are replaced by loaded ones after each ``SETTLE``.

    Returns:
        The decisions, and the facts after each ``SETTLE``.
    """
    recording, saved = Recording(), list[Facts]()

    def made(machine: CoordinatorMachine) -> Batches:
        return Batches(machine, Interleaving(seed), Pace(), written(recording))

    async with trio.open_nursery() as nursery:
        batches = made(CoordinatorMachine(default_configuration()))
        await batches.start(nursery)
        for index, step in enumerate(scenario):
            await batches.advance(step.at_us)
            if not isinstance(step.what, Marker):
                await batches.enter(step.what, index)
                continue
            batches.begin()
            await batches.end_and_announce()
            saved.append(await batches.facts())
            await batches.close()
            batches = made(CoordinatorMachine(saved[-1].configuration))
            await batches.load(nursery, saved[-1])
            assert await batches.facts() == saved[-1]
        await batches.end_and_announce()
        await batches.run_timers(None)
        await batches.close()
    return recording.decisions, saved


# CHECKPOINT-1, CHECKPOINT-5
@settings(max_examples=share(0.2).max_examples)
@given(st.one_of(gang_scenarios(), evictions()), st.integers(0, 2**16))
def test_owners_that_are_loaded_go_on(scenario: list[Step], seed: int) -> None:
    decisions, saved = trio.run(play, scenario, seed)

    plain, expected = PlainScheduler(), list[Facts]()
    assert list(decisions) == run_plainly(scenario, plain, lambda: expected.append(plain.facts()))
    # The facts do not depend on what drives the machines.
    assert saved == expected


# CHECKPOINT-1
async def test_nothing_has_happened_before_the_first_batch() -> None:
    async with trio.open_nursery() as nursery:
        batches = new(CoordinatorMachine(default_configuration()), Recording())
        await batches.start(nursery)
        facts = await batches.facts()
        await batches.close()

        recording = Recording()
        loaded = new(CoordinatorMachine(facts.configuration), recording)
        await loaded.load(nursery, facts)
        loaded.begin()
        await loaded.end_and_announce()
        snapshot = await loaded.snapshot()
        await loaded.close()

    plain = PlainScheduler()
    plain.settle()
    assert not facts.has_begun
    assert recording.decisions == plain.announced
    assert snapshot == plain.snapshot()
