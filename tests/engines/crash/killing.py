"""Kills what runs the work, again and again, and starts again what does not come back by itself."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, final

import attrs

from tests.engines.cluster import Cluster
from tests.engines.crash.plans import Plan
from tests.engines.crash.verdict import Kill

What = Literal["raylet", "agent", "service", "head"]
KINDS: Final[Mapping[What, float]] = {"raylet": 20.0, "agent": 20.0, "service": 20.0, "head": 75.0}
"""What can be killed, and how far apart in seconds. Ray needs a minute until it notices that the
head has gone."""

NODES: Final = ("a", "b", "c")

AGENT: Final = "muster/ray/agent.py"
"""A part of the command of the agent."""

_COMES_BACK_S: Final = (1.0, 8.0)
"""How long a raylet, or the head, stays away, in seconds."""

PROJECT: Final = Path(__file__).parents[3]


@final
class Service:
    """The process of the service, which is started again when it was killed."""

    def __init__(self, plan: Plan, file: Path) -> None:
        self._file = file
        self._log = Path(plan.folder, "service.log")
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.engines.crash.service", str(self._file)]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, cwd=PROJECT, stdout=log, stderr=log)

    def poll(self) -> int | None:
        """Return its exit status, or None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """``kill -9`` it, and start another one."""
        self._process.kill()
        self._process.wait()
        self._process = self._started()

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        """Return the end of what it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]


@final
@attrs.frozen
class Pace:
    """How much is killed.

    Attributes:
        every_s: How far apart kills are, in seconds; None for what fits.
        most: How many there are at most; None for no limit.
    """

    every_s: float | None = None
    most: int | None = None


@final
class Killer:
    """Kills one thing after the other.

    Args:
        what: What is killed each time; drawn from these.
        pace: How much is killed.
        seed: Where all is drawn from.
    """

    def __init__(
        self,
        cluster: Cluster,
        service: Service,
        what: tuple[What, ...],
        pace: Pace,
        seed: int,
    ) -> None:
        self._cluster = cluster
        self._service = service
        self._what = what
        self._pace = pace
        self._draw = random.Random(seed)
        self._next_s = time.monotonic() + self._pause_s(what[0])
        self._back: list[tuple[float, str]] = []
        self.kills: list[Kill] = []

    def _pause_s(self, what: What) -> float:
        return KINDS[what] if self._pace.every_s is None else self._pace.every_s

    def turn(self) -> None:
        """Do what is due, without waiting for anything else."""
        now = time.monotonic()
        for due in [due for due in self._back if due[0] <= now]:
            self._back.remove(due)
            self._bring_back(due[1])
        is_enough = self._pace.most is not None and len(self.kills) >= self._pace.most
        if now >= self._next_s and not self._back and not is_enough:
            what = self._draw.choice(self._what)
            self._next_s = now + self._pause_s(what)
            self._kill(what)

    def finish(self) -> None:
        """Bring everything back."""
        for _, name in self._back:
            self._bring_back(name)
        self._back.clear()

    def _kill(self, what: What) -> None:
        back_s = time.monotonic() + self._draw.uniform(*_COMES_BACK_S)
        node = self._draw.choice(NODES) if what == "raylet" else None
        if what == "raylet" and node is not None:
            self._cluster.kill(node)
            self._back.append((back_s, node))
        elif what == "agent":
            if not (agents := agents_of(self._cluster)):
                return
            for pid in agents:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif what == "service":
            self._service.kill()
        else:
            self._cluster.kill_head()
            self._back.append((back_s, ""))
        self.kills.append(Kill(time.monotonic(), what, node))

    def _bring_back(self, name: str) -> None:
        if name:
            self._cluster.add(name)
            return
        self._cluster.start_head()
        self.kills.append(Kill(time.monotonic(), "head"))  # all raylets are killed here
        for node in NODES:
            self._cluster.add(node)


def agents_of(cluster: Cluster) -> list[int]:
    """Return the processes that are connected to Ray for a program."""
    return [pid for pid, command in cluster.processes().items() if AGENT in command]
