"""The configuration in force, the validation of another one, and a restart that changes no answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.actors.serving.served import Served

CONFIG = """\
# what the nightly jobs may use
partitions:
  - name: default
    nodesortpolicy: {type: binpacking, resourceweights: {vcore: 2}}
    preemption: {enabled: false}
    placementrules:
      - name: tag
        value: namespace
        create: true
        parent: {name: fixed, value: root.prod, create: true}
        filter: {type: deny, users: [bob], groups: ["^x.*"]}
      - {name: fixed, value: prod.late, create: true}
    queues:
      - name: root
        submitacl: "*"
        limits:
          - {limit: all, users: ["*"], maxapplications: 9, maxresources: {vcore: 10}}
          - {limit: some, groups: [data], maxapplications: 4}
        queues:
          - name: Prod
            parent: true
            maxapplications: 12
            resources: {guaranteed: {memory: 1.5Gi}, max: {memory: 4G, vcore: 2500m}}
            childtemplate: {maxapplications: 2}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("config"), config=CONFIG) as served:
        yield served


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest().upper()


# REST-22
def test_it_is_yaml_unless_json_is_asked_for(served: Served) -> None:
    answer = served.client.get("/ws/v1/config", headers={"Accept": "application/json, */*"})
    assert answer.headers["content-type"] == "application/x-yaml; charset=UTF-8"
    made = yaml.safe_load(answer.text)
    assert [*made] == [
        "partitions",
        "checksum",
        "extra",
        "deadlockdetectionenabled",
        "deadlocktimeoutseconds",
    ]
    assert made["checksum"] == _checksum(CONFIG)
    (partition,) = made["partitions"]
    (root,) = partition["queues"]
    resources = {
        "guaranteed": {"memory": "1.5Gi"},
        "max": {"memory": "4G", "vcore": "2500m"},
    }
    assert root["queues"][0]["resources"] == resources
    assert root["queues"][0]["maxapplications"] == 12
    assert partition["preemption"] == {"enabled": False}


