"""What pods and nodes mean, as newer API servers give them than the one that tests can start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from muster.kubernetes._objects import read_node, read_pod

Object = Mapping[str, Any]

# What a pod has in 1.33 and 1.35 that it did not have in 1.20.
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-0",
        "generateName": "train-",
        "namespace": "team-a",
        "uid": "0a1b",
        "resourceVersion": "12",
        "generation": 2,
        "creationTimestamp": "2026-01-31T18:30:00Z",
        "labels": {
            "batch.kubernetes.io/job-completion-index": "0",
            "batch.kubernetes.io/job-name": "train",
            "topology.kubernetes.io/zone": "a",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": "9",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:metadata": {}}}],
    },
    "spec": {
        "schedulerName": "muster",
        "hostUsers": False,
        "hostnameOverride": "train",
        "workloadRef": {"name": "train", "podGroup": "workers"},
        "resources": {"requests": {"cpu": "3", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
        "overhead": {"cpu": "250m"},
        "initContainers": [
            {
                "name": "sidecar",
                "image": "i",
                "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "500m"}},
                "restartPolicyRules": [],
            },
            {"name": "setup", "image": "i", "resources": {"requests": {"cpu": "1", "x.io/disk": "2"}}},
        ],
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "claims": []},
                "envFrom": [{"secretRef": {"name": "s"}, "prefix": "P_"}],
            }
        ],
        "tolerations": [
            {"key": "gpu", "operator": "Gt", "value": "4", "effect": "NoSchedule"},
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "schedulingGates": [],
        "terminationGracePeriodSeconds": 30,
    },
    "status": {
        "phase": "Pending",
        "observedGeneration": 2,
        "qosClass": "Burstable",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "it waits",
                "observedGeneration": 2,
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-31T18:30:01Z",
            }
        ],
    },
}  # fmt: skip

# What a node has in 1.33 and 1.35.
NODE: Object = {
    "metadata": {
        "name": "n1",
        "uid": "5",
        "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": "n1.example", "kubernetes.io/os": "linux"},
    },
    "spec": {
        "podCIDRs": ["10.1.0.0/24"],
        "providerID": "x://1",
        "taints": [
            {"key": "gpu", "effect": "NoSchedule", "timeAdded": "2026-01-31T18:30:00Z"},
        ],
    },
    "status": {
        "allocatable": {
            "cpu": "7910m",
            "memory": "31Gi",
            "pods": "110",
            "ephemeral-storage": "95Gi",
            "hugepages-2Mi": "0",
        },
        "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        "declaredFeatures": ["InPlacePodVerticalScaling"],
        "features": {"supplementalGroupsPolicy": True},
        "runtimeHandlers": [{"name": "runc", "features": {"userNamespaces": True}}],
        "nodeInfo": {"swap": {"capacity": 0}},
    },
}


def pod(**spec: object) -> Object:
    return {**POD, "spec": {**POD["spec"], "tolerations": [], **spec}}


# POD-17
def test_a_pod_of_a_newer_server() -> None:
    found = read_pod(pod(), "muster")

    assert not found.unsupported
    assert found.identity.owner == "Job/train"
    # Requests of the whole pod replace the sum, and its overhead comes on top.
    assert found.takes == {"vcore": 3250, "memory": 4 << 30, "x.io/disk": 2, "pods": 1}
    assert found.condition is not None
    assert found.condition.message == "it waits"


def test_requests_without_those_of_the_whole_pod() -> None:
    found = read_pod(pod(resources=None), "muster")

    # The sidecar runs beside the setup, and beside the container; the larger one counts.
    assert found.takes["vcore"] == 1500 + 250


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ({"tolerations": POD["spec"]["tolerations"]}, "spec.tolerations[0].operator"),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}, "spec.resourceClaims"),
        ({"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}, "spec.containers[0]"),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "Sometimes"}]},
            "whenUnsatisfiable: Sometimes",
        ),
    ],
)
def test_what_is_not_known_is_not_placed(spec: dict[str, object], part: str) -> None:
    found = read_pod(pod(**spec), "muster")

    assert part in found.unsupported
    assert found.request is None
    assert found.takes["pods"] == 1


def test_a_pod_of_another_scheduler_takes_room_whatever_else_it_says() -> None:
    found = read_pod(pod(tolerations=[{"operator": "Whatever"}]), "another")

    assert not found.is_ours
    assert found.takes["vcore"] == 3250


# POD-18
def test_a_node_of_a_newer_server() -> None:
    found = read_node(NODE)

    assert not found.problem
    assert found.schedulable
    assert found.capacity["vcore"] == 7910
    assert found.attributes["kubernetes.io/hostname"] == "n1.example"
    assert [one.key for one in found.taints] == ["gpu"]


def test_a_node_that_cannot_be_read_is_closed() -> None:
    found = read_node({**NODE, "status": {"allocatable": {"cpu": "lots"}}})

    assert not found.schedulable
    assert "status.allocatable" in found.problem
