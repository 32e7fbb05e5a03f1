"""The account of one side: counts, waits and usage, by queue and by priority; and its applications.

Their waits and ends are compared with those of the other side. An account does not know whether a side is a feed or a decision log.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from math import inf
from typing import Final, TypeAlias, final

import attrs

from muster.compare._result import (
    MOST_JOBS,
    MOST_PRIORITIES,
    Figures,
    JobChange,
    JobChanges,
    JobTimes,
    Movement,
)
from muster.compare._sides import find_ask
from muster.replay import Beginning, Costs, ReservedTally, Waits
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.decisions import MICROSECONDS, Announced, Decision, Kind, Reason, ends_ask
from muster_core.owners.asks import Ask
from muster_core.values.application_states import AppState

_ROOM: Final = 10 * MOST_JOBS
"""How many candidates are kept before all but the first are dropped."""


@final
@attrs.define
class ComparedJob:
    """An application on one side.

    Attributes:
        app: Its name.
        queue: The path of its queue.
        came_us: When it was submitted, in microseconds.
        bound_us: When one of its asks was first bound, in microseconds, or None.
        end_us: When it had no ask left, in microseconds, or None.
        removed_us: When one of its asks was last removed, in microseconds; None if none was, or
            an ask was bound since.
        holding: How many of its asks hold a node.
        priorities: The priorities of its asks that were bound.
    """

    app: str
    queue: str
    came_us: int
    bound_us: int | None = None
    end_us: int | None = None
    removed_us: int | None = None
    holding: int = 0
    priorities: set[int] = attrs.field(factory=set[int])

    @property
    def wait_us(self) -> float:
        """How long it waited, in microseconds; infinite if none of its asks was bound."""
        return inf if self.bound_us is None else self.bound_us - self.came_us

    def times(self) -> JobTimes:
        """Return its wait and its end, in seconds."""
        return JobTimes(self.queue, _seconds(self.wait_us), _seconds(_end_us(self)))


def _seconds(us: float) -> float | None:
    return None if us == inf else us / MICROSECONDS


def _end_us(job: ComparedJob) -> float:
    return inf if job.end_us is None else job.end_us


@final
class JobHistory:
    """The applications of one side.

    Args:
        closed: Called with each application once it can no longer change.
    """

    def __init__(self, closed: Callable[[ComparedJob], None]) -> None:
        self._closed = closed
        self._open: dict[str, ComparedJob] = {}

    def find(self, app: str) -> ComparedJob | None:
        """Return an application that has not completed, or None."""
        return self._open.get(app)

    def submitted(self, app: str, queue: str, now_us: int) -> None:
        """Record a new application; a removed one of the same name can no longer change."""
        before = self._open.pop(app, None)
        if before is not None:
            self._close(before, is_over=True)
        self._open[app] = ComparedJob(app, queue, now_us)

    def entered(self, app: str, state: str, now_us: int) -> None:
        """Record the new state of an application."""
        job = self._open.get(app)
        if job is None:
            return
        if state == AppState.COMPLETING:
            job.end_us = now_us
        elif state == AppState.COMPLETED:
            self._close(self._open.pop(app), is_over=True)
        else:
            job.end_us = None

    def gone(self, app: str) -> None:
        """Record that an application was removed."""
        self._close(self._open.pop(app), is_over=True)

    def end(self, alive: AbstractSet[str]) -> None:
        """Record that the side has ended.

        Args:
            alive: The applications with asks that are not bound.
        """
        for job in self._open.values():
            self._close(job, is_over=not job.holding and job.app not in alive)
        self._open.clear()

    def _close(self, job: ComparedJob, *, is_over: bool) -> None:
        # No decision reports a state for an application that is removed.
        if is_over and job.end_us is None:
            job.end_us = job.removed_us
        self._closed(job)


_Entry: TypeAlias = tuple[float, int, str, int, ComparedJob, ComparedJob]
"""The change as a negative number, largest first; then the tie-breakers; then both sides."""


@final
class _Ranking:
    """The jobs that gained most and those that lost most, by wait or by end."""

    def __init__(self) -> None:
        self._gained: list[_Entry] = []
        self._lost: list[_Entry] = []
        self.gains = 0
        self.losses = 0

    def add(self, number: int, a: ComparedJob, b: ComparedJob, before: float, after: float) -> None:
        """Compare a job on both sides.

        Args:
            number: A number that no other job has.
            a: The job on one side.
            b: The job on the other side.
            before: Its wait or end on one side, in microseconds; may be infinite.
            after: The same on the other side.
        """
        if after < before:
            self.gains += 1
            _keep(self._gained, (after - before, a.came_us, a.app, number, a, b))
        elif after > before:
            self.losses += 1
            _keep(self._lost, (before - after, a.came_us, a.app, number, a, b))

    def movement(self) -> Movement:
        """Return which jobs gained and which lost."""
        return Movement(
            gained=self.gains,
            lost=self.losses,
            most_gained=tuple(_changes(self._gained)),
            most_lost=tuple(_changes(self._lost)),
        )


def _keep(entries: list[_Entry], entry: _Entry) -> None:
    entries.append(entry)
    if len(entries) > _ROOM:
        entries.sort()  # Never compares jobs: no two numbers are equal.
        del entries[MOST_JOBS:]


def _changes(entries: list[_Entry]) -> Iterator[JobChange]:
    for *_, a, b in sorted(entries)[:MOST_JOBS]:
        yield JobChange(a.app, a.times(), b.times())


@final
class Matches:
    """The applications of both sides; each is compared once it is closed on both.

    An application is kept only until its namesake on the other side is closed.
    """

    def __init__(self) -> None:
        self._alone: tuple[dict[str, deque[ComparedJob]], dict[str, deque[ComparedJob]]] = ({}, {})
        #: How often each side has refused an application, by name.
        self._refused: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._compared = 0
        self._wait = _Ranking()
        self._end = _Ranking()

    def refused(self, side: int, app: str) -> None:
        """Record that side 0 or 1 has refused an application."""
        self._refused[side][app] += 1

    def closed(self, side: int, job: ComparedJob) -> None:
        """Record that an application can no longer change on side 0 or 1."""
        others = self._alone[1 - side]
        waiting = others.get(job.app)
        if waiting is None:
            self._alone[side].setdefault(job.app, deque()).append(job)
            return
        other = waiting.popleft()
        if not waiting:
            del others[job.app]
        self._compare(*((other, job) if side else (job, other)))

    def _compare(self, a: ComparedJob, b: ComparedJob) -> None:
        self._compared += 1
        self._wait.add(self._compared, a, b, a.wait_us, b.wait_us)
        self._end.add(self._compared, a, b, _end_us(a), _end_us(b))

    def changes(self) -> JobChanges:
        """Return which applications gained and which lost."""
        only_a, only_b = (sum(map(len, alone.values())) for alone in self._alone)
        return JobChanges(
            compared=self._compared,
            only_a=only_a,
            only_b=only_b,
            refused_a=self._refused_by(1, self._alone[0]),
            refused_b=self._refused_by(0, self._alone[1]),
            wait=self._wait.movement(),
            end=self._end.movement(),
        )

    def _refused_by(self, side: int, alone: Mapping[str, deque[ComparedJob]]) -> int:
        """Count the applications that only the other side has and that ``side`` has refused."""
        return sum(min(len(jobs), self._refused[side][app]) for app, jobs in alone.items())


def ranges(asks: Mapping[int, int], most: int = MOST_PRIORITIES) -> Iterator[tuple[int, int]]:
    """Group priorities into a few rows with about the same number of asks.

    Args:
        asks: How many asks each priority has.
        most: The most rows.

    Yields:
        The lowest and the highest priority of each row, highest row first.
    """
    if len(asks) <= most:
        for priority in sorted(asks, reverse=True):
            yield priority, priority
        return
    whole, done, row = sum(asks.values()), 0, 1
    members: list[int] = []
    for priority in sorted(asks, reverse=True):
        members.append(priority)
        done += asks[priority]
        if done * most >= whole * row:
            yield members[-1], members[0]
            members.clear()
            row = done * most // whole + 1
    assert not members, "some priorities are in no row"


_Key = tuple[str, str]


@final
@attrs.define
class GroupCounts:
    """The counts of a queue or of a priority.

    Attributes:
        jobs: How many applications were submitted.
        bound: How many asks were bound at least once.
        pending: How many asks are not bound at the end.
        releases: How many asks were released, by reason.
        waits: How long asks waited.
        job_waits: How long applications waited.
        first_us: When the first application was submitted, in microseconds, or None.
        last_us: When an ask was last bound or released, in microseconds, or None.
    """

    jobs: int = 0
    bound: int = 0
    pending: int = 0
    releases: dict[Reason, int] = attrs.field(factory=lambda: defaultdict[Reason, int](int))
    waits: Waits = attrs.field(factory=Waits)
    job_waits: Waits = attrs.field(factory=Waits)
    first_us: int | None = None
    last_us: int | None = None

    def add(self, other: GroupCounts) -> None:
        """Add the counts of another object."""
        self.jobs += other.jobs
        self.bound += other.bound
        self.pending += other.pending
        for reason, number in other.releases.items():
            self.releases[reason] += number
        self.waits.extend(other.waits)
        self.job_waits.extend(other.job_waits)
        self.first_us = min(_known(self.first_us, other.first_us), default=None)
        self.last_us = max(_known(self.last_us, other.last_us), default=None)

    @property
    def makespan_s(self) -> float | None:
        """The time from the first application to the last bind or release, in seconds."""
        if self.first_us is None or self.last_us is None:
            return None
        return (self.last_us - self.first_us) / MICROSECONDS


def _known(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


def total(counts: Iterable[GroupCounts]) -> GroupCounts:
    """Return the sum of all counts."""
    everything = GroupCounts()
    for count in counts:
        everything.add(count)
    return everything


@final
class SideAccount:
    """Counts the decisions of one side.

    The decisions say what happens. Resources and times of asks come from the scheduler that
    made the decisions, if there is one. Only existing asks and applications are kept, and one
    number for each ask that was bound.

    Args:
        machine: The machine of that scheduler, or None if there are only decisions.
        closed: Called with each application once it can no longer change.
        costs: The costs of evictions on that side, or None if they are not known.
    """

    def __init__(
        self,
        machine: CoordinatorMachine | None,
        closed: Callable[[ComparedJob], None],
        costs: Costs | None = None,
    ) -> None:
        self._machine = machine
        self._costs = costs
        self._jobs = JobHistory(closed)
        self._reserved = ReservedTally()
        self._queues: dict[str, GroupCounts] = defaultdict(GroupCounts)
        self._priorities: dict[int, GroupCounts] = defaultdict(GroupCounts)
        #: The asks that hold a node; None if it is not known more of them.
        self._held: dict[_Key, Ask | None] = {}
        #: The asks that have been bound, pending again or not.
        self._bound_before: set[_Key] = set()
        #: The applications that lost an ask in this batch: they may be removed as well.
        self._emptied: set[str] = set()
        self._now_us = 0

    # Input

    def begin(self, beginning: Beginning) -> None:
        """Begin with a state instead of with nothing; before anything else.

        Its applications count as submitted then, unless an ask of theirs came earlier. What was
        bound before does not count as bound, and did not wait.
        """
        now_us = self._now_us = beginning.at_us
        came_us: dict[str, int] = {}
        for old in beginning.asks:
            came_us[old.app] = min(came_us.get(old.app, now_us), old.ask.came_us)
        for app, queue in beginning.apps.items():
            self._submit(app, queue, came_us.get(app, now_us))
        for old in beginning.asks:
            key = (old.app, old.ask.name)
            if old.node is not None:
                self._hold(key, old.ask)
            if old.was_bound:
                self._bound_before.add(key)
                job = self._jobs.find(old.app)
                if job is not None:
                    job.bound_us = job.came_us
                    self._join(job, old.ask)

    def note(self, now_us: int, decisions: Sequence[Announced]) -> None:
        """Count the decisions of the batch that has just ended."""
        self._now_us = now_us
        for announced in decisions:
            self._count(announced.decision)
            self._reserved.observe(announced.decision, now_us)
        for app in self._emptied:
            if self._machine is not None and self._machine.app(app) is None:
                self._jobs.gone(app)
        self._emptied.clear()

    def _count(self, decision: Decision) -> None:
        kind, app, name, queue = decision.kind, decision.app, decision.ask, decision.queue
        if app is None or queue is None:
            return
        if kind is Kind.APP_STATE:
            if decision.state is not None:
                self._enter(app, queue, decision.state)
        elif name is None:
            return
        elif kind is Kind.BOUND:
            self._bind((app, name), queue)
        elif kind is Kind.WAITING:
            self._hold((app, name), self._find(app, name))
        elif kind is Kind.RELEASED:
            self._release((app, name), queue, decision.reason)

    def _find(self, app: str, name: str) -> Ask | None:
        """Return an ask; None if it was added bound and removed before the batch ended."""
        return None if self._machine is None else find_ask(self._machine, app, name)

    def _enter(self, app: str, queue: str, state: str) -> None:
        if state != AppState.NEW:
            self._jobs.entered(app, state, self._now_us)
            return
        self._submit(app, queue, self._now_us)

    def _submit(self, app: str, queue: str, came_us: int) -> None:
        self._jobs.submitted(app, queue, came_us)
        count = self._queues[queue]
        count.jobs += 1
        if count.first_us is None:
            count.first_us = self._now_us

    def _hold(self, key: _Key, ask: Ask | None) -> None:
        self._held[key] = ask
        job = self._jobs.find(key[0])
        if job is not None:
            job.holding += 1

    def _bind(self, key: _Key, queue: str) -> None:
        ask = self._find(*key)
        if key not in self._held:
            self._hold(key, ask)
        count = self._queues[queue]
        count.last_us = self._now_us
        job = self._jobs.find(key[0])
        if job is not None:
            self._bind_of(job, count, ask)
        if key in self._bound_before:
            return
        self._bound_before.add(key)
        wait_us = 0 if ask is None else self._now_us - ask.came_us
        for counted in (count, *self._of_priority(ask)):
            counted.bound += 1
            counted.waits.add(wait_us)

    def _bind_of(self, job: ComparedJob, count: GroupCounts, ask: Ask | None) -> None:
        job.removed_us = None
        if job.bound_us is None:
            job.bound_us = self._now_us
            count.job_waits.add(self._now_us - job.came_us)
        if ask is not None:
            self._join(job, ask)

    def _join(self, job: ComparedJob, ask: Ask) -> None:
        if ask.priority not in job.priorities:
            job.priorities.add(ask.priority)
            self._priorities[ask.priority].jobs += 1

    def _of_priority(self, ask: Ask | None) -> list[GroupCounts]:
        return [] if ask is None else [self._priorities[ask.priority]]

    def _release(self, key: _Key, queue: str, reason: Reason | None) -> None:
        assert reason is not None, "an ask was released for no reason"
        is_held, ask = key in self._held, self._held.pop(key, None)
        job = self._jobs.find(key[0])
        count = self._queues[queue]
        if is_held and key in self._bound_before:
            count.last_us = self._now_us
        if is_held and job is not None:
            job.holding -= 1
        for counted in (count, *self._of_priority(ask)):
            counted.releases[reason] += 1
        once = ask is not None and ask.once and key in self._bound_before
        if ends_ask(reason, 0 if ask is None else ask.retries, once=once):
            self._bound_before.discard(key)
            if reason is Reason.REMOVED and job is not None:
                job.removed_us = self._now_us
                self._emptied.add(job.app)

    def end(self) -> None:
        """Record that the side has ended."""
        alive: set[str] = set()
        for app, name in () if self._machine is None else self._machine.pending():
            ask, job = self._find(app, name), self._jobs.find(app)
            assert ask is not None, "what is pending is not there"
            assert job is not None, "an application was never submitted"
            alive.add(app)
            self._join(job, ask)
            for counted in (self._queues[job.queue], self._priorities[ask.priority]):
                counted.pending += 1
        self._jobs.end(alive)

    # Results

    def all(self, size_resource: str | None = None) -> Figures:
        """Return the figures of all asks and applications.

        Args:
            size_resource: The type whose amount is the size of a job; None for the one that suits.
        """
        figures = self._figures_of(total(self._queues.values()), self._queues)
        figures = attrs.evolve(figures, reserved=self._reserved.figures())
        costs = self._costs
        if costs is None:
            return figures
        return attrs.evolve(
            figures,
            fairness=costs.fairness(),
            parts={part.queue: part for part in costs.parts()},
            utilisation_to_last_arrival=costs.shares_until_arrival(),
            measures=costs.measures(size_resource),
        )

    def queues(self) -> set[str]:
        """Return the paths of the leaves that were used."""
        return set(self._queues)

    def queue(self, queue: str) -> Figures:
        """Return the figures of a leaf, even of one that was not used."""
        return self._figures_of(self._queues.get(queue, GroupCounts()), (queue,))

    def asks_by_priority(self) -> dict[int, int]:
        """Return how many asks of each priority were bound, or are not bound at the end."""
        return {
            priority: count.bound + count.pending for priority, count in self._priorities.items()
        }

    def priorities(self, lowest: int, highest: int) -> Figures:
        """Return the figures of the asks in a range of priorities, both ends included."""
        counts = [
            count for priority, count in self._priorities.items() if lowest <= priority <= highest
        ]
        return attrs.evolve(
            self._figures_of(total(counts), ()),
            asks_unbound=None,
            job_wait=None,
            utilisation={},
            makespan_s=None,
            lost=None,
        )

    def _figures_of(self, count: GroupCounts, queues: Iterable[str]) -> Figures:
        knows_asks = self._machine is not None
        queues = tuple(queues)
        waits = Waits() if self._costs is None else self._costs.waits(queues)
        unbound = len(waits)
        waits.extend(count.waits)
        return Figures(
            jobs=count.jobs,
            asks_bound=count.bound,
            asks_unbound=None if self._costs is None else unbound,
            asks_pending=count.pending if knows_asks else None,
            asks_preempted=count.releases[Reason.PREEMPTED],
            asks_reclaimed=count.releases[Reason.RECLAIMED],
            asks_run_limit=count.releases[Reason.RUN_LIMIT],
            wait=waits.summary() if knows_asks else None,
            job_wait=count.job_waits.summary(),
            utilisation={} if self._costs is None else self._costs.shares(queues),
            makespan_s=count.makespan_s,
            lost=None if self._costs is None else self._costs.lost(queues),
        )
