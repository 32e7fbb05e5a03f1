"""The tally: what a replay did, counted while it goes on.

It keeps what is alive (applications' asks, nodes) and a number for each ask that was bound, never
the events or the decisions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import final

from muster.feeds import FeedItem
from muster.replay._census import Census, LiveAsk
from muster.replay._summary import MOST_REMARKS, QueueSummary, Remark, Summary
from muster.replay._waits import Waits
from muster_core.decisions import MICROSECONDS, Announced, Kind, Reason
from muster_core.resources import Resources
from muster_core.structures.totals import add_to, take_from


@final
class _Usage:
    """What there is and what is used of it, over time."""

    def __init__(self) -> None:
        self._now_us = 0
        self._nodes: dict[str, Resources] = {}
        self._there: dict[str, int] = {}
        self._used: dict[str, int] = {}
        #: The integrals of the two over time, in base units times microseconds.
        self._there_area: dict[str, int] = defaultdict(int)
        self._used_area: dict[str, int] = defaultdict(int)

    def pass_to(self, now_us: int) -> None:
        """Let time pass."""
        passed_us = now_us - self._now_us
        if passed_us <= 0:
            return
        self._now_us = now_us
        for name, amount in self._there.items():
            self._there_area[name] += amount * passed_us
        for name, amount in self._used.items():
            self._used_area[name] += amount * passed_us

    def set_node(self, name: str, capacity: Resources | None) -> None:
        """Give a node another capacity; None if it goes."""
        before = self._nodes.pop(name, None)
        if before is not None:
            take_from(self._there, before)
        if capacity is not None:
            self._nodes[name] = capacity
            add_to(self._there, capacity)
            for kind in capacity:
                self._there_area[kind] += 0  # to be reported even if it is gone at once

    def take(self, amounts: Resources) -> None:
        """Use some."""
        add_to(self._used, amounts)

    def give_back(self, amounts: Resources) -> None:
        """Use some no longer."""
        take_from(self._used, amounts)

    def check(self, used: Iterable[Resources]) -> None:
        """Assert the invariants, given what is in use; for tests."""
        total: dict[str, int] = {}
        for amounts in used:
            add_to(total, amounts)
        assert total == self._used
        total.clear()
        for capacity in self._nodes.values():
            add_to(total, capacity)
        assert total == self._there

    def utilisation(self) -> dict[str, float | None]:
        """Give for each type how much of it was used, from 0 to 1."""
        return {
            name: self._used_area.get(name, 0) / area if area else None
            for name, area in sorted(self._there_area.items())
        }


@final
class _Counts:
    """Adds up what a census tells."""

    def __init__(self) -> None:
        self.usage = _Usage()
        self.waits: dict[str, Waits] = defaultdict(Waits)
        self.jobs: dict[str, int] = defaultdict(int)
        self.asks_bound = 0

    def node(self, at_us: int, name: str, capacity: Resources | None) -> None:
        """Take note of what a node has."""
        self.usage.pass_to(at_us)
        self.usage.set_node(name, capacity)

    def job(self, queue: str) -> None:
        """Count an application."""
        self.jobs[queue] += 1

    def held(self, at_us: int, ask: LiveAsk) -> None:
        """Take note of what an ask uses."""
        self.usage.pass_to(at_us)
        self.usage.take(ask.resources)

    def bound(self, _: int, ask: LiveAsk, wait_us: int | None) -> None:
        """Count an ask that is bound for the first time."""
        if wait_us is not None:
            self.asks_bound += 1
            self.waits[ask.queue].add(wait_us)

    def left(self, at_us: int, ask: LiveAsk, _: Reason | None) -> None:
        """Take note of what an ask uses no longer."""
        self.usage.pass_to(at_us)
        self.usage.give_back(ask.resources)

    def pending(self, at_us: int, ask: LiveAsk) -> None:
        """How many are pending, the census knows."""

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        """The same."""

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        """A summary says nothing of priorities."""


@final
class Tally:
    """Counts what a replay does; it is a journal.

    The driver tells it of every item before it hands the item on. The counters may be read
    from another thread while the replay goes on.

    Attributes:
        events: Items read.
        at_us: The instant of the last item or batch, in microseconds since the start.
        decisions: Decisions announced.
        refused: Events refused.
        warnings: Warnings given.
    """

    def __init__(self) -> None:
        self.events = 0
        self.at_us = 0
        self.decisions = 0
        self.refused = 0
        self.warnings = 0
        self._first_refusals: list[Remark] = []
        self._first_warnings: list[Remark] = []
        self._began_s = perf_counter()
        self._ended_s: float | None = None
        self._counts = _Counts()
        self._census = Census(self._counts)
        self._releases: Counter[Reason | None] = Counter()
        self._gangs: Counter[Kind] = Counter()

    @property
    def asks_bound(self) -> int:
        """How many asks were bound for the first time."""
        return self._counts.asks_bound

    @property
    def took_s(self) -> float:
        """How long it has taken so far, in seconds."""
        return (perf_counter() if self._ended_s is None else self._ended_s) - self._began_s

    # Listening

    def saw(self, item: FeedItem) -> None:
        """Take note of an item that is about to be let in."""
        self.events += 1
        self.at_us = item.at_us
        self._census.saw(item)

    def write(self, batch: Sequence[Announced], /) -> None:
        """Count the decisions of a batch."""
        at_us = batch[0].at_us
        self._census.write(batch)
        for announced in batch:
            decision = announced.decision
            if decision.kind is Kind.RELEASED:
                self._releases[decision.reason] += 1
            elif decision.kind is Kind.GANG_SATISFIED or decision.kind is Kind.GANG_TIMED_OUT:
                self._gangs[decision.kind] += 1
        refusals = _remarks(batch, Kind.REJECTED)
        warnings = _remarks(batch, Kind.WARNING)
        self.decisions += len(batch)
        self.refused += len(refusals)
        self._first_refusals += refusals[: MOST_REMARKS - len(self._first_refusals)]
        self.warnings += len(warnings)
        self._first_warnings += warnings[: MOST_REMARKS - len(self._first_warnings)]
        self.at_us = max(self.at_us, at_us)

    def end(self, until_us: int | None = None) -> None:
        """Take note that the replay is over, and that time passed until ``until_us``."""
        self._ended_s = perf_counter()
        self.at_us = max(self.at_us, until_us or 0)
        self._census.catch_up(self.at_us)
        self._counts.usage.pass_to(self.at_us)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._census.check()
        # All and only what waits on a node or is bound is used.
        self._counts.usage.check(ask.resources for ask in self._census.holding.values())

    # Telling

    def summary(self) -> Summary:
        """Say what was done so far."""
        counts, holding = self._counts, self._census.holding.values()
        everything = Waits()
        for waits in counts.waits.values():
            everything.extend(waits)
        queues = sorted(counts.jobs.keys() | counts.waits.keys())
        running = sum(ask.bound_us is not None for ask in holding)
        return Summary(
            events=self.events,
            refused=self.refused,
            first_refusals=tuple(self._first_refusals),
            warnings=self.warnings,
            first_warnings=tuple(self._first_warnings),
            asks_bound=self.asks_bound,
            asks_running=running,
            asks_waiting=len(holding) - running,
            asks_pending=len(self._census.unbound),
            asks_reclaimed=self._releases[Reason.RECLAIMED],
            asks_preempted=self._releases[Reason.PREEMPTED],
            gangs_satisfied=self._gangs[Kind.GANG_SATISFIED],
            gangs_timed_out=self._gangs[Kind.GANG_TIMED_OUT],
            decisions=self.decisions,
            virtual_s=self.at_us / MICROSECONDS,
            real_s=self.took_s,
            wait=everything.summary(),
            queues=tuple(
                QueueSummary(queue, counts.jobs.get(queue, 0), counts.waits[queue].summary())
                for queue in queues
            ),
            utilisation=counts.usage.utilisation(),
        )


def _remarks(batch: Sequence[Announced], kind: Kind) -> list[Remark]:
    return [Remark.of(announced.decision) for announced in batch if announced.decision.kind is kind]
