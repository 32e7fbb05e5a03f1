"""Races: changes of the cluster while the scheduler decides, and objects that only its store has."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import yaml

import muster
from muster._runtime.requests import Examined
from muster.kubernetes import BindOptions, Cluster, connect
from muster.kubernetes._api import Resource
from muster.kubernetes._objects import POD_GROUPS, VOLCANO_POD_GROUPS
from muster.kubernetes._reflector import Reflector
from tests.kubernetes.cluster import PATIENCE_S, ClusterError, ControlPlane
from tests.kubernetes.proxy import Answer, Proxy
from tests.kubernetes.roles import DEPLOY
from tests.kubernetes.world import (
    QUEUES,
    Object,
    Outside,
    World,
    node_of,
    pod_of,
    wait_for,
    world_of,
)

GANG = "gang.scheduling.koordinator.sh"
PODS = "/api/v1/namespaces/default/pods"
THREE = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    properties: {preemption.delay: 0s}
    queues:
    - {name: low}
    - {name: mid, properties: {queue.priority: "10"}, resources: {guaranteed: {vcore: 1}}}
    - {name: top, properties: {queue.priority: "20"}, resources: {guaranteed: {vcore: 1}}}
"""


async def change_pod(outside: Outside, name: str, fields: Object) -> None:
    assert await outside.ask("PATCH", f"{PODS}/{name}", fields, "merge-patch+json") is not None


async def asks_of(world: World) -> dict[str, list[str]]:
    """Return the names of the asks of each application."""
    apps = (await world.scheduler.snapshot()).apps
    return {name: [ask.name for ask in app.asks] for name, app in apps.items() if app.asks}


async def uids_of(world: World) -> set[str]:
    """Return the uids of the pods that have asks."""
    apps = (await world.scheduler.snapshot()).apps.values()
    return {one.work.env["POD_UID"] for app in apps for one in app.asks if one.work}


# -- what a pod says changes ----------------------------------------------------------------------


