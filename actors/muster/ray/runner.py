"""The work in a worker of Ray: a command below a keeper, or a callable, each at most once.

This file is sent to the workers by value, so it needs nothing but the standard library, and they
need no Muster. :func:`work` is a task that gives *items*, tuples whose first member says what they
are::

    (PLACED, pid, at)         the worker has the room, and waits at the gate of its gang
    (STARTED, pid, at)        the work has begun: the process of the command, or this worker
    (ENDED, status, value)    it has ended by itself
    (FAILED, error, text)     the callable has raised, or the command cannot be started
    (CLOSED, error, lost)     the gate does not open, or is lost

Nothing here blocks for long: Ray's soft cancel sets a mark that Python checks between two
instructions, and a blocking call does not return for it. So every wait is a loop of short ones.
"""

from __future__ import annotations

import _thread
import asyncio
import ctypes
import importlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from muster._keeper import running, started_at

PLACED: Final = "placed"
STARTED: Final = "started"
ENDED: Final = "ended"
FAILED: Final = "failed"
CLOSED: Final = "closed"

Item = tuple[Any, ...]
Handle = Any
"""An actor of Ray, seen from outside."""

_POLL_S: Final = 0.02
"""The period for checking whether the work is to end, in seconds."""

_FENCE_S: Final = 0.1
"""The period for checking whether Ray's daemon lives, in seconds."""

_CHUNK: Final = 65_536


class EndRequest:
    """Whether a run is asked to end: by Ray's soft cancel, or from another thread.

    The soft cancel is an interrupt of the main thread. Raised as ``KeyboardInterrupt`` at any
    place, it could lose a process that was just started, or be lost itself: Ray's own code drops
    it. So the runner notes it, and only a callable is interrupted, once. The agent may send it
    several times.

    A callable that runs in another thread, as that of a detached run does, is interrupted there.
    """

    def __init__(self) -> None:
        self.to_end = False
        self._raises = False
        self._is_inside = False
        #: The thread of the callable; None for the main thread.
        self._thread: int | None = None
        self._ending = threading.Lock()

    def end(self) -> None:
        """Ask it to end, from another thread than that of the work."""
        with self._ending:
            self.to_end = True
            if self._thread is not None and self._raises:
                self._raises = False
                _interrupt_in(self._thread)

    @contextmanager
    def noting_interrupts(self, *, always: bool) -> Generator[None, None, None]:
        """Note interrupts, in the main thread.

        Args:
            always: Also where interrupts are ignored, as by default in this process.
        """
        before = signal.getsignal(signal.SIGINT)
        main = threading.current_thread() is threading.main_thread()
        if not main or (before in (None, signal.SIG_IGN) and not always):
            yield
            return
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, _number: int, _frame: object) -> None:
        self.to_end = True
        if self._raises:
            self._raises = False
            raise KeyboardInterrupt

    def _interrupt_again(self) -> None:
        if self._is_inside and self._thread is not None:
            _interrupt_in(self._thread)
        elif self._is_inside:
            self._raises = True
            _thread.interrupt_main()

    @contextmanager
    def interrupts(self) -> Generator[None, None, None]:
        """Interrupt the block, once."""
        if self.to_end:
            raise _EndRequested
        before = sys.unraisablehook

        def lost(what: Any) -> None:  # noqa: ANN401 - it has no public type
            # Python drops errors that are raised in a destructor, for example: so once more.
            if what.exc_type is KeyboardInterrupt:
                threading.Timer(_POLL_S, self._interrupt_again).start()
            else:
                before(what)

        sys.unraisablehook = lost
        is_main = threading.current_thread() is threading.main_thread()
        self._thread = None if is_main else threading.get_ident()
        self._raises = self._is_inside = True
        try:
            if self.to_end:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = self._is_inside = False
            sys.unraisablehook = before


