"""A binder that runs a local subprocess for each ask, for :func:`muster.open_scheduler`.

A :class:`SubprocessBinder` starts a command when an ask is bound, and ends it when the
allocation ends: preempted, removed, the node lost, or the scheduler closed.

Each command runs in a session and a process group of its own. The processes that it starts
belong to this group, unless they leave it (``setsid``). The binder ends the whole group, so a
shell leaves no processes behind. Windows has no such groups: there the binder ends only the
command itself.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from os import PathLike
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation

__all__ = ["Command", "SubprocessBinder"]

_KILLED_IS_GONE_S: Final = 1.0
"""How long to wait for a killed group, in seconds; the kernel may keep a process longer."""

_POLL_S: Final = 0.02
"""How long to wait between checks of a group where the system reports no end, in seconds."""

_PROC: Final = "/proc"


@final
@attrs.frozen
class Command:
    """A command to run for an ask.

    Attributes:
        run: A program with its arguments, or a text for the shell.
        cwd: The working folder; None for that of this program.
        env: Environment variables that are added to those of this program, or replace them.
        stdin: The file for its standard input; None for an empty input.
        stdout: The file to which its output is appended; None for the output of this program.
        stderr: The same for its error output; it may be the same file.
    """

    run: Sequence[str] | str
    cwd: str | PathLike[str] | None = None
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    stdin: str | PathLike[str] | None = None
    stdout: str | PathLike[str] | None = None
    stderr: str | PathLike[str] | None = None


@final
class SubprocessBinder:
    """A binder that runs a local command for each bound ask; pass it to ``open_scheduler``.

    If a command cannot be started (not found, not executable, no such folder), the bind has
    failed. When a command ends, the binder ends the processes that it left in the background,
    and the allocation is released as completed, whatever the exit status is. To act on the
    status, use ``exited``: it may raise :class:`muster.WorkFailedError`.

    If the allocation ends before the command, the process group gets SIGTERM. Processes that
    still run after the grace period get SIGKILL. Until then they may use resources that another
    ask already holds: only the same ask, and the end of the scheduler, wait for them. So the
    grace period should be shorter than the bind timeout.

    The environment of a command contains ``MUSTER_APP``, ``MUSTER_ASK``, ``MUSTER_NODE``,
    ``MUSTER_QUEUE`` and ``MUSTER_RUN``: application, ask and number of the allocation, which no two
    runs share, as ``app/ask/number``.

    Args:
        command: Returns the command to run; called each time an ask is bound. If it raises,
            the bind has failed.
        exited: Called when a command has ended by itself, with the exit status, or on Unix
            minus the number of the signal that ended it. The call comes before the allocation
            is released, and does not come if the allocation ended first. If the node is taken
            between the call and the release, the command runs again. If ``exited`` raises
            :class:`muster.WorkFailedError`, the work has failed: the ask is pending again if it
            has a retry left. If it raises another exception, the bind has failed: the ask is
            pending again, as often as ``bind_attempts`` allows.
        grace_period: How long a command may take to end after SIGTERM, in seconds of trio's
            clock; with infinity it is never killed.

    Raises:
        ValueError: If the grace period is negative or not a number.
    """

    def __init__(
        self,
        command: Callable[[Allocation], Command | Sequence[str] | str],
        *,
        exited: Callable[[Allocation, int], None] | None = None,
        grace_period: float = 10.0,
    ) -> None:
        if math.isnan(grace_period) or grace_period < 0:
            msg = f"grace_period: {grace_period!r} is not a number of seconds from 0"
            raise ValueError(msg)
        self._command = command
        self._exited = exited
        self._grace_s = grace_period

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the command of an ask. The scheduler calls this.

        Args:
            allocation: The allocation of the ask.
            started: Called when the process has started.

        Raises:
            OSError: If the command cannot be started.
        """
        process = await _start(self._command(allocation), allocation)
        try:
            started()
            status = await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                await _end(process, self._grace_s)
        if self._exited is not None:
            self._exited(allocation, status)


