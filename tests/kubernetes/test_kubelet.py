"""The kubelet and the controller of Jobs that other tests use, against a real API server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any

import attrs
import pytest
import trio

from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api, Object
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.jobs import Job, Jobs, JobSpec, pod_spec
from tests.kubernetes.kubelet import (
    ENDS_IN,
    EXIT,
    NODES,
    PODS,
    RUN_SECONDS,
    Kubelet,
    NodeSpec,
    requests_of,
    room_of,
    until_answered,
)


@attrs.define
class Cluster:
    """One node of two cores with a name of its own, and the actions of a test."""

    api: Api
    kubelet: Kubelet
    jobs: Jobs
    node: str
    made: list[str] = attrs.field(factory=list[str])

    async def pod(self, cpu: str = "1", *, grace_s: int = 0, **annotations: str) -> str:
        """Make a pod that is bound to the node; return its name."""
        name = f"{self.node}-{len(self.made)}"
        prefixed = {f"muster.test/{key.replace('_', '-')}": one for key, one in annotations.items()}
        spec = pod_spec({"cpu": cpu}, grace_s=grace_s) | {"nodeName": self.node}
        metadata = {"name": name, "annotations": prefixed}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await self.api.create(PODS.path(None, "default"), body)
        self.made.append(name)
        return name

    async def find(self, name: str) -> Object | None:
        return await until_answered(lambda: self.api.get(PODS.path(name, "default")))

    async def phase(self, name: str, *wanted: str) -> Object:
        """Wait until a pod has one of some phases; return its status."""
        with trio.fail_after(PATIENCE_S):
            while True:
                found = await self.find(name)
                assert found is not None
                if found["status"]["phase"] in wanted:
                    status: Object = found["status"]
                    return status
                await trio.sleep(0.02)

    async def wait_until_gone(self, name: str) -> None:
        with trio.fail_after(PATIENCE_S):
            while await self.find(name) is not None:  # noqa: ASYNC110 - of a real server
                await trio.sleep(0.02)

    async def delete(self, name: str) -> None:
        await self.api.delete(PODS.path(name, "default"))

    async def bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        path = PODS.path(name, "default", "binding")
        await until_answered(lambda: self.api.create(path, body))

    async def bind_all(self, job: Job, count: int) -> list[str]:
        """Bind the pods of a Job that wait, once there are so many; return their names."""
        await until(lambda: len(_unbound(job)) == count)
        names = _unbound(job)
        for name in names:
            await self.bind(name, self.node)
        return names


def _unbound(job: Job) -> list[str]:
    return [one["metadata"]["name"] for one in job.active if "nodeName" not in one["spec"]]


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of a real server
            await trio.sleep(0.02)


@pytest.fixture
async def cluster(plane: ControlPlane, nursery: trio.Nursery) -> AsyncGenerator[Cluster]:
    node = f"it-{uuid.uuid4().hex[:8]}"
    async with Api(read_kubeconfig([plane.kubeconfig()])) as api:
        kubelet = Kubelet(api, NodeSpec(node, {"cpu": "2", "memory": "4Gi"}, {"zone": "a"}))
        jobs = Jobs(api)
        with trio.fail_after(PATIENCE_S):
            await nursery.start(kubelet.run)
            await nursery.start(jobs.run)
        yield Cluster(api, kubelet, jobs, node)
        nursery.cancel_scope.cancel()
        with plane.client() as client:
            client.request("DELETE", PODS.path(None, "default"), params={"gracePeriodSeconds": 0})
            client.delete(NODES.path(node))
        assert kubelet.books.faults == []
        assert list(kubelet.books.overfull()) == []


async def test_a_node_is_ready(cluster: Cluster) -> None:
    node = await cluster.api.get(NODES.path(cluster.node))

    (ready,) = node["status"]["conditions"]
    assert (ready["type"], ready["status"]) == ("Ready", "True")
    assert "taints" not in node["spec"]
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["status"]["allocatable"] == {"cpu": "2", "memory": "4Gi", "pods": "110"}


async def test_pods_run_and_end(cluster: Cluster) -> None:
    ends = await cluster.pod(run_seconds="0.1")
    fails = await cluster.pod(run_seconds="0.1", exit="3")
    succeeded = await cluster.phase(ends, "Succeeded")
    failed = await cluster.phase(fails, "Failed")
    stays = await cluster.pod("2")
    running = await cluster.phase(stays, "Running")

    assert "reason" not in succeeded
    assert "reason" not in failed
    assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert "startTime" in running
    assert {one["type"] for one in running["conditions"]} >= {"Ready", "PodScheduled"}
    assert cluster.kubelet.books.most[cluster.node]["cpu"] == 2000


@pytest.mark.parametrize(
    ("lacking", "requests", "fits"),
    [("cpu", {"cpu": "3"}, 1), ("memory", {"memory": "5Gi"}, 1), ("pods", {"cpu": "1m"}, 2)],
)
async def test_what_does_not_fit_is_refused(
    cluster: Cluster, lacking: str, requests: dict[str, str], fits: int
) -> None:
    cluster.node += "-small"
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "2"}
    await cluster.kubelet.register(NodeSpec(cluster.node, allocatable))
    for _ in range(fits):
        await cluster.phase(await cluster.pod("1m"), "Running")
    name = f"{cluster.node}-x"
    spec = pod_spec(requests) | {"nodeName": cluster.node}
    await cluster.api.create(PODS.path(None, "default"), {"metadata": {"name": name}, "spec": spec})
    status = await cluster.phase(name, "Failed")
    await cluster.delete(name)
    await cluster.wait_until_gone(name)
    await cluster.api.delete(NODES.path(cluster.node))

    assert status["reason"] == f"OutOf{lacking}"
    assert [one.name for one in cluster.kubelet.books.refusals] == [f"default/{name}"]


async def test_a_deleted_pod_holds_its_room_for_its_grace(cluster: Cluster) -> None:
    first = await cluster.pod("2", grace_s=1)
    await cluster.phase(first, "Running")
    began = trio.current_time()
    await cluster.delete(first)
    refused = await cluster.phase(await cluster.pod(), "Failed")
    await cluster.wait_until_gone(first)
    after = trio.current_time() - began
    await cluster.phase(await cluster.pod(), "Running")

    assert refused["reason"] == "OutOfcpu"
    assert after >= 1


async def test_a_pod_that_ends_before_its_grace_is_over(cluster: Cluster) -> None:
    first = await cluster.pod("2", grace_s=3600, ends_in="0.1")
    await cluster.phase(first, "Running")
    await cluster.delete(first)
    await cluster.wait_until_gone(first)
    await cluster.phase(await cluster.pod(), "Running")

    assert [one.outcome for one in cluster.kubelet.books.runs.values()] == ["deleted", ""]


async def test_a_pod_that_is_gone_at_once_frees_its_room(cluster: Cluster) -> None:
    first = await cluster.pod("2")
    await cluster.phase(first, "Running")
    await cluster.api.delete(PODS.path(first, "default"), {"gracePeriodSeconds": 0})
    await cluster.phase(await cluster.pod("2"), "Running")


async def test_a_pod_that_has_ended_is_gone_when_it_is_deleted(cluster: Cluster) -> None:
    first = await cluster.pod("2", grace_s=3600, run_seconds="0.1")
    await cluster.phase(first, "Succeeded")
    await cluster.delete(first)
    await cluster.wait_until_gone(first)


def test_the_room_of_a_pod() -> None:
    def container(**requests: str) -> dict[str, Any]:
        return {"resources": {"requests": requests}}

    spec = {
        "containers": [container(cpu="250m", memory="1Gi"), container(cpu="1"), {}],
        "initContainers": [container(cpu="1", memory="3Gi")],
        "overhead": {"memory": "512Ki"},
    }
    memory = (3 * 2**30 + 512 * 2**10) * 1000

    assert requests_of({"spec": spec}) == {"cpu": 1250, "memory": memory, "pods": 1000}
    assert room_of({"a": "1.5", "b": "2k"}) == {"a": 1500, "b": 2_000_000}


def job_of(
    cluster: Cluster, members: int, annotations: dict[str, str], *, together: bool = False
) -> JobSpec:
    spec = pod_spec({"cpu": "1"}, grace_s=0, scheduler="none")
    return JobSpec(cluster.node, members, spec, annotations=annotations, together=together)


async def test_a_job_makes_pods_that_it_controls(cluster: Cluster) -> None:
    job = await cluster.jobs.submit(job_of(cluster, 2, {RUN_SECONDS: "0.1"}))
    names = await cluster.bind_all(job, 2)
    with trio.fail_after(PATIENCE_S):
        await job.ended.wait()

    assert (len(job.succeeded), job.has_failed, sorted(job.made)) == (2, False, sorted(names))
    (owner,) = next(iter(job.pods.values()))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", cluster.node, True)


async def test_what_was_lost_is_made_again(cluster: Cluster) -> None:
    big = await cluster.pod("1")
    await cluster.phase(big, "Running")
    job = await cluster.jobs.submit(job_of(cluster, 2, {RUN_SECONDS: "0.5"}))
    first, second = await cluster.bind_all(job, 2)
    await cluster.phase(second, "Failed")
    await until(lambda: len(_unbound(job)) == 1)
    await cluster.delete(first)
    await cluster.delete(big)
    await cluster.wait_until_gone(big)
    await cluster.bind_all(job, 2)
    with trio.fail_after(PATIENCE_S):
        await job.ended.wait()

    assert (len(job.succeeded), len(job.made), len(job.lost)) == (2, 4, 2)
    outcomes = [one.outcome for one in cluster.kubelet.books.runs.values() if one.job]
    assert outcomes == ["deleted", "OutOfcpu", "Succeeded", "Succeeded"]


async def test_what_has_succeeded_is_not_lost_any_more(cluster: Cluster) -> None:
    job = await cluster.jobs.submit(job_of(cluster, 2, {RUN_SECONDS: "0.1"}))
    await until(lambda: len(_unbound(job)) == 2)
    first, second = _unbound(job)
    await cluster.bind(first, cluster.node)
    await cluster.phase(first, "Succeeded")
    await cluster.delete(first)
    await cluster.wait_until_gone(first)
    await cluster.bind(second, cluster.node)
    with trio.fail_after(PATIENCE_S):
        await job.ended.wait()

    assert (len(job.succeeded), len(job.made), job.lost) == (2, 2, set())


async def test_members_that_belong_together_begin_again_together(cluster: Cluster) -> None:
    job = await cluster.jobs.submit(job_of(cluster, 2, {RUN_SECONDS: "0.5"}, together=True))
    first, second = sorted(await cluster.bind_all(job, 2))
    await cluster.phase(first, "Succeeded", "Running")
    await cluster.delete(second)
    again = await cluster.bind_all(job, 2)
    with trio.fail_after(PATIENCE_S):
        await job.ended.wait()

    assert {first, second}.isdisjoint(again)
    assert [sorted(one.names) for one in job.generations] == [[first, second], sorted(again)]
    assert (len(job.succeeded), len(job.lost)) == (2, 1)


async def test_a_job_whose_pod_fails_by_itself_has_failed(cluster: Cluster) -> None:
    job = await cluster.jobs.submit(job_of(cluster, 1, {RUN_SECONDS: "0.1", EXIT: "1"}))
    await cluster.bind_all(job, 1)
    with trio.fail_after(PATIENCE_S):
        await job.ended.wait()

    assert (job.has_failed, len(job.made)) == (True, 1)


async def test_all_goes_on_when_the_server_was_away(plane: ControlPlane, cluster: Cluster) -> None:
    job = await cluster.jobs.submit(job_of(cluster, 1, {ENDS_IN: "0.1"}))
    (name,) = await cluster.bind_all(job, 1)
    await cluster.phase(name, "Running")
    await cluster.delete(name)
    plane.kill("server")
    await trio.to_thread.run_sync(plane.start_server)
    (again,) = await cluster.bind_all(job, 1)
    await cluster.phase(again, "Running")

    assert name != again
