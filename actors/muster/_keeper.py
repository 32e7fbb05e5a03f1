"""The keepers of commands: one starts its command, and ends it with all that the command has started.

A command is to outlive a service that is restarted, and never a worker of Ray that is killed. So it
runs below a keeper, a process of its own that is no child of the service or the worker. There is one
for each command, so it runs with nothing but the standard library, as a script or from this text::

    python -I -S -X utf8 _keeper.py record FOLDER [LEASH]
    python -I -S -X utf8 -c TEXT pipes LEASH ANSWER

The script leaves the keeper behind in the background. LEASH is the number of a descriptor of a pipe:
when its other end is closed, the command is ended.

``record`` is for the service. FOLDER is the record of a job (``job.json`` says what to run). The
script answers with one line of JSON when the command has started or could not be.

* The keeper holds a lock on ``lock`` as long as it lives. A process that gets the lock instead, and
  then writes ``void``, knows that nothing runs for this record, and nothing ever will.
* ``child.json`` names the process of the command, and is written before the command begins.
* ``result.json`` says how it ended.

``pipes`` is for a worker of Ray, which writes the job to LEASH, as a line of JSON, and later ``t``:
end the command. To ANSWER the keeper writes lines of JSON: ``child`` before the command begins, so that
the worker can end it if the keeper is killed; then ``started``, or ``error`` and the end; then
``status``, when nothing of the command runs any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    import resource

JOB: Final = "job.json"
LOCK: Final = "lock"
VOID: Final = "void"
KEEPER: Final = "keeper.json"
CHILD: Final = "child.json"
RESULT: Final = "result.json"

_PROC: Final = "/proc"
_POLL_S: Final = 0.02
"""How long to wait between checks of a group that is ending, in seconds."""

_KILLED_IS_GONE_S: Final = 1.0
"""How long to wait for a killed group, in seconds; the kernel may keep a process longer."""

_WRITES: Final = 60
"""How often writing a result is tried, a second apart, while there is no room on the disk."""

_CHUNK: Final = 65_536
_DRAINS: Final = 32
"""How many chunks are taken of what is left in the pipe; a pipe does not hold more."""

_BACKGROUND: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_GIVEN_BACK: Final = (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)

Files = tuple[int, int, int]
"""The standard input, output and error of a command."""


# Processes and files


def started_at(pid: int) -> int | None:
    """Return when a running process has started, in ticks since the boot.

    Args:
        pid: Its number.

    Returns:
        The instant; -1 if there is no such process, or it has ended and was not reaped yet; None
        on a system without ``/proc``.
    """
    if not os.path.exists(f"{_PROC}/self/stat"):
        return None
    try:
        # The name of the process is in parentheses, and may contain any character.
        fields = Path(f"{_PROC}/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in (b"Z", b"X") else int(fields[19])


def boot() -> str:
    """Return what identifies this boot of the machine; empty if unknown."""
    try:
        return Path(f"{_PROC}/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def now_us() -> int:
    """Return the present instant, in microseconds since 1970 in UTC."""
    return time.time_ns() // 1000


def write_json(path: Path, value: object) -> None:
    """Write a file as a whole: a reader finds all of it, or none."""
    beside = path.with_name(f"{path.name}.new")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    beside.replace(path)


def running(group: int) -> bool:
    """Return whether a group has a process that runs, and not only ended ones."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    if not Path(f"{_PROC}/self/stat").exists():
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


def is_populated(cgroup: Path) -> bool:
    """Return whether a process that has not ended is in a cgroup, or below it."""
    try:
        return b"populated 1" in (cgroup / "cgroup.events").read_bytes()
    except OSError:
        return False


# LOCAL-18
def clear_cgroup(cgroup: Path, *, is_ended: bool = True) -> None:
    """Remove a cgroup and those below it, if it is there.

    Args:
        cgroup: Its folder.
        is_ended: Whether what runs in it is killed; otherwise it stays as long as anything does.
    """
    if not cgroup.is_dir():
        return
    limit = time.monotonic() + _KILLED_IS_GONE_S
    while is_ended and is_populated(cgroup) and time.monotonic() < limit:
        _kill_all(cgroup)
        time.sleep(_POLL_S)
    for folder, _, _ in os.walk(cgroup, topdown=False):
        with suppress(OSError):  # it is not empty, and will be removed at the next start
            os.rmdir(folder)


def _kill_all(cgroup: Path) -> None:
    """Kill all processes of a cgroup."""
    try:
        (cgroup / "cgroup.kill").write_bytes(b"1")
    except OSError:  # before Linux 5.14
        for path in cgroup.rglob("cgroup.procs"):
            with suppress(OSError):
                for pid in path.read_bytes().split():
                    os.kill(int(pid), signal.SIGKILL)


