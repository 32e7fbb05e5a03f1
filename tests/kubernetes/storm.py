"""A storm: Jobs come, and all that a scheduler of Kubernetes depends on breaks again and again.

``python -m tests.kubernetes.storm --seconds 600 --seed 7``: a real API server and etcd, nodes and Jobs of
the modules beside this one, and Muster, which reaches the API server through a proxy. The API server,
etcd and Muster are killed in turn; the proxy cuts watches, loses answers and refuses requests. When it is
over all Jobs have to have succeeded, and the books of the nodes have to be right.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol, cast, final

import attrs
import click
import trio
from typing_extensions import override

from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api, Object, Resource
from muster.store import StateReader
from muster_core.config import default_configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from tests.actors.serving.served import Served
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane, control_plane, why_not
from tests.kubernetes.jobs import Generation, Job, Jobs, JobSpec, pod_spec
from tests.kubernetes.kubelet import (
    ENDS_IN,
    PODS,
    RUN_SECONDS,
    Books,
    Kubelet,
    NodeSpec,
    Run,
    until_answered,
)
from tests.kubernetes.proxy import Chance, Proxy, proxy_of
from tests.kubernetes.roles import give_roles

GANG_S: Final = 60.0
"""How long it may take, from the first binding of a gang until so many are bound as it needs at least:
a scheduler that was killed between two of its bindings has to start, and to list, before the next."""

CLASSES: Final = {"low": 0, "normal": 100, "high": 1000}
"""The priority classes, and their values."""

_GANG: Final = "gang.scheduling.koordinator.sh"
_NODE: Final = {"cpu": "8", "memory": "32Gi", "pods": "30"}
_CORES: Final = 8
_VICTIMS: Final = ("server", "etcd", "scheduler")
_PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io/v1", "priorityclasses")


@final
@attrs.frozen
class Plan:
    """The plan of a storm, drawn from a seed, so that it can be repeated.

    Attributes:
        seed: The seed.
        seconds: How long it lasts.
        nodes: The nodes.
        jobs: The Jobs that end, and when each comes, in seconds.
        lasting: Jobs that never end, of which the last can never be placed.
        kill_every_s: How often something is killed, in seconds.
    """

    seed: int
    seconds: float
    nodes: Sequence[NodeSpec]
    jobs: Sequence[tuple[float, JobSpec]]
    lasting: Sequence[JobSpec]
    kill_every_s: float

    @classmethod
    def of(cls, seed: int, seconds: float, kill_every_s: float = 15.0) -> Plan:
        """Draw a plan; 600 seconds have 50 nodes and 2,000 pods, fewer seconds have less."""
        random = Random(seed)
        dose = min(1.0, seconds / 600)
        nodes = [NodeSpec(f"node-{n}", _NODE) for n in range(max(8, round(50 * dose)))]
        jobs: list[tuple[float, JobSpec]] = []
        left = round(2000 * dose)
        while left > 0:
            members = min(left, random.randint(1, 16))
            left -= members
            jobs.append((_instant(random, seconds), _job(random, len(jobs), members, seconds)))
        lasting = [
            _job_of(f"lasting-{n}", 2, 2, {"cpu": "1"}, ("prod", "high"), {ENDS_IN: "0"})
            for n in range(2)
        ]
        lasting.append(_job_of("never", 2, 2, {"cpu": "99"}, ("batch", "low"), {}))
        jobs.sort(key=lambda one: one[0])
        return cls(seed, seconds, nodes, jobs, lasting, kill_every_s)

    @property
    def config(self) -> str:
        """The configuration of the queues: more is wanted of each than there is."""
        cores = _CORES * len(self.nodes)
        return f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {{preemption.delay: 1s}}
        queues:
          - {{name: prod, resources: {{guaranteed: {{vcore: {cores // 2}}}}}}}
          - {{name: batch, resources: {{max: {{vcore: {cores * 2 // 3}}}}}}}
"""


def _instant(random: Random, seconds: float) -> float:
    """Draw the time of a Job: in one of some waves, each of which is more than fits."""
    waves = max(3, round(seconds / 100))
    return 0.7 * seconds * random.randrange(waves) / waves + random.uniform(0, seconds / 20)


