"""The jobs of Slurm and their members, from the submission until nothing of them is left.

It hides how a signal reaches a member, and what the end of a job means for the allocation.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, final

import attrs
import trio

from muster.slurm._commands import (
    JobLostError,
    JobPhase,
    JobRecord,
    JobWatch,
    SilentError,
    SlurmCommands,
    SlurmError,
)
from muster.slurm._sbatch import (
    NOT_THERE,
    JobComment,
    JobSpec,
    JobTag,
    SubmitOptions,
    read_comment,
    step_name,
)

_LOG: Final = logging.getLogger("muster.slurm")

_MISSED: Final = 2
"""The number of lists in a row without a job after which it counts as gone."""

_AGAIN_S: Final = 5.0
"""The period for ordering a job to end again, in seconds."""


class JobStage(StrEnum):
    """The stage of a batch job."""

    NEW = "new"
    SUBMITTED = "submitted"
    RUNNING = "running"
    OVER = "over"


class SignalResult(StrEnum):
    """The result of a signal."""

    SENT = "sent"
    NOT_RUNNING = "not running"
    NO_ANSWER = "no answer"


@final
@attrs.frozen
class SlurmContext:
    """The objects that all batch jobs share.

    Attributes:
        commands: Runs Slurm's commands.
        watch: Keeps the list of jobs.
        site: How jobs are submitted.
        foreign: The numbers of jobs that an earlier program has submitted.
    """

    commands: SlurmCommands
    watch: JobWatch
    site: SubmitOptions
    foreign: set[int]

    def comment_of(self, job: JobRecord) -> JobComment | None:
        """Return the comment of a job, if it is one of ours.

        ``squeue --json`` of some versions lists the jobs of all users, whatever it is asked.
        """
        if job.user is not None and job.user != os.geteuid():
            return None
        return read_comment(job.comment)

    async def try_run(self, *command: str) -> bool:
        """Run a command, and return whether Slurm has answered; a refusal is an answer."""
        try:
            await self.commands.run(command)
        except SilentError:
            return False
        except SlurmError as error:
            _LOG.debug("%s", error)  # the job has just ended, for example
        return True


@final
class BatchJob:
    """One job, and what is known of it.

    Its state changes in :meth:`conduct` alone, which runs as a task and wakes waiting tasks.

    Args:
        context: The objects that all batch jobs share.
        tag: The owner of the job.
        order: The job to submit; None for a job that is there already.
        job: The number of the job, if it is there already.

    Attributes:
        tag: The owner of the job.
        stage: Its stage.
        job: The number of the job, when it is known.
        last: The job as it was last seen.
        ends: How the members have ended, by number; exit statuses as a shell says them.
        trouble: Why there is no job, or none any more, if not for its own end.
        left: The members that have left: evicted, or never taken over.
        is_forgotten: Whether Slurm has forgotten the job, and so how it has ended.
    """

    def __init__(
        self,
        context: SlurmContext,
        tag: JobTag,
        order: JobSpec | None = None,
        job: JobRecord | None = None,
    ) -> None:
        self._context = context
        self._order = order
        self.tag = tag
        self.stage = JobStage.NEW
        self.job = None if job is None else job.id
        self.last: JobRecord | None = None
        self.ends: dict[int, int] = {}
        self.trouble: Exception | None = None
        self.left: set[int] = set()
        self.is_forgotten = False
        self._nodes = {} if order is None else {work.number: work.node for work in order.members}
        self._freed: set[str] = set()
        self._is_condemned = False
        self._changed = trio.Event()
        self._condemned = trio.Event()
        if job is not None:
            self._update(job)

    @property
    def is_gang(self) -> bool:
        """Whether the job has members that are job steps."""
        return self.tag.ask is None

    @property
    def is_over(self) -> bool:
        """Whether nothing of the job is left, or it never came to be."""
        return self.stage is JobStage.OVER

    def place(self, number: int, node: str) -> None:
        """Record the node of a member of a job that was there already."""
        self._nodes[number] = node

    @property
    def has_ended(self) -> bool:
        """Whether Slurm has reported its end, also if that was not processed yet."""
        return self.is_over or (self.last is not None and self.last.phase is JobPhase.ENDED)

    @property
    def is_condemned(self) -> bool:
        """Whether the job is to end as a whole."""
        return self._is_condemned

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that depends on this batch alone."""
        while not condition():
            await self._changed.wait()

    def leave(self, number: int) -> None:
        """Record that a member is not wanted any more; without members the job is to end.

        A gang whose job has not started is not to start in part: then the job is to end, too.
        """
        self.left.add(number)
        if self.stage in (JobStage.NEW, JobStage.SUBMITTED):
            self.condemn(JobLostError("another member of the gang has not started"))
        elif self.left | self.ends.keys() >= set(self.tag.numbers):
            self.condemn(JobLostError("nobody wants the job any more"))
        self._notify()

    def condemn(self, why: Exception) -> None:
        """End the job as a whole; :meth:`conduct` does it."""
        if self.trouble is None:
            self.trouble = why
        self._is_condemned = True
        self._condemned.set()
        self._notify()

    def fail(self, why: Exception) -> None:
        """Give up a batch that was never submitted."""
        self.condemn(why)
        self._move(JobStage.OVER)

    async def conduct(self) -> None:
        """Submit the job if it is not there, and follow it until nothing of it is left."""
        try:
            with self._context.watch.interest():
                if self.job is None:
                    await self._submit()
                if self.job is not None:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._end_when_condemned, self.job)
                        await self._follow(self.job)
                        nursery.cancel_scope.cancel()
        except SlurmError as error:
            self.trouble = error
        finally:
            self._move(JobStage.OVER)

    async def _submit(self) -> None:
        """Submit the job; once, whatever Slurm answers.

        Raises:
            SlurmError: If Slurm refuses it.
        """
        assert self._order is not None, "a job that is there is not submitted"
        command, script = (
            self._order.command(self._context.site),
            self._order.script(self._context.site),
        )
        # A program with another store may have had the same numbers.
        await trio.to_thread.run_sync(_remove, self._order.result_files(self._context.site))
        while not self._is_condemned:
            try:
                printed = await self._context.commands.run(command, script)
            except SilentError as error:
                _LOG.warning("the job of %s: %s", self.tag.text, error)
                # It may have been accepted all the same: only a list that is newer can tell.
                job = self._find_own(await self._context.watch.fresh())
                if job is None:
                    continue
                self.job = job.id
            else:
                self.job = _number(printed)
                if self.job is None:
                    job = self._find_own(await self._context.watch.fresh())
                    if job is None:
                        msg = f"sbatch: expected the number of a job, but got {printed!r}"
                        raise SlurmError(msg)
                    self.job = job.id
            self._move(JobStage.SUBMITTED)
            return

    def _find_own(self, jobs: Mapping[int, JobRecord]) -> JobRecord | None:
        """Return the job of this batch: the first one with its comment that is not older."""
        for job in sorted(jobs.values(), key=lambda job: job.id):
            comment = self._context.comment_of(job)
            if comment is None or comment.tag != self.tag or job.offset:
                continue
            if job.id not in self._context.foreign:
                return job
        return None

    async def _follow(self, number: int) -> None:
        """Wait until nothing of a job is left."""
        watch, missed = self._context.watch, 0
        since, jobs = watch.asked, watch.jobs
        while True:
            job = jobs.get(number)
            if job is not None:
                missed = 0
                self._update(job)
                if self._is_gone(number, jobs):
                    return
                await self._free_nodes(number, job, jobs)
            elif watch.answered > since:
                missed += 1
                if missed >= _MISSED:
                    self.is_forgotten = True
                    self.trouble = SlurmError(f"job {number}: Slurm does not know it any more")
                    return
            jobs = await watch.next()

    def _is_gone(self, number: int, jobs: Mapping[int, JobRecord]) -> bool:
        """Return whether a job has ended with all its components."""
        parts = [job for job in jobs.values() if number in (job.id, job.leader)]
        return all(job.phase is JobPhase.ENDED for job in parts)

    def _update(self, job: JobRecord) -> None:
        """Update the state from the record of the job in Slurm."""
        self.last = job
        comment = read_comment(job.comment)
        if comment is not None:
            is_running = job.phase is JobPhase.RUNNING
            for member, end in comment.ends.items():
                # A member that was lost with its node has not ended by itself.
                if is_running or end == 0 or job.state == "COMPLETED":
                    self.ends.setdefault(member, end)
        if job.phase is JobPhase.RUNNING and self.stage is not JobStage.OVER:
            self.stage = JobStage.RUNNING
        elif self.stage is JobStage.NEW:
            self.stage = JobStage.SUBMITTED
        self._notify()

    async def _end_when_condemned(self, number: int) -> None:
        await self._condemned.wait()
        while True:
            await self._context.try_run("scancel", str(number))
            await trio.sleep(_AGAIN_S)

    # Members of a gang

    async def signal(self, member: int, name: str) -> SignalResult:
        """Send a signal to a member.

        Returns:
            ``NOT_RUNNING`` if it does not run: its job step has not begun, or has just ended;
            ``NO_ANSWER`` if Slurm does not answer.
        """
        number = self.job
        if number is None or self.stage is not JobStage.RUNNING:
            return SignalResult.NOT_RUNNING
        option = f"--signal={name}"
        if not self.is_gang:
            return await self._sent("--batch", option, str(number))
        try:
            printed = await self._context.commands.run(
                ("squeue", "--steps", "--me", "-h", "-o", "%i|%j")
            )
        except SlurmError:
            return SignalResult.NO_ANSWER
        wanted = step_name(self.tag.namespace, member)
        for line in printed.splitlines():
            step, _, found = line.strip().partition("|")
            job = step.partition(".")[0].partition("+")[0]
            if found == wanted and self._has(int(job) if job.isdecimal() else 0):
                return await self._sent(option, step)
        return SignalResult.NOT_RUNNING

    async def _sent(self, *arguments: str) -> SignalResult:
        return (
            SignalResult.SENT
            if await self._context.try_run("scancel", *arguments)
            else SignalResult.NO_ANSWER
        )

    def _has(self, number: int) -> bool:
        job = self._context.watch.jobs.get(number)
        return number == self.job or (job is not None and job.leader == self.job)

    async def _free_nodes(self, number: int, job: JobRecord, jobs: Mapping[int, JobRecord]) -> None:
        """Give nodes back on which no member is left, if each is a component of its own.

        The first node stays until the end: the script runs there. (A job of one component could be
        made smaller instead; but Slurm without a database of accounts then takes no more comments.)
        """
        if not job.leader or self.stage is not JobStage.RUNNING or self._is_condemned:
            return
        if not set(self.tag.numbers) <= self._nodes.keys() | self.ends.keys():
            return  # a member may be on a node that is not known here
        live = {node for member, node in self._nodes.items() if member not in self.ends}
        ended = set(self._nodes.values()) - live - self._freed - {job.first_node}
        parts = {part.nodes: part.id for part in jobs.values() if part.leader == number}
        for node in ended & parts.keys():
            if await self._context.try_run("scancel", str(parts[node])):
                self._freed.add(node)

    def _move(self, stage: JobStage) -> None:
        self.stage = stage
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