def _oom_kills(cgroup: Path) -> int:
    """Return how many processes of a cgroup the kernel has killed for lack of memory."""
    with suppress(OSError, ValueError):
        for line in (cgroup / "memory.events").read_bytes().splitlines():
            name, _, count = line.partition(b" ")
            if name == b"oom_kill":
                return int(count)
    return 0


# LOCAL-5
class _Output:
    """The file with the output of a command, up to so many bytes."""

    def __init__(self, path: str, most: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._left = most
        self._most = most

    def write(self, data: bytes) -> None:
        if self._left < 0:
            return
        self._put(data[: self._left])
        self._left -= len(data)
        if self._left < 0:
            message = f"\n[muster: cut off here, after {self._most} bytes of output]\n"
            self._put(message.encode())

    def say(self, line: str) -> None:
        """Write a line of the keeper itself."""
        self._put(f"[muster: {line}]\n".encode())

    def _put(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            # No room: the command must not suffer for that, so this part of its output is lost.
            return


class _StartError(Exception):
    """The command could not be started; the message says why."""


# Keepers


class _Command:
    """A command in a group of its own, from its start to the end of the group.

    Args:
        job: What to run: ``command``, ``env``, ``grace_s``, and the folder.
        folder: The key of the folder in the job, and its word in messages.
        message: Returns the message for something that failed.

    Attributes:
        child: Its process, which is its group too.
        status: How the process ended, as ``waitpid`` says it; None before.
        used: What the process and its children have used; None before.
        is_killed: Whether the group was killed.
    """

    def __init__(
        self, job: dict[str, Any], folder: str, message: Callable[[str, OSError], str]
    ) -> None:
        self._job = job
        self._folder = folder
        self._message = message
        self._wakes = _signals()
        self._end_requested = False
        self._kill_at: float | None = None
        self._gone_at = 0.0
        self.child = 0
        self.status: int | None = None
        self.used: resource.struct_rusage | None = None
        self.is_killed = False

    def start(
        self, files: Files, note: Callable[[int], None], prepare: Callable[[], None] | None = None
    ) -> None:
        """Start the command.

        Args:
            files: Its standard files, which are closed here.
            note: Notes its process; the command begins when this returns.
            prepare: Prepares the child, before it goes to the folder and becomes the command.

        Raises:
            _StartError: If it cannot be started.
        """
        go_read, go_write = os.pipe()
        error_read, error_write = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(go_write)  # else it would wait for itself if the keeper was killed
            self._become(files, go_read, error_write, prepare)
        for end in (*files, go_read, error_write):
            os.close(end)
        note(self.child)
        os.write(go_write, b"g")
        os.close(go_write)
        error = b""
        while part := os.read(error_read, _CHUNK):
            error += part
        os.close(error_read)
        if error:
            os.waitpid(self.child, 0)
            raise _StartError(error.decode("utf-8", "replace"))

    def _become(
        self, files: Files, go: int, errors: int, prepare: Callable[[], None] | None
    ) -> NoReturn:
        """Become the command, in the child, once the keeper has noted the process."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            if os.read(go, 1) != b"g":
                os._exit(127)  # the keeper is gone, and perhaps has not noted this process
            for given_back in (*_BACKGROUND, *_GIVEN_BACK):
                signal.signal(given_back, signal.SIG_DFL)
            for number, opened in enumerate(files):
                os.dup2(opened, number)
            if prepare is not None:
                prepare()
            self._enter()
            command: list[str] = self._job["command"]
            try:
                os.execvpe(command[0], command, self._job["env"])
            except OSError as error:
                _write_error(errors, self._message(repr(command[0]), error))
        except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on
            _write_error(errors, str(error))
        os._exit(127)

    def _enter(self) -> None:
        """Go to the folder of the command, as its user."""
        folder = self._job[self._folder]
        if folder is not None:
            try:
                os.chdir(folder)
            except OSError as error:
                message = self._message(f"{self._folder} {folder!r}", error)
                raise _StartError(message) from None

    def wait(self, *ends: int) -> list[int]:
        """Wait until there is something to do; return the ends of pipes to read from.

        Args:
            ends: The ends of pipes; negative ones do not count.
        """
        sources = [end for end in (self._wakes, *ends) if end >= 0]
        patience = None if self._kill_at is None else _POLL_S
        found, _, _ = select.select(sources, [], [], patience)
        if self._wakes in found and signal.SIGTERM in os.read(self._wakes, _CHUNK):
            if self._end_requested:  # at the second request, at once
                self.kill()
            self._end_requested = True
            self.end()
        if self.status is None:
            pid, status, used = os.wait4(self.child, os.WNOHANG)
            if pid:
                self.status, self.used = status, used
                self.end()  # what it left in the background
        return found

    def end(self) -> None:
        """Begin to end the group."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._job["grace_s"]
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped process would not handle SIGTERM otherwise

    def kill(self) -> None:
        """End the group without more grace."""
        self._kill_at = time.monotonic()

    def is_over(self) -> bool:
        """Return whether nothing of the group runs; kill it when its grace is over."""
        now = time.monotonic()
        if self.status is not None and not running(self.child):
            return True
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)
            if not self.is_killed:
                self.is_killed, self._gone_at = True, now + _KILLED_IS_GONE_S
            return self.status is not None and now >= self._gone_at
        return False

    def _signal(self, number: int) -> None:
        # The group's id is not used again: the keeper has not reaped its leader, or the group
        # has members, or it is empty and this ends at once.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child, number)


# LOCAL-7
class _RecordKeeper:
    """The keeper of a job of the service: keeps its output, and writes down how it ended."""

    def __init__(self, folder: Path, leash: int) -> None:
        self._folder = folder
        self._leash = leash
        self._job: dict[str, Any] = json.loads((folder / JOB).read_bytes())
        self._output = _Output(self._job["log"], self._job["log_bytes"])
        self._output_end = -1
        self._command = _Command(
            self._job, "workdir", lambda what, error: f"{what}: {error.strerror}"
        )
        self._report: dict[str, Any] = {**self._job["about"], "started_us": now_us()}

    def start(self) -> None:
        """Start the command.

        Raises:
            _StartError: If it cannot be started.
        """
        write_json(Path(self._job["told"]), self._report)
        try:
            self._output_end, output = os.pipe()
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            files = (nothing, output, os.dup(output))
            self._command.start(files, self._note, self._prepare)
        except (_StartError, OSError) as error:
            self._output.say(f"the command cannot be started: {error}")
            self._finish({"error": str(error)})
            raise _StartError(str(error)) from error

    def _note(self, child: int) -> None:
        about = {"pid": child, "started": started_at(child), "boot": boot()}
        write_json(self._folder / CHILD, about)

    def _prepare(self) -> None:
        _join_cgroup(self._job)
        _take_identity(self._job)

    def watch(self) -> None:
        """Wait until the command and what it left behind has ended, and write down how."""
        command = self._command
        while not command.is_over():
            found = command.wait(self._leash, self._output_end)
            if self._output_end in found:
                self._copy()
            if self._leash in found:
                self._leash = -1
                command.end()
        ending = {**_ending(command.status), **self._leave_cgroup()}
        self._drain()
        self._finish({**ending, **_usage_of(command.used)})

    # LOCAL-17, LOCAL-18
    def _leave_cgroup(self) -> dict[str, Any]:
        """End what is left in the cgroup of the command, and remove it; return its counts."""
        if self._job["cgroup"] is None:
            return {}
        cgroup = Path(self._job["cgroup"])
        kills = _oom_kills(cgroup)
        clear_cgroup(cgroup)
        return {"oom_kills": kills} if kills else {}

    def _copy(self) -> bool:
        """Take what the command has written; return whether there was any."""
        data = os.read(self._output_end, _CHUNK)
        if data:
            self._output.write(data)
            return True
        os.close(self._output_end)
        self._output_end = -1
        return False

    def _drain(self) -> None:
        """Take what is left in the pipe, which a process that left the group may hold open."""
        for _ in range(_DRAINS):
            if (
                self._output_end < 0
                or not select.select([self._output_end], [], [], 0)[0]
                or not self._copy()
            ):
                return

    def _finish(self, ending: dict[str, Any]) -> None:
        """Write down how it ended: for the service, and beside the output."""
        report = {**self._report, **ending, "ended_us": now_us()}
        for path in (self._folder / RESULT, Path(self._job["told"])):
            for _ in range(_WRITES):
                try:
                    write_json(path, report)
                    break
                except FileNotFoundError:
                    break  # the folder was removed, so the result is not needed
                except OSError:
                    time.sleep(1)


class _PipeKeeper:
    """The keeper of a command in a worker of Ray, which hears of it by a pipe."""

    def __init__(self, job: dict[str, Any], leash: int, answer: int) -> None:
        self._job = job
        self._leash = leash
        self._answer = answer
        self._command = _Command(job, "cwd", lambda what, error: f"{error.strerror}: {what}")

    def keep(self) -> None:
        """Run the command to the end of its last process."""
        command = self._command
        try:
            command.start(_open_files(self._job), self._note)
        except (_StartError, OSError) as error:
            self._send(error=str(error))
            return
        self._send(started=True)
        while not command.is_over():
            if self._leash in command.wait(self._leash):
                if not os.read(self._leash, _CHUNK):
                    self._leash = -1
                    self._look_for_daemon()
                command.end()
            elif self._leash < 0 and not command.is_killed:
                self._look_for_daemon()
        assert command.status is not None, "it has not ended"
        self._send(status=os.waitstatus_to_exitcode(command.status))

    def _note(self, child: int) -> None:
        _redirect_to_null(0, 1, 2)
        self._send(child=child, at=started_at(child))

    def _look_for_daemon(self) -> None:
        """Give no more grace when Ray's daemon has gone, after the worker.

        Its node is lost then: the same work may soon begin on another node, which does not wait for
        the end of this one.
        """
        if started_at(self._job["parent"]) != self._job["parent_at"]:
            self._command.kill()

    def _send(self, **message: object) -> None:
        with suppress(OSError):  # the worker has gone; the leash says so
            os.write(self._answer, json.dumps(message).encode() + b"\n")


# What keepers need


def _ending(status: int | None) -> dict[str, Any]:
    assert status is not None, "it has not ended"
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"exit_status": os.WEXITSTATUS(status)}


