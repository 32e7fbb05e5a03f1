"""One crash run: a cluster, a service on it, a killer of both, and the checks afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, final

import attrs

from tests.engines import cluster as clusters
from tests.engines.cluster import Cluster, ClusterError
from tests.engines.crash.plans import Plan
from tests.engines.crash.verdict import Books, Kill, faults_in, read_books
from tests.engines.scheduled.rig import is_whole

Target = Literal["raylet", "agent", "service", "head"]
KINDS: Final[Mapping[Target, float]] = {
    "raylet": 20.0,
    "agent": 20.0,
    "service": 20.0,
    "head": 75.0,
}
"""What can be killed, and the time between two such kills in seconds: Ray notices the loss of its head
after a minute."""

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
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def log(self) -> str:
        """Return the end of its output."""
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
    """Kills one target after the other.

    Args:
        what: The targets, of which one is drawn for each kill.
        pace: How much is killed.
        seed: Where all is drawn from.
    """

    def __init__(
        self,
        cluster: Cluster,
        service: Service,
        what: tuple[Target, ...],
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

    def _pause_s(self, what: Target) -> float:
        return KINDS[what] if self._pace.every_s is None else self._pace.every_s

    def turn(self) -> None:
        """Do what is due, without waiting."""
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

    def _kill(self, what: Target) -> None:
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


_REST_S: Final = 120.0
"""How long it may take until nothing is left after everything is completed, in seconds."""


@final
@attrs.frozen
class Options:
    """The options of a crash run.

    Attributes:
        what: The targets of the kills.
        tasks: The number of asks.
        minutes: Over how long they are submitted.
        seed: Where all is drawn from.
        detached: Whether runs outlive the service.
        every_s: How far apart kills are, in seconds; None for what fits.
        most: How many kills there are at most; None for no limit.
        patience_s: How long it may take beyond that, in seconds.
    """

    what: tuple[Target, ...]
    tasks: int
    minutes: float
    seed: int
    detached: bool
    every_s: float | None = None
    most: int | None = None
    patience_s: float = 1200.0


@final
@attrs.frozen
class Outcome:
    """The result of a crash run.

    Attributes:
        faults: Everything that is wrong.
        figures: What happened, for a person.
    """

    faults: tuple[str, ...]
    figures: str


def run(options: Options, folder: Path, report: Callable[[str], None] = lambda _: None) -> Outcome:
    """Kill parts of a cluster while asks run on it; check the books.

    Args:
        options: The options of the run.
        folder: An empty folder for its files.
        report: Shows progress messages.
    """
    with clusters.cluster(*NODES) as running:
        plan = Plan(
            seed=options.seed,
            tasks=options.tasks,
            over_s=options.minutes * 60,
            address=running.address,
            python=running.python,
            folder=str(folder),
            detached=options.detached,
        )
        file = folder / "plan.json"
        plan.save(file)
        began_s = time.monotonic()
        service = Service(plan, file)
        try:
            pace = Pace(options.every_s, options.most)
            killer = Killer(running, service, options.what, pace, options.seed)
            faults = _until_it_ends(options, killer, service, began_s, report)
            took_s = time.monotonic() - began_s
            faults += _leftovers(running)
        finally:
            service.end()
    books = read_books(plan, killer.kills, time.monotonic() - time.time())
    faults = [*faults_in(books), *faults]
    if faults:
        faults.append(f"the service has printed:\n{service.log()}")
    return Outcome(tuple(faults), _figures(books, took_s))


def _until_it_ends(
    options: Options,
    killer: Killer,
    service: Service,
    began_s: float,
    report: Callable[[str], None],
) -> list[str]:
    """Kill until the service has ended by itself; return the faults of that."""
    reported = 0
    late_s = began_s + options.minutes * 60 + options.patience_s
    try:
        while (status := service.poll()) is None:
            killer.turn()
            for kill in killer.kills[reported:]:
                report(f"{kill.at_s - began_s:6.1f} s: killed {kill.what} {kill.node or ''}")
            reported = len(killer.kills)
            if time.monotonic() > late_s:
                return [f"not completed {options.patience_s:.0f} s after the last ask"]
            time.sleep(0.05)
        killer.finish()
    except ClusterError as error:
        return [f"the cluster of the test has failed: {error}"]
    return [] if status == 0 else [f"the service has ended with status {status}"]


def _leftovers(running: Cluster) -> list[str]:
    """Wait until nothing is left on the cluster; return the leftovers after a long time."""
    until_s = time.monotonic() + _REST_S
    while time.monotonic() < until_s:
        if not running.processes() and is_whole(running) and running.actors() == 0:
            return []
        time.sleep(0.2)
    processes, actors = running.processes(), running.actors()
    free = f"free by Ray's books: {running.available()} of {running.total()}"
    return [f"left over: {processes}, {actors} actors; {free}"]


def _figures(books: Books, took_s: float) -> str:
    gangs = {run.key[0] for run in books.runs if run.key[0].startswith("gang")}
    kills = len(books.kills)
    cut = sum(not run.has_ended for run in books.runs)
    reasons = ", ".join(f"{count} {name}" for name, count in sorted(books.reasons.items()))
    return (
        f"{len(books.asks)} asks, {len(gangs)} gangs among them; {len(books.runs)} runs, {cut} of "
        f"them cut short; {kills} kills; released: {reasons}; {took_s:.0f} s"
    )
