"""Rows: amounts by the numbers of the types."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.structures.amounts import Types, add_to_row, take_from_row

AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2**70))


def test_types_are_numbered_as_they_appear() -> None:
    types = Types()

    assert types.row({"b": 5, "a": 7}) == [5, 7]
    assert types.row({"c": 1, "a": 2}) == [0, 2, 1]
    assert types.names == ["b", "a", "c"]
    assert [types.find(name) for name in "abcd"] == [1, 0, 2, None]


@given(st.lists(AMOUNTS))
def test_a_row_has_the_amounts_without_zeros(several: list[dict[str, int]]) -> None:
    types = Types()
    rows = [types.row(amounts) for amounts in several]

    for row, amounts in zip(rows, several, strict=True):
        types.lengthen(row)
        assert types.amounts(row) == {name: amount for name, amount in amounts.items() if amount}


@given(AMOUNTS, AMOUNTS)
def test_amounts_are_added_and_taken_by_number(one: dict[str, int], other: dict[str, int]) -> None:
    types = Types()
    row, more = types.row(one), types.numbered(other)
    types.lengthen(row)
    before = list(row)

    add_to_row(row, more)
    assert row == [one.get(name, 0) + other.get(name, 0) for name in types.names]
    take_from_row(row, more)
    assert row == before


def test_who_keeps_rows_is_called_when_there_are_more_types() -> None:
    types = Types()
    kept = types.row({"a": 1})
    lengths: list[int] = []

    def lengthen() -> None:
        types.lengthen(kept)
        lengths.append(len(kept))

    types.call_when_grown(lengthen)
    types.numbered({"a": 5})
    assert lengths == []
    assert types.numbered({"c": 2, "b": 3, "a": 4}) == ((1, 2), (2, 3), (0, 4))
    assert lengths == [3]
    assert kept == [1, 0, 0]
