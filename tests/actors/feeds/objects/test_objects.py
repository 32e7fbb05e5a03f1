from __future__ import annotations

from typing import Any

import pytest

from muster.feeds import Raw
from muster.feeds._kinds import FieldError
from muster.feeds._manifests import FORMS
from muster_core.config.model import Limits
from muster_core.events import (
    AddGang,
    AddPriorityClass,
    AppliedObject,
    NodeObject,
    ObjectKind,
    ObjectName,
    QueueObject,
)
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources

KOORDINATOR = "gang.scheduling.koordinator.sh"
CORE = Resources({"vcore": 1000})


def made(kind: str, **written: Any) -> AppliedObject:  # noqa: ANN401 - whatever stands there
    form = FORMS[kind]
    return form.make(form.shape.parse({"metadata": {"name": "x"}, **written}))


def refusal(kind: str, **written: Any) -> str:  # noqa: ANN401 - whatever stands there
    with pytest.raises(FieldError) as caught:
        made(kind, **written)
    return str(caught.value).removeprefix(".")


def test_every_kind_has_a_form() -> None:
    assert list(FORMS) == list(ObjectKind)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"value": 5}, AddPriorityClass("x", 5)),
        ({"value": -5, "globalDefault": "?"}, AddPriorityClass("x", -5)),
        ({"value": 5, "preemptionPolicy": "Never"}, AddPriorityClass("x", 5)),
        ({"value": 5, "preemptionPolicy": None}, AddPriorityClass("x", 5)),
        (
            {"value": 10**9, "preemptionPolicy": "PreemptLowerPriority", "description": 5},
            AddPriorityClass("x", 10**9, preempts=True),
        ),
    ],
)
def test_priority_classes(written: dict[str, Any], wanted: AppliedObject) -> None:
    assert made("PriorityClass", **written) == wanted


@pytest.mark.parametrize(
    ("spec", "annotations", "wanted"),
    [
        ({"minMember": 3}, {}, GangFields(3)),
        (
            {"minMember": 3, "scheduleTimeoutSeconds": 20, "minResources": {"cpu": "4"}},
            None,
            GangFields(3, wait_us=20_000_000),
        ),
        ({"minMember": 3, "queue": 5, "minTaskMember": []}, {"other": 5}, GangFields(3)),
        (
            {"minMember": 2},
            {
                f"{KOORDINATOR}/total-number": "5",
                f"{KOORDINATOR}/mode": "NONSTRICT",
                f"{KOORDINATOR}/groups": '["default/x", "b"]',
            },
            GangFields(2, 5, GangMode.NON_STRICT, None, ("default/b", "default/x")),
        ),
        ({"minMember": 2}, {f"{KOORDINATOR}/gang-groups": []}, GangFields(2, groups=())),
        ({"minMember": 2}, {f"{KOORDINATOR}/min-available": "none"}, GangFields(2)),
    ],
)
def test_pod_groups(spec: Any, annotations: Any, wanted: GangFields) -> None:  # noqa: ANN401
    metadata = {"name": "x", "annotations": annotations}

    assert made("PodGroup", metadata=metadata, spec=spec) == AddGang("default/x", wanted)


@pytest.mark.parametrize(
    ("namespace", "gang"), [(None, "default/g"), ("", "default/g"), ("y", "y/g")]
)
def test_a_pod_group_is_named_by_its_namespace(namespace: str | None, gang: str) -> None:
    metadata: Raw = {"name": "g", "namespace": namespace}
    found = made("PodGroup", metadata=metadata, spec={"minMember": 1})
    form = FORMS["PodGroup"]

    assert isinstance(found, AddGang)
    assert found.gang == gang
    assert form.name(form.names.parse({"metadata": metadata})) == ObjectName(
        ObjectKind.POD_GROUP, gang
    )


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({}, NodeObject("x")),
        ({"spec": {"unschedulable": None}, "status": None}, NodeObject("x")),
        ({"spec": {"unschedulable": True, "taints": 5}}, NodeObject("x", schedulable=False)),
        ({"spec": {"unschedulable": False}}, NodeObject("x")),
        ({"status": {"capacity": {"cpu": "1"}}}, NodeObject("x", CORE)),
        ({"status": {"allocatable": {"cpu": 1}, "capacity": {"cpu": 2}}}, NodeObject("x", CORE)),
        ({"status": {"allocatable": {}, "capacity": {"cpu": 2}}}, NodeObject("x", Resources())),
        (
            {"metadata": {"name": "x", "labels": {"a": "b", "c": True}, "annotations": 5}},
            NodeObject("x", None, {"a": "b", "c": "true"}),
        ),
    ],
)
def test_nodes(written: dict[str, Any], wanted: AppliedObject) -> None:
    assert made("Node", **written) == wanted


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (None, QueueObject("x")),
        ({"weight": "?", "guarantee": None, "parent": ""}, QueueObject("x")),
        ({"parent": "root.a", "priority": 0}, QueueObject("x", "root.a", 0)),
        ({"reclaimable": False}, QueueObject("x", reclaimable=False)),
        (
            {"capability": {"cpu": 1, "memory": 0}},
            QueueObject("x", max=Limits((("memory", 0), ("vcore", 1000)))),
        ),
        ({"guarantee": {"resource": {"cpu": 1}}}, QueueObject("x", guaranteed=CORE)),
        (
            {"guarantee": {"resource": {"cpu": 2}}, "deserved": {"cpu": 1}},
            QueueObject("x", guaranteed=CORE),
        ),
        (
            {"deserved": {"cpu": 1}, "guarantee": {"resource": {"cpu": 2}}},
            QueueObject("x", guaranteed=CORE),
        ),
    ],
)
def test_queues(spec: dict[str, Any] | None, wanted: AppliedObject) -> None:
    assert made("Queue", spec=spec) == wanted


