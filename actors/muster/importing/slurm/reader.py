"""Reads dumps of ``sacct`` into a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.importing.slurm.cluster.accounts import read_accounts
from muster.importing.slurm.cluster.qos import read_qos
from muster.importing.slurm.cluster.setup import Setup, read_setup
from muster.importing.slurm.documents import is_document, read_documents
from muster.importing.slurm.jobs import Jobs, Priority
from muster.importing.slurm.limits import Limits
from muster.importing.slurm.lines import read_lines
from muster.importing.slurm.records import Record
from muster.importing.slurm.scheduling import take_scheduler
from muster.importing.slurm.shapes import Shapes
from muster.importing.slurm.values import Times
from muster.importing.workload.queues import Queues
from muster.importing.workload.reading import Opener, opened
from muster.importing.workload.workload import Workload

_LARGEST: Final = 2**31 - 1
_NOTHING: Final[Mapping[str, str]] = {}


@final
@attrs.frozen(kw_only=True)
class Sources:
    """What else says how jobs become asks.

    Attributes:
        zone: The time zone of times without an offset.
        by_job: Whether the priority of a job is what sacct says; else it is 0.
        qos: A file with the priorities of qualities of service, which jobs get then, or None.
        accounts: A file with the tree of accounts, or None.
        conf: A file that says how Slurm schedules, or None.
    """

    zone: tzinfo = UTC
    by_job: bool = False
    qos: str | None = None
    accounts: str | None = None
    conf: str | None = None


def read_slurm(
    files: Sequence[str],
    workload: Workload,
    queues: Queues,
    *,
    opener: Opener = str,
    sources: Sources,
) -> None:
    """Put the jobs of dumps of sacct into a workload: lines or JSON.

    Args:
        files: The names of the dumps.
        workload: Where the jobs go; it has its nodes.
        queues: Chooses their queues.
        opener: Opens a dump.
        sources: What else is needed.

    Raises:
        FeedError: If a file cannot be read or is none such, or no node has vcores.
    """
    paths = _NOTHING
    if sources.accounts is not None:
        tree = read_accounts(sources.accounts, workload.account)
        paths = tree.paths
        workload.settings |= tree.settings
    setup = Setup() if sources.conf is None else read_setup(sources.conf)
    take_scheduler(setup, workload)
    priority = _priority(sources)
    shapes = Shapes(workload.nodes)
    if not shapes.cores:
        msg = "sacct does not say which nodes there are: give --nodes, such as what "
        msg += "`scontrol show node` prints, a slurm.conf, or '32x vcore=64,memory=256Gi'"
        raise FeedError(files[0], msg)
    limits = Limits(setup.partitions, workload.account)
    jobs = Jobs(workload, queues, shapes, priority, paths, limits)
    times = Times(sources.zone)
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
    paths_of_jobs = {above for path in workload.queues for above in _with_above(path)}
    workload.settings = {
        path: setting for path, setting in workload.settings.items() if path in paths_of_jobs
    }


def _with_above(path: str) -> Sequence[str]:
    """Return the path of a queue, and those of the queues above it."""
    names = path.split(".")
    return [".".join(names[:depth]) for depth in range(1, len(names) + 1)]


def _priority(sources: Sources) -> Priority:
    if sources.qos is not None:
        priorities = read_qos(sources.qos)
        return lambda record: priorities.get(record.qos, 0)
    return _of_job if sources.by_job else _none


def _none(record: Record) -> int:
    """Return 0: the priorities of Slurm change all the time."""
    del record
    return 0


def _of_job(record: Record) -> int:
    """Return the priority that a job had when it started, or at last."""
    text = record.priority
    is_number = text.isdecimal() and text.isascii() and len(text) < 20
    return min(int(text), _LARGEST) if is_number else 0