def _number(printed: str) -> int | None:
    """Return the number of a job that ``sbatch --parsable`` has printed: ``17`` or ``17;cluster``.

    Output of a site's own filters may precede it.
    """
    last = printed.strip().rpartition("\n")[2]
    number = last.partition(";")[0]
    return int(number) if number.isdecimal() else None


def _remove(files: tuple[str, ...]) -> None:
    for file in files:
        with suppress(OSError):
            Path(file).unlink()


_BY_SIGNAL: Final = 128
_SIGNALS: Final = 64
_TERM_AGAIN_S: Final = 1.0
_KILL_AGAIN_S: Final = 5.0
_KILL_TRIES: Final = 12

_LOST: Final = frozenset({"NODE_FAIL", "BOOT_FAIL", "PREEMPTED"})
_NODE_LOST: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})


@final
@attrs.frozen
class JobResult:
    """The result of a command that has ended by itself.

    Attributes:
        status: Its exit status, or minus the number of the signal that ended it. (A shell says 128
            and the number; a status from 129 to 192 counts as that.)
        job: The number of the job of Slurm; None if only the file with the result was left.
    """

    status: int
    job: int | None = None


def is_node_lost(batch: BatchJob) -> bool:
    """Return whether a job was lost with its node."""
    return batch.last is not None and batch.last.state in _NODE_LOST


