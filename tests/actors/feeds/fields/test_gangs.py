from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from muster.feeds import Content, Encoding, Plain, Raw, Refused
from muster.feeds._fields import GROUPS, WRITTEN_WAIT, full_name
from muster.feeds._kinds import FieldError
from muster_core.events import AddGang, RemoveGang
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from tests.actors.feeds.helpers import content, items, refusal

NAMES = st.from_regex(r"\A([a-z][a-z0-9-]{0,3}[a-z0-9]/)?[a-z0-9]{1,4}(\.[a-z0-9]{1,3})?\Z")


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ("gang: g, min_member: 1", AddGang("default/g", GangFields(1))),
        ("gang: x/g.h, min_member: 03", AddGang("x/g.h", GangFields(3))),
        ("gang: 010, min_member: 1", AddGang("default/010", GangFields(1))),
        (
            "gang: g, min_member: 2, total: 2, mode: nonSTRICT, wait_time: 1m30s, groups: [b, x/a]",
            AddGang(
                "default/g",
                GangFields(2, 2, GangMode.NON_STRICT, 90_000_000, ("default/b", "x/a")),
            ),
        ),
        (
            "gang: g, min_member: 2, mode: strict, wait_time: 0.5",
            AddGang("default/g", GangFields(2, None, GangMode.STRICT, 500_000)),
        ),
        (
            "gang: g, min_member: 1, topology: {same: rack}",
            AddGang("default/g", GangFields(1, topology=Topology(TopologyRule.SAME, "rack"))),
        ),
        (
            "gang: g, min_member: 1, topology: {prefer: 010}",
            AddGang("default/g", GangFields(1, topology=Topology(TopologyRule.PREFER, "010"))),
        ),
        (
            "gang: g, min_member: 1, topology: {max: 02, spread: zone}",
            AddGang("default/g", GangFields(1, topology=Topology(TopologyRule.SPREAD, "zone", 2))),
        ),
        (
            "gang: g, min_member: 1, total: , topology: , mode: ~, wait_time: null, groups: ",
            AddGang("default/g", GangFields(1)),
        ),
    ],
)
def test_a_gang_that_is_defined(fields: str, wanted: Content) -> None:
    assert content(f"{{op: add_gang, {fields}}}") == wanted


def test_a_gang_that_is_removed() -> None:
    assert content("{op: remove_gang, gang: g}") == RemoveGang("default/g")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("gang: g", "min_member: is missing"),
        ("min_member: 1", "gang: is missing"),
        ("gang: g, min_member: null", "min_member: null is not a whole number between 1 and"),
        ("gang: g, min_member: 0", "min_member: '0' is not a whole number between 1 and"),
        ("gang: g, min_member: '1'", "min_member: '1' is a text, not a number: leave out the"),
        ("gang: g, min_member: 2147483648", "min_member: '2147483648' is not a whole number"),
        ("gang: g, min_member: 3, total: 2", "total: 2 is less than 3 of min_member"),
        ("gang: g, min_member: 1, total: 0", "total: '0' is not a whole number"),
        ("gang: g, min_member: 1, topology: rack", "topology: 'rack' is not a map"),
        (
            "gang: g, min_member: 1, topology: {}",
            "topology: exactly one of same, prefer, spread names a node attribute, and here none",
        ),
        (
            "gang: g, min_member: 1, topology: {same: rack, spread: zone}",
            "topology: exactly one of same, prefer, spread names a node attribute, and here same",
        ),
        ("gang: g, min_member: 1, topology: {same: }", "topology.same: nothing is not a text"),
        ("gang: g, min_member: 1, topology: {same: ''}", "topology.same: '' is empty"),
        (
            "gang: g, min_member: 1, topology: {same: rack, max: 2}",
            "topology.max: 2 is only allowed with spread, and here is same",
        ),
        (
            "gang: g, min_member: 1, topology: {spread: zone, max: 0}",
            "topology.max: '0' is not a whole number between 1 and",
        ),
        (
            "gang: g, min_member: 1, topology: {spred: zone}",
            "topology.spred: unknown field (with 'zone'); the fields are: same, prefer, spread,",
        ),
        ("gang: g, min_member: 1, mode: lax", "mode: 'lax' is none of Strict, NonStrict"),
        ("gang: g, min_member: 1, wait_time: 0", "wait_time: '0' is not above 0"),
        ("gang: g, min_member: 1, wait_time: '5'", "wait_time: '5' is a text, not a number"),
        ("gang: g, min_member: 1, groups: g", "groups: 'g' is not a list of names of gangs, nor"),
        ("gang: g, min_member: 1, groups: {}", "groups: a map is not a list of names of gangs"),
        ("gang: g, min_member: 1, groups: [g, B]", "groups[1]: 'B': 'B' is no RFC 1123 subdomain"),
        ("gang: g, min_member: 1, groups: [~]", "groups[0]: null is not a text"),
        ("gang: a/b/c, min_member: 1", "gang: 'a/b/c': 'b/c' is no RFC 1123 subdomain"),
        ("gang: A/b, min_member: 1", "gang: 'A/b': the namespace 'A' is no RFC 1123 label"),
        ("gang: '', min_member: 1", "gang: '' is empty"),
        ("gang: [g], min_member: 1", "gang: a list is not a text"),
    ],
)
def test_a_gang_that_cannot_be(fields: str, message: str) -> None:
    assert refusal(f"{{op: add_gang, {fields}}}").startswith(message)