def _interrupt_in(thread: int) -> None:
    """Let a thread raise ``KeyboardInterrupt`` between two instructions."""
    # It is not to be taken back: Python would look for it for ever, before each call.
    raised = ctypes.py_object(KeyboardInterrupt)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def work(
    keeper: str, job: dict[str, Any], gate: Handle = None, end_request: EndRequest | None = None
) -> Generator[Item, None, None]:
    """Run a command or a callable.

    Args:
        keeper: The text of ``keeper.py``.
        job: The job: ``name``, ``grace_s``, and the fields of the work.
        gate: The actor that keeps the gates of gangs, or None. ``job["gate"]`` is the name there.
        end_request: Whether it is asked to end; of its own if None.

    Yields:
        Its items.
    """
    end_request = end_request or EndRequest()
    job = {**job, "env": {**job["env"], "MUSTER_RUN": job["name"]}}
    over = threading.Event()
    try:
        with end_request.noting_interrupts(always=job["kind"] == "command"):
            threading.Thread(
                target=_end_without_daemon, args=(os.getppid(), over), daemon=True
            ).start()
            yield from _at_gate(job, gate, end_request)
            if job["kind"] == "call":
                yield from _call(job, end_request)
            else:
                yield from _command(keeper, job, end_request)
    except _GateClosed as error:
        yield (CLOSED, *error.args)
    except _EndRequested:
        pass
    finally:
        over.set()


class _GateClosed(Exception):  # noqa: N818 - it becomes an item
    """The gate of the gang does not open."""


class _EndRequested(Exception):  # noqa: N818 - no error
    """The run was asked to end before it began."""


def _at_gate(job: dict[str, Any], gate: Handle, end_request: EndRequest) -> Iterator[Item]:
    """Wait until all members of the gang are placed."""
    if gate is None:
        return
    yield (PLACED, os.getpid(), started_at(os.getpid()))
    # A future, and no call of Ray that waits: Ray would give away the processors meanwhile.
    answer = gate.wait.remote(job["gate"]).future()
    while not answer.done():
        if end_request.to_end:
            raise _EndRequested
        time.sleep(_POLL_S)
    try:
        opened = answer.result()
    except Exception as error:  # noqa: BLE001 - what Ray raises is no matter here
        raise _GateClosed(f"the gate is lost: {error}", True) from None
    if not opened:
        raise _GateClosed("another member of the gang has not started", False)


# Callables


def _call(job: dict[str, Any], end_request: EndRequest) -> Iterator[Item]:
    yield (STARTED, os.getpid(), started_at(os.getpid()))
    try:
        with _environment(job["env"]), end_request.interrupts():
            positional, named = _loads(job["arguments"])
            value = _function(job["function"])(*positional, **named)
            data = _result(value)
    except (KeyboardInterrupt, _EndRequested):
        raise
    except BaseException as error:  # noqa: BLE001 - also SystemExit, which would end the worker
        yield (FAILED, _line(error), traceback.format_exc())
    else:
        yield (ENDED, None, data)


def _line(error: BaseException) -> str:
    with suppress(Exception):
        return traceback.format_exception_only(error)[-1].strip()
    return type(error).__name__


def _function(what: str | bytes) -> Callable[..., object]:
    if isinstance(what, bytes):
        given: Callable[..., object] = _loads(what)
        return given
    module, _, name = what.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    called: Callable[..., object] = found
    return called


def _loads(data: bytes) -> Any:  # noqa: ANN401 - whatever was pickled
    # A worker has the cloudpickle that comes with Ray, and perhaps no other.
    for name in ("cloudpickle", "cloudpickle.cloudpickle"):
        if name not in sys.modules and f"ray.{name}" in sys.modules:
            try:
                importlib.import_module(name)
            except ImportError:
                sys.modules[name] = sys.modules[f"ray.{name}"]
    return pickle.loads(data)


def _result(value: object) -> bytes:
    try:
        return _dumps(value)
    except Exception as error:
        raise TypeError(f"the result cannot be pickled: {error}") from error