def result_of(batch: BatchJob, number: int) -> JobResult:
    """Return how the command of a member has ended.

    Raises:
        JobLostError: If the job was lost, or the gang has not started.
        SlurmError: If it has ended in another way.
    """
    end = batch.ends.get(number)
    if end is not None and batch.is_gang:
        if end == _BY_SIGNAL + NOT_THERE:
            raise _missing_files_error(batch)
        return JobResult(status_of(end), batch.job)
    if batch.trouble is not None:
        raise batch.trouble
    assert batch.last is not None, "a job that is over without trouble was seen"
    return _job_result(batch, batch.last)


def status_of(end: int) -> int:
    """Return an exit status as this program says it, from one as a shell says it."""
    return _BY_SIGNAL - end if _BY_SIGNAL < end <= _BY_SIGNAL + _SIGNALS else end


def _job_result(batch: BatchJob, job: JobRecord) -> JobResult:
    """Return how the one command of a job has ended.

    Raises:
        JobLostError: If the job was lost.
        SlurmError: If it has not ended by itself.
    """
    reason = "" if job.reason in ("", "None") else f" ({job.reason})"
    text = f"job {job.id}: {job.state}{reason}"
    if job.state in _LOST:
        raise JobLostError(text)
    if batch.is_gang and job.state in ("COMPLETED", "FAILED"):
        if job.status == -NOT_THERE:
            msg = f"{text}: its first node has no scontrol, or no room for temporary files"
            raise SlurmError(msg)
        msg = f"{text}: it did not say how this member of the gang has ended"
        raise SlurmError(msg)
    if job.state == "COMPLETED":
        return JobResult(0, job.id)
    if job.state != "FAILED":
        raise SlurmError(text)
    if job.status == -NOT_THERE:
        raise _missing_files_error(batch)
    if not job.status:
        msg = f"{text}: it could not be started"
        raise SlurmError(msg)
    return JobResult(status_of(job.status), job.id)


