"""Kubernetes objects in feeds: manifests, the cluster, lists and shapes."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from muster.feeds import Content, Encoding, Plain, Raw, Refused, convert, read_feed
from muster.feeds._kinds import INT32, NAME, FieldError, Kind
from muster.feeds._manifests import FORMS
from muster.feeds._schema import (
    AMOUNTS,
    GROUP_NAME,
    LIMITS,
    NAMESPACE,
    QUEUE_NAME,
    QUEUE_PATH,
    ObjectSchema,
    as_kubernetes,
    schema_field,
    unless_empty,
)
from muster_core.config.model import Limits
from muster_core.events import (
    AddGang,
    AddPriorityClass,
    AppliedObject,
    Apply,
    Delete,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    QueueObject,
)
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from muster_core.values.affinity import Taint, TaintEffect
from tests.actors.feeds.helpers import content, items, refusal

KOORDINATOR = "gang.scheduling.koordinator.sh"
CORE = Resources({"vcore": 1000})


def made(kind: str, **written: Any) -> AppliedObject:  # noqa: ANN401 - whatever stands there
    form = FORMS[kind]
    return form.make(form.shape.parse({"metadata": {"name": "x"}, **written}))


def object_refusal(kind: str, **written: Any) -> str:  # noqa: ANN401 - whatever stands there
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
        ({"spec": {"unschedulable": True}}, NodeObject("x", schedulable=False)),
        ({"spec": {"taints": None}}, NodeObject("x")),
        (
            {"spec": {"taints": [{"key": "k", "value": 5, "effect": "NoExecute", "x": 5}]}},
            NodeObject("x", taints=(Taint("k", TaintEffect.NO_EXECUTE, "5"),)),
        ),
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
        ({"type": "?", "guarantee": None, "parent": ""}, QueueObject("x")),
        ({"weight": 3}, QueueObject("x", weight=3)),
        ({"weight": 0}, QueueObject("x")),
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
        ("Queue", {"spec": {"weight": -1}}, "spec.weight: -1 is not a whole number between 0 and"),
        ("Queue", {"spec": {"capability": {"cpu": -1}}}, "spec.capability.cpu: '-1' is negative"),
        ("Queue", {"spec": {"deserved": 5}}, "spec.deserved: 5 is not a map of resource types"),
        (
            "Queue",
            {"spec": {"guarantee": {"resource": {"memory": "1m"}}}},
            "spec.guarantee.resource.memory: '1m' is not a quantity",
        ),
    ],
)
def test_which_objects_are_refused_and_why(
    kind: str, written: dict[str, Any], message: str
) -> None:
    assert object_refusal(kind, **written).startswith(message)


@pytest.mark.parametrize("kind", ["PriorityClass", "Node", "Queue"])
def test_of_what_goes_only_the_name_counts(kind: str) -> None:
    form = FORMS[kind]
    written: Any = {"metadata": {"name": "X", "labels": 5}, "spec": 5, "value": "?"}

    assert form.name(form.names.parse(written)) == ObjectName(ObjectKind(kind), "X")


NODE = "{kind: Node, metadata: {name: n}}"
GROUP = "{kind: PodGroup, metadata: {name: g, namespace: x}, spec: {minMember: 2}}"
CLASS = "{kind: PriorityClass, metadata: {name: c}, value: 5}"


def test_one_object() -> None:
    assert content(f"{{op: apply, manifest: {GROUP}}}") == Apply(
        (Manifest(AddGang("x/g", GangFields(2))),)
    )
    assert content(f"{{op: delete, manifest: {GROUP}}}") == Delete(
        (Manifest(ObjectName(ObjectKind.POD_GROUP, "x/g")),)
    )


def test_a_list_of_objects() -> None:
    listed = f"{{kind: List, apiVersion: v1, metadata: {{}}, items: [{NODE}, {CLASS}]}}"

    assert content(f"{{op: apply, manifest: {listed}}}") == Apply(
        (
            Manifest(NodeObject("n"), "manifest.items[0]"),
            Manifest(AddPriorityClass("c", 5), "manifest.items[1]"),
        )
    )
    assert content(f"{{op: delete, manifest: {listed}}}") == Delete(
        (
            Manifest(ObjectName(ObjectKind.NODE, "n"), "manifest.items[0]"),
            Manifest(ObjectName(ObjectKind.PRIORITY_CLASS, "c"), "manifest.items[1]"),
        )
    )


@pytest.mark.parametrize("items", ["", ", items: []", ", items: null", ", items: "])
@pytest.mark.parametrize(("op", "wanted"), [("apply", Apply(())), ("delete", Delete(()))])
def test_an_empty_list(items: str, op: str, wanted: Content) -> None:
    assert content(f"{{op: {op}, manifest: {{kind: List{items}}}}}") == wanted


@pytest.mark.parametrize("op", ["apply", "delete"])
@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("", "manifest: nothing is not a map"),
        ("x", "manifest: 'x' is not a map"),
        ("[]", "manifest: a list is not a map"),
        (
            "{}",
            "manifest.kind: is missing: there are PriorityClass, PodGroup, Node, Pod, Queue, and",
        ),
        ("{kind: }", "manifest.kind: nothing is not known: there are PriorityClass, "),
        ("{kind: [Node]}", "manifest.kind: a list is not known: "),
        ("{kind: node}", "manifest.kind: 'node' is not known: there are PriorityClass, PodGroup,"),
        ("{kind: Deployment}", "manifest.kind: 'Deployment' is not known: "),
        ("{kind: Node}", "manifest.metadata.name: is missing"),
        ("{kind: Pod, metadata: {name: p}}", "manifest.metadata.labels.applicationId: is missing"),
        ("{kind: List, items: {}}", "manifest.items: a map is not a list"),
        ("{kind: List, items: [5]}", "manifest.items[0]: '5' is not a map"),
        ("{kind: List, items: [{}]}", "manifest.items[0].kind: is missing: there are "),
        ("{kind: List, items: [{kind: List}]}", "manifest.items[0].kind: 'List' is not known: "),
        (f"{{kind: List, items: [{NODE}, {{kind: Node}}]}}", "manifest.items[1].metadata.name: is"),
        (
            f"{{kind: List, items: [{NODE}, {{kind: Pod, metadata: {{name: p}}}}]}}",
            "manifest.items[1].metadata.labels.applicationId: is missing",
        ),
    ],
)
def test_which_manifests_are_refused_and_why(op: str, manifest: str, message: str) -> None:
    assert refusal(f"{{op: {op}, manifest: {manifest}}}").startswith(message)


def test_what_is_wrong_deep_inside_has_its_whole_path() -> None:
    pod = """
    {kind: Pod, metadata: {name: p, labels: {applicationId: a}},
    spec: {containers: [{resources: {requests: {cpu: 1x}}}]}}
    """
    message = refusal(f"{{op: apply, manifest: {{kind: List, items: [{NODE}, {NODE}, {pod}]}}}}")

    place = "manifest.items[2].spec.containers[0].resources.requests.cpu"
    assert message.startswith(f"{place}: '1x' is not a quantity")


def test_a_manifest_is_needed() -> None:
    assert refusal("{op: apply}") == "manifest: is missing"
    assert refusal("{op: apply, manifest: {}, file: x}").startswith("manifest.kind: is missing")


FEED = """
- op: apply
  manifest:
    apiVersion: v1
    kind: List
    metadata: {resourceVersion: }
    items:
      - kind: Node
        metadata:
          name: 010
          labels: {a: true, b: 3, c: 1.50, d: off}
          annotations: {e: true}
        spec: {unschedulable: yes, taints: [{key: off, value: 010, effect: NoSchedule}]}
        status: {capacity: {cpu: 010, memory: 1.50Gi, pods: 1e3}}
      - kind: Pod
        metadata:
          name: 12:30
          namespace: 5
          creationTimestamp: 2026-01-01T00:00:00Z
          labels:
            applicationId: 010
            scheduling.x-k8s.io/pod-group: 010
            gang.scheduling.koordinator.sh/min-available: 02
          annotations:
            gang.scheduling.koordinator.sh/waiting-time: 3600
            gang.scheduling.koordinator.sh/groups: [1, off]
            gang.scheduling.koordinator.sh/timeout: true
        spec:
          priority: -5
          hostNetwork: true
          nodeSelector: {ssd: true, zone: 010}
          containers: [{resources: {requests: {cpu: 0.10}, limits: {cpu: 0.10}}}]
        status: {phase: Pending}