async def test_a_pending_pod_that_asks_for_something_else_has_another_ask(
    outside: Outside, plane: ControlPlane
) -> None:
    await outside.add_node(
        {**node_of("n1"), "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}
    )
    await outside.add_pod(pod_of("a", labels={"applicationId": "one"}))
    async with world_of(plane) as world:
        await world.wait_for_reason("a", "NodesTainted")
        assert await asks_of(world) == {"one": ["a"]}
        toleration = {"key": "x", "operator": "Exists"}
        await change_pod(outside, "a", {"metadata": {"labels": {"applicationId": "two"}}})

        async def is_of_two() -> bool:
            return await asks_of(world) == {"two": ["a"]}

        await wait_for(is_of_two)
        await change_pod(outside, "a", {"spec": {"tolerations": [toleration]}})
        await world.wait_for_places(a="n1")


async def test_a_bound_pod_keeps_the_ask_that_it_had(outside: Outside, plane: ControlPlane) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", labels={"applicationId": "one"}))
    async with world_of(plane) as world:
        await world.wait_for_places(a="n1")
        await change_pod(outside, "a", {"metadata": {"labels": {"applicationId": "two"}}})
        await outside.set_phase("a", "Running")
        await outside.delete_pod("a", grace_s=0)
        await world.wait_for_bound()
        await outside.add_pod(pod_of("a", labels={"applicationId": "one"}))
        await world.wait_for_bound(a="n1")


async def test_a_pod_that_has_left_its_gang_is_not_counted_there(
    outside: Outside, plane: ControlPlane
) -> None:
    first, second = ({f"{GANG}/name": name, f"{GANG}/min-available": "2"} for name in "gh")
    await outside.add_pod(pod_of("a", annotations=first))
    async with world_of(plane) as world:
        await change_pod(outside, "a", {"metadata": {"annotations": second}})
        cache = world.cluster._cache  # pyright: ignore[reportPrivateUsage]

        async def has_moved() -> bool:
            return "default/h" in cache.by_gang

        await wait_for(has_moved)
        await outside.delete_pod("a", grace_s=0)

        async def is_empty() -> bool:
            return not (cache.pods or cache.by_gang or cache.by_name or cache.holders)

        await wait_for(is_empty, "nothing is kept of a pod that is gone")


# -- names ----------------------------------------------------------------------------------------


async def test_pods_of_two_namespaces_can_not_have_one_ask(
    outside: Outside, plane: ControlPlane
) -> None:
    label = {"applicationId": "spark"}
    await outside.add_node(node_of("n1"))
    await outside.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    await outside.add_pod(pod_of("a", labels=label))
    async with world_of(plane) as world:
        await world.wait_for_places(a="n1")
        pod = pod_of("a", labels=label)
        body = {**pod, "metadata": {**pod["metadata"], "namespace": "other"}}
        path = "/api/v1/namespaces/other/pods"
        made = await outside.ask("POST", path, body)
        try:

            async def says() -> bool:
                reasons = world.cluster.reasons_of("other", "a")
                return reasons == [("NotQueued", "the ask spark/a is that of the pod default/a")]

            await wait_for(says)
            await outside.delete_pod("a", grace_s=0)

            async def is_other() -> bool:
                return await uids_of(world) == {made["metadata"]["uid"]}

            await wait_for(is_other)
            await world.wait_for_places(a="n1")
        finally:
            await outside.ask("DELETE", f"{path}/a", {"gracePeriodSeconds": 0})


async def test_a_pod_of_the_same_name_that_came_during_a_restart(
    outside: Outside, plane: ControlPlane, tmp_path: Path
) -> None:
    await outside.add_node(node_of("n1"))
    first = await outside.add_pod(pod_of("a"))
    async with world_of(plane, store=tmp_path / "state") as world:
        await world.wait_for_places(a="n1")
        assert await uids_of(world) == {first}
    await outside.delete_pod("a", grace_s=0)
    second = await outside.add_pod(pod_of("a"))
    async with world_of(plane, store=tmp_path / "state") as world:

        async def is_second() -> bool:
            return await uids_of(world) == {second}

        await wait_for(is_second)
        await world.wait_for_places(a="n1")


# -- room -----------------------------------------------------------------------------------------


async def test_a_binding_whose_room_was_taken_after_an_answer_was_lost_is_given_up(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    proxy.add("/a/binding", *[Answer(503)] * 1_000)
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url, options=BindOptions(timeout_s=1.0)) as world:
        decisions = world.scheduler.decisions(kinds=["released"])
        await world.wait_for_bound(a="n1")
        await outside.add_pod(pod_of("other", scheduler="other"))
        await outside.bind("other", "n1")
        with trio.fail_after(PATIENCE_S):
            announced = await anext(aiter(decisions))
        assert announced.decision.reason == "bind_failed"
        await world.wait_for_reason("a", "NoNodeFits")


async def test_a_bound_pod_that_was_refused_is_let_in_when_its_queue_has_room(
    outside: Outside, plane: ControlPlane
) -> None:
    small = QUEUES.replace("{name: default}", "{name: default, resources: {max: {vcore: 1}}}")
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", cpu="3"))
    await outside.bind("a", "n1")
    async with world_of(plane, queues=small) as world:
        assert await world.bound() == {}
        node = (await world.scheduler.snapshot()).nodes["n1"]
        assert node.reserved["vcore"] == 3_000
        await world.scheduler.configure(QUEUES)
        await outside.set_phase("a", "Running")
        await world.wait_for_bound(a="n1")
        assert not (await world.scheduler.snapshot()).nodes["n1"].reserved


async def test_absurd_requests_of_others_end_nothing(outside: Outside, plane: ControlPlane) -> None:
    await outside.add_node(node_of("n1"))
    has = {"device/x": "1", "cpu": "4", "memory": "8Gi", "pods": "10"}
    await outside.add_node(
        {**node_of("n2"), "status": {**node_of("n2")["status"], "allocatable": has}}
    )
    huge = {"resources": {"requests": {"memory": "9E"}}}
    for name in ("x", "y"):
        pod = pod_of(name, scheduler="other", container=huge, nodeName="n1")
        await outside.add_pod(pod)
    await outside.add_pod(pod_of("a", nodeSelector={"kubernetes.io/hostname": "n2"}))
    async with world_of(plane) as world:
        await world.wait_for_places(x="n1", y="n1", a="n2")


async def test_a_static_pod_is_no_victim_and_has_no_ask(
    outside: Outside, plane: ControlPlane
) -> None:
    await outside.add_node(node_of("n1", cpu="2"))
    mark = {"kubernetes.io/config.mirror": "x"}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "1", "controller": True}
    await outside.add_pod(pod_of("static", annotations=mark, owner=owner, nodeName="n1"))
    await outside.add_pod(pod_of("made", nodeName="n1"))
    async with world_of(plane) as world:
        await world.wait_for_bound(made="n1")
        assert (await world.scheduler.snapshot()).nodes["n1"].reserved["vcore"] == 1_000


