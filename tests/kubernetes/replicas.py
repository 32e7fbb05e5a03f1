"""Two replicas of Muster, of which the one that decides is killed again and again.

``python -m tests.kubernetes.replicas --kills 50``: two real processes compete for one Lease of a
real API server; pods come all the time, and nodes of the helpers beside this module run them. Each time the
holder of the Lease is killed while it binds, and another pod comes: when that one is bound, the other
replica decides. Then the killed one starts again, and waits for its turn.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final, final

import attrs
import click
import httpx
import trio
from typing_extensions import override

from muster.kubernetes import Access
from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api
from muster.kubernetes._lease import LEASES
from tests.actors.serving.served import Served
from tests.kubernetes.cluster import ControlPlane, control_plane, why_not
from tests.kubernetes.kubelet import PODS, RUN_SECONDS, Kubelet, NodeSpec
from tests.kubernetes.roles import NAMESPACE, give_roles
from tests.kubernetes.storm import faults_of_nodes
from tests.kubernetes.world import QUEUES, pod_of, wait_for

TAKEN_OVER_S: Final = 20.0
"""Within so many seconds of a kill the other replica has to decide."""

_LEASE: Final = "replicas"
_BURST: Final = 8
"""How many pods come just before each kill, so that it falls among their bindings."""

_NODES: Final = [NodeSpec(f"node-{n}", {"cpu": "8"}) for n in range(3)]


@final
@attrs.define
class Outcome:
    """The results of the kills.

    Attributes:
        taken_s: How long it took each time until the other one decided, in seconds.
        faults: What was wrong.
        bindings: How many pods were bound.
    """

    taken_s: list[float] = attrs.field(factory=list[float])
    faults: list[str] = attrs.field(factory=list[str])
    bindings: int = 0

    @override
    def __str__(self) -> str:
        """Return the figures in one line."""
        taken = self.taken_s or [0.0]
        return (
            f"{len(self.taken_s)} kills, {self.bindings} bindings; the other one decided within "
            f"{max(taken):.1f} s, half within {median(taken):.1f} s"
        )


@final
class Replica:
    """A process that competes for the Lease, with a state directory of its own.

    Args:
        plane: The control plane.
        folder: Where its files are.
    """

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._folder = folder
        self._served: Served | None = None

    @property
    def served(self) -> Served:
        """The process."""
        assert self._served is not None, "it has not been started"
        return self._served

    async def start(self) -> None:
        """Start it, and wait until it decides, or waits for the Lease."""
        self._served = await trio.to_thread.run_sync(self._start)
        async with httpx.AsyncClient(base_url=self.served.urls[0], trust_env=False) as client:

            async def waits() -> bool:
                readiness = (await client.get("/readyz")).json()
                return bool(readiness["ready"]) or "holds the lease" in readiness["detail"]

            await wait_for(waits, "a replica has started")

    def _start(self) -> Served:
        self._folder.mkdir(exist_ok=True)
        options = {
            "--kubeconfig": self._plane.kubeconfig("muster"),
            "--lease": f"{NAMESPACE}/{_LEASE}",
            "--state": self._folder / "state",
        }
        words = [f"{name}={value}" for name, value in options.items()]
        return Served(self._folder, "--run", "kubernetes", *words, config=QUEUES, until_ready=False)

    async def kill(self) -> None:
        """End it at once, if it was started."""
        if self._served is not None:
            await trio.to_thread.run_sync(self._served.kill)


@final
@attrs.define
class Replicas:
    """Two replicas in a cluster.

    Attributes:
        api: The API server, for an administrator.
        kubelet: The nodes.
        both: The replicas.
        outcome: The results so far.
    """

    api: Api
    kubelet: Kubelet
    both: Sequence[Replica]
    outcome: Outcome = attrs.field(factory=Outcome)

    async def kill(self) -> None:
        """Kill the one that decides, wait until the other does, and start the killed one again."""
        number = len(self.outcome.taken_s)
        holder = await self._holder()
        for one in range(_BURST):
            await self._add(f"burst-{number}-{one}")
        await holder.kill()
        killed_s = trio.current_time()
        last = await self._add(f"after-{number}")
        await self._wait_for_all()
        taken_s = self.kubelet.books.runs[last].bound_s - killed_s
        self.outcome.taken_s.append(taken_s)
        if taken_s > TAKEN_OVER_S:
            self.outcome.faults.append(f"kill {number}: nobody has decided for {taken_s:.1f} s")
        await holder.start()

    async def end(self) -> Outcome:
        """Check the books; return the results."""
        books = self.kubelet.books
        pods = (await self.api.list_all(PODS)).objects
        self.outcome.faults += faults_of_nodes(books, pods)
        self.outcome.bindings = len(books.runs)
        return self.outcome

    async def _add(self, name: str) -> str:
        body = pod_of(name, annotations={RUN_SECONDS: "0.5"})
        made = await self.api.create(PODS.path(None, "default"), body)
        return str(made["metadata"]["uid"])

    async def _wait_for_all(self) -> None:
        """Wait until all pods that there are have ended."""

        async def have_ended() -> bool:
            pods = (await self.api.list_all(PODS)).objects
            return all(one["status"]["phase"] == "Succeeded" for one in pods)

        await wait_for(have_ended, "all pods have ended")

    async def _holder(self) -> Replica:
        """Return the one that holds the Lease: its name has the number of its process."""
        lease = await self.api.get(LEASES.path(_LEASE, NAMESPACE))
        number = int(lease["spec"]["holderIdentity"].split("_")[-2])
        return next(one for one in self.both if one.served.process.pid == number)


@asynccontextmanager
async def replicas_of(plane: ControlPlane) -> AsyncGenerator[Replicas]:
    """Start two replicas on a control plane without pods, and nodes; end all of it afterwards."""
    await trio.to_thread.run_sync(give_roles, plane)
    access: Access = read_kubeconfig([plane.kubeconfig()])
    both = [Replica(plane, plane.folder / f"replica-{n}") for n in range(2)]
    async with Api(access) as api, trio.open_nursery() as nursery:
        kubelet = Kubelet(api, *_NODES)
        await nursery.start(kubelet.run)
        try:
            for one in both:
                await one.start()
            yield Replicas(api, kubelet, both)
        finally:
            with trio.CancelScope(shield=True):
                for one in both:
                    await one.kill()
        nursery.cancel_scope.cancel()


@click.command()
@click.option("--kills", type=int, default=50, show_default=True, help="How many.")
def main(kills: int) -> None:
    """Kill who decides, again and again; the exit status is 1 if something was wrong."""
    lacks = why_not()
    if lacks is not None:
        raise click.ClickException(lacks)

    async def run(plane: ControlPlane) -> Outcome:
        async with replicas_of(plane) as replicas:
            for _ in range(kills):
                await replicas.kill()
                click.echo(f"{replicas.outcome.taken_s[-1]:.1f} s")
            return await replicas.end()

    with control_plane() as plane:
        outcome = trio.run(run, plane)
    click.echo("\n".join([*outcome.faults, str(outcome)]))
    sys.exit(1 if outcome.faults else 0)


if __name__ == "__main__":
    main()
