"""A worker without Ray, as plain processes, and the processes that it leaves."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from muster import _keeper as keeper
from muster.ray import runner

STAND_IN: Final = Path(__file__).with_name("stand_in.py")
LONG_S: Final = 60.0
"""How long to wait for anything, in seconds; only a failing test waits so long."""

_MARK: Final = "MUSTER_TEST_MARK"


def shipped() -> bytes:
    """Return the runner as it is sent to workers, by value, and the text of the keeper."""
    cloudpickle: Any = importlib.import_module("cloudpickle")
    for module in (runner, keeper):
        cloudpickle.register_pickle_by_value(module)
    try:
        data: bytes = cloudpickle.dumps((runner.work, Path(keeper.__file__).read_text("utf-8")))
    finally:
        for module in (runner, keeper):
            cloudpickle.unregister_pickle_by_value(module)
    return data


def command(run: list[str] | str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the job of a command."""
    files = {"cwd": None, "stdin": None, "stdout": None, "stderr": None}
    return _job({"kind": "command", "run": run, **files, **more})


def callable_job(function: Any, *args: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the job of a callable."""
    cloudpickle: Any = importlib.import_module("cloudpickle")
    sent = function if isinstance(function, str) else cloudpickle.dumps(function)
    named = more.pop("kwargs", {})
    arguments = cloudpickle.dumps((args, named))
    return _job({"kind": "call", "function": sent, "arguments": arguments, **more})


def _job(work: dict[str, Any]) -> dict[str, Any]:
    return {"name": "app/ask/1", "grace_s": 30.0, "env": {}, "gate": None, **work}


class Worker:
    """A daemon with one worker that runs one job."""

    def __init__(self, folder: Path, job: Mapping[str, Any]) -> None:
        (folder / "runner").write_bytes(shipped())
        (folder / "job").write_bytes(pickle.dumps(dict(job)))
        self.mark = uuid.uuid4().hex
        self._output = b""
        self.daemon = subprocess.Popen(
            [sys.executable, "-I", str(STAND_IN), str(folder / "runner"), str(folder / "job")],
            stdout=subprocess.PIPE,
            env={**os.environ, _MARK: self.mark},
            start_new_session=True,
        )
        self.pid = int(self.wait_for("worker")[1])

    def wait_for(self, what: str) -> list[Any]:
        """Wait for an item; those before it are forgotten."""
        until = time.monotonic() + LONG_S
        while True:
            item = self._item(until)
            assert item is not None, f"it has ended without {what!r}"
            if item[0] == what:
                return item

    def items(self) -> list[list[Any]]:
        """Return all further items, to the end."""
        until = time.monotonic() + LONG_S
        return list(iter(lambda: self._item(until), None))

    def _item(self, until: float) -> list[Any] | None:
        assert self.daemon.stdout is not None
        while b"\n" not in self._output:
            ready, _, _ = select.select([self.daemon.stdout], [], [], until - time.monotonic())
            assert ready, "nothing was heard in time"
            part = os.read(self.daemon.stdout.fileno(), 65_536)
            if not part:
                return None
            self._output += part
        line, _, self._output = self._output.partition(b"\n")
        found: list[Any] = json.loads(line)
        return found

    def left(self) -> dict[int, list[str]]:
        """Return the processes that run for it, with their commands."""
        found: dict[int, list[str]] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{_MARK}={self.mark}".encode() not in (folder / "environ").read_bytes():
                    continue
                parts = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if keeper.started_at(int(folder.name)) != -1:
                found[int(folder.name)] = parts
        return found

    def keeper(self) -> int | None:
        """Return the process of the keeper, or of its launcher."""
        for pid, parts in self.left().items():
            if parts[1:3] == ["-I", "-S"]:
                return pid
        return None

    def commands(self) -> dict[int, list[str]]:
        """Return what runs but for the stand-in and the keeper, which may take a moment to end."""
        return {pid: parts for pid, parts in self.left().items() if parts[1:2] != ["-I"]}

    def close(self) -> None:
        for pid in self.left():
            kill_if_there(pid, signal.SIGKILL)
        self.daemon.wait(LONG_S)
        assert self.daemon.stdout is not None
        self.daemon.stdout.close()


@contextmanager
def worker(folder: Path, job: Mapping[str, Any]) -> Generator[Worker, None, None]:
    """Run a job, and end it at the end."""
    running = Worker(folder, job)
    try:
        yield running
    finally:
        running.close()


def kill_if_there(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, which may have ended just now."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until(is_so: Callable[[], bool], what: str) -> float:
    """Wait until a condition holds.

    Returns:
        How long it took, in seconds.
    """
    since = time.monotonic()
    while not is_so():
        assert time.monotonic() < since + LONG_S, f"not in time: {what}"
        time.sleep(0.01)
    return time.monotonic() - since
