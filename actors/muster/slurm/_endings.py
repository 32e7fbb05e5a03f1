"""What the end of a job means for the member of it that an allocation is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import attrs
import trio

from muster.slurm._batch import Batch, Sent, Stage
from muster.slurm._errors import JobLostError, SlurmError
from muster.slurm._texts.jobs import Job
from muster.slurm._texts.script import NOT_THERE

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
    """How a command has ended by itself.

    Attributes:
        status: Its exit status, or minus the number of the signal that ended it. (A shell says 128
            and the number; a status from 129 to 192 counts as that.)
        job: The number of the job of Slurm; None if only the file with the result was left.
    """

    status: int
    job: int | None = None


def is_node_lost(batch: Batch) -> bool:
    """Return whether a job was lost with its node."""
    return batch.last is not None and batch.last.state in _NODE_LOST


def result_of(batch: Batch, number: int) -> JobResult:
    """Return how the command of a member has ended.

    Raises:
        JobLostError: If the job was lost, or the gang has not started.
        SlurmError: If it has ended in another way.
    """
    end = batch.ends.get(number)
    if end is not None and batch.is_gang:
        if end == _BY_SIGNAL + NOT_THERE:
            raise _not_there(batch)
        return JobResult(status_of(end), batch.job)
    if batch.trouble is not None:
        raise batch.trouble
    assert batch.last is not None, "a job that is over without trouble was seen"
    return _judge(batch, batch.last)


def status_of(end: int) -> int:
    """Return an exit status as this program says it, from one as a shell says it."""
    return _BY_SIGNAL - end if _BY_SIGNAL < end <= _BY_SIGNAL + _SIGNALS else end


def _judge(batch: Batch, job: Job) -> JobResult:
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
        raise _not_there(batch)
    if not job.status:
        msg = f"{text}: it could not be started"
        raise SlurmError(msg)
    return JobResult(status_of(job.status), job.id)


def _not_there(batch: Batch) -> SlurmError:
    return SlurmError(
        f"job {batch.job}: the program, its working folder, its input or the folder of its output "
        "is not there on the node"
    )


async def evict(batch: Batch, number: int, grace_s: float) -> None:
    """End a member, and wait until nothing of it is left; alone, if others of its job go on.

    Args:
        batch: The job.
        number: The member.
        grace_s: How long it may take to end after SIGTERM, in seconds.
    """

    def is_gone() -> bool:
        return batch.is_over or (batch.is_gang and number in batch.ends)

    if batch.stage in (Stage.NEW, Stage.SUBMITTED):
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
        elif await batch.signal(number, "KILL") is not Sent.UNHEARD:
            tries += 1
        with trio.move_on_after(_KILL_AGAIN_S):
            await batch.until(is_gone)
    batch.leave(number)
    if batch.is_condemned:  # it was the last one: the room is free when the job is gone
        await batch.until(lambda: batch.is_over)


async def _ask_to_end(
    batch: Batch, number: int, grace_s: float, is_gone: Callable[[], bool]
) -> None:
    """Send SIGTERM to a member, when Slurm answers and the member is there."""
    until = trio.current_time() + grace_s
    while not is_gone():
        sent = await batch.signal(number, "TERM")
        if sent is Sent.SENT or (sent is Sent.NOBODY and trio.current_time() >= until):
            return
        with trio.move_on_after(_TERM_AGAIN_S):
            await batch.until(is_gone)


async def end_whole(batch: Batch, grace_s: float) -> None:
    """End all members of a job, and wait until nothing of it is left.

    Args:
        batch: The job.
        grace_s: How long they may take to end after SIGTERM, in seconds.
    """
    with trio.move_on_after(grace_s):
        if batch.stage is Stage.RUNNING:
            for number in batch.tag.numbers:
                await batch.signal(number, "TERM")
            await batch.until(lambda: batch.is_over)
    batch.condemn(JobLostError("nobody wants the job any more"))
    await batch.until(lambda: batch.is_over)
