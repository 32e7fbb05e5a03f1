"""The commands of Slurm: how they are run, and the list of jobs that ``squeue --json`` prints.

It tells a refusal from a silence, and hides the differences in the fields of jobs between versions
of Slurm. All jobs are asked for once a second while a task is interested.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final, cast, final

import attrs
import trio

from muster._errors import NotStartedError
from muster_core.errors import MusterError


class SlurmError(MusterError):
    """Slurm cannot be used, or has refused or ended a job; the message is that of Slurm."""


@final
class SilentError(SlurmError):
    """Slurm's controller does not answer.

    Only :func:`muster.slurm.connect` raises it. Later on a silence changes nothing: what runs goes
    on, and what is asked for waits.
    """


@final
class JobLostError(NotStartedError):
    """A job was lost through no fault of its ask: with its node, or preempted in Slurm.

    A member of a gang raises it as well when another member could not start. It does not count
    for ``bind_attempts``.
    """


NEEDED: Final = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
"""The commands that are used."""

_PATIENCE_S: Final = 120.0
"""The time limit of a command, in seconds; sbatch itself tries for a minute and more."""

_AT_ONCE: Final = 8
"""The most commands that run at once: each of them is a connection to slurmctld."""

# What the commands print when slurmctld is away, is starting, or has not answered in time. With
# all of these it is unknown whether a request was carried out.
_SILENT: Final = re.compile(
    r"unable to contact slurm controller"
    r"|unable to establish controller machine"
    r"|connect failure"
    r"|communication connection failure"
    r"|message (send|receive) failure"
    r"|socket timed out"
    r"|timed out"
    r"|connection (refused|reset|timed out)"
    r"|zero bytes were transmitted"
    r"|transport endpoint"
    r"|controller in standby"
    r"|standby mode"
    r"|temporarily unable"
    r"|resource temporarily unavailable"
    r"|unexpected message received"
    r"|authentication (error|failure)"
    r"|auth.*credential",
    re.IGNORECASE,
)

_ORDERS: Final = frozenset({"sbatch", "scancel"})
"""The commands that change what runs."""

# Filters and questions that the environment could ask for: the answers would be incomplete.
_DROPPED: Final = re.compile(r"(SQUEUE|SCANCEL|SINFO)_.*|SBATCH_(WAIT|ARRAY_INX|TEST_ONLY)")


@final
class SlurmCommands:
    """Runs Slurm's commands, with the environment of this program.

    Attributes:
        is_over: Set when another server leads: then nothing is submitted or ended any more.
    """

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self._limiter = trio.CapacityLimiter(_AT_ONCE)

    def check(self) -> None:
        """Check that the commands are there.

        Raises:
            SlurmError: If one is missing.
        """
        missing = [name for name in NEEDED if shutil.which(name) is None]
        if missing:
            msg = (
                f"{', '.join(missing)}: not in PATH; install the client commands of Slurm on this "
                "machine (in Debian: slurm-client), and see that slurm.conf is found"
            )
            raise SlurmError(msg)

    async def run(self, command: Sequence[str], given: str = "") -> str:
        """Run a command.

        Args:
            command: Its name and arguments.
            given: Its standard input.

        Returns:
            Its output.

        Raises:
            SilentError: If slurmctld does not answer; it may have carried out the request. Or if
                it is not asked to, as another server leads.
            SlurmError: If the command has failed otherwise, and so has done nothing.
        """
        async with self._limiter:
            if self.is_over.is_set() and command[0] in _ORDERS:  # REPLICA-16
                msg = f"{command[0]}: another server leads"
                raise SilentError(msg)
            try:
                with trio.fail_after(_PATIENCE_S):
                    done = await trio.run_process(
                        list(command),
                        # As the names of files are encoded, which may be no text.
                        stdin=given.encode(errors="surrogateescape"),
                        capture_stdout=True,
                        capture_stderr=True,
                        check=False,
                        env=_environment(os.environ),
                    )
            except OSError as error:
                msg = f"{command[0]}: {error.strerror or error}"
                raise SlurmError(msg) from None
            except ValueError as error:  # a character that no argument can have
                msg = f"{command[0]}: {error}"
                raise SlurmError(msg) from None
            except trio.TooSlowError:
                msg = f"{command[0]}: not done after {_PATIENCE_S:g} s"
                raise SilentError(msg) from None
        return _checked_output(command[0], done)


def _environment(of_program: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: English messages, no filters."""
    kept = {name: value for name, value in of_program.items() if not _DROPPED.fullmatch(name)}
    return {**kept, "LC_ALL": "C.UTF-8"}


