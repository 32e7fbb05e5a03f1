"""Opening a scheduler, and leaving its block in every way and at every moment.

No task is left, whoever waits is answered, what was cancelled was not done, and what made the
block end comes out as itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster._runtime.entry import BOUND as ENTRY_BOUND
from muster.testing import Inputs, Interleaving, Recording, check
from muster_core.config import default_configuration
from muster_core.decisions import Announced
from muster_core.events import AddAsk, AddNode, Event
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.messages.to_applications import Close
from muster_core.resources import Resources
from tests.actors.program import APP, NODE, ONE, Steps, ask, bound, settled, shuffled, watchdog

Call = Callable[[muster.Scheduler], Awaitable[object]]


async def ended(scheduler: muster.Scheduler) -> None:
    await (await scheduler.ask("a", "stays").bound()).ended()


async def read(scheduler: muster.Scheduler) -> None:
    async for _ in scheduler.decisions():
        pass


CALLS: Final[dict[str, Call]] = {
    "submit": lambda scheduler: scheduler.submit(ask("x")),
    "refused": lambda scheduler: scheduler.submit(ask("x", app="nobody")),
    "many": lambda scheduler: scheduler.submit_many([ask("y"), ask("z")]),
    "add_ask": lambda scheduler: scheduler.add_ask("a", "w", {"vcore": 1}),
    "settle": lambda scheduler: scheduler.settle(),
    "snapshot": lambda scheduler: scheduler.snapshot(),
    "why": lambda scheduler: scheduler.ask("a", "k-4").why(),
    "bound": lambda scheduler: scheduler.ask("a", "k-0").bound(),
    "satisfied": lambda scheduler: scheduler.gang("g").satisfied(),
    "check": check,
}
"""What callers do that need not wait for a decision."""

WAITS: Final[dict[str, Call]] = {
    "never bound": lambda scheduler: scheduler.ask("a", "huge").bound(),
    "never ended": ended,
    "decisions": read,
}
"""What callers wait for that does not come before the scheduler is closed."""


@attrs.define
class Caller:
    """A task outside of the block; it is answered in the end."""

    answers: list[str] = attrs.field(factory=list[str])

    async def call(self, name: str, scheduler: muster.Scheduler) -> None:
        try:
            await (CALLS | WAITS)[name](scheduler)
        except muster.ClosedSchedulerError:
            self.answers.append("closed")
        except (muster.RefusedError, muster.GangRemovedError):
            self.answers.append("refused")
        else:
            self.answers.append("done")


class FailingJournal:
    def __init__(self, error: BaseException, batch: int = 1) -> None:
        self._error = error
        self._batches = batch

    def write(self, batch: Sequence[Announced]) -> None:
        assert batch
        self._batches -= 1
        if not self._batches:
            raise self._error


def tasks() -> int:
    """Give how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living


# Opening


