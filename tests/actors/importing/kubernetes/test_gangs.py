"""Gangs: PodGroups, annotations of Koordinator, task groups of YuniKorn."""

from __future__ import annotations

import json

from tests.actors.importing.kubernetes.feeds import fed
from tests.actors.importing.kubernetes.samples import Object, node, other, pod

LABEL = {"pod-group.scheduling.sigs.k8s.io": "g"}


def members(number: int, labels: Object = LABEL, minute: int = 0) -> list[Object]:
    return [
        pod(
            f"m{minute}-{one}",
            created=f"{minute:02}:{one:02}",
            bound=f"{minute:02}:30",
            labels=labels,
        )
        for one in range(number)
    ]


# KUBERNETES-11: Gangs
def test_a_pod_group_is_a_gang_that_is_there_before_its_first_pod() -> None:
    feed = fed(*members(3), node(), other("PodGroup", "g", {"minMember": 2}))

    assert feed.of("add_gang") == [{"gang": "default/g", "min_member": 2}]
    ops = [event["op"] for event in feed.events]
    assert ops.index("add_gang") < ops.index("add_app")
    assert [ask["gang"] for ask in feed.of("add_ask")] == ["default/g"] * 3
    assert feed.account.taken["pod group"] == 1


def test_annotations_of_koordinator_override_the_object() -> None:
    key = "gang.scheduling.koordinator.sh"
    marks = {f"{key}/name": "g", f"{key}/min-available": "3", f"{key}/waiting-time": "90s"}
    marks |= {f"{key}/mode": "NonStrict", f"{key}/groups": '["default/g", "default/none"]'}
    feed = fed(*members(3, marks), node(), other("PodGroup", "g", {"minMember": 2}))

    assert feed.of("add_gang") == [
        {
            "gang": "default/g",
            "min_member": 3,
            "mode": "NonStrict",
            "wait_time": 90,
            "groups": ["default/g"],
        }
    ]


def test_a_group_that_needs_one_pod_is_no_gang() -> None:
    feed = fed(*members(2), node(), other("PodGroup", "g", {"minMember": 1}))

    assert not feed.of("add_gang")
    assert feed.left_out == ["1 pod group: needs one member, as any pod does"]


def test_a_group_without_pods_is_left_out() -> None:
    feed = fed(pod(), node(), other("PodGroup", "g", {"minMember": 2}))

    assert feed.left_out == ["1 pod group: no pod of it is taken"]


# KUBERNETES-12: Task groups of YuniKorn
def test_a_task_group_of_yunikorn_is_a_gang() -> None:
    key = "yunikorn.apache.org"
    groups = [{"name": "driver", "minMember": 1}, {"name": "Exec", "minMember": 2}]
    driver = {f"{key}/task-groups": json.dumps(groups), f"{key}/task-group-name": "driver"}
    worker = {f"{key}/task-group-name": "Exec"}
    labels = {f"{key}/app-id": "spark"}
    feed = fed(
        pod("d", labels=labels, annotations=driver),
        pod("e1", labels=labels, annotations=worker),
        pod("e2", labels=labels, annotations=worker),
        node(),
    )
    (gang,) = feed.of("add_gang")

    assert gang["min_member"] == 2
    assert [ask.get("gang") for ask in feed.of("add_ask")] == [None, gang["gang"], gang["gang"]]


# KUBERNETES-13: A gang needs no more members than came
def test_a_gang_with_fewer_pods_than_it_needs_can_start() -> None:
    feed = fed(*members(3), node(), other("PodGroup", "g", {"minMember": 5}))

    assert feed.of("add_gang")[0]["min_member"] == 3
    (note,) = feed.account.changes
    assert (note.what, note.example) == ("gang", "default/g: 3 of 5")


def test_pods_that_came_long_after_the_start_are_not_waited_for() -> None:
    feed = fed(
        *members(3), *members(2, minute=50), node(), other("PodGroup", "g", {"minMember": 5})
    )

    assert feed.of("add_gang")[0]["min_member"] == 3


def test_gangs_without_a_wait_wait_long_in_a_made_configuration() -> None:
    feed = fed(*members(3), node(), other("PodGroup", "g", {"minMember": 2}))
    told = {"minMember": 2, "scheduleTimeoutSeconds": 60}

    assert feed.settings == {"root": {"properties": {"gang.wait.time": "24h"}}}
    assert fed(*members(3), node(), other("PodGroup", "g", told)).settings == {}