# -- gangs ----------------------------------------------------------------------------------------


async def test_a_gang_of_which_a_part_is_bound_goes_on_without_a_store(
    outside: Outside, plane: ControlPlane
) -> None:
    marks = {f"{GANG}/name": "g", f"{GANG}/min-available": "3"}
    await outside.add_node(node_of("n1"))
    for name in ("a", "b", "c"):
        await outside.add_pod(pod_of(name, annotations=marks))
    for name in ("a", "b"):
        await outside.bind(name, "n1")
    async with world_of(plane) as world:
        await world.wait_for_places(a="n1", b="n1", c="n1")


# -- what ends an ask beside the cluster ----------------------------------------------------------


async def test_an_ask_that_somebody_ends_takes_its_pod_along(
    outside: Outside, plane: ControlPlane
) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane) as world:
        await world.wait_for_places(a="n1")
        await world.scheduler.app("default.a").remove()

        async def is_ending() -> bool:
            return "deletionTimestamp" in (await outside.pods())["a"]["metadata"]

        await wait_for(is_ending)
        assert await world.bound() == {}


async def test_an_ask_that_is_bound_ends_after_its_run_limit(
    outside: Outside, plane: ControlPlane
) -> None:
    limited = QUEUES.replace("{name: default}", "{name: default, properties: {run.limit: 1s}}")
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, queues=limited) as world:
        await world.wait_for_places(a="n1")

        async def is_ending() -> bool:
            return "deletionTimestamp" in (await outside.pods())["a"]["metadata"]

        await wait_for(is_ending)


@pytest.mark.parametrize("is_bound", [False, True])
async def test_a_deleted_pod_that_a_finalizer_keeps(
    outside: Outside, plane: ControlPlane, is_bound: bool
) -> None:
    """One that has no node is withdrawn at once; one that has ended gives its room back."""
    await outside.add_node(node_of("n1", cpu="1"))
    pod = pod_of("a", nodeSelector={} if is_bound else {"no": "such"})
    kept = {"finalizers": ["muster.test/kept"]}
    await outside.add_pod({**pod, "metadata": {**pod["metadata"], **kept}})
    try:
        async with world_of(plane) as world:
            if is_bound:
                await world.wait_for_places(a="n1")
            await outside.delete_pod("a", grace_s=0)
            if is_bound:
                await world.wait_for_bound(a="n1")
                await outside.set_phase("a", "Failed")
            await outside.add_pod(pod_of("b"))
            await world.wait_for_bound(b="n1")
            assert (await asks_of(world)) == {"default.b": ["b"]}
    finally:
        await change_pod(outside, "a", {"metadata": {"finalizers": None}})


# -- evictions ------------------------------------------------------------------------------------


async def test_an_eviction_that_meets_a_conflict_is_asked_for_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    proxy.add("DELETE /api/v1/namespaces/default/pods/a", Answer(409), Answer(404))
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url) as world:
        await world.wait_for_places(a="n1")
        await world.scheduler.app("default.a").remove()

        async def is_ending() -> bool:
            return "deletionTimestamp" in (await outside.pods())["a"]["metadata"]

        await wait_for(is_ending)


