from __future__ import annotations

import io
import json

import pytest

from muster.feeds import Content, Encoding, Refused, convert, read_feed
from muster_core.events import (
    AddGang,
    AddPriorityClass,
    Apply,
    Delete,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
)
from muster_core.gangs import GangFields
from tests.actors.feeds.helpers import content, items, refusal

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
def test_what_is_refused_and_why(op: str, manifest: str, message: str) -> None:
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
        spec: {unschedulable: yes, taints: [{key: off, value: 010}]}
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
                "spec": {"unschedulable": True, "taints": [{"key": "off", "value": 10}]},
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
