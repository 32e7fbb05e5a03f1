"""Resources: a value, in which zero is the same as missing and nothing wraps."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster_core.errors import InsufficientError, QuantityError
from muster_core.resources import MAX_QUANTITY, NOTHING, Resources

AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 100))


def test_zero_is_the_same_as_missing() -> None:
    assert Resources({"vcore": 0}) == NOTHING
    assert hash(Resources({"vcore": 0})) == hash(Resources())
    assert "vcore" not in Resources({"vcore": 0})


def test_a_missing_type_is_zero() -> None:
    assert Resources({"vcore": 1})["memory"] == 0


def test_the_order_of_types_is_that_of_their_names() -> None:
    assert list(Resources({"vcore": 1, "memory": 2})) == ["memory", "vcore"]
    assert repr(Resources({"b": 1, "a": 2})) == "Resources({'a': 2, 'b': 1})"


@pytest.mark.parametrize("amount", [-1, MAX_QUANTITY + 1])
def test_an_amount_out_of_bounds_is_refused(amount: int) -> None:
    with pytest.raises(QuantityError, match="gpu"):
        Resources({"vcore": 1, "gpu": amount})


def test_adding_more_than_there_can_be_names_the_type() -> None:
    most = Resources({"vcore": 1, "gpu": MAX_QUANTITY})

    with pytest.raises(QuantityError, match="gpu"):
        _ = most + Resources({"gpu": 1})


def test_taking_more_than_there_is_names_the_type_and_changes_nothing() -> None:
    some = Resources({"vcore": 5, "memory": 5})

    with pytest.raises(InsufficientError, match="memory: 6 taken, but there is only 5"):
        _ = some - Resources({"vcore": 1, "memory": 6})
    assert some == Resources({"vcore": 5, "memory": 5})


def test_taking_a_type_that_is_not_there() -> None:
    with pytest.raises(InsufficientError, match="gpu: 1 taken, but there is only 0"):
        _ = NOTHING - Resources({"gpu": 1})


@pytest.mark.parametrize(
    ("amount", "room", "fits"),
    [
        ({}, {}, True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 2}, {"a": 1, "b": 5}, False),
        ({"a": 1}, {"b": 5}, False),
    ],
)
def test_fitting(amount: dict[str, int], room: dict[str, int], fits: bool) -> None:
    assert Resources(amount).fits_in(Resources(room)) is fits
    assert Resources(amount).fits_in(room) is fits


def test_resources_differ_from_other_maps() -> None:
    assert Resources({"a": 1}) != {"a": 1}


@given(AMOUNTS, AMOUNTS)
def test_what_was_added_can_be_taken_away(left: dict[str, int], right: dict[str, int]) -> None:
    total = Resources(left) + Resources(right)

    assert total == Resources(right) + Resources(left)
    assert total - Resources(right) == Resources(left)
    assert Resources(left).fits_in(total)


@given(AMOUNTS, AMOUNTS)
def test_taking_works_exactly_where_it_fits(left: dict[str, int], right: dict[str, int]) -> None:
    fits = Resources(left).fits_in(Resources(right))

    try:
        _ = Resources(right) - Resources(left)
    except InsufficientError:
        assert not fits
    else:
        assert fits