async def test_a_pod_that_is_preempted_while_it_waits_for_room_is_an_ask_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    for name, value in (("low", 1), ("mid", 100), ("top", 1_000)):
        made = {
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
        }
        await outside.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low", priorityClassName="low", labels={"queue": "root.low"}))
    async with world_of(plane, url=proxy.url, queues=THREE) as world:
        await world.wait_for_places(low="n1")
        await outside.add_pod(pod_of("mid", priorityClassName="mid", labels={"queue": "root.mid"}))
        await world.wait_for_bound(mid="n1")
        # The queue of the second one has no share of its own any more.
        await world.scheduler.configure(THREE.replace("vcore: 1}}}", "vcore: 0}}}", 1))
        await outside.add_pod(pod_of("top", priorityClassName="top", labels={"queue": "root.top"}))
        await world.wait_for_bound(top="n1")

        async def is_nominated() -> bool:
            pods = await outside.pods()
            places = [pods[name]["status"].get("nominatedNodeName") for name in ("mid", "top")]
            return places == [None, "n1"]

        await wait_for(is_nominated, "the one is nominated, and the other one no more")
        assert "deletionTimestamp" not in (await outside.pods())["mid"]["metadata"]
        await outside.delete_pod("low", grace_s=0)
        await world.wait_for_places(top="n1")
        await outside.delete_pod("top", grace_s=0)
        await world.wait_for_places(mid="n1")


# -- PodGroups ------------------------------------------------------------------------------------


async def add_group(outside: Outside, least: int) -> None:
    body = {
        "apiVersion": POD_GROUPS.group,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": least},
    }
    assert await outside.ask("POST", POD_GROUPS.path(None, "default"), body)


async def test_a_pod_group_that_comes_late_goes_and_is_made_again(
    outside: Outside, plane: ControlPlane
) -> None:
    await add_kind(outside, plane, POD_GROUPS)
    path = POD_GROUPS.path("g", "default")
    await outside.ask("DELETE", path)
    marks = {"pod-group.scheduling.sigs.k8s.io": "g"}
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", labels=marks))
    try:
        async with world_of(plane) as world:
            await world.wait_for_reason("a", "gang")
            await add_group(outside, 3)
            await world.wait_for_reason("a", "3")
            await outside.ask("DELETE", path)
            await world.wait_for_reason("a", "not defined")
            await add_group(outside, 2)
            await outside.add_pod(pod_of("b", labels=marks))
            await world.wait_for_places(a="n1", b="n1")
            await outside.ask("DELETE", path)
            await outside.delete_pod("a", grace_s=0)
            await world.wait_for_bound(b="n1")
            await add_group(outside, 1)
            await outside.add_pod(pod_of("c", labels=marks))
            await world.wait_for_places(b="n1", c="n1")
    finally:
        await outside.ask("DELETE", path)


KINDS = {
    POD_GROUPS: yaml.safe_load((DEPLOY / "podgroups.yaml").read_text()),
    VOLCANO_POD_GROUPS: yaml.safe_load(
        (Path(__file__).parent / "volcano_podgroups.yaml").read_text()
    ),
}


async def add_kind(outside: Outside, plane: ControlPlane, kind: Resource) -> None:
    """Define a kind of PodGroups in the API server."""
    with suppress(ClusterError):  # Another test has it.
        plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", KINDS[kind])

    async def is_known() -> object:
        return await outside.ask("GET", kind.path())

    await wait_for(is_known)


# POD-26
async def test_pod_groups_that_go_and_pods_that_come_during_a_restart(
    outside: Outside, plane: ControlPlane, tmp_path: Path
) -> None:
    """The state after it is the one that a scheduler has that was there, or that is new."""
    await add_kind(outside, plane, POD_GROUPS)
    path, marks = POD_GROUPS.path("g", "default"), {"pod-group.scheduling.sigs.k8s.io": "g"}
    own = {f"{GANG}/name": "own", f"{GANG}/min-available": "3"}
    state = partial(world_of, plane, store=tmp_path / "state")
    await outside.ask("DELETE", path)
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", labels=marks))
    for name in ("x", "y"):
        await outside.add_pod(pod_of(name, annotations=own))
    await add_group(outside, 2)
    async with state() as world:
        await world.wait_for_reason("a", "has 1 member, and needs 2")
        await world.wait_for_reason("x", "has 2 members, and needs 3")
    await outside.ask("DELETE", path)
    await outside.add_pod(pod_of("b", labels=marks))
    await outside.delete_pod("y", grace_s=0)
    async with state() as world:
        await world.wait_for_reason("b", "not defined")
        await world.wait_for_reason("x", "has 1 member, and needs 3")
        assert await outside.places() == {}
        for name in ("y", "z"):
            await outside.add_pod(pod_of(name, annotations=own))
        await world.wait_for_places(x="n1", y="n1", z="n1")


