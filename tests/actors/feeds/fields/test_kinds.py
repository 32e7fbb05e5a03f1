from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from muster.feeds import AT, OPS, Plain, Raw
from muster.feeds._annotations import MEMBER_ANNOTATIONS, OBJECT_ANNOTATIONS
from muster.feeds._kinds import (
    ASK,
    BOOLEAN,
    COUNT,
    DURATION,
    INSTANT,
    INT32,
    SHARE,
    TEXT,
    WORD,
    FieldError,
    Kind,
    as_written,
    display_value,
)
from muster.feeds._manifests import APPLIED, DELETED
from tests.actors.feeds.strategies import LEAVES, MANIFEST, MARKS, VALUES

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
def test_how_values_are_told(value: object, message: str) -> None:
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
