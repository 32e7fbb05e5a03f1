"""The binder that runs the commands of asks as jobs of Slurm.

The members of a gang that were bound in one step are brought together, so that one job has them.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster.slurm._commands import JobLostError
from muster.slurm._jobs import BatchJob, JobResult, JobStage, evict, is_node_lost, result_of
from muster.slurm._sbatch import JobSpec, JobTag, MemberWork
from muster.subprocesses import Command, variables

if TYPE_CHECKING:
    from muster._gang_runs import Member
    from muster._surface.allocation import Allocation
    from muster.slurm._connection import Slurm


_LONGEST_S: Final = 10.0
"""How long the members wait for one that has no reason not to come, in seconds: the scheduler does
not say that an allocation has ended if its run has not begun."""

_CALLED_OFF: Final = 100
"""How many of the last cancelled steps are remembered, so that members that come late do not wait."""


@final
@attrs.define(eq=False)
class _GangMeeting:
    """The members of one step that have to meet.

    Attributes:
        peers: How many there are.
        works: The works of those that have come, by number.
        came: How many have come, also those that have left again.
        present: How many have come and are still there.
        batch: Their job.
        is_off: Whether one of them will not come.
        settled: Set when there is a job, or will not be.
    """

    peers: int
    works: dict[int, MemberWork] = attrs.field(factory=dict[int, MemberWork])
    came: int = 0
    present: int = 0
    batch: BatchJob | None = None
    is_off: bool = False
    settled: trio.Event = attrs.field(factory=trio.Event)

    def call_off(self) -> None:
        """End all waits: a member will not come."""
        if self.batch is None:
            self.is_off = True
        self.settled.set()


@final
class GangMeetings:
    """The meetings of all gangs."""

    def __init__(self) -> None:
        #: The meetings to which some members have come, and not all.
        self._meetings: dict[int, _GangMeeting] = {}
        self._called_off: deque[int] = deque(maxlen=_CALLED_OFF)

    @property
    def is_empty(self) -> bool:
        """Whether no member waits for others to come."""
        return not self._meetings

    async def join(
        self,
        step: int,
        peers: int,
        prepare: Callable[[], Awaitable[MemberWork]],
        submit: Callable[[tuple[MemberWork, ...]], BatchJob],
        may_come: Callable[[], bool],
    ) -> BatchJob:
        """Wait until all members of a step have come.

        Args:
            step: The step.
            peers: How many members it has.
            prepare: Returns the work of the caller.
            submit: Returns the job of all; called by the last one.
            may_come: Returns whether a missing member may still come.

        Returns:
            The job.

        Raises:
            JobLostError: If one of them does not come, or has left.
        """
        if step in self._called_off:
            raise _not_all()
        meeting = self._meetings.setdefault(step, _GangMeeting(peers))
        meeting.came += 1
        meeting.present += 1
        if meeting.came == peers:
            del self._meetings[step]
        try:
            work = await prepare()
            meeting.works[work.number] = work
            if len(meeting.works) == peers and not meeting.is_off:
                works = tuple(meeting.works[number] for number in sorted(meeting.works))
                meeting.batch = submit(works)
                meeting.settled.set()
            await _settle(meeting, may_come)
        except trio.Cancelled:
            # If it was submitted meanwhile, its part has to be ended: by the caller, who is
            # cancelled again when it waits for the job.
            if meeting.batch is None:
                raise
        finally:
            if meeting.batch is None:
                meeting.call_off()
            meeting.present -= 1
            if not meeting.present and self._meetings.get(step) is meeting:
                del self._meetings[step]
                self._called_off.append(step)
        if meeting.batch is None:
            raise _not_all()
        return meeting.batch


def _not_all() -> JobLostError:
    return JobLostError("another member of the gang does not start")


async def _settle(meeting: _GangMeeting, may_come: Callable[[], bool]) -> None:
    """Wait until there is a job, or will not be."""
    while not meeting.settled.is_set():
        with trio.move_on_after(_LONGEST_S):
            await meeting.settled.wait()
            return
        if meeting.came < meeting.peers and not may_come():
            return


Line = Command | Sequence[str] | str
"""A command, a program with its arguments, or a text for the shell."""

_LOG: Final = logging.getLogger("muster.slurm")

_NODE_LOST_S: Final = 20.0
"""How long a job that was lost with its node is held back, in seconds: until ``follow`` has removed
the node, or the ask would be bound there again."""

_CLOSING_S: Final = 60.0
"""How long a scheduler that closes waits for a controller that does not answer, in seconds."""

_LEAVING_S: Final = 2.0
"""The same, in seconds, if it has little time: Slurm gets the order to end the job and carries it out."""


@final
class JobRunner:
    """Runs commands of allocations as jobs, in trio.

    Args:
        slurm: The Slurm.
        grace_s: How long a command may take to end after SIGTERM, in seconds.
        detached: Whether jobs are left alone when the scheduler is closed.
        closing_grace_s: The grace when the scheduler is closed, if that is to be shorter.

    Raises:
        ValueError: If a grace period is negative or not a number.
    """

    def __init__(
        self,
        slurm: Slurm,
        grace_s: float,
        *,
        detached: bool,
        closing_grace_s: float | None = None,
    ) -> None:
        for name, seconds in (("grace_period", grace_s), ("closing_grace", closing_grace_s)):
            if seconds is not None and (math.isnan(seconds) or seconds < 0):
                msg = f"{name}: {seconds!r} is not a number of seconds from 0"
                raise ValueError(msg)
        self._slurm = slurm
        self._grace_s = grace_s
        self._closing_grace_s, self._closing_s = (
            (grace_s, _CLOSING_S)
            if closing_grace_s is None
            else (min(grace_s, closing_grace_s), _LEAVING_S)
        )
        self._detached = detached
        self._gangs = slurm.new_gangs()
        self._gathering = GangMeetings()

    async def run(
        self, allocation: Allocation, command: Callable[[], Line], started: Callable[[], None]
    ) -> JobResult:
        """Run the command of an allocation.

        Args:
            allocation: The allocation.
            command: Returns the command.
            started: Called when the job runs.

        Raises:
            EventError: If Slurm cannot count the resources.
            JobLostError: If the job was lost through no fault of the ask.
            SlurmError: If the job was refused, or has not ended by itself.
        """
        with self._gangs.member(allocation) as member:
            if member is None:
                work = await self._prepare(allocation, command)
                return await self._attend(allocation, self._submit(allocation, (work,)), started)
            await member.admit()
            try:
                batch = await self._meet(allocation, member, command)
                return await self._attend(allocation, batch, _calling_both(member.begin, started))
            except Exception:
                await member.fail()
                raise

    async def _meet(
        self, allocation: Allocation, member: Member, command: Callable[[], Line]
    ) -> BatchJob:
        """Return the job of a member of a gang, with all that were bound in the same step."""
        if allocation.peers == 1:
            return self._submit(allocation, (await self._prepare(allocation, command),))
        return await self._gathering.join(
            allocation.step,
            allocation.peers,
            lambda: self._prepare(allocation, command),
            lambda works: self._submit(allocation, works),
            lambda: member.waits_for_earlier,
        )

    async def resume(self, allocation: Allocation, started: Callable[[], None]) -> JobResult:
        """Go on with the job of an allocation that an earlier program has started.

        Args:
            allocation: The allocation, as it was.
            started: Called when the job runs, or has ended meanwhile.

        Raises:
            JobLostError: If the job was lost through no fault of the ask.
            SlurmError: If there is no such job, or it has not ended by itself.
        """
        with self._gangs.member(allocation) as member:
            if member is None:
                return await self._resume(allocation, started)
            try:
                return await self._resume(allocation, _calling_both(member.begin, started))
            except Exception:
                await member.fail()
                raise

    async def _resume(self, allocation: Allocation, started: Callable[[], None]) -> JobResult:
        found = await self._slurm.adopt(allocation)
        if isinstance(found, JobResult):
            started()
            return found
        return await self._attend(allocation, found, started)

    async def _prepare(self, allocation: Allocation, command_of: Callable[[], Line]) -> MemberWork:
        """Return the work of an allocation, when nothing of it runs any more from an earlier program.

        Raises:
            JobLostError: If Slurm has not answered for long.
        """
        await self._slurm.wait_for_answer()
        await self._slurm.end_earlier(allocation)
        command = command_of()
        if not isinstance(command, Command):
            command = Command(command)
        share = self._slurm.amounts.share(allocation.resources)
        return MemberWork(
            allocation.number,
            allocation.node,
            share,
            command,
            variables(allocation),
            self._grace_s,
        )

    def _submit(self, allocation: Allocation, works: tuple[MemberWork, ...]) -> BatchJob:
        numbers = tuple(work.number for work in works)
        namespace, term = self._slurm.namespace, self._slurm.term
        if len(works) == 1:
            tag = JobTag(namespace, allocation.app, allocation.ask, numbers, term)
        else:
            tag = JobTag(namespace, allocation.gang or "", None, numbers, term)
        tag.check()
        return self._slurm.submit(JobSpec(tag, works))

    async def _attend(
        self, allocation: Allocation, batch: BatchJob, started: Callable[[], None]
    ) -> JobResult:
        """Wait until the command of an allocation has ended, and judge the end."""
        number = allocation.number
        try:
            await batch.until(
                lambda: batch.stage in (JobStage.RUNNING, JobStage.OVER) or number in batch.ends
            )
            if batch.stage is JobStage.RUNNING or number in batch.ends:
                started()
            await batch.until(lambda: batch.is_over or (batch.is_gang and number in batch.ends))
            if batch.is_forgotten and number not in batch.ends:
                kept = await self._slurm.kept_result(allocation, batch.job)
                if kept is not None:
                    started()
                    return kept
            if is_node_lost(batch) and number not in batch.ends:
                await trio.sleep(_NODE_LOST_S)
        except BaseException:
            is_left = self._detached and allocation.ending == "closing"
            if is_left or self._slurm.is_over.is_set():
                self._slurm.leave_alone(batch, number)
            else:
                await self._evict(allocation, batch)
            raise
        result = result_of(batch, number)
        started()  # it may have been too short to be seen running
        return result

    async def _evict(self, allocation: Allocation, batch: BatchJob) -> None:
        """End the command of an allocation; nothing is given up because Slurm is silent."""
        grace_s = self._grace_s
        with trio.CancelScope(shield=True) as scope:
            if allocation.ending == "closing":
                grace_s = self._closing_grace_s
                scope.deadline = trio.current_time() + grace_s + self._closing_s
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._give_up_when_over, scope)
                await evict(batch, allocation.number, grace_s)
                nursery.cancel_scope.cancel()
        if scope.cancelled_caught:
            _LOG.warning(
                "job %s of %s/%s is left behind: Slurm does not say that it has ended",
                batch.job,
                allocation.app,
                allocation.ask,
            )

    # REPLICA-16
    async def _give_up_when_over(self, scope: trio.CancelScope) -> None:
        await self._slurm.is_over.wait()
        scope.cancel()


def _calling_both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


@final
class SlurmBinder:
    """A binder that runs a job of Slurm for each bound ask; pass it to ``open_scheduler``.

    The members of a gang that are bound in one step are one job, which starts all or nothing.
    Each command runs once, on the node that Muster has chosen, and has the variables
    ``MUSTER_APP``, ``MUSTER_ASK``, ``MUSTER_NODE``, ``MUSTER_QUEUE`` and ``MUSTER_RUN``.

    A job that has to wait in Slurm has not started. So ``bind_timeout`` of the scheduler has to be
    long: longer than the grace period, and than anything else in the partition may take.

    If an allocation ends before its command, the command and what it has started in its process
    group get SIGTERM, and SIGKILL after the grace period. ``run`` returns when Slurm says that
    nothing is left.

    Args:
        slurm: What :func:`connect` has given.
        work: Returns the command to run; called each time an ask is bound. If it raises, the bind
            has failed.
        done: Called when a command has ended by itself, before the allocation is released; again
            after a restart, if the program was killed between the two. If it
            raises :class:`muster.WorkFailedError`, the work has failed: the ask is pending again
            if it has a retry left. If it raises another exception, the bind has failed.
        grace_period: How long a command may take to end after SIGTERM, in seconds.
        detached: Whether jobs are left alone when the scheduler is closed. With a store, the next
            program finds them again. (If the program is killed, it finds them in any case.)
        closing_grace: The grace period when the scheduler is closed, if that is to be shorter. Then
            Slurm gets the order to end what is left, and is not waited for.

    Raises:
        ValueError: If a grace period is negative or not a number.
    """

    def __init__(
        self,
        slurm: Slurm,
        work: Callable[[Allocation], Line],
        *,
        done: Callable[[Allocation, JobResult], None] | None = None,
        grace_period: float = 10.0,
        detached: bool = False,
        closing_grace: float | None = None,
    ) -> None:
        self._runs = JobRunner(
            slurm, grace_period, detached=detached, closing_grace_s=closing_grace
        )
        self._work = work
        self._done = done

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the command of an ask. The scheduler calls this.

        Args:
            allocation: The allocation of the ask.
            started: Called when the job runs.

        Raises:
            EventError: If Slurm cannot count the resources.
            JobLostError: If the job was lost through no fault of the ask.
            SlurmError: If the job was refused, or has not ended by itself.
        """
        result = await self._runs.run(allocation, lambda: self._work(allocation), started)
        if self._done is not None:
            self._done(allocation, result)

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the job of an allocation that an earlier program has started.

        Args:
            allocation: The allocation, as it was.
            started: Called when the job runs, or has ended meanwhile.

        Raises:
            JobLostError: If the job was lost through no fault of the ask.
            SlurmError: If there is no such job, or it has not ended by itself.
        """
        result = await self._runs.resume(allocation, started)
        if self._done is not None:
            self._done(allocation, result)
