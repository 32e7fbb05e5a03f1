"""The manifests of ``deploy/kubernetes``, applied to a real API server; their roles are exact."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.kubernetes.cluster import PATIENCE_S, ControlPlane
from tests.kubernetes.roles import DEPLOY, NAMESPACE, documents, give_roles, may
from tests.kubernetes.world import Outside, node_of, pod_of, wait_for

MANIFESTS = sorted(path.name for path in DEPLOY.glob("*.yaml") if path.stem != "kustomization")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
FOLLOWED = {"get", "list", "watch"}

# By resource, the verbs that are allowed everywhere.
EVERYWHERE: Mapping[str, set[str]] = {
    "nodes": FOLLOWED,
    "nodes/status": set(),
    "pods": {*FOLLOWED, "delete"},
    "pods/binding": {"create"},
    "pods/eviction": {"create"},
    "pods/status": {"patch"},
    "pods/exec": set(),
    "pods/log": set(),
    "configmaps": set(),
    "persistentvolumeclaims": FOLLOWED,
    "persistentvolumes": FOLLOWED,
    "events": {"create", "patch"},
    "events.events.k8s.io": {"create", "patch"},
    "priorityclasses.scheduling.k8s.io": FOLLOWED,
    "podgroups.scheduling.sigs.k8s.io": {*FOLLOWED, "patch"},
    "podgroups.scheduling.sigs.k8s.io/status": {"patch"},
    "podgroups.scheduling.volcano.sh": {*FOLLOWED, "patch"},
    "podgroups.scheduling.volcano.sh/status": {"patch"},
    "leases.coordination.k8s.io": set(),
    "secrets": set(),
    "services": set(),
    "namespaces": set(),
    "serviceaccounts": set(),
    "serviceaccounts/token": set(),
    "deployments.apps": set(),
    "jobs.batch": set(),
    "clusterroles.rbac.authorization.k8s.io": set(),
    "rolebindings.rbac.authorization.k8s.io": set(),
    "customresourcedefinitions.apiextensions.k8s.io": set(),
    "*": set(),
    "*.*": set(),
}


@pytest.fixture(scope="module")
def roles(plane: ControlPlane) -> ControlPlane:
    give_roles(plane)
    return plane


def kubectl(plane: ControlPlane, *words: str) -> str:
    """Run kubectl as the admin; return its output."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl not found: make kubernetes brings it")
    done = subprocess.run(
        ["kubectl", f"--kubeconfig={plane.kubeconfig()}", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def applied(plane: ControlPlane, *words: str) -> list[tuple[str, str]]:
    """Apply objects; return the kind and the version of each of them.

    The version is the generation where there is one, which the server's own changes of a status
    leave alone.
    """
    found: Any = json.loads(kubectl(plane, "apply", *words, "--output=json"))
    objects = found["items"] if found["kind"] == "List" else [found]
    described = [(one["kind"], one["metadata"]) for one in objects]
    return [
        (kind, str(about.get("generation", about["resourceVersion"]))) for kind, about in described
    ]


def allowed(plane: ControlPlane, resource: str, namespace: str = "") -> set[str]:
    return {verb for verb in VERBS if may(plane, verb, resource, namespace)}


@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("by", ["--server-side=false", "--server-side"])
def test_each_file_is_applied_and_applied_again(plane: ControlPlane, name: str, by: str) -> None:
    where = [by, *(["--force-conflicts"] if by == "--server-side" else [])]
    applied(plane, *where, f"--filename={DEPLOY / 'namespace.yaml'}")
    first = applied(plane, *where, f"--filename={DEPLOY / name}")
    again = applied(plane, *where, f"--filename={DEPLOY / name}")

    assert again == first
    assert [kind for kind, _ in first] == [one["kind"] for one in documents(name)]


def test_all_of_it_is_applied_at_once(plane: ControlPlane) -> None:
    first = applied(plane, f"--kustomize={DEPLOY}")
    again = applied(plane, f"--kustomize={DEPLOY}")

    assert again == first
    kinds = [kind for kind, _ in first]
    assert sorted(kinds) == sorted(
        [*(one["kind"] for name in MANIFESTS for one in documents(name)), "Secret"]
    )


def test_what_it_names_is_there(plane: ControlPlane) -> None:
    applied(plane, f"--kustomize={DEPLOY}")
    with plane.client() as client:
        base = f"/namespaces/{NAMESPACE}"
        found: Any = client.get(f"/apis/apps/v1{base}/deployments/muster").json()
        service: Any = client.get(f"/api/v1{base}/services/muster").json()
        pod = found["spec"]["template"]
        (container,) = pod["spec"]["containers"]
        options = dict(word.removeprefix("--").partition("=")[::2] for word in container["args"])
        secret = next(one["secret"] for one in pod["spec"]["volumes"] if "secret" in one)
        config = options["config"].removeprefix("configmap:").split("/")
        named = {
            "serviceaccounts": pod["spec"]["serviceAccountName"],
            "secrets": secret["secretName"],
            "configmaps": config[1],
        }
        for plural, name in named.items():
            assert client.get(f"/api/v1{base}/{plural}/{name}").status_code == 200, plural

    assert config[0] == NAMESPACE
    assert options["lease"].split("/")[0] == NAMESPACE
    assert found["spec"]["replicas"] == 2
    assert secret["defaultMode"] == 0o440, "the group of the process reads it, nobody else"
    labels = pod["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= labels
    assert service["spec"]["ports"][0]["port"] == container["ports"][0]["containerPort"]


@pytest.mark.parametrize("resource", EVERYWHERE)
def test_the_verbs_are_exactly_those(roles: ControlPlane, resource: str) -> None:
    assert allowed(roles, resource) == EVERYWHERE[resource]


def test_it_has_queues_and_leases_of_its_own_namespace_only(roles: ControlPlane) -> None:
    leases = "leases.coordination.k8s.io"

    assert allowed(roles, leases, NAMESPACE) == {"get", "create", "update"}
    assert allowed(roles, "configmaps", NAMESPACE) == FOLLOWED
    assert allowed(roles, leases, "kube-system") == set()
    assert allowed(roles, "configmaps", "kube-system") == set()
    assert allowed(roles, "secrets", NAMESPACE) == set()


def test_who_has_no_roles_may_nothing(roles: ControlPlane) -> None:
    assert not may(roles, "list", "pods", user="nobody")
    assert not may(roles, "get", "leases.coordination.k8s.io", NAMESPACE, user="nobody")


def rules(name: str) -> Iterator[dict[str, Any]]:
    for one in documents(name):
        yield from one.get("rules", ())


def test_each_rule_is_looked_at(roles: ControlPlane) -> None:
    looked_at = {*EVERYWHERE, "leases.coordination.k8s.io"}

    for rule in rules("rbac.yaml"):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                plural, slash, part = resource.partition("/")
                full = f"{plural}{'.' if group else ''}{group}{slash}{part}"
                assert full in looked_at, full


async def test_it_runs_as_the_deployment_says_with_these_roles(
    roles: ControlPlane, tmp_path: Path
) -> None:
    outside = Outside(roles)
    await outside.clear()
    await trio.to_thread.run_sync(lambda: applied(roles, f"--kustomize={DEPLOY}"))
    await outside.add_node(node_of("n1"))
    await outside.add_pod(pod_of("fits"))
    await outside.add_pod(pod_of("large", cpu="64"))

    async def are_reported() -> bool:
        pods = await outside.pods()
        reason = pods["large"]["status"].get("conditions", [{}])[0].get("reason")
        return "nodeName" in pods["fits"]["spec"] and reason == "Unschedulable"

    async def has_events() -> bool:
        found = await outside.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        return "FailedScheduling" in {one["reason"] for one in found["items"]}

    environment = {**os.environ, "KUBECONFIG": str(roles.kubeconfig("muster"))}
    command = [sys.executable, "-m", "muster", *options_at(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            command, stderr=log, env=environment, cwd=tmp_path
        )
    try:
        await wait_for(are_reported, "one pod is bound, and the other says why it is not")
        await wait_for(has_events, "there is an event")
        process.terminate()
        with trio.fail_after(PATIENCE_S):
            assert await process.wait() == 0
    finally:
        process.kill()
        await outside.clear()
    log_text = (tmp_path / "log").read_text()
    assert "forbidden" not in log_text
    assert '"level": "error"' not in log_text


def options_at(folder: Path) -> list[str]:
    """Return the arguments in the Deployment, with files and the address of a folder."""
    (deployment,) = documents("deployment.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    instead = {
        "--state": folder / "state",
        "--tokens": DEPLOY / "tokens",
        "--listen": f"unix:{folder / 'socket'}",
    }
    words = [word.partition("=") for word in container["args"]]
    return [f"{name}{equals}{instead.get(name, value)}" for name, equals, value in words]
