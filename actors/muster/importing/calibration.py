"""How far a replay of an imported feed is from the real run: it compares the starts of jobs.

A :class:`Calibration` watches the replay of a feed that was just made, with the :class:`Starts` that
the import has kept. It holds some hundred bytes for each job that waits, and some fifty for each
other one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol, final

import attrs

from muster.feeds import FeedItem
from muster.figures.text import dated, instant_of, percent, seconds_text
from muster.importing.workload import Starts
from muster.replay import Beginning, Key, Waits, WaitSummary
from muster_core.decisions import MICROSECONDS, Announced, Kind
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.reasons import Explanation
from muster_core.resources import Resources

MOST_APART: Final = 10
"""The most jobs with the greatest differences that are listed."""

SPANS_S: Final[Mapping[str, int]] = {"1 min": 60, "10 min": 600, "1 h": 3600}
"""Within which times of the real start a job may start, in seconds."""

_FIRST_LOOK_US: Final = MICROSECONDS
"""How late a job is before it is asked why: less is no news."""


@final
class Verdict(StrEnum):
    """How near a replay is to the real run."""

    NEAR = "near"
    ROUGH = "rough"
    FAR = "far"


@final
@attrs.frozen
class Agreement:
    """How the starts of some jobs agree.

    Attributes:
        name: The partition or queue that the jobs share; empty for all.
        jobs: How many started both really and in the replay.
        apart: How far the two starts are apart, whichever is first.
        real: How long the jobs really waited.
        replayed: How long they waited in the replay.
        within: The share of jobs whose two starts are at most a span apart, by :data:`SPANS_S`.
    """

    name: str
    jobs: int
    apart: WaitSummary
    real: WaitSummary
    replayed: WaitSummary
    within: Mapping[str, float]


@final
@attrs.frozen
class StartGap:
    """A job whose two starts are far apart.

    Attributes:
        app: Its application.
        ask: Its ask, or its first one.
        queue: Its queue.
        partition: Its partition.
        real_us: When it really started, in microseconds since the start of the feed.
        replayed_us: When it started in the replay.
        asked_us: When the replay explained the delay; None if it started earlier than in fact.
        held: The reason for the delay then: a code, a colon and a sentence.
    """

    app: str
    ask: str
    queue: str
    partition: str
    real_us: int
    replayed_us: int
    asked_us: int | None = None
    held: str | None = None

    @property
    def late_s(self) -> float:
        """How much later it started in the replay, in seconds; below 0 if earlier."""
        return (self.replayed_us - self.real_us) / MICROSECONDS


@final
@attrs.frozen
class CalibrationResult:
    """The result of a calibration.

    Attributes:
        jobs: How many jobs are in the feed.
        unknown: How many of them have no real start: they are in no other figure.
        waiting: How many really started, and did not in the replay.
        all: The agreement of all jobs.
        partitions: That of each partition.
        queues: That of each queue.
        real_makespan_s: From the first job's coming to the last real end, in seconds.
        replayed_makespan_s: The same in the replay.
        used: For each resource type the share of all nodes that jobs used until the last real
            end: really, and in the replay.
        most_apart: The jobs with the greatest differences, the greatest first.
    """

    jobs: int
    unknown: int
    waiting: int
    all: Agreement
    partitions: Sequence[Agreement]
    queues: Sequence[Agreement]
    real_makespan_s: float
    replayed_makespan_s: float
    used: Mapping[str, tuple[float, float]]
    most_apart: Sequence[StartGap]

    # IMPORT-23
    @property
    def verdict(self) -> Verdict | None:
        """How near the replay is; None if there is nothing to compare."""
        real_s, replayed_s = self.all.real.mean_s, self.all.replayed.mean_s
        if real_s is None or replayed_s is None:
            return None
        off_s = abs(replayed_s - real_s)
        share = self.all.jobs / (self.all.jobs + self.waiting)
        within = {span: part * share for span, part in self.all.within.items()}
        if off_s <= max(60, real_s / 10) and within["10 min"] >= 0.8:
            return Verdict.NEAR
        if off_s <= max(600, real_s / 2) and within["1 h"] >= 0.8:
            return Verdict.ROUGH
        return Verdict.FAR

    def sentence(self) -> str:
        """Return the verdict in words."""
        verdict = self.verdict
        if verdict is None:
            return (
                "There is nothing to compare: no job has both a real start and one in the replay."
            )
        real_s, replayed_s = self.all.real.mean_s or 0.0, self.all.replayed.mean_s or 0.0
        off = seconds_text(abs(replayed_s - real_s))
        waits = f"jobs wait {seconds_text(replayed_s)} on average instead of {seconds_text(real_s)}"
        starts = f"{percent(self.all.within['10 min'])} start within 10 min of their real start"
        ending = {
            Verdict.NEAR: f"Of another configuration, trust changes of the mean wait above {off}.",
            Verdict.ROUGH: "Trust only large changes of another configuration, and their direction: "
            f"the mean wait is {off} off.",
            Verdict.FAR: "Do not judge other configurations by it before the jobs above are "
            "explained.",
        }[verdict]
        degree = {Verdict.NEAR: "near to", Verdict.ROUGH: "roughly", Verdict.FAR: "far from"}[
            verdict
        ]
        return f"The replay is {degree} what Slurm did: {waits}, and {starts}. {ending}"


class ExplainingScheduler(Protocol):
    """A scheduler to ask, such as a :class:`muster.Simulation`."""

    async def why_pending(self, app: str, ask: str) -> Explanation | None:
        """Return why an ask is not running, or None."""
        ...


@final
@attrs.define(eq=False)
class _OpenJob:
    """A job of which not all asks have been bound yet.

    Attributes:
        number: Its number among the jobs of the feed.
        key: Its first ask.
        queue: Its queue.
        came_us: When it came.
        real_us: When it really started, or None.
        events: How many more events add asks of it.
        unbound: How many of its asks are not bound.
        held: The amounts of its asks, with how long they run (None: to the end), in microseconds.
        hold: When and why it was held, if it was asked.
    """

    number: int
    key: Key
    queue: str
    came_us: int
    real_us: int | None
    events: int
    unbound: int = 0
    held: list[tuple[Resources, int | None]] = attrs.field(
        factory=list[tuple[Resources, int | None]]
    )
    hold: tuple[int, str] | None = None


# IMPORT-22
@final
class Calibration:
    """A watcher for :func:`muster.replay.replay` that compares the starts of jobs.

    Args:
        starts: When the jobs of the feed really started.
        date: Writes an instant, given in microseconds since the start of the feed, in reasons.
    """

    def __init__(self, starts: Starts, date: Callable[[int], str]) -> None:
        self._starts = starts
        self._date = date
        self._next = 0
        self._open: _OpenJob | None = None
        self._queues: dict[str, str] = {}
        self._asks: dict[Key, _OpenJob] = {}
        self._waiting: dict[int, _OpenJob] = {}
        #: Of the jobs whose real start has not been looked at: that instant, and the number.
        self._due: list[tuple[int, int]] = []
        #: The greatest differences so far, the smallest first; the number breaks ties.
        self._gaps: list[tuple[int, int, StartGap]] = []
        self._unknown = 0
        self._all = _Group()
        self._partitions: dict[str, _Group] = {}
        self._of_queues: dict[str, _Group] = {}
        self._real = _Span()
        self._replayed = _Span()
        self._room: dict[str, int] = {}

    # A watcher

    def begin(self, beginning: Beginning, /) -> None:
        """Do nothing: the feed of an import begins with nothing."""

    def saw(self, item: FeedItem, /) -> None:
        """Record jobs as they come, and nodes."""
        match item.content:
            case AddNode():
                for kind, amount in item.content.room.items():
                    self._room[kind] = self._room.get(kind, 0) + amount
            case AddApp(app=app, queue=queue):
                self._queues[app] = queue or ""
            case AddAsk():
                self._add(item.content, item.at_us)
            case _:
                pass

    def _add(self, event: AddAsk, at_us: int) -> None:
        names = event.names()
        if self._open is None:
            self._open = self._begun((event.app, names[0]), at_us)
        job = self._open
        job.events -= 1
        job.unbound += len(names)
        job.held += [(event.wanted, event.run_for_us)] * len(names)
        for name in names:
            self._asks[event.app, name] = job
        if job.events:
            return
        self._open = None
        if job.real_us is None:
            self._unknown += 1
        else:
            self._real.add(job.held, job.came_us, job.real_us)
            heapq.heappush(self._due, (job.real_us, job.number))

    def _begun(self, key: Key, at_us: int) -> _OpenJob:
        number = self._next
        self._next += 1
        job = _OpenJob(
            number,
            key,
            self._queues.get(key[0], ""),
            at_us,
            self._starts.start_us(number),
            self._starts.events_of(number),
        )
        self._waiting[number] = job
        return job

    def write(self, batch: Sequence[Announced], /) -> None:
        """Record the first time that all asks of a job are bound."""
        for announced in batch:
            decision = announced.decision
            if decision.kind is not Kind.BOUND or decision.app is None or decision.ask is None:
                continue
            job = self._asks.pop((decision.app, decision.ask), None)
            if job is not None:
                job.unbound -= 1
                if not job.unbound and not job.events:
                    del self._waiting[job.number]
                    self._started(job, announced.at_us)

    def _started(self, job: _OpenJob, at_us: int) -> None:
        if job.real_us is None:
            return
        self._replayed.add(job.held, job.came_us, at_us)
        partition = self._starts.partition_of(job.number)
        for group in (
            self._all,
            self._partitions.setdefault(partition, _Group()),
            self._of_queues.setdefault(job.queue, _Group()),
        ):
            group.add(job.came_us, job.real_us, at_us)
        hold = job.hold or (None, None)
        gap = StartGap(*job.key, job.queue, partition, job.real_us, at_us, *hold)
        off_us = abs(at_us - job.real_us)
        if off_us:
            keep = heapq.heappush if len(self._gaps) < MOST_APART else heapq.heappushpop
            keep(self._gaps, (off_us, -job.number, gap))

    def due_us(self) -> int | None:
        """Return when a job that waits will be among those that are furthest apart."""
        while self._due and self._due[0][1] not in self._waiting:
            heapq.heappop(self._due)
        return self._due[0][0] + self._patience_us if self._due else None

    @property
    def _patience_us(self) -> int:
        """How late a job has to be to matter, in microseconds."""
        least_us = self._gaps[0][0] if len(self._gaps) == MOST_APART else 0
        return max(least_us, _FIRST_LOOK_US)

    async def look(self, scheduler: ExplainingScheduler, at_us: int, /) -> None:
        """Ask for the reasons of jobs that are late."""
        while (due_us := self.due_us()) is not None and due_us <= at_us:
            job = self._waiting[heapq.heappop(self._due)[1]]
            explanation = await scheduler.why_pending(*job.key)
            if explanation is not None:
                reason = explanation.dominant
                reason_text = dated(str(reason), instant_of(reason.facts), self._date)
                job.hold = (at_us, reason_text)

    async def look_at_end(self, scheduler: ExplainingScheduler, at_us: int, /) -> None:
        """Do nothing: jobs that have not started are counted."""

    def result(self) -> CalibrationResult:
        """Return the result, after the replay."""
        waiting = sum(job.real_us is not None for job in self._waiting.values())
        end_us = self._real.last_us
        real, replayed = self._real.used(end_us), self._replayed.used(end_us)
        whole_us = max(end_us - (self._real.first_us or 0), 1)
        return CalibrationResult(
            jobs=len(self._starts),
            unknown=self._unknown,
            waiting=waiting,
            all=self._all.agreement(""),
            partitions=_agreements(self._partitions),
            queues=_agreements(self._of_queues),
            real_makespan_s=self._real.makespan_s,
            replayed_makespan_s=self._replayed.makespan_s,
            used={
                kind: (
                    real.get(kind, 0) / (room * whole_us),
                    replayed.get(kind, 0) / (room * whole_us),
                )
                for kind, room in sorted(self._room.items())
                if room
            },
            most_apart=[gap for _, _, gap in sorted(self._gaps, reverse=True)],
        )


def _agreements(groups: Mapping[str, _Group]) -> Sequence[Agreement]:
    return [group.agreement(name) for name, group in sorted(groups.items())]


@final
class _Group:
    """Counts the starts of jobs that have something in common."""

    def __init__(self) -> None:
        self._apart_us, self._real, self._replayed = Waits(), Waits(), Waits()
        self._within = dict.fromkeys(SPANS_S, 0)

    def add(self, came_us: int, real_us: int, replayed_us: int) -> None:
        """Count a job."""
        apart_us = abs(replayed_us - real_us)
        self._apart_us.add(apart_us)
        self._real.add(max(real_us - came_us, 0))
        self._replayed.add(replayed_us - came_us)
        for span, span_s in SPANS_S.items():
            self._within[span] += apart_us <= span_s * MICROSECONDS

    def agreement(self, name: str) -> Agreement:
        """Return the figures."""
        apart = self._apart_us.summary()
        within = {span: count / max(apart.count, 1) for span, count in self._within.items()}
        return Agreement(
            name, apart.count, apart, self._real.summary(), self._replayed.summary(), within
        )


@final
class _Span:
    """The times of jobs, and the amounts that they held.

    Attributes:
        first_us: When the first of them came, in microseconds; None if there is none.
        last_us: When the last of them ended, or started if its end is unknown.
    """

    def __init__(self) -> None:
        self.first_us: int | None = None
        self.last_us = 0
        self._runs: list[tuple[int, int | None, Resources]] = []

    @property
    def makespan_s(self) -> float:
        """From the first coming to the last end, in seconds."""
        return 0.0 if self.first_us is None else (self.last_us - self.first_us) / MICROSECONDS

    def add(
        self, held: Sequence[tuple[Resources, int | None]], came_us: int, start_us: int
    ) -> None:
        """Add a job that holds resources from its start on."""
        self.first_us = came_us if self.first_us is None else min(came_us, self.first_us)
        for resources, run_us in held:
            end_us = None if run_us is None else start_us + run_us
            self.last_us = max(self.last_us, start_us if end_us is None else end_us)
            self._runs.append((start_us, end_us, resources))

    def used(self, until_us: int) -> Mapping[str, int]:
        """Return the amount of each resource times the microseconds that it was held."""
        used: dict[str, int] = {}
        for start_us, end_us, resources in self._runs:
            span_us = min(until_us if end_us is None else end_us, until_us) - start_us
            if span_us > 0:
                for kind, amount in resources.items():
                    used[kind] = used.get(kind, 0) + amount * span_us
        return used


# IMPORT-24
def as_map(
    calibrated: CalibrationResult, at: Callable[[int], str | int | float]
) -> dict[str, object]:
    """Return a result for JSON.

    Args:
        calibrated: The result.
        at: Writes an instant, given in microseconds since the start of the feed.
    """
    verdict = calibrated.verdict
    return {
        "verdict": None if verdict is None else verdict.value,
        "sentence": calibrated.sentence(),
        "jobs": calibrated.jobs,
        "compared": calibrated.all.jobs,
        "without_real_start": calibrated.unknown,
        "not_started_in_replay": calibrated.waiting,
        "all": _agreement_map(calibrated.all),
        "partitions": {one.name: _agreement_map(one) for one in calibrated.partitions},
        "queues": {one.name: _agreement_map(one) for one in calibrated.queues},
        "makespan_s": {
            "real": calibrated.real_makespan_s,
            "replayed": calibrated.replayed_makespan_s,
        },
        "used": {
            kind: {"real": real, "replayed": replayed}
            for kind, (real, replayed) in calibrated.used.items()
        },
        "most_apart": [
            {
                "app": one.app,
                "ask": one.ask,
                "queue": one.queue,
                "partition": one.partition,
                "real_start": at(one.real_us),
                "replayed_start": at(one.replayed_us),
                "late_s": one.late_s,
                "held_at": None if one.asked_us is None else at(one.asked_us),
                "held_by": one.held,
            }
            for one in calibrated.most_apart
        ],
    }


def _agreement_map(agreement: Agreement) -> dict[str, object]:
    return {
        "jobs": agreement.jobs,
        "apart": attrs.asdict(agreement.apart),
        "real_wait": attrs.asdict(agreement.real),
        "replayed_wait": attrs.asdict(agreement.replayed),
        "within": dict(agreement.within),
    }
