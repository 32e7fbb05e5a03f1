"""The keeper of a command in a worker of Ray: starts it, and ends it with all that it has started.

A worker may be killed at any moment, and must not leave its command behind. So the command runs
below a keeper, which is no child of the worker: Ray kills the children of a worker with it, and
these alone. The worker starts a launcher from the text of this file, with nothing but the standard
library::

    python -I -S -X utf8 -c TEXT LEASH ANSWER

The launcher forks the keeper, and ends. LEASH and ANSWER are the numbers of two pipes:

* On LEASH the worker writes the job, as a line of JSON, and later ``t``: end the command. When
  the other end of the pipe is closed, the worker has gone, for whatever reason, and the command is
  ended too.
* On ANSWER the keeper writes lines of JSON: ``child`` before the command begins, so that the
  worker can end it if the keeper is killed; then ``started``, or ``error`` and the end; then
  ``status``, when nothing of the command runs any more.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, NoReturn

_PROC: Final = "/proc"
_POLL_S: Final = 0.02
"""How long to wait between checks of a group that is ending, in seconds."""

_KILLED_IS_GONE_S: Final = 1.0
"""How long to wait for a killed group, in seconds; the kernel may keep a process longer."""

_CHUNK: Final = 65_536
_BACKGROUND: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_GIVEN_BACK: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)


def started_at(pid: int) -> int | None:
    """Return when a running process has started, in ticks since the boot.

    Args:
        pid: Its number.

    Returns:
        The instant; -1 if there is no such process, or it has ended and was not reaped yet; None
        where the system does not show it.
    """
    if not os.path.exists(f"{_PROC}/self/stat"):
        return None
    try:
        # The name of the process is in parentheses, and may contain any character.
        fields = Path(f"{_PROC}/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in (b"Z", b"X") else int(fields[19])


def running(group: int) -> bool:
    """Return whether a group has a process that runs, and not only ended ones."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not os.path.exists(f"{_PROC}/self/stat"):
        return True
    for name in os.listdir(_PROC):
        if name.isdecimal():
            try:
                stat = Path(f"{_PROC}/{name}/stat").read_bytes()
            except OSError:
                continue
            state, _, its_group, *_ = stat.rpartition(b")")[2].split()
            if int(its_group) == group and state not in (b"Z", b"X"):
                return True
    return False


class _Failed(Exception):  # noqa: N818 - it is what the answer says
    """The command could not be started; the message says why."""


