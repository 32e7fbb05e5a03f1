"""Bindings and evictions, also of objects that go away meanwhile, against the real API server."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from muster.kubernetes import BindOptions
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.proxy import Answer, Cut, Proxy
from tests.kubernetes.world import Object, Outside, World, node_of, pod_of, wait_for, world_of

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BINDING = "/binding"
PREEMPTION = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    properties: {preemption.delay: 0s}
    queues:
    - {name: default}
    - {name: high, properties: {queue.priority: "10"}, resources: {guaranteed: {vcore: 4}}}
"""


async def preemptor(outside: Outside) -> Object:
    """Return a pod that others have to make room for."""
    made = {"metadata": {"name": "top"}, "value": 100, "preemptionPolicy": "PreemptLowerPriority"}
    await outside.ask("POST", CLASSES, made)
    return pod_of("top", priorityClassName="top", labels={"queue": "root.high"})


def bindings_sent(proxy: Proxy, name: str) -> int:
    """Return how often the binding of a pod was sent."""
    return sum(f"/{name}/binding" in one for one in proxy.requests)


# -- bindings -------------------------------------------------------------------------------------


# POD-21
async def test_an_answer_that_is_lost_is_found_out(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    """The server has carried it out: the watch says it, or the next POST by its 409."""
    proxy.add(BINDING, Cut())
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url) as world:
        await world.wait_for_places(a="n1")
        await world.wait_for_bound(a="n1")
        await outside.set_phase("a", "Succeeded")
        await world.wait_for_bound()


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_refusal_is_tried_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy, status: int
) -> None:
    proxy.add(BINDING, *[Answer(status)] * 3)
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url) as world:
        await world.wait_for_places(a="n1")
        assert bindings_sent(proxy, "a") == 4


async def test_a_binding_that_fails_for_long_is_given_up(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    proxy.add(BINDING, *[Answer(403, {"message": "forbidden"})] * 1_000)
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url, options=BindOptions(timeout_s=0.5)) as world:
        decisions = world.scheduler.decisions(kinds=["released"])
        with trio.fail_after(PATIENCE_S):
            announced = await anext(aiter(decisions))
        assert announced.decision.reason == "bind_failed"
        assert not await outside.places()


