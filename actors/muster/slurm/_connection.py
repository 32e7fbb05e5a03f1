"""The connection to Slurm: checks that Slurm can be used, and keeps its jobs and nodes for a block."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Never, final, get_args

import trio

from muster._gang_runs import Gangs
from muster._surface.context import opens_in
from muster.slurm._commands import (
    JobLostError,
    JobPhase,
    JobRecord,
    JobWatch,
    SlurmCommands,
    SlurmError,
)
from muster.slurm._jobs import BatchJob, JobResult, SlurmContext, end_whole, evict, status_of
from muster.slurm._nodes import (
    DEFAULT_RESOURCES,
    Amounts,
    NodeScheduler,
    SlurmNodeFollower,
    fields_of,
    node_specs,
    read_nodes,
)
from muster.slurm._sbatch import FIRST_TERM, JobSpec, JobTag, SubmitOptions, result_file
from muster_core.errors import EventError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation


_LOG: Final = logging.getLogger("muster.slurm")

_GRACE_S: Final = 10.0
"""How long a job that was not taken over may take to end after SIGTERM, in seconds."""

_AFTER_FOLLOW_S: Final = 5.0
"""How long after the beginning of ``follow`` jobs may still be taken over, in seconds: the
scheduler is open by then, and calls ``resume`` when it opens."""

_AGAIN_S: Final = 5.0
"""After how long an unknown job is ended again, in seconds."""

_SILENT_S: Final = 60.0
"""How long the start of a job waits for a controller that does not answer, in seconds."""


@final
class Slurm:
    """A Slurm on which work runs; :func:`connect` gives it.

    Attributes:
        namespace: How the comments of its jobs begin.
        term: The term in them.
        amounts: Translates amounts.
    """

    def __init__(
        self,
        context: SlurmContext,
        nursery: trio.Nursery,
        amounts: Amounts,
        *,
        namespace: str,
        adopt_within: float,
    ) -> None:
        self._context = context
        self._nursery = nursery
        self._adopt_within_s = adopt_within
        self.namespace = namespace
        self.term = FIRST_TERM
        self.amounts = amounts
        self._outdone: Callable[[int, str], object] | None = None
        #: The jobs that are not over.
        self._batches: set[BatchJob] = set()
        #: The jobs of an earlier program, and which of their members were taken over.
        self._earlier: dict[BatchJob, set[int]] = {}
        #: Those of them that are being ended as a whole.
        self._ending: set[BatchJob] = set()
        #: Set when no job can be taken over any more.
        self._settled = trio.Event()
        #: When unknown jobs were ended, by number.
        self._strangers: dict[int, float] = {}
        self._follows = trio.Event()
        self._names: dict[str, frozenset[str]] = {}
        self._trouble: str | None = None

    @property
    def is_connected(self) -> bool:
        """Whether Slurm's controller answers, as far as :meth:`follow` knows."""
        return self._trouble is None

    @property
    def trouble(self) -> str | None:
        """Why it does not answer; None while it does."""
        return self._trouble

    async def follow(
        self,
        scheduler: NodeScheduler,
        *,
        every: float = 2.0,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> Never:
        """Make the nodes of the partition nodes of a scheduler, as long as this runs.

        A node that is down is removed; one that is drained takes no more work. While Slurm's
        controller does not answer, all nodes stay as they are.

        Args:
            scheduler: The scheduler.
            every: How often to look, in seconds.
            task_status: Started when the present nodes are there.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
            EventError: If ``every`` is not a number of seconds above 0.
        """
        check_seconds("every", every, above_zero=True)
        self._follows.set()
        follower = SlurmNodeFollower(scheduler)
        while True:
            next_s = trio.current_time() + every
            try:
                printed = await self._context.commands.run(
                    ("scontrol", "show", "node", "--oneliner", "--all")
                )
                only = await self._reserved()
            except SlurmError as error:
                if self._trouble is None:
                    _LOG.warning("Slurm does not answer; all nodes stay as they are: %s", error)
                self._trouble = str(error)
            else:
                self._trouble = None
                partition = self._context.site.partition
                await follower.follow(
                    node_specs(read_nodes(printed), partition, only, self.amounts)
                )
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
            await trio.sleep_until(next_s)

    # REPLICA-16
    def lead(self, term: int, outdone: Callable[[int, str], object]) -> None:
        """Submit jobs with a term from now on, and none once a job has a higher one.

        Args:
            term: The term.
            outdone: Called with a higher term, and who has it in words.
        """
        self.term, self._outdone = term, outdone
        self.end_strangers()

    # REPLICA-16
    def _is_outdone(self) -> bool:
        """Return whether a job has a higher term: from then on nothing is submitted or ended."""
        is_over = self._context.commands.is_over
        if self._outdone is not None and not is_over.is_set():
            terms = {
                comment.tag.term: job.id
                for job in self._context.watch.jobs.values()
                if (comment := self._context.comment_of(job)) is not None
                and comment.tag.namespace == self.namespace
            }
            highest = max(terms, default=0)
            if highest > self.term:
                is_over.set()
                self._outdone(highest, f"job {terms[highest]} of Slurm")
        return is_over.is_set()

    # What the binder needs

    @property
    def is_over(self) -> trio.Event:
        """Set when another server leads: its jobs, and those that it takes over, are left alone."""
        return self._context.commands.is_over

    async def wait_for_answer(self) -> None:
        """Wait until Slurm's controller answers.

        Raises:
            JobLostError: If it does not for long.
        """
        if self._trouble is not None:
            with trio.move_on_after(_SILENT_S) as scope:
                await self._context.watch.fresh()
            if scope.cancelled_caught:
                msg = f"Slurm does not answer: {self._trouble}"
                raise JobLostError(msg)

    def new_gangs(self) -> Gangs:
        """Return the gangs of one binder."""
        return Gangs(self._nursery)

    def submit(self, order: JobSpec) -> BatchJob:
        """Submit a job; its batch tells what becomes of it."""
        batch = BatchJob(self._context, order.tag, order)
        self._batches.add(batch)
        self._nursery.start_soon(self._conduct, batch)
        return batch

    async def adopt(self, allocation: Allocation) -> BatchJob | JobResult:
        """Take over the job of an allocation, or the result that it has left.

        Raises:
            JobLostError: If there is neither.
        """
        batch = self._find(allocation)
        if batch is None:
            # Its submission may have been on the way when the earlier program ended.
            await self._context.watch.fresh()
            batch = self._find(allocation)
        if batch is not None:
            self._earlier[batch].add(allocation.number)
            batch.place(allocation.number, allocation.node)
            return batch
        result = await self.kept_result(allocation, None)
        if result is None:
            msg = "there is no job of it: it was not submitted, or has ended too long ago"
            raise JobLostError(msg)
        return result

    def leave_alone(self, batch: BatchJob, number: int) -> None:
        """Leave a member of a job to the next scheduler."""
        self._earlier.setdefault(batch, set(batch.tag.numbers)).discard(number)

    async def kept_result(self, allocation: Allocation, job: int | None) -> JobResult | None:
        """Return the result that the job of an allocation has left in the folder, or None.

        Args:
            allocation: The allocation.
            job: The number of its job, if that is known.
        """
        status = await trio.to_thread.run_sync(self._kept_status, allocation)
        return None if status is None else JobResult(status_of(status), job)

    def _kept_status(self, allocation: Allocation) -> int | None:
        tags = [JobTag(self.namespace, allocation.app, allocation.ask, (allocation.number,))]
        if allocation.gang is not None:
            tags.append(JobTag(self.namespace, allocation.gang, None, (allocation.number,)))
        for tag in tags:
            name = result_file(self._context.site, tag, allocation.number)
            if name is None:
                continue
            try:
                return int(Path(name).read_text(encoding="ascii"))
            except (OSError, ValueError):
                continue
        return None

    async def end_earlier(self, allocation: Allocation) -> None:
        """End jobs of an earlier program for the same ask that were not taken over."""
        for batch, adopted in list(self._earlier.items()):
            if batch.is_over or not _is_of(batch.tag, allocation):
                continue
            if adopted and set(batch.tag.numbers) - adopted:
                # It is not known which members are missing, and they may still be taken over.
                await self._settled.wait()
            await self._end(batch, adopted)

    def _find(self, allocation: Allocation) -> BatchJob | None:
        """Return the job of an allocation: one that has not ended, or else the newest."""
        found = [
            batch
            for batch in self._earlier
            if allocation.number in batch.tag.numbers and _is_of(batch.tag, allocation)
        ]
        live = [batch for batch in found if not batch.has_ended]
        return next(iter(live or found[::-1]), None)

    # Jobs of earlier programs, and unknown ones

    def end_strangers(self) -> None:
        """End unknown jobs whose comments say that they are ours.

        As long as jobs may be taken over, they count as those of an earlier program: its last
        submission may have been on the way when it ended.
        """
        if self._is_outdone():
            return
        own = {batch.tag for batch in self._batches if batch not in self._earlier}
        known = {batch.job for batch in self._batches}
        coming = {batch.tag for batch in self._batches if batch.job is None}
        now = trio.current_time()
        for job in self._context.watch.jobs.values():
            if job.id in known or job.id in self._context.foreign or job.offset:
                continue
            if job.phase not in (JobPhase.WAITING, JobPhase.RUNNING):
                continue
            comment = self._context.comment_of(job)
            if comment is None or comment.tag.namespace != self.namespace:
                continue
            if comment.tag in coming or now < self._strangers.get(job.id, -inf) + _AGAIN_S:
                continue
            if not self._settled.is_set() and comment.tag not in own:
                self._note_earlier(job, comment.tag)
                continue
            self._strangers[job.id] = now
            _LOG.warning("job %s (%s) is nobody's, and is ended", job.id, job.comment)
            self._nursery.start_soon(self._context.try_run, "scancel", str(job.id))

    def find_earlier(self) -> None:
        """Record the jobs that are there when the program begins."""
        for job in sorted(self._context.watch.jobs.values(), key=lambda job: job.id):
            comment = self._context.comment_of(job)
            if comment is None or comment.tag.namespace != self.namespace:
                continue
            self._note_earlier(job, comment.tag)

    def _note_earlier(self, job: JobRecord, tag: JobTag) -> None:
        self._context.foreign.add(job.id)
        if job.offset == 0:
            batch = BatchJob(self._context, tag, None, job)
            self._earlier[batch] = set()
            self._batches.add(batch)
            self._nursery.start_soon(self._conduct, batch)

    async def end_orphans(self) -> None:
        """End the jobs of an earlier program that are not taken over in time."""
        with trio.move_on_after(self._adopt_within_s):
            await self._follows.wait()
            await trio.sleep(_AFTER_FOLLOW_S)
        self._settled.set()
        async with trio.open_nursery() as nursery:
            for batch, adopted in list(self._earlier.items()):
                if not batch.is_over:
                    nursery.start_soon(self._end, batch, adopted)

    async def _end(self, batch: BatchJob, adopted: set[int]) -> None:
        """End the members of a job that were not taken over."""
        others = [number for number in batch.tag.numbers if number not in adopted]
        if not others or batch.is_over:
            return
        if batch in self._ending:
            await batch.until(lambda: batch.is_over)
            return
        _LOG.warning("job %s (%s): nobody has taken it over", batch.job, batch.tag.text)
        if not adopted:
            self._ending.add(batch)
            await end_whole(batch, _GRACE_S)
            return
        async with trio.open_nursery() as nursery:
            for number in others:
                if number not in batch.ends:
                    nursery.start_soon(evict, batch, number, _GRACE_S)

    async def _conduct(self, batch: BatchJob) -> None:
        try:
            await batch.conduct()
        finally:
            self._batches.discard(batch)

    async def _reserved(self) -> frozenset[str] | None:
        """Return the names of the nodes of the reservation; None without one.

        Raises:
            SlurmError: If there is no such reservation, or no answer.
        """
        name = self._context.site.reservation
        if name is None:
            return None
        printed = await self._context.commands.run(
            ("scontrol", "show", "reservation", name, "--oneliner")
        )
        nodes = fields_of(printed).get("Nodes", "")
        if nodes not in self._names:
            hosts = await self._context.commands.run(("scontrol", "show", "hostnames", nodes))
            self._names = {nodes: frozenset(hosts.split())}
        return self._names[nodes]


def _is_of(tag: JobTag, allocation: Allocation) -> bool:
    """Return whether a job is of the ask of an allocation, or of its gang."""
    if tag.ask is None:
        return tag.app == allocation.gang
    return (tag.app, tag.ask) == (allocation.app, allocation.ask)


def check_seconds(name: str, given: float, *, above_zero: bool) -> None:
    """Check a number of seconds.

    Raises:
        EventError: If it is none that can be waited for.
    """
    if 0 < given < inf or (given >= 0 and not above_zero):
        return
    msg = f"{name}: {given!r}: must be a number of seconds {'above' if above_zero else 'from'} 0"
    raise EventError(msg)


def check_namespace(name: str) -> None:
    """Check how the comments of jobs are to begin.

    Raises:
        EventError: If they cannot begin so.
    """
    if not name.isascii() or not name.replace("-", "").isalnum():
        msg = f"namespace: {name!r}: must be letters, digits and hyphens"
        raise EventError(msg)


GangForm = Literal["job", "components"]
"""How a gang on several nodes is submitted; see :func:`connect`."""

_RESULTS_KEPT_S: Final = 30 * 86400.0
"""How long files with exit statuses are kept, in seconds."""


@opens_in("trio", "muster.slurm.connect", elsewhere="muster.asyncio.slurm.connect")
async def connect(
    *,
    partition: str | None = None,
    reservation: str | None = None,
    namespace: str = "muster",
    options: Sequence[str] = (),
    resources: Mapping[str, str] = DEFAULT_RESOURCES,
    results: str | PathLike[str] | None = None,
    gangs: GangForm = "job",
    every: float = 1.0,
    adopt_within: float = 60.0,
) -> AsyncGenerator[Slurm]:
    """Use Slurm, by its commands, as the user of this program, for the time of a block.

    Open it outside of the scheduler, so that a scheduler that closes can still end its jobs. Jobs
    of an earlier program with this namespace are taken over, or ended: so no two programs of one
    user may have one namespace at the same time.

    Args:
        partition: The partition whose nodes Muster gives out; default: Slurm's default partition.
            It should be Muster's alone.
        reservation: A reservation in it, to use these nodes only.
        namespace: How the comments of the jobs begin.
        options: Further options of sbatch for each job, such as ``--account=physics``.
        resources: What Slurm's resources are called in Muster; the others keep their names.
        results: A folder that all nodes share, in which jobs keep their exit statuses. With it a
            program finds how a job has ended that Slurm has forgotten (after ``MinJobAge``).
        gangs: How a gang on several nodes is submitted. ``job``: as one job, which Slurm starts as
            soon as there is room, and which keeps the room of a member that has ended until the
            last one has. ``components``: as a heterogeneous job with one component for each node,
            which gives such a node back at once, but is started by Slurm's backfill only, some
            time later. Members that need different amounts on different nodes are always this.
        every: How often to ask Slurm for all jobs at most, in seconds.
        adopt_within: How long jobs of an earlier program are kept that no scheduler takes over,
            in seconds; 5 seconds once ``follow`` runs.

    Raises:
        EventError: If an argument is invalid.
        SilentError: If Slurm's controller does not answer.
        SlurmError: If the commands of Slurm are not there, or there is no such partition
            or reservation.
    """
    check_namespace(namespace)
    if gangs not in get_args(GangForm):
        msg = f"gangs: {gangs!r}: must be one of {', '.join(get_args(GangForm))}"
        raise EventError(msg)
    check_seconds("every", every, above_zero=True)
    check_seconds("adopt_within", adopt_within, above_zero=False)
    folder = None if results is None else str(Path.cwd() / results)
    commands = SlurmCommands()
    commands.check()
    site = SubmitOptions(
        await _partition(commands, partition),
        reservation,
        tuple(options),
        folder,
        gangs == "components",
    )
    if reservation is not None:
        await commands.run(("scontrol", "show", "reservation", reservation, "--oneliner"))
    config = await commands.run(("scontrol", "show", "config"))
    amounts = Amounts(resources, counts_memory=_counts_memory(config))
    if folder is not None:
        await trio.to_thread.run_sync(_prune, Path(folder))
    watch = JobWatch(commands, every)
    await watch.ask()
    async with trio.open_nursery() as nursery:
        context = SlurmContext(commands, watch, site, set())
        slurm = Slurm(context, nursery, amounts, namespace=namespace, adopt_within=adopt_within)
        slurm.find_earlier()
        watch.on_answer = slurm.end_strangers
        nursery.start_soon(watch.run)
        nursery.start_soon(slurm.end_orphans)
        try:
            yield slurm
        finally:
            nursery.cancel_scope.cancel()


async def _partition(commands: SlurmCommands, name: str | None) -> str:
    """Return the partition, which is checked, or the default one.

    Raises:
        SlurmError: If there is none.
    """
    printed = await commands.run(("sinfo", "--noheader", "--all", "--format=%P"))
    marked = printed.split()
    names = [one.rstrip("*") for one in marked]
    if name is None:
        name = next((one.rstrip("*") for one in marked if one.endswith("*")), None)
        if name is None:
            msg = f"partition: Slurm has no default one; there are {', '.join(names) or 'none'}"
            raise SlurmError(msg)
    elif name not in names:
        msg = f"partition: {name!r}: there are {', '.join(names) or 'none'}"
        raise SlurmError(msg)
    return name


def _counts_memory(config: str) -> bool:
    """Return whether Slurm gives memory out, by what ``scontrol show config`` has printed."""
    for line in config.splitlines():
        name, _, setting = line.partition("=")
        if name.strip() == "SelectTypeParameters":
            return "MEMORY" in setting.upper()
    return False


def _prune(folder: Path) -> None:
    """Make the folder for results, and remove old ones.

    Raises:
        SlurmError: If it cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        newest = max((file.stat().st_mtime for file in folder.iterdir()), default=0.0)
        for file in folder.iterdir():
            if file.stat().st_mtime < newest - _RESULTS_KEPT_S:
                file.unlink()
    except OSError as error:
        msg = f"results: {str(folder)!r}: {error.strerror or error}"
        raise SlurmError(msg) from None