def _checked_output(name: str, done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the output of a command.

    Raises:
        SilentError: If slurmctld did not answer.
        SlurmError: If it has failed otherwise.
    """
    trouble = "; ".join(done.stderr.decode(errors="replace").strip().splitlines())
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    text = f"{name}: {trouble or f'exit status {done.returncode}'}"
    if _SILENT.search(trouble) or done.returncode < 0:
        raise SilentError(text)
    raise SlurmError(text)


class JobPhase(StrEnum):
    """The phase of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    UNKNOWN = "unknown"


_ENDED: Final = frozenset(
    {
        "COMPLETED",
        "FAILED",
        "TIMEOUT",
        "CANCELLED",
        "PREEMPTED",
        "NODE_FAIL",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "REVOKED",
    }
)
_ENDING: Final = frozenset({"COMPLETING", "STAGE_OUT"})
_WAITING: Final = frozenset(
    {
        "PENDING",
        "CONFIGURING",
        "POWER_UP_NODE",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
    }
)
_RUNNING: Final = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})


@final
@attrs.frozen
class JobRecord:
    """A job, or one component of a heterogeneous job.

    Attributes:
        id: Its number.
        phase: Its phase.
        state: Slurm's state: ``RUNNING``, ``NODE_FAIL``, ….
        reason: Slurm's reason for this state.
        status: The exit status of the script, or minus the number of the signal that ended it.
        comment: Its comment.
        nodes: Its nodes, as Slurm writes them: ``n[1-3]``.
        first_node: The node on which the script runs.
        leader: The number of the first component, for a heterogeneous job; else 0.
        offset: The place among the components.
        user: The number of its user; None if it is not known.
    """

    id: int
    phase: JobPhase
    state: str
    reason: str = ""
    status: int | None = None
    comment: str = ""
    nodes: str = ""
    first_node: str = ""
    leader: int = 0
    offset: int = 0
    user: int | None = None


def read_jobs(printed: str) -> dict[int, JobRecord]:
    """Read the output of ``squeue --json``.

    Raises:
        SilentError: If it says that there was an error. When slurmctld is away, squeue 22.05 prints
            an empty list beside the error, and its exit status is 0.
        SlurmError: If it is not a list of jobs.
    """
    try:
        whole: Any = json.loads(printed)
    except ValueError:
        whole = None
    known = cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}
    jobs: Any = known.get("jobs")
    if not isinstance(jobs, list):
        start = printed[:60]
        msg = f"squeue: expected a map with a list of jobs, as --json prints it, but got {start!r}"
        raise SlurmError(msg)
    if known.get("errors"):
        msg = f"squeue: {json.dumps(known['errors'])}"
        raise SilentError(msg)
    read = (
        _job(cast("Mapping[str, Any]", one))
        for one in cast("list[object]", jobs)
        if isinstance(one, dict)
    )
    return {job.id: job for job in read if job is not None}


def _job(written: Mapping[str, Any]) -> JobRecord | None:
    number = _number(written.get("job_id"))
    if number is None:
        return None
    states = _states(written.get("job_state"))
    return JobRecord(
        id=number,
        phase=phase_of(states),
        state=next((state for state in states if state in _ENDED), states[0] if states else ""),
        reason=_text(written.get("state_reason")),
        status=_status(written.get("exit_code")),
        comment=_text(written.get("comment")),
        nodes=_text(written.get("nodes")),
        first_node=_text(written.get("batch_host")),
        leader=_number(written.get("het_job_id")) or 0,
        offset=_number(written.get("het_job_offset")) or 0,
        user=_number(written.get("user_id")),
    )


def phase_of(states: tuple[str, ...]) -> JobPhase:
    """Return the phase of a job with these states."""
    for names, phase in (
        (_ENDING, JobPhase.ENDING),
        (_ENDED, JobPhase.ENDED),
        (_WAITING, JobPhase.WAITING),
        (_RUNNING, JobPhase.RUNNING),
    ):
        if not names.isdisjoint(states):
            return phase
    return JobPhase.UNKNOWN


