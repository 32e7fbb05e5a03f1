"""Binders for fuzzing: one that does as it is planned, and one that minds what another does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, final

import attrs
import trio

import muster
from muster.testing.fuzz._program import Bind, Fate
from muster.testing.fuzz._records.history import Ask
from muster.testing.fuzz._records.story import Story
from muster_core.decisions import MICROSECONDS


class PlannedFailureError(Exception):
    """What a planned binder raises."""


async def pause(times: int) -> None:
    """Make so many checkpoints."""
    for _ in range(times):
        await trio.lowlevel.checkpoint()


async def sleep_us(time_us: int) -> None:
    """Let so much time pass."""
    await trio.sleep(time_us / MICROSECONDS)


@final
class PlannedBinder:
    """Does as it is planned, one plan after the other.

    Args:
        plans: The plans, which are gone through again and again.
    """

    def __init__(self, plans: Sequence[Bind]) -> None:
        self._plans: Final = plans
        self._runs = 0

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Do as it is planned."""
        del allocation
        plan = self._plans[self._runs % len(self._plans)]
        self._runs += 1
        try:
            await _work(plan, started)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await sleep_us(plan.cleanup_us)
            raise


async def _work(plan: Bind, started: Callable[[], None]) -> None:
    await pause(plan.pause)
    await sleep_us(plan.start_us)
    match plan.fate:
        case Fate.FAILS_BEFORE:
            raise PlannedFailureError
        case Fate.HANGS:
            await trio.sleep_forever()
        case Fate.FORGETS:
            return
        case _:
            started()
    await sleep_us(plan.work_us)
    if plan.fate is Fate.FAILS_AFTER:
        raise PlannedFailureError
    if plan.fate is Fate.GOES_ON:
        await trio.sleep_forever()


@final
@attrs.define(eq=False)
class Run:
    """One run of a binder.

    Attributes:
        ask: Whose.
        seq: The decision by which the ask was bound when it began, or 0 if it was not.
        started: It has called ``started``.
        cancelled: It has been cancelled, and may be cleaning up.
        over: It has come back.
        began: When it began, by trio's clock.
        cut: When it was cancelled, or None.
    """

    ask: Ask
    seq: int
    began: float = attrs.field(factory=trio.current_time)
    cut: float | None = None
    started: bool = False
    cancelled: bool = False
    over: bool = False


@final
class MindedBinder:
    """Runs another binder, and takes note of what it is told to do.

    Args:
        binder: The other one.
        story: What was decided.

    Attributes:
        runs: Every run so far.
        faults: What is wrong with when it was run.
    """

    def __init__(self, binder: muster.Binder, story: Story) -> None:
        self._binder = binder
        self._story = story
        self.runs: list[Run] = []
        self.faults: list[str] = []

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Have the other binder do the work."""
        ask = (allocation.app, allocation.ask)
        bound = self._story.bound.get(ask)
        run = Run(ask, 0 if bound is None else bound.seq)
        self._check_first(run, allocation)
        self.runs.append(run)

        def on_started() -> None:
            run.started = True
            started()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_mind, run)
                await self._binder.run(allocation, on_started)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            run.over = True

    def _check_first(self, run: Run, allocation: muster.Allocation) -> None:
        others = [one for one in self.runs if one.ask == run.ask]
        if any(not one.over for one in others):
            self.faults.append(f"{run.ask} is run by the binder twice at the same time")
        if run.seq and any(one.seq == run.seq for one in others):
            self.faults.append(f"{run.ask} is run twice for decision {run.seq}")
        bound = self._story.bound.get(run.ask)
        if bound is not None and bound.decision.node != allocation.node:
            # It may be that of before, whose end the task has not heard of yet.
            run.seq = 0

    def active(self) -> dict[Ask, Run]:
        """Give the runs that have neither come back nor been cancelled, by ask."""
        return {run.ask: run for run in self.runs if not run.over and not run.cancelled}

    def cleaning(self) -> set[Ask]:
        """Give the asks that have a run which has not come back."""
        return {run.ask for run in self.runs if not run.over}

    def has_started(self, ask: Ask, seq: int) -> bool:
        """Say whether the work of an allocation has started, or may have."""
        return any(run.started and run.ask == ask and run.seq in {0, seq} for run in self.runs)

    def begun(self, ask: Ask, *, surely: bool) -> set[int]:
        """Give the decisions for which there was a run of an ask.

        What was cancelled as it began, or began when its allocation was over, may have been
        too late to be one.
        """
        return {
            run.seq for run in self.runs if run.ask == ask and not (surely and run.cut == run.began)
        }

    def times_run(self) -> Counter[Ask]:
        """Give how often the binder was run for each ask."""
        return Counter(run.ask for run in self.runs)


async def _mind(run: Run) -> None:
    """Take note when a run is cancelled, even if what it runs does not let itself be."""
    try:
        await trio.sleep_forever()
    finally:
        run.cancelled, run.cut = True, trio.current_time()


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give the one exception that the nursery of a run has wrapped."""
    if len(group.exceptions) == 1:
        return group.exceptions[0]
    return group
