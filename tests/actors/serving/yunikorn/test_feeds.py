"""Over all feeds: the answers agree with each other, with the snapshot, and with the decisions.

Every field has its type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from muster.feeds import FeedError, read_feed
from muster.service.yunikorn.objects.applications import application, utilizations
from muster.service.yunikorn.objects.diagnostics import everything, health, metrics
from muster.service.yunikorn.objects.partitions import groups, users
from muster.service.yunikorn.objects.values import JsonObject, YuniKornState
from muster.service.yunikorn.protocol import event
from muster_core.decisions import Kind
from muster_core.events import Event
from muster_core.snapshots import AskPlace, Snapshot
from muster_core.structures.steps import all_at_once
from tests.actors.serving.histories import LedgerScheduler, in_ledger, in_state
from tests.actors.serving.served import Served
from tests.actors.serving.yunikorn.contract import keep_scene, wrong_in

FEEDS: Final = Path(__file__).parents[3] / "feeds"
ORIGIN_US: Final = 1_795_300_000_000_000

_HOLDING: Final = (AskPlace.BOUND, AskPlace.WAITING)

LARGEST = 2**63 - 1
"""The largest integer that a client in Go reads."""


def _feeds() -> Iterator[str]:
    for path in sorted(FEEDS.glob("*/*.yaml")):
        yield str(path.relative_to(FEEDS))


def _play(feed: str) -> LedgerScheduler:
    """Play the events of a feed, those of one instant in one batch; unreadable events are skipped."""
    scheduler = LedgerScheduler()
    events: list[Event] = []
    now_us = 0
    for item in read_feed(FEEDS / feed):
        if item.at_us > now_us and events:
            scheduler.batch(now_us, events)
            events = []
        now_us = max(now_us, item.at_us)
        if isinstance(item.content, Event):
            events.append(item.content)
    scheduler.batch(now_us, events)
    return scheduler


@pytest.mark.parametrize("folder", sorted({Path(feed).parent.name for feed in _feeds()}))
def test_all_answers_agree(folder: str) -> None:
    feeds = [feed for feed in _feeds() if Path(feed).parent.name == folder]
    played = 0
    for feed in feeds:
        try:
            scheduler = _play(feed)
        except FeedError:
            continue  # It is not a feed as a whole, and that is what it shows.
        played += 1
        _check_agreement(scheduler, feed)
    assert played > len(feeds) // 2


def _check_agreement(scheduler: LedgerScheduler, feed: str) -> None:
    snapshot = scheduler.plain.snapshot()
    assert in_ledger(scheduler.ledger) == in_state(snapshot), feed
    seen = YuniKornState(scheduler.plain.machine, scheduler.ledger, ORIGIN_US, ORIGIN_US, "muster")
    now_us = scheduler.plain.machine.now_us
    dump = all_at_once(everything(seen, now_us))
    dump |= {"logLevel": "INFO", "config": {}, "eventStreams": []}
    assert wrong_in("{dump}", dump, feed) == []
    _check_partition(dump, snapshot, feed)
    _check_nodes(dump, snapshot, feed)
    for root in dump["queues"]:
        _check_queue(root, snapshot, feed)
    _check_applications(dump, snapshot, feed)
    _check_rest(seen, snapshot, feed)
    _check_events(scheduler, feed)


# REST-6
def _check_partition(dump: JsonObject, snapshot: Snapshot, feed: str) -> None:
    (partition,) = dump["partitions"]
    states = Counter(str(app.state) for app in snapshot.apps.values())
    completed = len(snapshot.completed)
    total = states.total() + completed
    expected = {**states, **({"Completed": completed} if completed else {}), "total": total}
    assert partition["applications"] == expected, feed
    assert partition["totalNodes"] == len(snapshot.nodes)
    held = [ask for app in snapshot.apps.values() for ask in app.asks if ask.place in _HOLDING]
    assert partition["totalContainers"] == len(held), feed
    whole: Counter[str] = Counter()
    for node in snapshot.nodes.values():
        whole.update(node.capacity)
    capacity = partition["capacity"]["capacity"]
    assert {kind: amount for kind, amount in capacity.items() if amount} == as_reported(whole)


# REST-13
def _check_nodes(dump: JsonObject, snapshot: Snapshot, feed: str) -> None:
    ((_, nodes),) = [one.values() for one in dump["nodes"]]
    assert [node["nodeID"] for node in nodes] == sorted(snapshot.nodes)
    for node in nodes:
        known = snapshot.nodes[node["nodeID"]]
        assert node["schedulable"] == known.schedulable
        assert _bare(node["allocated"]) == _bare(known.used), feed
        on_it: Counter[str] = Counter()
        for one in node["allocations"]:
            on_it.update(one["resource"])
            assert one["nodeId"] == node["nodeID"]
        assert on_it == _bare(known.used), feed
        assert node.get("occupied", {}) == known.reserved
        for kind, amount in node["capacity"].items():
            free, others = amount - node["allocated"][kind], known.reserved.get(kind)
            assert node["available"][kind] == (free if others is None else max(free - others, 0))
            assert node["utilized"][kind] == int(node["allocated"][kind] / amount * 100)


# REST-7
def _check_queue(queue: JsonObject, snapshot: Snapshot, feed: str) -> None:
    known = snapshot.queues[queue["queuename"]]
    lowest = -(2**31)
    assert queue["currentPriority"] == (lowest if known.priority is None else known.priority)
    assert queue["status"] == ("Draining" if known.draining else "Active")
    assert _bare(queue["allocatedResource"]) == as_reported(known.allocated)
    assert _bare(queue["pendingResource"]) == as_reported(known.pending)
    running = [
        name
        for name, app in snapshot.apps.items()
        if _is_below(app.queue, queue["queuename"])
        and (
            app.state in {"Starting", "Running"}
            or any(ask.place is AskPlace.WAITING for ask in app.asks)
        )
    ]
    assert queue["runningApps"] == len(running), feed
    accepted = {name for name in running if snapshot.apps[name].state == "Accepted"}
    assert set(queue.get("allocatingAcceptedApps", ())) == accepted
    assert [child["queuename"] for child in queue["children"]] == queue["childNames"]
    for child in queue["children"]:
        assert child["parent"] == queue["queuename"]
        _check_queue(child, snapshot, feed)


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}.")


# REST-9, REST-10, REST-11
def _check_applications(dump: JsonObject, snapshot: Snapshot, feed: str) -> None:
    live = [app for app in dump["applications"] if app["applicationState"] != "Completed"]
    assert {app["applicationID"] for app in live} == snapshot.apps.keys()
    done = {app["applicationID"] for app in dump["applications"]} - snapshot.apps.keys()
    assert done == snapshot.completed, feed
    for app in live:
        known = snapshot.apps[app["applicationID"]]
        assert (app["applicationState"], app["queueName"]) == (str(known.state), known.queue)
        assert app["stateLog"][-1]["applicationState"] == str(known.state), feed
        assert app["stateLog"][0] == {
            "time": app["submissionTime"],
            "applicationState": "New",
        }
        places: dict[str, str] = {ask.name: str(ask.place) for ask in known.asks}
        reported = {one["allocationKey"]: "requests" for one in app["requests"]}
        for one in app["allocations"]:
            reported[one["allocationKey"]] = "waiting" if one.get("placeholder") else "bound"
            assert one["allocationTime"] - one["requestTime"] == one["allocationDelay"] >= 0
        assert reported.keys() == places.keys()
        for name, place in reported.items():
            wanted = {places[name]} if place != "requests" else {"pending", "parked"}
            assert places[name] in (wanted if place == "requests" else {place}), feed
        for one in app["requests"]:
            assert one["allocationLog"], feed
            assert one["priority"] == str(
                next(ask.priority for ask in known.asks if ask.name == one["allocationKey"])
            )
        for kind, amount in app["usedResource"].items():
            assert app["maxUsedResource"][kind] >= amount


# REST-14, REST-19, REST-21, REST-24
def _check_rest(seen: YuniKornState, snapshot: Snapshot, feed: str) -> None:
    checks = all_at_once(health(seen))
    assert wrong_in("{health}", checks) == []
    assert checks["Healthy"], (feed, checks)
    (utilization,) = all_at_once(utilizations(seen))
    for one in utilization["utilizations"]:
        with_it = [node for node in snapshot.nodes.values() if one["type"] in node.capacity]
        assert sum(bucket.get("numOfNodes", 0) for bucket in one["utilization"]) == len(with_it)
    names = {app.user for app in snapshot.apps.values()} - {None}
    of_users = all_at_once(users(seen))
    assert wrong_in("[{user}]", of_users) == []
    assert {one["userName"] for one in of_users} == names
    of_groups = all_at_once(groups(seen))
    assert wrong_in("[{group}]", of_groups) == []
    groups_there = {limit.group for limit in snapshot.limits} - {None}
    assert {one["groupName"] for one in of_groups} == groups_there, feed
    assert all_at_once(metrics(seen)).endswith("\n")


# REST-15
def _check_events(scheduler: LedgerScheduler, feed: str) -> None:
    ring = scheduler.ledger.ring
    events = [event(one, ORIGIN_US) for one in ring.since(0, 10**6)]
    assert wrong_in("[{event}]", events) == []
    counts = Counter((one["type"], one["eventChangeType"]) for one in events)
    states = Counter(one.decision.state for one in scheduler.plain.announced)
    changes = [one for one in events if one["type"] == 2 and one["eventChangeType"] == 1]
    names = {204: "Accepted", 206: "Running", 207: "Completing", 208: "Completed"}
    by_state = Counter(names[one["eventChangeDetail"]] for one in changes)
    assert by_state == Counter({name: states[name] for name in names.values() if states[name]})
    released = [
        one.decision
        for one in scheduler.plain.announced
        if one.decision.kind is Kind.RELEASED and one.decision.node is not None
    ]
    freed = [
        one for one in events if one["eventChangeDetail"] == 303 and one["eventChangeType"] == 3
    ]
    assert Counter((one["objectID"], one["referenceID"]) for one in freed) == Counter(
        (one.node, one.ask) for one in released
    ), feed
    assert counts[3, 2] >= len(_bound(scheduler)), feed


def _bound(scheduler: LedgerScheduler) -> set[tuple[str | None, str | None]]:
    found = (one.decision for one in scheduler.plain.announced if one.decision.kind is Kind.BOUND)
    return {(one.app, one.ask) for one in found}


def as_reported(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return amounts as answers have them."""
    return {kind: min(amount, LARGEST) for kind, amount in amounts.items() if amount}


def _bare(amounts: Mapping[str, Any]) -> dict[str, int]:
    return {kind: amount for kind, amount in amounts.items() if amount}


# REST-10
def test_only_a_few_asks_have_all_their_reasons() -> None:
    scheduler = _play("reasons/never_fits.yaml")
    view = scheduler.plain.machine.view
    seen = YuniKornState(scheduler.plain.machine, scheduler.ledger, ORIGIN_US, ORIGIN_US, "muster")
    apps = [all_at_once(application(seen, app)) for app in view.apps.values()]
    logs = [one["allocationLog"] for app in apps for one in app["requests"]]
    assert any(": " in log[0]["message"] for log in logs)


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
    state = keep_scene(folder / "state")
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


def test_a_required_node_is_shown(served: Served) -> None:
    (request,) = served.client.get(f"{_P}/application/made").json()["requests"]
    assert request["requiredNodeId"] == "node-x"
    assert request["priority"] == "0"