# POD-26
async def test_a_priority_class_that_goes_during_a_restart(
    outside: Outside, plane: ControlPlane, tmp_path: Path
) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name in ("goes", "stays"):
        await outside.ask("POST", path, {"metadata": {"name": name}, "value": 7})

    async def classes(world: World) -> list[str]:
        found: list[Examined] = []
        await world.scheduler.examine(found.append)
        return [one.name for one in found[0].machine.registry.classes.facts()]

    async with world_of(plane, store=tmp_path / "state") as world:
        assert sorted(await classes(world)) == ["goes", "stays"]
    await outside.ask("DELETE", f"{path}/goes")
    async with world_of(plane, store=tmp_path / "state") as world:
        assert await classes(world) == ["stays"]


async def test_a_pod_of_volcano_waits_for_the_queue_of_its_pod_group(
    outside: Outside, plane: ControlPlane
) -> None:
    """So it is in the same queue as if its group had been there before."""
    await add_kind(outside, plane, VOLCANO_POD_GROUPS)
    queues = QUEUES.replace("{name: default}", "{name: default}, {name: vol}")
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a", annotations={"scheduling.k8s.io/group-name": "v"}))
    group = {
        "apiVersion": VOLCANO_POD_GROUPS.group,
        "kind": "PodGroup",
        "metadata": {"name": "v", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "vol"},
    }
    try:
        async with world_of(plane, queues=queues) as world:
            await world.wait_for_reason("a", "the PodGroup default/v is not there yet")
            assert await outside.ask("POST", VOLCANO_POD_GROUPS.path(None, "default"), group)
            await world.wait_for_places(a="n1")
            apps = (await world.scheduler.snapshot()).apps
            assert {app.queue for app in apps.values()} == {"root.vol"}
    finally:
        await outside.ask("DELETE", VOLCANO_POD_GROUPS.path("v", "default"))


# -- the start ------------------------------------------------------------------------------------


async def test_what_was_created_first_is_let_in_first(
    outside: Outside, plane: ControlPlane
) -> None:
    for name in ("c", "b", "a"):
        await outside.add_pod(pod_of(name))
    pods = await outside.pods()
    ranks = sorted((one["metadata"]["creationTimestamp"], name) for name, one in pods.items())
    await outside.add_node(node_of("n1", cpu="1"))
    async with world_of(plane) as world:
        for _, name in ranks:
            await world.wait_for_bound(**{name: "n1"})
            await outside.delete_pod(name, grace_s=0)


async def test_a_pod_whose_node_comes_later_is_let_in_with_it(
    outside: Outside, plane: ControlPlane
) -> None:
    await outside.add_pod(pod_of("a", nodeName="n1"))
    async with world_of(plane) as world:
        assert await world.bound() == {}
        await outside.add_node(node_of("n1"))
        await world.wait_for_bound(a="n1")


async def test_a_pod_that_moved_during_a_restart_is_bound_where_it_is(
    outside: Outside, plane: ControlPlane, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.add("/binding", *[Answer(503)] * 1_000)
    for name in ("n1", "n2"):
        await outside.add_node(node_of(name))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url, store=tmp_path / "state") as world:

        async def is_decided() -> bool:
            return bool(await world.bound())

        await wait_for(is_decided)
        other = "n2" if (await world.bound())["a"] == "n1" else "n1"
    await outside.bind("a", other)
    async with world_of(plane, store=tmp_path / "state") as world:
        await world.wait_for_bound(a=other)
        assert await outside.places() == {"a": other}


