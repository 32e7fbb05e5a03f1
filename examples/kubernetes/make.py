"""Make ``cluster.yaml``: what kubectl would print of a small cluster after an afternoon.

``python make.py > cluster.yaml`` makes it again. The cluster does not exist.
"""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import yaml

Object = dict[str, Any]

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DUMPED = 6 * 3600
"""When kubectl was called, in seconds after noon."""

chance = random.Random(7)
pods: list[Object] = []


def instant(seconds: int) -> str:
    return (NOON + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid() -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def suffix() -> str:
    return "".join(chance.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))


def pod(
    namespace: str,
    name: str,
    created: int,
    wait: int | None,
    run: int | None,
    requests: dict[str, str],
    *,
    owner: tuple[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    node: str = "",
    priority: tuple[str, int] = ("", 0),
    **spec: object,
) -> None:
    """Add a pod: created so long after noon; it waited and ran so long, or is still at it."""
    metadata: Object = {"creationTimestamp": instant(created), "name": name, "namespace": namespace}
    metadata["resourceVersion"] = str(chance.randrange(10**6, 10**7))
    metadata["uid"] = uid()
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    if owner:
        kind, of = owner
        api = {"Job": "batch/v1", "Node": "v1"}.get(kind, "apps/v1")
        metadata["ownerReferences"] = [
            {"apiVersion": api, "controller": True, "kind": kind, "name": of, "uid": uid()}
        ]
    limits = {key: value for key, value in requests.items() if key == "nvidia.com/gpu"}
    container: Object = {"image": "registry.example.org/work:1.4", "name": "main"}
    container["resources"] = {"limits": limits} if limits else {}
    container["resources"]["requests"] = requests
    started = None if wait is None else created + wait
    ended = None if started is None or run is None else started + run
    fields: Object = {"containers": [container], "priority": priority[1], "restartPolicy": "Never"}
    if priority[0]:
        fields["priorityClassName"] = priority[0]
    if started is not None:
        fields["nodeName"] = node or f"gpu-0{chance.randint(1, 4)}"
    status: Object = {"phase": "Pending", "qosClass": "Burstable"}
    if started is None:
        why = {"reason": "Unschedulable", "message": "0/4 nodes are available."}
        status["conditions"] = [condition("PodScheduled", "False", created, **why)]
    else:
        status |= running(started, ended)
    pods.append({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": fields | spec,
        "status": status,
    })  # fmt: skip


def condition(name: str, status: str, since: int, **more: str) -> Object:
    return {
        "lastProbeTime": None,
        "lastTransitionTime": instant(since),
        "status": status,
        "type": name,
        **more,
    }


def running(started: int, ended: int | None) -> Object:
    """Return the status of a pod that has started."""
    done = ended is not None
    state: Object = {"running": {"startedAt": instant(started + 4)}}
    if ended is not None:
        times = {"finishedAt": instant(ended), "startedAt": instant(started + 4)}
        state = {"terminated": {"exitCode": 0, "reason": "Completed", **times}}
    return {
        "conditions": [
            condition("Ready", "False" if done else "True", ended or started + 4),
            condition("PodScheduled", "True", started),
        ],
        "containerStatuses": [
            {"name": "main", "ready": not done, "restartCount": 0, "state": state}
        ],
        "phase": "Succeeded" if done else "Running",
        "startTime": instant(started),
    }


def gpus(number: int) -> dict[str, str]:
    return {"cpu": str(4 * number), "memory": f"{32 * number}Gi", "nvidia.com/gpu": str(number)}


def yunikorn() -> None:
    """Add Jobs of researchers whose cluster is scheduled by YuniKorn."""
    for number in range(8):
        user = ("sue", "tom")[number % 2]
        queue = ("root.research.speech", "root.research.text")[number % 2]
        job, created = f"tune-{number}", 600 * number + chance.randint(0, 300)
        about = json.dumps({"user": user, "groups": ["researchers"]}, separators=(",", ":"))
        for _ in range(2):
            pod(
                "research",
                f"{job}-{suffix()}",
                created,
                chance.randint(2, 900),
                chance.randint(1500, 7000),
                gpus(1 + number % 3),
                owner=("Job", job),
                labels={"yunikorn.apache.org/app-id": job, "yunikorn.apache.org/queue": queue},
                annotations={"yunikorn.apache.org/user.info": about},
            )
    groups = [
        {"name": "driver", "minMember": 1, "minResource": {"cpu": "1"}},
        {"name": "executor", "minMember": 3, "minResource": {"cpu": "4"}},
    ]
    marks = {
        "yunikorn.apache.org/app-id": "spark-7",
        "yunikorn.apache.org/queue": "root.research.text",
    }
    for number in range(4):
        group = "executor" if number else "driver"
        name = f"spark-7-exec-{number}" if number else "spark-7-driver"
        gang_fields = {"yunikorn.apache.org/task-group-name": group}
        if not number:
            gang_fields["yunikorn.apache.org/task-groups"] = json.dumps(
                groups, separators=(",", ":")
            )
        need = {"cpu": "4" if number else "1", "memory": "16Gi"}
        created = 4000 + 20 * number
        pod("research", name, created, 5, 3000, need, labels=marks, annotations=gang_fields)
    holds = {"yunikorn.apache.org/placeholder": "true"}
    need = {"cpu": "4", "memory": "16Gi"}
    pod("research", "tg-spark-7-executor-0", 4001, 2, 30, need, labels=marks, annotations=holds)


def koordinator() -> None:
    """Add trainings of several pods, which Koordinator starts together."""
    tolerates = [{"effect": "NoSchedule", "key": "dedicated", "value": "vision"}]
    for number in range(3):
        gang, created = f"detect-{number}", 2400 * number + 120
        marks = {
            "pod-group.scheduling.sigs.k8s.io": gang,
            "quota.scheduling.koordinator.sh/name": "vision",
        }
        wait, run = chance.randint(60, 1500), chance.randint(3000, 6000)
        for worker in range(4):
            pod(
                "vision",
                f"{gang}-worker-{worker}",
                created + worker,
                wait - worker,
                run,
                gpus(2),
                labels=marks,
                priority=("training", 1000),
                tolerations=tolerates,
                nodeSelector={"accelerator": "a100"},
            )


def volcano() -> None:
    """Add jobs of production, which are scheduled by Volcano."""
    for number in range(2):
        job, created = f"render-{number}", 5000 + 4000 * number
        for task in range(3):
            pod(
                "batch",
                f"{job}-task-{task}",
                created,
                40,
                2500 + 100 * task,
                gpus(1),
                labels={
                    "volcano.sh/job-name": job,
                    "volcano.sh/queue-name": "nightly",
                },
                annotations={"scheduling.k8s.io/group-name": f"{job}-{5 + number}f"},
            )


def others() -> None:
    """Add pods that run all the time, pods that still wait, and pods of nodes."""
    for number in range(2):
        name = f"api-6c9d8b7f54-{suffix()}"
        need = {"cpu": "2", "memory": "4Gi"}
        owner = ("ReplicaSet", "api-6c9d8b7f54")
        pod("batch", name, -1800 + number, 3, None, need, owner=owner, labels={"app": "api"})
    for number in range(1, 5):
        need = {"cpu": "100m", "memory": "128Mi"}
        pod(
            "kube-system",
            f"device-plugin-{suffix()}",
            -3600,
            1,
            None,
            need,
            owner=("DaemonSet", "device-plugin"),
            node=f"gpu-0{number}",
            priority=("system-node-critical", 2000001000),
            tolerations=[{"operator": "Exists"}],
        )
    waits = {
        "yunikorn.apache.org/app-id": "sweep",
        "yunikorn.apache.org/queue": "root.research.text",
    }
    pod("research", f"sweep-{suffix()}", DUMPED - 900, None, None, gpus(4), labels=waits)
    gate = [{"name": "example.org/quota-review"}]
    pod("vision", f"labels-{suffix()}", DUMPED - 300, None, None, gpus(1), schedulingGates=gate)


def node(number: int) -> Object:
    spec: Object = {"podCIDR": f"10.244.{number}.0/24"}
    if number == 4:
        spec["taints"] = [{"effect": "NoSchedule", "key": "dedicated", "value": "vision"}]
    name = f"gpu-0{number}"
    size = {"cpu": "32", "memory": "257698037Ki", "nvidia.com/gpu": "4", "pods": "110"}
    labels = {
        "accelerator": "a100" if number > 2 else "t4",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{'ab'[number % 2]}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"creationTimestamp": instant(-86400 * 90), "labels": labels, "name": name},
        "spec": spec,
        "status": {"allocatable": size | {"cpu": "31500m"}, "capacity": size},
    }


