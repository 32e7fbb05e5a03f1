"""Reads dumps of ``sacct`` into a workload."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import final

import attrs

from muster.feeds import FeedError
from muster.importing.slurm.cluster.accounts import Tree, read_accounts
from muster.importing.slurm.cluster.qos import read_qos
from muster.importing.slurm.cluster.setup import Setup, read_setup
from muster.importing.slurm.documents import is_document, read_documents
from muster.importing.slurm.jobs import Jobs
from muster.importing.slurm.limits import Limits
from muster.importing.slurm.lines import read_lines
from muster.importing.slurm.priorities import Source, note_priorities, priority_of
from muster.importing.slurm.scheduling import Scopes, note_parameters, take_nodes
from muster.importing.slurm.shapes import Shapes
from muster.importing.slurm.values import Times
from muster.importing.workload.queues import Queues
from muster.importing.workload.reading import Opener, opened
from muster.importing.workload.workload import Workload


@final
@attrs.frozen(kw_only=True)
class Sources:
    """What else says how jobs become asks.

    Attributes:
        zone: The time zone of times without an offset.
        priority: Where the priorities of asks come from; None for what is like Slurm's order.
        qos: A file with the priorities of qualities of service, or None.
        accounts: A file with the tree of accounts, or None.
        conf: A file that says how Slurm schedules, or None.
    """

    zone: tzinfo = UTC
    priority: Source | None = None
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
    tree = Tree() if sources.accounts is None else read_accounts(sources.accounts, workload.account)
    setup = Setup() if sources.conf is None else read_setup(sources.conf)
    qos = dict[str, int]() if sources.qos is None else read_qos(sources.qos)
    priority = priority_of(sources.priority, setup, qos)
    shapes = Shapes(workload.nodes)
    if not shapes.cores:
        msg = "sacct does not say which nodes there are: give --nodes, such as what "
        msg += "`scontrol show node` prints, a slurm.conf, or '32x vcore=64,memory=256Gi'"
        raise FeedError(files[0], msg)
    limits = Limits(setup.partitions, workload.account)
    scopes = Scopes(setup, workload.nodes)
    jobs = Jobs(
        workload,
        queues,
        shapes=shapes,
        priority=priority,
        paths=tree.paths,
        limits=limits,
        scopes=scopes,
    )
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
    _take_limits(tree, scopes, sources, workload)
    take_nodes(setup, workload)
    scopes.take(workload)
    note_parameters(setup, workload)
    note_priorities(sources.priority, setup, workload)


# IMPORT-12
def _take_limits(tree: Tree, scopes: Scopes, sources: Sources, workload: Workload) -> None:
    """Give the queues of accounts their limits: each of them where an account has several."""
    paths_of_jobs = {above for path in workload.queues for above in _with_above(path)}
    for path, setting in tree.settings.items():
        below = path.removeprefix("root.")
        places = [path, *(f"root.{scope}.{below}" for scope in sorted(scopes.names))]
        found = [place for place in places if place in paths_of_jobs]
        workload.settings |= dict.fromkeys(found, setting)
        if len(found) > 1:
            text = "has jobs in several scopes, each of which may use all of its GrpTRES"
            workload.account.note("account", text, sources.accounts or "", ", ".join(found))


def _with_above(path: str) -> Sequence[str]:
    """Return the path of a queue, and those of the queues above it."""
    names = path.split(".")
    return [".".join(names[:depth]) for depth in range(1, len(names) + 1)]
