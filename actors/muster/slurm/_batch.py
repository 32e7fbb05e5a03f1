"""One job of Slurm and its members, from its submission until nothing of it is left."""

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

from muster.slurm._commands import Commands
from muster.slurm._errors import JobLostError, SilentError, SlurmError
from muster.slurm._texts.jobs import Job, Phase
from muster.slurm._texts.orders import Order, Site
from muster.slurm._texts.script import step_name
from muster.slurm._texts.tags import Comment, Tag, read_comment
from muster.slurm._watch import Watch

_LOG: Final = logging.getLogger("muster.slurm")

_MISSED: Final = 2
"""In how many lists in a row a job is missing before it is taken to be gone."""

_AGAIN_S: Final = 5.0
"""After how long a job that is to end is told so again, in seconds."""


class Stage(StrEnum):
    """Where a batch is in its life."""

    NEW = "new"
    SUBMITTED = "submitted"
    RUNNING = "running"
    OVER = "over"


class Sent(StrEnum):
    """What has become of a signal."""

    SENT = "sent"
    NOBODY = "nobody"
    UNHEARD = "unheard"


@final
@attrs.frozen
class Ground:
    """What all batches stand on.

    Attributes:
        commands: Runs Slurm's commands.
        watch: Keeps the list of jobs.
        site: How jobs are submitted.
        foreign: The numbers of jobs that an earlier program has submitted.
    """

    commands: Commands
    watch: Watch
    site: Site
    foreign: set[int]

    def comment_of(self, job: Job) -> Comment | None:
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
class Batch:
    """One job, and what is known of it.

    Its state changes in :meth:`conduct` alone, which is run as a task; who waits is told then.

    Args:
        ground: What it stands on.
        tag: Whose the job is.
        order: What to submit; None for a job that is there already.
        job: The number of the job, if it is there already.

    Attributes:
        tag: Whose the job is.
        stage: Where it is in its life.
        job: The number of the job, when it is known.
        last: The job as it was last seen.
        ends: How the members have ended, by number; exit statuses as a shell says them.
        trouble: Why there is no job, or none any more, if not for its own end.
        left: The members that have left: evicted, or never taken over.
        is_forgotten: Whether Slurm has forgotten the job, and so how it has ended.
    """

    def __init__(
        self, ground: Ground, tag: Tag, order: Order | None = None, job: Job | None = None
    ) -> None:
        self._ground = ground
        self._order = order
        self.tag = tag
        self.stage = Stage.NEW
        self.job = None if job is None else job.id
        self.last: Job | None = None
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
            self._see(job)

    @property
    def is_gang(self) -> bool:
        """Whether the job has members that are job steps."""
        return self.tag.ask is None

    @property
    def is_over(self) -> bool:
        """Whether nothing of the job is left, or it never came to be."""
        return self.stage is Stage.OVER

    def place(self, number: int, node: str) -> None:
        """Note on which node a member of a job is that was there already."""
        self._nodes[number] = node

    @property
    def has_ended(self) -> bool:
        """Whether Slurm has said that it has ended, also if that is not taken in yet."""
        return self.is_over or (self.last is not None and self.last.phase is Phase.ENDED)

    @property
    def is_condemned(self) -> bool:
        """Whether the job is to end as a whole."""
        return self._is_condemned

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that depends on this batch alone."""
        while not condition():
            await self._changed.wait()

    def leave(self, number: int) -> None:
        """Note that a member is not wanted any more; without members the job is to end.

        A gang whose job has not started is not to start in part: then the job is to end, too.
        """
        self.left.add(number)
        if self.stage in (Stage.NEW, Stage.SUBMITTED):
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
        self._move(Stage.OVER)

    async def conduct(self) -> None:
        """Submit the job if it is not there, and see to it until nothing of it is left."""
        try:
            with self._ground.watch.interest():
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
            self._move(Stage.OVER)

    async def _submit(self) -> None:
        """Submit the job; once, whatever Slurm answers.

        Raises:
            SlurmError: If Slurm refuses it.
        """
        assert self._order is not None, "a job that is there is not submitted"
        command, script = (
            self._order.command(self._ground.site),
            self._order.script(self._ground.site),
        )
        # A program with another store may have had the same numbers.
        await trio.to_thread.run_sync(_remove, self._order.result_files(self._ground.site))
        while not self._is_condemned:
            try:
                printed = await self._ground.commands.run(command, script)
            except SilentError as error:
                _LOG.warning("the job of %s: %s", self.tag.text, error)
                # It may have been accepted all the same: only a list that is newer can tell.
                job = self._own(await self._ground.watch.fresh())
                if job is None:
                    continue
                self.job = job.id
            else:
                self.job = _number(printed)
                if self.job is None:
                    job = self._own(await self._ground.watch.fresh())
                    if job is None:
                        msg = f"sbatch: expected the number of a job, but got {printed!r}"
                        raise SlurmError(msg)
                    self.job = job.id
            self._move(Stage.SUBMITTED)
            return

    def _own(self, jobs: Mapping[int, Job]) -> Job | None:
        """Return the job of this batch: the first one with its comment that is not older."""
        for job in sorted(jobs.values(), key=lambda job: job.id):
            comment = self._ground.comment_of(job)
            if comment is None or comment.tag != self.tag or job.offset:
                continue
            if job.id not in self._ground.foreign:
                return job
        return None

    async def _follow(self, number: int) -> None:
        """Wait until nothing of a job is left."""
        watch, missed = self._ground.watch, 0
        since, jobs = watch.asked, watch.jobs
        while True:
            job = jobs.get(number)
            if job is not None:
                missed = 0
                self._see(job)
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

    def _is_gone(self, number: int, jobs: Mapping[int, Job]) -> bool:
        """Return whether a job has ended with all its components."""
        parts = [job for job in jobs.values() if number in (job.id, job.leader)]
        return all(job.phase is Phase.ENDED for job in parts)

    def _see(self, job: Job) -> None:
        """Take in what Slurm says of the job."""
        self.last = job
        comment = read_comment(job.comment)
        if comment is not None:
            is_running = job.phase is Phase.RUNNING
            for member, end in comment.ends.items():
                # What a node takes with it has not ended by itself.
                if is_running or end == 0 or job.state == "COMPLETED":
                    self.ends.setdefault(member, end)
        if job.phase is Phase.RUNNING and self.stage is not Stage.OVER:
            self.stage = Stage.RUNNING
        elif self.stage is Stage.NEW:
            self.stage = Stage.SUBMITTED
        self._notify()

    async def _end_when_condemned(self, number: int) -> None:
        await self._condemned.wait()
        while True:
            await self._ground.try_run("scancel", str(number))
            await trio.sleep(_AGAIN_S)

    # Members of a gang

    async def signal(self, member: int, name: str) -> Sent:
        """Send a signal to a member.

        Returns:
            ``NOBODY`` if it does not run: its job step has not begun, or has just ended;
            ``UNHEARD`` if Slurm does not answer.
        """
        number = self.job
        if number is None or self.stage is not Stage.RUNNING:
            return Sent.NOBODY
        option = f"--signal={name}"
        if not self.is_gang:
            return await self._sent("--batch", option, str(number))
        try:
            printed = await self._ground.commands.run(
                ("squeue", "--steps", "--me", "-h", "-o", "%i|%j")
            )
        except SlurmError:
            return Sent.UNHEARD
        wanted = step_name(self.tag.namespace, member)
        for line in printed.splitlines():
            step, _, found = line.strip().partition("|")
            job = step.partition(".")[0].partition("+")[0]
            if found == wanted and self._has(int(job) if job.isdecimal() else 0):
                return await self._sent(option, step)
        return Sent.NOBODY

    async def _sent(self, *arguments: str) -> Sent:
        return Sent.SENT if await self._ground.try_run("scancel", *arguments) else Sent.UNHEARD

    def _has(self, number: int) -> bool:
        job = self._ground.watch.jobs.get(number)
        return number == self.job or (job is not None and job.leader == self.job)

    async def _free_nodes(self, number: int, job: Job, jobs: Mapping[int, Job]) -> None:
        """Give nodes back on which no member is left, if each is a component of its own.

        The first node stays until the end: the script runs there. (A job of one component could be
        made smaller instead; but Slurm without a database of accounts then takes no more comments.)
        """
        if not job.leader or self.stage is not Stage.RUNNING or self._is_condemned:
            return
        if not set(self.tag.numbers) <= self._nodes.keys() | self.ends.keys():
            return  # somebody may be on a node that is not known here
        live = {node for member, node in self._nodes.items() if member not in self.ends}
        ended = set(self._nodes.values()) - live - self._freed - {job.first_node}
        parts = {part.nodes: part.id for part in jobs.values() if part.leader == number}
        for node in ended & parts.keys():
            if await self._ground.try_run("scancel", str(parts[node])):
                self._freed.add(node)

    def _move(self, stage: Stage) -> None:
        self.stage = stage
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


def _number(printed: str) -> int | None:
    """Return the number of a job that ``sbatch --parsable`` has printed: ``17`` or ``17;cluster``.

    What a site's own filters print may stand before it.
    """
    last = printed.strip().rpartition("\n")[2]
    number = last.partition(";")[0]
    return int(number) if number.isdecimal() else None


def _remove(files: tuple[str, ...]) -> None:
    for file in files:
        with suppress(OSError):
            Path(file).unlink()
