"""What it costs to schedule a cluster of Kubernetes: a real API server and etcd, and ``muster serve``.

All of them share the machine with what measures. Bindings are compared with those of a plain loop,
which does nothing but send them, in turns on the same control plane. A large cluster is written into
etcd as the API server would have it, since the server itself would take ten minutes for it.
"""

from __future__ import annotations

import base64
import copy
import json
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, final

import attrs
import httpx
import trio

from benchmarks.figures import Better, Figure, cells, with_unit
from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api, Object
from tests.actors.serving.served import Served
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane, control_plane
from tests.kubernetes.kubelet import NODES, PODS, until_answered
from tests.kubernetes.plain_binder import AT_ONCE, bind_all
from tests.kubernetes.proxy import proxy_of
from tests.kubernetes.roles import give_roles
from tests.kubernetes.world import QUEUES, node_of, pod_of, wait_for

TURNS: Final = 3
BINDINGS: Final = 600
"""How many pods are bound in a turn."""

OURS: Final = [f"ours-{n}" for n in range(20)]
"""The nodes on which Muster binds them."""

PENDING: Final = 1_000
LATE: Final = 100
"""How many pods come one after the other while others are pending."""

LARGE_NODES: Final = 5_000
LARGE_PODS: Final = 50_000
CHANGES: Final = 40_000
"""How many labels of nodes change."""

IDLE_S: Final = 5.0
"""How long it is watched before that, in seconds."""

CHANGES_A_SECOND: Final = 20 * 5_000 / 60

_CPU_CLOCK: Final = 2
"""What makes the clock of the processor time of a process out of its number, as Linux has it."""

_IN_ONE: Final = 100
"""How many objects are written into etcd at once, none of them twice."""


def measure(scale: float) -> list[Figure]:
    """Measure everything once."""
    return [figure for name in CASES for figure in measure_case(name, scale)]


def measure_case(name: str, scale: float) -> list[Figure]:
    """Measure one case, with a control plane of its own.

    Args:
        name: Its name in :data:`CASES`.
        scale: The share of the full size.
    """
    with control_plane() as plane:
        give_roles(plane)
        return trio.run(CASES[name], plane, scale)


def serving(plane: ControlPlane, url: str | None = None) -> Served:
    """Start Muster; it is ready."""
    options = {
        "--kubeconfig": plane.kubeconfig("muster", url),
        "--state": plane.folder / f"state-{uuid.uuid4().hex[:8]}",
    }
    words = [f"{name}={value}" for name, value in options.items()]
    return Served(plane.folder, "--run", "kubernetes", *words, config=QUEUES)


def processor_s(served: Served) -> float:
    """Return how long it has used the processor, in seconds."""
    return time.clock_gettime((~served.process.pid << 3) | _CPU_CLOCK)


