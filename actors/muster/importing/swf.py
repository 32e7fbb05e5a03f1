"""The Standard Workload Format, version 2.2, of the Parallel Workloads Archive: 18 numbers a line.

The archive describes the format. -1 means unknown. The header has comments of the
form ``; Label: value``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, final

from muster.feeds import FeedError
from muster.importing.dumps import Opener, lines_of, open_dump
from muster.importing.nodes import NodeFields
from muster.importing.queues import Queues
from muster.importing.workload import AskGroup, Job, Workload, divide_evenly
from muster_core.decisions import MICROSECONDS
from muster_core.values.resources import parse_quantity

__all__ = ["FIELDS", "QUEUES", "read_swf"]


_LABEL: Final = re.compile(r";\s*([A-Za-z]+)\s*:\s*(.*)")
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]+")
_DIGITS: Final = 15
"""The most digits that count: more millicores or bytes than these are no amount."""
_NAMED: Final = re.compile(r"(-?[0-9]+)[\s:=,]+(\S+)")


@final
class SwfHeader:
    """The values of the header that a feed needs.

    Attributes:
        start_s: When the log starts, in seconds since 1970 in UTC, or None.
        nodes: How many nodes there are, or None.
        processors: How many processors they have together, or None.
        memory_kib: How much memory a node has, in KiB, or None.
        queues: The names of the queues by number.
        partitions: The names of the partitions by number.
    """

    def __init__(self) -> None:
        self.start_s: int | None = None
        self.nodes: int | None = None
        self.processors: int | None = None
        self.memory_kib: int | None = None
        self.queues: dict[int, str] = {}
        self.partitions: dict[int, str] = {}

    def read(self, line: str) -> None:
        """Read a line that starts with ``;``; an unknown one is a comment."""
        match = _LABEL.match(line)
        if match is None:
            return
        label, value = match[1].lower(), match[2].strip()
        number = _WHOLE_NUMBER.match(value)
        first = int(number[0]) if number is not None and len(number[0]) <= _DIGITS else -1
        known = first if first > 0 else None
        match label:
            case "unixstarttime":
                self.start_s = first if first >= 0 else None
            case "maxnodes":
                self.nodes = known
            case "maxprocs":
                self.processors = known
            case "maxmemory":
                self.memory_kib = known
            case "queue":
                _name(self.queues, value)
            case "partition":
                _name(self.partitions, value)
            case _:
                pass


def _name(names: dict[int, str], value: str) -> None:
    match = _NAMED.match(value)
    if match is not None and len(match[1]) < 19:
        names[int(match[1])] = match[2].strip("\"'.,;:()")


FIELDS: Final = ("user", "group", "queue_name", "queue_number", "partition", "executable")
"""The fields that a mapping file can look at."""

QUEUES: Final = ("root.{queue_name}",)
"""The queues of jobs where there is no mapping file."""

_COLUMNS: Final = 18
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]*)?", re.ASCII)
_PARTS: Final = frozenset({2, 3, 4})
"""The states of lines that are parts of a job that was checkpointed or swapped out."""

_CANCELLED: Final = 5
_KIB: Final = 1024
_JOB: Final = "job"
_RESERVED: Final = 1000
"""Millicores of a core."""


# IMPORT-8
def read_swf(
    files: Sequence[str], workload: Workload, queues: Queues, *, opener: Opener = str
) -> None:
    """Put the jobs of files into a workload.

    A job of n processors becomes members of a gang that each fit the smallest node; one that
    fits one node becomes one ask. The header gives the nodes unless the workload has some.

    Args:
        files: The names of the files.
        workload: Where the jobs go.
        queues: Chooses the queues.
        opener: Opens a file.

    Raises:
        FeedError: If a file cannot be read or is no such file; if it is unknown how large the nodes
            are; or if only some of several files say when they start.
    """
    dated: bool | None = None
    for file in files:
        reader = _Reader(file, workload, queues)
        with open_dump(file, opener) as source:
            for number, line in lines_of(source):
                reader.read(number, line)
        reader.finish()
        if dated is not None and dated is not reader.is_dated:
            msg = "has UnixStartTime in its header or not, unlike the file before it"
            raise FeedError(file, msg)
        dated = workload.is_dated = reader.is_dated


@final
class _Reader:
    """Reads one file."""

    def __init__(self, file: str, workload: Workload, queues: Queues) -> None:
        self._file = file
        self._workload = workload
        self._account = workload.account
        self._queues = queues
        self._header = SwfHeader()
        self._has_jobs = False
        self._last_job = -1
        self._lines = 0
        #: Of the smallest node: its millicores, and whether all nodes have memory.
        self._cores_m = 0
        self._has_memory = False

    @property
    def is_dated(self) -> bool:
        """Whether the header has the start of the log."""
        return self._header.start_s is not None

    def finish(self) -> None:
        """Check the log at its end.

        Raises:
            FeedError: If it was no such file.
        """
        if not self._lines:
            raise FeedError(self._file, "is empty: it has neither a header nor a job")

    def read(self, number: int, line: str) -> None:
        """Read a line."""
        text = line.strip()
        if not text:
            return
        if text.startswith(";"):
            self._lines += 1
            self._header.read(text)
            return
        values = text.split()
        is_job = len(values) == _COLUMNS and all(map(_NUMBER.fullmatch, values))
        if not is_job and not self._lines:
            msg = (
                f"is no Standard Workload Format: {_COLUMNS} numbers or a comment should stand here"
            )
            raise FeedError(self._file, msg, number)
        self._lines += 1
        self._account.read[_JOB] += 1
        place = f"{self._file}:{number}"
        if not is_job:
            self._account.leave_out(_JOB, f"not {_COLUMNS} numbers", place, text[:80])
            return
        if not self._has_jobs:
            self._has_jobs = True
            self._look_at_nodes()
        self._job([int(float(value)) for value in values], place)

    def _look_at_nodes(self) -> None:
        if not self._workload.nodes:
            self._workload.nodes = _nodes_of(self._header, self._file)
        cores = [
            parse_quantity("vcore", node.capacity.get("vcore", 0)) for node in self._workload.nodes
        ]
        self._cores_m = min(cores)
        if self._cores_m < _RESERVED:
            msg = "each node needs at least one vcore, as jobs ask for processors: see --nodes"
            raise FeedError(self._file, msg)
        self._has_memory = all("memory" in node.capacity for node in self._workload.nodes)

    def _job(self, values: list[int], place: str) -> None:
        cause = self._why_not(values)
        if cause is not None:
            self._account.leave_out(_JOB, cause[0], place, cause[1])
            return
        at_us = ((self._header.start_s or 0) + values[1]) * MICROSECONDS
        if not self._workload.is_wanted(at_us):
            self._account.leave_out(_JOB, "outside --since and --until", place)
            return
        fields = self._fields(values)
        queue = self._queues.of(fields)
        if queue is None:
            values_text = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
            self._account.leave_out(_JOB, "no queue for it: see --mapping", place, values_text)
            return
        self._account.taken[_JOB] += 1
        if values[16] > 0:
            self._account.note(_JOB, "came after another job, which a replay does not know", place)
        self._workload.submit(
            Job(
                at_us=at_us,
                app=self._name(values[0], place),
                queue=queue,
                parts=self._parts(values),
                user=fields["user"],
                groups=(fields["group"],) if fields["group"] else (),
                is_gang=self._members(values) > 1,
                is_alone=True,
            )
        )

    def _why_not(self, values: list[int]) -> tuple[str, str] | None:
        """Return why a job cannot be taken, with the value, or None."""
        status, run = values[10], values[3]
        if status in _PARTS:
            return "part of a job that has a line of its own", f"status {status}"
        if values[1] < 0:
            return "it is not known when it was submitted", f"submit time {values[1]}"
        if status == _CANCELLED and run <= 0:
            return "cancelled before it started", f"run time {run}"
        if run < 0:
            return "it is not known how long it ran", f"run time {run}"
        if _processors(values) < 1:
            return "it is not known how many processors it used", f"processors {values[4]}"
        return None

    def _name(self, job: int, place: str) -> str:
        """Return the name of a job; another one for a number that does not go up."""
        if job > self._last_job and job >= 0:
            self._last_job = job
            return str(job)
        self._account.change(
            _JOB, "named after its line, as job numbers do not rise", place, str(job)
        )
        return f"{job}-line-{place.rpartition(':')[2]}"

    def _fields(self, values: list[int]) -> dict[str, str]:
        queue, partition = values[14], values[15]
        number = "" if queue < 0 else str(queue)
        return {
            "user": "" if values[11] < 0 else f"user-{values[11]}",
            "group": "" if values[12] < 0 else f"group-{values[12]}",
            "queue_name": self._header.queues.get(queue, f"queue-{number}" if number else "none"),
            "queue_number": number,
            "partition": self._header.partitions.get(
                partition, "" if partition < 0 else str(partition)
            ),
            "executable": "" if values[13] < 0 else str(values[13]),
        }

    def _members(self, values: list[int]) -> int:
        """Return on how many nodes a job runs."""
        return -(-_processors(values) // (self._cores_m // _RESERVED))

    def _parts(self, values: list[int]) -> list[AskGroup]:
        memory = values[9] * _KIB if self._has_memory and values[9] > 0 else 0
        # Members that are as equal as possible: the larger ones first.
        sizes = divide_evenly({"vcore": _processors(values)}, self._members(values))
        return [
            AskGroup(
                ask=name,
                resources={**size, "memory": memory * size["vcore"]} if memory else size,
                count=count,
                run_us=values[3] * MICROSECONDS,
                estimate_us=values[8] * MICROSECONDS if values[8] > 0 else None,
            )
            for name, (size, count) in zip(("large", "task")[-len(sizes) :], sizes, strict=True)
        ]


def _processors(values: list[int]) -> int:
    """Return how many processors a job asked for, or else got."""
    return values[7] if values[7] > 0 else values[4]


def _nodes_of(header: SwfHeader, file: str) -> list[NodeFields]:
    """Return the nodes of a header.

    Raises:
        FeedError: If it does not say how many they are and how large.
    """
    if header.nodes is None or header.processors is None:
        msg = (
            "its header has no usable MaxNodes and MaxProcs: say with --nodes which nodes there are"
        )
        raise FeedError(file, msg)
    count = min(header.nodes, header.processors)
    least, more = divmod(header.processors, count)
    memory = {} if header.memory_kib is None else {"memory": header.memory_kib * _KIB}
    digits = max(len(str(count - 1)), 2)
    return [
        NodeFields(f"node-{number:0{digits}}", {"vcore": least + (number < more)} | memory)
        for number in range(count)
    ]