def _job(random: Random, number: int, members: int, seconds: float) -> JobSpec:
    cores = random.choice([one for one in (1, 2, 4) if one * members <= 32])
    least = members if random.random() < 0.8 else random.randint(1, members)
    requests = {"cpu": str(cores), "memory": f"{random.randint(1, 4 * cores)}Gi"}
    place = random.choice(("prod", "batch")), random.choice(list(CLASSES))
    runs = {
        RUN_SECONDS: f"{random.uniform(0.5, seconds / 6):.1f}",
        ENDS_IN: f"{random.uniform(0, 3):.1f}",
    }
    return _job_of(f"job-{number}", members, least, requests, place, runs)


def _job_of(
    name: str,
    members: int,
    least: int,
    requests: Mapping[str, str],
    place: tuple[str, str],
    runs: Mapping[str, str],
) -> JobSpec:
    queue, of_class = place
    gang = {
        f"{_GANG}/name": name,
        f"{_GANG}/min-available": str(least),
        f"{_GANG}/waiting-time": "3600s",
    }
    spec = pod_spec(requests, grace_s=5) | {"priorityClassName": f"storm-{of_class}"}
    # Where some have ended and the rest is evicted, the rest by itself is less than the gang needs.
    return JobSpec(
        name,
        members,
        spec,
        labels={"queue": f"root.{queue}"},
        annotations={**(gang if least > 1 else {}), **runs},
        together=least > 1,
    )


def least_of(spec: JobSpec) -> int:
    """Return how many members of a Job have to run at once at least."""
    return int(spec.annotations.get(f"{_GANG}/min-available", "1"))


class Scheduler(Protocol):
    """The scheduler of a storm, in a process or task that can be killed. Its methods do not block."""

    async def start(self) -> None:
        """Start it, and return when it is ready."""
        ...

    async def kill(self) -> None:
        """End it at once, as ``kill -9`` does."""
        ...

    async def faults(self, books: Books, unfinished: int) -> list[str]:
        """End it after the storm; return the faults of what it has kept.

        Args:
            books: The observations of the nodes.
            unfinished: How many pods have not ended.
        """
        ...


