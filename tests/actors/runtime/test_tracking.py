"""What is known of asks and gangs, names that come again, and work of an earlier run of a program."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster import Reason, WorkFailedError
from muster._runtime.bindings import Bindings
from muster._runtime.calls import Note, StartFailed, WorkEnded, WorkStarted
from muster._runtime.observers import Watched
from muster._runtime.tracking import AllocationStatus, AskStatus, TrackedAsk
from muster_core.resources import Resources
from tests.actors.program import watchdog
from tests.actors.service import Later, pass_time, service

ONE = {"vcore": 1}

# Names that come again


@pytest.mark.parametrize("cores", [0, 1])
async def test_an_ask_of_the_same_name_is_another_one(cores: int) -> None:
    remove = {"op": "remove_app", "app": "a"}
    add_app = {"op": "add_app", "app": "a", "queue": "q"}
    add_ask = {"op": "add_ask", "app": "a", "ask": "k", "resources": ONE}
    async with service(cores=cores) as scheduler:
        old = await scheduler.add_ask("a", "k", ONE)

        assert await scheduler.submit_many([remove, add_app, add_ask]) == (None, None, None)

        with pytest.raises(muster.AskRemovedError):
            await old.bound()
        await scheduler.update_node("n", capacity=ONE)
        assert (await scheduler.ask("a", "k").bound()).node == "n"


async def test_a_pending_ask_that_is_removed_and_asked_again_in_one_batch() -> None:
    remove = {"op": "remove_ask", "app": "a", "ask": "k"}
    add = {"op": "add_ask", "app": "a", "ask": "k", "resources": ONE}
    async with service(cores=0) as scheduler:
        old = await scheduler.add_ask("a", "k", {"vcore": 9})
        waiting = scheduler.ask("a", "k")

        assert await scheduler.submit_many([remove, add, remove, add]) == (None,) * 4
        await scheduler.update_node("n", capacity=ONE)

        with pytest.raises(muster.AskRemovedError):
            await old.bound()
        assert (await waiting.bound()).resources == muster.Resources({"vcore": 1000})


async def test_a_bound_ask_that_is_completed_and_asked_again_in_one_batch() -> None:
    release = {"op": "release", "app": "a", "ask": "k"}
    add = {"op": "add_ask", "app": "a", "ask": "k", "resources": ONE}
    async with service() as scheduler:
        old = await scheduler.add_ask("a", "k", ONE)
        first = await old.bound()

        assert await scheduler.submit_many([release, add]) == (None, None)

        assert await first.ended() is Reason.COMPLETED
        assert not await (await old.bound()).release()
        assert await (await scheduler.ask("a", "k").bound()).release()


# An ask that is parked


async def test_bound_of_an_ask_whose_gang_times_out(mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        gang = await scheduler.add_gang("g", 2, mode="NonStrict", wait_time=10)
        (first, second) = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        waiting = [Later(nursery, first.bound), Later(nursery, second.bound)]
        satisfied = Later(nursery, gang.satisfied)
        await pass_time(mock_clock, 9.999_999)
        assert not any(one.is_over for one in waiting)

        await pass_time(mock_clock, 0.000_001)

        assert [type(one.error) for one in waiting] == [muster.AskParkedError] * 2
        message = "ask a/k-0 is parked: its gang default/g has timed out"
        assert str(waiting[0].error) == message
        assert isinstance(satisfied.error, muster.GangTimedOutError)
        with pytest.raises(muster.AskParkedError):
            await first.bound()


async def test_bound_of_one_whose_gang_is_removed_when_it_has_timed_out(
    mock_clock: MockClock,
) -> None:
    async with service() as scheduler:
        gang = await scheduler.add_gang("g", 2, mode="NonStrict", wait_time=10)
        asks = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await pass_time(mock_clock, 10)
        with pytest.raises(muster.AskParkedError):
            await asks[0].bound()

        await gang.remove()
        await gang_of(scheduler, 1)

        assert (await asks[0].bound()).gang == "default/g"


async def gang_of(scheduler: muster.Scheduler, members: int) -> muster.Gang:
    return await scheduler.add_gang("g", members)


async def test_a_parked_ask_may_be_removed(mock_clock: MockClock) -> None:
    async with service() as scheduler:
        await scheduler.add_gang("g", 2, mode="NonStrict", wait_time=10)
        (ask, other) = await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await pass_time(mock_clock, 10)

        await ask.remove()

        with pytest.raises(muster.AskRemovedError):
            await ask.bound()
        with pytest.raises(muster.AskParkedError):
            await other.bound()


# Gang.satisfied


async def test_satisfied_before_and_after_the_call() -> None:
    async with service(cores=2) as scheduler, trio.open_nursery() as nursery:
        gang = await scheduler.add_gang("g", 2)
        waiting = Later(nursery, gang.satisfied)
        asks = [await scheduler.add_ask("a", "k", ONE, gang="g")]
        await wait_all_tasks_blocked()
        assert not waiting.is_over

        asks.append(await scheduler.add_ask("a", "m", ONE, gang="default/g"))
        await wait_all_tasks_blocked()

        assert waiting.value is None
        await scheduler.gang("default/g").satisfied()
        assert [(await ask.bound()).gang for ask in asks] == ["default/g"] * 2


async def test_satisfied_of_a_gang_that_is_not_defined() -> None:
    async with service() as scheduler:
        await scheduler.add_ask("a", "k", ONE, gang="g")

        for name in ("g", "other"):
            with pytest.raises(muster.GangRemovedError, match=f"gang '{name}' is not defined"):
                await scheduler.gang(name).satisfied()


async def test_satisfied_of_a_gang_that_is_removed() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        gang = await scheduler.add_gang("g", 2)
        waiting = Later(nursery, gang.satisfied)
        await wait_all_tasks_blocked()

        await gang.remove()
        await wait_all_tasks_blocked()

        assert isinstance(waiting.error, muster.GangRemovedError)
        with pytest.raises(muster.RefusedError, match="default/g"):
            await gang.remove()


async def test_satisfied_of_a_gang_that_is_defined_again_in_one_batch() -> None:
    remove = {"op": "remove_gang", "gang": "g"}
    add = {"op": "add_gang", "gang": "g", "min_member": 1}
    async with service() as scheduler, trio.open_nursery() as nursery:
        gang = await scheduler.add_gang("g", 2)
        await scheduler.add_ask("a", "k", ONE, gang="g")
        waiting = Later(nursery, gang.satisfied)
        await wait_all_tasks_blocked()

        assert await scheduler.submit_many([remove, add]) == (None, None)
        await wait_all_tasks_blocked()

        assert waiting.value is None


async def test_satisfied_of_a_gang_that_has_timed_out_and_is_defined_again(
    mock_clock: MockClock,
) -> None:
    async with service() as scheduler:
        gang = await scheduler.add_gang("g", 2, mode="NonStrict", wait_time="10s")
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        await pass_time(mock_clock, 10)
        with pytest.raises(muster.GangTimedOutError, match="gang 'g' has timed out"):
            await gang.satisfied()

        await gang.remove()
        await scheduler.add_gang("g", 1)

        await gang.satisfied()


async def test_a_gang_that_is_satisfied_at_the_end_of_its_time(mock_clock: MockClock) -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        gang = await scheduler.add_gang("g", 2, mode="NonStrict", wait_time=10)
        await scheduler.add_asks("a", "k", ONE, 2, gang="g")
        waiting = Later(nursery, gang.satisfied)
        await pass_time(mock_clock, 9.999_999)

        await scheduler.update_node("n", capacity={"vcore": 2})
        await pass_time(mock_clock, 10)

        assert waiting.value is None


async def test_satisfied_of_a_gang_of_a_closed_scheduler() -> None:
    with watchdog():
        async with trio.open_nursery() as nursery:
            async with service() as scheduler:
                gang = await scheduler.add_gang("g", 2)
                waiting = Later(nursery, gang.satisfied)
                await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()

    assert isinstance(waiting.error, muster.ClosedSchedulerError)
    with pytest.raises(muster.ClosedSchedulerError):
        await gang.satisfied()


async def test_a_cancelled_wait_for_a_gang() -> None:
    async with service() as scheduler, trio.open_nursery() as nursery:
        gang = await scheduler.add_gang("g", 1)
        waiting = Later(nursery, gang.satisfied)
        await wait_all_tasks_blocked()

        waiting.scope.cancel()
        await wait_all_tasks_blocked()
        await scheduler.add_ask("a", "k", ONE, gang="g")

        assert waiting.scope.cancelled_caught
        await gang.satisfied()
        assert repr(gang) == "<Gang g>"


async def test_a_satisfied_gang_that_is_removed() -> None:
    async with service() as scheduler:
        gang = await scheduler.add_gang("g", 1)
        await scheduler.add_ask("a", "k", ONE, gang="g")
        await gang.satisfied()
        await gang.remove()

        with pytest.raises(muster.GangRemovedError):
            await gang.satisfied()


@attrs.define
class Work:
    """A binder that records its calls, and the notes about it."""

    error: Exception | None = None
    waits: bool = False
    calls: list[str] = attrs.field(factory=list[str])
    notes: list[Note] = attrs.field(factory=list["Note"])

    async def run(
        self, ask: TrackedAsk, held: AllocationStatus, started: Callable[[], None]
    ) -> None:
        self.calls.append(f"run {ask.name} on {held.node}")
        started()

    async def resume(
        self, ask: TrackedAsk, held: AllocationStatus, started: Callable[[], None]
    ) -> None:
        self.calls.append(f"resume {ask.name} on {held.node}")
        if self.waits:
            await trio.sleep_forever()
        if self.error is not None:
            raise self.error
        started()
        await trio.lowlevel.checkpoint()

    async def tell(self, note: Note) -> None:
        self.notes.append(note)


def ask() -> TrackedAsk:
    return TrackedAsk("a", "k", 1, "root.q", Resources(), None, Watched(AskStatus(None)))


async def test_resuming_instead_of_running() -> None:
    work, held = Work(), AllocationStatus(1, "n")
    bindings = Bindings(work.run, 5, work.tell, work.resume)
    assert bindings.can_resume
    async with trio.open_nursery() as nursery:
        bindings.start(nursery, ask(), held, resume=True)

    assert work.calls == ["resume k on n"]
    assert {type(note) for note in work.notes} == {WorkStarted, WorkEnded}


async def test_a_binder_that_can_resume_runs_what_is_new() -> None:
    work = Work()
    bindings = Bindings(work.run, 5, work.tell, work.resume)
    async with trio.open_nursery() as nursery:
        bindings.start(nursery, ask(), AllocationStatus(1, "n"))

    assert work.calls == ["run k on n"]


async def test_a_binder_that_cannot_resume() -> None:
    work = Work()
    bindings = Bindings(work.run, 5, work.tell)

    assert not bindings.can_resume
    async with trio.open_nursery() as nursery:
        with pytest.raises(AssertionError, match="cannot resume"):
            bindings.start(nursery, ask(), AllocationStatus(1, "n"), resume=True)


async def test_work_that_is_not_found_could_not_be_started() -> None:
    work, held = Work(error=LookupError("gone")), AllocationStatus(1, "n")
    async with trio.open_nursery() as nursery:
        Bindings(work.run, 5, work.tell, work.resume).start(nursery, ask(), held, resume=True)

    (note,) = work.notes
    assert isinstance(note, StartFailed)
    assert (note.error, note.counts) == (work.error, True)


async def test_work_that_is_found_and_had_failed() -> None:
    work, held = Work(error=WorkFailedError("exit status 3")), AllocationStatus(1, "n")
    async with trio.open_nursery() as nursery:
        Bindings(work.run, 5, work.tell, work.resume).start(nursery, ask(), held, resume=True)

    (note,) = work.notes
    assert isinstance(note, WorkEnded)
    assert note.failure is work.error


async def test_finding_work_takes_as_long_as_starting_it(mock_clock: MockClock) -> None:
    work, held = Work(waits=True), AllocationStatus(1, "n")
    async with trio.open_nursery() as nursery:
        Bindings(work.run, 5, work.tell, work.resume).start(nursery, ask(), held, resume=True)
        await wait_all_tasks_blocked()
        mock_clock.jump(5)

    (note,) = work.notes
    assert isinstance(note, StartFailed)
    assert isinstance(note.error, TimeoutError)
    assert held.why_ending() is Reason.BIND_FAILED


async def test_an_allocation_that_ends_cancels_the_search() -> None:
    work, held = Work(waits=True), AllocationStatus(1, "n")
    async with trio.open_nursery() as nursery:
        Bindings(work.run, 5, work.tell, work.resume).start(nursery, ask(), held, resume=True)
        await wait_all_tasks_blocked()
        held.ended.publish(Reason.REMOVED)

    assert work.notes == []
