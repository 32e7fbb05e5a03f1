"""The tally: count what a replay does while it runs, and summarise it.

It keeps the asks and nodes that exist and one number for each ask that was bound, never events
or decisions. Of reservations it counts whether asks were bound by the start that they were given
first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Final, final

import attrs

from muster.feeds import FeedItem, Settle
from muster.replay._census import Beginning, Census
from muster.replay._costs import Costs, Fairness, LostRuns
from muster.replay._jobs import JobTable
from muster.replay._measures import JobMeasures, Waits, WaitSummary
from muster.replay._parts import QueuePart
from muster.replay._warnings import FeedWarning, FeedWarnings
from muster_core.decisions import GONE, MICROSECONDS, Announced, Decision, Kind, Reason


# COMMAND-26
@final
@attrs.frozen
class Reserved:
    """The asks that had a reservation, and their fate, in numbers.

    An ask that has a reservation again after it had lost its node counts again.

    Attributes:
        asks: How many asks had a reservation.
        kept: How many of them were bound not later than the first known start that they were given.
        late: How many were bound after it.
        open_ended: How many were bound and had never been given a known start.
    """

    asks: int = 0
    kept: int = 0
    late: int = 0
    open_ended: int = 0

    @property
    def unbound(self) -> int:
        """How many were not bound: they wait still, or are gone."""
        return self.asks - self.kept - self.late - self.open_ended


@final
class ReservedTally:
    """Follows the decisions about asks with a reservation."""

    def __init__(self) -> None:
        #: The first known start that each of them was given, in microseconds, or None.
        self._open: dict[tuple[str | None, str | None], int | None] = {}
        self._asks = self._kept = self._late = self._open_ended = 0

    def observe(self, decision: Decision, at_us: int) -> None:
        """Take a decision; those of other kinds than these three change nothing."""
        kind = decision.kind
        if kind is Kind.RESERVED:
            self._reserved((decision.app, decision.ask), decision.start_us)
        elif not self._open:
            return
        elif kind is Kind.BOUND:
            self._bound((decision.app, decision.ask), at_us)
        elif kind is Kind.RELEASED and decision.reason in GONE:
            self._open.pop((decision.app, decision.ask), None)

    def _reserved(self, ask: tuple[str | None, str | None], start_us: int | None) -> None:
        if ask not in self._open:
            self._asks += 1
            self._open[ask] = start_us
        elif self._open[ask] is None:
            self._open[ask] = start_us

    def _bound(self, ask: tuple[str | None, str | None], at_us: int) -> None:
        if ask not in self._open:
            return
        start_us = self._open.pop(ask)
        if start_us is None:
            self._open_ended += 1
        elif at_us <= start_us:
            self._kept += 1
        else:
            self._late += 1

    def figures(self) -> Reserved:
        """Return the figures so far."""
        return Reserved(self._asks, self._kept, self._late, self._open_ended)


@final
@attrs.frozen
class Remark:
    """A message about an event: why it was refused.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1, or None if the encoding has no lines.
        message: The message.
    """

    index: int
    line: int | None
    message: str

    @classmethod
    def of(cls, decision: Decision) -> Remark:
        """Make a remark from a decision with a message, which has an index if it is of a feed."""
        return cls(decision.index or 0, decision.line, decision.message or "")


MOST_REMARKS: Final = 10
"""The most refusals, and the most warnings, that a summary names."""


@final
@attrs.frozen
class QueueSummary:
    """The applications of a leaf, and the waits of its asks.

    Attributes:
        queue: Its full path.
        jobs: How many applications were submitted to it.
        asks_bound: How many of its asks were bound at least once.
        asks_unbound: How many of its asks ended without having been bound.
        wait: How long these asks waited.
        asks_reclaimed: How often an ask of it was evicted by reclaim.
        asks_preempted: How often an ask of it was evicted by preemption.
        lost: The runs that were cut short and have to be run again, by the reason of the release.
    """

    queue: str
    jobs: int
    asks_bound: int
    asks_unbound: int
    wait: WaitSummary
    asks_reclaimed: int = 0
    asks_preempted: int = 0
    lost: Mapping[str, LostRuns] = attrs.field(factory=dict[str, LostRuns])


@final
@attrs.frozen
class Summary:
    """The figures of a replay.

    Attributes:
        events: How many events were read, refused events and ``expect`` included.
        refused: How many events were refused.
        first_refusals: The first refusals, at most :data:`MOST_REMARKS`.
        warnings: How many warnings there were, about what the feed says and what came of it.
        first_warnings: The first warnings, at most :data:`MOST_REMARKS`.
        asks_bound: How many asks were bound at least once.
        asks_unbound: How many asks ended without having been bound.
        asks_running: How many asks are bound at the end.
        asks_waiting: How many members of gangs wait at the end.
        asks_pending: How many asks are pending or parked at the end.
        asks_reclaimed: How often an ask was evicted by reclaim.
        asks_preempted: How often an ask was evicted by preemption.
        asks_run_limit: How many asks were ended by their run limits.
        gangs_satisfied: How often a gang was satisfied.
        gangs_timed_out: How often a gang timed out.
        decisions: How many decisions were announced.
        virtual_s: How much virtual time passed, in seconds.
        real_s: How long the replay took, in seconds.
        wait: How long the asks of all queues waited that were bound, or ended without.
        queues: The figures of each queue that had an application, by path.
        utilisation: For each resource type of the nodes, the share of the capacity that was
            used: the integral of the usage over time divided by that of the capacity. 1 is
            everything; None means that the capacity was 0 all the time.
        lost: The runs of all queues that were cut short and have to be run again, by the reason of
            the release.
        fairness: How even the shares of queues and of users were.
        reserved: How many asks had a reservation, and what became of them.
        makespan_s: The time from the first submission of a job to the last bind or release of an
            ask, in seconds; None if there was none.
        utilisation_to_last_arrival: The same as ``utilisation`` until the last ask came; empty if
            none came.
        measures: The measures of jobs.
        parts: What queues below parents with a half-life had, and what was their due.
    """

    events: int
    refused: int
    first_refusals: tuple[Remark, ...]
    warnings: int
    first_warnings: tuple[FeedWarning, ...]
    asks_bound: int
    asks_unbound: int
    asks_running: int
    asks_waiting: int
    asks_pending: int
    asks_reclaimed: int
    asks_preempted: int
    asks_run_limit: int
    gangs_satisfied: int
    gangs_timed_out: int
    decisions: int
    virtual_s: float
    real_s: float
    wait: WaitSummary
    queues: tuple[QueueSummary, ...]
    utilisation: Mapping[str, float | None]
    lost: Mapping[str, LostRuns]
    fairness: Fairness
    reserved: Reserved
    makespan_s: float | None
    utilisation_to_last_arrival: Mapping[str, float | None]
    measures: JobMeasures
    parts: tuple[QueuePart, ...] = ()

    @property
    def decisions_per_s(self) -> float:
        """The decisions per second of real time."""
        return self.decisions / self.real_s if self.real_s > 0 else 0.0


@final
class Tally:
    """A journal that counts what a replay does.

    The driver calls :meth:`saw` with every item before it submits the item. Other threads may
    read the counters while the replay runs.

    Args:
        counts_settles: Whether a ``settle`` counts as an event. False for a state directory, where
            each batch ends with one that no client has sent.
        keeps_jobs: Whether to keep all jobs for :meth:`table`.

    Attributes:
        events: How many events were read.
        began_us: The instant at which it begins, in microseconds since the start.
        at_us: The instant of the last item or batch, in microseconds since the start.
        decisions: How many decisions were announced.
        refused: How many events were refused.
        warnings: How many warnings were given.
    """

    def __init__(self, *, counts_settles: bool = True, keeps_jobs: bool = False) -> None:
        self._counts_settles = counts_settles
        self.events = 0
        self.at_us = 0
        self.began_us = 0
        self.decisions = 0
        self._first_refusals: list[Remark] = []
        self._first_warnings: list[FeedWarning] = []
        self._warnings = 0
        self._reading = FeedWarnings(self._warn)
        self._began_s = perf_counter()
        self._ended_s: float | None = None
        self._costs = Costs(keeps_jobs=keeps_jobs)
        self._census = Census(self._costs)
        self._releases: Counter[Reason | None] = Counter()
        self._kinds: Counter[Kind] = Counter()
        self._reserved = ReservedTally()

    @property
    def refused(self) -> int:
        """How many events were refused."""
        return self._kinds[Kind.REJECTED]

    @property
    def warnings(self) -> int:
        """How many warnings there were, about what the feed says and what came of it."""
        return self._warnings

    @property
    def asks_bound(self) -> int:
        """How many asks were bound at least once."""
        return self._costs.asks_bound

    @property
    def took_s(self) -> float:
        """How long the replay has taken so far, in seconds."""
        return (perf_counter() if self._ended_s is None else self._ended_s) - self._began_s

    # Input

    def begin(self, beginning: Beginning) -> None:
        """Begin with a state instead of with nothing; before anything else.

        Asks that were bound before do not count as bound.
        """
        self.at_us = self.began_us = beginning.at_us
        self._reading.begin(beginning)
        self._census.begin(beginning)

    def saw(self, item: FeedItem) -> None:
        """Record an item that is about to be submitted."""
        if self._counts_settles or not isinstance(item.content, Settle):
            self.events += 1
        self.at_us = item.at_us
        self._reading.saw(item)
        self._census.saw(item)

    def read_all(self) -> None:
        """Record that the feed was read to its end."""
        self._reading.end()

    def write(self, batch: Sequence[Announced], /) -> None:
        """Count the decisions of a batch."""
        at_us = batch[0].at_us
        self._census.write(batch)
        kinds, reserved = self._kinds, self._reserved
        for announced in batch:
            decision = announced.decision
            kind = decision.kind
            kinds[kind] += 1
            reserved.observe(decision, at_us)
            if kind is Kind.RELEASED:
                self._releases[decision.reason] += 1
            elif kind is Kind.REJECTED and len(self._first_refusals) < MOST_REMARKS:
                self._first_refusals.append(Remark.of(decision))
            elif kind is Kind.WARNING and decision.index not in self._reading.configured:
                message = decision.message or ""
                self._warn(FeedWarning(None, decision.index, decision.line, "", message))
        self.decisions += len(batch)
        self.at_us = max(self.at_us, at_us)

    def _warn(self, warning: FeedWarning) -> None:
        self._warnings += 1
        if len(self._first_warnings) < MOST_REMARKS:
            self._first_warnings.append(warning)

    def end(self, until_us: int | None = None) -> None:
        """Record that the replay has ended, at ``until_us`` at the earliest."""
        self._ended_s = perf_counter()
        self.at_us = max(self.at_us, until_us or 0)
        self._census.catch_up(self.at_us)
        self._costs.pass_to(self.at_us)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        self._census.check()
        # All and only the waiting and bound asks use resources.
        self._costs.check(ask.resources for ask in self._census.holding.values())

    # Results

    def summary(self) -> Summary:
        """Return the figures so far."""
        costs, holding = self._costs, self._census.holding.values()
        costs.jobs.end(self._census.alive())
        everything = costs.waits()
        unbound = len(everything)
        for queue in costs.queues.values():
            everything.extend(queue.waits)
        running = sum(ask.bound_us is not None for ask in holding)
        return Summary(
            events=self.events,
            refused=self.refused,
            first_refusals=tuple(self._first_refusals),
            warnings=self.warnings,
            first_warnings=tuple(self._first_warnings),
            asks_bound=self.asks_bound,
            asks_unbound=unbound,
            asks_running=running,
            asks_waiting=len(holding) - running,
            asks_pending=len(self._census.unbound),
            asks_reclaimed=self._releases[Reason.RECLAIMED],
            asks_preempted=self._releases[Reason.PREEMPTED],
            asks_run_limit=self._releases[Reason.RUN_LIMIT],
            gangs_satisfied=self._kinds[Kind.GANG_SATISFIED],
            gangs_timed_out=self._kinds[Kind.GANG_TIMED_OUT],
            decisions=self.decisions,
            virtual_s=(self.at_us - self.began_us) / MICROSECONDS,
            real_s=self.took_s,
            wait=everything.summary(),
            queues=tuple(map(self._queue, sorted(costs.queues))),
            utilisation=costs.shares(),
            lost=costs.lost(),
            fairness=costs.fairness(),
            reserved=self._reserved.figures(),
            makespan_s=costs.makespan_s,
            utilisation_to_last_arrival=costs.shares_until_arrival(),
            measures=costs.measures(),
            parts=costs.parts(),
        )

    # COMMAND-37
    def table(self, workload: str, origin_us: int | None) -> JobTable:
        """Return the table of all jobs.

        Args:
            workload: The name of the feed.
            origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
        """
        self._costs.jobs.end(self._census.alive())
        return self._costs.table(workload, origin_us)

    def _queue(self, path: str) -> QueueSummary:
        queue, waits = self._costs.queues[path], Waits()
        for some in (queue.unbound, queue.waits):
            waits.extend(some)
        return QueueSummary(
            path,
            queue.jobs,
            len(queue.waits),
            len(queue.unbound),
            waits.summary(),
            queue.evicted[Reason.RECLAIMED],
            queue.evicted[Reason.PREEMPTED],
            self._costs.lost([path]),
        )
