"""The connection to Slurm: what is kept of its jobs and nodes while a program runs."""

from __future__ import annotations

import logging
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, Never, final

import trio

from muster._gangs import Gangs
from muster.slurm._batch import Batch, Ground
from muster.slurm._endings import JobResult, end_whole, evict, status_of
from muster.slurm._errors import JobLostError, SlurmError
from muster.slurm._follow import Books, Follower
from muster.slurm._texts.amounts import Amounts
from muster.slurm._texts.jobs import Job, Phase
from muster.slurm._texts.nodes import fields_of, read_nodes, wanted_nodes
from muster.slurm._texts.orders import Order, result_file
from muster.slurm._texts.tags import Tag
from muster_core.errors import EventError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation

_LOG: Final = logging.getLogger("muster.slurm")

_GRACE_S: Final = 10.0
"""How long a job that nobody has taken over may take to end after SIGTERM, in seconds."""

_AFTER_FOLLOW_S: Final = 5.0
"""How long after the beginning of ``follow`` jobs may still be taken over, in seconds: the
scheduler is open by then, and calls ``resume`` when it opens."""

_AGAIN_S: Final = 5.0
"""After how long a job that nobody knows is ended again, in seconds."""


@final
class Slurm:
    """A Slurm on which work runs; :func:`connect` gives it.

    Attributes:
        namespace: How the comments of its jobs begin.
        amounts: Translates amounts.
    """

    def __init__(
        self,
        ground: Ground,
        nursery: trio.Nursery,
        amounts: Amounts,
        *,
        namespace: str,
        adopt_within: float,
    ) -> None:
        self._ground = ground
        self._nursery = nursery
        self._adopt_within_s = adopt_within
        self.namespace = namespace
        self.amounts = amounts
        #: The jobs that are not over.
        self._batches: set[Batch] = set()
        #: The jobs of an earlier program, and which of their members were taken over.
        self._earlier: dict[Batch, set[int]] = {}
        #: Those of them that are being ended as a whole.
        self._ending: set[Batch] = set()
        #: Set when nobody takes over any more.
        self._settled = trio.Event()
        #: When jobs that nobody knows were ended, by number.
        self._strangers: dict[int, float] = {}
        self._follows = trio.Event()
        self._names: dict[str, frozenset[str]] = {}

    async def follow(
        self,
        scheduler: Books,
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
            task_status: Told when the nodes of now are there.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
            EventError: If ``every`` is not a number of seconds above 0.
        """
        check_seconds("every", every, above_zero=True)
        self._follows.set()
        follower = Follower(scheduler)
        is_silent = False
        while True:
            next_s = trio.current_time() + every
            try:
                printed = await self._ground.commands.run(
                    ("scontrol", "show", "node", "--oneliner", "--all")
                )
                only = await self._reserved()
            except SlurmError as error:
                if not is_silent:
                    _LOG.warning("Slurm does not answer; all nodes stay as they are: %s", error)
                is_silent = True
            else:
                is_silent = False
                partition = self._ground.site.partition
                await follower.follow(
                    wanted_nodes(read_nodes(printed), partition, only, self.amounts)
                )
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
            await trio.sleep_until(next_s)

    # What the binder needs

    def new_gangs(self) -> Gangs:
        """Return the gangs of one binder."""
        return Gangs(self._nursery)

    def submit(self, order: Order) -> Batch:
        """Submit a job; its batch tells what becomes of it."""
        batch = Batch(self._ground, order.tag, order)
        self._batches.add(batch)
        self._nursery.start_soon(self._conduct, batch)
        return batch

    async def adopt(self, allocation: Allocation) -> Batch | JobResult:
        """Take over the job of an allocation, or the result that it has left.

        Raises:
            JobLostError: If there is neither.
        """
        batch = self._find(allocation)
        if batch is None:
            # Its submission may have been on the way when the earlier program ended.
            await self._ground.watch.fresh()
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

    def leave_alone(self, batch: Batch, number: int) -> None:
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
        tags = [Tag(self.namespace, allocation.app, allocation.ask, (allocation.number,))]
        if allocation.gang is not None:
            tags.append(Tag(self.namespace, allocation.gang, None, (allocation.number,)))
        for tag in tags:
            name = result_file(self._ground.site, tag, allocation.number)
            if name is None:
                continue
            try:
                return int(Path(name).read_text(encoding="ascii"))
            except (OSError, ValueError):
                continue
        return None

    async def end_earlier(self, allocation: Allocation) -> None:
        """End jobs of an earlier program for the same ask that nobody has taken over."""
        for batch, adopted in list(self._earlier.items()):
            if batch.is_over or not _is_of(batch.tag, allocation):
                continue
            if adopted and set(batch.tag.numbers) - adopted:
                # It is not known which members are missing, and they may still be taken over.
                await self._settled.wait()
            await self._end(batch, adopted)

    def _find(self, allocation: Allocation) -> Batch | None:
        """Return the job of an allocation: one that has not ended, or else the newest."""
        found = [
            batch
            for batch in self._earlier
            if allocation.number in batch.tag.numbers and _is_of(batch.tag, allocation)
        ]
        live = [batch for batch in found if not batch.has_ended]
        return next(iter(live or found[::-1]), None)

    # Jobs of earlier programs, and such as nobody knows

    def hear(self) -> None:
        """Look for jobs that are ours by their comments, and that nobody waits for.

        As long as jobs may be taken over, they count as those of an earlier program: its last
        submission may have been on the way when it ended.
        """
        own = {batch.tag for batch in self._batches if batch not in self._earlier}
        known = {batch.job for batch in self._batches}
        coming = {batch.tag for batch in self._batches if batch.job is None}
        now = trio.current_time()
        for job in self._ground.watch.jobs.values():
            if job.id in known or job.id in self._ground.foreign or job.offset:
                continue
            if job.phase not in (Phase.WAITING, Phase.RUNNING):
                continue
            comment = self._ground.comment_of(job)
            if comment is None or comment.tag.namespace != self.namespace:
                continue
            if comment.tag in coming or now < self._strangers.get(job.id, -inf) + _AGAIN_S:
                continue
            if not self._settled.is_set() and comment.tag not in own:
                self._note_earlier(job, comment.tag)
                continue
            self._strangers[job.id] = now
            _LOG.warning("job %s (%s) is nobody's, and is ended", job.id, job.comment)
            self._nursery.start_soon(self._ground.try_run, "scancel", str(job.id))

    def find_earlier(self) -> None:
        """Take note of the jobs that are there when the program begins."""
        for job in sorted(self._ground.watch.jobs.values(), key=lambda job: job.id):
            comment = self._ground.comment_of(job)
            if comment is None or comment.tag.namespace != self.namespace:
                continue
            self._note_earlier(job, comment.tag)

    def _note_earlier(self, job: Job, tag: Tag) -> None:
        self._ground.foreign.add(job.id)
        if job.offset == 0:
            batch = Batch(self._ground, tag, None, job)
            self._earlier[batch] = set()
            self._batches.add(batch)
            self._nursery.start_soon(self._conduct, batch)

    async def end_orphans(self) -> None:
        """End what nobody takes over in time of the jobs of an earlier program."""
        with trio.move_on_after(self._adopt_within_s):
            await self._follows.wait()
            await trio.sleep(_AFTER_FOLLOW_S)
        self._settled.set()
        async with trio.open_nursery() as nursery:
            for batch, adopted in list(self._earlier.items()):
                if not batch.is_over:
                    nursery.start_soon(self._end, batch, adopted)

    async def _end(self, batch: Batch, adopted: set[int]) -> None:
        """End the members of a job that nobody has taken over."""
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

    async def _conduct(self, batch: Batch) -> None:
        try:
            await batch.conduct()
        finally:
            self._batches.discard(batch)

    async def _reserved(self) -> frozenset[str] | None:
        """Return the names of the nodes of the reservation; None without one.

        Raises:
            SlurmError: If there is no such reservation, or no answer.
        """
        name = self._ground.site.reservation
        if name is None:
            return None
        printed = await self._ground.commands.run(
            ("scontrol", "show", "reservation", name, "--oneliner")
        )
        nodes = fields_of(printed).get("Nodes", "")
        if nodes not in self._names:
            hosts = await self._ground.commands.run(("scontrol", "show", "hostnames", nodes))
            self._names = {nodes: frozenset(hosts.split())}
        return self._names[nodes]


def _is_of(tag: Tag, allocation: Allocation) -> bool:
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
