"""The table of jobs of a replay, as CSV or in the Standard Workload Format, for other tools."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Final, final

import attrs

from muster.replay._measures import Job, bounded_slowdown, unit_of
from muster_core.decisions import MICROSECONDS, Reason, seconds
from muster_core.values.resources import MEMORY


@final
@attrs.frozen
class JobTable:
    """All jobs of a replay as a table, for other tools.

    Attributes:
        jobs: The jobs, in the order in which they were submitted.
        workload: The name of the workload.
        size_resource: The resource type that is counted as processors.
        nodes: How many nodes there were.
        most: The highest capacity of all nodes of that type.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
    """

    jobs: Sequence[Job]
    workload: str
    size_resource: str | None
    nodes: int
    most: int
    origin_us: int | None = None

    def size(self, job: Job) -> int | float:
        """Return the size of a job; of one that did not run, what its asks ask for."""
        return self.units((job.wanted if job.start_us is None else job.most).get(self._kind, 0))

    def units(self, amount: int) -> int | float:
        """Return an amount of the type that is counted, in cores, devices, or GiB."""
        whole, rest = divmod(amount, unit_of(self._kind))
        return amount / unit_of(self._kind) if rest else whole

    @property
    def _kind(self) -> str:
        return self.size_resource or ""

    def csv(self) -> str:
        """Return the table as CSV, with the columns of :data:`JOB_COLUMNS`."""
        with StringIO(newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(column.name for column in JOB_COLUMNS)
            writer.writerows([column.of(self, job) for column in JOB_COLUMNS] for job in self.jobs)
            return stream.getvalue()

    # COMMAND-37
    def swf(self) -> str:
        """Return the table in the Standard Workload Format, version 2.2."""
        numbers: Sequence[int] = range(1, len(self.jobs) + 1)
        if all(job.name.isdecimal() for job in self.jobs):
            numbers = [int(job.name) for job in self.jobs]
        queues, users = (
            {name: place for place, name in enumerate(dict.fromkeys(names), 1)}
            for names in ([job.queue for job in self.jobs], [job.user for job in self.jobs])
        )
        start = [] if self.origin_us is None else [f"UnixStartTime: {_whole(self.origin_us)}"]
        head = [
            "Version: 2.2",
            *start,
            f"MaxJobs: {len(self.jobs)}",
            f"MaxRecords: {len(self.jobs)}",
            f"MaxNodes: {self.nodes}",
            f"MaxProcs: {round(self.units(self.most))}",
            *(f"Queue: {place} {name.removeprefix('root.')}" for name, place in queues.items()),
            *(f"Note: user {place} is {name}" for name, place in users.items() if name),
        ]
        rows = (
            self._swf(job, number, users[job.user] if job.user else -1, queues[job.queue])
            for number, job in zip(numbers, self.jobs, strict=True)
        )
        return "".join(f"{line}\n" for line in (*(f"; {line}" for line in head), *rows))

    def _swf(self, job: Job, number: int, user: int, queue: int) -> str:
        size = -(-self.size(job) // 1)
        memory = job.most.get(MEMORY, 0) // 1024 // size if size else 0
        times = (_whole(job.came_us), _whole(job.wait_us), _whole(job.run_us))
        of_memory, status = memory or -1, _swf_status(job)
        fields = (
            *(number, *times, size, -1, of_memory, size, _whole(job.requested_us), of_memory),
            *(status, user, -1, -1, queue, -1, -1, -1),
        )
        return " ".join(f"{field:.0f}" for field in fields)


def _whole(time_us: int | None) -> int:
    return -1 if time_us is None else round(time_us / MICROSECONDS)


def _swf_status(job: Job) -> int:
    if not job.is_over:
        return -1
    if job.start_us is None or job.reason in {Reason.CANCELLED, Reason.REMOVED}:
        return 5
    return int(job.final_state == "COMPLETED_SUCCESSFULLY")


@final
@attrs.frozen
class JobColumn:
    """A column of the table of jobs.

    Attributes:
        name: Its name, which is that of Batsim and evalys where they have it.
        text: Its meaning.
        of: Returns its value for a job.
    """

    name: str
    text: str
    of: Callable[[JobTable, Job], object]


def _seconds(time_us: int | None) -> int | float | None:
    return None if time_us is None else seconds(time_us)


def _of_run(value: Callable[[int, int], float | None]) -> Callable[[JobTable, Job], object]:
    """Return a figure of the wait and the run of a job that ran and is over."""

    def of(_: JobTable, job: Job) -> float | None:
        wait_us, run_us = job.wait_us, job.run_us
        return None if wait_us is None or run_us is None else value(wait_us, run_us)

    return of


def _ranges(nodes: int) -> str:
    """Return the numbers of bits as Batsim writes them: ``0-3 7``."""
    runs = re.finditer("1+", f"{nodes:b}"[::-1])
    ends = ((found.start(), found.end() - 1) for found in runs)
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in ends)


# COMMAND-37
JOB_COLUMNS: Final[Sequence[JobColumn]] = (
    JobColumn("job_id", "the name of the application", lambda _, job: job.name),
    JobColumn("workload_name", "the name of the feed", lambda table, _: table.workload),
    JobColumn(
        "submission_time",
        "when it was submitted, as all times in seconds since the start of the feed",
        lambda _, job: _seconds(job.came_us),
    ),
    JobColumn(
        "requested_number_of_resources",
        "its size; of a job that did not run, what its asks ask for",
        lambda table, job: table.size(job),
    ),
    JobColumn(
        "requested_time",
        "the longest `estimate`, or else `run_limit`, of an ask of it that ran; -1 if none has one",
        lambda _, job: -1 if job.requested_us is None else _seconds(job.requested_us),
    ),
    JobColumn(
        "success",
        "1 if all of it completed, 0 if not",
        lambda _, job: int(job.final_state == "COMPLETED_SUCCESSFULLY"),
    ),
    JobColumn(
        "final_state",
        "`COMPLETED_SUCCESSFULLY`; `COMPLETED_FAILED`, `COMPLETED_WALLTIME_REACHED` or "
        "`COMPLETED_KILLED` after the first ask of it that ran and did not complete; `REJECTED` if it "
        "is over and never ran; `RUNNING` or `SUBMITTED` at the end",
        lambda _, job: job.final_state,
    ),
    JobColumn("starting_time", "its start", lambda _, job: _seconds(job.start_us)),
    JobColumn("execution_time", "its run", lambda _, job: _seconds(job.run_us)),
    JobColumn(
        "finish_time",
        "its end",
        lambda _, job: None if job.run_us is None else _seconds(job.end_us),
    ),
    JobColumn(
        "waiting_time",
        "its wait; of a job that never ran, until it was gone",
        lambda _, job: _seconds(job.wait_us),
    ),
    JobColumn(
        "turnaround_time", "its wait and its run", _of_run(lambda wait, run: seconds(wait + run))
    ),
    JobColumn(
        "stretch",
        "its turnaround divided by its run",
        _of_run(lambda wait, run: (wait + run) / run if run else None),
    ),
    JobColumn(
        "allocated_resources",
        "the numbers of the nodes on which it ran, from 0 in the order in which they came: `0-3 7`",
        lambda _, job: _ranges(job.nodes),
    ),
    JobColumn("bounded_slowdown", "its bounded slowdown", _of_run(bounded_slowdown)),
    JobColumn("queue", "the path of its queue", lambda _, job: job.queue),
    JobColumn("user", "its user", lambda _, job: job.user),
)
"""The columns of the table of jobs. What is not known, or not there, is an empty cell."""
