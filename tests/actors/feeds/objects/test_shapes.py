from __future__ import annotations

import pytest

from muster.feeds import Plain, Raw
from muster.feeds._kinds import INT32, NAME, FieldError
from muster.feeds._schema import ObjectSchema, as_kubernetes, schema_field

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