def _states(written: object) -> tuple[str, ...]:
    if isinstance(written, str):
        return tuple(written.upper().split("+"))
    if isinstance(written, list):
        return tuple(str(one).upper() for one in cast("list[object]", written))
    return ()


def _text(written: object) -> str:
    if isinstance(written, dict):  # some versions: {"administrator": …, "job": …, "system": …}
        written = cast("dict[str, object]", written).get("job")
    return written if isinstance(written, str) else ""


def _number(written: object) -> int | None:
    if isinstance(written, dict):
        found = cast("dict[str, object]", written)
        return _number(found.get("number")) if found.get("set", True) else None
    if isinstance(written, int) and not isinstance(written, bool):
        return written
    return None


def _status(written: object) -> int | None:
    """Return an exit status, or minus the number of a signal."""
    if not isinstance(written, dict):
        wait_status = _number(written)
        return None if wait_status is None else _of_wait_status(wait_status)
    found = cast("dict[str, object]", written)
    signal: object = found.get("signal")
    if isinstance(signal, dict):
        named = cast("dict[str, object]", signal)
        signal = named.get("id", named.get("signal_id"))
    number = _number(signal)
    if number:
        return -number
    return _number(found.get("return_code"))


def _of_wait_status(wait_status: int) -> int | None:
    try:
        return os.waitstatus_to_exitcode(wait_status & 0xFFFF)
    except ValueError:
        return None


_LOG: Final = logging.getLogger("muster.slurm")

LIST: Final = ("squeue", "--json", "--states=all", "--me")


@final
class JobWatch:
    """Keeps the last list of jobs.

    Args:
        commands: Runs the commands.
        every_s: How often to ask at most, in seconds.

    Attributes:
        jobs: The jobs of this user, by number.
        asked: How many questions were asked.
        answered: Which of them was the last one with an answer.
        on_answer: Called after each answer, before the waiting tasks go on.
    """

    def __init__(self, commands: SlurmCommands, every_s: float) -> None:
        self._commands = commands
        self._every_s = every_s
        self._interested = 0
        self._wake = trio.Event()
        self._next_answer = trio.Event()
        self.jobs: Mapping[int, JobRecord] = {}
        self.asked = 0
        self.answered = 0
        self.on_answer: Callable[[], None] = _nothing
        self._is_silent = False

    @property
    def is_silent(self) -> bool:
        """Whether the last question had no answer."""
        return self._is_silent

    @contextmanager
    def interest(self) -> Generator[None, None, None]:
        """Ask for the time of a block."""
        self._interested += 1
        self._wake.set()
        try:
            yield
        finally:
            self._interested -= 1

    async def ask(self) -> None:
        """Ask once, and wake the waiting tasks.

        Raises:
            SlurmError: If there is no answer.
        """
        self.asked += 1
        number = self.asked
        jobs = read_jobs(await self._commands.run(LIST))
        self.jobs, self.answered = jobs, number
        self.on_answer()
        waiting, self._next_answer = self._next_answer, trio.Event()
        waiting.set()

    async def run(self) -> None:
        """Ask again and again while a task is interested."""
        while True:
            while not self._interested:
                self._wake = trio.Event()
                await self._wake.wait()
            next_s = trio.current_time() + self._every_s
            try:
                await self.ask()
            except SlurmError as error:
                if not self._is_silent:
                    _LOG.warning("Slurm does not answer; all that runs is kept: %s", error)
                self._is_silent = True
            else:
                if self._is_silent:
                    _LOG.warning("Slurm answers again")
                self._is_silent = False
            await trio.sleep_until(next_s)

    async def next(self) -> Mapping[int, JobRecord]:
        """Return the next list of jobs; for use in a block of :meth:`interest`."""
        await self._next_answer.wait()
        return self.jobs

    async def fresh(self) -> Mapping[int, JobRecord]:
        """Return a list that was asked for after this call, however long that takes."""
        asked = self.asked
        with self.interest():
            while self.answered <= asked:
                await self._next_answer.wait()
        return self.jobs


def _nothing() -> None:
    """Do nothing."""
