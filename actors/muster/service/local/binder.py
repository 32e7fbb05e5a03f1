"""The binder that runs the commands of asks on this machine, as whom and in which environment."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster._errors import BrokenSchedulerError, ClosedSchedulerError, StoreError
from muster.service.local import jobs
from muster.service.local.cgroups import Cgroups
from muster.service.local.jobs import CommandResult, Identity, Job, JobSpec, OutputFiles
from muster.service.local.machine import variables
from muster_core.errors import MusterError
from muster_core.events import Outcome, Work
from muster_core.values.devices import DeviceStock

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation


EVERYBODY: Final = "*"
"""Stands for all submitters that are not named."""

_SECRETS: Final = frozenset({"MUSTER_TOKEN"})
"""What the service may have in its environment, and no command gets."""

_FOR_OTHERS: Final = ("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""What the command of another user gets from the environment of the service."""


@final
@attrs.frozen
class CommandContext:
    """What a command depends on besides its allocation.

    Attributes:
        submitter: The user of the application; None if it is gone.
        devices: The devices of the node by type; none if it is gone.
    """

    submitter: str | None
    devices: Mapping[str, DeviceStock]


class RunAsError(MusterError):
    """Commands cannot run as the users that were named."""


# LOCAL-12
def identities(run_as: tuple[tuple[str, str], ...]) -> dict[str, Identity]:
    """Return the users as whom commands run, by the submitter; ``*`` for all others.

    Raises:
        RunAsError: If a user is unknown, or only root may run commands as this user.
    """
    found = {submitter: _identity(user) for submitter, user in run_as}
    for identity in found.values():
        if not identity.is_own and os.geteuid() != 0:
            own = pwd.getpwuid(os.geteuid()).pw_name
            msg = (
                f"--run-as {identity.name}: only root can run commands as another user, and the "
                f"service runs as {own!r}: start it as root, or use --trust-submitters"
            )
            raise RunAsError(msg)
    return found


def _identity(user: str) -> Identity:
    try:
        known = pwd.getpwnam(user)
    except KeyError:
        msg = f"--run-as {user}: there is no such user on this machine"
        raise RunAsError(msg) from None
    return Identity(
        known.pw_name,
        known.pw_uid,
        known.pw_gid,
        tuple(os.getgrouplist(known.pw_name, known.pw_gid)),
        known.pw_dir,
        known.pw_shell,
        known.pw_uid == os.geteuid(),
    )


def identity_for(known: Mapping[str, Identity], submitter: str | None) -> Identity | None:
    """Return the user as whom the commands of a submitter run; None for that of the service.

    Raises:
        PermissionError: If none is named for this submitter.
    """
    if not known:
        return None
    found = known.get(submitter or "") or known.get(EVERYBODY)
    if found is None:
        msg = f"--run-as names no user for the submitter {submitter!r}"
        raise PermissionError(msg)
    return found


def home_of(identity: Identity) -> Path:
    """Return the folder where the commands of a user begin."""
    home = Path(identity.home)
    return home if home.is_dir() else Path("/")


# LOCAL-4
def environment(
    allocation: Allocation,
    own_variables: Mapping[str, str],
    identity: Identity | None,
    devices: Mapping[str, DeviceStock],
    more: Mapping[str, str],
) -> dict[str, str]:
    """Return the environment of a command.

    Args:
        allocation: Its allocation.
        own_variables: The variables that the ask names.
        identity: The user as whom it runs, or None for that of the service.
        devices: The devices of its node, by type.
        more: The variables that the service adds.
    """
    if identity is None or identity.is_own:
        base = {name: text for name, text in os.environ.items() if name not in _SECRETS}
    else:
        base = {
            name: text
            for name, text in os.environ.items()
            if name in _FOR_OTHERS or name.startswith("LC_")
        }
        base |= {
            "HOME": identity.home,
            "SHELL": identity.shell,
            "USER": identity.name,
            "LOGNAME": identity.name,
        }
    own = {
        "MUSTER_APP": allocation.app,
        "MUSTER_ASK": allocation.ask,
        "MUSTER_NODE": allocation.node,
        "MUSTER_QUEUE": allocation.queue,
    }
    return {**base, **own_variables, **own, **variables(allocation.devices, devices), **more}


_CLOSING_GRACE_S: Final = 3.0
"""How long commands may take to end when the service ends, in seconds: it has ten in all."""

_SHELL: Final = "/bin/sh"

ContextReader = Callable[["Allocation"], Awaitable[CommandContext]]
"""Returns what the command of an allocation depends on besides."""


