"""Amounts of a job that are divided among its asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hypothesis import given, strategies as st

from muster.importing.tables.rows import divide_evenly, divide_within

AMOUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 40), min_size=1)


def total(sizes: Iterable[tuple[Mapping[str, int], int]]) -> Counter[str]:
    """Return what all asks need together."""
    found: Counter[str] = Counter()
    for size, count in sizes:
        found.update({name: amount * count for name, amount in size.items()})
    return found


@given(AMOUNTS, st.integers(1, 12))
def test_tasks_need_together_what_the_job_needs(amounts: dict[str, int], tasks: int) -> None:
    sizes = divide_evenly(amounts, tasks)

    assert total(sizes) == Counter(amounts)
    assert sum(count for _, count in sizes) <= tasks
    for name, amount in amounts.items():
        assert max(size.get(name, 0) for size, _ in sizes) == -(-amount // tasks)


@given(AMOUNTS, st.integers(1, 9))
def test_asks_within_limits_need_together_what_the_job_needs(
    amounts: dict[str, int], limit: int
) -> None:
    name = min(amounts)
    sizes = divide_within(amounts, {name: limit})

    assert total(sizes) == Counter(amounts)
    assert sum(count for _, count in sizes) == -(-amounts[name] // limit)
    assert all(size and size.get(name, 0) <= limit for size, _ in sizes)


def test_two_rests_of_different_size_stay_two() -> None:
    assert divide_evenly({"gpu": 4, "memory": 8}, 3) == [
        ({"gpu": 2, "memory": 3}, 1),
        ({"gpu": 1, "memory": 3}, 1),
        ({"gpu": 1, "memory": 2}, 1),
    ]


def test_what_one_member_needs_is_not_rounded_up_for_each() -> None:
    assert divide_within({"vcore": 20, "gpu": 1}, {"vcore": 8}) == [
        ({"vcore": 8, "gpu": 1}, 1),
        ({"vcore": 8}, 1),
        ({"vcore": 4}, 1),
    ]