def test_of_a_gang_that_is_removed_only_the_name_counts() -> None:
    message = refusal("{op: remove_gang, gang: g, min_member: 1}")

    assert message.startswith("min_member: unknown field (with '1'); the fields are: gang")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"min_member": 1, "groups": 5', "groups: 5 is not a list"),
        ('"min_member": 1, "groups": true', "groups: true is not a list"),
        ('"min_member": 1, "groups": [true]', "groups[0]: true is not a text"),
        ('"min_member": 1.0', "min_member: 1.0 is not a whole number"),
        ('"min_member": true', "min_member: true is not a whole number"),
        ('"min_member": 1, "mode": 5', "mode: 5 is none of Strict, NonStrict"),
    ],
)
def test_what_json_says(line: str, message: str) -> None:
    [item] = items(f'{{"op": "add_gang", "gang": "g", {line}}}', Encoding.JSON_LINES)

    assert isinstance(item.content, Refused)
    assert item.content.message.startswith(message)


@given(st.lists(NAMES, max_size=4))
def test_groups_mean_the_same_as_a_list_and_as_a_text(names: list[str]) -> None:
    wanted = tuple(sorted({full_name(name) for name in names}))
    plain: list[Raw] = [Plain(name) for name in names]

    assert GROUPS.parse(plain) == wanted
    assert GROUPS.parse(json.dumps(names)) == wanted
    assert GROUPS.parse(json.dumps(names, indent=2)) == wanted


@pytest.mark.parametrize("value", ["", "[]", " [ ] "])
def test_no_groups(value: str) -> None:
    assert GROUPS.parse(value) == ()


@pytest.mark.parametrize(
    "value",
    [
        " ", "x", "[", "{}", "null", "true", '"a"', "[1]", "[null]", '[["a"]]', "NaN", "[" * 10_000,
        '["A"]', '["a", ""]', '["\\ud800"]', None, Plain(""), Plain("null"), Plain("[a"), 5, 1.5,
    ],
    ids=lambda value: f"{type(value).__name__} {value!r}"[:20],
)  # fmt: skip
def test_what_are_no_groups(value: Raw) -> None:
    with pytest.raises(FieldError) as caught:
        GROUPS.parse(value)

    assert "no RFC 1123" in str(caught.value) or "is " in str(caught.value)
    assert len(str(caught.value)) < 250


@given(st.integers(1, 10**6), st.sampled_from([("s", 1), ("", 1), ("m", 60), ("h", 3600)]))
def test_a_wait_is_in_seconds_or_has_a_unit(number: int, unit: tuple[str, int]) -> None:
    wait_us = number * unit[1] * 1_000_000

    assert WRITTEN_WAIT.parse(f"{number}{unit[0]}") == wait_us
    assert WRITTEN_WAIT.parse(Plain(f"{number}{unit[0]}")) == wait_us