QUEUES: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: one}, {name: two, queues: [{name: three}]}]
"""
PATHS: Final = {"root", "root.one", "root.two", "root.two.three"}


async def test_a_configuration_can_be_a_text() -> None:
    async with muster.open_scheduler(QUEUES) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == PATHS


async def test_a_configuration_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES)
    async with muster.open_scheduler(path) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == PATHS


async def test_a_configuration_can_be_maps_and_lists() -> None:
    config = {
        "partitions": [{"name": "p", "queues": [{"name": "root", "queues": ({"name": "x"},)}]}]
    }
    async with muster.open_scheduler(config) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == {"root", "root.x"}


async def test_a_configuration_can_be_loaded_before() -> None:
    async with muster.open_scheduler(default_configuration()) as scheduler:
        assert (await scheduler.snapshot()).queues.keys() == {"root"}


async def test_a_partition_can_be_chosen() -> None:
    one = "{name: one, queues: [{name: root, queues: [{name: x}]}]}"
    two = "{name: two, queues: [{name: root, queues: [{name: y}]}]}"
    async with muster.open_scheduler(f"partitions: [{one}, {two}]", partition="two") as scheduler:
        assert "root.y" in (await scheduler.snapshot()).queues


async def test_a_bad_configuration_is_refused_with_its_line() -> None:
    with pytest.raises(muster.ConfigError, match=r"3: .*'colour'"):
        async with muster.open_scheduler("partitions:\n  - name: default\n    colour: red\n"):
            pytest.fail("opened")


async def test_a_bad_map_is_refused_with_its_path() -> None:
    with pytest.raises(muster.ConfigError, match=r"config\.partitions\[0\].*'colour'"):
        async with muster.open_scheduler({"partitions": [{"name": "p", "colour": "red"}]}):
            pytest.fail("opened")


async def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        async with muster.open_scheduler(Path("not-there.yaml")):
            pytest.fail("opened")


@pytest.mark.parametrize(
    ("seconds", "attempts", "field"),
    [(0, 3, "bind_timeout: 0"), (-1.5, 3, "bind_timeout: -1.5"), (1, 0, "bind_attempts: 0")],
)
async def test_limits_that_make_no_sense(seconds: float, attempts: int, field: str) -> None:
    with pytest.raises(muster.EventError, match=field):
        async with muster.open_scheduler(bind_timeout=seconds, bind_attempts=attempts):
            pytest.fail("opened")


async def test_two_schedulers_do_not_know_of_one_another() -> None:
    async with muster.open_scheduler() as one, muster.open_scheduler() as two:
        await one.submit(NODE)
        await two.submit(NODE)
        await one.remove_node("n")

        assert (await two.snapshot()).nodes.keys() == {"n"}


# Leaving normally


async def test_what_was_let_in_is_carried_out() -> None:
    log = Recording()
    before = tasks()
    async with (
        trio.open_nursery() as nursery,
        muster.open_scheduler(journal=log, interleave=Interleaving(4)) as scheduler,
    ):
        await scheduler.submit_many([NODE, APP])
        nursery.start_soon(scheduler.submit, ask(count=2))
        await wait_all_tasks_blocked()

    assert bound(log.decisions) == ["a/k-0", "a/k-1"]
    assert tasks() == before


@pytest.mark.parametrize("name", CALLS | WAITS)
async def test_calls_after_the_block(name: str) -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.submit(APP)

    caller = Caller()
    await caller.call(name, scheduler)
    assert caller.answers == ["done" if name == "decisions" else "closed"]
    assert scheduler.statistics().requests == 1


@pytest.mark.parametrize("name", WAITS)
async def test_whoever_waits_for_a_decision_is_told(name: str) -> None:
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery, muster.open_scheduler() as scheduler:
            await prepare(scheduler)
            nursery.start_soon(caller.call, name, scheduler)
            await wait_all_tasks_blocked()

    assert caller.answers == ["done" if name == "decisions" else "closed"]


async def prepare(scheduler: muster.Scheduler) -> None:
    """Let in what the callers speak of."""
    huge = Resources({"vcore": 1000})
    await scheduler.submit_many(
        [NODE, APP, ask("stays"), ask("k", count=5), AddAsk("a", "huge", huge)]
    )


async def test_whoever_waits_for_a_slot_is_not_let_in() -> None:
    gate = trio.Event()
    caller = Caller()
    with watchdog():
        async with (
            trio.open_nursery() as nursery,
            muster.open_scheduler(interleave=gate.wait) as scheduler,
        ):
            for _ in range(ENTRY_BOUND + 2):  # The first is taken at once.
                nursery.start_soon(caller.call, "settle", scheduler)
            await wait_all_tasks_blocked()
            nursery.start_soon(open_later, gate)

    assert Counter(caller.answers) == {"done": ENTRY_BOUND, "closed": 2}


async def open_later(gate: trio.Event) -> None:
    await settled()
    gate.set()


# By an exception, by a failure


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        KeyboardInterrupt(),
        ExceptionGroup("mine", [OSError("one")]),
        muster.ClosedSchedulerError("another one's"),
    ],
    ids=repr,
)
async def test_an_error_of_the_body_comes_out_as_itself(error: BaseException) -> None:
    before = tasks()

    with pytest.raises(type(error)) as caught:
        async with muster.open_scheduler() as scheduler:
            await scheduler.submit(APP)
            raise error

    assert caught.value is error
    assert caught.value.__context__ is None
    assert tasks() == before


@pytest.mark.parametrize("name", CALLS | WAITS)
async def test_whoever_waits_is_told_of_an_error(name: str) -> None:
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(ValueError, match="mine"):
                async with muster.open_scheduler() as scheduler:
                    await prepare(scheduler)
                    nursery.start_soon(caller.call, name, scheduler)
                    await settled(2)
                    raise ValueError("mine")

    assert len(caller.answers) == 1


@pytest.mark.parametrize("batch", [1, 2])
async def test_the_error_of_a_journal_comes_out(batch: int) -> None:
    before = tasks()
    error = OSError(28, "No space left on device")
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(OSError, match="No space") as caught:
                async with muster.open_scheduler(journal=FailingJournal(error, batch)) as scheduler:
                    nursery.start_soon(caller.call, "satisfied", scheduler)
                    for event in (APP, NODE, ask(), ask("l")):
                        await scheduler.submit(event)

    assert caught.value is error
    assert len(caller.answers) == 1
    assert tasks() == before


async def test_an_observer_learns_that_there_may_be_more() -> None:
    observers: list[muster.Decisions] = []
    with pytest.raises(OSError, match="full"):
        async with muster.open_scheduler(journal=FailingJournal(OSError("full"), 2)) as scheduler:
            observers.append(scheduler.decisions())
            await scheduler.submit(APP)
            await scheduler.submit_many([NODE, ask()])

    seen: list[Announced] = []
    with pytest.raises(muster.ClosedSchedulerError):
        async for one in observers[0]:
            seen.append(one)  # noqa: PERF401 - it raises
    assert seen


async def test_an_owner_that_fails_ends_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = ApplicationMachine.handle

    def fails(machine: ApplicationMachine, message: object) -> object:
        if isinstance(message, Close) and machine.identity.name == "bad":
            raise ZeroDivisionError
        return handle(machine, message)  # type: ignore[arg-type]

    monkeypatch.setattr(ApplicationMachine, "handle", fails)
    caller = Caller()
    with watchdog():
        async with trio.open_nursery() as nursery:
            with pytest.raises(muster.BrokenSchedulerError, match="application 'bad'"):
                async with muster.open_scheduler() as scheduler:
                    await prepare(scheduler)
                    nursery.start_soon(caller.call, "never bound", scheduler)
                    await scheduler.add_app("bad", "root.q")

    assert caller.answers == ["closed"]


# By cancellation, at every step of any task


@attrs.define
class Run:
    """What came of one run of the program below."""

    steps: int
    cancelled: bool
    answers: list[str]
    log: list[Announced]
    inputs: list[tuple[int, Event | None]]
    returned: list[str]
    begun: list[str]


class Starts:
    """A binder that starts work and goes on with it for a second."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        await trio.lowlevel.checkpoint()
        started()
        await trio.sleep(1 if allocation.ask != "stays" else 10**9)


