from __future__ import annotations

from typing import Any

import attrs
import pytest

from muster.feeds._kinds import FieldError
from muster.feeds._manifests import POD, POD_NAME, name_of_pod, pod
from muster_core.events import AddAsk, ObjectKind, ObjectName, PodObject
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources

KOORDINATOR = "gang.scheduling.koordinator.sh"
CORE = Resources({"vcore": 1000})


def manifest(
    spec: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - whatever stands in a manifest
) -> dict[str, Any]:
    """Give a Pod `p` of the application `a` that requests a core."""
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"applicationId": "a", **(labels or {})},
            "annotations": annotations or {},
            **more.pop("metadata", {}),
        },
        "spec": {"containers": containers, **(spec or {})},
        **more,
    }


def read(written: dict[str, Any]) -> PodObject:
    return pod(POD.parse(written))


def ask_of(written: dict[str, Any]) -> AddAsk:
    found = read(written).ask
    assert found is not None
    return found


def refusal(written: dict[str, Any]) -> str:
    with pytest.raises(FieldError) as caught:
        read(written)
    return str(caught.value).removeprefix(".")


def test_a_pod_is_an_ask_of_its_application() -> None:
    assert read(manifest()) == PodObject("a", "p", None, AddAsk("a", "p", CORE))


def test_its_containers_request_together() -> None:
    containers = [
        {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "x"}}},
        {"resources": {"requests": {"cpu": 1, "nvidia.com/gpu": "2"}}},
        {"name": "asks for nothing"},
        {"resources": None},
    ]
    init = [{"resources": {"requests": {"cpu": 64}}}]

    assert ask_of(
        manifest({"containers": containers, "initContainers": init})
    ).resources == Resources({"vcore": 1500, "memory": 2**30, "nvidia.com/gpu": 2})


def test_what_else_the_ask_has() -> None:
    found = read(
        manifest(
            {
                "priority": 7,
                "priorityClassName": "high",
                "nodeSelector": {"zone": "b", "ssd": True},
                "nodeName": "n1",
                "tolerations": [{"key": 5}],
            }
        )
    )

    assert found.node == "n1"
    assert found.ask == AddAsk("a", "p", CORE, 7, "high", selector={"zone": "b", "ssd": "true"})


def test_empty_texts_say_nothing() -> None:
    found = read(
        manifest(
            {"nodeName": "", "priorityClassName": "", "nodeSelector": None},
            metadata={"namespace": ""},
            status={"phase": ""},
        )
    )

    assert found == read(manifest())


@pytest.mark.parametrize(
    ("labels", "queue"),
    [
        ({}, None),
        ({"queue": "b"}, "b"),
        ({"scheduling.volcano.sh/queue-name": "c"}, "c"),
        ({"scheduling.volcano.sh/queue-name": "c", "queue": "b"}, "b"),
        ({"scheduling.volcano.sh/queue-name": "c", "queue": ""}, "c"),
    ],
)
def test_the_queue_comes_from_labels(labels: dict[str, str], queue: str | None) -> None:
    assert read(manifest(labels=labels)).queue == queue


@pytest.mark.parametrize(
    ("phase", "finished"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True),
     ("Failed", True)],
)  # fmt: skip
def test_the_phase_says_whether_it_has_finished(phase: str, finished: bool) -> None:
    found = read(manifest(status={"phase": phase, "conditions": []}))

    assert found.finished is finished
    assert (found.ask is None) is finished


@pytest.mark.parametrize(
    "spec", [{"containers": []}, {"containers": None}, {"containers": [{"name": "x"}]}]
)
def test_one_that_requests_nothing_can_be_no_new_ask(spec: dict[str, Any]) -> None:
    assert read(manifest(spec)) == PodObject("a", "p")


