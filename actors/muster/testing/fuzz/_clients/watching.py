"""Watchers, the tasks that read decisions, and the check of what they have read."""

from __future__ import annotations

from bisect import bisect_right
from enum import StrEnum
from typing import TYPE_CHECKING, Any, final

import attrs
import trio

import muster
from muster.testing.fuzz._clients.workers import pause, sleep_us
from muster.testing.fuzz._program import Watcher
from muster_core.decisions import Announced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.testing.fuzz._records.story import Story


@final
class Watched(StrEnum):
    """How a watcher ended."""

    READS = "reads still"
    ENDED = "was told that there is no more"
    LAGGED = "was told that it lagged"
    CLOSED = "was told that the scheduler did not end as it should"
    LEFT = "left"


@final
@attrs.define(eq=False)
class Seen:
    """What a watcher has seen.

    Attributes:
        watcher: The plan of the watcher.
        looked_at: How many decisions were there when it began, or when ``expected`` was last
            brought up to date.
        decisions: The decisions that it has read.
        readings: For each reading how many decisions there were, and how many it got.
        end: How it ended.
        missed: How many missed decisions the observer has reported.
        waiting: Whether it is waiting for a decision.
        expected: The decisions since it began that pass its filter.
    """

    watcher: Watcher
    looked_at: int
    decisions: list[Announced] = attrs.field(factory=list[Announced])
    readings: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    end: Watched = Watched.READS
    missed: int = 0
    waiting: bool = False
    expected: list[Announced] = attrs.field(factory=list[Announced])

    def update(self, decisions: Sequence[Announced]) -> None:
        """Bring ``expected`` up to date; decisions are only ever added."""
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


async def watch(scheduler: muster.Scheduler, seen: Seen, story: Story) -> None:
    """Read decisions as planned."""
    seen.looked_at = len(story.decisions)
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
                    seen.end = Watched.ENDED
                    return
                seen.missed = decisions.missed
                await pause(watcher.pause)
                if watcher.pause_us:
                    await sleep_us(watcher.pause_us)
            seen.end = Watched.LEFT
    except muster.LaggedError:
        seen.end = Watched.LAGGED
    except muster.ClosedSchedulerError:
        seen.end = Watched.CLOSED
    except trio.Cancelled:
        seen.end = Watched.LEFT
        raise
    finally:
        seen.missed = decisions.missed


async def _read(decisions: muster.Decisions, seen: Seen, story: Story) -> bool:
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
        seen.readings.append((len(story.decisions), len(taken)))
    return bool(taken)


def faults_of(number: int, seen: Seen, story: Story, *, at_rest: bool) -> list[str]:
    """Return the faults of what a watcher has seen.

    Args:
        number: The number of the watcher.
        seen: What it has seen.
        story: All decisions.
        at_rest: Whether no task can continue, so that a waiting watcher has read everything.
    """
    seen.update(story.decisions)
    expected, got = seen.expected, seen.decisions
    fault = _order_fault(seen, expected, got)
    is_complete = seen.end is Watched.ENDED or (at_rest and seen.waiting)
    if fault is None and is_complete and len(got) + seen.missed != len(expected):
        fault = f"there were {len(expected)}, and it missed {seen.missed}"
    if fault is None and seen.end is Watched.LAGGED:
        fault = _lag_fault(seen, expected, got)
    if fault is None:
        return []
    return [f"watcher {number} ({seen.watcher.wanted}) has read {len(got)} decisions, but {fault}"]


def _order_fault(seen: Seen, expected: list[Announced], got: list[Announced]) -> str | None:
    """Return a fault if it has not read what its buffer, with or without losses, contained."""
    room: int = seen.watcher.wanted["buffer"]
    loses = seen.watcher.wanted["lag"] == "skip"
    first, place = 0, 0
    for there, count in seen.readings:
        so_far = bisect_right(expected, there, key=_seq)
        if loses:
            first = max(first, so_far - room)
        for _ in range(count):
            if first >= so_far or expected[first] is not got[place]:
                return f"number {place} is decision {got[place].seq}, which is not the next for it"
            first, place = first + 1, place + 1
    return None


def _seq(one: Announced) -> int:
    return one.seq


def _lag_fault(seen: Seen, expected: list[Announced], got: list[Announced]) -> str | None:
    if seen.watcher.wanted["lag"] != "drop":
        return "it was dropped, which it did not want"
    if len(expected) <= len(got):
        return "it was told that it lagged, and missed nothing"
    return None
