"""Records of ``sacct --parsable2``: a line each, under a line that names the columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from muster.feeds import FeedError
from muster.feeds._encodings.source import Input
from muster.importing.slurm.columns import RIGHT, Columns, columns_of
from muster.importing.slurm.records import RUNNING, Record, Wants
from muster.importing.slurm.values import Times, duration_s, is_unlimited, limit_s
from muster.importing.workload.account import Account
from muster.importing.workload.reading import lines_of
from muster_core.decisions import MICROSECONDS

JOB: Final = "job"
STEP: Final = "step"
_MOST_KNOWN: Final = 50_000


def read_lines(source: Input, times: Times, account: Account) -> Iterator[tuple[Record, int]]:
    """Yield each job of a dump with its line; steps and broken lines are counted.

    Raises:
        FeedError: If it is no such dump.
    """
    reader = _Lines(source.name, times, account)
    try:
        for number, line in lines_of(source):
            record = reader.record(number, line)
            if record is not None:
                yield record, number
    finally:
        reader.count_steps()
    reader.finish()


@final
class _Lines:
    """Reads the lines of one file."""

    def __init__(self, file: str, times: Times, account: Account) -> None:
        self._file = file
        self._times = times
        self._account = account
        self._columns: Columns | None = None
        self._steps = 0
        self._first_step = 0
        self._wants: dict[tuple[str, ...], Wants] = {}

    def finish(self) -> None:
        """Check what was read.

        Raises:
            FeedError: If there was nothing.
        """
        if self._columns is None:
            raise FeedError(self._file, f"is empty: make it with {RIGHT}")

    def count_steps(self) -> None:
        """Count the steps: they are parts of their jobs."""
        if self._steps:
            self._account.read[STEP] += self._steps
            place = f"{self._file}:{self._first_step}"
            self._account.leave_out(STEP, "part of a job", place, count=self._steps)
            self._steps = 0

    def record(self, number: int, line: str) -> Record | None:
        """Return the job of a line, or None."""
        if self._columns is None:
            if line.strip():
                self._read_header(line, number)
            return None
        values = self._columns.values(line)
        if values is None or not values[0][:1].isdigit():
            if self._columns.is_header(line):
                self._read_header(line, number)
            else:
                self._broken(number, line)
            return None
        if "." in values[0]:
            self._steps += 1
            self._first_step = self._first_step or number
            return None
        self._account.read[JOB] += 1
        return self._record(values)

    def _read_header(self, line: str, number: int) -> None:
        self._columns = columns_of(line, self._file, number)
        for name in self._columns.unknown:
            text = f"no column of sacct that is known here is {name!r}: it is passed over"
            self._account.note("column", text, f"{self._file}:{number}")
        for text in self._columns.missing():
            self._account.note("dump", text, f"{self._file}:{number}")

    def _broken(self, number: int, line: str) -> None:
        if line.strip():
            self._account.read["line"] += 1
            place = f"{self._file}:{number}"
            text = "not the columns that the header names, or no job ID"
            self._account.leave_out("line", text, place, line[:80])

    def _record(self, values: tuple[str, ...]) -> Record:
        (
            job, cluster, state, submit, eligible, start, end, elapsed_raw, elapsed, suspended,
            req_tres, alloc_tres, memory, req_cpus, alloc_cpus, nodes, partition, constraints,
            user, group, account, qos, name, reservation, wckey, priority,
            minutes, limit,
        ) = values  # fmt: skip
        word = state.partition(" ")[0].rstrip("+").upper()
        time = self._times.of
        submit_us = time(submit)
        eligible_us = submit_us if eligible == submit else time(eligible)
        start_us = time(start)
        end_us = time(end)
        run_s = duration_s(elapsed_raw or elapsed)
        if run_s is None and start_us is not None and end_us is not None and end_us >= start_us:
            run_s = (end_us - start_us) // MICROSECONDS
        key = (req_tres, alloc_tres, memory, req_cpus or alloc_cpus, nodes, partition, constraints)
        wants = self._wants.get(key)
        if wants is None:
            if len(self._wants) > _MOST_KNOWN:
                self._wants.clear()
            wants = self._wants[key] = Wants(*key)
        return Record(
            job, cluster, word, submit_us, eligible_us, start_us,
            word not in RUNNING,
            run_s, duration_s(suspended) or 0 if suspended else 0,
            wants, user, group, account, qos, name, reservation, wckey, priority, submit,
            limit_s(minutes, limit), is_unlimited(minutes or limit),
        )  # fmt: skip
