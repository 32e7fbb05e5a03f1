"""The reports of decisions to a real API server, with no more rights than they need."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

import attrs
import pytest
import trio
import yaml

from muster._pod_identity import PodIdentity
from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api, ApiError, Object, Resource
from muster.kubernetes._objects import POD_GROUPS, VOLCANO_POD_GROUPS, MemberCounts
from muster.kubernetes._reports import NOTE_BYTES, PODS, RATE, REST_S, Reports
from tests.kubernetes.cluster import ClusterError, ControlPlane
from tests.kubernetes.proxy import Answer, Cut, Proxy
from tests.kubernetes.roles import DEPLOY, give_roles
from tests.kubernetes.world import Outside, node_of, pod_of, wait_for, world_of as scheduler_of

KINDS: Final = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
EVENTS: Final = Resource("v1", "events")

DEFINITIONS: Final = (
    DEPLOY / "podgroups.yaml",
    Path(__file__).parent / "volcano_podgroups.yaml",
)


@final
@attrs.frozen
class World:
    """The reports, and an administrator that reads their effects."""

    reports: Reports
    api: Api
    admin: Api
    proxy: Proxy

    async def pod(self, name: str | None = None) -> PodIdentity:
        """Make a pod."""
        made = await self.admin.create(
            PODS.path(None, "default"),
            {
                "metadata": {"name": name or f"it-{uuid.uuid4().hex[:8]}"},
                "spec": {
                    "schedulerName": "muster",
                    "containers": [{"name": "main", "image": "none"}],
                },
            },
        )
        return PodIdentity("default", made["metadata"]["name"], made["metadata"]["uid"])

    async def get(self, pod: PodIdentity) -> Object:
        return await self.admin.get(PODS.path(pod.name, pod.namespace))

    async def condition(self, pod: PodIdentity, kind: str = "PodScheduled") -> dict[str, str]:
        conditions = (await self.get(pod))["status"].get("conditions") or ()
        return {name: of for one in conditions if one["type"] == kind for name, of in one.items()}

    async def message(self, pod: PodIdentity) -> str:
        return (await self.condition(pod)).get("message", "")

    async def bind(self, pod: PodIdentity) -> None:
        body = {"metadata": {"name": pod.name}, "target": {"kind": "Node", "name": "n1"}}
        await self.admin.create(PODS.path(pod.name, pod.namespace, "binding"), body)

    async def delete(self, pod: PodIdentity) -> None:
        await self.admin.delete(PODS.path(pod.name, pod.namespace), {"gracePeriodSeconds": 0})

    async def events(self, pod: PodIdentity, api: str = "events.k8s.io/v1") -> list[Object]:
        found = await self.admin.get(Resource(api, "events").path(None, pod.namespace))
        about = "involvedObject" if api == "v1" else "regarding"
        return [one for one in found["items"] if one[about]["uid"] == pod.uid]

    async def flush(self) -> None:
        """Wait until all reports so far are written, or dropped."""
        pod = await self.pod()
        self.reports.pending(pod, None, "Unschedulable", "last")
        self.reports.event(pod, "Scheduled", "last")

        async def is_reported() -> bool:
            events = await self.events(pod)
            return await self.message(pod) == "last" and len(events) == 2

        await wait_for(is_reported)

    def writes(self, part: str = "") -> list[str]:
        """Return the requests so far that write something."""
        return [one for one in self.proxy.requests if one[:3] != "GET" and part in one]


@pytest.fixture(scope="module")
def rights(plane: ControlPlane) -> None:
    """Give the user of the scheduler its rights, and the server the kinds of PodGroups."""
    give_roles(plane)
    for path in DEFINITIONS:
        with suppress(ClusterError):  # Another test has it.
            plane.post(KINDS.path(), yaml.safe_load(path.read_text()))


@asynccontextmanager
async def world_of(plane: ControlPlane, proxy: Proxy, user: str) -> AsyncGenerator[World]:
    """Make the reports of a user; the writing has not begun."""
    async with (
        Api(read_kubeconfig([plane.kubeconfig("admin")])) as admin,
        Api(read_kubeconfig([plane.kubeconfig(user, proxy.url)])) as api,
    ):
        yield World(Reports(api, "muster", instance="muster-1"), api, admin, proxy)


@pytest.fixture
async def idle(plane: ControlPlane, proxy: Proxy, rights: None) -> AsyncGenerator[World]:
    async with world_of(plane, proxy, "muster") as world:
        yield world


@pytest.fixture
async def world(idle: World, nursery: trio.Nursery) -> World:
    nursery.start_soon(idle.reports.run)
    return idle


async def test_a_pod_shows_why_it_waits(world: World) -> None:
    pod = await world.pod()
    path = PODS.path(pod.name, pod.namespace, "status")
    other = {"type": "example.com/other", "status": "True"}
    await world.admin.change(path, {"status": {"conditions": [other]}})
    world.reports.pending(pod, None, "Unschedulable", "no room for 2 gpu")
    await wait_for(lambda: world.events(pod))

    condition = await world.condition(pod)
    assert condition.pop("lastTransitionTime")
    assert condition.pop("lastProbeTime", None) is None
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room for 2 gpu",
    }
    assert (await world.condition(pod, "example.com/other"))["status"] == "True"
    (event,) = await world.events(pod)
    names = ("type", "reason", "action", "note", "reportingController", "reportingInstance")
    assert [event[name] for name in names] == [
        *("Warning", "FailedScheduling", "Scheduling"),
        *("no room for 2 gpu", "muster", "muster-1"),
    ]


async def test_what_a_pod_says_already_is_not_said_again(world: World) -> None:
    pod = await world.pod()
    seen = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    world.reports.pending(pod, seen, "Unschedulable", "no")
    world.reports.pending(pod, None, "Unschedulable", "yes")
    world.reports.pending(pod, None, "SchedulingGated", "it has gates")
    await wait_for(lambda: world.message(pod))
    world.reports.pending(pod, None, "SchedulingGated", "it has gates")
    world.reports.pending(pod, seen, "Unschedulable", "other words")
    world.reports.pending(pod, seen, "SchedulingGated", "it has gates")
    await world.flush()

    assert (await world.condition(pod))["reason"] == "SchedulingGated"
    assert len(world.writes(pod.name)) == 1
    assert not await world.events(pod), "a gate is no failure"


async def test_a_pod_gets_the_newest_message_when_it_has_rested(world: World) -> None:
    pod = await world.pod()
    world.reports.pending(pod, None, "Unschedulable", "first")
    await wait_for(lambda: world.message(pod))
    first, began = await world.condition(pod), trio.current_time()
    world.reports.pending(pod, first, "Unschedulable", "second")
    world.reports.pending(pod, first, "Unschedulable", "third")
    await world.flush()
    assert await world.message(pod) == "first"

    async def is_third() -> bool:
        return await world.message(pod) == "third"

    await wait_for(is_third)
    assert trio.current_time() - began > REST_S - 1
    assert len(world.writes(pod.name)) == 2
    third = await world.condition(pod)
    assert third["lastTransitionTime"] == first["lastTransitionTime"], "its status is the same"


async def test_many_pods_are_reported_in_turn(idle: World, nursery: trio.Nursery) -> None:
    pods = [await idle.pod() for _ in range(20)]
    for pod in pods:
        idle.reports.pending(pod, None, "Unschedulable", "no room")
    began = trio.current_time()
    nursery.start_soon(idle.reports.run)
    await idle.flush()

    names = [one.split("/")[-2] for one in idle.writes("/status")]
    assert names[:20] == [pod.name for pod in pods]
    assert trio.current_time() - began > (len(idle.writes()) - 2) / RATE


async def test_a_bound_pod_gets_no_report_that_it_waits(world: World) -> None:
    pod, forgotten = await world.pod(), await world.pod()
    pending = await world.get(pod)
    await world.bind(pod)
    world.proxy.add(f"GET {PODS.path(pod.name, 'default')}", Answer(200, pending))
    world.reports.pending(pod, None, "Unschedulable", "no room")
    world.reports.nominated(pod, "n2")
    world.reports.pending(forgotten, None, "Unschedulable", "no room")
    world.reports.forget(forgotten.uid)
    await world.flush()
    await world.flush()  # Now also what was refused, which goes to the end.

    assert len(world.writes(pod.name)) == 1, "the server has refused it"
    assert len([one for one in world.proxy.requests if pod.name in one]) == 3
    assert (await world.condition(pod))["status"] == "True"
    assert "nominatedNodeName" not in (await world.get(pod))["status"]
    assert not world.writes(forgotten.name)


async def test_another_pod_of_the_same_name_gets_no_report(world: World) -> None:
    old = await world.pod()
    seen = await world.get(old)
    await world.delete(old)
    new = await world.pod(old.name)
    world.proxy.add(f"GET {PODS.path(old.name, 'default')}", Answer(200, seen))
    world.reports.pending(old, None, "Unschedulable", "no room")
    await world.flush()
    await world.flush()

    assert len(world.writes(old.name)) == 1, "the server has refused it"
    assert not await world.condition(new)


async def test_what_the_server_could_not_take_is_reported_later(world: World) -> None:
    pod, other, gone = [await world.pod() for _ in range(3)]
    await world.delete(gone)
    busy = [Answer(429, {}, {"Retry-After": "1"}), Answer(503), Answer(500)]
    world.proxy.add(f"PATCH {PODS.path(pod.name, 'default')}", *busy)
    world.proxy.add(f"PATCH {PODS.path(other.name, 'default')}", Cut())
    world.proxy.add("POST /apis/events.k8s.io", Answer(503), Cut())
    for one in (pod, other, gone):
        world.reports.pending(one, None, "Unschedulable", "no room")

    async def are_reported() -> bool:
        return bool(await world.message(pod) and await world.message(other))

    await wait_for(are_reported)
    await wait_for(lambda: world.events(pod))
    assert len(world.writes(f"{pod.name}/status")) == 4
    assert len(world.writes(f"{other.name}/status")) == 1, "only the answer was lost"
    assert len(await world.events(pod)) == 1


async def test_who_may_not_tell_says_so_once(
    plane: ControlPlane, proxy: Proxy, caplog: pytest.LogCaptureFixture, nursery: trio.Nursery
) -> None:
    async with world_of(plane, proxy, "nobody") as world:
        pods = [await world.pod() for _ in range(3)]
        for pod in pods:
            world.reports.pending(pod, None, "Unschedulable", "no room")
        with caplog.at_level(logging.WARNING):
            async with trio.open_nursery() as telling:
                telling.start_soon(world.reports.run)

                async def is_refused() -> bool:
                    return len(proxy.requests) == 3

                await wait_for(is_refused)
                await trio.testing.wait_all_tasks_blocked()
                telling.cancel_scope.cancel()

    (warning,) = [one.getMessage() for one in caplog.records]
    assert 'User "nobody" cannot get resource "pods"' in warning


async def test_the_node_where_room_is_made(idle: World, nursery: trio.Nursery) -> None:
    pod, other = await idle.pod(), await idle.pod()
    idle.reports.pending(pod, None, "Unschedulable", "room is made")
    idle.reports.nominated(pod, "n1")
    idle.reports.nominated(other, "n1")
    idle.reports.nominated(other, None)
    nursery.start_soon(idle.reports.run)
    await idle.flush()

    assert (await idle.get(pod))["status"]["nominatedNodeName"] == "n1"
    assert await idle.message(pod) == "room is made"
    assert len(idle.writes(f"{pod.name}/status")) == 1
    assert not idle.writes(f"{other.name}/status")
    again = Reports(idle.api, "muster")
    again.nominated(pod, None)
    nursery.start_soon(again.run)

    async def is_none() -> bool:
        return "nominatedNodeName" not in (await idle.get(pod))["status"]

    await wait_for(is_none)


async def test_events_of_one_kind_are_counted(world: World) -> None:
    pod = await world.pod()
    world.reports.event(pod, "Preempted", "for default/other")
    world.reports.event(pod, "Scheduled", "on n1")
    await world.flush()
    for _ in range(2):
        world.reports.event(pod, "Preempted", "for default/other")
    world.reports.event(pod, "Preempted", "for default/third")
    await world.flush()

    events = await world.events(pod)
    found = {one["note"]: one for one in events}
    assert len(events) == len(found) == 3
    reported = {note: (one["type"], one["reason"], one["action"]) for note, one in found.items()}
    assert reported == {
        "for default/other": ("Normal", "Preempted", "Preempting"),
        "for default/third": ("Normal", "Preempted", "Preempting"),
        "on n1": ("Normal", "Scheduled", "Binding"),
    }
    assert found["for default/other"]["series"]["count"] == 3
    assert found["on n1"].get("series") is None

    name = found["on n1"]["metadata"]["name"]
    await world.admin.delete(EVENTS.path(name, "default"))  # As the server does after an hour.
    world.reports.event(pod, "Scheduled", "on n1")
    await world.flush()
    (again,) = [one for one in await world.events(pod) if one["note"] == "on n1"]
    assert again["series"]["count"] == 2


async def test_an_event_is_no_longer_than_the_server_takes(world: World) -> None:
    pod = await world.pod("x" * 240)
    world.reports.event(pod, "Scheduled", "é" * NOTE_BYTES)
    await world.flush()

    (event,) = await world.events(pod)
    assert len(event["note"].encode()) in {NOTE_BYTES, NOTE_BYTES - 1}
    assert event["note"].endswith("é…")


async def test_a_server_without_the_new_events(world: World) -> None:
    world.proxy.add("GET /version", Answer(200, {"major": "1", "minor": "18+"}))
    pod = await world.pod()
    world.reports.event(pod, "Scheduled", "on n1")
    await wait_for(lambda: world.events(pod, "v1"))
    world.reports.event(pod, "Scheduled", "on n1")

    async def is_counted() -> bool:
        return [one["count"] for one in await world.events(pod, "v1")] == [2]

    await wait_for(is_counted)
    (event,) = await world.events(pod, "v1")
    assert (event["type"], event["message"], event["source"]) == (
        *("Normal", "on n1"),
        {"component": "muster"},
    )
    assert event["lastTimestamp"] >= event["firstTimestamp"]


async def test_a_pod_shows_that_it_is_evicted_where_the_server_knows_the_condition(
    world: World,
) -> None:
    pod = await world.pod()
    world.reports.pending(pod, None, "Unschedulable", "no room")
    await wait_for(lambda: world.message(pod))
    await world.reports.disrupted(pod, "for default/other")
    assert not await world.condition(pod, "DisruptionTarget"), "of 1.20"

    knowing = Reports(world.api, "muster")
    world.proxy.add("GET /version", Cut(), Answer(200, {"major": "1", "minor": "26"}))
    await knowing.disrupted(pod, "for default/other")
    assert not await world.condition(pod, "DisruptionTarget"), "nobody knows"
    await knowing.disrupted(attrs.evolve(pod, uid="another"), "for default/other")
    assert not await world.condition(pod, "DisruptionTarget"), "another pod"
    await knowing.disrupted(pod, "for default/other")

    condition = await world.condition(pod, "DisruptionTarget")
    names = ("status", "reason", "message")
    assert [condition[name] for name in names] == [
        *("True", "PreemptionByScheduler", "for default/other")
    ]
    assert await world.message(pod) == "no room"


async def group_of(world: World, kind: Resource, min_member: int = 2) -> Object:
    body = {
        "apiVersion": kind.group,
        "kind": "PodGroup",
        "metadata": {"name": f"it-{uuid.uuid4().hex[:8]}", "namespace": "default"},
        "spec": {"minMember": min_member},
    }
    made: list[Object] = []

    async def is_made() -> bool:
        # The server serves a kind a moment after its definition.
        with suppress(ApiError):
            made.append(await world.admin.create(kind.path(None, "default"), body))
        return bool(made)

    await wait_for(is_made)
    return made[0]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (
            POD_GROUPS,
            {"phase": "Scheduling", "scheduled": 2, "running": 1, "succeeded": 0, "failed": 1},
        ),
        (VOLCANO_POD_GROUPS, {"phase": "Running", "running": 1, "failed": 1}),
    ],
)
async def test_a_group_shows_its_state(
    world: World, kind: Resource, status: dict[str, Any]
) -> None:
    group = await group_of(world, kind, 3 if kind == POD_GROUPS else 2)
    path = kind.path(group["metadata"]["name"], "default")
    counts = MemberCounts(scheduled=2, running=1, failed=1)
    world.reports.group(kind, group, counts)

    async def is_reported() -> bool:
        return bool((await world.admin.get(path)).get("status"))

    await wait_for(is_reported)
    found = await world.admin.get(path)
    expected = {name: of for name, of in status.items() if of}
    assert {name: of for name, of in found["status"].items() if of} == expected
    writes = len(world.writes("podgroups"))
    Reports(world.api, "muster").group(kind, found, counts)
    world.reports.group(kind, group, counts)
    await world.flush()
    assert len(world.writes("podgroups")) == writes


async def test_a_field_that_a_kind_lacks_is_not_written_again_and_again(world: World) -> None:
    path = KINDS.path(f"podgroups.{POD_GROUPS.group.split('/')[0]}")
    definition = dict(await world.admin.get(path))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    scheduled = schema["properties"]["status"]["properties"].pop("scheduled")
    await world.admin.replace(path, definition)
    first = await group_of(world, POD_GROUPS)
    place = POD_GROUPS.path(first["metadata"]["name"], "default")

    async def is_cut() -> bool:
        body = {"status": {"scheduled": 1, "phase": "Pending"}}
        return "scheduled" not in (await world.admin.change(f"{place}/status", body))["status"]

    await wait_for(is_cut)
    world.reports.group(POD_GROUPS, first, MemberCounts(scheduled=1))
    await world.flush()
    second = dict(await group_of(world, POD_GROUPS)) | {"status": {"phase": "Unknown"}}
    world.reports.group(POD_GROUPS, second, MemberCounts(scheduled=1))
    await world.flush()
    schema["properties"]["status"]["properties"]["scheduled"] = scheduled
    definition["metadata"] = (await world.admin.get(path))["metadata"]
    await world.admin.replace(path, definition)

    assert (await world.admin.get(place))["status"]["phase"] == "Unknown"
    assert not [one for one in world.proxy.requests if second["metadata"]["name"] in one]


async def test_a_group_that_has_ended_stays_so_without_its_pods(world: World) -> None:
    group = await group_of(world, POD_GROUPS)
    ended = {**group, "status": {"phase": "Finished", "succeeded": 2}}
    world.reports.group(POD_GROUPS, ended, MemberCounts())
    await world.flush()

    assert not world.writes("podgroups")


@pytest.mark.parametrize(
    ("counts", "phase", "volcano"),
    [
        (MemberCounts(), "Pending", "Inqueue"),
        (MemberCounts(scheduled=1), "Unknown", "Inqueue"),
        (MemberCounts(scheduled=1, running=1), "Unknown", "Unknown"),
        (MemberCounts(scheduled=2), "Scheduling", "Running"),
        (MemberCounts(scheduled=2, running=1), "Scheduling", "Running"),
        (MemberCounts(scheduled=2, running=2), "Running", "Running"),
        (MemberCounts(scheduled=2, running=2, failed=1), "Running", "Running"),
        (MemberCounts(scheduled=1, running=1, succeeded=1), "Running", "Running"),
        (MemberCounts(scheduled=1, running=1, failed=1), "Failed", "Unknown"),
        (MemberCounts(scheduled=1, succeeded=2), "Finished", "Running"),
        (MemberCounts(succeeded=2), "Finished", "Completed"),
        (MemberCounts(failed=2), "Failed", "Inqueue"),
    ],
)
def test_the_phases_of_a_group_of_two(counts: MemberCounts, phase: str, volcano: str) -> None:
    assert counts.status(POD_GROUPS, 2)["phase"] == phase
    assert counts.status(VOLCANO_POD_GROUPS, 2)["phase"] == volcano


def test_a_group_that_names_no_size_needs_one_pod() -> None:
    assert MemberCounts().status(POD_GROUPS, 0)["phase"] == "Pending"
    assert MemberCounts(succeeded=1).status(POD_GROUPS, 0)["phase"] == "Finished"


async def test_a_group_shows_the_progress_of_a_live_scheduler(
    plane: ControlPlane, rights: None
) -> None:
    outside = Outside(plane)
    await outside.clear()
    await outside.add_node(node_of("n1", cpu="2"))
    marks = {"pod-group.scheduling.sigs.k8s.io": "live"}
    path = POD_GROUPS.path("live", "default")
    group = {"apiVersion": POD_GROUPS.group, "kind": "PodGroup", "spec": {"minMember": 2}}
    body = {**group, "metadata": {"name": "live", "namespace": "default"}}
    await outside.ask("POST", POD_GROUPS.path(None, "default"), body)
    await outside.add_pod(pod_of("first", labels=marks))

    async def wait_for_status(**wanted: object) -> None:
        async def is_as_wanted() -> bool:
            found = await outside.ask("GET", path)
            status: dict[str, Any] = found.get("status") or {}
            return {name: of for name, of in status.items() if of} == wanted

        await wait_for(is_as_wanted)

    async with scheduler_of(plane) as world:
        await world.wait_for_reason("first", "gang")
        await outside.add_pod(pod_of("second", labels=marks))
        await world.wait_for_places(first="n1", second="n1")
        await wait_for_status(phase="Scheduling", scheduled=2)
        await outside.set_phase("first", "Running")
        await outside.set_phase("second", "Running")
        await wait_for_status(phase="Running", scheduled=2, running=2)
        await outside.set_phase("first", "Succeeded")
        await outside.set_phase("second", "Succeeded")
        await wait_for_status(phase="Finished", succeeded=2)
    await outside.ask("DELETE", path)
    await outside.clear()