def peak_bytes(served: Served) -> int:
    """Return the peak of its memory."""
    status = Path(f"/proc/{served.process.pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


# Pods and nodes


@asynccontextmanager
async def api_of(plane: ControlPlane) -> AsyncGenerator[Api]:
    """Yield the API server, for an administrator."""
    async with Api(read_kubeconfig([plane.kubeconfig()]), connections=AT_ONCE) as api:
        yield api


async def add_pods(api: Api, pods: Iterable[Object]) -> list[Object]:
    """Add pods as fast as possible, and return their objects."""
    made: list[Object] = []

    async def add(pod: Object) -> None:
        made.append(await api.create(PODS.path(None, "default"), pod))

    async with trio.open_nursery() as nursery:
        for one in pods:
            nursery.start_soon(add, one)
    return made


async def add_node(api: Api, name: str, *, closed: bool = False) -> None:
    """Add a node with room for all pods."""
    node = dict(node_of(name))
    room = {"cpu": "100000", "memory": "100Ti", "pods": "100000"}
    node["status"] = node["status"] | {"allocatable": room, "capacity": room}
    await api.create(NODES.path(), node)
    fields = {"spec": {"taints": None, "unschedulable": closed}}
    await until_answered(lambda: api.change(NODES.path(name), fields))


async def bound_in(batches: AsyncGenerator[list[Object]] | Any, names: set[str]) -> None:  # noqa: ANN401
    """Read a watch until these pods are bound."""
    async for events in batches:
        for one in events:
            pod = one["object"]
            if "nodeName" in pod.get("spec", ()):
                names.discard(pod["metadata"]["name"])
        if not names:
            return


# Bindings


async def _bindings(plane: ControlPlane, scale: float) -> list[Figure]:
    """Bind many pods at once: by a plain loop, and by Muster, which gets room for all at once."""
    count = max(20, int(BINDINGS * scale))
    plain: list[float] = []
    ours: list[float] = []
    async with api_of(plane) as api:
        for name in ("plain", *OURS):
            await add_node(api, name, closed=True)
        served = await trio.to_thread.run_sync(serving, plane)
        with served:
            for turn in range(TURNS):
                names = [f"plain-{turn}-{n}" for n in range(count)]
                pods = await add_pods(api, (pod_of(name, scheduler="none") for name in names))
                plain.append(await bind_all(api, [(one, "plain") for one in pods]))
                ours.append(await _bound_a_second(api, turn, count))
            # This ends it in another thread than the one that has started it.
            await trio.to_thread.run_sync(served.stop)
    ratio = median(ours) / median(plain)
    rates = f"{median(ours):.0f} a second, the plain loop {median(plain):.0f}"
    return [
        Figure("kubernetes", "bindings", ratio, "× plain", 0.8, Better.HIGHER, raw=rates),
    ]


async def _bound_a_second(api: Api, turn: int, count: int) -> float:
    """Start Muster with pending pods; return how many it binds per second."""
    names = {f"ours-{turn}-{n}" for n in range(count)}
    await add_pods(api, map(pod_of, sorted(names)))
    listing = await api.list_all(PODS)
    async with api.watch(PODS, listing.version, 600) as batches:
        began = trio.current_time()
        await _set_closed(api, closed=False)
        with trio.fail_after(PATIENCE_S):
            await bound_in(batches, names)
        took_s = trio.current_time() - began
    await _set_closed(api, closed=True)
    return count / took_s


async def _set_closed(api: Api, *, closed: bool) -> None:
    """Close the nodes that are Muster's in these measurements, or open them."""
    async with trio.open_nursery() as nursery:
        for name in OURS:
            fields = {"spec": {"unschedulable": closed}}
            nursery.start_soon(api.change, NODES.path(name), fields)


# From a pod to its binding


async def _latency(plane: ControlPlane, scale: float) -> list[Figure]:
    """Add pods one after the other while many are pending that fit nowhere."""
    late = max(5, int(LATE * scale))
    took_s: list[float] = []
    async with api_of(plane) as api, proxy_of(plane) as proxy:
        await add_node(api, "node")
        waiting = (pod_of(f"wait-{n}", cpu="200000") for n in range(max(20, int(PENDING * scale))))
        await add_pods(api, waiting)
        served = await trio.to_thread.run_sync(serving, plane, proxy.url)
        with served:
            listing = await api.list_all(PODS)
            async with api.watch(PODS, listing.version, 600) as batches:
                for number in range(late):
                    name = f"late-{number}"
                    await api.create(PODS.path(None, "default"), pod_of(name))
                    with trio.fail_after(PATIENCE_S):
                        added_s = await _arrival_of(batches, name)
                    line = f"POST {PODS.path(name, 'default', 'binding')}"
                    took_s.append(proxy.came_s[proxy.requests.index(line)] - added_s)
            await trio.to_thread.run_sync(served.stop)
    took_s.sort()
    half, most = median(took_s) * 1e3, took_s[int(0.95 * len(took_s))] * 1e3
    return [
        Figure(
            "kubernetes",
            "from ADDED to the binding's POST, 1,000 pods pending: half",
            half,
            "ms",
            20,
            note=f"95 % {with_unit(most, 'ms')}",
        )
    ]


async def _arrival_of(batches: Any, name: str) -> float:  # noqa: ANN401 - an iterator
    """Read a watch until a pod is bound; return the time at which it was added."""
    added_s = 0.0
    async for events in batches:
        for one in events:
            pod = one["object"]
            if pod["metadata"].get("name") != name:
                continue
            if one["type"] == "ADDED":
                added_s = trio.current_time()
            if "nodeName" in pod["spec"]:
                return added_s
    msg = "the watch has ended"
    raise RuntimeError(msg)


# A large cluster


@final
@attrs.frozen
class Etcd:
    """Writes objects into etcd, as the API server has them.

    Attributes:
        client: Its client.
    """

    client: httpx.AsyncClient

    async def put(self, objects: Iterable[tuple[str, Object]]) -> None:
        """Write objects, each with its key, in their order."""
        some: list[dict[str, Any]] = []
        for key, one in objects:
            value = json.dumps(one, separators=(",", ":"))
            some.append({"requestPut": {"key": _base64(key), "value": _base64(value)}})
            if len(some) == _IN_ONE:
                await self._commit(some)
                some = []
        if some:
            await self._commit(some)

    async def _commit(self, puts: list[dict[str, Any]]) -> None:
        response = await self.client.post("/v3/kv/txn", json={"success": puts})
        response.raise_for_status()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def copies(one: Object, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield copies of an object as the API server has stored it, under other names."""
    for name in names:
        made = copy.deepcopy(dict(one))
        made["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
        for field in ("resourceVersion", "selfLink"):
            made["metadata"].pop(field, None)
        yield made


async def large_cluster(api: Api, etcd: Etcd, scale: float) -> list[dict[str, Any]]:
    """Write a large cluster, and return its nodes: nine pods of ten are bound, half of them ours."""
    count, pods = max(_IN_ONE, int(LARGE_NODES * scale)), max(500, int(LARGE_PODS * scale))
    labels = {f"example.com/label-{n}": f"value-{n}" for n in range(10)}
    await api.create(NODES.path(), node_of("first", cpu="64", labels=labels))
    await until_answered(lambda: api.change(NODES.path("first"), {"spec": {"taints": None}}))
    node = await api.get(NODES.path("first"))
    nodes = list(copies(node, (f"node-{n:05}" for n in range(count))))
    for one in nodes:
        one["status"]["allocatable"] = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    await etcd.put((f"/registry/minions/{one['metadata']['name']}", one) for one in nodes)
    labels = {"app": "example", "queue": "root.default"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1", "controller": True}
    first = await api.create(PODS.path(None, "default"), pod_of("x", labels=labels, owner=owner))
    made = copies(first, (f"pod-{n:05}" for n in range(pods)))
    await etcd.put(_bound(made, count))
    return nodes


def _bound(pods: Iterable[dict[str, Any]], nodes: int) -> Iterator[tuple[str, Object]]:
    for number, one in enumerate(pods):
        if number % 10:
            one["spec"]["nodeName"] = f"node-{number % nodes:05}"
            one["status"]["phase"] = "Running"
        if number % 2:
            one["spec"]["schedulerName"] = "default-scheduler"
        else:
            owner = one["metadata"]["ownerReferences"][0]
            owner["name"] = f"job-{number // 100}"
        if not number % 10:
            one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000"  # fits nowhere
        yield f"/registry/pods/default/{one['metadata']['name']}", one


async def _large(plane: ControlPlane, scale: float) -> list[Figure]:
    """Measure the start with a large cluster, and changes of labels of its nodes."""
    changes = max(200, int(CHANGES * scale))
    url = plane.etcd_url
    async with (
        api_of(plane) as api,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False) as client,
    ):
        etcd = Etcd(client)
        nodes = await large_cluster(api, etcd, scale)
        began = trio.current_time()
        served = await trio.to_thread.run_sync(serving, plane)
        with served:
            start_s, used_s = trio.current_time() - began, processor_s(served)
            peak = peak_bytes(served)
            each_s = await _label_changes(served, api, etcd, nodes, changes)
            await trio.to_thread.run_sync(served.stop)
    size = f"{len(nodes):,} nodes, {max(500, int(LARGE_PODS * scale)):,} pods"
    used = f"{with_unit(used_s, 's')} of the processor"
    return [
        Figure("kubernetes", f"start with {size}", start_s, "s", 60, note=used),
        Figure("kubernetes", f"peak of memory with {size}", peak / 1e9, "GB", 1.5),
        Figure(
            "kubernetes",
            "20 × 5,000 label changes a minute: share of a core",
            each_s * CHANGES_A_SECOND,
            "cores",
            0.1,
            note=f"{with_unit(each_s * 1e6, 'µs')} each",
        ),
    ]


async def _label_changes(
    served: Served, api: Api, etcd: Etcd, nodes: list[dict[str, Any]], changes: int
) -> float:
    """Change labels at the rate; return the processor time of Muster for each change."""
    before, began = processor_s(served), trio.current_time()
    await trio.sleep(IDLE_S)  # It still says why pods wait, and goes on with that.
    idle = (processor_s(served) - before) / (trio.current_time() - began)
    before, began = processor_s(served), trio.current_time()
    for first in range(0, changes, _IN_ONE):
        await trio.sleep_until(began + first / CHANGES_A_SECOND)
        some = [nodes[number % len(nodes)] for number in range(first, first + _IN_ONE)]
        for one in some:
            one["metadata"]["labels"]["example.com/label-3"] = f"value-{first}"
        await etcd.put((f"/registry/minions/{one['metadata']['name']}", one) for one in some)
    await _until_known(served, api)
    used_s = processor_s(served) - before
    return (used_s - idle * (trio.current_time() - began)) / changes


async def _until_known(served: Served, api: Api) -> None:
    """Wait until Muster knows all labels, which it gets in their order."""
    await api.change(NODES.path("first"), {"metadata": {"labels": {"is-last": "true"}}})

    async def is_known() -> bool:
        await trio.sleep(0.5)  # To ask it costs it more than a change.
        found = await trio.to_thread.run_sync(served.client.get, "/api/v1/nodes?limit=1")
        return "is-last" in found.json()["items"][0]["attributes"]

    await wait_for(is_known, "the labels are known")


CASES: Final[Mapping[str, Any]] = {
    "bindings": _bindings,
    "latency": _latency,
    "large": _large,
}


if __name__ == "__main__":
    names, scale = sys.argv[1:-1] or list(CASES), float(sys.argv[-1])
    for one in (one for name in names for one in measure_case(name, scale)):
        print(*cells(one), sep=" | ")
