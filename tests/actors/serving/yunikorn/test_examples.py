"""The examples of the contract, with a server in that state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actors.serving.served import Served
from tests.actors.serving.yunikorn.contract import GI, keep_scene, lacks, ns


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("scene")
    state = keep_scene(folder / "state")
    with Served(folder, "--state", str(state), config=None) as served:
        yield served


def _get(served: Served, path: str) -> Any:  # noqa: ANN401 - JSON
    answer = served.client.get(f"/ws/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_cluster(served: Served) -> None:
    (cluster,) = _get(served, "clusters")
    assert (cluster["clusterName"], cluster["partition"]) == ("muster", "default")
    (build,) = cluster["rmBuildInformation"]
    assert build["rmId"] == "muster"
    assert all(isinstance(value, str) and value for value in build.values())


# REST-6
def test_the_partition(served: Served) -> None:
    answer = _get(served, "partitions")
    expected = {
        "clusterId": "muster",
        "name": "default",
        "state": "Active",
        "capacity": {
            "capacity": {"vcore": 16000, "memory": 64 * GI},
            "usedCapacity": {"vcore": 8000, "memory": 16 * GI},
            "utilization": {"vcore": 50, "memory": 25},
        },
        "nodeSortingPolicy": {"type": "fair", "resourceWeights": {"memory": 1.0, "vcore": 1.0}},
        "preemptionEnabled": True,
        "quotaPreemptionEnabled": False,
        "totalNodes": 2,
        "totalContainers": 2,
        "applications": {"Running": 1, "Accepted": 1, "Completed": 1, "total": 3},
    }
    assert lacks([expected], answer) == []
    assert answer[0]["applications"].keys() == {"Running", "Accepted", "Completed", "total"}
    assert answer[0]["lastStateTransitionTime"] == _get(served, "clusters")[0]["startTime"]


# REST-7, REST-8
def test_a_queue(served: Served) -> None:
    answer = _get(served, "partition/default/queue/root.prod.etl")
    expected = {
        "queuename": "root.prod.etl",
        "status": "Active",
        "partition": "default",
        "parent": "root.prod",
        "isLeaf": True,
        "isManaged": True,
        "properties": {"application.sort.policy": "fair", "priority.offset": "100"},
        "maxResource": {"vcore": 8000},
        "headroom": {"vcore": 4000, "memory": 48 * GI},
        "allocatedResource": {"vcore": 4000, "memory": 8 * GI},
        "pendingResource": {"vcore": 12000, "memory": 8 * GI},
        "absUsedCapacity": {"vcore": 50},
        "runningApps": 1,
        "currentPriority": 110,
        "sortingPolicy": "fair",
        "prioritySorting": True,
        "isPriorityFence": False,
        "priorityOffset": 100,
        "preemptionEnabled": True,
        "isPreemptionFence": False,
        "preemptionDelay": "30s",
        "quotaPreemptionDelay": "0s",
    }
    assert lacks(expected, answer) == []
    assert "children" not in answer
    assert "template" not in answer


# REST-9, REST-10, REST-11, REST-12
def test_its_applications(served: Served) -> None:
    (app,) = _get(served, "partition/default/queue/root.prod.etl/applications")
    (request,) = app["requests"]
    assert request["allocationLog"][0].pop("message").startswith("NeverFits: ")
    del request["allocationLog"][1:]
    tags = {"kubernetes.io/meta/namespace": "default", "kubernetes.io/meta/podName": "load-0"}
    expected = {
        "applicationID": "nightly-1",
        "partition": "default",
        "queueName": "root.prod.etl",
        "applicationState": "Running",
        "user": "olga",
        "groups": ["data"],
        "submissionTime": ns(60),
        "startTime": ns(61) // 1_000_000,
        "usedResource": {"vcore": 4000, "memory": 8 * GI},
        "maxUsedResource": {"vcore": 4000, "memory": 8 * GI},
        "pendingResource": {"vcore": 12000, "memory": 8 * GI},
        "maxRequestPriority": 10,
        "stateLog": [
            {"time": ns(60), "applicationState": "New"},
            {"time": ns(60.5), "applicationState": "Accepted"},
            {"time": ns(61), "applicationState": "Starting"},
            {"time": ns(361), "applicationState": "Running"},
        ],
        "allocations": [
            {
                "allocationKey": "load-0",
                "allocationTags": tags,
                "requestTime": ns(60.5),
                "allocationTime": ns(61),
                "allocationDelay": 500_000_000,
                "resource": {"vcore": 4000, "memory": 8 * GI},
                "priority": "10",
                "nodeId": "node-a",
                "applicationId": "nightly-1",
            }
        ],
        "requests": [
            {
                "allocationKey": "load-1",
                "requestTime": ns(60.5),
                "resource": {"vcore": 12000, "memory": 8 * GI},
                "priority": "10",
                "applicationId": "nightly-1",
                "schedulingAttempted": True,
                "allocationLog": [{"lastOccurrence": ns(60.5), "count": 1}],
            }
        ],
        "resourceHistory": {},
    }
    assert lacks(expected, app) == []
    assert "placeholder" not in app["allocations"][0]
    assert _get(served, "partition/default/application/nightly-1")["submissionTime"] == ns(60)


# REST-13
def test_the_nodes(served: Served) -> None:
    answer = _get(served, "partition/default/nodes")
    assert [node["nodeID"] for node in answer] == ["node-a", "node-b"]
    tags = {"kubernetes.io/meta/namespace": "ml", "kubernetes.io/meta/podName": "w-0"}
    expected = {
        "nodeID": "node-b",
        "hostName": "node-b",
        "attributes": {"zone": "east"},
        "capacity": {"vcore": 8000, "memory": 32 * GI},
        "allocated": {"vcore": 4000, "memory": 8 * GI},
        "available": {"vcore": 4000, "memory": 24 * GI},
        "utilized": {"vcore": 50, "memory": 25},
        "allocations": [
            {
                "allocationKey": "w-0",
                "allocationTags": tags,
                "requestTime": ns(100),
                "allocationTime": ns(100),
                "resource": {"vcore": 4000, "memory": 8 * GI},
                "priority": "0",
                "nodeId": "node-b",
                "applicationId": "train-3",
                "taskGroupName": "ml/ring",
                "placeholder": True,
            }
        ],
        "schedulable": True,
        "isReserved": False,
    }
    assert lacks(expected, answer[1]) == []
    assert lacks(expected, _get(served, "partition/default/node/node-b")) == []
    assert answer[0]["attributes"] == {}


# REST-14
def test_the_utilizations(served: Served) -> None:
    (answer,) = _get(served, "scheduler/node-utilizations")
    assert (answer["clusterId"], answer["partition"]) == ("muster", "default")
    found = {one["type"]: one["utilization"] for one in answer["utilizations"]}
    used = {"bucketName": "40-50%", "numOfNodes": 2, "nodeNames": ["node-a", "node-b"]}
    empty = [{"bucketName": f"{low}-{low + 10}%"} for low in range(0, 100, 10)]
    assert found["vcore"] == [*empty[:4], used, *empty[5:]]
    assert found["memory"][2]["numOfNodes"] == 2


# REST-9
def test_a_completed_application_is_as_it_was(served: Served) -> None:
    (old,) = _get(served, "partition/default/applications/completed")
    expected = {
        "applicationID": "old",
        "queueName": "root.train",
        "applicationState": "Completed",
        "submissionTime": ns(10),
        "finishedTime": ns(40),
        "stateLog": [
            {"time": ns(10), "applicationState": "New"},
            {"time": ns(10), "applicationState": "Accepted"},
            {"time": ns(10), "applicationState": "Completing"},
            {"time": ns(40), "applicationState": "Completed"},
        ],
    }
    assert lacks(expected, old) == []
    assert served.client.get("/ws/v1/partition/default/application/old").status_code == 404


# REST-18
def test_the_history(served: Served) -> None:
    points = _get(served, "history/apps")
    held = _get(served, "history/containers")
    assert len(points) == len(held)
    first = next(point for point in points if point["timestamp"] == ns(120))
    assert first == {"timestamp": ns(120), "totalApplications": "1"}
    assert {"timestamp": ns(120), "totalContainers": "2"} in held
    assert [point["timestamp"] for point in points] == sorted(p["timestamp"] for p in points)
