"""From dumps of ``sacct`` to the jobs of a workload.

A dump has millions of jobs, so what is remembered of each run takes little memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Final, final
from zlib import crc32

import attrs

from muster.feeds import FeedError
from muster.importing.dumps import Opener, open_dump
from muster.importing.queues import Queues, name_of, queue_name_of
from muster.importing.slurm.accounts import (
    AccountTree,
    Priority,
    PrioritySource,
    note_priorities,
    priority_of,
    read_accounts,
    read_qos,
    take_age,
    usual_source,
)
from muster.importing.slurm.conf import SchedulerOptions, read_setup
from muster.importing.slurm.records import (
    JOB,
    WAITING,
    JobId,
    JobRecord,
    id_of,
    is_document,
    read_documents,
    read_lines,
)
from muster.importing.slurm.resources import JobShape, JobShapes
from muster.importing.slurm.scheduler import (
    JobEstimates,
    Scopes,
    note_parameters,
    take_min_runtime,
    take_nodes,
)
from muster.importing.slurm.shares import QueuesOfAccounts, read_shares
from muster.importing.slurm.values import TimeReader
from muster.importing.workload import AskGroup, Job, Workload
from muster_core.decisions import MICROSECONDS

_BITS: Final = 6
"""How many numbers of jobs have a page together: 2 to the power of this."""


@final
class KnownRuns:
    """Remembers runs by the number of the job, and by what tells apart its runs."""

    def __init__(self) -> None:
        self._pages: dict[tuple[Hashable, int], array[int]] = {}
        self._more: dict[tuple[Hashable, int], list[int]] = {}

    def add(self, group: Hashable, number: int, run: str) -> int:
        """Remember a run.

        Args:
            group: In which numbers are unique, such as an array.
            number: The number, from 0.
            run: What only this run of the job has, such as the time of its start.

        Returns:
            Which run of the job this is, from 1; 0 if it was remembered before.
        """
        page = self._pages.get((group, number >> _BITS))
        if page is None:
            page = self._pages[group, number >> _BITS] = array("I", bytes(4 << _BITS))
        mark = crc32(run.encode()) or 1
        first = page[number & ((1 << _BITS) - 1)]
        if not first:
            page[number & ((1 << _BITS) - 1)] = mark
            return 1
        others = self._more.setdefault((group, number), [])
        if mark == first or mark in others:
            return 0
        others.append(mark)
        return len(others) + 1

    def has(self, group: Hashable, number: int) -> bool:
        """Return whether there was a run of a job."""
        page = self._pages.get((group, number >> _BITS))
        return page is not None and page[number & ((1 << _BITS) - 1)] != 0


FIELDS: Final = (
    "account",
    "account_path",
    "partition",
    "scope",
    "qos",
    "user",
    "group",
    "name",
    "reservation",
    "wckey",
    "cluster",
)
"""The fields that a mapping file can look at."""

QUEUES: Final = (
    "root.{scope}.{account_path}",
    "root.{scope}.{partition}",
    "root.{account_path}",
    "root.{partition}",
    "root.default",
)
"""The queues of jobs where there is no mapping file: the first whose fields have values."""

_CANCELLED: Final = "CANCELLED"
_UNSTARTED: Final = frozenset({_CANCELLED, "DEADLINE"})
"""The states of jobs that have not started if they ran for no time, also where sacct shows a start."""


# IMPORT-10
@final
class Jobs:
    """Puts the jobs of records into a workload.

    Args:
        workload: Where they go; it has its nodes.
        queues: Chooses their queues.
        shapes: Says what they ask for.
        priority: Gives their priorities.
        paths: Of each account with others above it: the names of all of them.
        limits: Says how long they were expected to run.
        scopes: Knows which partitions have one scope, and gets the queues of jobs.
    """

    def __init__(
        self,
        workload: Workload,
        queues: Queues,
        *,
        shapes: JobShapes,
        priority: Priority,
        paths: Mapping[str, str],
        limits: JobEstimates,
        scopes: Scopes,
    ) -> None:
        self._workload = workload
        self._account = workload.account
        self._queues = queues
        self._shapes = shapes
        self._priority = priority
        self._paths = paths
        self._limits = limits
        self._scopes = scopes
        self._seen = KnownRuns()
        self._names = _Names(self._seen)
        self._known_paths: dict[str, str] = {}
        #: Components that start together, of one run of one job: its name, and their jobs.
        self._coupled: tuple[str, list[Job]] | None = None

    def take(self, record: JobRecord, place: str) -> None:
        """Put a job in, or count why not."""
        found = id_of(record.job)
        self._look_for_end(record)
        cause = self._why_not(record, found)
        if cause is not None or found is None:
            text, example = cause or ("no number of a job", record.job)
            self._account.leave_out(JOB, text, place, example)
            is_waiting = record.state in WAITING and self._workload.is_wanted(record.comes_us)
            self._workload.end.waiting += is_waiting
            return
        at_us = record.comes_us
        if not self._workload.is_wanted(at_us):
            self._account.leave_out(JOB, "outside --since and --until", place)
            return
        fields = self._fields(record)
        queue = self._queues.of(fields)
        if queue is None:
            values = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
            self._account.leave_out(JOB, "no queue for it: see --mapping", place, values)
            return
        shape = self._shapes.of(record.wants)
        if shape.problem is not None:
            self._account.leave_out(JOB, shape.problem[0], place, shape.problem[1])
            return
        run = self._names.run(record, found)
        if not run:
            self._account.leave_out(JOB, "there already: the first record counts", place)
            return
        self._account.taken[JOB] += 1
        run_s = record.run_s if record.is_over else None
        self._scopes.use(queue, record.wants.partition, run_s)
        self._note(record, shape, run, place)
        self._submit(record, found, run, shape, queue, self._limits.of(record, place))

    # IMPORT-32
    def _look_for_end(self, record: JobRecord) -> None:
        """Record the last instant in a record."""
        end = self._workload.end
        end.at_us = max(end.at_us, record.submit_us or 0)
        if record.start_us is not None:
            run_us = (record.run_s or 0) * MICROSECONDS
            end.at_us = max(end.at_us, record.start_us + run_us)

    def finish(self) -> None:
        """Put in what waits for more of its kind."""
        if self._coupled is not None:
            _, jobs = self._coupled
            self._coupled = None
            self._workload.submit(
                attrs.evolve(
                    jobs[0],
                    at_us=max(job.at_us for job in jobs),
                    parts=[part for job in jobs for part in job.parts],
                    start_us=min(
                        (job.start_us for job in jobs if job.start_us is not None), default=None
                    ),
                    is_gang=sum(part.count for job in jobs for part in job.parts) > 1,
                )
            )

    def _why_not(self, record: JobRecord, found: JobId | None) -> tuple[str, str] | None:
        """Return why a job cannot be taken, with the value, or None."""
        if found is None:
            return "no number of a job", record.job[:80]
        if record.state in WAITING:
            return "waited when the dump was made", record.job
        if not record.run_s and (record.start_us is None or record.state in _UNSTARTED):
            when = "was cancelled" if record.state == _CANCELLED else "ended"
            return f"{when} before it started", record.state
        if record.submit_us is None and record.eligible_us is None:
            return "it is not known when it was submitted", f"Submit {record.submit!r}"
        if record.run_s is None and record.is_over:
            return "it is not known how long it ran", record.job
        if record.job.endswith("]"):
            return "no single task of its array", record.job[:80]
        return None

    def _fields(self, record: JobRecord) -> dict[str, str]:
        return {
            "account": record.account,
            "account_path": self._path(record.account),
            "partition": record.wants.partition,
            "scope": self._scopes.name_of(record.wants.partition),
            "qos": record.qos,
            "user": record.user,
            "group": record.group,
            "name": record.name,
            "reservation": record.reservation,
            "wckey": record.wckey,
            "cluster": record.cluster,
        }

    def _path(self, account: str) -> str:
        path = self._known_paths.get(account)
        if path is None:
            path = self._paths.get(account) or queue_name_of(account)
            self._known_paths[account] = path
        return path

    def _note(self, record: JobRecord, shape: JobShape, run: int, place: str) -> None:
        change = self._account.change
        if (
            record.submit_us is not None
            and record.eligible_us is not None
            and record.eligible_us > record.submit_us
        ):
            change(
                JOB, "could start later than it was submitted, and comes then", place, record.job
            )
        if not record.is_over:
            self._workload.end.running += 1
            change(JOB, "had not ended: it holds its room to the end", place, record.job)
        if record.suspended_s:
            text = "was suspended: it holds its room meanwhile"
            change(JOB, text, place, f"{record.suspended_s} s")
        if record.reservation:
            text = "ran in a reservation, which the feed has not"
            self._account.note(JOB, text, place, record.reservation)
        if run > 1:
            change(JOB, "a further run of a job, as a job of its own", place, record.job)
        for text, example in shape.notes:
            self._account.note(JOB, text, place, example)

    def _submit(
        self,
        record: JobRecord,
        found: JobId,
        run: int,
        shape: JobShape,
        queue: str,
        estimate_s: int | None,
    ) -> None:
        is_plain = found.task is None and found.component is None
        again = f"-run-{run}" if run > 1 else ""
        if found.task is not None:
            app, first = self._names.group(record, found), f"{found.task}{again}"
        else:
            app, first = self._names.job(record, found) + again, ""
        if found.component is not None:
            first = f"{first}+{found.component}" if first else str(found.component)
        job = Job(
            at_us=record.comes_us,
            app=app,
            queue=queue,
            parts=self._parts(record, shape, first, estimate_s),
            user=name_of(record.user),
            groups=(name_of(record.group),) if record.group else (),
            is_gang=shape.count > 1,
            is_alone=is_plain,
            start_us=record.start_us,
            partition=record.wants.partition,
        )
        if self._coupled is not None and self._coupled[0] != app:
            self.finish()
        if found.component is None:
            self._workload.submit(job)
        elif self._coupled is None:
            self._coupled = (app, [job])
        else:
            self._coupled[1].append(job)

    def _parts(
        self, record: JobRecord, shape: JobShape, first: str, estimate_s: int | None
    ) -> Sequence[AskGroup]:
        """Return the asks of a job; of a task or a component their names begin with its number."""
        run_us = record.run_s * MICROSECONDS if record.run_s is not None else 0
        priority = self._priority(record)
        return [
            AskGroup(
                ask=ask,
                resources=resources,
                count=count,
                selector=shape.selector,
                run_us=run_us if record.is_over else None,
                priority=priority,
                estimate_us=None if estimate_s is None else estimate_s * MICROSECONDS,
            )
            for ask, (resources, count) in zip(
                _asks(first, len(shape.members)), shape.members, strict=True
            )
        ]


def _asks(first: str, count: int) -> Sequence[str]:
    """Return the names of the asks of a job, by the number of sizes of its members."""
    if count == 1:
        return (first or "task",)
    sizes = (
        ("large", "task") if count == 2 else [f"size-{number}" for number in range(1, count + 1)]
    )
    return [f"{first}-{size}" if first else size for size in sizes]


@final
class _Names:
    """The names of applications: numbers of jobs, of arrays, and of jobs that start together."""

    def __init__(self, seen: KnownRuns) -> None:
        self._seen = seen
        self._clusters: dict[str, int] = {}
        #: By the cluster, the number, and whether it is that of an array.
        self._groups: dict[tuple[int, int, bool], str] = {}

    def run(self, record: JobRecord, found: JobId) -> int:
        """Return which run of a job a record is, from 1; 0 if it is one that was there before."""
        cluster = self._cluster(record)
        what = f"{record.submit_us} {record.start_us}"
        if found.task is not None:
            group = (cluster, found.base, found.component)
            return self._seen.add(group, found.task, what)
        if found.component is not None:
            return self._seen.add((cluster, found.base), found.component, what)
        return self._seen.add(cluster, found.base, what)

    def job(self, record: JobRecord, found: JobId) -> str:
        """Return the name of the application of a job; of components the one that they share."""
        if found.component is not None:
            return self.group(record, found)
        name = self._named(record, str(found.base))
        return f"{name}-job" if self._is_group(record, found) else name

    def group(self, record: JobRecord, found: JobId) -> str:
        """Return the name of an application that several records have.

        A number is that of a job, of an array or of components. If a dump has it twice, the second
        one gets another name.
        """
        is_array = found.task is not None
        key = (self._cluster(record), found.base, is_array)
        name = self._groups.get(key)
        if name is None:
            name = self._named(record, str(found.base))
            if self._is_group(record, found) or self._seen.has(key[0], found.base):
                name += "-tasks" if is_array else "-parts"
            self._groups[key] = name
        return name

    def _is_group(self, record: JobRecord, found: JobId) -> bool:
        """Return whether there is an array, or are components, with a number."""
        cluster, base, groups = self._cluster(record), found.base, self._groups
        return (cluster, base, True) in groups or (cluster, base, False) in groups

    def _cluster(self, record: JobRecord) -> int:
        """Return the number of a cluster; the first one has 0, also where it has no name."""
        if not record.cluster:
            return 0
        return self._clusters.setdefault(record.cluster, len(self._clusters))

    def _named(self, record: JobRecord, number: str) -> str:
        """Return a number with its cluster, if that is not the first one."""
        place = self._cluster(record)
        return number if not place else f"{name_of(record.cluster)}-{place}-{number}"


@final
@attrs.frozen(kw_only=True)
class ClusterFiles:
    """What else says how jobs become asks.

    Attributes:
        zone: The time zone of times without an offset.
        priority: Where the priorities of asks come from; None for what is like Slurm's order.
        qos: A file with the priorities of qualities of service, or None.
        accounts: A file with the tree of accounts, or None.
        shares: A file with the shares and the usage of accounts and users, or None.
        usage: Whether the feed begins with that usage.
        conf: A file that says how Slurm schedules, or None.
    """

    zone: tzinfo = UTC
    priority: PrioritySource | None = None
    qos: str | None = None
    accounts: str | None = None
    shares: str | None = None
    usage: bool = True
    conf: str | None = None


def read_slurm(
    files: Sequence[str],
    workload: Workload,
    queues: Queues,
    *,
    opener: Opener = str,
    sources: ClusterFiles,
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
    shares = None if sources.shares is None else read_shares(sources.shares)
    tree = AccountTree() if shares is None else shares.tree
    if sources.accounts is not None:
        tree = read_accounts(sources.accounts, workload.account)
    setup = SchedulerOptions() if sources.conf is None else read_setup(sources.conf)
    qos = dict[str, int]() if sources.qos is None else read_qos(sources.qos)
    ranked = sources.priority or usual_source(setup, has_shares=shares is not None)
    priority = priority_of(ranked, setup, qos)
    shapes = JobShapes(workload.nodes)
    if not shapes.cores:
        msg = "sacct does not say which nodes there are: give --nodes, such as what "
        msg += "`scontrol show node` prints, a slurm.conf, or '32x vcore=64,memory=256Gi'"
        raise FeedError(files[0], msg)
    limits = JobEstimates(setup.partitions, workload.account)
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
    times = TimeReader(sources.zone)
    for file in files:
        with open_dump(file, opener) as source:
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
    scopes.take_run_limits(workload)
    take_min_runtime(setup, workload)
    note_parameters(setup, workload)
    if shares is not None:
        queues_of = QueuesOfAccounts(tree, scopes.names, workload)
        shares.take(queues_of, setup, workload, ranked, usage=sources.usage)
    ages = take_age(ranked, setup, qos, workload)
    note_priorities(ranked, setup, workload, has_shares=shares is not None, ages=ages)


# IMPORT-12
def _take_limits(
    tree: AccountTree, scopes: Scopes, sources: ClusterFiles, workload: Workload
) -> None:
    """Give the queues of accounts their limits: each of them where an account has several."""
    paths_of_jobs = {above for path in workload.queues for above in _with_ancestors(path)}
    for path, setting in tree.settings.items():
        below = path.removeprefix("root.")
        places = [path, *(f"root.{scope}.{below}" for scope in sorted(scopes.names))]
        found = [place for place in places if place in paths_of_jobs]
        workload.settings |= dict.fromkeys(found, setting)
        if len(found) > 1:
            text = "has jobs in several scopes, each of which may use all of its GrpTRES"
            workload.account.note("account", text, sources.accounts or "", ", ".join(found))


def _with_ancestors(path: str) -> Sequence[str]:
    """Return the path of a queue, and those of the queues above it."""
    names = path.split(".")
    return [".".join(names[:depth]) for depth in range(1, len(names) + 1)]