async def test_a_pod_that_another_scheduler_binds_first_is_where_that_says(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    for name in ("n1", "n2"):
        await outside.add_node(node_of(name))
    await outside.add_pod(pod_of("a"))
    proxy.add(BINDING, *[Answer(503)] * 3)
    async with world_of(plane, url=proxy.url) as world:

        async def is_decided() -> bool:
            return "a" in await world.bound()

        await wait_for(is_decided)
        decided = (await world.bound())["a"]
        other = "n2" if decided == "n1" else "n1"
        await outside.bind("a", other)
        await world.wait_for_bound(a=other)
        assert await outside.places() == {"a": other}


async def test_a_gang_is_bound_as_a_whole_and_a_member_that_fails_alone_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    gang = "gang.scheduling.koordinator.sh"
    marks = {f"{gang}/name": "g", f"{gang}/min-available": "3"}
    proxy.add("/b/binding", *[Answer(403)] * 4)
    await outside.add_node(node_of("n1"))
    for name in ("a", "b", "c"):
        await outside.add_pod(pod_of(name, annotations=marks))
    async with world_of(plane, url=proxy.url, options=BindOptions(timeout_s=0.3)) as world:
        await world.wait_for_places(a="n1", b="n1", c="n1")


async def test_many_are_bound_at_once_but_not_too_many(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    await outside.add_node(node_of("n1", cpu="64"))
    names = [f"p{number}" for number in range(10)]
    for name in names:
        await outside.add_pod(pod_of(name, cpu="100m"))
    async with world_of(plane, url=proxy.url, options=BindOptions(concurrency=2)) as world:
        await world.wait_for_places(**dict.fromkeys(names, "n1"))

        async def are_counted() -> bool:
            await trio.lowlevel.checkpoint()
            return world.cluster.counts()["bindings"] == 10

        # The last of their answers may be on its way.
        await wait_for(are_counted, "the bindings are counted")


# -- room that is not free yet --------------------------------------------------------------------


# POD-22, POD-23
async def test_a_binding_waits_until_the_victim_has_gone(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low", grace_s=60))
    top = await preemptor(outside)
    async with world_of(plane, url=proxy.url, queues=PREEMPTION) as world:
        await world.wait_for_places(low="n1")
        await outside.add_pod(top)

        async def is_nominated() -> bool:
            pods = await outside.pods()
            is_ending = "deletionTimestamp" in pods["low"]["metadata"]
            return is_ending and pods["top"]["status"].get("nominatedNodeName") == "n1"

        await wait_for(is_nominated, "the victim ends, and the pod is nominated")
        assert await world.bound() == {"top": "n1"}
        # The victim is not let in again, as what is bound there.
        asks = [one for app in (await world.scheduler.snapshot()).apps.values() for one in app.asks]
        assert [one.name for one in asks] == ["top"]
        assert not bindings_sent(proxy, "top")
        await outside.delete_pod("low", grace_s=0)  # Its kubelet says that it has ended.
        await world.wait_for_places(top="n1")


async def test_an_eviction_that_a_budget_refuses_is_asked_for_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low"))
    top = await preemptor(outside)
    # For longer than words of a pod stay as they are.
    proxy.add("/eviction", *[Answer(429, {"message": "the budget is used up"})] * 3)
    options = BindOptions(eviction="evict")
    async with world_of(plane, url=proxy.url, queues=PREEMPTION, options=options) as world:
        await world.wait_for_places(low="n1")
        await outside.add_pod(top)
        await world.wait_for_reason("top", "the budget is used up")

        async def is_ending() -> bool:
            return "deletionTimestamp" in (await outside.pods())["low"]["metadata"]

        await wait_for(is_ending)
        assert sum("/low/eviction" in one for one in proxy.requests) >= 2
        await outside.delete_pod("low", grace_s=0)
        await world.wait_for_places(top="n1")


# POD-24
async def test_a_victim_gets_a_condition_and_an_event(
    outside: Outside, plane: ControlPlane
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low", grace_s=0))
    top = await preemptor(outside)
    async with world_of(plane, queues=PREEMPTION) as world:
        await world.wait_for_places(low="n1")
        await outside.add_pod(top)
        await world.wait_for_places(top="n1")

        async def says() -> bool:
            found = await outside.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
            notes = {
                (one["regarding"]["name"], one["reason"]): one["note"] for one in found["items"]
            }
            wanted = {("low", "Scheduled"), ("low", "Preempted"), ("top", "Scheduled")}
            return wanted <= notes.keys() and "for default.top/top: " in notes["low", "Preempted"]

        await wait_for(says, "events say what was decided")


# -- when something goes away ---------------------------------------------------------------------


async def test_what_was_only_decided_for_a_node_that_is_gone_is_pending_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    proxy.add(BINDING, *[Answer(503)] * 1_000)
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url) as world:
        await world.wait_for_bound(a="n1")
        await outside.remove_node("n1")
        await world.wait_for_bound()
        proxy.clear()
        await outside.add_node(node_of("n2"))
        await world.wait_for_places(a="n2")


async def test_a_binding_that_was_cut_short_and_not_carried_out_keeps_no_room(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    """Its node goes before there is an answer, and comes back for another pod."""
    proxy.add("/a/binding", *[Answer(503)] * 1_000)
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url, queues=PREEMPTION) as world:
        await world.wait_for_bound(a="n1")

        async def is_sent() -> bool:
            await trio.lowlevel.checkpoint()
            return bindings_sent(proxy, "a") > 0

        await wait_for(is_sent)
        await outside.remove_node("n1")
        await world.wait_for_bound()
        await world.wait_for_reason("a", "")
        await outside.add_pod(pod_of("b", labels={"queue": "root.high"}))
        await outside.add_node(node_of("n1", cpu="1"))
        await world.wait_for_places(b="n1")


# POD-28
async def test_a_node_that_comes_back_has_its_pods(outside: Outside, plane: ControlPlane) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane) as world:
        await world.wait_for_places(a="n1")
        await world.wait_for_bound(a="n1")
        await outside.remove_node("n1")
        await world.wait_for_bound()
        await outside.add_node(node_of("n1"))
        await world.wait_for_bound(a="n1")
        assert await outside.places() == {"a": "n1"}


async def test_a_pod_that_is_deleted_while_it_is_bound_is_gone(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    proxy.add(BINDING, *[Answer(503)] * 3)
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url) as world:
        await world.wait_for_bound(a="n1")
        await outside.delete_pod("a", grace_s=0)
        await outside.add_pod(pod_of("b"))
        await world.wait_for_places(b="n1")


async def test_a_pod_of_the_same_name_is_another_one(outside: Outside, plane: ControlPlane) -> None:
    await outside.add_node(node_of("n1"))
    first = await outside.add_pod(pod_of("a"))
    async with world_of(plane) as world:
        await world.wait_for_places(a="n1")
        await outside.delete_pod("a", grace_s=0)
        second = await outside.add_pod(pod_of("a"))
        assert first != second
        await world.wait_for_places(a="n1")

        async def is_second() -> bool:
            apps = (await world.scheduler.snapshot()).apps.values()
            works = [ask.work for app in apps for ask in app.asks if ask.node == "n1"]
            return [one.env["POD_UID"] for one in works if one] == [second]

        await wait_for(is_second)


async def test_the_api_server_goes_away_and_comes_back(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    async with world_of(plane, url=proxy.url) as world:
        await world.wait_for_places(a="n1")
        proxy.cut_all(for_ever=True)

        async def is_silent() -> bool:
            await trio.lowlevel.checkpoint()
            return world.cluster.silent_since is not None

        await wait_for(is_silent)
        await outside.delete_pod("a", grace_s=0)
        await outside.add_pod(pod_of("b"))
        proxy.cut_all(for_ever=False)
        await world.wait_for_places(b="n1")
        await world.wait_for_bound(b="n1")

        async def is_heard() -> bool:
            await trio.lowlevel.checkpoint()
            return world.cluster.silent_since is None

        await wait_for(is_heard, "all watches go on")


# -- a restart ------------------------------------------------------------------------------------


# POD-26
async def test_a_restart_takes_the_difference(
    outside: Outside, plane: ControlPlane, proxy: Proxy, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        await outside.add_node(node_of(name, cpu="2"))
    await outside.add_pod(pod_of("stays"))
    await outside.add_pod(pod_of("ends"))
    await outside.add_pod(pod_of("goes"))
    proxy.add("/sent/binding", *[Answer(503)] * 1_000)
    async with world_of(plane, url=proxy.url, store=tmp_path / "state") as world:
        await world.wait_for_bound(**await bound_of(world, "stays", "ends", "goes"))

        async def are_bound() -> bool:
            return len(await outside.places()) == 3

        await wait_for(are_bound)
        await outside.add_pod(pod_of("sent"))

        async def is_decided() -> bool:
            return "sent" in await world.bound()

        await wait_for(is_decided)
    proxy.clear()
    places = await outside.places()
    await outside.set_phase("ends", "Succeeded")
    await outside.delete_pod("goes", grace_s=0)
    await outside.add_pod(pod_of("new"))
    async with world_of(plane, url=proxy.url, store=tmp_path / "state") as world:

        async def is_as_wanted() -> bool:
            bound = await world.bound()
            return bound.keys() == {"stays", "sent", "new"} and bound["stays"] == places["stays"]

        await wait_for(is_as_wanted, "the asks are those of the pods")
        now = await world.bound()
        ended = {"ends": places["ends"]}

        async def are_all_bound() -> bool:
            return await outside.places() == {**now, **ended}

        await wait_for(are_all_bound)


async def bound_of(world: World, *names: str) -> dict[str, str]:
    """Wait until pods are bound, and return where."""

    async def are() -> bool:
        return set(names) <= (await world.bound()).keys()

    await wait_for(are)
    return await world.bound()


async def test_what_was_decided_for_a_node_that_went_meanwhile_is_decided_anew(
    outside: Outside, plane: ControlPlane, proxy: Proxy, tmp_path: Path
) -> None:
    """The start takes back what the store has, before anything is bound again."""
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("a"))
    proxy.add(BINDING, *[Answer(503)] * 1_000)
    async with world_of(plane, url=proxy.url, store=tmp_path / "state") as world:
        await world.wait_for_bound(a="n1")
    proxy.clear()
    await outside.remove_node("n1")
    await outside.add_node(node_of("n2"))
    async with world_of(plane, url=proxy.url, store=tmp_path / "state") as world:
        await world.wait_for_places(a="n2")


async def test_an_eviction_that_is_refused_by_a_conflict_is_asked_for_again(
    outside: Outside, plane: ControlPlane, proxy: Proxy
) -> None:
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low", grace_s=0))
    top = await preemptor(outside)
    async with world_of(plane, url=proxy.url, queues=PREEMPTION) as world:
        await world.wait_for_places(low="n1")
        proxy.add("DELETE", *[Answer(409)] * 3)
        await outside.add_pod(top)
        await world.wait_for_places(top="n1")


async def test_a_pod_that_is_decided_and_lost_in_one_batch_is_pending_again(
    outside: Outside, plane: ControlPlane
) -> None:
    """Its binder never hears of it."""
    await outside.add_node(node_of("n1", cpu="1"))
    await outside.add_pod(pod_of("low"))
    await outside.add_pod(pod_of("top", labels={"queue": "root.high"}))
    queues = PREEMPTION.replace('properties: {queue.priority: "10"}, ', "")
    async with world_of(plane, queues=queues) as world:
        await world.wait_for_places(top="n1")
        await world.wait_for_reason("low", "NoNodeFits")