def test_a_part_of_a_pod_is_enough_to_say_that_it_has_finished() -> None:
    written = {
        "metadata": {"name": "p", "labels": {"applicationId": "a"}},
        "status": {"phase": "Failed"},
    }

    assert read(written) == PodObject("a", "p", finished=True)


def test_its_namespace() -> None:
    assert read(manifest(metadata={"namespace": "team"})).namespace == "team"


USER_INFO = "yunikorn.apache.org/user.info"


@pytest.mark.parametrize(
    ("written", "user", "groups"),
    [
        ('{"user": "sue", "groups": ["dev", "ops"]}', "sue", ("dev", "ops")),
        (' {"groups": [], "user": "sue", "more": 1} ', "sue", ()),
        ('{"user": "sue"}', "sue", ()),
        ('{"user": "sue", "groups": null}', "sue", ()),
        ('{"user": "", "groups": ["dev"]}', None, ("dev",)),
        ("{}", None, ()),
    ],
)
def test_an_annotation_says_whose_application_it_is(
    written: str, user: str | None, groups: tuple[str, ...]
) -> None:
    found = read(manifest(annotations={USER_INFO: written}))

    assert (found.user, found.groups) == (user, groups)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "sue",
        "[]",
        "null",
        '"sue"',
        "{",
        '{"user": 5}',
        '{"user": ["sue"]}',
        '{"user": 0}',
        '{"user": "sue", "groups": "dev"}',
        '{"user": "sue", "groups": {}}',
        '{"user": "sue", "groups": ""}',
        '{"user": "sue", "groups": [1]}',
        '{"user": "sue", "groups": [""]}',
        '{"user": "\\ud800"}',
        '{"user": {"user": ' * 100_000,
    ],
)
@pytest.mark.parametrize("phase", ["", "Succeeded"])
def test_a_malformed_annotation_about_the_user_is_refused(written: str, phase: str) -> None:
    found = manifest(annotations={USER_INFO: written}, status={"phase": phase})

    assert refusal(found).startswith(f"metadata.annotations.{USER_INFO}: '")
    assert """is not JSON of the form {"user": "sue", "groups": ["developers"]}""" in refusal(found)


GANG_SPELLINGS: list[tuple[dict[str, str], dict[str, str]]] = [
    ({f"{KOORDINATOR}/name": "g"}, {}),
    ({}, {f"{KOORDINATOR}/name": "g"}),
    ({"pod-group.scheduling.sigs.k8s.io": "g"}, {}),
    ({"pod-group.scheduling.sigs.k8s.io/name": "g"}, {"scheduling.k8s.io/group-name": "x/g"}),
    ({"scheduling.x-k8s.io/pod-group": "g"}, {}),
]


