"""Events: numbers, bounds, contents and streams."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from muster.feeds import date_text
from muster.service.yunikorn.protocol import PER_HOST
from tests.actors.serving.served import PATIENCE_S, Served, decisions_until
from tests.actors.serving.yunikorn.contract import wrong_in

_LEAF = "root.prod"
_CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {queue.create: enabled}
        queues: [{name: prod}, {name: dev}]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("events"), config=_CONFIG) as served:
        yield served


def _batch(served: Served, query: str = "") -> Any:  # noqa: ANN401 - JSON
    answer = served.client.get(f"/ws/v1/events/batch{query}")
    assert answer.status_code == 200
    return answer.json()


def _short(one: dict[str, Any]) -> str:
    kind = f"{one['type']}/{one['eventChangeType']}/{one['eventChangeDetail']}"
    other = f" ({one['referenceID']})" if "referenceID" in one else ""
    return f"{kind} {one['objectID']}{other}"


def _records_of(served: Served, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """Submit events; return their records in the ring, without later ones of queues."""
    before = _batch(served)["HighestID"]
    answer = served.client.post("/api/v1/events", json=list(events))
    assert [one["error"] for one in answer.json()] == [None] * len(events)
    found = _batch(served, f"?start={before}")["EventRecords"][1:]
    return [one for one in found if one["type"] != 1 and not _of_queue(one)]


def _of_queue(one: dict[str, Any]) -> bool:
    return bool(one["type"] == 4 and one["eventChangeDetail"] != 405)


def _ask(app: str, ask: str, vcore: int = 1, **more: object) -> dict[str, Any]:
    return {"op": "add_ask", "app": app, "ask": ask, "resources": {"vcore": vcore}, **more}


# REST-15
def test_nodes_tell_of_themselves(served: Served) -> None:
    add = {"op": "add_node", "node": "n1", "capacity": {"vcore": 4, "memory": 0}}
    came, ready = _records_of(served, add)
    assert (_short(came), _short(ready)) == ("3/2/0 n1", "3/1/302 n1")
    assert came["resource"]["resources"]["vcore"] == {"value": 4000}
    assert (ready["message"], ready["resource"]) == ("schedulable: true", {})
    (grown,) = _records_of(served, {"op": "update_node", "node": "n1", "capacity": {"vcore": 5}})
    assert _short(grown) == "3/1/304 n1"
    assert grown["resource"] == {"resources": {"vcore": {"value": 5000}}}
    (closed,) = _records_of(served, {"op": "update_node", "node": "n1", "schedulable": False})
    assert (_short(closed), closed["message"]) == ("3/1/302 n1", "schedulable: false")
    (gone,) = _records_of(served, {"op": "remove_node", "node": "n1"})
    assert _short(gone) == "3/3/300 n1"


# REST-15
def test_a_life_of_an_application(served: Served) -> None:
    _records_of(served, {"op": "add_node", "node": "big", "capacity": {"vcore": 8}})
    came = _records_of(served, {"op": "add_app", "app": "a", "queue": _LEAF})
    assert [_short(one) for one in came] == ["2/2/203 a", f"4/2/405 {_LEAF} (a)"]
    bound = _records_of(served, _ask("a", "x", 2))
    assert [_short(one) for one in bound] == [
        "2/2/201 a (x)",
        "2/1/204 a",
        "2/2/200 a (x)",
        "3/2/303 big (x)",
    ]
    assert bound[2]["resource"] == {"resources": {"vcore": {"value": 2000}}}
    second = _records_of(served, _ask("a", "y"), _ask("a", "z", 40))
    assert "2/1/206 a" in [_short(one) for one in second]
    pending = _records_of(served, {"op": "remove_ask", "app": "a", "ask": "z"})
    assert [_short(one) for one in pending] == ["2/3/100 a (z)"]
    done = _records_of(served, {"op": "release", "app": "a", "ask": "x"})
    assert [_short(one) for one in done] == ["2/3/500 a (x)", "3/3/303 big (x)"]
    gone = _records_of(served, {"op": "remove_app", "app": "a"})
    assert [_short(one) for one in gone] == [
        "2/3/500 a (y)",
        "3/3/303 big (y)",
        "2/3/0 a",
        f"4/3/405 {_LEAF} (a)",
    ]
    for one in (*came, *bound, *gone):
        assert wrong_in("{event}", one) == []
    _records_of(served, {"op": "remove_node", "node": "big"})


# REST-15
def test_a_lost_node_and_a_victim(served: Served) -> None:
    _records_of(served, {"op": "add_node", "node": "n2", "capacity": {"vcore": 1}})
    high = {
        "op": "add_priority_class",
        "name": "high",
        "value": 9,
        "preemption_policy": "PreemptLowerPriority",
    }
    _records_of(served, high, {"op": "add_app", "app": "b", "queue": "root.dev"}, _ask("b", "low"))
    config = {"op": "remove_node", "node": "n2"}
    lost = [_short(one) for one in _records_of(served, config)]
    assert lost == ["3/3/300 n2", "2/3/504 b (low)", "3/3/303 n2 (low)"]
    _records_of(served, {"op": "remove_app", "app": "b"})


# QUOTA-13
def test_a_victim_of_a_quota(served: Served) -> None:
    def limited(most: int) -> dict[str, Any]:
        root: dict[str, Any] = yaml.safe_load(_CONFIG)["partitions"][0]
        (top,) = root["queues"]
        delay = {"quota.preemption.delay": "1ms"}
        most_of = {"max": {"vcore": most}}
        top["queues"].append({"name": "quota", "properties": delay, "resources": most_of})
        whole = {**root, "preemption": {"quotapreemptionenabled": True}}
        return {"op": "configure", "config": {"partitions": [whole]}}

    _records_of(served, limited(2), {"op": "add_node", "node": "q", "capacity": {"vcore": 2}})
    _records_of(served, {"op": "add_app", "app": "q", "queue": "root.quota"})
    _records_of(served, _ask("q", "old", 1, node="q"), _ask("q", "new", 1, node="q"))
    before = _batch(served)["HighestID"]
    _records_of(served, limited(1))
    decisions_until(served.client, app="q", ask="new", reason="preempted")
    found = _batch(served, f"?start={before}")["EventRecords"]
    messages = [one["message"] for one in found if "preempted on" in one.get("message", "")]
    assert messages == ["preempted on q: root.quota has more than its max of vcore"]
    _records_of(served, {"op": "remove_app", "app": "q"}, {"op": "remove_node", "node": "q"})
    _records_of(served, {"op": "configure", "config": yaml.safe_load(_CONFIG)})


def test_asks_whose_time_is_up(served: Served) -> None:
    _records_of(served, {"op": "add_node", "node": "n3", "capacity": {"vcore": 1}})
    _records_of(served, {"op": "add_app", "app": "t", "queue": "root.dev"})
    before = _batch(served)["HighestID"]
    late = date_text(time.time_ns() // 1_000 + 500_000)
    _records_of(served, _ask("t", "runs", run_limit=1), _ask("t", "late", 9, start_by=late))
    decisions_until(served.client, app="t", ask="late", reason="expired")
    decisions_until(served.client, app="t", ask="runs", reason="run_limit")
    found = [_short(one) for one in _batch(served, f"?start={before}")["EventRecords"]]
    assert [one for one in found if one.startswith(("2/3/", "3/3/"))] == [
        "2/3/102 t (late)",
        "2/3/502 t (runs)",
        "3/3/303 n3 (runs)",
    ]
    _records_of(served, {"op": "remove_app", "app": "t"}, {"op": "remove_node", "node": "n3"})


# REST-15
def test_a_change_of_why_an_ask_is_not_running_is_an_event(served: Served) -> None:
    def reasons_since(before: int) -> list[tuple[str, str]]:
        found = _batch(served, f"?start={before}")["EventRecords"][1:]
        return [
            (_short(one), one["message"].partition(":")[0]) for one in found if one["type"] == 1
        ]

    _records_of(served, {"op": "add_app", "app": "w", "queue": "root.dev"})
    before = _batch(served)["HighestID"]
    _records_of(served, _ask("w", "k", 1, selector={"disk": "none"}))
    assert reasons_since(before) == [("1/0/0 k (w)", "NeverFits")]
    node = {"op": "add_node", "node": "n7", "capacity": {"vcore": 1}, "attributes": {"disk": "x"}}
    _records_of(served, node)
    assert reasons_since(before) == [
        ("1/0/0 k (w)", "NeverFits")
    ]  # as before, so there is no new event
    with served.client.stream("GET", "/ws/v1/events/stream") as answer:
        lines = answer.iter_lines()
        next(lines)
        served.client.post("/api/v1/events", json=[_ask("w", "l", 1, selector={"disk": "no"})])
        while (one := json.loads(next(lines)))["type"] != 1:
            pass
        assert (_short(one), one["message"].partition(":")[0]) == ("1/0/0 l (w)", "NeverFits")
    _records_of(served, {"op": "remove_app", "app": "w"}, {"op": "remove_node", "node": "n7"})


# REST-15
def test_queues_tell_of_themselves(served: Served) -> None:
    first = [_short(one) for one in _batch(served, "?count=3")["EventRecords"]]
    assert first == ["4/2/0 root", "4/2/0 root.prod", "4/2/0 root.dev"]
    before = _batch(served)["HighestID"]
    served.client.post(
        "/api/v1/events", json=[{"op": "add_app", "app": "d", "queue": "root.new.q"}]
    )
    with served.client.stream("GET", "/ws/v1/events/stream?count=0") as answer:
        lines = answer.iter_lines()
        next(lines)
        found = [_short(one) for one in _batch(served, f"?start={before}")["EventRecords"]]
        while "4/2/401 root.new.q" not in found:
            found.append(_short(json.loads(next(lines))))
        served.client.post("/api/v1/events", json=[{"op": "remove_app", "app": "d"}])
        after: list[str] = []
        while "4/3/401 root.new.q" not in after:
            after.append(_short(json.loads(next(lines))))


# REST-16
def test_numbers_and_bounds(served: Served) -> None:
    whole = _batch(served)
    lowest, highest, records = whole["LowestID"], whole["HighestID"], whole["EventRecords"]
    assert (lowest, highest) == (0, len(records) - 1)
    assert _batch(served, "?start=2&count=2")["EventRecords"] == records[2:4]
    assert _batch(served, f"?start={highest}")["EventRecords"] == records[-1:]
    beyond = _batch(served, f"?start={highest + 1}")
    assert beyond["EventRecords"] is None
    assert (beyond["LowestID"], beyond["HighestID"]) == (lowest, highest)
    assert _batch(served, "?count=100000")["EventRecords"] == records
    assert beyond["InstanceUUID"] == whole["InstanceUUID"]


# REST-16
def test_another_start_is_another_instance(
    served: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("again")
    instances = {_batch(served)["InstanceUUID"]}
    with Served(folder, "--state", str(folder / "state")) as first:
        first.client.post("/api/v1/events", json=[{"op": "add_app", "app": "a", "queue": _LEAF}])
        assert _batch(first)["EventRecords"]
        instances.add(_batch(first)["InstanceUUID"])
    with Served(folder, "--state", str(folder / "state")) as second:
        empty = _batch(second)
        assert (empty["LowestID"], empty["HighestID"], empty["EventRecords"]) == (0, 0, [])
        instances.add(empty["InstanceUUID"])
    assert len(instances) == 3


# REST-17
def test_a_stream_begins_with_the_latest(served: Served) -> None:
    with served.client.stream("GET", "/ws/v1/events/stream?count=2") as answer:
        assert "content-encoding" not in answer.headers
        lines = answer.iter_lines()
        whole = _batch(served)
        assert json.loads(next(lines)) == {"InstanceUUID": whole["InstanceUUID"]}
        assert [json.loads(next(lines)) for _ in range(2)] == whole["EventRecords"][-2:]
        add = {"op": "add_node", "node": "n9", "capacity": {"vcore": 1}}
        served.client.post("/api/v1/events", json=[add])
        assert _short(json.loads(next(lines))) == "3/2/0 n9"
        assert _short(json.loads(next(lines))) == "3/1/302 n9"


# REST-17
def test_there_are_only_so_many_streams(served: Served) -> None:
    path = "/ws/v1/events/stream"
    readers: list[Iterator[str]] = []  # A reader without a reference ends its stream.
    with ExitStack() as stack:
        for _ in range(PER_HOST):
            answer = stack.enter_context(served.client.stream("GET", path))
            readers.append(answer.iter_lines())
            next(readers[-1])
        refused = served.client.get(path)
        assert refused.status_code == 503
        assert refused.json()["message"] == "Too many streaming connections"
        other = {"Host": "localhost"}
        answer = stack.enter_context(served.client.stream("GET", path, headers=other))
        readers.append(answer.iter_lines())
        next(readers[-1])
        dump = served.client.get("/debug/fullstatedump").json()
        assert len(dump["eventStreams"]) == PER_HOST + 1


# REST-17
def test_a_stream_ends_with_the_service(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Served(tmp_path_factory.mktemp("ends")) as served:
        with served.client.stream("GET", "/ws/v1/events/stream") as answer:
            lines = answer.iter_lines()
            next(lines)
            served.process.terminate()
            assert list(lines) == []
        assert served.process.wait(PATIENCE_S) == 0