- op: apply
  manifest:
    kind: PodGroup
    metadata: {name: 1.5, annotations: {gang.scheduling.koordinator.sh/groups: '["a"]'}}
    spec: {minMember: 02, scheduleTimeoutSeconds: 30, minResources: {cpu: 1.0}}
- op: apply
  manifest: {kind: Secret, data: {a: 010}, metadata: {labels: {a: 010}}}
- op: apply
  manifest: {kind: List, items: 010}
- op: delete
  manifest: {kind: PodGroup, metadata: {name: 1.5}, spec: off}
"""


@pytest.mark.parametrize("via", list(Encoding))
@pytest.mark.parametrize("to", list(Encoding))
def test_a_converted_manifest_is_the_same(via: Encoding, to: Encoding) -> None:
    first, second = io.BytesIO(), io.BytesIO()
    convert(io.BytesIO(FEED.encode()), first, target_encoding=via)
    convert(io.BytesIO(first.getvalue()), second, source_encoding=via, target_encoding=to)

    found = [item.content for item in read_feed(io.BytesIO(second.getvalue()), encoding=to)]
    wanted = [item.content for item in items(FEED)]
    assert isinstance(found[3], Refused)  # as it was, but for how the value is written
    assert isinstance(wanted[3], Refused)
    assert found[:3] + found[4:] == wanted[:3] + wanted[4:]


def test_what_the_fields_make_of_plain_texts() -> None:
    out = io.BytesIO()
    convert(io.BytesIO(FEED.encode()), out)
    events = [json.loads(line)["manifest"] for line in out.getvalue().splitlines()]

    assert events[0] == {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": None},
        "items": [
            {
                "kind": "Node",
                "metadata": {
                    "name": "010",
                    "labels": {"a": "true", "b": "3", "c": "1.50", "d": "off"},
                    "annotations": {"e": "true"},
                },
                "spec": {"unschedulable": True, "taints": [{"key": "off", "value": "010", "effect": "NoSchedule"}]},
                "status": {"capacity": {"cpu": "010", "memory": "1.50Gi", "pods": "1e3"}},
            },
            {
                "kind": "Pod",
                "metadata": {
                    "name": "12:30",
                    "namespace": "5",
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "labels": {
                        "applicationId": "010",
                        "scheduling.x-k8s.io/pod-group": "010",
                        "gang.scheduling.koordinator.sh/min-available": "02",
                    },
                    "annotations": {
                        "gang.scheduling.koordinator.sh/waiting-time": "3600",
                        "gang.scheduling.koordinator.sh/groups": ["1", "off"],
                        "gang.scheduling.koordinator.sh/timeout": "true",
                    },
                },
                "spec": {
                    "priority": -5,
                    "hostNetwork": True,
                    "nodeSelector": {"ssd": "true", "zone": "010"},
                    "containers": [{"resources": {
                        "requests": {"cpu": "0.10"}, "limits": {"cpu": 0.1},
                    }}],
                },
                "status": {"phase": "Pending"},
            },
        ],
    }  # fmt: skip
    assert events[1]["spec"] == {
        "minMember": 2,
        "scheduleTimeoutSeconds": 30,
        "minResources": {"cpu": "1.0"},
    }
    assert events[2] == {"kind": "Secret", "data": {"a": 10}, "metadata": {"labels": {"a": "010"}}}


GIB = 2**30


def test_cpu_is_vcore() -> None:
    written: Raw = {"cpu": "500m", "memory": "1Gi", "pods": 110, "nvidia.com/gpu": Plain("2")}
    amounts = {"vcore": 500, "memory": GIB, "pods": 110, "nvidia.com/gpu": 2}

    assert AMOUNTS.parse(written) == Resources(amounts)
    assert dict(LIMITS.parse(written).amounts) == amounts


def test_a_limit_may_be_zero() -> None:
    assert LIMITS.parse({"cpu": 0, "memory": "1"}).amounts == (("memory", 1), ("vcore", 0))
    assert AMOUNTS.parse({"cpu": 0, "memory": "1"}) == Resources({"memory": 1})


@pytest.mark.parametrize("kind", [AMOUNTS, LIMITS])
@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "a list is not a map of resource types and quantities"),
        (Plain("5"), "'5' is not a map"),
        ({"cpu": "1x"}, ".cpu: '1x' is not a quantity"),
        ({"cpu": "0.1m"}, ".cpu: '0.1m' is not a whole number of millicores"),
        ({"cpu": -1}, ".cpu: '-1' is negative"),
        ({"memory": "100m"}, ".memory: '100m' is not a quantity"),
        ({"memory": None}, ".memory: null is not a quantity"),
        ({"memory": True}, ".memory: true is not a quantity"),
        ({"": 1}, "a resource type has an empty name"),
        ({"cpu": 1, "vcore": 2}, ".vcore: 2 stands beside cpu or vcore, which is the same type"),
        ({"vcore": 1, "cpu": 1}, ".cpu: 1 stands beside cpu or vcore, which is the same type"),
    ],
)
def test_what_are_no_amounts(kind: Kind[object], written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        kind.parse(written)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (NAMESPACE, "a-1", "a-1"),
        (NAMESPACE, Plain("1"), "1"),
        (NAMESPACE, "", None),
        (GROUP_NAME, "a.b-1", "a.b-1"),
        (QUEUE_NAME, "Q_1", "Q_1"),
        (QUEUE_PATH, "Root.a.B", "Root.a.B"),
        (unless_empty(NAME), "", None),
        (unless_empty(NAME), "a", "a"),
    ],
)
def test_names(kind: Kind[object], value: Raw, wanted: str | None) -> None:
    assert kind.parse(value) == wanted


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (NAMESPACE, "A", "'A' is not an RFC 1123 label, which a namespace is"),
        (NAMESPACE, "a.b", "'a.b' is not an RFC 1123 label"),
        (NAMESPACE, "a/b", "'a/b' is not an RFC 1123 label"),
        (NAMESPACE, [], "a list is not a text"),
        (GROUP_NAME, "a/b", "'a/b' is not an RFC 1123 subdomain, which a name is"),
        (GROUP_NAME, "A", "'A' is not an RFC 1123 subdomain"),
        (GROUP_NAME, "", "'' is empty"),
        (QUEUE_NAME, "a.b", "'a.b' is not a name of a queue"),
        (QUEUE_PATH, "a..b", "'' is not a name of a queue"),
    ],
)
def test_what_are_no_names(kind: Kind[object], value: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        kind.parse(value)

    assert str(caught.value).startswith(message)


SHAPE = ObjectSchema({
    "name": schema_field("called", NAME, required=True),
    "spec": ObjectSchema({"count": schema_field("count", INT32), "of": schema_field("of", NAME, required=True)}),
    "status": ObjectSchema({"count": schema_field("found", INT32)}),
})  # fmt: skip


def test_what_matters_is_found_wherever_it_is() -> None:
    written: Raw = {"status": None, "name": "a", "spec": {"of": "b", "count": 3, "x": []}, "y": 1}

    assert SHAPE.parse(written) == {"called": "a", "count": 3, "of": "b"}


def test_null_is_no_field() -> None:
    assert SHAPE.parse({"name": "a", "spec": {"of": "b", "count": Plain("~")}}) == {
        "called": "a",
        "of": "b",
    }


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "a list is not a map"),
        (None, ".name: is missing"),
        ({}, ".name: is missing"),
        ({"name": None}, ".name: null is not a text"),
        ({"name": "a"}, ".spec.of: is missing"),
        ({"name": "a", "spec": None}, ".spec.of: is missing"),
        ({"name": "a", "spec": 5}, ".spec: 5 is not a map"),
        ({"name": "a", "spec": {"of": "b", "count": "c"}}, ".spec.count: 'c' is a text"),
        ({"name": "a", "spec": {"of": "b"}, "status": []}, ".status: a list is not a map"),
    ],
)
def test_what_has_another_shape(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        SHAPE.parse(written)

    assert str(caught.value).startswith(message)


def test_the_normal_form() -> None:
    written: Raw = {
        Plain("name"): Plain("010"),
        Plain("spec"): {"count": Plain("010"), "other": Plain("010")},
        "status": Plain(""),
        "y": Plain("off"),
        "labels": {"a": Plain("true")},
    }

    assert SHAPE.normal(written) == {
        "name": "010",
        "spec": {"count": 10, "other": 10},
        "status": None,
        "y": "off",
        "labels": {"a": "true"},
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("true", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("tRUE", "tRUE"),
        ("", None),
        ("Null", None),
        ("-12", -12),
        ("+3", 3),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1.50", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1e400", "inf"),
        (".inf", ".inf"),
        ("9" * 30, "9" * 30),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00Z"),
        ("500m", "500m"),
    ],
)
def test_plain_text_in_a_field_of_which_nothing_is_known(written: str, meant: Raw) -> None:
    assert as_kubernetes(Plain(written)) == meant
    assert type(as_kubernetes(Plain(written))) is type(meant)


def test_what_is_quoted_is_a_text() -> None:
    assert as_kubernetes({"a": "true", "b": ["3"], "c": 3, "d": True}) == {
        "a": "true",
        "b": ["3"],
        "c": 3,
        "d": True,
    }


@pytest.mark.parametrize("name", ["labels", "annotations", "matchLabels", "nodeSelector"])
def test_labels_and_annotations_are_texts_as_they_stand(name: str) -> None:
    written: Raw = {
        "spec": [{name: {"a": Plain("true"), "b": Plain("3"), "c": Plain("~"), "d": 4}}]
    }

    assert as_kubernetes(written) == {"spec": [{name: {"a": "true", "b": "3", "c": None, "d": 4}}]}
