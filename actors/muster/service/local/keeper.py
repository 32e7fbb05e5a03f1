"""The keeper of one job: starts its command, keeps its output, and writes down how it ended.

It runs as a script, with nothing but the standard library, since each job has one::

    python -I -S -X utf8 keeper.py RECORD [LEASH]

RECORD is the folder of the job (``job.json`` says what to run), LEASH the number of a descriptor
of a pipe: when its other end is closed, the job is ended. The script answers with one line of JSON
when the command has started or could not be, and leaves the keeper behind in the background.

* It holds a lock on ``lock`` as long as it lives. A process that gets the lock instead, and then
  writes ``void``, knows that nothing runs for this record, and nothing ever will.
* ``child.json`` names the process of the command, and is written before the command begins.
* ``result.json`` says how it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import time
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


def started_at(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; None if unknown."""
    try:
        stat = Path(f"{_PROC}/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the process is in parentheses, and may contain any character.
    return int(stat.rpartition(b")")[2].split()[19])


def boot() -> str:
    """Return what identifies this boot of the machine; empty if unknown."""
    try:
        return Path(f"{_PROC}/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


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


# LOCAL-7
class _Keeper:
    """Keeps one job, from its start to its end."""

    def __init__(self, folder: Path, leash: int | None) -> None:
        self._folder = folder
        self._leash = leash
        self._job: dict[str, Any] = json.loads((folder / JOB).read_bytes())
        self._output = _Output(self._job["log"], self._job["log_bytes"])
        self._child = 0
        self._pipe = -1
        self._wakes = -1
        self._status: int | None = None
        self._used: dict[str, int] = {}
        self._end_requested = False
        self._kill_at: float | None = None
        self._gone_at: float | None = None
        self._report: dict[str, Any] = {**self._job["about"], "started_us": now_us()}

    def start(self) -> None:
        """Start the command.

        Raises:
            _StartError: If it cannot be started.
        """
        self._wakes = _signals()
        write_json(Path(self._job["told"]), self._report)
        try:
            self._spawn()
        except (_StartError, OSError) as error:
            self._output.say(f"the command cannot be started: {error}")
            self._finish({"error": str(error)})
            raise _StartError(str(error)) from error

    def _spawn(self) -> None:
        self._pipe, output = os.pipe()
        go_read, go_write = os.pipe()
        wrong_read, wrong_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go_write)  # else it would wait for itself if the keeper was killed
            _become(self._job, go_read, output, wrong_write)
        self._child = child
        for end in (output, go_read, wrong_write):
            os.close(end)
        about = {"pid": child, "started": started_at(child), "boot": boot()}
        write_json(self._folder / CHILD, about)
        os.write(go_write, b"g")
        os.close(go_write)
        wrong = b""
        while part := os.read(wrong_read, _CHUNK):
            wrong += part
        os.close(wrong_read)
        if wrong:
            os.waitpid(child, 0)
            raise _StartError(wrong.decode("utf-8", "replace"))

    def watch(self) -> None:
        """Wait until the command and what it left behind has ended."""
        while True:
            sources = [self._wakes]
            sources += [end for end in (self._pipe, self._leash) if end is not None and end >= 0]
            patience = None if self._kill_at is None else _POLL_S
            found, _, _ = select.select(sources, [], [], patience)
            if self._pipe in found:
                self._copy()
            if self._wakes in found and signal.SIGTERM in os.read(self._wakes, _CHUNK):
                self._end_on_request()
            if self._leash is not None and self._leash in found:
                self._leash = None
                self._end()
            self._reap()
            if self._is_over():
                break
        ending = {**_ending(self._status), **self._leave_cgroup()}
        self._drain()
        self._finish({**ending, **self._used})

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
        data = os.read(self._pipe, _CHUNK)
        if data:
            self._output.write(data)
            return True
        os.close(self._pipe)
        self._pipe = -1
        return False

    def _drain(self) -> None:
        """Take what is left in the pipe, which a process that left the group may hold open."""
        for _ in range(_DRAINS):
            if self._pipe < 0 or not select.select([self._pipe], [], [], 0)[0] or not self._copy():
                return

    def _reap(self) -> None:
        if self._status is None:
            pid, status, used = os.wait4(self._child, os.WNOHANG)
            if pid:
                self._status = status
                self._used = _usage_of(used)
                self._end()  # what it left in the background

    def _end_on_request(self) -> None:
        """End the group, as the service asks; if it asks again, at once."""
        if self._end_requested:
            self._kill_at = time.monotonic()
        self._end_requested = True
        self._end()

    def _end(self) -> None:
        """Begin to end the group."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._job["grace_s"]
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped process would not handle SIGTERM otherwise

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
        try:
            os.killpg(self._child, number)
        except (ProcessLookupError, PermissionError):
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


def now_us() -> int:
    """Return the present instant, in microseconds since 1970 in UTC."""
    return time.time_ns() // 1000


def _ending(status: int | None) -> dict[str, Any]:
    assert status is not None, "it has not ended"
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"exit_status": os.WEXITSTATUS(status)}


# LISTS-17
def _usage_of(used: resource.struct_rusage) -> dict[str, int]:
    """Return what the command and its children have used."""
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


def _become(job: dict[str, Any], go: int, output: int, wrong: int) -> NoReturn:
    """Become the command, in the child, once the keeper has noted the process."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        if os.read(go, 1) != b"g":
            os._exit(127)  # the keeper is gone, and has not noted this process
        for number in (
            *_BACKGROUND,
            signal.SIGCHLD,
            signal.SIGTERM,
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        _join_cgroup(job)
        _take_identity(job)
        _enter(job)
        command: list[str] = job["command"]
        try:
            os.execvpe(command[0], command, job["env"])
        except OSError as error:
            _report_error(wrong, f"{command[0]!r}: {error.strerror}")
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must not go on
        _report_error(wrong, str(error))
    os._exit(127)


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


def _enter(job: dict[str, Any]) -> None:
    """Go to the working folder, as the user of the command."""
    try:
        os.chdir(job["workdir"])
    except OSError as error:
        msg = f"workdir {job['workdir']!r}: {error.strerror}"
        raise _StartError(msg) from None


def _report_error(wrong: int, why: str) -> None:
    os.write(wrong, why.encode("utf-8", "replace")[:_CHUNK])


def _keep(folder: Path, leash: int | None, answer: int) -> None:
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
    keeper = _Keeper(folder, leash)
    try:
        keeper.start()
    except _StartError as error:
        os.write(answer, json.dumps({"error": str(error)}).encode() + b"\n")
        return
    os.write(answer, b"{}\n")
    os.close(answer)
    keeper.watch()


def main(folder: Path, leash: int | None) -> None:
    """Start a keeper in the background, and answer when the command has started or could not."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.close(read)
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nothing, number)
            if leash is not None:
                os.set_inheritable(leash, False)
            _keep(folder, leash, write)
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
