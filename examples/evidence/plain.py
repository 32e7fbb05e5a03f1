#!/usr/bin/env python3
"""A plain simulator of FCFS and of EASY backfill, for logs in the Standard Workload Format.

It knows nothing of Muster and imports nothing of it, so that one can check the other. The machine
is one pool of processors, and a job takes any of them.

FCFS
    Jobs start in the order in which they came. One that does not fit keeps back all behind it.

EASY
    So do they, but for the first job that does not fit the *shadow time* is computed: the first
    instant at which enough processors are expected to be free. A later job, in order, starts
    before it if it fits now and either is expected to end by the shadow time, or needs no more
    than the processors that the first job leaves over at the shadow time (Lifka 1995; Mu'alem and
    Feitelson 2001).

What the papers leave open is decided like this:

- A job is expected to run for the time that it requested. One that goes on for longer is expected
  to take twice that, then four times, and so on.
- At an instant all jobs that end leave first, then come those that are submitted, in the order of
  the log, and then jobs start.
- A job that is expected to end just at the shadow time ends by it.
- Whenever a job came or ended, everything is computed anew.
"""

from __future__ import annotations

import heapq
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Policy: TypeAlias = Literal["fcfs", "easy"]

_ENDS, _COMES, _AGAIN = range(3)

_PARTS = (2, 3, 4)
"""The states of lines that are parts of a job that has a line of its own."""


@dataclass(frozen=True)
class Job:
    """A job of a log; times are in seconds.

    Attributes:
        number: Its number in the log.
        submit: When it came.
        size: How many processors it needs.
        run: How long it runs.
        requested: How long it is expected to run.
    """

    number: int
    submit: int
    size: int
    run: int
    requested: int


@dataclass
class Running:
    """A job that runs.

    Attributes:
        job: Which one.
        start: When it began.
    """

    job: Job
    start: int

    def expected_end(self, now: int) -> int:
        """Return when it is expected to end: after now, however long it runs already."""
        lasts = self.job.requested
        while self.start + lasts <= now:
            lasts *= 2
        return self.start + lasts


@dataclass
class Machine:
    """The processors, and the jobs that run and wait.

    Attributes:
        policy: By which rule jobs start.
        free: How many processors are free.
        running: The jobs that run.
        waiting: The jobs that wait, in the order in which they came.
    """

    policy: Policy
    free: int
    running: dict[int, Running] = field(default_factory=dict[int, Running])
    waiting: deque[Job] = field(default_factory=deque[Job])

    def end(self, number: int) -> None:
        """End a job."""
        self.free += self.running.pop(number).job.size

    def start_jobs(self, now: int) -> list[Job]:
        """Start the jobs that may start now, and return them in that order."""
        started = list[Job]()
        while self.waiting and self.waiting[0].size <= self.free:
            started.append(self.start(self.waiting.popleft(), now))
        if self.policy == "easy" and self.waiting:
            started += self.backfill(now)
        return started

    def start(self, job: Job, now: int) -> Job:
        """Start a job that fits, and return it."""
        self.free -= job.size
        self.running[job.number] = Running(job, now)
        return job

    def backfill(self, now: int) -> Iterator[Job]:
        """Start and yield the jobs that do not delay the first waiting one."""
        shadow, extra = self._shadow(self.waiting[0], now)
        for job in list(self.waiting)[1:]:
            if job.size > self.free:
                continue
            ends_by_then = now + job.requested <= shadow
            if not ends_by_then and job.size > extra:
                continue
            if not ends_by_then:
                extra -= job.size
            self.waiting.remove(job)
            yield self.start(job, now)

    def _shadow(self, first: Job, now: int) -> tuple[int, int]:
        """Return when the first job can start, and how many processors it leaves over then."""
        free = self.free
        ends = sorted((one.expected_end(now), one.job.size) for one in self.running.values())
        for index, (at, size) in enumerate(ends):
            free += size
            is_last_of_instant = index + 1 == len(ends) or ends[index + 1][0] > at
            if free >= first.size and is_last_of_instant:
                return at, free - first.size
        msg = f"job {first.number} needs more processors than there are"
        raise ValueError(msg)


def simulate(
    jobs: Iterable[Job],
    machine: Machine,
    again: Callable[[Job], Iterable[int]] = lambda _: (),
) -> dict[int, int]:
    """Run a log.

    Args:
        jobs: The jobs, in the order of the log.
        machine: An empty machine.
        again: So many seconds after the start of a job everything is computed anew as well.

    Returns:
        When each job started, in seconds, by its number.

    Raises:
        ValueError: A job needs more processors than there are.
    """
    # At an instant, first jobs end, then jobs come, and then a round starts what it can.
    events = [(job.submit, _COMES, place, job) for place, job in enumerate(jobs)]
    heapq.heapify(events)
    starts, place = dict[int, int](), len(events)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, kind, _, job = heapq.heappop(events)
            if kind == _ENDS:
                machine.end(job.number)
            elif kind == _COMES:
                machine.waiting.append(job)
        for job in machine.start_jobs(now):
            starts[job.number] = now
            for at, kind in ((now + job.run, _ENDS), *((now + at, _AGAIN) for at in again(job))):
                heapq.heappush(events, (at, kind, place, job))
                place += 1
    if machine.waiting:
        msg = f"job {machine.waiting[0].number} needs more processors than there are"
        raise ValueError(msg)
    return starts


def read(text: str) -> tuple[list[Job], Mapping[str, int]]:
    """Read a log in the Standard Workload Format.

    Args:
        text: The log.

    Returns:
        The jobs that ran, and those lines of the header that are a number.
    """
    jobs, header = list[Job](), dict[str, int]()
    for line in text.splitlines():
        if line.startswith(";"):
            label, _, value = line[1:].partition(":")
            if value.strip().isdigit():
                header[label.strip()] = int(value)
            continue
        values = [int(float(one)) for one in line.split()]
        if not values or values[10] in _PARTS or values[3] <= 0:
            continue
        size = values[7] if values[7] > 0 else values[4]
        requested = values[8] if values[8] > 0 else values[3]
        jobs.append(Job(values[0], values[1], size, values[3], requested))
    return jobs, header


def write(jobs: Sequence[Job], processors: int, computer: str) -> str:
    """Write a log that `read` reads."""
    lines = ["; Version: 2.2", f"; Computer: {computer}", f"; MaxProcs: {processors}"]
    for job in jobs:
        values = [job.number, job.submit, -1, job.run, job.size, -1, -1, job.size, job.requested]
        lines.append(" ".join(map(str, [*values, -1, 1, *[-1] * 7])))
    return "\n".join(lines) + "\n"


def main(log: str, policy: str) -> None:
    """Print the number and the start of each job, in the order of their starts."""
    jobs, header = read(Path(log).read_text(encoding="utf-8"))
    machine = Machine("easy" if policy == "easy" else "fcfs", header["MaxProcs"])
    starts = simulate(jobs, machine)
    for number, start in sorted(starts.items(), key=lambda item: (item[1], item[0])):
        print(number, start)


if __name__ == "__main__":
    main(*sys.argv[1:])  # plain.py LOG fcfs|easy
