"""A kubelet for tests, which plays many nodes at once against a real API server.

It does what a scheduler can see of a real one: it registers nodes, refuses a pod that does not fit
beside those that have not gone yet, lets pods run and end, and lets a deleted pod hold its room for its
grace period. Annotations of a pod say how it runs:

- ``muster.test/run-seconds``: after so many seconds it ends by itself; without it, never.
- ``muster.test/exit``: the exit status that it ends with; 0 if it is missing.
- ``muster.test/ends-in``: so many seconds after its deletion it has ended, if its grace period is not
  over before.

Its books are independent of what the code under test believes, its arithmetic with resources too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, cast, final

import attrs
import trio

from muster.kubernetes._api import Api, ApiError, Object, Resource, SilenceError
from muster.kubernetes._reflector import Change, Reflector

PODS: Final = Resource("v1", "pods")
NODES: Final = Resource("v1", "nodes")

RUN_SECONDS: Final = "muster.test/run-seconds"
EXIT: Final = "muster.test/exit"
ENDS_IN: Final = "muster.test/ends-in"

NOT_READY: Final = "node.kubernetes.io/not-ready"

_AGAIN_S: Final = 0.3
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_OUR_FAULT: Final = (400, 403, 405, 415, 422)
_FACTORS: Final = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}

Room = Counter[str]
"""An amount of each resource, in thousandths of its unit."""


def room_of(quantities: Mapping[str, str | int]) -> Room:
    """Return the amounts of quantities such as ``500m`` and ``2Gi``."""
    return Room({name: _thousandths(str(quantity)) for name, quantity in quantities.items()})


def _thousandths(quantity: str) -> int:
    number = quantity.rstrip("mkMGTPEKi")
    return int(Fraction(number) * _FACTORS[quantity[len(number) :]] * 1000)


def requests_of(pod: Object) -> Room:
    """Return the room that a pod needs, as a kubelet counts it."""
    spec = pod["spec"]
    total = Room()
    for one in spec["containers"]:
        total.update(_requests(one))
    for one in spec.get("initContainers") or ():
        total |= _requests(one)  # They run one by one, before the others.
    total.update(room_of(spec.get("overhead") or {}))
    total.update(room_of({"pods": 1}))
    return total


def _requests(container: Object) -> Room:
    resources = cast("Mapping[str, Mapping[str, str]]", container.get("resources") or {})
    return room_of(resources.get("requests") or {})


async def until_answered(write: Callable[[], Awaitable[Object]]) -> Object | None:
    """Repeat a write until the server has answered whether it was carried out.

    Returns:
        The answer, or None if the object is gone (for one that is made: if it is there already).

    Raises:
        ApiError: If the request can never be carried out.
    """
    while True:
        wait_s = _AGAIN_S
        try:
            return await write()
        except ApiError as error:
            if error.status == _NOT_FOUND or _is_of_another(error):
                return None
            if error.status in _OUR_FAULT:
                raise
            wait_s = error.retry_after or _AGAIN_S
        except SilenceError:
            pass
        await trio.sleep(wait_s)


def _is_of_another(error: ApiError) -> bool:
    """Return whether another object has the name; other conflicts pass."""
    is_other = error.reason == "AlreadyExists" or "UID in precondition" in str(error)
    return error.status == _CONFLICT and is_other


@final
@attrs.frozen
class NodeSpec:
    """A node.

    Attributes:
        name: Its name.
        allocatable: What pods may use, such as ``{"cpu": "8"}``; ``pods`` is 110 unless it says so.
        labels: Its labels.
    """

    name: str
    allocatable: Mapping[str, str]
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @property
    def room(self) -> Room:
        """The resources for pods."""
        return room_of({"pods": "110"} | dict(self.allocatable))


@final
@attrs.define
class Run:
    """One pod on a node.

    Attributes:
        uid: The pod.
        name: Its namespace and name.
        job: What controls it, or nothing.
        node: The node.
        needs: The room that it needs.
        bound_s: When the kubelet saw it bound, in seconds of the clock of trio.
        ended_s: When it left its room; None while it is there.
        outcome: How it ended: ``Succeeded``, ``Failed``, ``deleted``, or why it was refused, such as
            ``OutOfcpu``; nothing while it is there.
    """

    uid: str
    name: str
    job: str
    node: str
    needs: Room
    bound_s: float
    ended_s: float | None = None
    outcome: str = ""

    @property
    def was_refused(self) -> bool:
        """Whether the node has refused it."""
        return self.outcome.startswith("OutOf")


@final
@attrs.define
class Books:
    """The observations of a kubelet.

    Attributes:
        nodes: Its nodes.
        runs: The pods that were bound to one of them, by uid.
        used: What is used on each node now.
        most: The most of each resource that was ever used at once, of each node.
        faults: What is never right, such as a pod that is bound to a second node.
    """

    nodes: dict[str, NodeSpec] = attrs.field(factory=dict[str, NodeSpec])
    runs: dict[str, Run] = attrs.field(factory=dict[str, Run])
    used: dict[str, Room] = attrs.field(factory=dict[str, Room])
    most: dict[str, Room] = attrs.field(factory=dict[str, Room])
    faults: list[str] = attrs.field(factory=list[str])

    @property
    def refusals(self) -> list[Run]:
        """The pods that were refused."""
        return [one for one in self.runs.values() if one.was_refused]

    def enter(self, run: Run, *, is_there: bool) -> str:
        """Add a pod to its node, unless it does not fit and does not run there yet.

        Returns:
            The resource of which there is too little, or nothing.
        """
        self.runs[run.uid] = run
        used, room = self.used[run.node], self.nodes[run.node].room
        for name, amount in run.needs.items():
            if not is_there and amount > 0 and used[name] + amount > room[name]:
                run.outcome, run.ended_s = f"OutOf{name}", run.bound_s
                return name
        used.update(run.needs)
        self.most[run.node] |= used
        return ""

    def leave(self, run: Run, outcome: str) -> None:
        """Free the room of a pod, unless it has left it already."""
        if run.ended_s is None:
            run.ended_s, run.outcome = trio.current_time(), outcome
            self.used[run.node].subtract(run.needs)

    def overfull(self) -> Iterator[str]:
        """Yield the nodes that were ever over their allocatable; nothing, if the kubelet is right."""
        for name, most in self.most.items():
            over = most - self.nodes[name].room
            if over:
                yield f"node {name} was over its allocatable by {dict(over)} thousandths"


@final
@attrs.define
class _Pod:
    """A pod that a node has, and the task that lives it."""

    name: str
    namespace: str
    run: Run
    containers: list[Object]
    annotations: Mapping[str, str]
    grace_s: float = 0.0
    ending: trio.Event = attrs.field(factory=trio.Event)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def path(self, part: str = "") -> str:
        return PODS.path(self.name, self.namespace, part)

    def seconds(self, annotation: str) -> float:
        return float(self.annotations.get(annotation, "inf"))

    def end(self, pod: Object) -> None:
        """Begin to end it if it is being deleted."""
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp") and not self.ending.is_set():
            self.grace_s = float(metadata.get("deletionGracePeriodSeconds") or 0)
            self.ending.set()


@final
class Kubelet:
    """The kubelets of all nodes of a cluster.

    Args:
        api: Where it reports; as an administrator.
        *nodes: The nodes; :meth:`register` adds others.

    Attributes:
        books: What it has seen.
    """

    def __init__(self, api: Api, *nodes: NodeSpec) -> None:
        self.books = Books()
        self._api = api
        self._nodes = nodes
        self._pods: dict[str, _Pod] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Register the nodes, and run pods for ever; started once nodes can be used."""
        async with trio.open_nursery() as nursery:
            for one in self._nodes:
                nursery.start_soon(self.register, one)
        async with trio.open_nursery() as self._nursery:
            await self._nursery.start(Reflector(self._api, PODS, self._take).run)
            task_status.started()

    async def register(self, node: NodeSpec) -> None:
        """Make a node, ready and without the taint that the API server puts on each new one."""
        self.books.nodes[node.name] = node
        self.books.used.setdefault(node.name, Room())
        self.books.most.setdefault(node.name, Room())
        allocatable = {"pods": "110"} | dict(node.allocatable)
        conditions = [_condition("Ready", reason="KubeletReady")]
        status = {"allocatable": allocatable, "capacity": allocatable, "conditions": conditions}
        labels = {"kubernetes.io/hostname": node.name} | dict(node.labels)
        metadata = {"name": node.name, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        path = NODES.path(node.name)
        await until_answered(lambda: self._api.create(NODES.path(), body))
        found = await until_answered(lambda: self._api.get(path))
        spec: Object = {} if found is None else found["spec"]
        taints = cast("list[Object]", spec.get("taints") or [])
        left = [one for one in taints if one["key"] != NOT_READY]
        await until_answered(lambda: self._api.change(path, {"spec": {"taints": left or None}}))

    # The watch tells

    async def _take(self, changes: list[Change]) -> None:
        for one in changes:
            if one.new is None:
                self._forget(str(cast("Object", one.old)["metadata"]["uid"]))
            elif one.new["spec"].get("nodeName") in self.books.nodes:
                self._process(one.new)

    def _forget(self, uid: str) -> None:
        """Free the room of a pod that is gone, also of one deleted by force."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self.books.leave(pod.run, "deleted")
            pod.scope.cancel()

    def _process(self, pod: Object) -> None:
        uid, node = str(pod["metadata"]["uid"]), str(pod["spec"]["nodeName"])
        run = self.books.runs.get(uid)
        if run is None and pod["status"].get("phase") in {"Succeeded", "Failed"}:
            return  # Another kubelet was here before.
        if run is None:
            self._begin(pod, uid, node)
        elif run.node != node:
            self.books.faults.append(f"pod {run.name} is bound to {node}, and was to {run.node}")
        if uid in self._pods:
            self._pods[uid].end(pod)

    def _begin(self, pod: Object, uid: str, node: str) -> None:
        metadata = pod["metadata"]
        name, namespace = str(metadata["name"]), str(metadata["namespace"])
        owners = [one["name"] for one in metadata.get("ownerReferences") or ()]
        run = Run(
            uid,
            f"{namespace}/{name}",
            "".join(owners[:1]),
            node,
            requests_of(pod),
            trio.current_time(),
        )
        annotations = cast("dict[str, str]", metadata.get("annotations") or {})
        mine = _Pod(name, namespace, run, pod["spec"]["containers"], annotations)
        self._pods[uid] = mine
        lacking = self.books.enter(run, is_there=pod["status"].get("phase") == "Running")
        assert self._nursery is not None
        self._nursery.start_soon(self._refuse if lacking else self._live, mine)

    # The tasks of pods

    async def _refuse(self, pod: _Pod) -> None:
        reason, node = pod.run.outcome, pod.run.node
        message = f"Pod {reason}: node {node} has too little for {pod.run.name}"
        with pod.scope:
            await self._report(pod, {"phase": "Failed", "reason": reason, "message": message})
            await pod.ending.wait()
            await self._delete(pod)

    async def _live(self, pod: _Pod) -> None:
        with pod.scope:
            if not pod.ending.is_set():
                await self._report(pod, _running(pod))
            with trio.move_on_after(pod.seconds(RUN_SECONDS)):
                await pod.ending.wait()
            if pod.ending.is_set():
                await trio.sleep(min(pod.grace_s, pod.seconds(ENDS_IN)))
                self.books.leave(pod.run, "deleted")
            else:
                status = int(pod.annotations.get(EXIT, "0"))
                phase = "Failed" if status else "Succeeded"
                self.books.leave(pod.run, phase)
                await self._report(pod, {"phase": phase, "containerStatuses": _ended(pod, status)})
                await pod.ending.wait()
            await self._delete(pod)

    async def _report(self, pod: _Pod, status: Object) -> None:
        """Report the status of a pod, but not of another one that has its name by now."""
        body = {"metadata": {"uid": pod.run.uid}, "status": status}
        await until_answered(lambda: self._api.change(pod.path("status"), body))

    async def _delete(self, pod: _Pod) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.run.uid}}
        await until_answered(lambda: self._api.delete(pod.path(), body))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, **more: str) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": _now(), **more}


def _running(pod: _Pod) -> dict[str, Any]:
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    started = {"running": {"startedAt": _now()}}
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": [_condition(one) for one in kinds],
        "containerStatuses": [_container(one, started, ready=True) for one in pod.containers],
    }


def _ended(pod: _Pod, status: int) -> list[dict[str, Any]]:
    state = {"terminated": {"exitCode": status, "reason": "Error" if status else "Completed"}}
    return [_container(one, state, ready=False) for one in pod.containers]


def _container(container: Object, state: Object, *, ready: bool) -> dict[str, Any]:
    status = {"name": container["name"], "image": container["image"], "imageID": ""}
    return {**status, "ready": ready, "restartCount": 0, "state": state}