# LISTS-17
def _usage_of(used: resource.struct_rusage | None) -> dict[str, int]:
    """Return what the command and its children have used."""
    assert used is not None, "it has not ended"
    # Linux says it in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    cpu_us = round((used.ru_utime + used.ru_stime) * 1_000_000)
    return {"cpu_us": cpu_us, "max_memory": used.ru_maxrss * unit}


def _nothing(_number: int, _frame: object) -> None:
    """Take a signal; that it came is read from the pipe."""


def _signals() -> int:
    """Have signals written to a pipe; return the end from which they are read."""
    wakes, wake = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _nothing)
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


def _open(name: str, path: str, how: int) -> int:
    try:
        return os.open(path, how, 0o666)
    except OSError as error:
        folder = os.path.dirname(path) or "."
        if not os.path.isdir(folder):
            msg = f"there is no folder {folder!r}, for {name}"
            raise _StartError(msg) from None
        msg = f"{error.strerror}: {name} {path!r}"
        raise _StartError(msg) from None


# LOCAL-15
def _join_cgroup(job: dict[str, Any]) -> None:
    """Move to the cgroup of the command, while this process may."""
    cgroup = job["cgroup"]
    if cgroup is not None:
        try:
            procs = os.open(f"{cgroup}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            os.write(procs, b"0")
        except OSError as error:
            msg = f"cgroup {cgroup}: {error.strerror}"
            raise _StartError(msg) from None
        os.close(procs)


# LOCAL-12
def _take_identity(job: dict[str, Any]) -> None:
    """Become the user as whom the command runs."""
    identity = job["identity"]
    if identity is not None:
        uid, gid, groups = identity
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)