@pytest.mark.parametrize(("labels", "annotations"), GANG_SPELLINGS)
def test_its_gang_is_one_of_its_namespace(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    assert ask_of(manifest(None, labels, annotations, metadata={"namespace": "x"})).gang == "x/g"


def test_without_a_namespace_it_is_the_default_one() -> None:
    assert ask_of(manifest(labels={f"{KOORDINATOR}/name": "g"})).gang == "default/g"


def test_what_it_says_of_its_gang() -> None:
    labels = {f"{KOORDINATOR}/name": "y/g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
    annotations = {
        f"{KOORDINATOR}/min-available": "2",
        f"{KOORDINATOR}/total-number": 3,
        f"{KOORDINATOR}/mode": "nonstrict",
        f"{KOORDINATOR}/waiting-time": "1m",
        f"{KOORDINATOR}/groups": '["h"]',
        f"{KOORDINATOR}/timeout": "true",
        "other": "true",
    }
    found = ask_of(manifest(None, labels, annotations, metadata={"namespace": "x"}))

    assert found.gang == "y/g"
    assert found.says == GangFields(2, 3, GangMode.NON_STRICT, 60_000_000, ("default/h",))
    assert found.timed_out


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (manifest(metadata={"name": "a/b"}), "metadata.name: 'a/b' has a '/'"),
        (manifest(metadata={"name": ""}), "metadata.name: '' is empty"),
        (manifest(metadata={"name": None}), "metadata.name: null is not a text"),
        (manifest(metadata={"namespace": "A"}), "metadata.namespace: 'A' is not an RFC 1123"),
        (manifest(metadata={"labels": {}}), "metadata.labels.applicationId: is missing"),
        (manifest(metadata={"labels": None}), "metadata.labels.applicationId: is missing"),
        (manifest(metadata={"labels": []}), "metadata.labels: a list is not a map"),
        (manifest(labels={"applicationId": "a/b"}), "metadata.labels.applicationId: 'a/b' has a"),
        (manifest(labels={"applicationId": ""}), "metadata.labels.applicationId: '' is empty"),
        (manifest(labels={"b": None}), "metadata.labels.b: null is not a text"),
        (manifest({"containers": {}}), "spec.containers: a map is not a list"),
        (manifest({"containers": [5]}), "spec.containers[0]: 5 is not a map"),
        (
            manifest({"containers": [{}, {"resources": {"requests": {"cpu": "1x"}}}]}),
            "spec.containers[1].resources.requests.cpu: '1x' is not a quantity",
        ),
        (
            manifest({"containers": [{"resources": {"requests": {"memory": "8E"}}}] * 2}),
            "spec.containers: the sum of the requests is too large: memory: ",
        ),
        (manifest({"nodeName": 1.5}), "spec.nodeName: 1.5 is not a text"),
        (manifest({"nodeSelector": {"a": []}}), "spec.nodeSelector.a: a list is not a text"),
        (manifest({"priority": "5"}), "spec.priority: '5' is a text, not a number"),
        (manifest({"priorityClassName": []}), "spec.priorityClassName: a list is not a text"),
        (manifest(status={"phase": "Done"}), "status.phase: 'Done' is none of Pending, Running,"),
        (manifest(status=[]), "status: a list is not a map"),
        (
            manifest(annotations={f"{KOORDINATOR}/min-available": "0"}),
            f"metadata.annotations.{KOORDINATOR}/min-available: '0' is not a whole number",
        ),
        (
            manifest(annotations={f"{KOORDINATOR}/min-available": "2"}),
            f"metadata.annotations.{KOORDINATOR}/min-available: '2' is said of a gang, but none is",
        ),
        (
            manifest(None, {f"{KOORDINATOR}/name": "g"}, {f"{KOORDINATOR}/name": "h"}),
            f"metadata.annotations.{KOORDINATOR}/name: 'h' differs from 'g' of metadata.labels.",
        ),
        (
            manifest(labels={f"{KOORDINATOR}/name": "G"}),
            f"metadata.labels.{KOORDINATOR}/name: 'G': 'G' is no RFC 1123 subdomain",
        ),
    ],
)
def test_what_a_pod_cannot_be(written: dict[str, Any], message: str) -> None:
    assert refusal(written).startswith(message)


def test_of_one_that_goes_only_the_name_counts() -> None:
    written = manifest({"containers": 5}, annotations={f"{KOORDINATOR}/mode": 5}, status=5)

    assert name_of_pod(POD_NAME.parse(written)) == ObjectName(ObjectKind.POD, "p", "a")


def test_one_that_goes_belongs_to_an_application() -> None:
    with pytest.raises(FieldError, match=r"^metadata\.labels\.applicationId: is missing"):
        name_of_pod(POD_NAME.parse({"metadata": {"name": "p"}}))


def test_the_ask_has_every_attribute_that_a_pod_can_give() -> None:
    given = {"app", "ask", "resources", "priority", "priority_class", "selector", "gang", "says"}
    given |= {"estimate_us"}

    assert {attribute.name for attribute in attrs.fields(AddAsk)} - given == {
        "timed_out", "count", "node", "run_for_us", "retries", "work", "devices",
    }  # fmt: skip
