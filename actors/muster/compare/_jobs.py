"""The waits and ends of applications on one side, and their comparison between two sides."""

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
