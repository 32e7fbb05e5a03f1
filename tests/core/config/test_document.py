"""The nodes of a document."""

from __future__ import annotations

import pytest

from muster_core.config.document import (
    MAX_DEPTH,
    Listing,
    Scalar,
    Table,
    describe,
    from_python,
    unprintable,
)
from muster_core.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("off", "off"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-5, "-5"),
        (0.5, "0.5"),
        (1e16, "1e+16"),
    ],
)
def test_scalars_become_texts(value: object, text: str) -> None:
    assert from_python(value) == Scalar(text, quoted=isinstance(value, str))


def test_maps_and_lists_keep_their_order() -> None:
    document = from_python({"b": [1, 2], "a": {}}, line=7)

    assert isinstance(document, Table)
    assert [key.text for key, _ in document.entries if isinstance(key, Scalar)] == ["b", "a"]
    orders = [node.order for entry in document.entries for node in entry]
    assert orders == sorted(orders)
    assert document.line == 7


def test_nodes_within_stay_as_they_are() -> None:
    node = Scalar("x", line=3)

    assert from_python([node]) == Listing((node,))


def test_keys_that_are_numbers_are_texts() -> None:
    assert from_python({1: 2}) == Table(((Scalar("1", order=1), Scalar("2", order=2)),))


@pytest.mark.parametrize(
    "value", [b"x", {1, 2}, object(), "\ud800", {"\udfff": 1}, pytest.param(10**4300, id="huge")]
)
def test_what_has_no_text_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="cannot stand in a configuration"):
        from_python({"partitions": [value]})


def test_the_refusal_names_the_path_and_the_line() -> None:
    with pytest.raises(ConfigError, match=r"^3: a\[1\]\.b: a bytes cannot stand"):
        from_python({"a": [0, {"b": b""}]}, line=3)


def test_nesting_has_an_end() -> None:
    deep: object = "x"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(ConfigError, match="nested deeper than 200 levels"):
        from_python(deep)


def test_a_list_within_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(ConfigError, match="nested deeper"):
        from_python(endless)


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_nothing(text: str) -> None:
    assert Scalar(text).is_null
    assert not Scalar(text, quoted=True).is_null


def test_descriptions_are_short() -> None:
    assert describe(Scalar("x")) == "'x'"
    assert describe(Scalar("x" * 100)) == "'" + "x" * 60 + "'…"
    assert describe(Table()) == "a map"
    assert describe(Listing()) == "a list"


def test_half_a_surrogate_pair_cannot_be_printed() -> None:
    assert unprintable("a\ud800b")
    assert not unprintable("a\U0001f600b")
