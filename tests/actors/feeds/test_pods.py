"""Pods in feeds, and the marks by which they are members of gangs."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from muster.feeds import Encoding, Refused
from muster.feeds._annotations import (
    MEMBER_ANNOTATIONS,
    OBJECT_ANNOTATIONS,
    ParsedAnnotations,
    gang_settings,
)
from muster.feeds._asks import ASK_FIELDS, POD_ASK_FIELDS
from muster.feeds._kinds import FieldError
from muster.feeds._kubernetes import POD_NAME
from muster.feeds._manifests import POD, name_of_pod, pod
from muster_core.events import AddAsk, ObjectKind, ObjectName, PodObject, Work
from muster_core.gangs import NO_FIELDS, GangFields, GangMode
from muster_core.resources import Resources
from muster_core.values.affinity import Operator, Requirement, Toleration
from tests.actors.feeds.helpers import content, items, refusal

KOORDINATOR = "gang.scheduling.koordinator.sh"
CORE = Resources({"vcore": 1000})


def manifest(
    spec: dict[str, Any] | None = None,
    labels: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - whatever stands in a manifest
) -> dict[str, Any]:
    """Return a Pod `p` of the application `a` that requests a core."""
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


def pod_refusal(written: dict[str, Any]) -> str:
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

    assert ask_of(manifest({"containers": containers})).resources == Resources(
        {"vcore": 1500, "memory": 2**30, "nvidia.com/gpu": 2}
    )


def init_container(cpu: str, policy: str | None = None) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, "restartPolicy": policy}


# OBJECT-31: the containers request a core
@pytest.mark.parametrize(
    ("spec", "vcore"),
    [
        ({"initContainers": [init_container("1")]}, 1000),
        ({"initContainers": [init_container("3"), init_container("2")]}, 3000),
        ({"initContainers": [init_container("1", "Always"), init_container("3", "")]}, 4000),
        ({"initContainers": [init_container("2"), init_container("500m", "Always")]}, 2000),
        ({"overhead": {"cpu": "250m"}}, 1250),
        ({"initContainers": [init_container("3")], "overhead": {"cpu": 1}}, 4000),
        ({"resources": {"requests": {"cpu": 2}}, "overhead": {"cpu": 1}}, 3000),
        ({"resources": {"requests": {"memory": 0}, "limits": {"cpu": "x"}}}, 1000),
        ({"containers": None, "resources": {"requests": {"cpu": 2}}}, 2000),
    ],
)
def test_what_else_it_requests(spec: dict[str, Any], vcore: int) -> None:
    assert ask_of(manifest(spec)).resources == Resources({"vcore": vcore})


def test_a_limit_requests_nothing() -> None:
    containers = [{"resources": {"limits": {"cpu": 1}}}]

    assert read(manifest({"containers": containers})).ask is None


def test_what_else_the_ask_has() -> None:
    found = read(
        manifest(
            {
                "priority": 7,
                "priorityClassName": "high",
                "nodeSelector": {"zone": "b", "ssd": True},
                "nodeName": "n1",
                "tolerations": [{"key": 5}],
                "affinity": {
                    "podAffinity": 5,
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {
                                            "key": "metadata.name",
                                            "operator": "NotIn",
                                            "values": ["n2"],
                                        }
                                    ],
                                    "matchExpressions": [
                                        {"key": "zone", "operator": "In", "values": ["a", True]}
                                    ],
                                },
                                {},
                            ]
                        }
                    },
                },
            }
        )
    )

    assert found.node == "n1"
    zone = Requirement("zone", Operator.IN, ("a", "true"))
    name = Requirement("metadata.name", Operator.NOT_IN, ("n2",))
    assert found.ask == AddAsk(
        *("a", "p", CORE, 7, "high"),
        selector={"zone": "b", "ssd": "true"},
        tolerations=(Toleration("5"),),
        affinity=((zone, name), ()),
    )


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

    assert pod_refusal(found).startswith(f"metadata.annotations.{USER_INFO}: '")
    assert """is not JSON of the form {"user": "sue", "groups": ["developers"]}""" in pod_refusal(
        found
    )


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
        (
            manifest({"initContainers": [{}, {"resources": {"requests": {"cpu": "1x"}}}]}),
            "spec.initContainers[1].resources.requests.cpu: '1x' is not a quantity",
        ),
        (manifest({"overhead": {"cpu": "1u"}}), "spec.overhead.cpu: '1u' is not a quantity"),
        (
            manifest({"resources": {"requests": {"cpu": []}}}),
            "spec.resources.requests.cpu: a list is not a quantity",
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
    assert pod_refusal(written).startswith(message)


def test_of_one_that_goes_only_the_name_counts() -> None:
    written = manifest({"containers": 5}, annotations={f"{KOORDINATOR}/mode": 5}, status=5)

    assert name_of_pod(POD_NAME.parse(written)) == ObjectName(ObjectKind.POD, "p", "a")


def test_one_that_goes_belongs_to_an_application() -> None:
    with pytest.raises(FieldError, match=r"^metadata\.labels\.applicationId: is missing"):
        name_of_pod(POD_NAME.parse({"metadata": {"name": "p"}}))


def test_the_ask_has_every_attribute_that_a_pod_can_give() -> None:
    from_pod = {"app", "ask", "resources", "priority", "priority_class", "selector", "gang", "says"}
    from_pod |= {"estimate_us", "tolerations", "affinity"}

    assert {attribute.name for attribute in attrs.fields(AddAsk)} - from_pod == {
        "timed_out", "count", "node", "run_for_us", "retries", "work", "devices",
        "run_limit_us", "start_by_us", "once",
    }  # fmt: skip


ASK = "op: add_ask, app: a, ask: x, resources: {vcore: 1}"
COMMUNITY = "pod-group.scheduling.sigs.k8s.io"


def annotated_ask(annotations: str, more: str = "") -> AddAsk:
    found = content(event(annotations, more))
    assert isinstance(found, AddAsk), found
    return found


def event(annotations: str, more: str = "") -> str:
    full = annotations.replace("K/", f"{KOORDINATOR}/").replace("C/", f"{COMMUNITY}/")
    return f"{{{ASK}, annotations: {{{full}}}{more}}}"


@pytest.mark.parametrize(
    ("annotations", "gang", "says"),
    [
        ("K/name: g", "default/g", NO_FIELDS),
        ("K/name: x/g", "x/g", NO_FIELDS),
        (f"{COMMUNITY}: g", "default/g", NO_FIELDS),
        ("C/name: g", "default/g", NO_FIELDS),
        ("scheduling.x-k8s.io/pod-group: g", "default/g", NO_FIELDS),
        ("scheduling.k8s.io/group-name: g", "default/g", NO_FIELDS),
        ("K/name: g, C/name: default/g", "default/g", NO_FIELDS),
        ("K/name: g, K/min-available: 3", "default/g", GangFields(3)),
        ("K/name: g, K/min-available: '3'", "default/g", GangFields(3)),
        ("C/name: g, C/min-available: +03", "default/g", GangFields(3)),
        ("K/name: g, K/min-available: 3, C/min-available: '03'", "default/g", GangFields(3)),
        (
            """
            K/name: g, K/min-available: '2', K/total-number: '2', K/mode: NONstrict,
            K/waiting-time: 3600s, K/groups: '["b", "x/a"]'
            """,
            "default/g",
            GangFields(2, 2, GangMode.NON_STRICT, 3_600_000_000, ("default/b", "x/a")),
        ),
        ("K/name: g, K/waiting-time: 1h", "default/g", GangFields(wait_us=3_600_000_000)),
        ("K/name: g, K/waiting-time: 3600", "default/g", GangFields(wait_us=3_600_000_000)),
        ("K/name: g, K/waiting-time: '3600'", "default/g", GangFields(wait_us=3_600_000_000)),
        ("K/name: g, K/groups: [b, a]", "default/g", GangFields(groups=("default/a", "default/b"))),
        ("K/name: g, K/groups: ''", "default/g", GangFields(groups=())),
        ("K/name: g, K/groups: []", "default/g", GangFields(groups=())),
        (
            'K/name: g, K/groups: [b, a], K/gang-groups: \'["a", "b"]\'',
            "default/g",
            GangFields(groups=("default/a", "default/b")),
        ),
        ("K/name: g, K/match-policy: once-satisfied, b: true", "default/g", NO_FIELDS),
        ("b: true, c: 3, K/anything: x", None, NO_FIELDS),
        ("", None, NO_FIELDS),
    ],
)
def test_what_annotations_say(annotations: str, gang: str | None, says: GangFields) -> None:
    found = annotated_ask(annotations)

    assert (found.gang, found.says, found.timed_out) == (gang, says, False)


def test_the_gang_may_be_named_by_the_field_alone() -> None:
    found = annotated_ask("K/min-available: 3", ", gang: g")

    assert (found.gang, found.says) == ("default/g", GangFields(3))


def test_the_field_and_the_annotation_may_both_name_it() -> None:
    assert annotated_ask("K/name: default/g", ", gang: g").gang == "default/g"


def test_without_annotations() -> None:
    found = content(f"{{{ASK}, gang: x/g, annotations: }}")

    assert isinstance(found, AddAsk)
    assert found.gang == "x/g"


@pytest.mark.parametrize(
    ("written", "timed_out"),
    [("true", True), ("'true'", True), ("True", False), ("'false'", False), ("no", False)],
)
def test_a_timeout_counts_only_if_it_is_true(written: str, timed_out: bool) -> None:
    assert annotated_ask(f"K/name: g, K/timeout: {written}").timed_out is timed_out


@pytest.mark.parametrize(("written", "timed_out"), [("true", True), ("false", False), ("1", False)])
def test_a_timeout_in_json(written: str, timed_out: bool) -> None:
    line = (
        '{"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 1}, "gang": "g",'
        f' "annotations": {{"{KOORDINATOR}/timeout": {written}}}}}'
    )
    [item] = items(line, Encoding.JSON_LINES)

    assert isinstance(item.content, AddAsk)
    assert item.content.timed_out is timed_out


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ("K/name: ''", "K/name: '' is empty"),
        ("K/name: ", "K/name: nothing is not a text"),
        ("K/name: G", "K/name: 'G': 'G' is no RFC 1123 subdomain"),
        ("K/name: g, C/name: h", "C/name: 'h' differs from 'g' of annotations.K/name"),
        ("K/name: g, C/name: x/g", "C/name: 'x/g' differs from 'g' of annotations.K/name"),
        (
            "K/name: g, K/min-available: 3, C/min-available: 4",
            "C/min-available: '4' differs from '3' of annotations.K/min-available",
        ),
        ("K/name: g, K/min-available: 0", "K/min-available: '0' is not a whole number between 1"),
        ("K/name: g, K/min-available: 1.5", "K/min-available: '1.5' is not a whole number"),
        ("K/name: g, K/min-available: [1]", "K/min-available: a list is not a text"),
        ("K/name: g, K/min-available: ~", "K/min-available: null is not a text"),
        (
            "K/name: g, K/min-available: '3', K/total-number: '2'",
            "K/total-number: '2' is less than '3' of annotations.K/min-available",
        ),
        ("K/name: g, K/mode: lax", "K/mode: 'lax' is none of Strict, NonStrict"),
        ("K/name: g, K/waiting-time: 0", "K/waiting-time: '0' is not above 0"),
        ("K/name: g, K/waiting-time: soon", "K/waiting-time: 'soon' is not a duration"),
        ("K/name: g, K/groups: b", "K/groups: 'b' is not a list of names of gangs"),
        ("K/name: g, K/groups: [B]", "K/groups[0]: 'B': 'B' is no RFC 1123"),
        ("K/name: g, K/timeout: []", "K/timeout: a list is not a text"),
        ("b: [x]", "b: a list is not a text"),
        ("'': x", ": '' is empty"),
        ("K/min-available: '3'", "K/min-available: '3' is said of a gang, but none is named: add"),
        ("K/timeout: true", "K/timeout: 'true' is said of a gang, but none is named: add K/name"),
    ],
)
def test_what_annotations_cannot_say(annotations: str, message: str) -> None:
    full = message.replace("K/", f"{KOORDINATOR}/").replace("C/", f"{COMMUNITY}/")

    assert refusal(event(annotations)).startswith(f"annotations.{full}")


def test_the_field_and_the_annotation_have_to_agree() -> None:
    message = refusal(event("K/name: g", ", gang: h"))

    assert message == f"gang: 'default/h' differs from 'g' of annotations.{KOORDINATOR}/name"


def test_annotations_are_a_map() -> None:
    assert refusal(f"{{{ASK}, annotations: [a]}}") == "annotations: a list is not a map"


def test_annotations_may_bring_numbers() -> None:
    line = (
        '{"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 1}, "gang": "g",'
        f' "annotations": {{"{KOORDINATOR}/min-available": 3}}}}'
    )
    [item] = items(line, Encoding.JSON_LINES)

    assert not isinstance(item.content, Refused)
    assert isinstance(item.content, AddAsk)
    assert item.content.says == GangFields(3)


def test_of_a_pod_group_fewer_keys_count() -> None:
    written = {f"{KOORDINATOR}/mode": "strict", f"{KOORDINATOR}/name": "g", "b": "c"}

    assert [annotation.says for annotation in OBJECT_ANNOTATIONS.parse({**written}).of_gang] == [
        "mode"
    ]
    assert [annotation.says for annotation in MEMBER_ANNOTATIONS.parse({**written}).of_gang] == [
        "mode",
        "gang",
    ]


def test_labels_and_annotations_have_to_agree() -> None:
    def mode_of(mode: str) -> ParsedAnnotations:
        return MEMBER_ANNOTATIONS.parse({f"{KOORDINATOR}/mode": mode})

    agreed = gang_settings({"labels": mode_of("Strict"), "annotations": mode_of("strict")})
    assert agreed.values == {"mode": GangMode.STRICT}
    with pytest.raises(
        FieldError, match=r"^annotations\.gang.*'NonStrict' differs from 'Strict' of "
    ):
        gang_settings({"labels": mode_of("Strict"), "annotations": mode_of("NonStrict")})


# OBJECT-30


def test_the_annotation_says_what_is_left_of_an_ask() -> None:
    text = '{"node": "n1", "env": {"A": "yes"}, "estimate": "1m30s", "retries": null}'
    found = ask_of(manifest({"activeDeadlineSeconds": 60}, annotations={"muster/ask": text}))

    assert found == AddAsk(
        *("a", "p", CORE), node="n1", work=Work(env={"A": "yes"}), estimate_us=90_000_000
    )


def test_each_field_of_add_ask_stands_at_one_place_of_a_pod() -> None:
    fields = {known.name for known in ASK_FIELDS}

    for name in fields - POD_ASK_FIELDS.keys():
        annotations = {"muster/ask": f'{{"once": true, "{name}": "x"}}'}
        assert "cannot stand here" in pod_refusal(manifest(annotations=annotations))
    assert {"once", "retries", "node", "env", "estimate", "run_limit"} < POD_ASK_FIELDS.keys()


def test_a_pod_that_has_finished_asks_for_nothing() -> None:
    finished = {"status": {"phase": "Succeeded"}}
    assert read(manifest(annotations={"muster/ask": "x"}, **finished)).ask is None
