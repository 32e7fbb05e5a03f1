"""Loads with which others measured their schedulers, for Muster.

Each is the shape that was published: how many nodes, queues and jobs, when they come and how long
they run. Muster replays it in virtual time, so what is measured is its own processor time, and
not that of an API server.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

import attrs
import click

Event: TypeAlias = dict[str, object]


@attrs.frozen
class Workloads:
    """Equal workloads that one queue gets.

    Attributes:
        kind: What Kueue calls them.
        count: How many.
        every_ms: How much later the next one comes.
        run_ms: How long one runs.
        priority: Its priority.
        request: How many processors it needs.
    """

    kind: str
    count: int
    every_ms: int
    run_ms: int
    priority: int
    request: int


@attrs.frozen
class Kueue:
    """One of the configurations of Kueue's performance test.

    Attributes:
        cohorts: How many cohorts there are.
        queues: How many queues each of them has.
        workloads: What each queue gets.
    """

    cohorts: int
    queues: int
    workloads: Sequence[Workloads]

    def coming(self) -> Iterator[tuple[int, str, str, Workloads]]:
        """Yield the arrival of each workload in milliseconds, its name, its queue, and its shape."""
        for cohort in range(self.cohorts):
            for queue in range(self.queues):
                path = f"root.cohort-{cohort}.cq-{queue}"
                for some in self.workloads:
                    for place in range(some.count):
                        name = f"{some.kind}-{cohort}-{queue}-{place}"
                        yield some.every_ms * (place + 1), name, path, some


QUOTA: Final = 20
"""How many processors a queue of Kueue has; it may borrow what its cohort has, up to 100."""

BASELINE: Final = Kueue(
    5,
    6,
    [
        Workloads("small", 350, 100, 200, 50, 1),
        Workloads("medium", 100, 500, 500, 100, 5),
        Workloads("large", 50, 1200, 1000, 200, 20),
    ],
)
LARGE: Final = Kueue(
    10,
    100,
    [
        Workloads("small", 35, 60, 150, 50, 1),
        Workloads("medium", 11, 300, 350, 100, 5),
        Workloads("large", 4, 700, 700, 200, 20),
    ],
)


@attrs.frozen
class Run:
    """A replay.

    Attributes:
        cpu_s: The processor time that it took, in seconds.
        memory_kib: The most memory that it had, in KiB.
        bound: When each application was first bound, in seconds.
        end_s: When the last ask ended, in seconds; 0 if none did.
        evictions: How often an ask lost its node.
    """

    cpu_s: float
    memory_kib: int
    bound: Mapping[str, float]
    end_s: float
    evictions: int


def kueue(shape: Kueue) -> Iterator[Event]:
    """Yield the feed for a configuration of Kueue's performance test.

    A cohort is a parent queue. A queue of Kueue has a quota and no nodes, so one node is as large
    as all quotas together.
    """
    of_cohort = QUOTA * shape.queues
    queue = {
        "properties": {"application.sort.priority": "enabled", "preemption.delay": "0s"},
        "resources": {
            "guaranteed": {"vcore": QUOTA},
            "max": {"vcore": min(of_cohort, QUOTA + 100)},
        },
    }
    yield from _begin(
        [
            {
                "name": f"cohort-{cohort}",
                "resources": {"max": {"vcore": of_cohort}},
                "queues": [{"name": f"cq-{place}", **queue} for place in range(shape.queues)],
            }
            for cohort in range(shape.cohorts)
        ]
    )
    yield {"op": "add_node", "node": "all", "capacity": {"vcore": of_cohort * shape.cohorts}}
    for at_ms, app, path, some in sorted(shape.coming(), key=lambda one: one[0]):
        yield {"op": "add_app", "at": at_ms / 1000, "app": app, "queue": path}
        yield {
            "op": "add_ask",
            "app": app,
            "ask": "task",
            "resources": {"vcore": some.request},
            "priority": some.priority,
            "run_for": some.run_ms / 1000,
        }


def yunikorn(nodes: int, apps: int = 10, pods: int = 5_000) -> Iterator[Event]:
    """Yield the feed for YuniKorn's test with Kubemark: all pods come at once, and all fit."""
    yield from _begin([{"name": "default"}])
    room = {"vcore": apps * pods // nodes + 1, "memory": "1Ti"}
    for node in range(nodes):
        yield {"op": "add_node", "node": f"node-{node:04}", "capacity": room}
    for app in range(apps):
        yield {"op": "add_app", "app": f"app-{app}", "queue": "root.default"}
        yield {
            "op": "add_ask",
            "app": f"app-{app}",
            "ask": "pod",
            "count": pods,
            "resources": {"vcore": 1, "memory": "1Gi"},
        }


def _begin(queues: Sequence[Mapping[str, object]]) -> Iterator[Event]:
    root = {"name": "root", "submitacl": "*", "queues": queues}
    yield {"op": "configure", "config": {"partitions": [{"name": "default", "queues": [root]}]}}


def replay(events: Iterator[Event]) -> Run:
    """Replay a feed in a process of its own.

    Raises:
        click.ClickException: It failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        feed, log = Path(folder, "feed.jsonl"), Path(folder, "decisions.jsonl")
        feed.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        words = [sys.executable, "-m", "muster", "replay", str(feed), "--decisions", str(log)]
        words += ["--strict", "--no-progress", "--format", "json"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise click.ClickException(f"{' '.join(words)}: exit {process.returncode}")
        bound, end_s, evictions = dict[str, float](), 0.0, 0
        with log.open(encoding="utf-8") as stream:
            for line in stream:
                decision = cast(dict[str, str], json.loads(line))
                at_s = float(decision["at"])
                if decision["kind"] == "bound":
                    bound.setdefault(f"{decision['app']}/{decision['ask']}", at_s)
                elif decision["kind"] == "released":
                    end_s = max(end_s, at_s)
                    evictions += decision["reason"] != "completed"
    return Run(used.ru_utime + used.ru_stime, used.ru_maxrss, bound, end_s, evictions)


def mean_waits_s(shape: Kueue, run: Run) -> dict[str, float]:
    """Return how long Kueue's workloads of each kind waited on average, in seconds."""
    waits = dict[str, list[float]]()
    for at_ms, app, _, some in shape.coming():
        waits.setdefault(some.kind, []).append(run.bound[f"{app}/task"] - at_ms / 1000)
    return {kind: sum(some) / len(some) for kind, some in waits.items()}
