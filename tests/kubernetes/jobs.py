"""A controller of Jobs for tests: it makes their pods, and replaces those that were lost.

It makes a real ``batch/v1`` Job, which no other controller acts on, and pods that the Job controls. A pod is
lost if it was deleted, or refused by its node, before it has succeeded. As with the real controller, the
next one does not wait until the lost one has gone. The names of pods are drawn here, so that a request
whose answer was lost can be sent again.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping
from typing import Any, Final, cast, final

import attrs
import trio

from muster.kubernetes._api import Api, ApiError, Object, Resource
from muster.kubernetes._reflector import Change, Reflector
from tests.kubernetes.kubelet import PODS, until_answered

JOBS: Final = Resource("batch/v1", "jobs")

_LETTERS: Final = string.ascii_lowercase + string.digits
_UNSEEN_S: Final = 3.0


def pod_spec(
    requests: Mapping[str, str], *, scheduler: str = "muster", grace_s: int = 1
) -> dict[str, Any]:
    """Return the spec of a pod of one container."""
    container = {"name": "main", "image": "none", "resources": {"requests": dict(requests)}}
    return {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        "containers": [container],
    }


@final
@attrs.frozen
class JobSpec:
    """A Job.

    Attributes:
        name: Its name.
        members: How many of its pods have to succeed; so many run at once.
        spec: The spec of its pods.
        namespace: Its namespace.
        labels: The labels of its pods, besides those of every Job.
        annotations: The annotations of its pods.
        together: Whether all members begin again when one is lost, once the last has gone, as those of
            programs do that speak to each other.
        failures: How many pods may fail by themselves before the Job has failed.
    """

    name: str
    members: int
    spec: Mapping[str, Any]
    namespace: str = "default"
    labels: Mapping[str, str] = attrs.field(factory=dict[str, str])
    annotations: Mapping[str, str] = attrs.field(factory=dict[str, str])
    together: bool = False
    failures: int = 0

    def template(self) -> dict[str, Any]:
        """Return the template of its pods."""
        labels = {"job-name": self.name} | dict(self.labels)
        return {
            "metadata": {"labels": labels, "annotations": dict(self.annotations)},
            "spec": dict(self.spec),
        }


@final
@attrs.define
class Generation:
    """The pods of a Job that were made before all had to begin again.

    Attributes:
        names: Their names, in the order in which they were made.
        broken_s: When one was lost, in seconds of the clock of trio, of one that is over; else None.
    """

    names: list[str] = attrs.field(factory=list[str])
    broken_s: float | None = None


@final
@attrs.define
class Job:
    """A Job that runs.

    Attributes:
        spec: Its spec.
        uid: The uid of its object.
        pods: Its pods, by their uids, as they were last seen.
        generations: Its pods, those of now last; of a Job whose members begin again one by one there
            is only one.
        lost: The uids of the pods that it has lost; not those that were deleted to begin again.
        succeeded: The uids of the pods that have succeeded; also of those that were deleted after that,
            as it can happen to a victim that ends just then.
        ended: When it has succeeded or failed.
        has_failed: Whether it has failed.
    """

    spec: JobSpec
    uid: str = ""
    pods: dict[str, Object] = attrs.field(factory=dict[str, Object])
    generations: list[Generation] = attrs.field(factory=lambda: [Generation()])
    lost: set[str] = attrs.field(factory=set[str])
    succeeded: set[str] = attrs.field(factory=set[str])
    ended: trio.Event = attrs.field(factory=trio.Event)
    has_failed: bool = False
    #: The names of pods that were made, and that the watch has not shown.
    _unseen: dict[str, trio.Event] = attrs.field(factory=dict[str, trio.Event])
    _changed: trio.Event = attrs.field(factory=trio.Event)
    _broken_s: float | None = None
    _is_beginning: bool = False

    @property
    def made(self) -> list[str]:
        """The names of all pods that were made."""
        return [name for one in self.generations for name in one.names]

    @property
    def active(self) -> list[Object]:
        """Its pods that run or wait, and are not being deleted."""
        ends = {"Succeeded", "Failed"}
        alive = [one for one in self.pods.values() if _phase(one) not in ends]
        return [one for one in alive if "deletionTimestamp" not in one["metadata"]]

    def see(self, change: Change) -> None:
        """Process a change of one of its pods."""
        one = cast("Object", change.new or change.old)
        metadata = one["metadata"]
        if change.new is None:
            self.pods.pop(metadata["uid"], None)
        else:
            self.pods[metadata["uid"]] = one
        if _phase(one) == "Succeeded":
            self.succeeded.add(metadata["uid"])
        is_lost = change.new is None or "deletionTimestamp" in metadata or _was_refused(one)
        if is_lost and metadata["uid"] not in self.succeeded and not self._is_beginning:
            self.lost.add(metadata["uid"])
            self._broken_s = self._broken_s or trio.current_time()
        if metadata["name"] in self._unseen:
            self._unseen[metadata["name"]].set()
        self._changed.set()

    async def run(self, api: Api) -> None:
        """Make its pods, until as many have succeeded as it needs."""
        async with trio.open_nursery() as nursery:
            while not self._is_over():
                self._changed = trio.Event()
                if self.spec.together and self._broken_s is not None:
                    await self._begin_again(api)
                there = len(self.succeeded) + len(self.active) + len(self._unseen)
                for _ in range(self.spec.members - there):
                    suffix = "".join(random.choices(_LETTERS, k=5))
                    name = f"{self.spec.name}-{suffix}"
                    self._unseen[name] = trio.Event()
                    nursery.start_soon(self._make, api, name)
                await self._changed.wait()
        self.ended.set()

    def _is_over(self) -> bool:
        failures = [one for one in self.pods.values() if _phase(one) == "Failed"]
        self.has_failed = sum(not _was_refused(one) for one in failures) > self.spec.failures
        return self.has_failed or len(self.succeeded) >= self.spec.members

    async def _make(self, api: Api, name: str) -> None:
        """Make a pod, and wait until the watch has shown it, or it is gone by then."""
        pod = self.spec.template()
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.spec.name, "uid": self.uid}
        pod["metadata"] |= {"name": name, "ownerReferences": [owner | {"controller": True}]}
        body = {"apiVersion": "v1", "kind": "Pod", **pod}
        path, seen = PODS.path(name, self.spec.namespace), self._unseen[name]
        await until_answered(lambda: api.create(PODS.path(None, self.spec.namespace), body))
        self.generations[-1].names.append(name)
        while not seen.is_set():
            with trio.move_on_after(_UNSEEN_S):
                await seen.wait()
            if not seen.is_set() and await until_answered(lambda: api.get(path)) is None:
                break
        del self._unseen[name]
        self._changed.set()

    async def _begin_again(self, api: Api) -> None:
        """Delete all pods, and wait until the last has gone."""
        self.generations[-1].broken_s = self._broken_s
        self._is_beginning = True
        while self.pods or self._unseen:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for one in self.pods.values():
                    if "deletionTimestamp" not in one["metadata"]:
                        nursery.start_soon(_delete, api, one)
            if self.pods or self._unseen:
                await self._changed.wait()
        self._broken_s, self._is_beginning = None, False
        self.succeeded.clear()
        self.generations.append(Generation())


def _phase(pod: Object) -> str:
    return str(pod["status"].get("phase"))


def _was_refused(pod: Object) -> bool:
    """Return whether its node has refused a pod."""
    return _phase(pod) == "Failed" and bool(pod["status"].get("reason"))


async def _delete(api: Api, pod: Object) -> None:
    metadata = pod["metadata"]
    path = PODS.path(metadata["name"], metadata["namespace"])
    uid = {"preconditions": {"uid": metadata["uid"]}}
    await until_answered(lambda: api.delete(path, uid))


@final
class Jobs:
    """The controller of the Jobs of a cluster.

    Args:
        api: Where they are; as an administrator.

    Attributes:
        known: Its Jobs, by their uids.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._nursery: trio.Nursery | None = None
        self.known: dict[str, Job] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Control the Jobs for ever; started once it takes some."""
        async with trio.open_nursery() as self._nursery:
            await self._nursery.start(Reflector(self._api, PODS, self._take).run)
            task_status.started()

    async def submit(self, spec: JobSpec) -> Job:
        """Make a Job, and control it.

        Raises:
            ApiError: If the API server does not take it.
        """
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": spec.name, "namespace": spec.namespace},
            "spec": {
                "completions": spec.members,
                "parallelism": spec.members,
                "backoffLimit": spec.failures,
                "template": spec.template(),
            },
        }
        await until_answered(lambda: self._api.create(JOBS.path(None, spec.namespace), body))
        path = JOBS.path(spec.name, spec.namespace)
        found = await until_answered(lambda: self._api.get(path))
        if found is None:
            raise ApiError(404, "NotFound", f"there is no Job {spec.name}", None)
        job = Job(spec, str(found["metadata"]["uid"]))
        self.known[job.uid] = job
        assert self._nursery is not None
        self._nursery.start_soon(job.run, self._api)
        return job

    async def _take(self, changes: list[Change]) -> None:
        for one in changes:
            pod = cast("Object", one.new or one.old)
            for owner in pod["metadata"].get("ownerReferences") or ():
                if owner["uid"] in self.known:
                    self.known[owner["uid"]].see(one)
