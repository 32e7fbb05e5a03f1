"""Shares: of queues, applications and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import fsum, inf

import pytest
from hypothesis import given, strategies as st

from muster_core.config.model import QueueConfig
from muster_core.structures.amounts import (
    NOTHING_THERE,
    WeightedShare,
    largest_share,
    queue_divisors,
    share,
    total_divisors,
    usage_key,
)
from tests.core.building import queue_config

AMOUNTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2**63 - 1))


def test_a_share_of_nothing() -> None:
    assert share(0, 0) == 0.0
    assert share(1, 0) == inf


@given(st.integers(0, 2**80), st.integers(1, 2**80))
def test_a_share_is_the_nearest_double(used: int, whole: int) -> None:
    assert share(used, whole) == float(Fraction(used, whole))


def test_sums_that_are_huge_are_not_rounded_first() -> None:
    # As doubles both of these amounts are 2**63.
    assert share(2**63 - 1, 2**63 + 1) == 1.0
    assert share(3 * (2**63 - 1), 2**63 - 1) == 3.0


def test_the_largest_share_over_all_types() -> None:
    divisors = ((0, 2), (1, 4))

    assert largest_share([1, 3], divisors) == 0.75
    assert largest_share([0, 0], divisors) == 0.0
    assert largest_share([], ()) == 0.0


@given(st.integers(0, 2**80), st.integers(0, 2**80))
def test_the_share_of_one_type(used: int, whole: int) -> None:
    assert largest_share([used], total_divisors({"a": whole}, ["a"])) == share(used, whole)


def test_the_total_of_the_partition_by_the_numbers_of_the_types() -> None:
    found = total_divisors({"a": 2, "b": 5}, ["b", "c", "a"])

    assert found == ((0, 5), (1, NOTHING_THERE), (2, 2))


def divisors(path: list[QueueConfig], **total: int) -> list[float]:
    found = queue_divisors(path, total, ["a", "b"])
    assert [number for number, _ in found] == [0, 1]
    return [divisor for _, divisor in found]


def test_guaranteed_is_the_first_to_compare_with() -> None:
    path = [queue_config(guaranteed={"a": 4}, max={"a": 2}), queue_config(max={"a": 1})]

    assert divisors(path, a=100, b=7) == [4, 7]


def test_then_the_smallest_max_on_the_path() -> None:
    path = [queue_config(max={"a": 7}), queue_config(max={"a": 5, "b": 9}), queue_config()]

    assert divisors(path, a=100) == [5, 9]


def test_a_guaranteed_of_an_ancestor_does_not_count() -> None:
    path = [queue_config(), queue_config(guaranteed={"a": 4})]

    assert divisors(path, a=100, b=7) == [100, 7]


def test_then_the_total_of_the_partition() -> None:
    assert divisors([queue_config()], a=100) == [100, NOTHING_THERE]


def test_a_guaranteed_of_zero_is_not_named_but_a_max_of_zero_is() -> None:
    path = [queue_config(guaranteed={"a": 0}, max={"a": 0})]

    assert divisors(path, a=100, b=7) == [NOTHING_THERE, 7]


def test_fair_share_is_the_largest_over_the_types_in_use() -> None:
    found = queue_divisors([queue_config(guaranteed={"a": 4, "c": 1})], {"b": 10}, ["a", "b"])
    only_a = queue_divisors([queue_config()], {"a": 100}, ["a", "b"])

    assert largest_share([1, 5], found) == 0.5
    assert largest_share([0, 0], found) == 0.0
    assert largest_share([0, 1], only_a) == inf


def test_usage_goes_from_the_largest_share_down() -> None:
    assert usage_key({"a": 1, "b": 3}, {"a": 2}, {"a": 100, "b": 4}) == (0.75, 0.5)
    assert usage_key({"a": 0}, {}, {"a": 1}) == ()
    assert usage_key({"z": 1, "a": 1}, {}, {"a": 1}) == (inf, 1.0)


@given(AMOUNTS, AMOUNTS)
def test_types_that_are_not_used_change_no_comparison(
    one: dict[str, int], two: dict[str, int]
) -> None:
    total = dict.fromkeys("abc", 1000)
    padded = [
        sorted((share(used.get(name, 0), total[name]) for name in total), reverse=True)
        for used in (one, two)
    ]

    assert (usage_key(one, {}, total) < usage_key(two, {}, total)) == (padded[0] < padded[1])


def utilisation(
    used: Mapping[str, int], capacity: Mapping[str, int], weights: Sequence[tuple[str, float]]
) -> float:
    return WeightedShare(capacity, weights).utilisation(used)


def test_utilisation_is_the_weighted_average() -> None:
    weights = (("a", 3.0), ("b", 1.0), ("c", 5.0))

    assert utilisation({"a": 1, "c": 9}, {"a": 2, "b": 2}, weights) == 1.5 / 4.0


@pytest.mark.parametrize("weights", [(), (("z", 1.0),), (("a", 0.0), ("b", 0.0))])
def test_without_anything_to_weigh_it_is_zero(weights: tuple[tuple[str, float], ...]) -> None:
    assert utilisation({"a": 1}, {"a": 2, "b": 2}, weights) == 0.0


def test_a_type_of_weight_zero_is_in_the_average_without_effect() -> None:
    assert utilisation({"a": 1, "b": 2}, {"a": 2, "b": 2}, (("a", 1.0), ("b", 0.0))) == 0.5


def test_more_used_than_there_is() -> None:
    assert utilisation({"a": 6}, {"a": 2}, (("a", 1.0),)) == 3.0


def test_sums_are_rounded_once() -> None:
    weights = tuple((name, 0.1) for name in "abcdefghij")
    capacity = dict.fromkeys("abcdefghij", 1)

    assert utilisation(capacity, capacity, weights) == fsum([0.1] * 10) / fsum([0.1] * 10) == 1.0


def test_weights_too_large_to_be_averaged_make_it_infinite() -> None:
    weights = (("a", 8e307), ("b", 8e307))

    assert utilisation({"a": 2, "b": 2}, {"a": 1, "b": 1}, weights) == inf


@given(
    st.lists(st.tuples(st.integers(0, 2**63), st.integers(1, 2**63)), min_size=1, max_size=3),
    st.lists(st.floats(0, 1e300), min_size=3, max_size=3),
)
def test_utilisation_is_rounded_as_the_sum_is(
    parts: list[tuple[int, int]], weights: list[float]
) -> None:
    named = dict(zip("abc", parts, strict=False))
    used = {name: part[0] for name, part in named.items()}
    capacity = {name: part[1] for name, part in named.items()}
    weighted = dict(zip(named, weights, strict=False))
    shares = [weight * share(used[name], capacity[name]) for name, weight in weighted.items()]
    whole = fsum(weighted.values())

    wanted = fsum(shares) / whole if whole else 0.0
    assert utilisation(used, capacity, list(weighted.items())) == wanted