# REST-22
def test_in_json_the_fields_have_capitals(served: Served) -> None:
    answer = served.client.get("/ws/v1/config", headers={"Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    everyone = {
        "Limit": "all",
        "Users": ["*"],
        "MaxResources": {"vcore": "10"},
        "MaxApplications": 9,
    }
    prod: dict[str, Any] = {
        "Name": "Prod",
        "Parent": True,
        "Resources": {
            "Guaranteed": {"memory": "1.5Gi"},
            "Max": {"memory": "4G", "vcore": "2500m"},
        },
        "MaxApplications": 12,
        "ChildTemplate": {"MaxApplications": 2, "Resources": {}},
    }
    root: dict[str, Any] = {
        "Name": "root",
        "SubmitACL": "*",
        "Resources": {},
        "ChildTemplate": {"Resources": {}},
        "Limits": [everyone, {"Limit": "some", "Groups": ["data"], "MaxApplications": 4}],
        "Queues": [prod],
    }
    above = {"Name": "fixed", "Value": "root.prod", "Create": True, "Filter": {"Type": ""}}
    rules = [
        {
            "Name": "tag",
            "Value": "namespace",
            "Create": True,
            "Parent": above,
            "Filter": {"Type": "deny", "Users": ["bob"], "Groups": ["^x.*"]},
        },
        {"Name": "fixed", "Value": "prod.late", "Create": True, "Filter": {"Type": ""}},
    ]
    assert answer.json() == {
        "Partitions": [
            {
                "Name": "default",
                "Queues": [root],
                "PlacementRules": rules,
                "Preemption": {"Enabled": False},
                "NodeSortPolicy": {"Type": "binpacking", "ResourceWeights": {"vcore": 2.0}},
                "UserGroupResolver": {"type": ""},
            }
        ],
        "Checksum": _checksum(CONFIG),
        "Extra": {},
        "DeadlockDetectionEnabled": False,
        "DeadlockTimeoutSeconds": 0,
    }


# REST-22
def test_a_file_that_is_not_in_force_is_not_shown(tmp_path: Path) -> None:
    with Served(tmp_path, config=CONFIG) as served:
        (tmp_path / "queues.yaml").write_text("partitions: []", encoding="utf-8")
        made = yaml.safe_load(served.client.get("/ws/v1/config").text)
        (root,) = made["partitions"][0]["queues"]
        assert root["queues"][0]["maxapplications"] == 12
        (tmp_path / "queues.yaml").unlink()
        assert served.client.get("/ws/v1/config").status_code == 200


# REST-20
def test_the_rules_are_those_obeyed(served: Served) -> None:
    above = {
        "name": "fixed",
        "parameters": {"create": "true", "queue": "root.prod", "qualified": "true"},
    }
    assert served.client.get("/ws/v1/partition/default/placementrules").json() == [
        {
            "name": "tag",
            "parameters": {"create": "true", "tagName": "namespace"},
            "parentRule": above,
            "filter": {"type": "deny", "userList": ["bob"], "groupList": [], "groupExp": "^x.*"},
        },
        {
            "name": "fixed",
            "parameters": {"create": "true", "queue": "prod.late", "qualified": "false"},
        },
    ]
    partition = served.client.get("/ws/v1/partitions").json()[0]
    assert partition["preemptionEnabled"] is False
    order = {"type": "binpacking", "resourceWeights": {"vcore": 2.0}}
    assert partition["nodeSortingPolicy"] == order


# REST-21
def test_users_and_groups_have_what_their_applications_hold(served: Served) -> None:
    events = [
        {"op": "add_node", "node": "n", "capacity": {"vcore": 8, "memory": "8Gi"}},
        {
            "op": "add_app",
            "app": "a",
            "user": "eve",
            "groups": ["data"],
            "tags": {"namespace": "q"},
        },
        {"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 2}},
    ]
    answer = served.client.post("/api/v1/events", json=events)
    assert [one["error"] for one in answer.json()] == [None] * 3
    one = {"resourceUsage": {"vcore": 2000}, "runningApplications": ["a"]}
    leaf = {"queuePath": "root.prod.q", **one, "children": []}
    prod = {"queuePath": "root.prod", **one, "children": [leaf]}
    usage = {"queuePath": "root", **one, "children": [prod]}
    path = "/ws/v1/partition/default/usage"
    user = served.client.get(f"{path}/user/eve").json()
    assert user["userName"] == "eve"
    assert user["queues"] == usage | {"maxResources": {"vcore": 10000}, "maxApplications": 9}
    group = served.client.get(f"{path}/group/data").json()
    assert group["applications"] == ["a"]
    assert group["queues"] == usage | {"maxApplications": 4}
    assert user["groups"] == {"a": "data"}


# REST-22
@pytest.mark.parametrize(
    ("media", "body"),
    [("application/json", CONFIG), ("text/plain", ""), ("application/x-yaml", " \n")],
)
def test_what_would_be_taken_is_allowed(served: Served, media: str, body: str) -> None:
    answer = served.client.post(
        "/ws/v1/validate-conf", content=body, headers={"Content-Type": media}
    )
    assert answer.status_code == 200
    expected = {"allowed": True, "checksum": _checksum(body), "checksumMatch": False}
    assert answer.json() == expected


# REST-22
def test_a_checksum_is_checked_and_does_not_count(served: Served) -> None:
    for checksum, matches in ((_checksum(CONFIG), True), ("0" * 64, False)):
        body = f"{CONFIG}checksum: {checksum}\n"
        answer = served.client.post("/ws/v1/validate-conf", content=body).json()
        assert answer["checksum"] == _checksum(CONFIG)
        assert answer["checksumMatch"] is matches


# REST-22
def test_what_is_refused_says_where(served: Served) -> None:
    body = CONFIG.replace("2500m", "few").replace("maxapplications: 2}", "maxapplications: x}")
    answer = served.client.post("/ws/v1/validate-conf", content=body)
    assert (answer.status_code, answer.json()["allowed"]) == (200, False)
    reason = answer.json()["reason"]
    assert "'few'" in reason
    assert "line " in reason
    assert "maxapplications" in reason
    assert "few" not in served.client.get("/ws/v1/config").text


def test_what_is_no_yaml_is_refused(served: Served) -> None:
    answer = served.client.post("/ws/v1/validate-conf", content=b"a: [\xff")
    assert (answer.status_code, answer.json()["allowed"]) == (200, False)


_APPS: Final = "/ws/v1/partition/default/applications/active"
_PATHS: Final = (_APPS, "/ws/v1/partition/default/nodes", "/ws/v1/partition/default/queues")


def _submit(served: Served, *events: dict[str, object]) -> None:
    answer = served.client.post("/api/v1/events", json=list(events))
    assert [one["error"] for one in answer.json()] == [None] * len(events)


def _ask(name: str) -> dict[str, object]:
    return {"op": "add_ask", "app": "a", "ask": name, "resources": {"vcore": 1}}


def _node(name: str, vcore: int) -> dict[str, object]:
    return {"op": "add_node", "node": name, "capacity": {"vcore": vcore}}


# REST-10, REST-11
def test_asks_have_one_order_also_after_a_start(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *state) as served:
        _submit(served, _node("n", 2), {"op": "add_app", "app": "a", "queue": "root.dev"})
        _submit(served, *map(_ask, "zyxwv"))
        # Those that ran are pending again, behind the others; two of them get another node.
        _submit(served, {"op": "remove_node", "node": "n"})
        waiting = [one["allocationKey"] for one in served.client.get(_APPS).json()[0]["requests"]]
        _submit(served, _node("m", 2))
        before = [served.client.get(path).text for path in _PATHS]
        assert served.stop() == 0
    with Served(tmp_path, *state) as served:
        after = [served.client.get(path).text for path in _PATHS]

    assert waiting == [*"zyxwv"]
    assert after == before