def _dumps(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:
        theirs = sys.modules.get("ray.cloudpickle")
        if theirs is None:
            raise
        data: bytes = theirs.dumps(value)
        return data


@contextmanager
def _environment(added: dict[str, str]) -> Generator[None, None, None]:
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# Commands


def _command(keeper: str, job: dict[str, Any], end_request: EndRequest) -> Iterator[Item]:
    kept = _KeptCommand(keeper, job)
    try:
        status = None
        while True:
            message = kept.poll()
            if end_request.to_end:
                kept.end()
            if message is None:
                continue
            if "error" in message:
                yield (FAILED, message["error"], message["error"])
                return
            if "started" in message:
                yield (STARTED, kept.group, kept.at)
            elif "status" in message:
                status = message["status"]
                break
        yield (ENDED, status, None)
    finally:
        kept.close()


class _KeptCommand:
    """A command with its keeper, seen from the worker."""

    def __init__(self, keeper: str, job: dict[str, Any]) -> None:
        self.group = 0
        self.at: int | None = None
        self._is_over = False
        self._is_ending = False
        self._kill_at: float | None = None
        self._received = b""
        self._grace_s: float = job["grace_s"]
        theirs, self._leash = os.pipe()
        self._answer, answers = os.pipe()
        launcher = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-X",
                "utf8",
                "-c",
                keeper,
                "pipes",
                *map(str, (theirs, answers)),
            ],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs, answers),
            cwd="/" if not os.path.isdir(".") else None,
        )
        os.close(theirs)
        os.close(answers)
        with suppress(BrokenPipeError):  # the answer says that the keeper has gone
            _write(self._leash, json.dumps(_job_message(job)).encode() + b"\n")
        launcher.wait()

    def poll(self) -> dict[str, Any] | None:
        """Return the next message of the keeper, if it comes within a short time."""
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                message: dict[str, Any] = json.loads(line)
                if "child" not in message:
                    self._is_over = "started" not in message
                    return message
                self.group, self.at = message["child"], message["at"]
                continue
            if not select.select([self._answer], [], [], _POLL_S)[0]:
                return None
            part = os.read(self._answer, _CHUNK)
            if not part:
                return self._without_keeper()
            self._received += part

    def _without_keeper(self) -> dict[str, Any]:
        """The keeper was killed: end the group in its place."""
        self._is_over = True
        end_group(self.group, self.at, self._grace_s if self._is_ending else 0.0)
        return {"error": "the keeper of the command was killed"}

    def end(self) -> None:
        """Ask the keeper to end the command."""
        if not self._is_ending:
            self._is_ending = True
            with suppress(BrokenPipeError):
                os.write(self._leash, b"t")

    def close(self) -> None:
        """End the command if it has not ended, and wait until nothing of it runs."""
        while not self._is_over:
            self.end()
            self.poll()
        os.close(self._leash)
        os.close(self._answer)


def _job_message(job: dict[str, Any]) -> dict[str, Any]:
    """Return the job as the keeper needs it."""
    run: list[str] | str = job["run"]
    parent = os.getppid()
    return {
        "command": ["/bin/sh", "-c", run] if isinstance(run, str) else run,
        "cwd": job["cwd"],
        "env": {**os.environ, **job["env"]},
        "stdin": job["stdin"],
        "stdout": job["stdout"],
        "stderr": job["stderr"],
        "grace_s": job["grace_s"],
        "parent": parent,
        "parent_at": started_at(parent),
    }


def _write(end: int, data: bytes) -> None:
    while data:
        data = data[os.write(end, data) :]


# Processes that are left, or must not be left


