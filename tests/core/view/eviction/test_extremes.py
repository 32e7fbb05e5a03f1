"""The least and the greatest of many numbers."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.nodes.node import Node
from muster_core.structures.amounts import WeightedShare
from muster_core.view.eviction.victims import NodeMaxima, NumberCounts

NODES = [Node(name, {}, {}, schedulable=True, weighing=WeightedShare({}, ())) for name in "lmn"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 5) | st.none()), max_size=400))
def test_the_peak_is_the_most_of_all_nodes(changes: list[tuple[int, int | None]]) -> None:
    peaks = NodeMaxima()
    now: dict[int, int] = {}
    for number, amount in changes:
        if amount is None:
            peaks.forget(NODES[number])
            now.pop(number, None)
        else:
            peaks.set(NODES[number], "vcore", amount)
            now[number] = amount

        assert peaks.top("vcore") == max(0, *now.values(), 0)
    assert peaks.top("memory") == 0


def test_types_do_not_mix_however_often_they_change() -> None:
    peaks = NodeMaxima()
    for number in range(500):
        for node in NODES:
            peaks.set(node, "vcore", number % 3)
            peaks.set(node, "memory", number % 2)

        assert (peaks.top("vcore"), peaks.top("memory")) == (number % 3, number % 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_the_ends_are_those_of_what_is_there(changes: list[tuple[bool, int]]) -> None:
    counts = NumberCounts()
    now: list[int] = []
    for comes, number in changes:
        if comes:
            counts.add(number)
            now.append(number)
        elif number in now:
            counts.remove(number)
            now.remove(number)

        assert bool(counts) is bool(now)
        assert counts.total == sum(now)
        if now:
            assert counts.ends() == (min(now), max(now))
