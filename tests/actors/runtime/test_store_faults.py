"""A disk that fails, or is slow, under a whole scheduler.

What callers and observers get, what is kept, and how it ends.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final, final

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked
from typing_extensions import override

import muster
from muster.store import KeptBatch, StateReader
from muster.testing import Inputs, Recording
from muster_core.decisions import Announced, Kind
from muster_core.events import AddApp, AddAsk, AddNode, Event, Release, RemoveApp, RemoveGang
from muster_core.resources import Resources
from tests.actors.program import APP, NODE, FailingJournal, ask, bound, tasks
from tests.actors.store.faults import (
    FULL,
    IOERR_FSYNC,
    IOERR_WRITE,
    READONLY,
    Disk,
    failing_disk,
    library,
)
from tests.share import every

SQLITE = library()
ONE: Final = Resources({"vcore": 1000})
EVENTS: Final[tuple[Event, ...]] = (
    AddNode("n", Resources({"vcore": 2000})),
    AddApp("a", "root.q"),
    AddAsk("a", "k0", ONE),
    AddAsk("a", "k1", ONE),
    AddAsk("a", "k2", ONE),
    Release("a", "k0"),
)


@final
@attrs.frozen
class Fault:
    """A fault of the disk.

    Attributes:
        what: The fault in short.
        name: The call to the disk.
        code: The error of SQLite.
        message: A pattern of the error's message.
    """

    what: str
    name: str
    code: int
    message: str

    @override
    def __str__(self) -> str:
        return self.what

    def on(self, disk: Disk, at: int = 0, *, forever: bool = True) -> None:
        """Cause the fault after some calls to the disk."""
        disk.fail(at, self.code, name=self.name, forever=forever)


FAULTS: Final = (
    Fault("no room", "write", FULL, "there is no room on the disk"),
    Fault("writing fails", "write", IOERR_WRITE, "the disk or the file system reports"),
    Fault("read-only", "write", READONLY, "it cannot be written"),
    Fault("sync fails", "sync", IOERR_FSYNC, "the disk or the file system reports"),
)


@pytest.fixture
def disk() -> Generator[Disk]:
    """The disk of files that are opened from now on."""
    if SQLITE is None:
        pytest.skip("SQLite is a part of Python here, no shared library: no fault can be injected")
    with failing_disk(SQLITE) as made_disk:
        yield made_disk


def batches_in(folder: Path) -> list[KeptBatch]:
    with StateReader(folder) as reader:
        return list(reader.batches())


def decisions_in(folder: Path) -> list[Announced]:
    return [one for batch in batches_in(folder) for one in batch.decisions]


def events_in(folder: Path) -> list[Event]:
    return [event for batch in batches_in(folder) for event in batch.events]


@final
class Binder:
    """Starts work that goes on until it is cancelled, and notes of which ask."""

    def __init__(self) -> None:
        self.began: list[str] = []

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        self.began.append(allocation.ask)
        started()
        await trio.sleep_forever()

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        assert allocation.node
        started()
        await trio.sleep_forever()


@final
class Listeners:
    """Journal, binder, observer and callers of a scheduler, which record what they get.

    Args:
        nursery: For tasks outside of the block.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.journal = Recording()
        self.record = Inputs()
        self.binder = Binder()
        self.answers: list[str] = []
        self.seen: list[Announced] = []

    @asynccontextmanager
    async def use(self, folder: Path) -> AsyncGenerator[muster.Scheduler]:
        """Open a scheduler; all that an observer gets is noted."""
        try:
            async with muster.open_scheduler(
                store=folder, journal=self.journal, record=self.record, binder=self.binder
            ) as scheduler:
                self._nursery.start_soon(self._observe, scheduler.decisions())
                yield scheduler
        finally:
            with trio.CancelScope(shield=True):
                await wait_all_tasks_blocked()

    async def _observe(self, decisions: muster.Decisions) -> None:
        try:
            async for one in decisions:
                self.seen.append(one)
        except muster.ClosedSchedulerError:
            pass

    async def call(self, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call, and note how it was answered."""
        try:
            await call()
        except muster.ClosedSchedulerError:
            self.answers.append("closed")
        else:
            self.answers.append("done")

    def counts(self) -> tuple[int, ...]:
        """Return how much each of them has got."""
        journal, record = len(self.journal.decisions), len(self.record.steps)
        return journal, record, len(self.seen), len(self.binder.began)


# A commit that fails


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("forever", [True, False], ids=["forever", "once"])
@pytest.mark.parametrize("number", every(2, range(len(EVENTS))))
async def test_a_batch_that_is_not_on_disk_is_not_published(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path, fault: Fault, forever: bool, number: int
) -> None:
    # STORE-15
    before, listeners = tasks(), Listeners(nursery)
    counts: tuple[int, ...] = ()
    with pytest.raises(muster.StoreError, match=fault.message):
        async with listeners.use(tmp_path) as scheduler:
            for event in EVENTS[:number]:
                await scheduler.submit(event)
            await wait_all_tasks_blocked()
            counts = listeners.counts()
            fault.on(disk, forever=forever)
            await listeners.call(lambda: scheduler.submit(EVENTS[number]))
            await trio.sleep_forever()
    disk.mend()

    assert listeners.answers == ["closed"]
    assert listeners.counts() == counts
    assert tasks() == before
    await assert_goes_on(nursery, tmp_path, EVENTS[:number], number)


async def assert_goes_on(
    nursery: trio.Nursery, folder: Path, answered: Sequence[Event], number: int
) -> None:
    """Check that what was answered is there, the batch that failed whole or not at all."""
    there = events_in(folder)
    assert there in [list(EVENTS[: len(answered)]), list(EVENTS[: number + 1])]
    listeners = Listeners(nursery)
    async with listeners.use(folder) as scheduler:
        for event in EVENTS[len(there) :]:
            await scheduler.submit(event)
        snapshot = await scheduler.snapshot()
    assert {one.name: one.node for one in snapshot.apps["a"].asks} == {"k1": "n", "k2": "n"}
    assert bound(decisions_in(folder)) == ["a/k0", "a/k1", "a/k2"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_all_callers_of_a_batch_are_answered(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path, fault: Fault
) -> None:
    before, listeners = tasks(), Listeners(nursery)
    with pytest.raises(muster.StoreError, match=fault.message):
        async with listeners.use(tmp_path) as scheduler:
            await scheduler.submit_many(EVENTS[:2])
            fault.on(disk)
            for number in range(30):
                event = AddAsk("a", f"k{number}", ONE)
                nursery.start_soon(listeners.call, _submit(scheduler, event))
            nursery.start_soon(listeners.call, scheduler.snapshot)
            nursery.start_soon(listeners.call, scheduler.ask("a", "k0").bound)
            await trio.sleep_forever()
    disk.mend()

    assert listeners.answers == ["closed"] * 32
    assert bound(listeners.journal.decisions) == bound(listeners.seen) == []
    assert listeners.binder.began == []
    assert tasks() == before


def _submit(scheduler: muster.Scheduler, event: Event) -> Callable[[], Awaitable[object]]:
    return lambda: scheduler.submit(event)


@pytest.mark.parametrize("fault", every(len(FAULTS), FAULTS), ids=str)
async def test_a_first_batch_that_fails_leaves_a_store_that_can_be_opened(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path, fault: Fault
) -> None:
    for at in range(40):
        folder, listeners = tmp_path / str(at), Listeners(nursery)
        fault.on(disk, at)
        is_open = False
        try:
            async with listeners.use(folder) as scheduler:
                is_open = True
                disk.mend()
                await scheduler.submit(EVENTS[0])
        except muster.StoreError as error:
            message = str(error)
        else:
            message = ""
        if not is_open:
            assert fault.message in message
            assert listeners.counts() == (0, 0, 0, 0)
        disk.mend()

        async with muster.open_scheduler(store=folder) as scheduler:
            snapshot = await scheduler.snapshot()
        assert list(snapshot.nodes) == (["n"] if is_open else [])
        if is_open:
            assert at > 0
            return
    pytest.fail("it makes more calls to the disk than this")


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_checkpoint_that_fails_ends_the_scheduler_and_loses_nothing(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path, fault: Fault
) -> None:
    listeners = Listeners(nursery)
    with pytest.raises(muster.StoreError, match=fault.message):
        async with listeners.use(tmp_path) as scheduler:
            await scheduler.submit_many(EVENTS[:4])
            fault.on(disk)
            await listeners.call(scheduler.checkpoint)
            await trio.sleep_forever()
    disk.mend()
    assert listeners.answers == ["closed"]
    await assert_goes_on(nursery, tmp_path, EVENTS[:4], 4)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_closing_that_fails_loses_nothing(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path, fault: Fault
) -> None:
    with pytest.raises(muster.StoreError, match=fault.message):
        async with Listeners(nursery).use(tmp_path) as scheduler:
            await scheduler.submit_many(EVENTS[:4])
            fault.on(disk)
    disk.mend()
    await assert_goes_on(nursery, tmp_path, EVENTS[:4], 4)


# A commit that takes long


@final
class Gate:
    """A disk that stops at a call until a test lets it go on."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._go = threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self.reached = trio.Event()

    def close(self) -> None:
        """Stop the disk at its next call."""
        self._disk.stop(0, self._wait, after=False)

    def _wait(self) -> None:
        self._token.run_sync_soon(self.reached.set)
        assert self._go.wait(30)

    def open(self) -> None:
        """Let the disk go on."""
        self._go.set()


async def test_a_caller_that_is_cancelled_while_its_batch_is_written_gets_its_answer(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path
) -> None:
    gate, listeners, scope = Gate(disk), Listeners(nursery), trio.CancelScope()

    async def call(scheduler: muster.Scheduler) -> None:
        with scope:
            await listeners.call(_submit(scheduler, EVENTS[1]))

    async with listeners.use(tmp_path) as scheduler:
        await scheduler.submit(EVENTS[0])
        gate.close()
        nursery.start_soon(call, scheduler)
        await gate.reached.wait()
        scope.cancel()
        await wait_all_tasks_blocked()
        assert listeners.answers == []
        gate.open()
    assert listeners.answers == ["done"]
    assert events_in(tmp_path) == list(EVENTS[:2])


async def test_a_caller_that_is_cancelled_while_another_batch_is_written_has_done_nothing(
    nursery: trio.Nursery, disk: Disk, tmp_path: Path
) -> None:
    gate, listeners = Gate(disk), Listeners(nursery)
    scopes = [trio.CancelScope() for _ in range(4)]

    async def call(scheduler: muster.Scheduler, number: int) -> None:
        with scopes[number]:
            await listeners.call(_submit(scheduler, EVENTS[number]))

    async with listeners.use(tmp_path) as scheduler:
        gate.close()
        nursery.start_soon(call, scheduler, 0)
        await gate.reached.wait()
        for number in (1, 2, 3):  # One is decided meanwhile; the others wait.
            nursery.start_soon(call, scheduler, number)
            await wait_all_tasks_blocked()
        scopes[2].cancel()
        await wait_all_tasks_blocked()
        assert listeners.counts() == (0, 1, 0, 0)
        gate.open()
    assert scopes[2].cancelled_caught
    assert listeners.answers == ["done"] * 3
    assert events_in(tmp_path) == [*EVENTS[:2], EVENTS[3]]


async def leave_by_cancellation(scope: trio.CancelScope) -> None:
    scope.cancel()
    await trio.sleep_forever()


class LeftError(Exception):
    """The exception by which a body is left."""


async def leave_by_an_exception(_: trio.CancelScope) -> None:
    raise LeftError


async def leave_normally(_: trio.CancelScope) -> None:
    return


@pytest.mark.parametrize(
    "leave",
    [leave_by_cancellation, leave_by_an_exception, leave_normally],
    ids=lambda one: one.__name__,
)
async def test_what_is_being_written_when_the_block_ends_is_announced(
    nursery: trio.Nursery,
    disk: Disk,
    tmp_path: Path,
    leave: Callable[[trio.CancelScope], Awaitable[None]],
) -> None:
    gate, listeners, scope = Gate(disk), Listeners(nursery), trio.CancelScope()
    before = tasks()

    async def open_gate() -> None:
        await wait_all_tasks_blocked(0.01)
        gate.open()

    with suppress(LeftError), scope:
        async with listeners.use(tmp_path) as scheduler:
            await scheduler.submit_many(EVENTS[:2])
            gate.close()
            nursery.start_soon(listeners.call, _submit(scheduler, EVENTS[2]))
            await gate.reached.wait()
            nursery.start_soon(listeners.call, _submit(scheduler, EVENTS[3]))
            await wait_all_tasks_blocked()
            nursery.start_soon(open_gate)
            await leave(scope)

    all_of_it = leave is leave_normally
    assert sorted(listeners.answers) == ["done" if all_of_it else "closed", "done"]
    assert events_in(tmp_path) == list(EVENTS[: 4 if all_of_it else 3])
    names = ["a/k0", "a/k1"][: 2 if all_of_it else 1]
    assert bound(decisions_in(tmp_path)) == bound(listeners.journal.decisions) == names
    assert tasks() == before


# Callers and observers


async def test_a_journal_that_raises_ends_the_scheduler_after_the_commit(tmp_path: Path) -> None:
    error = OSError("the journal is full")
    with pytest.raises(OSError, match="the journal is full"):
        async with muster.open_scheduler(
            store=tmp_path, journal=FailingJournal(error, 2)
        ) as scheduler:
            await scheduler.submit_many(EVENTS[:3])
            with pytest.raises(muster.ClosedSchedulerError):
                await scheduler.submit(EVENTS[3])
            await trio.sleep_forever()
    # No caller got an error for it, and it is kept.
    assert events_in(tmp_path) == list(EVENTS[:4])


async def test_an_observer_that_lags_holds_nobody_up(tmp_path: Path) -> None:
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        dropped = scheduler.decisions(buffer=1)
        skipping = scheduler.decisions(buffer=1, lag="skip")
        await scheduler.submit_many(EVENTS)
        with pytest.raises(muster.LaggedError):
            while await dropped.take():
                pass
        (last,) = await skipping.take()
    assert last == decisions_in(tmp_path)[-1]
    assert skipping.missed == len(decisions_in(tmp_path)) - 1


async def test_a_directory_that_was_removed_is_noticed_by_the_next_call(tmp_path: Path) -> None:
    # STORE-15: SQLite alone would go on to write to a file without a name.
    folder, journal = tmp_path / "state", Recording()
    with pytest.raises(muster.StoreError, match=r"batch 3: the file was removed or replaced"):
        async with muster.open_scheduler(store=folder, journal=journal) as scheduler:
            await scheduler.add_app("a", "root.q")
            folder.rename(tmp_path / "elsewhere")
            await scheduler.add_app("b", "root.q")
            pytest.fail("it was answered")
    assert [one.decision.app for one in journal.decisions if one.decision.app] == ["a"]
    (tmp_path / "elsewhere").rename(folder)
    async with muster.open_scheduler(store=folder) as scheduler:
        assert list((await scheduler.snapshot()).apps) == ["a"]


async def test_callers_learn_why_the_scheduler_is_closed(tmp_path: Path, disk: Disk) -> None:
    errors: list[muster.ClosedSchedulerError] = []
    schedulers: list[muster.Scheduler] = []

    async def call(number: int) -> None:
        try:
            await schedulers[0].add_app(f"app-{number}", "root.q")
        except muster.ClosedSchedulerError as error:
            errors.append(error)

    async with trio.open_nursery() as outside:
        with pytest.raises(muster.StoreError) as caught:
            async with muster.open_scheduler(store=tmp_path) as scheduler:
                schedulers.append(scheduler)
                disk.fail(0, FULL, name="write")
                for number in range(3):
                    outside.start_soon(call, number)
                await trio.sleep_forever()
    await call(4)  # after the end
    assert len(errors) == 4
    assert [error.__cause__ for error in errors] == [caught.value] * 4


async def test_nobody_is_blamed_for_a_normal_end(tmp_path: Path) -> None:
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        pass
    with pytest.raises(muster.ClosedSchedulerError) as caught:
        await scheduler.add_app("a", "root.q")
    assert caught.value.__cause__ is None


SIZE: Final = {"vcore": 1000}
LARGE: Final = AddAsk("a", "large", Resources(SIZE))


@final
class HeldJournal:
    """A journal that holds batches back on request, and may raise then."""

    def __init__(self) -> None:
        self.holds = False
        self.error: Exception | None = None
        self.go = trio.Event()

    async def write(self, _: Sequence[Announced], /) -> None:
        if self.holds:
            await self.go.wait()
            if self.error is not None:
                raise self.error


@final
class WaitingCallers:
    """Tasks outside of the block; each notes what it got, or that the scheduler was closed."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.got: dict[str, object] = {}

    async def begin(self, name: str, wait: Callable[[], Awaitable[object]]) -> None:
        await self.begin_all({name: wait})

    async def begin_all(self, waits: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
        """Begin them at the same time, so that calls come into one batch."""
        for name, wait in waits.items():
            self._nursery.start_soon(self._wait, name, wait)
        await wait_all_tasks_blocked()

    async def _wait(self, name: str, wait: Callable[[], Awaitable[object]]) -> None:
        try:
            with trio.fail_after(60):
                self.got[name] = await wait()
        except muster.ClosedSchedulerError:
            self.got[name] = "closed"


async def test_what_is_on_disk_is_announced_before_the_end(tmp_path: Path) -> None:
    journal = HeldJournal()
    outside: list[tuple[muster.Decisions, muster.Ask]] = []
    async with trio.open_nursery() as nursery:
        waits = WaitingCallers(nursery)
        with trio.CancelScope() as scope:
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([APP, LARGE])
                handle = scheduler.ask("a", "large")
                await waits.begin("bound", handle.bound)
                outside.append((scheduler.decisions(kinds=[Kind.BOUND]), handle))
                journal.holds = True
                await waits.begin("call", lambda: scheduler.add_node("n", SIZE))
                nursery.start_soon(_later, journal.go)
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        ((observer, handle),) = outside

        # The call was answered, so all others have its batch, too.
        await wait_all_tasks_blocked()
        assert waits.got["call"] is None
        assert isinstance(waits.got["bound"], muster.Allocation)
        assert [one.decision.kind for one in observer.take_now()] == [Kind.BOUND]
        await waits.begin("after", handle.bound)
        await waits.begin("ended", waits.got["bound"].ended)
        assert waits.got["after"] == waits.got["ended"] == "closed"


@pytest.mark.parametrize("leave", [leave_by_cancellation, leave_by_an_exception])
async def test_what_is_on_disk_is_answered_while_a_call_of_its_batch_reads(
    tmp_path: Path, leave: Callable[[trio.CancelScope], Awaitable[None]]
) -> None:
    journal, giving_up, scope = HeldJournal(), trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        waits = WaitingCallers(nursery)
        with suppress(LeftError), scope:
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([APP, ask("k")])
                journal.holds = True
                await waits.begin_all(
                    {
                        "read": scheduler.snapshot,
                        "stays": lambda: scheduler.add_node("n", SIZE),
                        "gives up": lambda: _outcome_within(
                            giving_up, lambda: scheduler.add_node("m", SIZE)
                        ),
                    }
                )
                giving_up.cancel()
                await wait_all_tasks_blocked()
                assert waits.got == {}
                nursery.start_soon(_later, journal.go)
                await leave(scope)

    assert waits.got == {"read": "closed", "stays": None, "gives up": "done"}
    nodes = [event.node for event in events_in(tmp_path) if isinstance(event, AddNode)]
    assert sorted(nodes) == ["m", "n"]


async def _outcome_within(scope: trio.CancelScope, call: Callable[[], Awaitable[None]]) -> str:
    with scope:
        await call()
        return "done"
    return "cancelled"


async def _later(go: trio.Event) -> None:
    await wait_all_tasks_blocked(0.01)
    go.set()


async def test_an_error_comes_alone_while_the_next_batch_waits(tmp_path: Path) -> None:
    journal = HeldJournal()
    journal.error = OSError("the journal is full")
    async with trio.open_nursery() as nursery:
        waits = WaitingCallers(nursery)
        with pytest.raises(OSError, match="the journal is full"):
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([NODE, APP])
                for name in ("first", "second"):
                    journal.holds = name == "first" or journal.holds
                    await waits.begin(name, _submit_ask(scheduler, name))
                journal.go.set()
                await trio.sleep_forever()
    assert waits.got == {"first": "closed", "second": "closed"}


def _submit_ask(scheduler: muster.Scheduler, name: str) -> Callable[[], Awaitable[object]]:
    return lambda: scheduler.submit(ask(name))


async def test_what_a_batch_has_removed_is_closed_if_it_is_not_announced(tmp_path: Path) -> None:
    journal = HeldJournal()
    gone: list[Event] = [RemoveApp("a"), RemoveGang("default/g")]
    journal.error = OSError("the journal is full")
    async with trio.open_nursery() as nursery:
        waits = WaitingCallers(nursery)
        with pytest.raises(OSError, match="the journal is full"):
            async with muster.open_scheduler(store=tmp_path, journal=journal) as scheduler:
                await scheduler.submit_many([NODE, APP, ask("k"), LARGE])
                allocation = await scheduler.ask("a", "k").bound()
                gang = await scheduler.add_gang("g", 2)
                await waits.begin("ended", allocation.ended)
                await waits.begin("bound", scheduler.ask("a", "large").bound)
                await waits.begin("satisfied", gang.satisfied)
                journal.holds = True
                await waits.begin("call", lambda: scheduler.submit_many(gone))
                journal.go.set()
                await trio.sleep_forever()
    assert waits.got == dict.fromkeys(["ended", "bound", "satisfied", "call"], "closed")


@pytest.mark.parametrize("at", every(3, [10, 20, 60]))
async def test_a_failing_disk_is_reported_once(tmp_path: Path, at: int) -> None:
    sqlite = library()
    if sqlite is None:
        pytest.skip("SQLite is a part of Python here, no shared library: no fault can be injected")

    async def add(scheduler: muster.Scheduler) -> None:
        with suppress(muster.ClosedSchedulerError):
            for number in count():
                await scheduler.add_app(f"more-{number}", "root.q")

    with failing_disk(sqlite) as disk, trio.fail_after(120):
        # A checkpoint fails while a batch waits for the disk, or the other way round.
        with pytest.raises(muster.StoreError, match="there is no room on the disk"):
            async with muster.open_scheduler(store=tmp_path) as scheduler:
                await scheduler.submit_many([AddApp(f"a-{n}", "root.q") for n in range(1500)])
                disk.fail(at, FULL)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(add, scheduler)
                    await scheduler.checkpoint()
        disk.mend()
    async with muster.open_scheduler(store=tmp_path) as scheduler:
        assert (await scheduler.snapshot()).apps