async def program(at: int, seed: int, *, whole: bool) -> Run:
    """Run a program that uses everything; cancel the block, or one client, at a step."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, MockClock)
    log, record, caller = Recording(), Inputs(), Caller()
    begun, returned = list[str](), list[str]()
    scope = trio.CancelScope()
    steps = Steps(scope, at)
    before = tasks()
    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        with scope if whole else trio.CancelScope():
            async with muster.open_scheduler(
                binder=Starts(), journal=log, record=record, interleave=Interleaving(seed)
            ) as scheduler:
                await prepare(scheduler)
                for name in CALLS:
                    nursery.start_soon(caller.call, name, scheduler)
                async with trio.open_nursery() as clients:
                    clients.start_soon(use, scheduler, begun, returned, None if whole else scope)
                    while clients.child_tasks:
                        await wait_all_tasks_blocked()
                        clock.jump(0.5)
                if not whole:
                    await check(scheduler)
    trio.lowlevel.remove_instrument(steps)
    assert tasks() == before
    return Run(
        steps.count,
        scope.cancelled_caught,
        caller.answers,
        log.decisions,
        record.steps,
        returned,
        begun,
    )


async def use(
    scheduler: muster.Scheduler,
    begun: list[str],
    returned: list[str],
    scope: trio.CancelScope | None,
) -> None:
    with scope or trio.CancelScope():
        made: list[muster.Ask] = []
        for name in ("one", "two", "three"):
            begun.append(name)
            made.append(await scheduler.add_ask("a", name, {"vcore": 0.001}))
            returned.append(name)
        async with (await made[-1].bound()).running():
            await scheduler.settle()
        begun.append("node")
        await scheduler.submit(AddNode("node", ONE))
        returned.append("node")


def named(inputs: Sequence[tuple[int, Event | None]]) -> Counter[str]:
    """Count the events of ``use`` that were let in."""
    events = [event for _, event in inputs]
    names = [event.ask for event in events if isinstance(event, AddAsk)]
    return Counter(names + [event.node for event in events if isinstance(event, AddNode)])


@pytest.mark.parametrize("whole", [True, False], ids=["the block", "a client"])
@pytest.mark.parametrize("seed", [1, 2])
def test_cancellation_at_every_step(seed: int, *, whole: bool) -> None:
    def run(at: int) -> Run:
        with shuffled(seed):
            return trio.run(lambda: program(at, seed, whole=whole), clock=MockClock())

    last = run(0).steps
    cancelled = 0
    for at in range(1, last + 1):
        done = run(at)
        cancelled += done.cancelled

        # Everybody who asked was answered, and once.
        assert len(done.answers) in (0, len(CALLS)), f"cancelled at step {at}"
        # What returned was done; what was cancelled was not, except with the whole block.
        there = named(done.inputs)
        assert all(there[name] == 1 for name in done.returned), f"cancelled at step {at}"
        if not whole:
            undone = set(done.begun) - set(done.returned)
            assert not any(there[name] for name in undone), f"cancelled at step {at}"
    assert cancelled > 20


# What callers bring along


async def test_the_warnings_of_the_first_configuration_are_announced() -> None:
    log, record = Recording(), Inputs()
    config = """
