"""Local subprocesses as the work of asks: a binder for :func:`muster.open_scheduler`.

A :class:`SubprocessBinder` starts a command when an ask is bound, and ends it when the
allocation is over: preempted, removed, the node lost, or the scheduler closed.

A command is the leader of a session and of a process group of its own. What it starts
belongs to that group, unless it leaves on purpose (``setsid``), and the group is ended
as a whole, so that a shell leaves nobody behind. On Windows there are no such groups, and
only the command itself is ended.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

if TYPE_CHECKING:
    from os import PathLike

    from muster._surface.allocation import Allocation

__all__ = ["Command", "SubprocessBinder"]

_KILLED_IS_GONE_S: Final = 1.0
"""How long a killed group is waited for, in seconds; the kernel may hold on to a process."""

_POLL_S: Final = 0.02
"""How often a group is looked at where nothing tells that a process has ended, in seconds."""

_PROC: Final = "/proc"


@final
@attrs.frozen
class Command:
    """What is to run for an ask, and how.

    Attributes:
        run: A program with its arguments, or one text that the shell is to run.
        cwd: The folder that it runs in; None for that of this program.
        env: Variables that it gets besides those of this program, or with another value.
        stdin: The file that it reads; None if it is to find nothing.
        stdout: The file that its output is appended to; None if it goes where that of
            this program goes.
        stderr: The same for its errors; it may be the same file.
    """

    run: Sequence[str] | str
    cwd: str | PathLike[str] | None = None
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    stdin: str | PathLike[str] | None = None
    stdout: str | PathLike[str] | None = None
    stderr: str | PathLike[str] | None = None


@final
class SubprocessBinder:
    """Runs a local command for each ask that is bound; give it to ``open_scheduler``.

    A command that cannot be started (not found, not executable, no such folder) is a
    failed bind. When it has ended the allocation is released, whatever its exit status
    is: what the status means is for ``exited`` to say. What it has left running in the
    background is ended with it.

    When the allocation is over before the command is, its process group gets SIGTERM,
    and SIGKILL if some of it is still there after the grace period. Until then it may use
    what is given to others already; only the same ask, and the end of the scheduler, wait
    for it. So let the grace period be shorter than the bind timeout.

    A command finds ``MUSTER_APP``, ``MUSTER_ASK``, ``MUSTER_NODE`` and ``MUSTER_QUEUE`` in its
    environment.

    Args:
        command: Says what to run; called each time an ask is bound. Raising makes the
            bind fail.
        exited: Told how a command ended of itself: its exit status, or on Unix minus the
            number of the signal that ended it. Called before the allocation is released,
            and not at all if the allocation was over first; if the node is taken in the
            very moment in between, the command is run again. If it raises, the bind has
            failed: the ask is pending again, as often as ``bind_attempts`` allows.
        grace_period: How long a command may take to end when it is told to, in seconds
            of trio's clock; infinite for never to be killed.

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
        """Run the command of an ask; for the scheduler.

        Args:
            allocation: What the ask holds.
            started: Called when the process is there.

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
        OSError: If that is not possible.
    """
    if not isinstance(command, Command):
        command = Command(command)
    with ExitStack() as files:
        # Here no cancellation can lose a process: trio does not abandon the thread that
        # starts it, and does not look for a cancellation afterwards.
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
    """Open the files of a command; they are for the child alone, which gets copies."""

    def opened(path: str | PathLike[str] | None, flags: int) -> int | None:
        if path is None:
            return None
        number = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666)
        files.callback(os.close, number)
        return number

    # Appended to: what an earlier run of the ask has written stays, and two streams that
    # are one file do not write over each other.
    appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    stdin = opened(command.stdin, os.O_RDONLY)
    return (
        subprocess.DEVNULL if stdin is None else stdin,
        opened(command.stdout, appended),
        opened(command.stderr, appended),
    )


def _environment(command: Command, allocation: Allocation) -> dict[str, str]:
    """Give the variables of a command."""
    return {
        **os.environ,
        **command.env,
        "MUSTER_APP": allocation.app,
        "MUSTER_ASK": allocation.ask,
        "MUSTER_NODE": allocation.node,
        "MUSTER_QUEUE": allocation.queue,
    }


async def _end(process: trio.Process, grace_s: float) -> None:
    """End a command and all that it has started, and reap it."""
    if sys.platform == "win32":
        process.terminate()
        await process.wait()
        return
    # The number of a group is not used for another as long as it has a member, and the
    # leader is one until it is reaped.
    group = process.pid
    if process.returncode is not None and not _exists(group):
        return
    _signal(group, signal.SIGTERM)
    _signal(group, signal.SIGCONT)  # what is stopped would not see the other before
    with trio.move_on_after(grace_s):
        await process.wait()
        await _gone(group)
        return
    _signal(group, signal.SIGKILL)
    await process.wait()
    with trio.move_on_after(_KILLED_IS_GONE_S):
        await _gone(group)


def _signal(group: int, number: int) -> None:
    """Send a signal to all of a group that may be sent one."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _exists(group: int) -> bool:
    """Say whether a group has members; they may have ended, and not be reaped."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # members of another user; on macOS also those not reaped
        return sys.platform != "darwin"
    return True


async def _gone(group: int) -> None:
    """Wait until nobody of a group runs any more; its leader is reaped already.

    The others are no children of this process. Some other one reaps them, perhaps late or
    never (the first process of many a container), so it must not depend on that.
    """
    while _exists(group):
        # In a thread: there may be thousands of processes to look at.
        members = await trio.to_thread.run_sync(_members, group)
        if members is None:
            await trio.sleep(_POLL_S)
        elif not members:
            return
        else:
            for member in members:
                await _ended(member)


def _members(group: int) -> list[int] | None:
    """Give the processes of a group that run; None where there is no telling."""
    if not os.path.exists(f"{_PROC}/self/stat"):
        return None
    found: list[int] = []
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                # Its name stands there in parentheses, and may have any character.
                state, _, its_group, *_ = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has gone meanwhile, or is none of our business
        if int(its_group) == group and state not in (b"Z", b"X"):
            found.append(int(name))
    return found


async def _ended(pid: int) -> None:
    """Wait until a process that is not our child has ended, reaped or not."""
    if sys.platform != "linux":
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
