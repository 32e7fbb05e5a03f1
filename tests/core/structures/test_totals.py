"""Running sums."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster_core.structures.amounts import add_to, sum_of, take_from

AMOUNTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2**63 - 1))


def test_sums_have_no_limit() -> None:
    total: dict[str, int] = {}
    for _ in range(3):
        add_to(total, {"a": 2**63 - 1})

    assert total == {"a": 3 * (2**63 - 1)}


def test_the_sum_of_amounts() -> None:
    assert sum_of([{"a": 2, "b": 3}, {}, {"a": 1}]) == {"a": 3, "b": 3}
    assert sum_of([]) == {}


def test_there_are_no_zeros() -> None:
    total = {"a": 2, "b": 3}
    take_from(total, {"a": 2, "b": 1})

    assert total == {"b": 2}


def test_what_was_never_there_cannot_be_taken() -> None:
    with pytest.raises(KeyError):
        take_from({"a": 1}, {"b": 1})


@given(st.lists(AMOUNTS).flatmap(lambda parts: st.tuples(st.just(parts), st.permutations(parts))))
def test_what_was_added_can_be_taken_in_any_order(
    parts: tuple[list[dict[str, int]], list[dict[str, int]]],
) -> None:
    total: dict[str, int] = {}
    for part in parts[0]:
        add_to(total, part)
    for part in parts[1]:
        take_from(total, part)

    assert total == {}
