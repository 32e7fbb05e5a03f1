"""Binders and watchers for fuzzing, and the check of what watchers have read.

One binder follows a plan, the other one observes the runs of any binder. Watchers are the tasks that
read decisions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, final

import attrs
import trio

import muster
from muster.testing.fuzz._program import Bind, Fate, Watcher
from muster.testing.fuzz._records import Ask, Story
from muster_core.decisions import MICROSECONDS, Announced


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
class BinderRun:
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
class ObservedBinder:
    """Runs another binder, and records its runs.

    Args:
        binder: The other binder.
        story: The decisions so far.

    Attributes:
        runs: All runs so far.
        faults: The faults in when it was run, and in the reasons of its cancellations.
    """

    def __init__(self, binder: muster.Binder, story: Story) -> None:
        self._binder = binder
        self._story = story
        self.runs: list[BinderRun] = []
        self.faults: list[str] = []

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Run the other binder, and record the run."""
        ask = (allocation.app, allocation.ask)
        bound = self._story.bound.get(ask)
        run = BinderRun(ask, 0 if bound is None else bound.seq)
        self._check_first(run, allocation)
        self.runs.append(run)

        def on_started() -> None:
            run.started = True
            started()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._record_cancellation, run, allocation)
                try:
                    await self._binder.run(allocation, on_started)
                finally:
                    run.left = True
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            run.over = True

    async def _record_cancellation(self, run: BinderRun, allocation: muster.Allocation) -> None:
        """Record when a run is cancelled, even if the binder shields itself from that."""
        try:
            await trio.sleep_forever()
        finally:
            run.cancelled, run.cut = True, trio.current_time()
            if allocation.ending is None and not run.left:
                self.faults.append(f"the run of {run.ask} is cancelled without a reason")

    def _check_first(self, run: BinderRun, allocation: muster.Allocation) -> None:
        others = [one for one in self.runs if one.ask == run.ask]
        if any(not one.over for one in others):
            self.faults.append(f"{run.ask} is run by the binder twice at the same time")
        if run.seq and any(one.seq == run.seq for one in others):
            self.faults.append(f"{run.ask} is run twice for decision {run.seq}")
        bound = self._story.bound.get(run.ask)
        if bound is not None and bound.decision.node != allocation.node:
            # The run may be for an earlier allocation, whose end has not reached its task yet.
            run.seq = 0

    def active(self) -> dict[Ask, BinderRun]:
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


@final
class WatcherEnd(StrEnum):
    """How a watcher ended."""

    READS = "reads still"
    ENDED = "was told that there is no more"
    LAGGED = "was told that it lagged"
    CLOSED = "was told that the scheduler did not end as it should"
    LEFT = "left"


@final
@attrs.define(eq=False)
class WatcherLog:
    """The log of a watcher.

    Attributes:
        watcher: The plan of the watcher.
        looked_at: How many decisions observers had been offered for sure when it began, or how many
            there were when ``expected`` was last brought up to date.
        began: How many decisions there were when it began.
        decisions: The decisions that it has read.
        readings: For each reading how many decisions observers had been offered for sure, how many
            there were, and how many it got.
        end: How it ended.
        missed: How many missed decisions the observer has reported.
        waiting: Whether it is waiting for a decision.
        expected: The decisions since it began that pass its filter.
        perhaps: How many of these, the first ones, may have been offered before it began.
    """

    watcher: Watcher
    looked_at: int
    began: int
    decisions: list[Announced] = attrs.field(factory=list[Announced])
    readings: list[tuple[int, int, int]] = attrs.field(factory=list[tuple[int, int, int]])
    end: WatcherEnd = WatcherEnd.READS
    missed: int = 0
    waiting: bool = False
    expected: list[Announced] = attrs.field(factory=list[Announced])
    perhaps: int = 0

    def update(self, decisions: Sequence[Announced]) -> None:
        """Bring ``expected`` up to date; decisions are only ever added."""
        self.perhaps += sum(map(self.wants, decisions[self.looked_at : self.began]))
        self.expected.extend(one for one in decisions[self.looked_at :] if self.wants(one))
        self.looked_at = len(decisions)

    def wants(self, one: Announced) -> bool:
        """Return whether a decision passes the filter, without the code that is tested."""
        wanted, decision = self.watcher.wanted, one.decision
        queue: str | None = wanted.get("queue")
        path = (decision.queue or "").lower()
        kind = decision.kind.value
        return (
            kind in wanted.get("kinds", (kind,))
            and wanted.get("app", decision.app) == decision.app
            and (queue is None or path == queue or path.startswith(f"{queue}."))
            and wanted.get("gang", decision.gang) == decision.gang
            and one.seq % 3 == wanted.get("where", one.seq % 3)
        )


