"""Reads dumps of ``sacct`` into a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Final

from muster.feeds import FeedError
from muster.importing.slurm.documents import is_document, read_documents
from muster.importing.slurm.jobs import Jobs, Priority
from muster.importing.slurm.lines import read_lines
from muster.importing.slurm.records import Record
from muster.importing.slurm.shapes import Shapes
from muster.importing.slurm.values import Times
from muster.importing.workload.queues import Queues
from muster.importing.workload.reading import Opener, opened
from muster.importing.workload.workload import Workload

_LARGEST: Final = 2**31 - 1
_NO_PATHS: Final[Mapping[str, str]] = {}


def no_priority(record: Record) -> int:
    """Return 0: the priorities of Slurm change all the time."""
    del record
    return 0


def priority_of_job(record: Record) -> int:
    """Return the priority that a job had when it started, or at last."""
    text = record.priority
    is_number = text.isdecimal() and text.isascii() and len(text) < 20
    return min(int(text), _LARGEST) if is_number else 0


def priority_of_qos(priorities: Mapping[str, int]) -> Priority:
    """Return what gives jobs the priority of their quality of service."""
    return lambda record: priorities.get(record.qos, 0)


def read_sacct(
    files: Sequence[str],
    workload: Workload,
    queues: Queues,
    *,
    opener: Opener = str,
    zone: tzinfo = UTC,
    priority: Priority = no_priority,
    paths: Mapping[str, str] = _NO_PATHS,
) -> None:
    """Put the jobs of dumps of sacct into a workload: lines or JSON.

    Args:
        files: The names of the dumps.
        workload: Where the jobs go; it has its nodes.
        queues: Chooses their queues.
        opener: Opens a dump.
        zone: The time zone of times without an offset.
        priority: Gives their priorities.
        paths: Of each account with others above it: the names of all of them, as a path.

    Raises:
        FeedError: If a dump cannot be read or is none, or there are no nodes with vcores.
    """
    shapes = Shapes(workload.nodes)
    if not shapes.cores:
        msg = "sacct does not say which nodes there are: give --nodes, such as what "
        msg += "`scontrol show node` prints, a slurm.conf, or '32x vcore=64,memory=256Gi'"
        raise FeedError(files[0], msg)
    jobs = Jobs(workload, queues, shapes, priority, paths)
    times = Times(zone)
    for file in files:
        with opened(file, opener) as source:
            records = (
                read_documents(source, workload.account)
                if is_document(source)
                else read_lines(source, times, workload.account)
            )
            for record, line in records:
                jobs.take(record, f"{file}:{line}")
    jobs.finish()
