from __future__ import annotations

import pytest

from muster.feeds import Encoding, Refused
from muster.feeds._annotations import (
    MEMBER_ANNOTATIONS,
    OBJECT_ANNOTATIONS,
    ParsedAnnotations,
    gang_settings,
)
from muster.feeds._kinds import FieldError
from muster_core.events import AddAsk
from muster_core.gangs import NO_FIELDS, GangFields, GangMode
from tests.actors.feeds.helpers import content, items, refusal

ASK = "op: add_ask, app: a, ask: x, resources: {vcore: 1}"
KOORDINATOR = "gang.scheduling.koordinator.sh"
COMMUNITY = "pod-group.scheduling.sigs.k8s.io"


def asked(annotations: str, more: str = "") -> AddAsk:
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
    found = asked(annotations)

    assert (found.gang, found.says, found.timed_out) == (gang, says, False)


def test_the_gang_may_be_named_by_the_field_alone() -> None:
    found = asked("K/min-available: 3", ", gang: g")

    assert (found.gang, found.says) == ("default/g", GangFields(3))


def test_the_field_and_the_annotation_may_both_name_it() -> None:
    assert asked("K/name: default/g", ", gang: g").gang == "default/g"


def test_without_annotations() -> None:
    found = content(f"{{{ASK}, gang: x/g, annotations: }}")

    assert isinstance(found, AddAsk)
    assert found.gang == "x/g"


@pytest.mark.parametrize(
    ("written", "timed_out"),
    [("true", True), ("'true'", True), ("True", False), ("'false'", False), ("no", False)],
)
def test_a_timeout_counts_only_if_it_is_true(written: str, timed_out: bool) -> None:
    assert asked(f"K/name: g, K/timeout: {written}").timed_out is timed_out


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

    assert [saying.says for saying in OBJECT_ANNOTATIONS.parse({**written}).sayings] == ["mode"]
    assert [saying.says for saying in MEMBER_ANNOTATIONS.parse({**written}).sayings] == [
        "mode",
        "gang",
    ]


def test_labels_and_annotations_have_to_agree() -> None:
    def marked(mode: str) -> ParsedAnnotations:
        return MEMBER_ANNOTATIONS.parse({f"{KOORDINATOR}/mode": mode})

    agreed = gang_settings({"labels": marked("Strict"), "annotations": marked("strict")})
    assert agreed.values == {"mode": GangMode.STRICT}
    with pytest.raises(
        FieldError, match=r"^annotations\.gang.*'NonStrict' differs from 'Strict' of "
    ):
        gang_settings({"labels": marked("Strict"), "annotations": marked("NonStrict")})
