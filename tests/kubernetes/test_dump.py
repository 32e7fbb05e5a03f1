"""A dump of a cluster by kubectl gives the same decisions as the live scheduler made that day.

The decisions of three are compared: what the cluster shows, the store of who has followed it, and the
feed that the importer makes of the dump. A dump knows whole seconds: pods that come in one second are
let in by their names, and what matters to the order has to be further apart than that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
import yaml

from muster.kubernetes._access import read_kubeconfig
from muster.kubernetes._api import Api
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.kubelet import Kubelet, NodeSpec
from tests.kubernetes.world import Object, Outside, World, node_of, pod_of, wait_for, world_of

CONFIG = """
partitions:
- name: default
  queues:
  - name: root
    submitacl: "*"
    queues: [{name: default}, {name: prod}]
"""

CLASSES = {"low": 0, "high": 1000}

SCHEDULED = "PodScheduled"

Places = list[tuple[str, str]]
"""Pods with their nodes, in the order of their bindings."""


@pytest.fixture
async def outside(plane: ControlPlane) -> Outside:
    outside = Outside(plane)
    await outside.clear()
    for name, value in CLASSES.items():
        body = {"metadata": {"name": name}, "value": value}
        assert await outside.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
    return outside


def gang_of(name: str, members: int) -> list[Object]:
    """Return the pods of a gang, each of which needs one core."""
    prefix = "gang.scheduling.koordinator.sh"
    says = {f"{prefix}/name": name, f"{prefix}/min-available": str(members)}
    return [
        pod_of(f"{name}-{n}", labels={"queue": "root.prod"}, annotations=says)
        for n in range(members)
    ]


# -- a dump, and what it decides ------------------------------------------------------------


async def dump(plane: ControlPlane, path: Path) -> Path:
    """Write the dump of a cluster by kubectl."""
    kubeconfig = await trio.to_thread.run_sync(plane.kubeconfig)
    words = ("get", "nodes,pods,priorityclasses", "--all-namespaces", "-o", "yaml")
    command = ["kubectl", f"--kubeconfig={kubeconfig}", *words]
    with path.open("wb") as output, trio.fail_after(PATIENCE_S):
        await trio.run_process(command, stdout=output)
    return path


def decisions_of_dump(path: Path) -> Places:
    """Return the bindings of a replay of a dump."""
    config, feed = path.with_suffix(".queues.yaml"), path.with_suffix(".jsonl")
    config.write_text(CONFIG)
    muster("import", "kubernetes", path, "--config", config, "-o", feed)
    return replay(feed)


def decisions_of_store(state: Path) -> Places:
    """Return the bindings of a replay of a store."""
    feed = state.with_suffix(".jsonl")
    muster("convert", state, feed)
    return replay(feed)


def replay(feed: Path) -> Places:
    log = feed.with_suffix(".log")
    muster("replay", "--strict", "--decisions", log, feed)
    decisions = [json.loads(line) for line in log.read_text().splitlines()]
    return [(one["ask"], one["node"]) for one in decisions if one["kind"] == "bound"]


def muster(*words: str | Path) -> None:
    command = [sys.executable, "-m", "muster", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


# -- pods that all were there before --------------------------------------------------------


async def add_in_one_second(outside: Outside, pods: Iterable[Object]) -> None:
    """Add pods so that all have the same instant in a dump."""

    async def are_added() -> bool:
        for name in await outside.pods():
            await outside.delete_pod(name, grace_s=0)
        async with trio.open_nursery() as nursery:
            for one in pods:
                nursery.start_soon(outside.add_pod, one)
        found = (await outside.pods()).values()
        return len({one["metadata"]["creationTimestamp"] for one in found}) == 1

    await wait_for(are_added, "pods come in one second")


async def test_pods_that_were_there_before_muster(
    plane: ControlPlane, outside: Outside, tmp_path: Path
) -> None:
    spec = {"cpu": "4", "memory": "8Gi"}
    nodes = [NodeSpec("n1", spec), NodeSpec("n2", spec, {"zone": "b"})]
    pods = [
        *(pod_of(f"low-{n}", cpu="2", priorityClassName="low") for n in range(3)),
        *gang_of("gang", 2),
        *gang_of("group", 5),
        pod_of("high", cpu="3", priorityClassName="high"),
        pod_of("picky", nodeSelector={"zone": "b"}),
        pod_of("large", cpu="99"),
    ]
    access = read_kubeconfig([plane.kubeconfig()])
    async with Api(access) as api, trio.open_nursery() as nursery:
        kubelet = Kubelet(api, *nodes)
        await nursery.start(kubelet.run)
        await add_in_one_second(outside, pods)
        before = await dump(plane, tmp_path / "before.yaml")
        async with world_of(plane, queues=CONFIG, store=tmp_path / "state"):
            await wait_until_settled(outside)
        after = await dump(plane, tmp_path / "after.yaml")
        places = await outside.places()
        nursery.cancel_scope.cancel()

    decided = await trio.to_thread.run_sync(decisions_of_store, tmp_path / "state")
    assert dict(decided) == places
    assert len(decided) == len(places) >= 4
    assert await trio.to_thread.run_sync(decisions_of_dump, before) == decided
    assert await trio.to_thread.run_sync(decisions_of_dump, after) == decided
    assert kubelet.books.faults == []


async def wait_until_settled(outside: Outside) -> None:
    """Wait until each pod runs, or shows why it waits."""

    def is_settled(pod: Object) -> bool:
        status = pod["status"]
        says = [one["status"] for one in status.get("conditions", ()) if one["type"] == SCHEDULED]
        return status["phase"] == "Running" or says == ["False"]

    async def are_settled() -> bool:
        return all(map(is_settled, (await outside.pods()).values()))

    await wait_for(are_settled, "each pod runs, or says why it waits")


# -- pods that came one after the other -----------------------------------------------------


class Day:
    """A day in which events are further apart than the resolution of a dump."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._last = datetime.now(UTC)

    async def turn(self) -> str:
        """Wait until something may happen next, and return when that is."""

        async def is_later() -> bool:
            # A binding near the end of a second may have the time of the next one.
            return _second() >= _second(self._last) + timedelta(seconds=2)

        await wait_for(is_later, "time goes by")
        self._last = datetime.now(UTC)
        return self._last.strftime("%Y-%m-%dT%H:%M:%SZ")

    async def add(self, *pods: Object) -> None:
        await self.turn()
        await add_all(self._outside, pods)

    async def end(self, name: str) -> None:
        """End a pod, as its kubelet does."""
        state = {"terminated": {"exitCode": 0, "finishedAt": await self.turn()}}
        container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Succeeded", "containerStatuses": [container | {"state": state}]}
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        patch = partial(self._outside.ask, "PATCH", path, kind="merge-patch+json")
        assert await patch({"status": status}) is not None