async def test_what_is_gone_when_the_program_starts_again_is_gone(
    outside: Outside, plane: ControlPlane, tmp_path: Path
) -> None:
    """A node, a pod that waits, and one that ran there."""
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, store=tmp_path / "state") as world:
        await world.wait_for_places(a="n1")
        await outside.add_pod(pod_of("b"))
        await world.wait_for_reason("b", "NoNodeFits")
    await outside.remove_node("n1")
    for name in ("a", "b"):
        await outside.delete_pod(name, grace_s=0)
    await outside.add_node(node_of("n2"))
    await outside.add_pod(pod_of("c"))
    async with world_of(plane, store=tmp_path / "state") as world:
        await world.wait_for_bound(c="n2")
        assert await asks_of(world) == {"default.c": ["c"]}
        assert set((await world.scheduler.snapshot()).nodes) == {"n2"}


async def test_the_config_map_at_a_start_with_a_store(
    outside: Outside, plane: ControlPlane, tmp_path: Path
) -> None:
    """It may come later; one that is bad or gone leaves the configuration that is in force."""
    path = "/api/v1/namespaces/muster/configmaps"
    await outside.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "muster"}})
    await outside.ask("DELETE", f"{path}/queues")
    begin = partial(world_of, plane, store=tmp_path / "state", config_map="muster/queues")

    async def write(text: str) -> None:
        body = {"metadata": {"name": "queues"}, "data": {"queues.yaml": text}}
        if await outside.ask("PUT", f"{path}/queues", body) is None:
            assert await outside.ask("POST", path, body) is not None

    async def has(world: World, *names: str) -> None:
        async def are() -> bool:
            queues = (await world.scheduler.snapshot()).queues
            return {f"root.{name}" for name in names} == set(queues) - {"root"}

        await wait_for(are, f"the queues are {names}")

    async with begin() as world:
        await has(world, "default")
        await outside.add_pod(pod_of("a", labels={"queue": "root.one"}))
        await world.wait_for_reason("a", "NotQueued")
        await write(QUEUES.replace("default}", "one}"))
        await has(world, "one")

        async def is_in() -> bool:
            return await asks_of(world) == {"default.a": ["a"]}

        await wait_for(is_in)
    await write(QUEUES.replace("default}", "one}, {name: two}"))
    async with begin() as world:
        await has(world, "one", "two")
        await write("partitions: 7")
        await outside.ask("DELETE", f"{path}/queues")
        await write(QUEUES.replace("default}", "one}, {name: three}"))
        await has(world, "one", "three")
    await outside.ask("DELETE", f"{path}/queues")


async def test_who_follows_with_a_scheduler_that_is_closed_hears_it(
    outside: Outside, plane: ControlPlane
) -> None:
    await outside.add_node(node_of("n1"))
    kubeconfig = await trio.to_thread.run_sync(plane.kubeconfig, "admin", None)
    errors: list[Exception] = []

    async def follow(cluster: Cluster, scheduler: muster.Scheduler) -> None:
        try:
            await cluster.follow(scheduler)
        except muster.ClosedSchedulerError as error:
            errors.append(error)

    async with connect(kubeconfig) as cluster, trio.open_nursery() as nursery:
        async with muster.open_scheduler(QUEUES, binder=cluster.binder) as scheduler:
            nursery.start_soon(follow, cluster, scheduler)
            await cluster.wait_until_ready()
        await outside.add_pod(pod_of("a"))
    assert errors


async def test_a_server_that_lacks_a_kind_is_not_silent_for_ever(
    plane: ControlPlane, proxy: Proxy
) -> None:
    from muster.kubernetes._access import read_kubeconfig  # noqa: PLC0415
    from muster.kubernetes._api import Api  # noqa: PLC0415

    absent = Resource("absent.test/v1", "things")

    async def ignore(_: object) -> None:
        await trio.lowlevel.checkpoint()

    kubeconfig = await trio.to_thread.run_sync(plane.kubeconfig, "admin", proxy.url)
    async with Api(read_kubeconfig([kubeconfig])) as api, trio.open_nursery() as nursery:
        reflector = Reflector(api, absent, ignore, optional=True)
        proxy.cut_all(for_ever=True)
        nursery.start_soon(reflector.run)

        async def is_silent() -> bool:
            await trio.lowlevel.checkpoint()
            return reflector.silent_since is not None

        async def is_heard() -> bool:
            return not await is_silent()

        await wait_for(is_silent)
        proxy.cut_all(for_ever=False)
        await wait_for(is_heard)
        nursery.cancel_scope.cancel()
