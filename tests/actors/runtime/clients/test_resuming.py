"""Going on with work of an earlier run of a program, under the same supervision."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from muster import WorkFailedError
from muster._runtime.bindings import Bindings
from muster._runtime.calls import Note, StartFailed, WorkEnded, WorkStarted
from muster._runtime.observers import Watched
from muster._runtime.tracking import AllocationStatus, AskStatus, TrackedAsk
from muster_core.decisions import Reason
from muster_core.resources import Resources


@attrs.define
class Work:
    """A binder, and what is told of it."""

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
