"""The fields of events: kinds, lists and maps, gangs, devices, priority classes."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from muster.feeds import AT, OPS, Content, Encoding, Plain, Raw, Refused
from muster.feeds._annotations import MEMBER_ANNOTATIONS, OBJECT_ANNOTATIONS
from muster.feeds._fields import (
    CLASS_NAME,
    CLASS_PREEMPTS,
    CLASS_VALUE,
    GROUPS,
    NEEDS,
    NUMBERS,
    STOCKS,
    WRITTEN_WAIT,
    full_name,
)
from muster.feeds._kinds import (
    ASK,
    ASKED_RESOURCES,
    BOOLEAN,
    COUNT,
    DURATION,
    INSTANT,
    INT32,
    SHARE,
    SOME_RESOURCES,
    TEXT,
    WORD,
    WRITTEN_RESOURCES,
    FieldError,
    Kind,
    as_written,
    display_value,
)
from muster.feeds._manifests import APPLIED, DELETED
from muster_core.events import AddGang, RemoveGang
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.actors.feeds.helpers import LEAVES, MANIFEST, MARKS, VALUES, content, items, refusal

KINDS: list[Kind[object]] = [
    AT.kind,
    *(
        field.kind
        for op in OPS.values()
        for field in op.fields.values()
        if field.name != "config"  # kept as it stands until a whole configuration is loaded
    ),
]
WRITTEN: list[Kind[object]] = [
    field.kind
    for op in OPS.values()
    for field in op.fields.values()
    if op.name not in {"configure", "expect"}
]
SCALARS: list[Kind[Any]] = [INSTANT, DURATION, INT32, COUNT, BOOLEAN, SHARE, TEXT, WORD, ASK]


def typed(value: object) -> str:
    return f"{type(value).__name__} {value!r}"[:40]


def outcome(kind: Kind[object], value: Raw) -> object:
    try:
        return kind.parse(value)
    except FieldError:
        return FieldError


@given(st.sampled_from(SCALARS), LEAVES)
def test_the_normal_form_of_a_scalar_means_the_same(kind: Kind[Any], value: Raw) -> None:
    assert outcome(kind, kind.normal(value)) == outcome(kind, value)


@given(st.sampled_from(KINDS), VALUES)
def test_the_normal_form_means_the_same(kind: Kind[object], value: Raw) -> None:
    assert outcome(kind, kind.normal(value)) == outcome(kind, value)


@given(
    st.tuples(st.sampled_from(WRITTEN), VALUES)
    | st.tuples(st.sampled_from([APPLIED, DELETED]), MANIFEST)
    | st.tuples(st.sampled_from([MEMBER_ANNOTATIONS, OBJECT_ANNOTATIONS]), MARKS)
)
def test_what_is_written_means_what_was_read(case: tuple[Kind[Any], Raw]) -> None:
    kind, value = case
    with suppress(FieldError):
        read = kind.parse(value)
        assert kind.parse(kind.write(read)) == read


@given(st.sampled_from([APPLIED, DELETED]), MANIFEST)
def test_the_normal_form_of_a_manifest_means_the_same(kind: Kind[Any], value: Raw) -> None:
    normal = kind.normal(value)

    assert outcome(kind, normal) == outcome(kind, value)
    assert kind.normal(normal) == normal


@given(st.sampled_from([MEMBER_ANNOTATIONS, OBJECT_ANNOTATIONS]), MARKS)
def test_the_normal_form_of_annotations_means_the_same(kind: Kind[Any], value: Raw) -> None:
    assert outcome(kind, kind.normal(value)) == outcome(kind, value)


@given(st.sampled_from(SCALARS), LEAVES.map(lambda leaf: Plain(str(leaf))))
def test_the_normal_form_of_plain_text_means_the_same(kind: Kind[Any], value: Raw) -> None:
    normal = kind.normal(value)

    assert not isinstance(normal, Plain)
    assert outcome(kind, normal) == outcome(kind, value)


@pytest.mark.parametrize(
    ("kind", "text", "normal"),
    [
        (INT32, "010", 10),
        (INT32, "-5", -5),
        (INT32, "5.0", "5.0"),
        (INT32, "9" * 30, "9" * 30),
        (BOOLEAN, "Yes", True),
        (BOOLEAN, "off", False),
        (BOOLEAN, "1", "1"),
        (TEXT, "off", "off"),
        (TEXT, "010", "010"),
        (TEXT, "~", None),
        (WORD, "true", "true"),
        (INSTANT, "1.50", 1.5),
        (INSTANT, "2", 2),
        (INSTANT, "1m", "1m"),
        (INSTANT, "1.00000000000000000001", "1.00000000000000000001s"),
        (INSTANT, "1.000000000000000000001e3", "1000.000000000000000001s"),
        (INSTANT, "1e400", "1e400"),
        (INSTANT, "1e-400", 0),
        (INSTANT, "1e-99999999999999999999", 0),
        (INSTANT, "+5", "+5"),
        (INSTANT, "5.", "5."),
        (INSTANT, "1." + "0" * 1500, "1." + "0" * 1500),
        (INSTANT, "1." + "3" * 990 + "e-9", "0.000000001" + "3" * 988 + "s"),
        (SHARE, "0.25", 0.25),
        (SHARE, ".inf", ".inf"),
        (SHARE, "1e400", "inf"),
    ],
)
def test_what_plain_text_becomes(kind: Kind[object], text: str, normal: Raw) -> None:
    made = kind.normal(Plain(text))

    assert made == normal
    assert type(made) is type(normal)
    assert outcome(kind, made) == outcome(kind, Plain(text))


@pytest.mark.parametrize(
    ("value", "share"),
    [
        (Plain("inf"), math.inf),
        ("inf", math.inf),
        (math.inf, math.inf),
        (10**309, math.inf),
        (0, 0.0),
        (Plain("0.1"), 0.1),
        (0.1, 0.1),
    ],
    ids=typed,
)
def test_shares(value: Raw, share: float) -> None:
    assert SHARE.parse(value) == share


@pytest.mark.parametrize(
    "value", ["0.5", Plain("x"), -0.5, math.nan, True, None, Plain(""), []], ids=typed
)
def test_what_is_no_share(value: Raw) -> None:
    with pytest.raises(FieldError, match="is not a share"):
        SHARE.parse(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "null"),
        (Plain("~"), "null"),
        (Plain(""), "nothing"),
        ("", "''"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (1.5, "1.5"),
        ("a'b", '"a\'b"'),
        ([1], "a list"),
        ({"a": 1}, "a map"),
        (b"x", "b'x'"),
    ],
    ids=typed,
)
def test_how_values_are_written_in_messages(value: object, message: str) -> None:
    assert display_value(value) == message


@pytest.mark.parametrize(
    ("value", "normal"), [(10**309, "inf"), (3, 3.0), ("inf", "inf")], ids=typed
)
def test_shares_as_numbers(value: Raw, normal: Raw) -> None:
    assert SHARE.normal(value) == normal


def test_what_no_field_expects_is_kept() -> None:
    value: Raw = {"a": [Plain("off"), Plain(""), 1, 1.5, True, None, {"b": 10**30, "c": math.inf}]}

    assert as_written(value) == {
        "a": ["off", None, 1, 1.5, True, None, {"b": str(10**30), "c": "inf"}]
    }


def test_errors_say_where() -> None:
    assert str(FieldError("is bad").inside("[0]").inside("groups")) == "groups[0]: is bad"
    assert str(FieldError("is bad")) == "is bad"


WHOLE = (
    "is not a whole number of base units: this type has no parts of a unit, so write a whole number"
)


def field_refusal(kind: Kind[Resources], name: str, value: Raw) -> str:
    with pytest.raises(FieldError) as caught:
        kind.parse({"vcore": 1, name: value})
    assert caught.value.place == f".{name}"
    return caught.value.message


# QUANTITY-14, DEVICE-2
@pytest.mark.parametrize("kind", [ASKED_RESOURCES, SOME_RESOURCES])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "nvidia.com/gpu",
            Plain("0.5"),
            (
                f"'0.5' {WHOLE}; of devices that nodes name, this share is "
                "devices: {gpu: {milli: 500}}"
            ),
        ),
        ("shard", 0.25, "devices: {shard: {milli: 250}}"),
        ("gpu", "500m", "devices: {gpu: {milli: 500}}"),
        ("nvidia.com/GPU_x", "0.5", "devices: {gpu: {milli: 500}}"),
        ("cpu", "0.5", "; the type 'cpu' is not vcore, but one of its own: write vcore"),
    ],
)
def test_a_share_in_resources_is_refused_with_what_would_be_right(
    kind: Kind[Resources], name: str, value: Raw, message: str
) -> None:
    assert field_refusal(kind, name, value).endswith(message)


@pytest.mark.parametrize(
    ("name", "value"),
    [("gpu", "1.5"), ("memory", "0.5"), ("vcore", "0.0001"), ("gpu", "half"), ("gpu", -0.5)],
)
def test_what_is_no_share_is_refused_as_a_quantity(name: str, value: Raw) -> None:
    assert "devices" not in field_refusal(ASKED_RESOURCES, name, value)


def test_a_node_has_no_shares() -> None:
    assert field_refusal(WRITTEN_RESOURCES, "gpu", "0.5") == f"'0.5' {WHOLE}"


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


# DEVICE-1
def test_the_devices_of_a_node() -> None:
    written: Raw = {"nic": Plain("2"), "gpu": {"count": 64, "model": Plain("1080")}}
    read = STOCKS.parse(written)
    assert [*read.items()] == [("gpu", DeviceStock(64, "1080")), ("nic", DeviceStock(2))]
    assert STOCKS.parse(STOCKS.write(read)) == read
    assert STOCKS.parse(STOCKS.normal(written)) == read


# DEVICE-2, DEVICE-3
def test_what_an_ask_needs() -> None:
    written: Raw = {
        "d": {"milli": Plain("1000")},
        "c": {"count": 3, "models": ["b", "a"]},
        "b": {"milli": 1, "models": ["x"]},
        "a": 2,
    }
    read = NEEDS.parse(written)
    assert [*read.items()] == [
        ("a", DeviceNeed(count=2)),
        ("b", DeviceNeed(milli=1, models=("x",))),
        ("c", DeviceNeed(count=3, models=("a", "b"))),
        ("d", DeviceNeed(count=1)),
    ]
    assert NEEDS.write(read) == {
        "a": 2,
        "b": {"milli": 1, "models": ["x"]},
        "c": {"count": 3, "models": ["a", "b"]},
        "d": 1,
    }
    assert NEEDS.parse(NEEDS.normal(written)) == read


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (5, "5 is not a map"),
        (
            {"gpu": 0},
            (
                ".gpu: 0 is not a whole number of 1 or more: write how many whole devices are needed, "
                "or {milli: 500} for half of one"
            ),
        ),
        ({"gpu": "1"}, ".gpu: '1' is a text, not a number"),
        ({"gpu": None}, ".gpu: null is not a whole number"),
        ({"a.b": 1}, ".a.b: 'a.b' is no RFC 1123 label"),
        ({"gpu": {}}, ".gpu: one of milli and count says"),
        ({"gpu": {"milli": 1, "count": 1}}, ".gpu: one of milli and count says"),
        ({"gpu": {"milli": 1001}}, ".gpu.milli: 1001 is not a whole number between 1 and 1000"),
        ({"gpu": {"milli": 1, "models": []}}, ".gpu.models: the list is empty"),
        ({"gpu": {"milli": 1, "models": [""]}}, ".gpu.models[0]: '' is empty"),
        ({"gpu": {"milli": 1, "model": "a"}}, ".gpu.model: unknown field"),
    ],
)
def test_needs_are_refused_with_their_place(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        NEEDS.parse(written)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"gpu": 65}, ".gpu: 65 is not a whole number between 1 and 64"),
        ({"gpu": {"model": "a"}}, ".gpu.count: is missing"),
        ({"gpu": {"count": 1, "model": ""}}, ".gpu.model: '' is empty"),
    ],
)
def test_stocks_are_refused_with_their_place(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        STOCKS.parse(written)
    assert str(caught.value).startswith(message)


HALF = "is not a whole number: write {milli: 500} for this share of one device"


# DEVICE-2
@pytest.mark.parametrize(
    ("written", "message"),
    [
        (Plain("0.5"), f".gpu: '0.5' {HALF}"),
        (Plain(".5"), f".gpu: '.5' {HALF}"),
        (0.5, f".gpu: 0.5 {HALF}"),
        (Plain("0.0001"), ".gpu: '0.0001' is not a whole number: write {milli: 1} for this share"),
        (Plain("1.5"), ".gpu: '1.5' is not a whole number of 1 or more: write how many whole"),
        (Plain("half"), ".gpu: 'half' is not a whole number of 1 or more: write how many whole"),
        (Plain("nan"), ".gpu: 'nan' is not a whole number of 1 or more: write how many whole"),
        ("0.5", ".gpu: '0.5' is a text, not a number: leave out the quotes"),
        (
            {"count": Plain("0.25")},
            ".gpu.count: '0.25' is not a whole number: write milli: 250 in place of count",
        ),
        ({"count": 0}, ".gpu.count: 0 is not a whole number of 1 or more: write how many whole"),
        (
            {"milli": 1500},
            (
                ".gpu.milli: 1500 is not a whole number between 1 and 1000, the thousandths of one "
                "device: whole ones are written with count"
            ),
        ),
        (
            {"milli": Plain("0.5")},
            (
                ".gpu.milli: '0.5' is not a whole number between 1 and 1000, the thousandths of one "
                "device: write 500 for this share"
            ),
        ),
    ],
)
def test_a_refusal_says_how_a_share_is_written(written: Raw, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        NEEDS.parse({"gpu": written})
    assert str(caught.value).startswith(message)


# DEVICE-13
def test_numbers_of_devices() -> None:
    assert NUMBERS.parse({"gpu": [Plain("0"), 63]}) == {"gpu": (0, 63)}
    with pytest.raises(FieldError, match=r"\.gpu\[0\]: 64 is not"):
        NUMBERS.parse({"gpu": [64]})


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (CLASS_NAME, "systematic", "systematic"),
        (CLASS_VALUE, 10**9, 10**9),
        (CLASS_VALUE, -(2**31), -(2**31)),
        (CLASS_PREEMPTS, "Never", False),
        (CLASS_PREEMPTS, "PreemptLowerPriority", True),
    ],
)
def test_what_a_class_may_have(kind: Kind[object], value: Raw, wanted: object) -> None:
    assert kind.parse(value) == wanted


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (CLASS_NAME, "system-node-critical"),
        (CLASS_NAME, ""),
        (CLASS_VALUE, 10**9 + 1),
        (CLASS_VALUE, -(2**31) - 1),
        (CLASS_PREEMPTS, "never"),
        (CLASS_PREEMPTS, True),
    ],
)
def test_what_no_class_has(kind: Kind[object], value: Raw) -> None:
    with pytest.raises(FieldError):
        kind.parse(value)
