"""Helpers for tests with real processes: a FIFO, checks of processes, an ask for a command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import trio
from typing_extensions import override

import muster
from muster.subprocesses import Command

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        properties: {preemption.delay: 0s}
        queues: [{name: q}, {name: narrow, resources: {max: {vcore: 3}}}]
"""
ONE = {"vcore": 1}


class Fifo:
    """A FIFO that jobs write lines to, or read them from; both ends are open here as well."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self.stream = trio.lowlevel.FdStream(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        self._read = b""

    @override
    def __str__(self) -> str:
        return shlex.quote(self.path)

    async def line(self) -> str:
        """Wait for a line that a job writes."""
        while b"\n" not in self._read:
            self._read += await self.stream.receive_some()
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    async def lines(self, count: int) -> list[str]:
        return [await self.line() for _ in range(count)]


def state_of(pid: int) -> str:
    """Return the letter that ``ps`` shows for a process; ``X`` if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not reaped does not."""
    return state_of(pid) not in ("X", "Z")


def group_has_ended(group: int) -> bool:
    """Return whether no process of a group runs any more."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return not any(is_running(pid) and group_of(pid) == group for pid in pids)


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def same_command(run: Command | Sequence[str] | str) -> Callable[[muster.Allocation], Command]:
    """Run the same for every ask."""
    command = run if isinstance(run, Command) else Command(run)
    return lambda _: command


async def ask_for(
    scheduler: muster.Scheduler,
    app: str = "a",
    *,
    queue: str = "q",
    priority_class: str | None = None,
) -> muster.Ask:
    """Ask for the whole of the node ``n``, which comes if it is not there."""
    if not (await scheduler.snapshot()).nodes:
        await scheduler.add_node("n", ONE)
    return await (await scheduler.add_app(app, queue)).add_ask(
        "k", ONE, priority_class=priority_class
    )