def _missing_files_error(batch: BatchJob) -> SlurmError:
    return SlurmError(
        f"job {batch.job}: the program, its working folder, its input or the folder of its output "
        "is not there on the node"
    )


async def evict(batch: BatchJob, number: int, grace_s: float) -> None:
    """End a member, and wait until nothing of it is left; alone, if others of its job go on.

    Args:
        batch: The job.
        number: The member.
        grace_s: How long it may take to end after SIGTERM, in seconds.
    """

    def is_gone() -> bool:
        return batch.is_over or (batch.is_gang and number in batch.ends)

    if batch.stage in (JobStage.NEW, JobStage.SUBMITTED):
        batch.leave(number)
        await batch.until(lambda: batch.is_over)
        return
    await _ask_to_end(batch, number, grace_s, is_gone)
    with trio.move_on_after(grace_s):
        await batch.until(is_gone)
    tries = 0
    while not is_gone():
        if not batch.is_gang or tries >= _KILL_TRIES:
            # A member that neither ends nor says so takes the others with it.
            batch.condemn(JobLostError("the job was ended"))
        elif await batch.signal(number, "KILL") is not SignalResult.NO_ANSWER:
            tries += 1
        with trio.move_on_after(_KILL_AGAIN_S):
            await batch.until(is_gone)
    batch.leave(number)
    if batch.is_condemned:  # it was the last one: the room is free when the job is gone
        await batch.until(lambda: batch.is_over)


async def _ask_to_end(
    batch: BatchJob, number: int, grace_s: float, is_gone: Callable[[], bool]
) -> None:
    """Send SIGTERM to a member, when Slurm answers and the member is there."""
    until = trio.current_time() + grace_s
    while not is_gone():
        sent = await batch.signal(number, "TERM")
        if sent is SignalResult.SENT or (
            sent is SignalResult.NOT_RUNNING and trio.current_time() >= until
        ):
            return
        with trio.move_on_after(_TERM_AGAIN_S):
            await batch.until(is_gone)


async def end_whole(batch: BatchJob, grace_s: float) -> None:
    """End all members of a job, and wait until nothing of it is left.

    Args:
        batch: The job.
        grace_s: How long they may take to end after SIGTERM, in seconds.
    """
    with trio.move_on_after(grace_s):
        if batch.stage is JobStage.RUNNING:
            for number in batch.tag.numbers:
                await batch.signal(number, "TERM")
            await batch.until(lambda: batch.is_over)
    batch.condemn(JobLostError("nobody wants the job any more"))
    await batch.until(lambda: batch.is_over)
