"""Small programs for the tests of the scheduler, callers of one that is about to close, and a wall
clock that a test sets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import inf
from random import Random
from typing import Any, Final, final

import attrs
import pytest
import trio
from typing_extensions import override

import muster
from muster._runtime import clock as pace_module
from muster.testing import check
from muster_core.decisions import Announced, Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources

ONE = Resources({"vcore": 1})
NODE = AddNode("n", Resources({"vcore": 4}))
APP = AddApp("a", "root.q")
S = 1_000_000
"""A second in microseconds."""

_TRIO_RUN: Final = import_module("trio._core._run")


def ask(name: str = "k", *, app: str = "a", count: int | None = None) -> AddAsk:
    return AddAsk(app, name, ONE, count=count)


def bound(log: Sequence[Announced]) -> list[str]:
    """Return the asks that were bound, in order."""
    decisions = [announced.decision for announced in log]
    return [f"{one.app}/{one.ask}" for one in decisions if one.kind is Kind.BOUND]


def refusals(log: Sequence[Announced]) -> list[str]:
    """Return the messages of what was refused, in order."""
    return [one.decision.message or "" for one in log if one.decision.kind is Kind.REJECTED]


def releases(log: Sequence[Announced]) -> list[tuple[str | None, Reason | None]]:
    """Return the asks that were released, in order, and why."""
    decisions = [announced.decision for announced in log]
    return [(one.ask, one.reason) for one in decisions if one.kind is Kind.RELEASED]


class FailingJournal:
    """A journal that fails with the batch of a number, from 1."""

    def __init__(self, error: BaseException, batch: int = 1) -> None:
        self._error = error
        self._batches = batch

    def write(self, batch: Sequence[Announced]) -> None:
        assert batch
        self._batches -= 1
        if not self._batches:
            raise self._error


def tasks() -> int:
    """Return how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living


@contextmanager
def watchdog(seconds: float = 120) -> Generator[None]:
    """Fail, by the real clock, what hangs; tests of liveness stand inside of it."""
    with trio.fail_after(seconds):
        yield


@contextmanager
def shuffled(seed: int) -> Generator[None]:
    """Let trio shuffle the runnable tasks by a seed, in runs that begin inside the block.

    Rounds do not pause by the clock meanwhile, so that two runs have the same steps.
    """
    chance: Random = vars(_TRIO_RUN)["_r"]
    before = chance.getstate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_TRIO_RUN, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr(pace_module, "SLICE_S", inf)
        chance.seed(seed)
        try:
            yield
        finally:
            chance.setstate(before)


def private_attribute(owner: object, name: str) -> Any:  # noqa: ANN401 - only tests look inside, to spoil it
    """Return a private attribute."""
    return getattr(owner, name)


async def settled(times: int = 20) -> None:
    """Let all tasks run until they wait; deterministic, and without a clock."""
    for _ in range(times):
        await trio.lowlevel.checkpoint()


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks, and cancels a scope at one of them.

    Args:
        scope: What is cancelled.
        at: Before which step, from 1; 0 for never.
    """

    def __init__(self, scope: trio.CancelScope, at: int = 0) -> None:
        self._scope = scope
        self._at = at
        self.count = 0

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        del task
        self.count += 1
        if self.count == self._at:
            self._scope.cancel()


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
    """A task outside of the block; its call gets an answer in the end."""

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


async def prepare(scheduler: muster.Scheduler) -> None:
    """Submit the node, the application and the asks that the callers use."""
    huge = Resources({"vcore": 1000})
    await scheduler.submit_many(
        [NODE, APP, ask("stays"), ask("k", count=5), AddAsk("a", "huge", huge)]
    )


START: Final = 1_700_000_000_000_000
"""When tests begin, in microseconds since 1970."""


@final
class SetClock:
    """A clock that stands still until a test sets it, also back.

    Attributes:
        us: Microseconds since 1970 in UTC.
    """

    def __init__(self, us: int = START) -> None:
        self.us = us
        self._changed = trio.Event()

    def now_us(self) -> int:
        return self.us

    async def wait_until_us(self, at_us: int) -> None:
        while self.us < at_us:
            await self._changed.wait()

    def move(self, seconds: float) -> None:
        """Set the clock ahead, or back."""
        self.us += round(seconds * 1e6)
        self._changed.set()
        self._changed = trio.Event()
