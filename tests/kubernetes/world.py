"""A scheduler that follows the real API server.

The test acts as the kubelet, the controllers and the users. It starts from an empty cluster.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast, final

import attrs
import httpx
import trio

import muster
from muster.kubernetes import BindOptions, Cluster, connect
from muster_core.snapshots import AskPlace
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.roles import give_roles

QUEUES: Final = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    queues: [{name: default}]
"""

Object = Mapping[str, Any]

_PODS: Final = "/api/v1/namespaces/default/pods"
_READY: Final = [{"type": "Ready", "status": "True"}]


def node_of(name: str, *, cpu: str = "4", labels: Mapping[str, str] | None = None) -> Object:
    """Return a node that is ready."""
    has = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "status": {"allocatable": has, "capacity": has, "conditions": _READY},
    }


def pod_of(
    name: str,
    *,
    cpu: str = "1",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "muster",
    grace_s: int = 30,
    owner: Object | None = None,
    container: Object | None = None,
    **spec: object,
) -> Object:
    """Return a pod that names Muster as its scheduler."""
    requests = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
            "ownerReferences": [] if owner is None else [owner],
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": grace_s,
            "containers": [{"name": "c", "image": "i", "resources": requests, **(container or {})}],
            **spec,
        },
    }


@final
@attrs.define
class Outside:
    """Other users of the API server, beside Muster."""

    plane: ControlPlane

    async def ask(self, method: str, path: str, body: object = None, kind: str = "json") -> Any:  # noqa: ANN401 - JSON
        """Ask the API server for something."""
        return await trio.to_thread.run_sync(partial(self._ask, method, path, body, kind))

    def _ask(self, method: str, path: str, body: object, kind: str) -> Any:  # noqa: ANN401 - JSON
        with self.plane.client() as client:
            headers = {"Content-Type": f"application/{kind}"}
            content = None if body is None else httpx.Request("POST", "http://x", json=body).content
            answer = client.request(method, path, content=content, headers=headers)
        return answer.json() if not answer.is_error else None

    async def add_node(self, node: Object) -> None:
        """Add a node, without the taint that the API server puts on it."""
        assert await self.ask("POST", "/api/v1/nodes", node) is not None
        name = node["metadata"]["name"]
        await self.change_node(name, {"spec": {"taints": node.get("spec", {}).get("taints", [])}})

    async def change_node(self, name: str, fields: Object, part: str = "") -> None:
        """Change fields of a node."""
        path = f"/api/v1/nodes/{name}{part}"
        assert await self.ask("PATCH", path, fields, "merge-patch+json") is not None

    async def remove_node(self, name: str) -> None:
        """Remove a node."""
        await self.ask("DELETE", f"/api/v1/nodes/{name}")

    async def add_pod(self, pod: Object) -> str:
        """Add a pod, and return its uid."""
        made = await self.ask("POST", _PODS, pod)
        assert made is not None, f"refused: {pod}"
        return str(made["metadata"]["uid"])

    async def pods(self) -> dict[str, Any]:
        """Return the pods by name."""
        found = await self.ask("GET", "/api/v1/pods")
        return {one["metadata"]["name"]: one for one in found["items"]}

    async def places(self) -> dict[str, str]:
        """Return the node of each pod that is bound."""
        pods = await self.pods()
        return {
            name: one["spec"]["nodeName"] for name, one in pods.items() if "nodeName" in one["spec"]
        }

    async def bind(self, name: str, node: str) -> None:
        """Bind a pod, as another scheduler."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": "default"},
            "target": {"kind": "Node", "name": node},
        }
        assert await self.ask("POST", f"{_PODS}/{name}/binding", body) is not None

    async def set_phase(self, name: str, phase: str) -> None:
        """Set the phase of a pod, as its kubelet."""
        body = {"status": {"phase": phase}}
        path = f"{_PODS}/{name}/status"
        assert await self.ask("PATCH", path, body, "merge-patch+json") is not None

    async def delete_pod(self, name: str, *, grace_s: int | None = None) -> None:
        """Delete a pod: at once with a grace of 0, as its kubelet does when it has ended."""
        body = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        await self.ask("DELETE", f"{_PODS}/{name}", body)

    async def clear(self) -> None:
        """Remove all pods, nodes and other objects of tests."""
        for name in await self.pods():
            await self.delete_pod(name, grace_s=0)
        for path in (
            "/api/v1/nodes",
            "/api/v1/persistentvolumes",
            "/api/v1/namespaces/default/persistentvolumeclaims",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            "/apis/events.k8s.io/v1/namespaces/default/events",
        ):
            found = await self.ask("GET", path)
            for one in found["items"] if found else ():
                name = one["metadata"]["name"]
                if not name.startswith("system-"):
                    await self.ask("DELETE", f"{path}/{name}")


async def wait_for(condition: Callable[[], Awaitable[object]], what: str = "") -> None:
    """Wait until something is so."""
    with trio.move_on_after(PATIENCE_S) as scope:
        while not await condition():  # noqa: ASYNC110 - of a real server
            await trio.sleep(0.02)
    assert not scope.cancelled_caught, f"not in {PATIENCE_S:.0f} s: {what or condition}"


@final
@attrs.define
class World:
    """A cluster, and the scheduler that follows it."""

    outside: Outside
    cluster: Cluster
    scheduler: muster.Scheduler

    async def bound(self) -> dict[str, str]:
        """Return the node of each ask that the scheduler has bound."""
        snapshot = await self.scheduler.snapshot()
        asks = [ask for app in snapshot.apps.values() for ask in app.asks]
        return {ask.name: ask.node or "" for ask in asks if ask.place == AskPlace.BOUND}

    async def wait_for_places(self, **wanted: str) -> None:
        """Wait until exactly these pods are bound, in the cluster."""

        async def are() -> bool:
            return await self.outside.places() == wanted

        await wait_for(are, f"pods are bound as {wanted}")

    async def wait_for_bound(self, **wanted: str) -> None:
        """Wait until exactly these asks are bound, in the scheduler."""

        async def are() -> bool:
            return await self.bound() == wanted

        await wait_for(are, f"asks are bound as {wanted}")

    async def wait_for_reason(self, name: str, part: str) -> None:
        """Wait until the condition of a pod gives a reason."""

        async def says() -> bool:
            pod = (await self.outside.pods()).get(name, {})
            conditions = cast("Sequence[Object]", pod.get("status", {}).get("conditions", ()))
            return any(
                one["type"] == "PodScheduled"
                and one["status"] == "False"
                and part in one.get("message", "")
                for one in conditions
            )

        await wait_for(says, f"{name} says {part!r}")


@asynccontextmanager
async def world_of(
    plane: ControlPlane,
    *,
    url: str | None = None,
    user: str = "muster",
    queues: str = QUEUES,
    store: Path | None = None,
    options: BindOptions | None = None,
    config_map: str | None = None,
) -> AsyncGenerator[World]:
    """Follow a control plane as a program does, for the time of a block.

    It may do what the roles of ``deploy/kubernetes`` allow, and no more.
    """
    if user == "muster":
        await trio.to_thread.run_sync(give_roles, plane)
    kubeconfig = await trio.to_thread.run_sync(plane.kubeconfig, user, url)
    async with (
        connect(kubeconfig, options=options or BindOptions(), config_map=config_map) as cluster,
        muster.open_scheduler(
            queues,
            binder=cluster.binder,
            bind_timeout=math.inf,
            bind_attempts=None,
            store=store,
        ) as scheduler,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(cluster.follow, scheduler)
        with trio.fail_after(PATIENCE_S):
            await cluster.wait_until_ready()
        yield World(Outside(plane), cluster, scheduler)
        nursery.cancel_scope.cancel()
