"""The mapping of the objects of a cluster: each row of the table, against the real API server."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol

import pytest
import trio

from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.world import Object, Outside, World, node_of, pod_of, wait_for, world_of


class FollowCluster(Protocol):
    """Begins to follow the cluster."""

    def __call__(self, *, queues: str = ...) -> AbstractAsyncContextManager[World]: ...


@pytest.fixture
def follow(plane: ControlPlane) -> FollowCluster:
    return partial(world_of, plane)


def term(key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def node_affinity(strength: str, terms: object) -> Object:
    return {"nodeAffinity": {f"{strength}DuringSchedulingIgnoredDuringExecution": terms}}


# -- nodes ----------------------------------------------------------------------------------------


async def test_a_node_is_open_while_it_is_ready_and_not_cordoned(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_node(node_of("n1"))
    await outside.change_node(
        "n1", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "/status"
    )
    await outside.add_pod(pod_of("a"))
    async with follow() as world:
        await world.wait_for_reason("a", "NoNodeFits")
        await outside.change_node("n1", {"spec": {"unschedulable": True}})
        await outside.change_node(
            "n1", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "/status"
        )
        await outside.change_node("n1", {"spec": {"unschedulable": False}})
        await world.wait_for_places(a="n1")


async def test_the_name_of_a_node_is_its_hostname(outside: Outside, follow: FollowCluster) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_node(node_of("n2", labels={"kubernetes.io/hostname": "x"}))
    await outside.add_pod(pod_of("a", nodeSelector={"kubernetes.io/hostname": "n1"}))
    await outside.add_pod(pod_of("b", nodeSelector={"kubernetes.io/hostname": "x"}))
    async with follow() as world:
        await world.wait_for_places(a="n1", b="n2")


# POD-18
async def test_pods_of_others_take_room(outside: Outside, follow: FollowCluster) -> None:
    await outside.add_node(node_of("n1", cpu="2"))
    await outside.add_pod(pod_of("other", cpu="1500m", scheduler="other"))
    await outside.bind("other", "n1")
    await outside.add_pod(pod_of("a"))
    async with follow() as world:
        await world.wait_for_reason("a", "NoNodeFits")
        await outside.set_phase("other", "Succeeded")
        await world.wait_for_places(a="n1", other="n1")


async def test_taints_keep_pods_away_that_do_not_tolerate_them(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_node(
        {**node_of("n1"), "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}
    )
    await outside.add_pod(pod_of("a"))
    await outside.add_pod(pod_of("b", tolerations=[{"key": "gpu", "operator": "Exists"}]))
    async with follow() as world:
        await world.wait_for_places(b="n1")
        await world.wait_for_reason("a", "NodesTainted")


# -- what a pod needs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "cores"),
    [
        ({}, 1_000),
        ({"initContainers": [{"name": "i", "image": "i", "cpu": "3"}]}, 3_000),
        ({"initContainers": [{"name": "i", "image": "i", "cpu": "500m"}]}, 1_000),
        ({"containers": [{"name": "c", "image": "i", "cpu": "1"}, {"name": "d", "image": "i"}]}, 1_000),
    ],
)  # fmt: skip
async def test_requests(
    outside: Outside, follow: FollowCluster, spec: dict[str, Any], cores: int
) -> None:
    await outside.add_node(node_of("n1"))
    made: dict[str, Any] = {name: _with_requests(some) for name, some in spec.items()}
    await outside.add_pod(pod_of("a", **made))
    async with follow() as world:
        await world.wait_for_places(a="n1")
        node = (await world.scheduler.snapshot()).nodes["n1"]
        assert node.used == {"vcore": cores, "pods": 1}


def _with_requests(containers: list[Any]) -> list[Any]:
    made: list[Any] = []
    for one in containers:
        rest = {name: value for name, value in one.items() if name != "cpu"}
        made.append(
            {**rest, "resources": {"requests": {"cpu": one["cpu"]}} if "cpu" in one else {}}
        )
    return made


async def test_affinity_to_nodes(outside: Outside, follow: FollowCluster) -> None:
    await outside.add_node(node_of("n1", labels={"disk": "tape"}))
    await outside.add_node(node_of("n2", labels={"disk": "ssd"}))
    needed = node_affinity("required", {"nodeSelectorTerms": [term("disk", "ssd")]})
    await outside.add_pod(pod_of("a", affinity=needed))
    await outside.add_pod(pod_of("b", nodeSelector={"disk": "tape"}))
    await outside.add_pod(pod_of("c", nodeSelector={"disk": "none"}))
    async with follow() as world:
        await world.wait_for_places(a="n2", b="n1")
        await world.wait_for_reason("c", "NoNodeFits")


# POD-17
async def test_a_host_port_is_there_once_on_each_node(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_node(node_of("n2"))
    port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    udp = {"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]}
    await outside.add_pod(pod_of("other", scheduler="other", container=port))
    await outside.bind("other", "n1")
    for name in ("a", "b"):
        await outside.add_pod(pod_of(name, container=port))
    await outside.add_pod(pod_of("c", container=udp, nodeSelector={"kubernetes.io/hostname": "n1"}))
    async with follow() as world:
        await world.wait_for_places(other="n1", a="n2", c="n1")
        await world.wait_for_reason("b", "port/TCP/80")


# -- what is not honoured -------------------------------------------------------------------------

PODS: Object = {"topologyKey": "zone", "labelSelector": {}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD: Object = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}}


NOT_HONOURED: list[tuple[dict[str, Any], str]] = [
    ({"affinity": {"podAffinity": {REQUIRED: [PODS]}}}, "spec.affinity.podAffinity.required"),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [PODS]}}},
        "spec.affinity.podAntiAffinity.required",
    ),
    (
        {"topologySpreadConstraints": [{**SPREAD, "whenUnsatisfiable": "DoNotSchedule"}]},
        "spec.topologySpreadConstraints[0].whenUnsatisfiable: DoNotSchedule",
    ),
    (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        "spec.volumes[0].persistentVolumeClaim: the claim default/data is not bound",
    ),
]


@pytest.mark.parametrize(("spec", "field"), NOT_HONOURED)
async def test_a_pod_that_needs_more_is_not_placed(
    outside: Outside, follow: FollowCluster, spec: dict[str, Any], field: str
) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", **spec))
    await outside.add_pod(pod_of("b"))
    async with follow() as world:
        await world.wait_for_places(b="n1")
        await world.wait_for_reason("a", f"NotSupported: {field}")
        assert world.cluster.reasons_of("default", "a")
        assert world.cluster.reasons_of("default", "b") is None


# POD-16
async def test_what_a_pod_prefers_is_ignored_and_said(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    affinity: Object = {
        **node_affinity("preferred", [{"weight": 1, "preference": term("disk", "ssd")}]),
        "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": PODS}]},
    }
    spread: list[Object] = [{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]
    for name in ("a", "b"):
        await outside.add_pod(pod_of(name, affinity=affinity, topologySpreadConstraints=spread))
    async with follow() as world:
        await world.wait_for_places(a="n1")
        for field in (
            "spec.affinity.nodeAffinity.preferred",
            "spec.affinity.podAffinity.preferred",
            "spec.topologySpreadConstraints[0] is ignored",
        ):
            await world.wait_for_reason("b", field)


async def test_a_bound_claim_is_an_affinity(outside: Outside, follow: FollowCluster) -> None:
    await outside.add_node(node_of("n1", labels={"zone": "a"}))
    await outside.add_node(node_of("n2", labels={"zone": "b"}))
    volume = {
        "metadata": {"name": "v1"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term("zone", "b")]}},
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "v1",
        },
    }
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    assert await outside.ask("POST", "/api/v1/persistentvolumes", volume)
    assert await outside.ask("POST", claims, claim)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    await outside.add_pod(pod_of("a", volumes=volumes))
    async with follow() as world:
        await world.wait_for_reason("a", "is not bound to a volume")
        bound = {"status": {"phase": "Bound"}}
        assert await outside.ask("PATCH", f"{claims}/data/status", bound, "merge-patch+json")
        await world.wait_for_places(a="n2")


# -- applications, queues, gangs ------------------------------------------------------------------


# POD-15, POD-19
async def test_the_application_of_a_pod(outside: Outside, follow: FollowCluster) -> None:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": "1",
        "controller": True,
    }
    await outside.add_pod(pod_of("a", labels={"applicationId": "spark-1"}))
    await outside.add_pod(pod_of("b", owner=owner))
    await outside.add_pod(pod_of("c"))
    await outside.add_pod(pod_of("d", labels={"yunikorn.apache.org/app-id": "spark-1"}))
    async with follow() as world:
        apps = (await world.scheduler.snapshot()).apps
        found = {name: [ask.name for ask in app.asks] for name, app in apps.items()}
        assert found == {"spark-1": ["a", "d"], "default.train": ["b"], "default.c": ["c"]}


QUEUES = """
partitions:
- name: default
  placementrules: [{name: provided}, {name: tag, value: namespace, create: true}]
  queues:
  - name: root
    submitacl: "*"
    queues: [{name: a}]