class LostJobError(Exception):
    """It is unknown how the command of an ask ended; the work begins again."""


@final
@attrs.frozen
class BinderSettings:
    """Where and how commands run.

    Attributes:
        folder: The folder of the records and the files with output.
        lasts: Whether it is a state directory, so that jobs can be found again.
        log_bytes: How much of the output of each start is kept, in bytes.
        grace_s: How long a command may take to end after SIGTERM, in seconds; then it is killed.
        end_jobs: Whether commands are ended when the service ends.
        identities: The users as whom commands run, by submitter; empty for that of the service.
        cgroups: The cgroups in which commands run, or None.
    """

    folder: Path
    lasts: bool
    log_bytes: int
    grace_s: float
    end_jobs: bool
    identities: Mapping[str, Identity]
    cgroups: Cgroups | None


@final
class LocalBinder:
    """Runs the command of each bound ask; an ask without a command waits for its end by events.

    Its jobs go on when it is cancelled because the scheduler is closed, if they can be found
    again. Nothing is read or written before the scheduler holds its state directory.

    Args:
        setting: Where and how commands run.

    Attributes:
        logs: The files with the output.
    """

    def __init__(self, setting: BinderSettings) -> None:
        self._setting = setting
        self.logs = OutputFiles(setting.folder / "logs")
        self._records = setting.folder / "jobs"
        #: The jobs that are not over, by the number of the allocation.
        self._jobs: dict[int, Job] | None = None
        #: The jobs that were found at the start, and not resumed yet.
        self._found: dict[int, Job] = {}
        self._ready = trio.Event()
        self._server = ""
        self._read_context: ContextReader | None = None
        # A keeper with the other end ends its job when this process is gone, however it ends.
        self._leash = None if setting.lasts else os.pipe()

    @property
    def has_run_before(self) -> bool:
        """Whether commands ran in this folder before."""
        return self._records.exists()

    def close(self) -> None:
        """Give back what it holds; its tasks have ended."""
        for end in self._leash or ():
            os.close(end)
        if self._setting.cgroups is not None:
            self._setting.cgroups.close()

    def serve(self, server: str, read_context: ContextReader) -> None:
        """Let jobs start: the service can be reached.

        Args:
            server: The address of the service.
            read_context: Returns what the command of an allocation depends on besides.
        """
        self._server = server
        self._read_context = read_context
        self._ready.set()

    # LOCAL-1
    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the command of an ask; see :class:`muster.Binder`.

        Raises:
            OSError: If it cannot be started, or no user is named for the submitter.
        """
        work = allocation.work
        if work is None or work.command is None:
            await hold_allocation(started)
            return
        await self._ready.wait()
        await self._end_earlier(allocation)
        assert self._read_context is not None, "it is there when jobs may start"
        context = await self._read_context(allocation)
        identity = identity_for(self._setting.identities, context.submitter)
        job: Job | None = None
        with trio.CancelScope(shield=True):  # short; otherwise a job could get lost
            job = await self._start(allocation, work, identity, context)
        assert job is not None, "a shield catches nothing"
        started()
        await self._follow(allocation, job)

    # LOCAL-8
    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Find the job of an allocation again; see :class:`muster.ResumingBinder`.

        Raises:
            LostJobError: If it is gone without a trace.
        """
        if allocation.work is None or allocation.work.command is None:
            await hold_allocation(started)
            return
        job = (await self._known()).get(allocation.number)
        self._found.pop(allocation.number, None)
        if job is None or (job.app, job.ask) != (allocation.app, allocation.ask):
            msg = "its command had not started, or the machine has started again since"
            raise LostJobError(msg)
        started()
        await self._follow(allocation, job)

    async def end_orphans(self, bound: set[int]) -> None:
        """End the jobs that were found at the start and whose allocations have ended since.

        Args:
            bound: The numbers of all allocations of bound asks.
        """
        await self._known()
        orphans = [job for number, job in self._found.items() if number not in bound]
        async with trio.open_nursery() as nursery:
            for job in orphans:
                nursery.start_soon(self._end, job)

    async def prune(self, keep_us: int) -> None:
        """Remove the output of jobs that ended longer ago than so many microseconds."""
        before_us = time.time_ns() // 1000 - keep_us
        await trio.to_thread.run_sync(self.logs.prune, before_us)

    async def _known(self) -> dict[int, Job]:
        """Return the jobs that are not over."""
        if self._jobs is None:
            for folder in (self._records, self._setting.folder / "logs"):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._jobs = {job.number: job for job in jobs.jobs_in(self._records)}
            if self._setting.cgroups is not None:
                self._setting.cgroups.clean(self._jobs)
            self._found = dict(self._jobs)
        return self._jobs

    # LOCAL-9
    async def _end_earlier(self, allocation: Allocation) -> None:
        """End what may be left of earlier jobs of the same ask."""
        name = (allocation.app, allocation.ask)
        for job in [job for job in (await self._known()).values() if (job.app, job.ask) == name]:
            await self._end(job)

    async def _start(
        self, allocation: Allocation, work: Work, identity: Identity | None, context: CommandContext
    ) -> Job:
        """Start the command of an ask.

        Raises:
            OSError: If it cannot be started.
        """
        known = await self._known()
        job = await trio.to_thread.run_sync(self._record, allocation, work, identity, context)
        known[job.number] = job
        try:
            await jobs.start(job, None if self._leash is None else self._leash[0])
        except BaseException:
            await self._end(job)
            raise
        return job

    def _record(
        self, allocation: Allocation, work: Work, identity: Identity | None, context: CommandContext
    ) -> Job:
        """Write the record of a new job; in a thread."""
        attempt = self.logs.begin(allocation.app, allocation.ask)
        command = work.argv or (_SHELL, "-c", work.shell or "")
        more = {
            "MUSTER_ATTEMPT": str(attempt.number),
            "MUSTER_SERVER": self._server,
            "MUSTER_JOB": str(self._records / str(allocation.number)),
        }
        about = {
            "app": allocation.app,
            "ask": allocation.ask,
            "number": allocation.number,
            "attempt": attempt.number,
            "node": allocation.node,
            "queue": allocation.queue,
            "devices": {kind: list(numbers) for kind, numbers in allocation.devices.items()},
            "user": None if identity is None else identity.name,
            "command": work.shell if work.shell is not None else list(work.argv),
        }
        own = Path.cwd() if identity is None or identity.is_own else home_of(identity)
        cgroups = self._setting.cgroups
        order = JobSpec(
            command,
            environment(allocation, work.env, identity, context.devices, more),
            str(own / work.workdir) if work.workdir is not None else str(own),
            identity,
            about,
            attempt.output.absolute(),
            self._setting.log_bytes,
            attempt.report.absolute(),
            self._setting.grace_s,
            None if cgroups is None else cgroups.make(allocation.number, allocation.resources),
        )
        return jobs.record(self._records, order)

    async def _follow(self, allocation: Allocation, job: Job) -> None:
        """Wait until a job is over, and report how it ended.

        Raises:
            LostJobError: If that is unknown.
        """
        try:
            await jobs.wait_for_end(job)
        except trio.Cancelled:
            is_left = self._setting.lasts and not self._setting.end_jobs
            if allocation.ending != "closing" or not is_left:
                with trio.CancelScope(shield=True):
                    await self._end(job, is_closing=allocation.ending == "closing")
            raise
        is_reported = False
        with trio.CancelScope(shield=True):  # short; otherwise the end could get lost
            result = await trio.to_thread.run_sync(job.result)
            if result is None or result.error is not None:
                await self._end(job)
                what = None if result is None else result.error
                raise LostJobError(what or "its command was ended together with its keeper")
            is_reported = await _report(allocation, result)
            if is_reported:
                await self._forget(job)
        if not is_reported:
            await trio.sleep_forever()  # until the scheduler has closed

    async def _end(self, job: Job, *, is_closing: bool = False) -> None:
        """End a job, if it has not ended, and remove its record."""
        grace_s = self._setting.grace_s
        await jobs.end(job, min(grace_s, _CLOSING_GRACE_S) if is_closing else grace_s)
        await self._forget(job)

    async def _forget(self, job: Job) -> None:
        await trio.to_thread.run_sync(job.remove)
        (await self._known()).pop(job.number, None)
        self._found.pop(job.number, None)


# LOCAL-2
async def hold_allocation(started: Callable[[], None]) -> None:
    """Keep an allocation whose work is done elsewhere, until it ends by events."""
    started()
    await trio.sleep_forever()


# LOCAL-3
async def _report(allocation: Allocation, result: CommandResult) -> bool:
    """Report how a job ended; return whether that is kept.

    The scheduler would learn of it as well if the binder returned or raised. But the record of the
    job must stay until the end is kept, or a job that has completed could begin again.
    """
    outcome = Outcome.COMPLETED if result.failure is None else Outcome.FAILED
    try:
        await allocation.release(outcome, result.failure, result.exited)
    except (ClosedSchedulerError, BrokenSchedulerError, StoreError):
        return False
    return True
