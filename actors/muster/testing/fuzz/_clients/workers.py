"""Binders for fuzzing: one follows a plan, the other one observes the runs of any binder."""

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
    """The exception of a planned binder."""


async def pause(times: int) -> None:
    """Make a number of checkpoints."""
    for _ in range(times):
        await trio.lowlevel.checkpoint()


async def sleep_us(time_us: int) -> None:
    """Sleep for a time in microseconds."""
    await trio.sleep(time_us / MICROSECONDS)


@final
class PlannedBinder:
    """A binder whose runs follow plans.

    Args:
        plans: The plans for its runs, in turn; after the last comes the first again.
    """

    def __init__(self, plans: Sequence[Bind]) -> None:
        self._plans: Final = plans
        self._runs = 0

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Follow the next plan."""
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
    if plan.fate is Fate.REPORTS:
        raise muster.WorkFailedError("as planned")
    if plan.fate is Fate.GOES_ON:
        await trio.sleep_forever()


@final
@attrs.define(eq=False)
class Run:
    """One run of a binder.

    Attributes:
        ask: The ask.
        seq: The decision that had bound the ask when the run began, or 0 if it was not bound.
        started: Whether it has called ``started``.
        cancelled: Whether it was cancelled; it may be cleaning up.
        left: Whether the other binder has returned or raised.
        over: Whether it has returned or raised.
        began: When it began, by trio's clock.
        cut: When it was cancelled, by trio's clock, or None.
    """

    ask: Ask
    seq: int
    began: float = attrs.field(factory=trio.current_time)
    cut: float | None = None
    started: bool = False
    cancelled: bool = False
    left: bool = False
    over: bool = False


@final
class MindedBinder:
    """Runs another binder, and records its runs.

    Args:
        binder: The other binder.
        story: The decisions so far.

    Attributes:
        runs: All runs so far.
        faults: The faults in when it was run, and in what it was told when it was cancelled.
    """

    def __init__(self, binder: muster.Binder, story: Story) -> None:
        self._binder = binder
        self._story = story
        self.runs: list[Run] = []
        self.faults: list[str] = []

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Run the other binder, and record the run."""
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
                nursery.start_soon(self._mind, run, allocation)
                try:
                    await self._binder.run(allocation, on_started)
                finally:
                    run.left = True
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            run.over = True

    async def _mind(self, run: Run, allocation: muster.Allocation) -> None:
        """Record when a run is cancelled, even if the binder shields itself from that."""
        try:
            await trio.sleep_forever()
        finally:
            run.cancelled, run.cut = True, trio.current_time()
            if allocation.ending is None and not run.left:
                self.faults.append(f"the run of {run.ask} is cancelled without a reason")

    def _check_first(self, run: Run, allocation: muster.Allocation) -> None:
        others = [one for one in self.runs if one.ask == run.ask]
        if any(not one.over for one in others):
            self.faults.append(f"{run.ask} is run by the binder twice at the same time")
        if run.seq and any(one.seq == run.seq for one in others):
            self.faults.append(f"{run.ask} is run twice for decision {run.seq}")
        bound = self._story.bound.get(run.ask)
        if bound is not None and bound.decision.node != allocation.node:
            # The run may be for an earlier allocation, whose end has not reached its task yet.
            run.seq = 0

    def active(self) -> dict[Ask, Run]:
        """Return the runs that are neither over nor cancelled, by ask."""
        return {run.ask: run for run in self.runs if not run.over and not run.cancelled}

    def cleaning(self) -> set[Ask]:
        """Return the asks with a run that is not over."""
        return {run.ask for run in self.runs if not run.over}

    def has_started(self, ask: Ask, seq: int) -> bool:
        """Return whether the work of an allocation has started, or may have started."""
        return any(run.started and run.ask == ask and run.seq in {0, seq} for run in self.runs)

    def begun(self, ask: Ask, *, surely: bool) -> set[int]:
        """Return the decisions for which an ask had a run.

        Args:
            ask: The ask.
            surely: Whether to leave out runs that were cancelled as they began: these may have
                come too late to count.
        """
        return {
            run.seq for run in self.runs if run.ask == ask and not (surely and run.cut == run.began)
        }

    def times_run(self) -> Counter[Ask]:
        """Return how often the binder was run for each ask."""
        return Counter(run.ask for run in self.runs)


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the single exception of a group, or the group if it has several."""
    if len(group.exceptions) == 1:
        return group.exceptions[0]
    return group