def end_group(group: int, at: int | None, grace_s: float) -> bool:
    """End a group whose keeper has gone, and wait until nothing of it runs.

    Args:
        group: The id of the group, which is the number of its first process; 0 for no group.
        at: When that process has started: another process may have the number now.
        grace_s: How long the group may take to end by itself after SIGTERM, in seconds.

    Returns:
        Whether nothing of it runs any more.
    """
    if not group or started_at(group) not in (at, -1):
        return True
    kill_at = time.monotonic() + grace_s
    gone_at = kill_at + 2.0
    _signal(group, signal.SIGTERM)
    _signal(group, signal.SIGCONT)
    while running(group):
        if time.monotonic() >= gone_at:
            return False
        if time.monotonic() >= kill_at:
            _signal(group, signal.SIGKILL)
        time.sleep(_POLL_S)
    return True


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_without_daemon(parent: int, over: threading.Event) -> None:
    """End this worker when Ray's daemon, its parent, has gone: the node is lost for Ray."""
    while not over.wait(_FENCE_S):
        if os.getppid() != parent:
            for pid in _descendants(os.getpid()):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            os._exit(1)  # keepers notice it, and end their commands


def _descendants(root: int) -> list[int]:
    """Return the processes that a process has started, and those that these have started."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found: list[int] = []
    left = [root]
    while left:
        mine = children.get(left.pop(), [])
        found += mine
        left += mine
    return found


# Tasks of the agent itself


def is_over(pid: int, at: int | None, grace_s: float) -> bool:
    """Return whether the process of a run has ended: its command is ended if its keeper has not."""
    return end_group(pid, at, grace_s)


def worker_is_over(pid: int, at: int | None) -> bool:
    """Return whether a worker has ended."""
    return started_at(pid) != at


def ignores_interrupts() -> bool:
    """Return whether the workers of this node ignore SIGINT, so that soft cancel does nothing."""
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def warm(within_s: float) -> Iterator[int]:
    """Hold a worker until it is cancelled, so that another one is started beside it."""
    yield os.getpid()
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        time.sleep(_POLL_S)


# Actors


class Gates:
    """The gates of gangs: their members wait here until all are placed. An actor of Ray."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Future[bool]] = {}

    def _gate(self, name: str) -> asyncio.Future[bool]:
        if name not in self._gates:
            self._gates[name] = asyncio.get_running_loop().create_future()
        return self._gates[name]

    async def wait(self, name: str) -> bool:
        """Wait at a gate; return whether it was opened, or is not going to be."""
        return await asyncio.shield(self._gate(name))

    async def go(self, name: str, opened: bool) -> None:
        """Open a gate, or say that it is not going to be opened."""
        gate = self._gate(name)
        if not gate.done():
            gate.set_result(opened)

    async def forget(self, name: str) -> None:
        """Remove a gate at which no member waits any more."""
        self._gates.pop(name, None)


class Detached:
    """A run that outlives the program, and keeps its end until it is fetched: an actor of Ray."""

    def __init__(self, keeper: str, job: dict[str, Any], about: dict[str, Any]) -> None:
        self._keeper = keeper
        self._job = job
        self._description = about
        self._end_request = EndRequest()
        self._has_begun = False
        self._items: list[Item] = []
        self._new = threading.Condition()

    def begin(self, gate: Handle) -> None:
        """Do the work. It goes on when the program that called this has gone."""
        if self._has_begun or self._end_request.to_end:
            return
        self._has_begun = True
        try:
            for item in work(self._keeper, self._job, gate, self._end_request):
                self._notify(item)
        except KeyboardInterrupt:
            self._notify((FAILED, "KeyboardInterrupt", "KeyboardInterrupt"))
        finally:
            if not self._items or self._items[-1][0] in (PLACED, STARTED):
                self._notify((CLOSED, "the run was asked to end", False))

    def _notify(self, item: Item) -> None:
        with self._new:
            self._items.append(item)
            self._new.notify_all()

    def about(self) -> dict[str, Any]:
        """Return its state for an agent."""
        last = self._items[-1][0] if self._items else PLACED
        state = {PLACED: "placed", CLOSED: "placed", STARTED: "running"}.get(last, "ended")
        return {**self._description, "state": state}

    def items(self, since: int, within_s: float) -> list[Item]:
        """Return the items from a number on, as soon as there is one."""
        with self._new:
            self._new.wait_for(lambda: len(self._items) > since, timeout=within_s)
            return self._items[since:]

    def end(self) -> None:
        """Ask the work to end."""
        self._end_request.end()
