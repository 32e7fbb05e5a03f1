"""Small programs that have a scheduler running, by a clock that only the test moves."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar, cast, final

import attrs
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import muster
from muster_core.events import Event

T = TypeVar("T")

DELAY: Final = 10
"""After how many seconds asks preempt, under :data:`CONFIG`."""

CONFIG: Final[dict[str, object]] = {
    "partitions": [
        {
            "name": "default",
            "queues": [
                {
                    "name": "root",
                    "properties": {"preemption.delay": f"{DELAY}s"},
                    "queues": [
                        {"name": "q"},
                        {"name": "owner", "resources": {"guaranteed": {"vcore": 1}}},
                    ],
                }
            ],
        }
    ]
}
"""Two queues; what runs in ``root.q`` has to give way to asks of ``root.owner``."""

_STUCK_S: Final = 5.0
_NEVER_S: Final = 1e6


@attrs.define
class Notes:
    """Takes down what was let in."""

    events: list[Event | str] = attrs.field(factory=list["Event | str"])

    def enter(self, _: int, event: Event | str) -> None:
        self.events.append(event)

    def close(self, _: int) -> None:
        pass


@asynccontextmanager
async def service(
    config: object = CONFIG,
    *,
    cores: int = 1,
    **options: Any,  # noqa: ANN401 - those of `open_scheduler`
) -> AsyncGenerator[muster.Scheduler, None]:
    """Open a scheduler with a node ``n`` and an application ``a`` in ``root.q``.

    If all tasks wait for each other, it fails.
    """
    clock = trio.lowlevel.current_clock()
    limit_s = 120.0
    if isinstance(clock, MockClock):
        # A program that is stuck jumps to the end of time, and is seen there.
        clock.autojump_threshold = _STUCK_S
        limit_s = _NEVER_S
    with trio.fail_after(limit_s):
        async with muster.open_scheduler(cast("Any", config), **options) as scheduler:
            await scheduler.add_node("n", {"vcore": cores})
            await scheduler.add_app("a", "root.q")
            yield scheduler


async def pass_time(clock: MockClock, seconds: float) -> None:
    """Let all that is to happen now happen, then jump; let what is due then happen."""
    await wait_all_tasks_blocked()
    clock.jump(seconds)
    await wait_all_tasks_blocked()


async def preempt(scheduler: muster.Scheduler, clock: MockClock, ask: str = "high") -> muster.Ask:
    """Have an ask preempt what runs on the node ``n``."""
    policy = "PreemptLowerPriority"
    await scheduler.add_priority_class(f"of-{ask}", 10, preemption_policy=policy)
    made = await scheduler.add_ask("a", ask, {"vcore": 1}, priority_class=f"of-{ask}")
    await pass_time(clock, DELAY)
    return made


Ending = Callable[[muster.Scheduler, MockClock], Awaitable[object]]


async def bind_failed(scheduler: muster.Scheduler, _: MockClock) -> None:
    await scheduler.submit({"op": "bind_failed", "app": "a", "ask": "k"})


async def reclaim(scheduler: muster.Scheduler, clock: MockClock) -> None:
    await scheduler.add_app("b", "root.owner")
    await scheduler.add_ask("b", "k", {"vcore": 1})
    await pass_time(clock, DELAY)


ENDS: Final[dict[muster.Reason, Ending]] = {
    muster.Reason.COMPLETED: lambda _, clock: pass_time(clock, 60),
    muster.Reason.REMOVED: lambda scheduler, _: scheduler.remove_app("a"),
    muster.Reason.NODE_LOST: lambda scheduler, _: scheduler.remove_node("n"),
    muster.Reason.BIND_FAILED: bind_failed,
    muster.Reason.FAILED: lambda scheduler, _: scheduler.release("a", "k", outcome="failed"),
    muster.Reason.CANCELLED: lambda scheduler, _: scheduler.release("a", "k", outcome="cancelled"),
    muster.Reason.RECLAIMED: reclaim,
    muster.Reason.PREEMPTED: preempt,
}
"""What ends the allocation of an ask ``a/k`` that runs for a minute."""


@final
class Later(Generic[T]):
    """What comes of a call that is made in a task of its own."""

    def __init__(self, nursery: trio.Nursery, call: Callable[[], Awaitable[T]]) -> None:
        self.scope = trio.CancelScope()
        self.error: Exception | None = None
        self.is_over = False
        #: By trio's clock.
        self.at_s: float | None = None
        self._call = call
        self._values: list[T] = []
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        try:
            with self.scope:
                self._values.append(await self._call())
        except Exception as error:  # noqa: BLE001 - it is what the test looks at
            self.error = error
        finally:
            self.is_over = True
            self.at_s = trio.current_time()

    @property
    def value(self) -> T:
        """What it has returned."""
        if self.error is not None:
            raise self.error
        (value,) = self._values
        return value


@final
class Gate:
    """Holds up all owners of state, so that a batch does not end, and the next one fills.

    Its method ``wait`` is to be the argument ``interleave``.
    """

    def __init__(self) -> None:
        self._event = trio.Event()
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()

    def shut(self) -> None:
        self._event = trio.Event()

    def open(self) -> None:
        self._event.set()

    async def gather(
        self,
        scheduler: muster.Scheduler,
        nursery: trio.Nursery,
        *calls: Callable[[], Awaitable[object]],
    ) -> tuple[Later[object], ...]:
        """Make calls that go into one batch, in this order."""
        self.shut()
        nursery.start_soon(scheduler.add_app, "busy", "root.q")
        made: list[Later[object]] = []
        for call in calls:
            await wait_all_tasks_blocked()
            made.append(Later(nursery, call))
        await wait_all_tasks_blocked()
        self.open()
        await wait_all_tasks_blocked()
        return tuple(made)


@final
@attrs.define(eq=False)
class Run:
    """One run of the binder below, which does what the test says.

    Attributes:
        allocation: What it runs under.
        start: Says that the work has started.
        begun_s: When it was begun.
        cancelled: It was cancelled.
        ending: What the allocation said then of why it ends.
        over: It has come back.
        cleanup: If there is one, the run ends only when this is set.
    """

    allocation: muster.Allocation
    start: Callable[[], None]
    begun_s: float
    cancelled: bool = False
    ending: str | None = None
    over: bool = False
    cleanup: trio.Event | None = None
    error: BaseException | None = None
    go: trio.Event = attrs.field(factory=trio.Event)

    def finish(self, error: BaseException | None = None) -> None:
        """Return, or raise an error."""
        self.error = error
        self.go.set()

    async def work(self) -> None:
        try:
            await self.go.wait()
            if self.error is not None:
                raise self.error
        except trio.Cancelled:
            self.cancelled = True
            self.ending = self.allocation.ending
            if self.cleanup is not None:
                with trio.CancelScope(shield=True):
                    await self.cleanup.wait()
            raise
        finally:
            self.over = True


@final
class Worker:
    """A binder whose runs wait until the test lets them go on.

    Args:
        starts: Whether each run has started at once.
    """

    def __init__(self, *, starts: bool = False) -> None:
        self.runs: list[Run] = []
        self._starts = starts

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        run = Run(allocation, started, trio.current_time())
        self.runs.append(run)
        if self._starts:
            started()
        await run.work()

    @property
    def last(self) -> Run:
        """The run that was begun last."""
        return self.runs[-1]

    def of(self, ask: str) -> Run:
        """Return the last run of an ask; trio begins several in any order."""
        return next(run for run in reversed(self.runs) if run.allocation.ask == ask)

    def asks(self) -> list[str]:
        """Return the asks of all runs, sorted."""
        return sorted(run.allocation.ask for run in self.runs)
