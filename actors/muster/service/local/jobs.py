"""Jobs by their records: started, found again, followed and ended; and the files of their output.

These files are ``logs/APP/ASK/N.log``. The names of applications and asks may have any character but
``/``, so they are written with ``%`` as in addresses. The starts of an ask are counted from 1, as long
as its files are there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast, final
from urllib.parse import quote

import attrs
import trio
import trio.lowlevel

from muster import _keeper as keeper
from muster.subprocesses import end_group, ended, members_of
from muster_core.events import Exit

_STARTING_S: Final = 60.0
"""How long a keeper may take to answer, in seconds: as long as a slow file system, say."""

_FOR_PYTHON: Final = ("LD_LIBRARY_PATH", "SYSTEMROOT")
"""What the interpreter of a keeper may need of the environment; the rest is none of its business."""

_POLL_S: Final = 0.05
"""How long to wait between looks at a keeper that has not noted its process yet, in seconds."""

_MARGIN_S: Final = 2.0
"""How long a keeper may take to kill its job and to end, in seconds."""


@final
@attrs.frozen
class Identity:
    """The user as whom a command runs.

    Attributes:
        name: The name of the user.
        uid: Its number.
        gid: The number of its group.
        groups: The numbers of all its groups.
        home: Its home folder.
        shell: Its shell.
        is_own: Whether it is the user of the service, so that nothing has to change.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    is_own: bool