class _Keeper:
    """Keeps one command, from its start to its end."""

    def __init__(self, leash: int, answer: int) -> None:
        self._leash = leash
        self._answer = answer
        self._wakes = -1
        self._child = 0
        self._status: int | None = None
        self._kill_at: float | None = None
        self._gone_at: float | None = None
        self._job: dict[str, Any] = {}

    def keep(self) -> None:
        """Run the command, from the job on the leash to the end of its last process."""
        line = b""
        while not line.endswith(b"\n"):
            part = os.read(self._leash, _CHUNK)
            if not part:
                return  # the worker has gone before it sent the job
            line += part
        self._job = json.loads(line)
        self._wakes = _signals()
        try:
            self._spawn()
        except (_Failed, OSError) as error:
            self._send(error=str(error))
            return
        self._send(started=True)
        self._watch()
        self._send(status=self._status)

    def _send(self, **what: object) -> None:
        try:
            os.write(self._answer, json.dumps(what).encode() + b"\n")
        except OSError:
            return  # the worker has gone; the leash says so

    def _spawn(self) -> None:
        files = _open_files(self._job)
        go_read, go_write = os.pipe()
        wrong_read, wrong_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go_write)  # else it would wait for itself if the keeper was killed
            _exec_command(self._job, files, go_read, wrong_write)
        self._child = child
        for end in (*files, go_read, wrong_write):
            os.close(end)
        _redirect_to_null(0, 1, 2)
        self._send(child=child, at=started_at(child))
        os.write(go_write, b"g")
        os.close(go_write)
        wrong = b""
        while part := os.read(wrong_read, _CHUNK):
            wrong += part
        os.close(wrong_read)
        if wrong:
            os.waitpid(child, 0)
            raise _Failed(wrong.decode("utf-8", "replace"))

    def _watch(self) -> None:
        """Wait until the command and what it left behind has ended."""
        while not self._is_over():
            sources = [end for end in (self._wakes, self._leash) if end >= 0]
            patience = None if self._kill_at is None else _POLL_S
            found, _, _ = select.select(sources, [], [], patience)
            if self._leash in found:
                self._listen()
            elif self._leash < 0 and self._gone_at is None:
                self._look_for_daemon()
            if self._wakes in found and signal.SIGTERM in os.read(self._wakes, _CHUNK):
                self._end(self._job["grace_s"])
            if self._status is None:
                pid, status = os.waitpid(self._child, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._end(self._job["grace_s"])  # what it left in the background

    def _listen(self) -> None:
        """Handle a message of the worker, or its end."""
        if os.read(self._leash, _CHUNK):
            self._end(self._job["grace_s"])
            return
        self._leash = -1
        self._look_for_daemon()
        self._end(self._job["grace_s"])

    def _look_for_daemon(self) -> None:
        """Give no more grace when Ray's daemon has gone, after the worker.

        Its node is lost then: the same work may soon begin on another node, which would not wait
        for the end of this one.
        """
        if started_at(self._job["parent"]) != self._job["parent_at"]:
            self._kill_at = time.monotonic()

    def _end(self, grace_s: float) -> None:
        """Begin to end the group."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a stopped process would not handle SIGTERM otherwise
        if self._kill_at is None:
            self._kill_at = time.monotonic() + grace_s

    def _is_over(self) -> bool:
        now = time.monotonic()
        if self._status is not None and not running(self._child):
            return True
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)
            if self._gone_at is None:
                self._gone_at = now + _KILLED_IS_GONE_S
            return self._status is not None and now >= self._gone_at
        return False

    def _signal(self, number: int) -> None:
        # The group's id is not used again: the keeper has not reaped its leader, or the group
        # has members, or it is empty and this ends at once.
        try:
            os.killpg(self._child, number)
        except (ProcessLookupError, PermissionError):
            return


def _ignore_signal(_number: int, _frame: object) -> None:
    """Take a signal; that it came is read from the pipe."""


def _signals() -> int:
    """Have signals written to a pipe; return the end from which they are read."""
    wakes, wake = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _ignore_signal)
    for number in _BACKGROUND:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wakes


def _redirect_to_null(*numbers: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        os.dup2(nothing, number)
    os.close(nothing)


def _open_files(job: dict[str, Any]) -> tuple[int, int, int]:
    """Open the standard files of the command; without a name it has those of the worker."""
    # Append: the output of earlier runs stays, and two streams to one file do not overwrite each
    # other.
    appended = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    opened: list[int] = []
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        path = job[name]
        if number == 0:
            opened.append(_open(name, path or os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        else:
            opened.append(os.dup(number) if path is None else _open(name, path, appended))
    return opened[0], opened[1], opened[2]


def _open(name: str, path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o666)
    except OSError as error:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            msg = f"there is no folder {folder!r}, for {name}"
            raise _Failed(msg) from None
        msg = f"{error.strerror}: {name} {path!r}"
        raise _Failed(msg) from None


def _exec_command(
    job: dict[str, Any], files: tuple[int, int, int], go: int, wrong: int
) -> NoReturn:
    """Become the command, in the child, once the worker can learn of the process."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        if os.read(go, 1) != b"g":
            os._exit(127)  # the keeper is gone: perhaps no process knows this one
        for given_back in (*_BACKGROUND, *_GIVEN_BACK):
            signal.signal(given_back, signal.SIG_DFL)
        for number, opened in enumerate(files):
            os.dup2(opened, number)
        if job["cwd"] is not None:
            _enter(job["cwd"])
        command: list[str] = job["run"]
        try:
            os.execvpe(command[0], command, job["env"])
        except OSError as error:
            _write_error(wrong, f"{error.strerror}: {command[0]!r}")
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on
        _write_error(wrong, str(error))
    os._exit(127)


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        msg = f"{error.strerror}: cwd {folder!r}"
        raise _Failed(msg) from None


def _write_error(wrong: int, why: str) -> None:
    os.write(wrong, why.encode("utf-8", "replace")[:_CHUNK])


def main(leash: int, answer: int) -> None:
    """Start a keeper in the background."""
    if os.fork() != 0:
        return
    try:
        os.setsid()
        for number in (leash, answer):
            os.set_inheritable(number, False)
        _Keeper(leash, answer).keep()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