def _write_error(errors: int, message: str) -> None:
    os.write(errors, message.encode("utf-8", "replace")[:_CHUNK])


def _keep_record(folder: Path, leash: int, answer: int) -> None:
    """Be the keeper, in the background."""
    os.setsid()
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    # The last holder of the lock may have found that nothing runs, and given up the job.
    if (folder / VOID).exists() or not (folder / JOB).exists():
        return
    write_json(folder / KEEPER, {"pid": os.getpid()})
    keeper = _RecordKeeper(folder, leash)
    try:
        keeper.start()
    except _StartError as error:
        os.write(answer, json.dumps({"error": str(error)}).encode() + b"\n")
        return
    os.write(answer, b"{}\n")
    os.close(answer)
    keeper.watch()


def main_of_record(folder: Path, leash: int) -> None:
    """Start a keeper in the background, and answer when the command has started or could not."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.close(read)
            _redirect_to_null(0, 1, 2)
            if leash >= 0:
                os.set_inheritable(leash, False)
            _keep_record(folder, leash, write)
        except OSError as error:
            os.write(write, json.dumps({"error": str(error)}).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(write)
    answer = b""
    while part := os.read(read, _CHUNK):
        answer += part
        if answer.endswith(b"\n"):
            break
    os.write(1, answer)


def _keep_by_pipes(leash: int, answer: int) -> None:
    """Be the keeper of the job that comes on the leash."""
    os.setsid()
    for number in (leash, answer):
        os.set_inheritable(number, False)
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(leash, _CHUNK)
        if not part:
            return  # the worker has gone before it said what to do
        line += part
    _PipeKeeper(json.loads(line), leash, answer).keep()


def main_of_pipes(leash: int, answer: int) -> None:
    """Start a keeper in the background."""
    if os.fork() == 0:
        try:
            _keep_by_pipes(leash, answer)
        finally:
            os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "record":
        main_of_record(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else -1)
    else:
        main_of_pipes(int(sys.argv[2]), int(sys.argv[3]))
