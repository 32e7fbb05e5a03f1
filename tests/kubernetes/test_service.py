"""``muster serve --run kubernetes``: a real service process, and the real API server and kubectl."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.actors.serving.served import Served
from tests.kubernetes.cluster import ControlPlane, wait_until
from tests.kubernetes.roles import NAMESPACE, give_roles
from tests.kubernetes.world import Object, node_of, pod_of

MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def config_map(text: str) -> Object:
    return {"metadata": {"name": "queues"}, "data": {"queues.yaml": text}}


def queues(*names: str) -> str:
    leaves = ", ".join(f"{{name: {name}}}" for name in names)
    root = f'{{name: root, submitacl: "*", queues: [{leaves}]}}'
    return f"partitions: [{{name: default, queues: [{root}]}}]"


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[ControlPlane]:
    give_roles(plane)
    _clear(plane)
    plane.post("/api/v1/nodes", node_of("n1"))
    _ask(plane, "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": []}})
    plane.post(MAPS, config_map(queues("default")))
    yield plane
    _clear(plane)


def _clear(plane: ControlPlane) -> None:
    for one in _ask(plane, "GET", PODS)["items"]:
        plane.delete(f"{PODS}/{one['metadata']['name']}")
    for path in ("/api/v1/nodes/n1", f"{MAPS}/queues"):
        _ask(plane, "DELETE", path)


def _ask(plane: ControlPlane, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
    kind = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    with plane.client() as client:
        return client.request(method, path, json=body, headers=kind).json()


def node_of_pod(plane: ControlPlane, name: str) -> str | None:
    spec: Object = _ask(plane, "GET", f"{PODS}/{name}").get("spec", {})
    return spec.get("nodeName")


def serve(plane: ControlPlane, *options: str, until_ready: bool = True) -> Served:
    kubeconfig = str(plane.kubeconfig("muster"))
    return Served(
        plane.folder,
        *("--run", "kubernetes", "--kubeconfig", kubeconfig, *options),
        *("--config", f"configmap:{NAMESPACE}/queues"),
        config=None,
        until_ready=until_ready,
    )


def muster(served: Served, *words: str) -> str:
    """Run a command against the service, and return its output."""
    command = [sys.executable, "-m", "muster", *words, "--server", served.urls[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


# POD-27
def test_the_configuration_is_that_of_the_config_map(cluster: ControlPlane) -> None:
    cluster.post(PODS, pod_of("a", labels={"queue": "root.default"}))
    cluster.post(PODS, pod_of("b", labels={"queue": "root.new"}))
    with serve(cluster) as served:
        wait_until(lambda: node_of_pod(cluster, "a"), "a is bound")
        assert node_of_pod(cluster, "b") is None
        assert "NotQueued" in muster(served, "why", "default/b")
        _ask(cluster, "PATCH", f"{MAPS}/queues", config_map("partitions: 7"))
        served.line("the configuration stays as it is")
        _ask(cluster, "PATCH", f"{MAPS}/queues", config_map(queues("default", "new")))
        wait_until(lambda: node_of_pod(cluster, "b"), "b is bound")


# POD-27
def test_apply_warns_of_the_config_map(cluster: ControlPlane, tmp_path: Path) -> None:
    """It replaces what was applied, at a start as well."""
    place, state = f"configmap:{NAMESPACE}/queues", ("--state", str(tmp_path / "state"))
    applied = tmp_path / "queues.yaml"
    applied.write_text(queues("default", "applied"), encoding="utf-8")

    def origin(served: Served) -> Object:
        found: Object = served.client.get("/api/v1/config").json()["origin"]
        return {name: found[name] for name in ("kind", "file", "differs")}

    with serve(cluster, *state) as served:
        assert origin(served) == {"kind": "file", "file": place, "differs": False}
        output = muster(served, "config", "apply", str(applied))
        assert (
            f"{place}, which says something else: it replaces this configuration once it " in output
        )
        assert "changes, or the service starts again" in output
        assert origin(served) == {"kind": "applied", "file": place, "differs": True}
    with serve(cluster, *state) as served:
        warning = f"ConfigMap {NAMESPACE}/queues replaces the configuration that was in force"
        assert any(warning in line for line in served.lines)
        assert origin(served) == {"kind": "file", "file": place, "differs": False}


def test_nothing_is_decided_before_there_is_a_configuration(cluster: ControlPlane) -> None:
    _ask(cluster, "PATCH", f"{MAPS}/queues", config_map("partitions: 7"))
    cluster.post(PODS, pod_of("a"))
    with serve(cluster, until_ready=False) as served:
        served.line("the configuration is missing")
        wait_until(lambda: "partitions" in _detail(served), "it says why it is not ready")
        assert node_of_pod(cluster, "a") is None
        _ask(cluster, "PATCH", f"{MAPS}/queues", config_map(queues("default")))
        wait_until(lambda: node_of_pod(cluster, "a"), "a is bound")
        served.line(r"\bready\b")


def _detail(served: Served) -> str:
    return str(served.client.get("/readyz").json().get("detail", ""))


def test_commands_take_the_names_of_pods(cluster: ControlPlane) -> None:
    cluster.post(PODS, pod_of("a"))
    cluster.post(PODS, pod_of("big", cpu="64"))
    cluster.post(PODS, pod_of("odd", topologySpreadConstraints=[_spread()]))
    with serve(cluster) as served:
        wait_until(lambda: node_of_pod(cluster, "a"), "a is bound")
        assert "NoNodeFits" in muster(served, "why", "default/big")
        assert "NotSupported" in muster(served, "why", "default/odd")
        listed = muster(served, "get", "pods")
        assert "default" in listed
        assert "n1" in listed


# POD-30, POD-31
def test_pods_that_have_no_ask_are_found(cluster: ControlPlane) -> None:
    cluster.post(PODS, pod_of("odd", topologySpreadConstraints=[_spread()]))
    cluster.post(PODS, pod_of("lost", labels={"queue": "root.gone"}))
    cluster.post(PODS, pod_of("foreign", scheduler="other", topologySpreadConstraints=[_spread()]))
    with serve(cluster) as served:
        wait_until(lambda: "lost" in muster(served, "get", "pods", "--state", "none"), "listed")
        listed = muster(served, "get", "pods", "--state", "none")
        assert "NotSupported:" in listed
        assert "NotQueued:" in listed
        assert "foreign" not in listed
        text = served.client.get("/metrics").text
        for reason, count in (("NotSupported", 1), ("NotQueued", 1), ("SchedulingGated", 0)):
            line = f'muster_kubernetes_pods_without_ask{{reason="{reason}"}} {count}.0'
            assert line in text.splitlines()
        assert muster(served, "why", "default/foreign") == (
            "default/foreign is a pod that has no ask\n\n"
            "OtherScheduler: spec.schedulerName is other: that scheduler decides for it\n"
        )


def _spread() -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }


# POD-20, POD-25
def test_a_replica_that_waits_says_so_and_takes_over(cluster: ControlPlane) -> None:
    lease = ("--lease", f"{NAMESPACE}/muster")
    with serve(cluster, *lease) as first, serve(cluster, *lease, until_ready=False) as second:
        wait_until(lambda: _lease_detail(second) is not None, "the second one waits")
        assert "holds the lease" in (_lease_detail(second) or "")
        assert first.client.get("/readyz").status_code == 200
        assert first.client.get("/healthz").json()["kubernetes"]["connected"] is True
        first.stop()
        second.line(r"\bready\b")
        cluster.post(PODS, pod_of("a"))
        wait_until(lambda: node_of_pod(cluster, "a"), "a is bound")


def _lease_detail(served: Served) -> str | None:
    detail = _detail(served)
    return detail if "lease" in detail else None


def test_what_came_from_the_cluster_is_a_feed_that_decides_the_same(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    cluster.post(PODS, pod_of("a"))
    with serve(cluster, "--state", str(state)) as served:
        wait_until(lambda: node_of_pod(cluster, "a"), "a is bound")
        served.kill()
    cluster.post(PODS, pod_of("b"))
    with serve(cluster, "--state", str(state)):
        wait_until(lambda: node_of_pod(cluster, "b"), "b is bound")
        body = {"status": {"phase": "Succeeded"}}
        _ask(cluster, "PATCH", f"{PODS}/a/status", body)
    feed = tmp_path / "feed.jsonl"
    command = [sys.executable, "-m", "muster"]
    subprocess.run([*command, "convert", state, feed], check=True, timeout=120)
    log = subprocess.run(
        [*command, "replay", feed, "--decisions", "-"],
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    ).stdout
    assert [name for name in ("a", "b") if f'"bound", "app": "default.{name}"' in log] == ["a", "b"]


def test_options_that_are_wrong_are_reported(tmp_path: Path) -> None:
    words = ["--eviction", "shoot", "--lease", "x", "--bind-timeout", "0s"]
    command = [sys.executable, "-m", "muster", "serve", "--run", "kubernetes", *words]
    done = subprocess.run(
        [*command, "--kubeconfig", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    for part in ("--eviction: shoot", "--lease: x", "--bind-timeout: 0", "--kubeconfig: "):
        assert part in done.stderr
