"""A scheduler whose asks run on a cluster of Ray, for tests."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio

import muster
import muster.ray
from muster.ray import Call, Command, RayBinder, Result
from tests.engines.cluster import PATIENCE_S, Cluster

Work = Callable[[muster.Allocation], Call | Command | str]


@final
@attrs.define
class Rig:
    """A scheduler on a cluster.

    Attributes:
        cluster: The daemons.
        ray: The connection to them.
        scheduler: The scheduler, which follows the nodes.
        results: The calls of ``done``: the name of the ask, and the result.
    """

    cluster: Cluster
    ray: muster.ray.Cluster
    scheduler: muster.Scheduler
    results: list[tuple[str, Result]] = attrs.field(factory=list[tuple[str, Result]])

    def value(self, ask: str) -> Any:  # noqa: ANN401 - the work may return anything
        """Return the last result of the callable of an ask."""
        return [result.value for name, result in self.results if name == ask][-1]

    async def nodes(self, *names: str) -> None:
        """Wait until exactly these nodes are there."""
        while set((await self.scheduler.snapshot()).nodes) != set(names):  # noqa: ASYNC110
            await trio.sleep(0.05)

    async def completed(self, *asks: muster.Ask) -> None:
        """Wait until asks are completed; they may be evicted before."""
        for ask in asks:
            while await (await ask.bound()).ended() is not muster.Reason.COMPLETED:
                pass

    async def until(self, condition: Callable[[], bool]) -> None:
        """Poll until a condition holds."""
        while not await trio.to_thread.run_sync(condition):  # noqa: ASYNC110 - there is no event
            await trio.sleep(0.05)

    async def at_rest(self) -> None:
        """Wait until Ray has everything free again, and nothing runs but the agent."""
        await self.until(lambda: not working(self.cluster) and is_whole(self.cluster))


def working(cluster: Cluster) -> dict[int, str]:
    """Return the processes on a cluster that are neither Ray's own nor a process of Muster."""
    return {
        pid: command
        for pid, command in cluster.processes().items()
        if not any(part in command for part in _OF_THE_CONNECTION)
    }


_OF_THE_CONNECTION: Final = ("muster/ray/", "multiprocessing.resource_tracker", "ray::Gates")
"""Parts of the commands of processes that live as long as the connection."""


def is_whole(cluster: Cluster) -> bool:
    """Return whether all CPUs and all memory of all nodes are free by Ray's books."""
    free = cluster.available()
    return all(
        free.get(node, {}).get(name) == amount
        for node, has in cluster.total().items()
        for name, amount in has.items()
        if name in {"CPU", "memory"}
    )


@asynccontextmanager
async def scheduling(
    cluster: Cluster,
    work: Work,
    *,
    nodes: tuple[str, ...] = ("a", "b"),
    config: str | None = None,
    warm: int = 0,
    options: Mapping[str, Any] | None = None,
    **binding: Any,  # noqa: ANN401 - the options of RayBinder
) -> AsyncGenerator[Rig]:
    """Open a scheduler on a cluster, and wait until it has the nodes.

    Args:
        cluster: The cluster.
        work: What an ask runs.
        nodes: The nodes to wait for.
        config: The queues.
        warm: How many workers are started on each node.
        options: Further options of the scheduler.
        binding: Options of the binder.
    """
    results: list[tuple[str, Result]] = []
    inner = binding.pop("done", None)

    def done(held: muster.Allocation, result: Result) -> None:
        results.append((held.ask, result))
        if inner is not None:
            inner(held, result)

    with trio.fail_after(PATIENCE_S):
        async with muster.ray.connect(
            cluster.address, python=cluster.python, node_name="node_name", warm=warm
        ) as ray:
            options_of_binder: dict[str, Any] = {"grace_period": 2.0} | binding
            binder = RayBinder(ray, work, done=done, **options_of_binder)
            async with (
                muster.open_scheduler(config, binder=binder, **(options or {})) as scheduler,
                trio.open_nursery() as nursery,
            ):
                await nursery.start(ray.follow, scheduler)
                rig = Rig(cluster, ray, scheduler, results)
                await rig.nodes(*nodes)
                yield rig
                nursery.cancel_scope.cancel()


_HOLDER = """
import importlib, sys, time
ray = importlib.import_module("ray")
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
def hold(): return True
class Holder:
    def ready(self): return True
holder = ray.remote(Holder).options(num_cpus=float(sys.argv[3]), label_selector={"node_name": sys.argv[2]}).remote()
ray.get(holder.ready.remote())
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def stranger(cluster: Cluster, node: str, cpus: int) -> Generator[Callable[[], None]]:
    """Let another program hold CPUs of a node; yield a function that kills it."""
    command = [cluster.python, "-c", _HOLDER, cluster.address, node, str(cpus)]
    with subprocess.Popen(command, stdin=-1, stdout=-1) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            yield program.kill
        finally:
            program.kill()


def lines(path: Path) -> list[str]:
    """Return the lines of a file, which may not be there yet."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