"""


async def test_the_queue_and_the_user_of_an_application(
    outside: Outside, follow: FollowCluster
) -> None:
    about = {"yunikorn.apache.org/user.info": '{"user": "sue", "groups": ["dev"]}'}
    await outside.add_pod(pod_of("a", labels={"queue": "root.a"}, annotations=about))
    await outside.add_pod(pod_of("b"))
    async with follow(queues=QUEUES) as world:
        apps = (await world.scheduler.snapshot()).apps
        assert {name: app.queue for name, app in apps.items()} == {
            "default.a": "root.a",
            "default.b": "root.default",
        }
        assert apps["default.a"].user == "sue"


async def test_a_pod_whose_queue_is_missing_waits_for_it(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", labels={"queue": "root.none"}))
    async with follow() as world:
        await world.wait_for_reason("a", "NotQueued")


async def test_a_gang_by_annotations_starts_as_a_whole(
    outside: Outside, follow: FollowCluster
) -> None:
    gang = "gang.scheduling.koordinator.sh"
    marks = {f"{gang}/name": "g", f"{gang}/min-available": "2"}
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", annotations=marks))
    async with follow() as world:

        async def waits() -> bool:
            gangs = (await world.scheduler.snapshot()).gangs
            return gangs["default/g"].waiting == (("default/g", "a"),) or bool(
                [one for one in gangs.values() if one.waiting or one.pending]
            )

        await wait_for(waits)
        assert not await outside.places()
        await outside.add_pod(pod_of("b", annotations=marks))
        await world.wait_for_places(a="n1", b="n1")


async def test_a_priority_class_comes_before_its_pods(
    outside: Outside, follow: FollowCluster
) -> None:
    made = {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "PreemptLowerPriority"}
    assert await outside.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low"))
    await outside.add_pod(pod_of("top", priorityClassName="high"))
    async with follow() as world:
        await world.wait_for_places(top="n1")


# -- the end of a pod -----------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_gives_its_room_back(
    outside: Outside, follow: FollowCluster, phase: str
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("a"))
    async with follow() as world:
        await world.wait_for_places(a="n1")
        decisions = world.scheduler.decisions(kinds=["released"])
        await outside.add_pod(pod_of("b"))
        await outside.set_phase("a", phase)
        await world.wait_for_bound(b="n1")
        with trio.fail_after(PATIENCE_S):
            announced = await anext(aiter(decisions))
        assert announced.decision.reason == ("completed" if phase == "Succeeded" else "failed")


# POD-29
async def test_a_deleted_pod_holds_its_room_until_it_has_gone(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("a"))
    async with follow() as world:
        await world.wait_for_places(a="n1")
        await outside.add_pod(pod_of("b"))
        await outside.delete_pod("a")
        await world.wait_for_reason("b", "NoNodeFits")
        assert await world.bound() == {"a": "n1"}
        await outside.delete_pod("a", grace_s=0)
        await world.wait_for_places(b="n1")


async def test_a_pending_pod_that_is_deleted_is_gone_at_once(
    outside: Outside, follow: FollowCluster
) -> None:
    await outside.add_pod(pod_of("a"))
    async with follow() as world:
        await outside.delete_pod("a")

        async def is_gone() -> bool:
            return not any(app.asks for app in (await world.scheduler.snapshot()).apps.values())

        await wait_for(is_gone)