async def watch(scheduler: muster.Scheduler, seen: WatcherLog, story: Story) -> None:
    """Read decisions as planned."""
    seen.looked_at, seen.began = story.offered, len(story.decisions)
    watcher = seen.watcher
    wanted: dict[str, Any] = dict(watcher.wanted)
    if "where" in wanted:
        remainder: int = wanted["where"]

        def where(one: Announced) -> bool:
            return one.seq % 3 == remainder

        wanted["where"] = where
    wanted["lag"] = muster.Lag(wanted["lag"])
    decisions = scheduler.decisions(**wanted)
    readings = 0
    try:
        async with decisions:
            while readings != watcher.leaves_after:
                readings += 1
                if not await _read(decisions, seen, story):
                    seen.end = WatcherEnd.ENDED
                    return
                seen.missed = decisions.missed
                await pause(watcher.pause)
                if watcher.pause_us:
                    await sleep_us(watcher.pause_us)
            seen.end = WatcherEnd.LEFT
    except muster.LaggedError:
        seen.end = WatcherEnd.LAGGED
    except muster.ClosedSchedulerError:
        seen.end = WatcherEnd.CLOSED
    except trio.Cancelled:
        seen.end = WatcherEnd.LEFT
        raise
    finally:
        seen.missed = decisions.missed


async def _read(decisions: muster.Decisions, seen: WatcherLog, story: Story) -> bool:
    """Read once; return False at the end."""
    seen.waiting = True
    try:
        if seen.watcher.together:
            taken: Sequence[Announced] = await decisions.take()
        else:
            one = await anext(decisions, None)
            taken = () if one is None else (one,)
    finally:
        seen.waiting = False
    seen.decisions.extend(taken)
    if taken:
        seen.readings.append((story.offered, len(story.decisions), len(taken)))
    return bool(taken)


def faults_of(number: int, seen: WatcherLog, story: Story, *, at_rest: bool) -> list[str]:
    """Return the faults in the log of a watcher.

    Args:
        number: The number of the watcher.
        seen: The log of the watcher.
        story: All decisions.
        at_rest: Whether no task can continue, so that a waiting watcher has read everything.
    """
    seen.update(story.decisions)
    # The journal has a batch before observers are offered it, and it may have begun in between.
    faults = [
        _fault(seen, seen.expected[skipped:], at_rest=at_rest)
        for skipped in sorted({seen.perhaps, 0}, reverse=True)
    ]
    if None in faults:
        return []
    summary = f"watcher {number} ({seen.watcher.wanted}) has read {len(seen.decisions)} decisions"
    return [f"{summary}, but {faults[0]}"]


def _fault(seen: WatcherLog, expected: list[Announced], *, at_rest: bool) -> str | None:
    """Return a fault of what a watcher has seen, if it was to see these decisions."""
    got = seen.decisions
    fault = _order_fault(seen, expected, got)
    is_complete = seen.end is WatcherEnd.ENDED or (at_rest and seen.waiting)
    if fault is None and is_complete and len(got) + seen.missed != len(expected):
        fault = f"there were {len(expected)}, and it missed {seen.missed}"
    if fault is None and seen.end is WatcherEnd.LAGGED:
        fault = _lag_fault(seen, expected, got)
    return fault


def _order_fault(seen: WatcherLog, expected: list[Announced], got: list[Announced]) -> str | None:
    """Return a fault if it has not read what its buffer, with or without losses, contained."""
    room: int = seen.watcher.wanted["buffer"]
    loses = seen.watcher.wanted["lag"] == "skip"
    first, place = 0, 0
    for offered, there, count in seen.readings:
        so_far = bisect_right(expected, there, key=_seq)
        if loses:
            # The last batch is offered after the journal has it, so that it may be offered or not.
            least = max(first, bisect_right(expected, offered, key=_seq) - room)
            places = range(least, max(least, so_far - room) + 1)
            first = next((at for at in places if at < so_far and expected[at] is got[place]), least)
        for _ in range(count):
            if first >= so_far or expected[first] is not got[place]:
                return f"number {place} is decision {got[place].seq}, which is not the next for it"
            first, place = first + 1, place + 1
    return None


def _seq(one: Announced) -> int:
    return one.seq


def _lag_fault(seen: WatcherLog, expected: list[Announced], got: list[Announced]) -> str | None:
    if seen.watcher.wanted["lag"] != "drop":
        return "it was dropped, which it did not want"
    if len(expected) <= len(got):
        return "it was told that it lagged, and missed nothing"
    return None