def _second(at: datetime | None = None) -> datetime:
    return (at or datetime.now(UTC)).replace(microsecond=0)


async def add_all(outside: Outside, pods: Sequence[Object]) -> None:
    for one in pods:
        await outside.add_pod(one)


async def wait_for_held(world: World, *names: str) -> None:
    """Wait until the scheduler has asks of pods that wait."""
    for name in names:
        await world.wait_for_reason(name, "")


async def test_pods_that_came_one_after_the_other(
    plane: ControlPlane, outside: Outside, tmp_path: Path
) -> None:
    day = Day(outside)
    for name in ("n1", "n2"):
        await outside.add_node(node_of(name, cpu="2"))
    async with world_of(plane, queues=CONFIG, store=tmp_path / "state") as world:
        await day.add(pod_of("first", cpu="2"))
        await world.wait_for_places(first="n1")
        await day.add(pod_of("second", cpu="2"))
        await world.wait_for_places(first="n1", second="n2")
        await day.add(*gang_of("gang", 2))
        await wait_for_held(world, "gang-0", "gang-1")
        await day.add(pod_of("high", cpu="2", priorityClassName="high"))
        await wait_for_held(world, "high")
        # One that is deleted while it waits is in no dump; it has taken nothing from others.
        await day.add(pod_of("gone", cpu="99"))
        await wait_for_held(world, "gone")
        await outside.delete_pod("gone", grace_s=0)
        await day.end("first")
        await world.wait_for_places(first="n1", second="n2", high="n1")
        await day.end("second")
        places = {"first": "n1", "second": "n2", "high": "n1", "gang-0": "n2", "gang-1": "n2"}
        await world.wait_for_places(**places)
    after = await dump(plane, tmp_path / "after.yaml")

    decided = await trio.to_thread.run_sync(decisions_of_store, tmp_path / "state")
    assert [name for name, _ in decided] == ["first", "second", "high", "gang-0", "gang-1"]
    assert dict(decided) == places
    assert await trio.to_thread.run_sync(decisions_of_dump, after) == decided


# -- a history, and what it would have been -------------------------------------------------


async def test_a_pod_that_was_deleted_while_it_waited_ends_where_it_runs(
    plane: ControlPlane, outside: Outside, tmp_path: Path
) -> None:
    """Also under a configuration under which it did not wait: its room is free again then."""
    small = CONFIG.replace("{name: prod}", "{name: prod, resources: {max: {vcore: 1}}}")
    prod = {"queue": "root.prod"}
    await outside.add_node(node_of("n1", cpu="2"))
    async with world_of(plane, queues=small, store=tmp_path / "state") as world:
        await outside.add_pod(pod_of("held", cpu="2", labels=prod))
        await world.wait_for_reason("held", "")
        await outside.delete_pod("held", grace_s=0)
        await outside.add_pod(pod_of("next", cpu="2"))
        await world.wait_for_places(next="n1")
    feed, log = tmp_path / "feed.jsonl", tmp_path / "log"
    await trio.to_thread.run_sync(muster, "convert", tmp_path / "state", feed)
    written = [json.loads(line) for line in feed.read_text().splitlines()]
    for one in written:
        if one["op"] == "configure":
            one["config"] = yaml.safe_load(CONFIG)
    feed.write_text("".join(f"{json.dumps(one)}\n" for one in written))
    await trio.to_thread.run_sync(muster, "replay", "--strict", "--decisions", log, feed)
    decisions = [json.loads(line) for line in log.read_text().splitlines()]
    bound = [(one["ask"], one["node"]) for one in decisions if one["kind"] == "bound"]
    assert bound == [("held", "n1"), ("next", "n1")]
