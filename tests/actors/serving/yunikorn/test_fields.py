"""Every field of every object has its type, and what must be there is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.actors.serving.served import Served
from tests.actors.serving.yunikorn.fields import wrong_in
from tests.actors.serving.yunikorn.scene import kept_scene

_P = "/ws/v1/partition/default"

ANSWERS = {
    "/ws/v1/clusters": "[{cluster}]",
    "/ws/v1/partitions": "[{partition}]",
    f"{_P}/queues": "{queue}",
    f"{_P}/queue/root.prod": "{queue}",
    f"{_P}/queue/root.prod?subtree": "{queue}",
    f"{_P}/queue/root.lab": "{queue}",
    f"{_P}/queue/root.train/applications": "[{application}]",
    f"{_P}/queue/root.prod.etl/applications/active": "[{application}]",
    f"{_P}/queue/root.train/application/train-3": "{application}",
    f"{_P}/application/train-3": "{application}",
    f"{_P}/application/idle": "{application}",
    f"{_P}/applications/active": "[{application}]",
    f"{_P}/applications/completed": "[{application}]",
    f"{_P}/nodes": "[{node}]",
    f"{_P}/node/node-c": "{node}",
    f"{_P}/placementrules": "[{rule}]",
    f"{_P}/usage/users": "[{user}]",
    f"{_P}/usage/user/olga": "{user}",
    f"{_P}/usage/groups": "[{group}]",
    "/ws/v1/scheduler/healthcheck": "{health}",
    "/ws/v1/scheduler/node-utilizations": "[{utilization}]",
    "/ws/v1/history/apps": "[{apps}]",
    "/ws/v1/history/containers": "[{containers}]",
    "/ws/v1/events/batch": "{batch}",
    "/debug/fullstatedump": "{dump}",
}

_EVENTS = [
    {
        "op": "add_node",
        "node": "node-c",
        "capacity": {"vcore": 1, "nvidia.com/gpu": 2},
        "attributes": {"si/hostname": "c.example", "si/rackname": "r7"},
    },
    {"op": "add_app", "app": "idle", "queue": "root.train"},
    {"op": "add_app", "app": "made", "queue": "root.lab.of.me", "user": "olga"},
    {"op": "add_ask", "app": "made", "ask": "on", "resources": {"vcore": 1}, "node": "node-c"},
    {"op": "add_ask", "app": "made", "ask": "off", "resources": {"vcore": 1}, "node": "node-x"},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fields")
    state = kept_scene(folder / "state")
    with Served(folder, "--state", str(state), config=None) as served:
        answer = served.client.post("/api/v1/events", json=_EVENTS)
        assert [one["error"] for one in answer.json()] == [None] * len(_EVENTS)
        yield served


@pytest.mark.parametrize("path", ANSWERS)
def test_the_fields_of(served: Served, path: str) -> None:
    answer = served.client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert answer.text.endswith("\n")
    assert answer.text.count("\n") == 1
    assert "null" not in answer.text
    assert wrong_in(ANSWERS[path], answer.json()) == []


def test_a_dynamic_queue_has_what_its_template_says(served: Served) -> None:
    queue = served.client.get(f"{_P}/queue/root.lab.of.me").json()
    assert queue["isManaged"] is False
    assert queue["properties"] == {"preemption.policy": "fence"}
    assert (queue["maxResource"], queue["maxRunningApps"]) == ({"vcore": 2000}, 3)
    assert (queue["isPreemptionFence"], queue["preemptionEnabled"]) == (True, True)
    parent = served.client.get(f"{_P}/queue/root.lab").json()
    assert parent["template"] == {
        "maxApplications": 3,
        "maxResource": {"vcore": 2000},
        "guaranteedResource": {"memory": 2**30},
        "properties": {"preemption.policy": "fence"},
    }
    assert (parent["isLeaf"], parent["sortingPolicy"]) == (False, "fair")
    assert parent["childNames"] == ["root.lab.of"]
    assert parent["maxRunningApps"] == 7
    assert "absUsedCapacity" not in parent


def test_the_tree_names_the_partition_at_the_root_only(served: Served) -> None:
    root = served.client.get(f"{_P}/queues").json()
    assert (root["queuename"], root["partition"]) == ("root", "default")
    assert "parent" not in root
    assert {child["partition"] for child in root["children"]} == {""}
    assert [child["queuename"] for child in root["children"]] == root["childNames"]
    nodes = served.client.get(f"{_P}/nodes").json()
    for kind in ("vcore", "memory", "nvidia.com/gpu"):
        whole = sum(node["capacity"].get(kind, 0) for node in nodes)
        assert root["maxResource"][kind] == whole


def test_a_gang_that_waits_counts_as_running(served: Served) -> None:
    queue = served.client.get(f"{_P}/queue/root.train").json()
    assert queue["runningApps"] == 1
    assert queue["allocatingAcceptedApps"] == ["train-3"]
    root = served.client.get(f"{_P}/queue/root").json()
    assert root["allocatingAcceptedApps"] == ["train-3"]


def test_what_has_nothing_pending_has_the_lowest_priority(served: Served) -> None:
    assert served.client.get(f"{_P}/application/idle").json()["maxRequestPriority"] == -(2**31)
    assert served.client.get(f"{_P}/queue/root.lab.of").json()["currentPriority"] == 0
    assert served.client.get(f"{_P}/queue/root.prod").json()["currentPriority"] == 110


def test_an_application_that_never_ran_has_no_start(served: Served) -> None:
    app = served.client.get(f"{_P}/application/idle").json()
    assert "startTime" not in app
    assert "finishedTime" not in app
    assert app["stateLog"] == [{"time": app["submissionTime"], "applicationState": "New"}]
    assert app["usedResource"] == app["pendingResource"] == {"vcore": 0, "memory": 0}
    assert "user" not in app


def test_a_node_is_named_by_its_attributes(served: Served) -> None:
    node = served.client.get(f"{_P}/node/node-c").json()
    assert (node["hostName"], node["rackName"]) == ("c.example", "r7")
    assert node["allocated"] == {"vcore": 1000, "nvidia.com/gpu": 0}
    assert node["utilized"] == {"vcore": 100, "nvidia.com/gpu": 0}


def test_a_required_node_is_told(served: Served) -> None:
    (request,) = served.client.get(f"{_P}/application/made").json()["requests"]
    assert request["requiredNodeId"] == "node-x"
    assert request["priority"] == "0"