@final
class MusterProcess:
    """``muster serve --run kubernetes``, which reaches the API server through a URL.

    Args:
        plane: The control plane.
        url: The URL.
        config: The configuration of the queues.
    """

    def __init__(self, plane: ControlPlane, url: str, config: str) -> None:
        self._plane = plane
        self._url = url
        self._config = config
        self._state = plane.folder / "state"
        self._served: Served | None = None
        self._faults: list[str] = []

    async def start(self) -> None:
        self._served = await trio.to_thread.run_sync(self._start, self._url, self._state)

    async def kill(self) -> None:
        assert self._served is not None
        status = self._served.process.poll()
        await trio.to_thread.run_sync(self._served.kill)
        self._keep_log(self._served)
        if status is not None:
            output = "\n".join(self._served.lines[-30:])
            self._faults.append(f"Muster has ended by itself, with {status}:\n{output}")

    async def faults(self, books: Books, unfinished: int) -> list[str]:
        return await trio.to_thread.run_sync(self._end, books, unfinished)

    def _start(self, url: str, state: Path) -> Served:
        kubeconfig = self._plane.kubeconfig("muster", url)
        options = ("--kubeconfig", str(kubeconfig), "--state", str(state))
        return Served(self._plane.folder, "--run", "kubernetes", *options, config=self._config)

    def _keep_log(self, served: Served) -> None:
        with (self._plane.folder / "muster.log").open("a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in served.lines)

    def _end(self, books: Books, unfinished: int) -> list[str]:
        assert self._served is not None
        runs = list(books.runs.values())  # The fresh one may bind others.
        with self._served as served:
            kept = _state_of(served, unfinished)
        self._keep_log(served)
        with self._start(self._plane.url, self._plane.folder / "fresh") as served:
            fresh = _state_of(served, unfinished)
        different = [
            f"{key} is {kept.get(key)}, and {fresh.get(key)} after a fresh start from the lists"
            for key in sorted(kept.keys() | fresh.keys())
            if kept.get(key) != fresh.get(key)
        ]
        return [*self._faults, *different, *faults_of_store(self._state, runs)]


def _state_of(served: Served, unfinished: int) -> dict[str, object]:
    """Return the nodes and the unfinished asks of a service, once so many asks are left."""
    end = time.monotonic() + PATIENCE_S
    asks = list(_items(served, "/api/v1/asks"))
    while len(asks) != unfinished and time.monotonic() < end:
        time.sleep(0.2)
        asks = list(_items(served, "/api/v1/asks"))
    of_asks = ("place", "node", "queue", "gang", "resources", "priority")
    of_nodes = ("capacity", "used", "schedulable", "attributes")
    nodes = _items(served, "/api/v1/nodes")
    return {
        **{f"ask {one['app']}/{one['ask']}": {key: one[key] for key in of_asks} for one in asks},
        **{f"node {one['node']}": {key: one[key] for key in of_nodes} for one in nodes},
    }


def _items(served: Served, path: str) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        parameters = {"limit": "1000"} | ({} if after is None else {"after": after})
        page = served.client.get(path, params=parameters).raise_for_status().json()
        yield from page["items"]
        if (after := page["next"]) is None:
            return


# -- checks ----------------------------------------------------------------------


def faults_of_store(state: Path, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the faults of a store: all that ran was decided, and a replay decides the same."""
    again = PlainScheduler(default_configuration())
    decided, index = set[tuple[str | None, str | None]](), 0
    with StateReader(state) as reader:
        for batch in reader.batches(after=0):
            before = len(again.announced)
            for event in batch.events:
                again.submit(event, batch.at_us, index)
                index += 1
            again.settle(batch.at_us)
            if list(again.announced[before:]) != list(batch.decisions):
                yield f"batch {batch.number} of the store decides otherwise, let in again"
            bound = [one.decision for one in batch.decisions if one.decision.kind is Kind.BOUND]
            decided |= {(one.ask, one.node) for one in bound}
    for run in runs:
        if (run.name.partition("/")[2], run.node) not in decided:
            yield f"pod {run.name} was bound to {run.node}, and nobody has decided that"


def faults_of_nodes(books: Books, pods: Sequence[Object]) -> Iterator[str]:
    """Yield the faults of nodes: no pod was bound twice, and no node had more than fits."""
    yield from books.faults
    yield from books.overfull()
    for run in books.refusals:
        yield f"pod {run.name} was bound to {run.node}, where it did not fit: {run.outcome}"
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        found = books.runs.get(metadata["uid"])
        ran_on = None if found is None else found.node
        if ran_on != node:
            yield f"pod {metadata['name']} is bound to {node}, and ran on {ran_on}"


def faults_of_jobs(jobs: Sequence[Job]) -> Iterator[str]:
    """Yield the Jobs that have not succeeded in the end."""
    for job in jobs:
        if job.has_failed or not job.ended.is_set():
            left = {one["metadata"]["name"]: _why(one) for one in job.active}
            done = f"{len(job.succeeded)} of {job.spec.members}"
            yield f"job {job.spec.name}: {done} pods have succeeded; left: {left}"


def _why(pod: Object) -> str:
    """Return the beginning of the messages of a pod, or else its phase."""
    conditions = cast("list[Mapping[str, str]]", pod["status"].get("conditions") or [])
    messages = [one["message"] for one in conditions if one.get("message")]
    return "; ".join(messages)[:100] or str(pod["status"]["phase"])


def faults_of_gangs(jobs: Sequence[Job], books: Books) -> Iterator[str]:
    """Yield the gangs of which fewer members ran than each needs at least."""
    runs = {run.name.partition("/")[2]: run for run in books.runs.values()}
    for job in jobs:
        for number, one in enumerate(job.generations):
            ran = [runs[name] for name in one.names if name in runs]
            fault = _fault_of_gang(one, ran, least_of(job.spec))
            if fault:
                yield f"gang of job {job.spec.name}, generation {number}: {fault}"


def _fault_of_gang(generation: Generation, ran: Sequence[Run], least: int) -> str:
    if not ran or least <= 1:
        return ""
    first_s = min(run.bound_s for run in ran)
    in_time = sum(run.bound_s <= first_s + GANG_S for run in ran)
    broken_s = generation.broken_s
    if in_time >= least or (broken_s is not None and broken_s <= first_s + GANG_S):
        return ""
    return f"{in_time} were bound in the {GANG_S:.0f} s after its first, and it needs {least}"


# -- the storm ------------------------------------------------------------------------------


@final
@attrs.define
class Outcome:
    """The result of a storm.

    Attributes:
        faults: What was wrong.
        bindings: How many pods were bound.
        evictions: How many pods the controller has lost, most of them by preemption.
        kills: How often each component was killed.
        proxied: How many faults of each kind the proxy made.
        jobs: How many Jobs have succeeded.
        seconds: How long it took, in all.
    """

    faults: list[str] = attrs.field(factory=list[str])
    bindings: int = 0
    evictions: int = 0
    kills: Counter[str] = attrs.field(factory=Counter[str])
    proxied: Counter[str] = attrs.field(factory=Counter[str])
    jobs: int = 0
    seconds: float = 0.0

    @override
    def __str__(self) -> str:
        """Return the figures in one line."""
        kills, proxied = (
            ", ".join(f"{count:,} {name}" for name, count in sorted(one.items()))
            for one in (self.kills, self.proxied)
        )
        return (
            f"{self.jobs:,} jobs, {self.bindings:,} bindings, {self.evictions:,} evictions in "
            f"{self.seconds:.0f} s; kills: {kills or 'none'}; faults: {proxied or 'none'}"
        )


@final
@attrs.define
class Storm:
    """A storm over a control plane.

    Attributes:
        plan: The plan.
        plane: The control plane.
        proxy: The proxy by which the scheduler reaches it.
        scheduler: The scheduler.
        api: The API server itself, for an administrator.
        kubelet: The nodes.
        jobs: The controller of the Jobs.
        outcome: The result so far.
    """

    plan: Plan
    plane: ControlPlane
    proxy: Proxy
    scheduler: Scheduler
    api: Api
    kubelet: Kubelet
    jobs: Jobs
    outcome: Outcome = attrs.field(factory=Outcome)

    async def run(self) -> Outcome:
        """Run the storm, and check the cluster afterwards."""
        began = trio.current_time()
        await self.scheduler.start()
        lasting = [await self.jobs.submit(one) for one in self.plan.lasting]
        self.proxy.chance = Chance(Random(self.plan.seed))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._kill, began + self.plan.seconds)
            jobs = [await self._submit(began + at_s, spec) for at_s, spec in self.plan.jobs]
        self.proxy.chance = None
        with trio.move_on_after(PATIENCE_S + self.plan.seconds):
            await self._wait_until_calm(jobs, lasting)
        self.outcome.seconds = trio.current_time() - began
        await self._check(jobs, lasting)
        return self.outcome

    async def _wait_until_calm(self, jobs: Sequence[Job], lasting: Sequence[Job]) -> None:
        """Wait until all Jobs that can end have ended, or nothing has happened for long."""
        happened, end = -1, trio.current_time()
        while not (all(one.ended.is_set() for one in jobs) and self._is_still(lasting)):
            runs = self.kubelet.books.runs.values()
            now = len(runs) + sum(one.ended_s is not None for one in runs)
            if now != happened:
                happened, end = now, trio.current_time() + PATIENCE_S
            elif trio.current_time() > end:
                return
            await trio.sleep(0.1)

    async def _submit(self, at_s: float, spec: JobSpec) -> Job:
        await trio.sleep_until(at_s)
        return await self.jobs.submit(spec)

    async def _kill(self, end: float) -> None:
        """Kill one after the other until the storm is over."""
        random = Random(self.plan.seed)
        at_s = trio.current_time()
        for victim in itertools.cycle(_VICTIMS):
            at_s += self.plan.kill_every_s
            if at_s >= end:
                return
            await trio.sleep_until(at_s)
            away_s = random.uniform(0, 3)
            if victim == "scheduler":
                await self.scheduler.kill()
                await trio.sleep(away_s)
                await self.scheduler.start()
            else:
                await trio.to_thread.run_sync(self.plane.kill, victim)
                await trio.sleep(away_s)
                await trio.to_thread.run_sync(
                    self.plane.start_server if victim == "server" else self.plane.start_etcd
                )
            self.outcome.kills[victim] += 1

    def _is_still(self, lasting: Sequence[Job]) -> bool:
        """Return whether all pods of lasting Jobs are there, and run but for those of the last."""
        there = sum(len(one.active) for one in lasting)
        running = sum(run.ended_s is None for run in self.kubelet.books.runs.values())
        never = lasting[-1].spec.members
        return (there, running) == (sum(one.spec.members for one in lasting), there - never)

    async def _check(self, jobs: Sequence[Job], lasting: Sequence[Job]) -> None:
        outcome, books = self.outcome, self.kubelet.books
        pods = (await self.api.list_all(PODS)).objects
        unfinished = [one for one in pods if one["status"]["phase"] in {"Pending", "Running"}]
        outcome.faults += [
            *faults_of_nodes(books, pods),
            *faults_of_jobs(jobs),
            *faults_of_gangs([*jobs, *lasting], books),
            *await self.scheduler.faults(books, len(unfinished)),
        ]
        outcome.bindings = len(books.runs)
        outcome.evictions = sum(len(one.lost) for one in jobs)
        outcome.proxied = self.proxy.faults
        outcome.jobs = sum(one.ended.is_set() and not one.has_failed for one in jobs)


@asynccontextmanager
async def storm_over(
    plane: ControlPlane,
    plan: Plan,
    scheduler_of: Callable[[ControlPlane, str, str], Scheduler],
) -> AsyncGenerator[Storm]:
    """Make all that a storm needs.

    Args:
        plane: The control plane, with nothing in it.
        plan: The plan.
        scheduler_of: Makes the scheduler for a control plane, the URL by which it reaches that, and a
            configuration of queues.
    """
    async with (
        Api(read_kubeconfig([plane.kubeconfig()]), connections=64) as api,
        proxy_of(plane) as proxy,
        trio.open_nursery() as nursery,
    ):
        await trio.to_thread.run_sync(give_roles, plane)
        for name, value in CLASSES.items():
            body = {"metadata": {"name": f"storm-{name}"}, "value": value}
            await until_answered(partial(api.create, _PRIORITY_CLASSES.path(), body))
        kubelet, jobs = Kubelet(api, *plan.nodes), Jobs(api)
        await nursery.start(kubelet.run)
        await nursery.start(jobs.run)
        scheduler = scheduler_of(plane, proxy.url, plan.config)
        yield Storm(plan, plane, proxy, scheduler, api, kubelet, jobs)
        nursery.cancel_scope.cancel()


@click.command()
@click.option("--seconds", type=float, default=600.0, show_default=True, help="How long it lasts.")
@click.option("--seed", type=int, default=1, show_default=True, help="What is drawn.")
def main(seconds: float, seed: int) -> None:
    """Let a storm pass over Muster; the exit status is 1 if something was wrong."""
    lacks = why_not()
    if lacks is not None:
        raise click.ClickException(lacks)

    async def run(plane: ControlPlane) -> Outcome:
        async with storm_over(plane, Plan.of(seed, seconds), MusterProcess) as storm:
            return await storm.run()

    logging.getLogger("muster").setLevel(logging.ERROR)  # The helpers meet the same faults.
    with control_plane() as plane:
        outcome = trio.run(run, plane)
        if outcome.faults:
            kept = Path(tempfile.mkdtemp(prefix=f"muster-storm-{seed}-"))
            shutil.copytree(plane.folder, kept, dirs_exist_ok=True)
            outcome.faults.append(f"the directory: {kept}")
    click.echo("\n".join([*outcome.faults, f"seed {seed}: {outcome}"]))
    sys.exit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
