"""What it costs to run asks on Ray, beside plain Ray on the same cluster, in turns.

The cluster is a head and two nodes of two CPUs on this machine. The tasks sleep, so that its cores
are free for those who schedule. The last measurement kills the head.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final, final

import attrs
import trio

import muster
import muster.ray
from benchmarks.figures import Better, Figure, with_unit
from muster.ray import Call, RayBinder
from tests.engines import cluster as clusters
from tests.engines.cluster import Cluster

TASKS: Final = 400
TURNS: Final = 3
TASK_S: Final = 0.1
CPUS: Final = 4
AWAY_S: Final = 20.0
"""How long the scheduler is asked while the head of Ray is away, in seconds."""

PLAIN: Final = """
import importlib, json, sys, time
address, tasks, seconds, cpus = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
ray = importlib.import_module("ray")
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
task = ray.remote(num_cpus=1, max_retries=0)(lambda seconds: time.sleep(seconds))
ray.get([task.remote(1) for _ in range(cpus)])  # there is a worker for each CPU now
began_at = time.perf_counter()
ray.get([task.remote(seconds) for _ in range(tasks)])
at_once = tasks / (time.perf_counter() - began_at)
began_at = time.perf_counter()
running = [task.remote(seconds) for _ in range(cpus)]
for _ in range(tasks - cpus):
    _, running = ray.wait(running)
    running.append(task.remote(seconds))
ray.get(running)
print(json.dumps({"at_once": at_once, "few": tasks / (time.perf_counter() - began_at)}))
"""


@final
@attrs.define
class Findings:
    """The measurements of all turns.

    Attributes:
        plain: The rates of plain Ray with all tasks submitted at once, in tasks a second.
        few: The same with one task for each CPU at a time, as of a program that keeps an order.
        ours: The rates of Muster.
        started_s: How long each task took from its bind to its start, in seconds.
        service_bytes: The memory of this process with a binder that only sleeps, and on Ray.
        agent_bytes: The memory of the agent.
        answers_s: How long each question took while the head was away, in seconds.
    """

    plain: list[float] = attrs.field(factory=list[float])
    few: list[float] = attrs.field(factory=list[float])
    ours: list[float] = attrs.field(factory=list[float])
    started_s: list[float] = attrs.field(factory=list[float])
    service_bytes: tuple[int, int] = (0, 0)
    agent_bytes: int = 0
    answers_s: list[float] = attrs.field(factory=list[float])


@final
class TimedBinder:
    """A binder that notes how long another one takes from a bind to the start of the work."""

    def __init__(self, binder: muster.Binder, found: list[float]) -> None:
        self._binder = binder
        self._found = found

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Run the work of an ask."""
        bound_at = time.perf_counter()

        def begin() -> None:
            self._found.append(time.perf_counter() - bound_at)
            started()

        await self._binder.run(allocation, begin)


@final
class SleepingBinder:
    """A binder without an engine."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Do nothing for the time of a task."""
        del allocation
        started()
        await trio.sleep(TASK_S)


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    tasks = max(10 * CPUS, round(TASKS * scale))
    found = Findings()
    with clusters.cluster("a", "b") as running:
        trio.run(_measure, running, tasks, found)
    return _figures(found, tasks)


async def _measure(running: Cluster, tasks: int, found: Findings) -> None:
    async with _alone() as scheduler:
        await _rate(scheduler, "alone", tasks)
        without = _memory_of(os.getpid())
    for turn in range(TURNS):
        rates = await trio.to_thread.run_sync(_plain, running, tasks)
        found.plain.append(rates["at_once"])
        found.few.append(rates["few"])
        async with _on_ray(running, found.started_s) as scheduler:
            await _rate(scheduler, "warm", CPUS)
            found.started_s.clear()
            found.ours.append(await _rate(scheduler, f"turn-{turn}", tasks))
            (agent,) = _agents(running)
            found.agent_bytes = _memory_of(agent)
            found.service_bytes = without, _memory_of(os.getpid())
    async with _on_ray(running, []) as scheduler:
        await trio.to_thread.run_sync(running.kill_head)
        await _ask_for(scheduler, AWAY_S, found.answers_s)


