"""One crash run: a cluster, a service on it, kills, and what is wrong afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import attrs

from tests.engines import cluster as clusters
from tests.engines.cluster import Cluster, ClusterError
from tests.engines.crash.killing import NODES, Killer, Pace, Service, What
from tests.engines.crash.plans import Plan
from tests.engines.crash.verdict import Books, faults_in, read_books
from tests.engines.scheduled.rig import is_whole

_REST_S: Final = 120.0
"""How long it may take until nothing is left after everything is completed, in seconds."""


@final
@attrs.frozen
class Options:
    """What a crash run is like.

    Attributes:
        what: What is killed.
        tasks: The number of asks.
        minutes: Over how long they are asked for.
        seed: Where all is drawn from.
        detached: Whether runs outlive the service.
        every_s: How far apart kills are, in seconds; None for what fits.
        most: How many kills there are at most; None for no limit.
        patience_s: How long it may take beyond that, in seconds.
    """

    what: tuple[What, ...]
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
    """What a crash run has found.

    Attributes:
        faults: Everything that is wrong.
        figures: What happened, for a person.
    """

    faults: tuple[str, ...]
    figures: str


def run(options: Options, folder: Path, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    """Run it.

    Args:
        options: What it is like.
        folder: An empty folder for its files.
        tell: Is told what goes on.
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
            faults = _until_it_ends(options, killer, service, began_s, tell)
            took_s = time.monotonic() - began_s
            faults += _what_is_left(running)
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
    tell: Callable[[str], None],
) -> list[str]:
    """Kill until the service has ended by itself; return what was wrong with that."""
    told = 0
    late_s = began_s + options.minutes * 60 + options.patience_s
    try:
        while (status := service.poll()) is None:
            killer.turn()
            for kill in killer.kills[told:]:
                tell(f"{kill.at_s - began_s:6.1f} s: killed {kill.what} {kill.node or ''}")
            told = len(killer.kills)
            if time.monotonic() > late_s:
                return [f"not completed {options.patience_s:.0f} s after the last ask"]
            time.sleep(0.05)
        killer.finish()
    except ClusterError as error:
        return [f"the cluster of the test has failed: {error}"]
    return [] if status == 0 else [f"the service has ended with status {status}"]


def _what_is_left(running: Cluster) -> list[str]:
    """Wait until nothing is left on the cluster; return what is there after a long time."""
    until_s = time.monotonic() + _REST_S
    while time.monotonic() < until_s:
        if not running.processes() and is_whole(running) and running.actors() == 0:
            return []
        time.sleep(0.2)
    processes, actors = running.processes(), running.actors()
    free = f"free by Ray's books: {running.available()} of {running.total()}"
    return [f"left over: {processes}, {actors} actors; {free}"]


def _figures(books: Books, took_s: float) -> str:
    gangs = {run.key[0] for run in books.ran if run.key[0].startswith("gang")}
    kills = len(books.kills)
    cut = sum(not run.has_ended for run in books.ran)
    reasons = ", ".join(f"{count} {name}" for name, count in sorted(books.reasons.items()))
    return (
        f"{len(books.asks)} asks, {len(gangs)} gangs among them; {len(books.ran)} runs, {cut} of "
        f"them cut short; {kills} kills; released: {reasons}; {took_s:.0f} s"
    )