@final
@attrs.frozen
class JobSpec:
    """What is to run.

    Attributes:
        command: The program with its arguments.
        env: The whole environment.
        workdir: The working folder.
        identity: The user as whom it runs; None for the user of the service.
        about: The first fields of its report: the application, the ask, the attempt, ….
        log: The file to which its output is appended.
        log_bytes: How much of its output is kept.
        report: The file that says how it ended, beside its output.
        grace_s: How long it may take to end after SIGTERM, in seconds.
        cgroup: The cgroup in which it runs, or None.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    identity: Identity | None
    about: Mapping[str, object]
    log: Path
    log_bytes: int
    report: Path
    grace_s: float
    cgroup: Path | None = None

    def as_json(self) -> str:
        """Return it as the keeper reads it."""
        who = self.identity
        changes = None if who is None or who.is_own else (who.uid, who.gid, who.groups)
        return json.dumps(
            {
                "command": self.command,
                "env": dict(self.env),
                "workdir": self.workdir,
                "identity": changes,
                "about": dict(self.about),
                "log": str(self.log),
                "log_bytes": self.log_bytes,
                "told": str(self.report),
                "grace_s": self.grace_s,
                "cgroup": None if self.cgroup is None else str(self.cgroup),
            }
        )


@final
@attrs.frozen
class CommandResult:
    """How a command ended.

    Attributes:
        exit_status: Its exit status, or None if a signal ended it.
        signal: The number of that signal, or None.
        error: Why it could not be started, or None.
        cpu_us: The time that it and its children ran on CPUs, in microseconds, or None.
        max_memory: The most memory that one of them had at a time, in bytes, or None.
        oom_kills: How many of its processes the kernel killed for lack of memory.
    """

    exit_status: int | None = None
    signal: int | None = None
    error: str | None = None
    cpu_us: int | None = None
    max_memory: int | None = None
    oom_kills: int = 0

    @property
    def exited(self) -> Exit:
        """How it ended, as the store keeps it."""
        return Exit(self.exit_status, self.signal, self.cpu_us, self.max_memory)

    # LOCAL-3, LOCAL-17
    @property
    def failure(self) -> str | None:
        """What the log says of a failure; None if the command has succeeded."""
        if self.signal is None and not self.exit_status:
            return None
        named = None if self.signal is None else f"killed by signal {signal_name(self.signal)}"
        memory = ": out of memory" if self.oom_kills else ""
        return f"{named or f'exit status {self.exit_status}'}{memory}"


def result_of(status: int) -> CommandResult:
    """Return how a command ended, from its exit status, or minus the number of a signal."""
    return CommandResult(exit_status=status) if status >= 0 else CommandResult(signal=-status)


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# LOCAL-8
@final
@attrs.frozen
class Job:
    """A job by its record.

    Attributes:
        folder: The folder of its record.
        app: The application.
        ask: The ask.
        number: The number of the allocation: there is one job for each.
        report: The file that says how it ended, beside its output.
        cgroup: The cgroup of its command, or None.
    """

    folder: Path
    app: str
    ask: str
    number: int
    report: Path
    cgroup: Path | None = None

    def claim(self) -> bool:
        """Return whether its keeper is gone; if it is, nothing will ever run for this record."""
        try:
            lock = os.open(self.folder / keeper.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.folder / keeper.VOID).touch()
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    def result(self) -> CommandResult | None:
        """Return how it ended; None without a result."""
        found = _read(self.folder / keeper.RESULT)
        if found is None:
            return None
        names = [field.name for field in attrs.fields(CommandResult)]
        return CommandResult(**{name: found[name] for name in names if found.get(name) is not None})

    def keeper_pid(self) -> int | None:
        """Return the process of its keeper, if that is known."""
        found = _read(self.folder / keeper.KEEPER)
        return None if found is None else cast("int", found["pid"])

    def child(self) -> int | None:
        """Return the process and group of its command, if they can still be there."""
        found = _read(self.folder / keeper.CHILD)
        if found is None or found["boot"] != keeper.boot():
            return None
        pid = cast("int", found["pid"])
        now = keeper.started_at(pid)
        # Once the process has ended, its number may be that of another one. As the number of a
        # group it is not used again as long as the group has members.
        return pid if now in (None, -1) or now == found["started"] else None

    def remove(self) -> None:
        """Remove the record, and the cgroup with what is left in it.

        The job is over, and the scheduler knows how it ended.
        """
        if self.cgroup is not None:
            keeper.clear_cgroup(self.cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return found


def jobs_in(folder: Path) -> list[Job]:
    """Return the jobs of all records in a folder; records that were cut short are removed."""
    found: list[Job] = []
    for one in sorted(folder.iterdir()):
        order = _read(one / keeper.JOB) if one.name.isdecimal() else None
        if order is None:  # nothing was started from it
            shutil.rmtree(one, ignore_errors=True)
            continue
        about = order["about"]
        report, cgroup = Path(order["told"]), order.get("cgroup")
        own = None if cgroup is None else Path(cgroup)
        found.append(Job(one, about["app"], about["ask"], about["number"], report, own))
    return found


def record(folder: Path, order: JobSpec) -> Job:
    """Write the record of a job that is to start.

    Raises:
        OSError: If it cannot be written.
    """
    number = cast("int", order.about["number"])
    made = folder / f"{number}.new"
    shutil.rmtree(made, ignore_errors=True)
    try:
        made.mkdir(mode=0o700)
        (made / keeper.JOB).touch(mode=0o600)
        (made / keeper.JOB).write_text(order.as_json(), encoding="utf-8")
        done = made.rename(folder / str(number))
    except OSError:
        if order.cgroup is not None:
            keeper.clear_cgroup(order.cgroup)
        raise
    app, ask = cast("str", order.about["app"]), cast("str", order.about["ask"])
    return Job(done, app, ask, number, order.report, order.cgroup)


# LOCAL-7
async def start(job: Job, leash: int | None) -> None:
    """Start the keeper of a recorded job, and wait until the command has started.

    Args:
        job: The job.
        leash: A descriptor of a pipe at whose end the job is ended, or None.

    Raises:
        OSError: If the command cannot be started.
    """
    command = [sys.executable, "-I", "-S", "-X", "utf8", keeper.__file__, "record", str(job.folder)]
    if leash is not None:
        command.append(str(leash))
    with trio.move_on_after(_STARTING_S):
        done = await trio.run_process(
            command,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={name: os.environ[name] for name in _FOR_PYTHON if name in os.environ},
            pass_fds=() if leash is None else (leash,),
        )
        answer: dict[str, str] = json.loads(done.stdout or '{"error": ""}')
        error = answer.get("error")
        if error is None:
            return
        raise OSError(error or f"its keeper did not begin: {done.stderr.decode()[-500:]}")
    msg = f"its keeper did not answer within {_STARTING_S:g} s"
    raise TimeoutError(msg)


async def wait_for_end(job: Job) -> None:
    """Wait until the keeper of a job is gone."""
    while not job.claim():
        pid = job.keeper_pid()
        if pid is None:
            await trio.sleep(_POLL_S)
        else:
            await ended(pid)
            await trio.lowlevel.checkpoint()


# LOCAL-9
async def end(job: Job, grace_s: float) -> None:
    """End a job, if it has not ended: its whole group, and its keeper.

    Args:
        job: The job.
        grace_s: How long its processes may take to end after SIGTERM, in seconds.
    """
    for patience_s in (grace_s, _MARGIN_S):  # at the second signal the keeper waits no longer
        if not job.claim():
            _signal(job.keeper_pid(), signal.SIGTERM)
            with trio.move_on_after(patience_s):
                await wait_for_end(job)
    while not job.claim():
        _signal(job.keeper_pid(), signal.SIGKILL)
        await trio.sleep(_POLL_S)
    await _end_leftovers(job, grace_s)


async def _end_leftovers(job: Job, grace_s: float) -> None:
    """End what may still run of a job whose keeper is gone, and note that it is over."""
    child = job.child()
    if child is not None:
        members = await trio.to_thread.run_sync(members_of, child)
        if members == [] and keeper.started_at(child) not in (None, -1):
            _signal(child, signal.SIGKILL)  # it has no group yet, and has not begun
        elif members is None or (members and (child in members or _is_of(members, job))):
            await end_group(child, grace_s)
    if job.result() is None:
        note_lost(job)


def _is_of(members: list[int], job: Job) -> bool:
    """Return whether a process of a group, whose leader has gone, has the mark of a job."""
    mark = f"MUSTER_JOB={job.folder}".encode()
    for member in members:
        with suppress(OSError):
            if mark in Path(f"/proc/{member}/environ").read_bytes().split(b"\0"):
                return True
    return False


def note_lost(job: Job) -> None:
    """Report that it is unknown how the command ended."""
    report = _read(job.report)
    if report is not None and "ended_us" not in report:
        lost = "it was ended with its keeper, or with the machine; nobody knows how"
        with suppress(OSError):
            keeper.write_json(job.report, {**report, "error": lost, "ended_us": keeper.now_us()})


def _signal(pid: int | None, number: int) -> None:
    if pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


_LONGEST: Final = 180
"""The longest name of a folder; file systems take 255 bytes."""

_NUMBERED: Final = re.compile(r"([0-9]{1,9})\.log")


# LOCAL-5
def folder_name(name: str) -> str:
    """Return the name of the folder for an application or an ask; no two have the same one."""
    written = quote(name, safe="", errors="surrogatepass")
    if written.startswith("."):
        written = f"%2E{written[1:]}"
    if len(written) <= _LONGEST:
        return written
    # "%~" is in no name that is written as a whole.
    whole = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{written[: _LONGEST - 34]}%~{whole[:32]}"


@final
@attrs.frozen
class Attempt:
    """The files of one start of an ask.

    Attributes:
        number: Which start it is, from 1.
        output: The file with its output.
        report: The file that says how it ended.
    """

    number: int
    output: Path
    report: Path

    def about(self) -> dict[str, Any]:
        """Return what is known of it: when it started, and if it has ended how and when."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(self.report.read_bytes())
            return found
        return {}