def cluster() -> list[Object]:
    groups: list[tuple[str, str, str, Object]] = [
        ("scheduling.sigs.k8s.io/v1alpha1", "vision", f"detect-{number}", {"minMember": 4})
        for number in range(3)
    ]
    groups += [
        ("scheduling.volcano.sh/v1beta1", "batch", f"render-{number}-{5 + number}f",
         {"minMember": 3, "queue": "nightly"})
        for number in range(2)
    ]  # fmt: skip
    queues: list[tuple[str, Object]] = [
        ("nightly", {"parent": "production", "weight": 2, "capability": {"nvidia.com/gpu": "6"}}),
        ("production", {"weight": 1, "reclaimable": True}),
    ]
    classes = [("system-node-critical", 2000001000), ("training", 1000)]
    return [
        *sorted(pods, key=lambda one: (one["metadata"]["namespace"], one["metadata"]["name"])),
        *map(node, range(1, 5)),
        *(
            {
                "apiVersion": api,
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
            for api, namespace, name, spec in groups
        ),
        *(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
            }
            for name, spec in queues
        ),
        *(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "preemptionPolicy": "PreemptLowerPriority",
                "value": value,
            }
            for name, value in classes
        ),
    ]


if __name__ == "__main__":
    for make in (yunikorn, koordinator, volcano, others):
        make()
    whole: Object = {"apiVersion": "v1", "items": cluster(), "kind": "List"}
    whole["metadata"] = {"resourceVersion": ""}
    whole = json.loads(json.dumps(whole))  # otherwise a repeated object would become an alias
    text = yaml.safe_dump(whole, width=1000)
    print(re.sub("(?m) '([^'\"\n]*)'$", r' "\1"', text), end="")  # kubectl writes double quotes