async def _start(command: Command | Sequence[str] | str, allocation: Allocation) -> trio.Process:
    """Start a command in a session of its own.

    Raises:
        OSError: If the command cannot be started.
    """
    if not isinstance(command, Command):
        command = Command(command)
    with ExitStack() as files:
        # A cancellation cannot lose the process here: trio does not abandon the thread that
        # starts it, and has no checkpoint afterwards.
        stdin, stdout, stderr = await trio.to_thread.run_sync(_open_files, command, files)
        return await trio.lowlevel.open_process(
            command.run if isinstance(command.run, str) else list(command.run),
            shell=isinstance(command.run, str),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=command.cwd,
            env=_environment(command, allocation),
            start_new_session=True,
        )


def _open_files(command: Command, files: ExitStack) -> tuple[int, int | None, int | None]:
    """Open the files of a command; the child gets copies, and ``files`` closes the originals."""

    def opened(path: str | PathLike[str] | None, flags: int) -> int | None:
        if path is None:
            return None
        number = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666)
        files.callback(os.close, number)
        return number

    # Append: the output of earlier runs of the ask stays, and two streams to one file do not
    # overwrite each other.
    appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    stdin = opened(command.stdin, os.O_RDONLY)
    return (
        subprocess.DEVNULL if stdin is None else stdin,
        opened(command.stdout, appended),
        opened(command.stderr, appended),
    )


def _environment(command: Command, allocation: Allocation) -> dict[str, str]:
    """Return the environment variables of a command."""
    return {**os.environ, **command.env, **variables(allocation)}


def variables(allocation: Allocation) -> dict[str, str]:
    """Return the environment variables that tell a command what it is run for."""
    return {
        "MUSTER_APP": allocation.app,
        "MUSTER_ASK": allocation.ask,
        "MUSTER_NODE": allocation.node,
        "MUSTER_QUEUE": allocation.queue,
        "MUSTER_RUN": f"{allocation.app}/{allocation.ask}/{allocation.number}",
    }


async def _end(process: trio.Process, grace_s: float) -> None:
    """End a command and all processes that it has started, and reap it."""
    if sys.platform == "win32":
        process.terminate()
        await process.wait()
        return
    # The system does not reuse the id of a group that has members, and the leader is a member
    # until it is reaped.
    group = process.pid
    if process.returncode is not None and not _exists(group):
        return

    async def reap() -> None:
        await process.wait()

    await end_group(group, grace_s, reap)


async def end_group(
    group: int, grace_s: float, reap: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
) -> None:
    """End all processes of a group.

    Args:
        group: The id of the group.
        grace_s: How long they may take to end after SIGTERM, in seconds; then they are killed.
        reap: Waits for the leader, if it is a child of this process.
    """
    _signal(group, signal.SIGTERM)
    _signal(group, signal.SIGCONT)  # a stopped process would not handle SIGTERM otherwise
    with trio.move_on_after(grace_s):
        await reap()
        await _wait_until_gone(group)
        return
    _signal(group, signal.SIGKILL)
    await reap()
    with trio.move_on_after(_KILLED_IS_GONE_S):
        await _wait_until_gone(group)


def _signal(group: int, number: int) -> None:
    """Send a signal to all processes of a group that this program may signal."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _exists(group: int) -> bool:
    """Return whether a group has members, including ended ones that are not reaped."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # members of another user; on macOS also members not yet reaped
        return sys.platform != "darwin"
    return True


async def _wait_until_gone(group: int) -> None:
    """Wait until no process of a group runs any more; its leader is reaped already.

    The other members are not children of this process. Another process reaps them late or
    never (the first process of a container, for example), so this must not wait for that.
    """
    while _exists(group):
        # In a thread: there may be thousands of processes.
        members = await trio.to_thread.run_sync(members_of, group)
        if members is None:
            await trio.sleep(_POLL_S)
        elif not members:
            return
        else:
            for member in members:
                await ended(member)


def members_of(group: int) -> list[int] | None:
    """Return the running processes of a group, or None on systems without ``/proc``."""
    if not os.path.exists(f"{_PROC}/self/stat"):
        return None
    found: list[int] = []
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                # The name of the process is in parentheses, and may contain any character.
                state, _, its_group, *_ = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended meanwhile, or this program may not read it
        if int(its_group) == group and state not in (b"Z", b"X"):
            found.append(int(name))
    return found


async def ended(pid: int) -> None:
    """Wait until a process that is not a child of this one has ended, reaped or not.

    Where the system does not tell, this returns after a short time.
    """
    if sys.platform != "linux":
        await trio.sleep(_POLL_S)
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, a sandbox, too many open files
        await trio.sleep(_POLL_S)
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
