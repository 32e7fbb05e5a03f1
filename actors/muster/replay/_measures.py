"""The measures of schedulers that research compares, which are of jobs.

A job is an application. Of one that is over, a few numbers are kept; medians and the figures of
sizes, users and queues follow on request. D. Feitelson, L. Rudolph, *Metrics and Benchmarking for
Parallel Job Scheduling*, JSSPP 1998, has the bounded slowdown.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from typing import Final, final

import attrs

from muster.replay._census import LiveAsk
from muster_core.decisions import MICROSECONDS, Reason, ends_ask
from muster_core.structures.amounts import add_to, take_from
from muster_core.values.resources import MEMORY, has_parts


@final
@attrs.frozen
class WaitSummary:
    """How long asks waited until they were bound for the first time, or jobs, in seconds.

    An ask that ended without having been bound counts with its wait until then.

    Attributes:
        count: How many these are; if 0, the other attributes are None.
        mean_s: The arithmetic mean.
        median_s: The median: the middle wait, or the mean of the two in the middle.
        p95_s: The shortest wait that at least 95 % of the waits do not exceed.
        longest_s: The longest wait.
    """

    count: int
    mean_s: float | None = None
    median_s: float | None = None
    p95_s: float | None = None
    longest_s: float | None = None


LONGEST_US: Final = 2**63 - 1
"""The longest wait that can be recorded, about 292,000 years, in microseconds."""


@final
class Waits:
    """Waits in microseconds, eight bytes each: a million of them take 8 MB."""

    def __init__(self, waits_us: Iterable[int] = ()) -> None:
        self._waits_us = array("q", waits_us)

    def add(self, wait_us: int) -> None:
        """Add a wait, in microseconds."""
        self._waits_us.append(min(wait_us, LONGEST_US))

    def extend(self, waits: Waits) -> None:
        """Add all waits of another object."""
        self._waits_us.extend(waits._waits_us)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._waits_us)

    def summary(self) -> WaitSummary:
        """Return the figures of all waits."""
        count = len(self._waits_us)
        if not count:
            return WaitSummary(0)
        ordered = sorted(self._waits_us)
        return WaitSummary(
            count=count,
            mean_s=sum(ordered) / count / MICROSECONDS,
            median_s=_middle(ordered) / MICROSECONDS,
            p95_s=_most(ordered) / MICROSECONDS,
            longest_s=ordered[-1] / MICROSECONDS,
        )


def _middle(ordered: Sequence[float]) -> float:
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def _most(ordered: Sequence[float]) -> float:
    """Return the smallest value that at least 95 % of all do not exceed."""
    return ordered[-(-95 * len(ordered) // 100) - 1]


@final
@attrs.frozen
class SlowdownSummary:
    """The bounded slowdowns of some jobs; None if there are no jobs.

    Attributes:
        mean: The arithmetic mean.
        median: The median.
        p95: The smallest slowdown that at least 95 % of the jobs do not exceed.
        highest: The highest.
    """

    mean: float | None = None
    median: float | None = None
    p95: float | None = None
    highest: float | None = None


def titled(found: WaitSummary | SlowdownSummary) -> dict[str, float | None]:
    """Return the figures of waits, in seconds, or of slowdowns, by their titles in tables."""
    if isinstance(found, SlowdownSummary):
        return {"bounded slowdown": found.mean, "median": found.median, "95 %": found.p95}
    return {
        "mean wait": found.mean_s,
        "median": found.median_s,
        "95 %": found.p95_s,
        "longest": found.longest_s,
    }


@final
@attrs.frozen
class JobGroup:
    """The jobs of one size, user or queue that ran and are over.

    Attributes:
        wait: How long they waited; its count is their number.
        bounded_slowdown: Their bounded slowdowns.
    """

    wait: WaitSummary
    bounded_slowdown: SlowdownSummary


# COMMAND-36
@final
@attrs.frozen
class JobMeasures:
    """The measures of all jobs.

    Attributes:
        ended: How many jobs ran and are over; all that follows is of these.
        never_ran: How many are over and never ran.
        unfinished: How many are not over at the end.
        wait: How long they waited.
        weighted_wait_s: Their mean wait in seconds, each weighted by the amount of a resource type
            that it held, times how long; by type.
        bounded_slowdown: Their bounded slowdowns.
        size_resource: The resource type whose amount is the size of a job; None without nodes.
        by_size: The figures by size: ``1``, ``2-4``, ``5-16`` and so on, rounded up.
        by_user: The figures by user; those without a user are under an empty name.
        by_queue: The figures by queue.
    """

    ended: int
    never_ran: int
    unfinished: int
    wait: WaitSummary
    weighted_wait_s: Mapping[str, float]
    bounded_slowdown: SlowdownSummary
    size_resource: str | None
    by_size: Mapping[str, JobGroup]
    by_user: Mapping[str, JobGroup]
    by_queue: Mapping[str, JobGroup]


_THRESHOLD_US: Final = 10 * MICROSECONDS
"""Shorter runs count as this long in the bounded slowdown."""


def bounded_slowdown(wait_us: int, run_us: int) -> float:
    """Return the bounded slowdown of a job."""
    return max(1.0, (wait_us + run_us) / max(run_us, _THRESHOLD_US))


@final
@attrs.define(eq=False)
class Job:
    """An application.

    Attributes:
        number: How many were submitted before it.
        name: Its name.
        queue: The path of its queue.
        user: Its user; empty for none.
        came_us: When it was submitted, in microseconds.
        start_us: When an ask of it was bound while none was and none had completed, the last time.
        end_us: When an ask of it was released that was bound, the last time.
        gone_us: When an ask of it was no longer pending, the last time.
        running: How many of its asks are bound.
        in_vain: How many of its asks ended while they were pending.
        completed: Whether one of its asks has completed.
        is_partial: Whether it ran before the replay began.
        reason: Why an ask of it ended that ran and did not complete: the first such.
        requested_us: The longest time that one of its asks was expected to take, or None.
        held: The resources of its bound asks.
        most: The most that they held at one time.
        areas: Their resources since its start, times how long they were held.
        wanted: The resources of its asks that do not run, if jobs are kept.
        nodes: A bit for each node that they held since its start, by its number, if jobs are kept.
        is_over: Whether none of its asks is left.
    """

    number: int
    name: str
    queue: str
    user: str
    came_us: int
    start_us: int | None = None
    end_us: int | None = None
    gone_us: int | None = None
    running: int = 0
    in_vain: int = 0
    completed: bool = False
    is_partial: bool = False
    reason: Reason | None = None
    requested_us: int | None = None
    held: dict[str, int] = attrs.field(factory=dict[str, int])
    most: dict[str, int] = attrs.field(factory=dict[str, int])
    areas: dict[str, int] = attrs.field(factory=dict[str, int])
    wanted: dict[str, int] = attrs.field(factory=dict[str, int])
    nodes: int = 0
    is_over: bool = False

    def bind(self, at_us: int, ask: LiveAsk) -> None:
        """Let an ask of it be bound."""
        if not (self.running or self.completed):
            self.start_us, self.areas, self.nodes = at_us, {}, 0
        self.running += 1
        held, most = self.held, self.most
        for kind, amount in ask.resources.items():
            now = held[kind] = held.get(kind, 0) + amount
            if now > most.get(kind, 0):
                most[kind] = now

    def release(self, at_us: int, ask: LiveAsk, bound_us: int) -> None:
        """Let an ask of it be released that was bound at an instant."""
        self.running -= 1
        self.end_us = at_us
        held, areas, run_us = self.held, self.areas, at_us - bound_us
        for kind, amount in ask.resources.items():
            held[kind] -= amount
            areas[kind] = areas.get(kind, 0) + amount * run_us

    @property
    def wait_us(self) -> int | None:
        """How long it waited until its start, or until it was gone; None if it waits still."""
        until_us = self.start_us
        if until_us is None and self.is_over:
            until_us = self.gone_us
        return None if until_us is None else until_us - self.came_us

    @property
    def run_us(self) -> int | None:
        """How long it ran; None if it is not over or never ran."""
        if not self.is_over or self.start_us is None or self.end_us is None:
            return None
        return self.end_us - self.start_us

    @property
    def final_state(self) -> str:
        """What became of it, as Batsim calls it."""
        if not self.is_over:
            return "RUNNING" if self.running else "SUBMITTED"
        if self.start_us is None:
            return "REJECTED"
        if self.reason is Reason.RUN_LIMIT:
            return "COMPLETED_WALLTIME_REACHED"
        if self.reason is Reason.FAILED:
            return "COMPLETED_FAILED"
        is_whole = self.completed and self.reason is None and not self.in_vain
        return "COMPLETED_SUCCESSFULLY" if is_whole else "COMPLETED_KILLED"


_NOTHING: Final[dict[str, int]] = {}
"""The resources of jobs that are over; it never changes."""

_GIB: Final = 2**30
_CLASS_BITS: Final = 2
"""A class of sizes ends at a power of two to the power of this: at 1, 4, 16, 64 and so on."""


def unit_of(kind: str) -> int:
    """Return how many base units make one of a resource type, where sizes are counted."""
    return _GIB if kind == MEMORY else 1000 if has_parts(kind) else 1


def size_class(kind: str, amount: int) -> int:
    """Return the number of the class that an amount belongs to; 0 is for nothing."""
    units = -(-amount // unit_of(kind))
    return 0 if not units else 1 - (-(units - 1).bit_length() // _CLASS_BITS)


def class_text(number: int) -> str:
    """Return the sizes of a class: ``0``, ``1``, ``2-4``, ``5-16``."""
    last = 1 << _CLASS_BITS * (number - 1) if number else 0
    return str(last) if number < 2 else f"{(last >> _CLASS_BITS) + 1}-{last}"


# COMMAND-36
def size_resource_of(shares: Mapping[str, float | None]) -> str | None:
    """Return the type whose amount is the size of a job: the one of which most was used.

    Args:
        shares: What was used of the capacity of all nodes, by type. Memory counts only where there
            is nothing else.
    """
    return min(shares, key=lambda kind: (kind == MEMORY, -(shares[kind] or 0), kind), default=None)


# COMMAND-36
@final
class JobBook:
    """Follows jobs, by what a census reports in the order of decisions.

    Args:
        keeps: Whether to keep all jobs for a table.

    Attributes:
        nodes: The number of each node that there was, from 0.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self.nodes: dict[str, int] = {}
        self._kept: list[Job] | None = [] if keeps else None
        #: The jobs whose applications have not completed.
        self._open: dict[str, Job] = {}
        self._submitted = self._never_ran = 0
        #: Of each job that ran and is over: its times, the most that it held, and to whom it belongs.
        self._waits = array("q")
        self._runs = array("q")
        self._most: dict[str, array[int]] = {}
        self._names: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._belongs = (array("l"), array("l"))
        #: What they held times how long, and that times their waits.
        self._areas: dict[str, int] = {}
        self._weighted: dict[str, int] = {}

    def submitted(self, at_us: int, app: str, queue: str, user: str | None) -> None:
        """Record a new application; a removed one of the same name is over."""
        self.completed(app)
        self._open[app] = Job(self._submitted, app, queue, user or "", at_us)
        self._submitted += 1

    def completed(self, app: str) -> None:
        """Record that an application has completed, if it is there."""
        job = self._open.pop(app, None)
        if job is not None:
            self._close(job)
            job.held = job.areas = _NOTHING  # There may be very many jobs to keep.
            job.wanted = job.wanted or _NOTHING

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        """An ask is no longer pending; unless it is held next, it is gone."""
        job = self._open.get(ask.key[0])
        if job is not None:
            job.gone_us = at_us
            job.in_vain += 1
            if self._kept is not None:
                add_to(job.wanted, ask.resources)

    def held(self, ask: LiveAsk) -> None:
        """An ask that was taken has a node."""
        job = self._open.get(ask.key[0])
        if job is not None:
            job.in_vain -= 1
            if self._kept is not None:
                take_from(job.wanted, ask.resources)

    def bound(self, at_us: int, ask: LiveAsk, *, is_known: bool) -> None:
        """An ask is bound; it is not known if it may have run before the replay."""
        job = self._open.get(ask.key[0])
        if job is None:
            return
        job.is_partial |= job.start_us is None and not is_known
        job.bind(at_us, ask)
        if ask.requested_us is not None:
            job.requested_us = max(job.requested_us or 0, ask.requested_us)
        if self._kept is not None and ask.node is not None:
            job.nodes |= 1 << self.nodes.setdefault(ask.node, len(self.nodes))

    def lost_node(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        """An ask has lost its node."""
        job = self._open.get(ask.key[0])
        if job is None:
            return
        if ask.bound_us is not None:
            job.release(at_us, ask, ask.bound_us)
        else:
            job.gone_us = at_us
        if reason is Reason.COMPLETED:
            job.completed = True
        elif job.reason is None and ends_ask(reason, ask.retries, once=ask.goes):
            job.reason = reason

    def end(self, alive: Iterable[LiveAsk]) -> None:
        """Record the end of the replay, given all asks that are left."""
        wanted: dict[str, dict[str, int]] = {}
        for ask in alive:
            amounts = wanted.setdefault(ask.key[0], {})
            if ask.bound_us is None:
                add_to(amounts, ask.resources)
        for app, job in [*self._open.items()]:
            if app in wanted:
                job.wanted = wanted[app]
            elif job.end_us is not None or job.gone_us is not None:
                self.completed(app)

    def _close(self, job: Job) -> None:
        job.is_over = True
        wait_us, run_us = job.wait_us, job.run_us
        if job.is_partial or wait_us is None:
            return
        if self._kept is not None:
            self._kept.append(job)
        if run_us is None:
            self._never_ran += 1
            return
        for kind in job.most.keys() - self._most.keys():
            self._most[kind] = array("q", bytes(8 * len(self._waits)))
        for kind, amounts in self._most.items():
            amounts.append(min(job.most.get(kind, 0), LONGEST_US))
        self._waits.append(min(wait_us, LONGEST_US))
        self._runs.append(min(run_us, LONGEST_US))
        for names, numbers, name in zip(
            self._names, self._belongs, (job.user, job.queue), strict=True
        ):
            numbers.append(names.setdefault(name, len(names)))
        for kind, area in job.areas.items():
            self._areas[kind] = self._areas.get(kind, 0) + area
            self._weighted[kind] = self._weighted.get(kind, 0) + area * wait_us

    # Results

    def jobs(self) -> Sequence[Job]:
        """Return all jobs that were kept, in the order in which they were submitted."""
        unfinished = [job for job in self._open.values() if not job.is_partial]
        return sorted([*(self._kept or ()), *unfinished], key=lambda job: (job.came_us, job.number))

    def measures(self, size_resource: str | None) -> JobMeasures:
        """Return the measures of all jobs, after the end."""
        every = self._group(range(len(self._waits)))
        users, queues = (
            self._groups(numbers, [*names].__getitem__)
            for names, numbers in zip(self._names, self._belongs, strict=True)
        )
        sizes = self._most.get(size_resource or "")
        if sizes is None:
            sizes = array("q", bytes(8 * len(self._waits)))
        by_size = self._groups(
            (size_class(size_resource or "", size) for size in sizes), class_text
        )
        return JobMeasures(
            ended=every.wait.count,
            never_ran=self._never_ran,
            unfinished=sum(not job.is_partial for job in self._open.values()),
            wait=every.wait,
            weighted_wait_s={
                kind: self._weighted[kind] / area / MICROSECONDS
                for kind, area in sorted(self._areas.items())
                if area
            },
            bounded_slowdown=every.bounded_slowdown,
            size_resource=size_resource,
            by_size=by_size,
            by_user=dict(sorted(users.items())),
            by_queue=dict(sorted(queues.items())),
        )

    def _groups(self, keys: Iterable[int], named: Callable[[int], str]) -> dict[str, JobGroup]:
        places: dict[int, list[int]] = defaultdict(list)
        for place, key in enumerate(keys):
            places[key].append(place)
        return {named(key): self._group(places[key]) for key in sorted(places)}

    def _group(self, places: Sequence[int]) -> JobGroup:
        waits, runs = self._waits, self._runs
        slowdown = SlowdownSummary()
        ordered = sorted(bounded_slowdown(waits[place], runs[place]) for place in places)
        if ordered:
            mean = fsum(ordered) / len(ordered)
            slowdown = SlowdownSummary(mean, _middle(ordered), _most(ordered), ordered[-1])
        return JobGroup(Waits(waits[place] for place in places).summary(), slowdown)