@pytest.mark.parametrize(
    ("kind", "written", "message"),
    [
        ("PriorityClass", {}, "value: is missing"),
        ("PriorityClass", {"value": "5"}, "value: '5' is a text, not a number"),
        ("PriorityClass", {"value": 10**9 + 1}, "value: 1000000001 is not a whole number"),
        ("PriorityClass", {"value": 5, "preemptionPolicy": "no"}, "preemptionPolicy: 'no' is none"),
        (
            "PriorityClass",
            {"value": 5, "metadata": {"name": "system-x"}},
            "metadata.name: 'system-x' starts with 'system-'",
        ),
        ("PodGroup", {}, "spec.minMember: is missing"),
        ("PodGroup", {"spec": {"minMember": 0}}, "spec.minMember: 0 is not a whole number"),
        ("PodGroup", {"spec": {"minMember": "1"}}, "spec.minMember: '1' is a text, not a number"),
        (
            "PodGroup",
            {"spec": {"minMember": 1, "scheduleTimeoutSeconds": 0}},
            "spec.scheduleTimeoutSeconds: 0 is not a whole number between 1 and",
        ),
        (
            "PodGroup",
            {"spec": {"minMember": 1, "minResources": {"cpu": "x"}}},
            "spec.minResources.cpu: 'x' is not a quantity",
        ),
        (
            "PodGroup",
            {
                "metadata": {"name": "x", "annotations": {f"{KOORDINATOR}/total-number": "2"}},
                "spec": {"minMember": 3},
            },
            f"metadata.annotations.{KOORDINATOR}/total-number: '2' is less than 3 of spec.minMember",
        ),
        (
            "PodGroup",
            {
                "metadata": {
                    "name": "x",
                    "annotations": {
                        f"{KOORDINATOR}/groups": ["a"],
                        f"{KOORDINATOR}/gang-groups": '["b"]',
                    },
                },
                "spec": {"minMember": 3},
            },
            f"metadata.annotations.{KOORDINATOR}/gang-groups: '[\"b\"]' differs from a list of ",
        ),
        (
            "PodGroup",
            {"metadata": {"name": "A"}},
            "metadata.name: 'A' is not an RFC 1123 subdomain",
        ),
        (
            "PodGroup",
            {"metadata": {"name": "a", "namespace": "A"}},
            "metadata.namespace: 'A' is not",
        ),
        ("Node", {"metadata": {}}, "metadata.name: is missing"),
        ("Node", {"metadata": None}, "metadata.name: is missing"),
        (
            "Node",
            {"spec": {"unschedulable": "true"}},
            "spec.unschedulable: 'true' is not a boolean",
        ),
        (
            "Node",
            {"status": {"capacity": {"cpu": []}}},
            "status.capacity.cpu: a list is not a quan",
        ),
        ("Node", {"metadata": {"name": "x", "labels": {"a": []}}}, "metadata.labels.a: a list is"),
        ("Queue", {"metadata": {"name": "a.b"}}, "metadata.name: 'a.b' is not a name of a queue"),
        ("Queue", {"spec": {"parent": "a b"}}, "spec.parent: 'a b' is not a name of a queue"),
        ("Queue", {"spec": {"priority": -1}}, "spec.priority: -1 is not a whole number between 0"),
        ("Queue", {"spec": {"reclaimable": "no"}}, "spec.reclaimable: 'no' is not a boolean"),
        ("Queue", {"spec": {"capability": {"cpu": -1}}}, "spec.capability.cpu: '-1' is negative"),
        ("Queue", {"spec": {"deserved": 5}}, "spec.deserved: 5 is not a map of resource types"),
        (
            "Queue",
            {"spec": {"guarantee": {"resource": {"memory": "1m"}}}},
            "spec.guarantee.resource.memory: '1m' is not a quantity",
        ),
    ],
)
def test_what_is_refused_and_why(kind: str, written: dict[str, Any], message: str) -> None:
    assert refusal(kind, **written).startswith(message)


@pytest.mark.parametrize("kind", ["PriorityClass", "Node", "Queue"])
def test_of_what_goes_only_the_name_counts(kind: str) -> None:
    form = FORMS[kind]
    written: Any = {"metadata": {"name": "X", "labels": 5}, "spec": 5, "value": "?"}

    assert form.name(form.names.parse(written)) == ObjectName(ObjectKind(kind), "X")