partitions:
  - name: default
    queues: [{name: root, queues: [{name: q, properties: {colour: red}}]}]
"""
    async with muster.open_scheduler(config, journal=log, record=record):
        pass

    (first, *_) = log.decisions
    assert (first.at_us, first.decision.kind) == (0, muster.Kind.WARNING)
    assert "colour" in str(first.decision.message)


async def test_an_examiner_that_fails_does_not_end_the_scheduler() -> None:
    def fails(_: object) -> None:
        raise KeyError("mine")

    async with muster.open_scheduler() as scheduler:
        with pytest.raises(KeyError, match="mine"):
            await scheduler.examine(fails)
        await scheduler.settle()


@pytest.mark.parametrize("error", [OSError("full"), StopIteration("over")], ids=repr)
async def test_the_error_of_a_record_comes_out(error: Exception) -> None:
    class Fails:
        def enter(self, at_us: int, event: Event, /) -> None:
            raise error

        def close(self, at_us: int, /) -> None:
            pass

    with pytest.raises(Exception, match=r"full|StopIteration") as caught:
        async with muster.open_scheduler(record=Fails()) as scheduler:
            await scheduler.submit(NODE)

    assert error in (caught.value, caught.value.__cause__)
    assert not isinstance(caught.value, muster.BrokenSchedulerError)
