"""Applications from when they are submitted to when they end, and how they fare on two sides."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from math import inf
from typing import Final, TypeAlias, final

import attrs

from muster.compare._result import MOST_JOBS, JobChange, JobChanges, JobTimes, Movement
from muster_core.decisions import MICROSECONDS
from muster_core.values.application_states import AppState

_ROOM: Final = 10 * MOST_JOBS
"""How many candidates are kept before all but the best are dropped."""


@final
@attrs.define
class Job:
    """An application on one side.

    Attributes:
        app: Its name.
        queue: The path of its queue.
        came_us: When it was submitted, in microseconds.
        bound_us: When an ask of it was first bound, or None.
        end_us: When it had no ask left, or None.
        removed_us: When an ask of it was last removed, if nothing was bound since, or None.
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
        """How long it waited, in microseconds; without end if no ask of it was bound."""
        return inf if self.bound_us is None else self.bound_us - self.came_us

    def times(self) -> JobTimes:
        """Say how it fared."""
        return JobTimes(self.queue, _seconds(self.wait_us), _seconds(_end_us(self)))


def _seconds(us: float) -> float | None:
    return None if us == inf else us / MICROSECONDS


def _end_us(job: Job) -> float:
    return inf if job.end_us is None else job.end_us


@final
class JobHistory:
    """The applications of one side.

    Args:
        closed: Is told of each of which nothing more can come.
    """

    def __init__(self, closed: Callable[[Job], None]) -> None:
        self._closed = closed
        self._open: dict[str, Job] = {}

    def find(self, app: str) -> Job | None:
        """Give an application that has not completed."""
        return self._open.get(app)

    def submitted(self, app: str, queue: str, now_us: int) -> None:
        """Take note of a new application; one of that name that was removed is over."""
        before = self._open.pop(app, None)
        if before is not None:
            self._close(before, is_over=True)
        self._open[app] = Job(app, queue, now_us)

    def entered(self, app: str, state: str, now_us: int) -> None:
        """Take note that an application is in another state."""
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
        """Take note that an application was removed."""
        self._close(self._open.pop(app), is_over=True)

    def end(self, alive: AbstractSet[str]) -> None:
        """Take note that nothing more comes.

        Args:
            alive: The applications that have asks that are not bound.
        """
        for job in self._open.values():
            self._close(job, is_over=not job.holding and job.app not in alive)
        self._open.clear()

    def _close(self, job: Job, *, is_over: bool) -> None:
        # An application that is removed enters no other state.
        if is_over and job.end_us is None:
            job.end_us = job.removed_us
        self._closed(job)


_Entry: TypeAlias = tuple[float, int, str, int, Job, Job]
"""A change, negated if it is a gain; then what decides between equal ones; then both sides."""


@final
class _Ranking:
    """The jobs that gained most and those that lost most in one respect."""

    def __init__(self) -> None:
        self._gained: list[_Entry] = []
        self._lost: list[_Entry] = []
        self.gains = 0
        self.losses = 0

    def add(self, number: int, a: Job, b: Job, before: float, after: float) -> None:
        """Compare two sides of a job.

        Args:
            number: Tells it from all others.
            a: One side.
            b: The other side.
            before: What is less the better on one side; it may be infinite.
            after: The same on the other side.
        """
        if after < before:
            self.gains += 1
            _keep(self._gained, (after - before, a.came_us, a.app, number, a, b))
        elif after > before:
            self.losses += 1
            _keep(self._lost, (before - after, a.came_us, a.app, number, a, b))

    def movement(self) -> Movement:
        """Say who gained and who lost."""
        return Movement(
            gained=self.gains,
            lost=self.losses,
            most_gained=tuple(_changes(self._gained)),
            most_lost=tuple(_changes(self._lost)),
        )


def _keep(entries: list[_Entry], entry: _Entry) -> None:
    entries.append(entry)
    if len(entries) > _ROOM:
        entries.sort()  # Never as far as the jobs, as no two numbers are equal.
        del entries[MOST_JOBS:]


def _changes(entries: list[_Entry]) -> Iterator[JobChange]:
    for *_, a, b in sorted(entries)[:MOST_JOBS]:
        yield JobChange(a.app, a.times(), b.times())


@final
class Matches:
    """The applications of both sides, each compared as soon as it is over on both.

    Only those are kept of which the other side has not heard the end.
    """

    def __init__(self) -> None:
        self._alone: tuple[dict[str, deque[Job]], dict[str, deque[Job]]] = ({}, {})
        #: How often each side has refused an application of a name.
        self._refused: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._compared = 0
        self._wait = _Ranking()
        self._end = _Ranking()

    def refused(self, side: int, app: str) -> None:
        """Take note that side 0 or 1 has refused to take an application."""
        self._refused[side][app] += 1

    def closed(self, side: int, job: Job) -> None:
        """Take note that an application is over on side 0 or 1."""
        others = self._alone[1 - side]
        waiting = others.get(job.app)
        if waiting is None:
            self._alone[side].setdefault(job.app, deque()).append(job)
            return
        other = waiting.popleft()
        if not waiting:
            del others[job.app]
        self._compare(*((other, job) if side else (job, other)))

    def _compare(self, a: Job, b: Job) -> None:
        self._compared += 1
        self._wait.add(self._compared, a, b, a.wait_us, b.wait_us)
        self._end.add(self._compared, a, b, _end_us(a), _end_us(b))

    def changes(self) -> JobChanges:
        """Say who fares better or worse."""
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

    def _refused_by(self, side: int, alone: Mapping[str, deque[Job]]) -> int:
        """Count those on the other side alone that one side has refused."""
        return sum(min(len(jobs), self._refused[side][app]) for app, jobs in alone.items())