@asynccontextmanager
async def _alone() -> AsyncGenerator[muster.Scheduler]:
    async with muster.open_scheduler(binder=SleepingBinder()) as scheduler:
        for name in ("a", "b"):
            await scheduler.add_node(name, {"vcore": CPUS // 2})
        yield scheduler


@asynccontextmanager
async def _on_ray(running: Cluster, started_s: list[float]) -> AsyncGenerator[muster.Scheduler]:
    async with muster.ray.connect(running.address, python=running.python, warm=2) as ray:
        binder = RayBinder(ray, lambda _: Call("time:sleep", (TASK_S,)))
        async with (
            muster.open_scheduler(binder=TimedBinder(binder, started_s)) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(ray.follow, scheduler)
            yield scheduler
            nursery.cancel_scope.cancel()


async def _rate(scheduler: muster.Scheduler, name: str, tasks: int) -> float:
    """Run tasks, all submitted at once; return how many a second ended."""
    app = await scheduler.add_app(name, "root.queue")
    began_at = time.perf_counter()
    for ask in await app.add_asks("task", {"vcore": 1}, tasks):
        await (await ask.bound()).ended()
    return tasks / (time.perf_counter() - began_at)


async def _ask_for(scheduler: muster.Scheduler, seconds: float, answers_s: list[float]) -> None:
    """Ask a scheduler for something again and again, and note how long it takes."""
    app = await scheduler.add_app("away", "root.queue")
    until = time.perf_counter() + seconds
    number = 0
    while (asked_at := time.perf_counter()) < until:
        ask = await app.add_ask(f"ask-{number}", {"vcore": 1000})  # it is never bound
        await ask.why()
        answers_s.append(time.perf_counter() - asked_at)
        number += 1
        await trio.sleep(0.02)


def _plain(running: Cluster, tasks: int) -> Mapping[str, float]:
    command = [running.python, "-c", PLAIN, running.address, str(tasks), str(TASK_S), str(CPUS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rates: dict[str, float] = json.loads(done.stdout)
    return rates


def _agents(running: Cluster) -> list[int]:
    return [pid for pid, line in running.processes().items() if "muster/ray/agent.py" in line]


def _memory_of(pid: int) -> int:
    """Return the resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _figures(found: Findings, tasks: int) -> list[Figure]:
    plain, few, ours = median(found.plain), median(found.few), median(found.ours)
    each = f"{tasks} tasks of 100 ms on {CPUS} CPUs"
    started_ms = [1000 * one for one in found.started_s]
    alone, on_ray = (one / 2**20 for one in found.service_bytes)
    answers_ms = [1000 * one for one in found.answers_s]
    return [
        Figure(
            "ray",
            f"{each}: rate",
            ours / plain,
            "× plain Ray",
            0.95,
            Better.HIGHER,
            raw=f"{ours:.1f} a second over {plain:.1f}",
        ),
        Figure("ray", "plain Ray, one for each CPU at a time", few / plain, "× plain Ray",
               better=Better.HIGHER, raw=f"{few:.1f} a second"),
        Figure("ray", "from bound to started, median", median(started_ms), "ms", 10),
        Figure(
            "ray",
            "memory of the service",
            on_ray / alone,
            "× without Ray",
            1.1,
            raw=f"{with_unit(on_ray, 'MiB')} over {with_unit(alone, 'MiB')}",
        ),
        Figure("ray", "memory of the agent", found.agent_bytes / 2**20, "MiB"),
        Figure(
            "ray",
            "slowest answer while the head is away",
            max(answers_ms),
            "ms",
            100,
            note=f"of {len(answers_ms)}, median {with_unit(median(answers_ms), 'ms')}",
        ),
    ]  # fmt: skip
