"""A scheduler that only binds: the first node that fits, all members of a Job at once.

It is the measure of what an API server can do at all, and what the other helpers of these tests are
tried with. It evicts nobody, and knows neither queues nor priorities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast, final

import trio

from muster.kubernetes._api import Api, ApiError, Object, SilenceError
from muster.kubernetes._reflector import Change, Reflector
from tests.kubernetes.kubelet import NODES, PODS, Room, requests_of, room_of

AT_ONCE: Final = 32
"""How many bindings are under way at once."""

MIN_MEMBER: Final = "gang.scheduling.koordinator.sh/min-available"

_AGAIN_S: Final = 0.2


async def bind(api: Api, pod: Object, node: str) -> bool:
    """Bind a pod, and return whether it is bound to this node; also if answers are lost."""
    metadata = pod["metadata"]
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    identity = {"name": name, "uid": metadata["uid"]}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": identity, "target": target}
    while True:
        try:
            await api.create(PODS.path(name, namespace, "binding"), body)
        except (ApiError, SilenceError) as error:
            status = error.status if isinstance(error, ApiError) else 0
            if status in {404, 409}:
                found = await _get(api, PODS.path(name, namespace))
                if found is None or found["metadata"]["uid"] != metadata["uid"]:
                    return False
                if is_at := found["spec"].get("nodeName"):
                    return bool(is_at == node)
            await trio.sleep(_AGAIN_S)
        else:
            return True


async def _get(api: Api, path: str) -> Object | None:
    while True:
        try:
            return await api.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
        except SilenceError:
            pass
        await trio.sleep(_AGAIN_S)


async def bind_all(api: Api, wanted: Iterable[tuple[Object, str]]) -> float:
    """Bind pods to nodes as fast as possible; return how many per second."""
    count, began = 0, trio.current_time()
    async with trio.open_nursery() as nursery:
        for pod, node in wanted:
            nursery.start_soon(bind, api, pod, node)
            count += 1
    return count / (trio.current_time() - began)


@final
class PlainBinder:
    """Binds the pods that name a scheduler.

    Args:
        api: The API server, with :data:`AT_ONCE` connections.
        name: The name of the scheduler.
    """

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._pods: dict[str, Object] = {}
        self._nodes: dict[str, Room] = {}
        #: The nodes of pods that are bound, for all that is known; the watch has not shown it.
        self._assumed: dict[str, str] = {}
        self._changed = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bind for ever; started once it has the lists."""
        async with trio.open_nursery() as nursery:
            await nursery.start(Reflector(self._api, NODES, self._take_nodes).run)
            await nursery.start(Reflector(self._api, PODS, self._take_pods).run)
            task_status.started()
            while True:
                self._changed = trio.Event()
                for pod, node in self._decide():
                    self._assumed[pod["metadata"]["uid"]] = node
                    nursery.start_soon(self._bind, pod, node)
                await self._changed.wait()

    async def _take_nodes(self, changes: list[Change]) -> None:
        for one in changes:
            name = cast("Object", one.new or one.old)["metadata"]["name"]
            self._nodes.pop(name, None)
            if one.new is not None and not one.new["spec"].get("taints"):
                self._nodes[name] = room_of(one.new["status"]["allocatable"])
        self._changed.set()

    async def _take_pods(self, changes: list[Change]) -> None:
        for one in changes:
            pod = cast("Object", one.new or one.old)
            uid = pod["metadata"]["uid"]
            self._pods[uid] = pod
            if one.new is None:
                del self._pods[uid]
            if one.new is None or "nodeName" in pod["spec"]:
                self._assumed.pop(uid, None)
        self._changed.set()

    async def _bind(self, pod: Object, node: str) -> None:
        if not await bind(self._api, pod, node):
            self._assumed.pop(pod["metadata"]["uid"], None)
            self._changed.set()

    def _node_of(self, pod: Object) -> str | None:
        return self._assumed.get(pod["metadata"]["uid"]) or pod["spec"].get("nodeName")

    def _decide(self) -> list[tuple[Object, str]]:
        """Return the pods to bind, each with its node."""
        free = {name: Room(room) for name, room in self._nodes.items()}
        groups: dict[str, list[Object]] = {}
        for pod in self._pods.values():
            node = self._node_of(pod)
            if pod["status"].get("phase") in {"Succeeded", "Failed"}:
                continue
            if node in free:
                free[node].subtract(requests_of(pod))
            owners = pod["metadata"].get("ownerReferences") or [pod["metadata"]]
            if pod["spec"]["schedulerName"] == self._name:
                groups.setdefault(owners[0]["uid"], []).append(pod)
        wanted: list[tuple[Object, str]] = []
        for group in groups.values():
            wanted += self._placed(group, free)
        return wanted

    def _placed(self, group: list[Object], free: dict[str, Room]) -> list[tuple[Object, str]]:
        """Place the members of a group that wait, all or none, and take their room."""
        annotations = cast("dict[str, str]", group[0]["metadata"].get("annotations") or {})
        if len(group) < int(annotations.get(MIN_MEMBER, "1")):
            return []
        left = {name: Room(room) for name, room in free.items()}
        placed: list[tuple[Object, str]] = []
        for pod in group:
            if self._node_of(pod) is not None or "deletionTimestamp" in pod["metadata"]:
                continue
            needs = requests_of(pod)
            node = next((name for name, room in left.items() if _fits(needs, room)), None)
            if node is None:
                return []
            left[node].subtract(needs)
            placed.append((pod, node))
        free.update(left)
        return placed


def _fits(needs: Mapping[str, int], room: Room) -> bool:
    return all(amount <= room[name] for name, amount in needs.items())
