"""Which events the objects of a cluster become; without a cluster, in virtual time."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

import muster
from muster.kubernetes._cache import Cache
from muster.kubernetes._intake import RETRY_S, Intake
from muster.kubernetes._objects import read_node, read_pod
from tests.kubernetes.world import QUEUES, Object, node_of, pod_of


def seen_pod(name: str, **more: Any) -> Object:  # noqa: ANN401 - JSON
    """Return a pod as the API server has it."""
    pod = pod_of(name, **more)
    about = {"uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**pod, "metadata": {**pod["metadata"], **about}, "status": {"phase": "Pending"}}


async def test_what_was_refused_is_tried_again_also_while_much_happens(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache = Cache()
    intake = Intake(cache)
    ready = trio.Event()
    async with muster.open_scheduler(QUEUES) as scheduler, trio.open_nursery() as nursery:
        pod = read_pod(seen_pod("a", labels={"queue": "root.new"}), "muster")
        entry = cache.note_pod(pod)
        nursery.start_soon(intake.feed, scheduler, ready)
        await ready.wait()
        assert "root.new" in entry.refusal
        await scheduler.configure(QUEUES.replace("{name: default}", "{name: default}, {name: new}"))
        for number in range(8):
            await trio.sleep(RETRY_S / 5)
            cache.note_node(read_node(node_of(f"n{number}")))
        assert not entry.refusal
        nursery.cancel_scope.cancel()


async def test_a_pending_pod_whose_ask_was_removed_gets_another_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache = Cache()
    intake = Intake(cache)
    ready = trio.Event()
    async with muster.open_scheduler(QUEUES) as scheduler, trio.open_nursery() as nursery:
        cache.note_pod(read_pod(seen_pod("a"), "muster"))
        nursery.start_soon(intake.feed, scheduler, ready)
        await ready.wait()
        await scheduler.app("default.a").remove()
        assert not (await scheduler.snapshot()).apps
        await trio.sleep(RETRY_S + 1)
        assert [one.name for one in (await scheduler.snapshot()).apps["default.a"].asks] == ["a"]
        nursery.cancel_scope.cancel()


async def test_a_pod_that_is_bound_while_it_changes_has_one_ask(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache = Cache()
    intake = Intake(cache)
    ready = trio.Event()
    async with muster.open_scheduler(QUEUES) as scheduler, trio.open_nursery() as nursery:
        cache.note_node(read_node(node_of("n1")))
        cache.note_pod(read_pod(seen_pod("a", labels={"applicationId": "one"}), "muster"))
        nursery.start_soon(intake.feed, scheduler, ready)
        await ready.wait()
        # It is bound by now, and the cache does not know.
        cache.note_pod(read_pod(seen_pod("a", labels={"applicationId": "two"}), "muster"))
        await trio.sleep(1)
        apps = (await scheduler.snapshot()).apps
        assert [one.name for app in apps.values() for one in app.asks] == ["a"]
        nursery.cancel_scope.cancel()


async def test_gangs_of_applications_that_are_gone_are_not_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cache = Cache()
    intake = Intake(cache)
    ready = trio.Event()
    group = "yunikorn.apache.org/task-group"
    async with muster.open_scheduler(QUEUES) as scheduler, trio.open_nursery() as nursery:
        nursery.start_soon(intake.feed, scheduler, ready)
        for number in range(250):
            marks = {
                "yunikorn.apache.org/app-id": f"app-{number}",
                f"{group}-name": "driver",
                f"{group}s": '[{"name": "driver", "minMember": 1}, {"name": "workers", "minMember": 2}]',
            }
            pod = read_pod(seen_pod(f"p{number}", annotations=marks), "muster")
            cache.note_pod(pod)
            await trio.sleep(1)
            if number:
                cache.drop_pod(pod.identity.uid)
                await trio.sleep(1)
        gangs = (await scheduler.snapshot()).gangs
        assert gangs["default/job-app-0-workers"].definition is not None
        assert len(gangs) < 150
        nursery.cancel_scope.cancel()


def test_a_replica_that_waits_keeps_nothing_of_what_is_gone() -> None:
    cache = Cache()
    intake = Intake(cache)
    for number in range(10):
        pod = read_pod(seen_pod(f"p{number}"), "muster")
        cache.note_pod(pod)
        cache.drop_pod(pod.identity.uid)
        cache.note_node(read_node(node_of(f"n{number}")))
        cache.drop_node(f"n{number}")
        group = {"metadata": {"name": f"g{number}"}, "spec": {"minMember": 2}}
        intake.take_group(group, is_gone=False)
        intake.take_group(group, is_gone=True)
    assert not cache.pods
    assert not cache.nodes
    assert not intake._has_changes()  # pyright: ignore[reportPrivateUsage]


def test_a_pod_that_was_resized_takes_what_it_has_now() -> None:
    cache = Cache()
    intake = Intake(cache)
    cache.note_node(read_node(node_of("n1")))
    bound = seen_pod("a", nodeName="n1")
    cache.note_pod(read_pod(bound, "muster"))
    list(intake._changes())  # pyright: ignore[reportPrivateUsage]
    assert cache.nodes["n1"].reserved() == {}
    larger = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    cache.note_pod(read_pod({**bound, "spec": {**bound["spec"], "containers": [larger]}}, "muster"))
    assert cache.nodes["n1"].reserved() == {"vcore": 2_000}
    assert "n1" in cache.dirty_nodes