# PAGE-86
def earlier_of(attempts: Sequence[Attempt], came_us: int | None) -> Sequence[Attempt]:
    """Return those starts that were of earlier asks of the same name, the latest last.

    Args:
        attempts: All starts of asks of that name, the latest last.
        came_us: When the present ask came, in microseconds since 1970; None if unknown.
    """
    if came_us is None:
        return ()
    # A start that has just begun has no report yet.
    for at in range(len(attempts), 0, -1):
        if attempts[at - 1].about().get("started_us", came_us) < came_us:
            return attempts[:at]
    return ()


@final
class OutputFiles:
    """The files of all jobs.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _folder_of(self, app: str, ask: str) -> Path:
        return self._folder / folder_name(app) / folder_name(ask)

    def attempts(self, app: str, ask: str) -> list[Attempt]:
        """Return the starts of an ask whose files are there, the latest last."""
        folder = self._folder_of(app, ask)
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        numbers = sorted(int(found[1]) for found in map(_NUMBERED.fullmatch, names) if found)
        return [_attempt(folder, number) for number in numbers]

    def begin(self, app: str, ask: str) -> Attempt:
        """Return the files for the next start of an ask; there is an empty one for its output.

        Raises:
            OSError: If it cannot be written.
        """
        folder = self._folder_of(app, ask)
        for one in (self._folder, folder.parent, folder):
            one.mkdir(exist_ok=True, parents=True, mode=0o700)
        before = self.attempts(app, ask)
        made = _attempt(folder, before[-1].number + 1 if before else 1)
        made.output.touch(mode=0o600)
        return made

    # LOCAL-6
    def prune(self, before_us: int) -> None:
        """Remove the files of jobs that ended before an instant, in microseconds since 1970."""
        for app in _folders(self._folder):
            for ask in _folders(app):
                for name in os.listdir(ask):
                    found = _NUMBERED.fullmatch(name)
                    attempt = _attempt(ask, int(found[1])) if found else None
                    if attempt and attempt.about().get("ended_us", before_us) < before_us:
                        attempt.output.unlink(missing_ok=True)
                        attempt.report.unlink(missing_ok=True)
                _remove_empty(ask)
            _remove_empty(app)


def _attempt(folder: Path, number: int) -> Attempt:
    return Attempt(number, folder / f"{number}.log", folder / f"{number}.json")


def _folders(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.iterdir()) if one.is_dir()]


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it is not empty
        folder.rmdir()
