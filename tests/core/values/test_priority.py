"""Priorities, and the cached maximum of many of them."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from muster_core.config.model import Settings
from muster_core.values.priority import (
    BUILT_IN_CLASSES,
    MAX_PRIORITY,
    MIN_PRIORITY,
    PriorityTally,
    clamp,
    current_priority,
    highest,
)


def test_the_classes_that_are_built_in() -> None:
    assert {known.name: known.value for known in BUILT_IN_CLASSES} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    assert all(known.preempts for known in BUILT_IN_CLASSES)


@pytest.mark.parametrize(
    ("priority", "clamped"),
    [
        (2**31 - 1, 2**31 - 1),
        (2**31, 2**31 - 1),
        (-(2**31), -(2**31)),
        (-(2**31) - 1, -(2**31)),
        (2**80, 2**31 - 1),
        (0, 0),
    ],
)
def test_clamped_to_int32(priority: int, clamped: int) -> None:
    assert clamp(priority) == clamped


def test_the_offset_is_added() -> None:
    assert current_priority(Settings(offset=-3), 5, is_root=False) == 2


@pytest.mark.parametrize(
    ("offset", "highest", "expected"),
    [
        (MAX_PRIORITY, MAX_PRIORITY, MAX_PRIORITY),
        (MAX_PRIORITY, 1, MAX_PRIORITY),
        (MIN_PRIORITY, MIN_PRIORITY, MIN_PRIORITY),
        (MIN_PRIORITY, MAX_PRIORITY, -1),
    ],
)
def test_the_sum_is_clamped(offset: int, highest: int, expected: int) -> None:
    assert current_priority(Settings(offset=offset), highest, is_root=False) == expected


def test_no_offset_applies_to_nothing() -> None:
    assert current_priority(Settings(offset=7), None, is_root=False) is None


@pytest.mark.parametrize("highest", [None, 100, -100])
def test_a_fence_is_exactly_its_offset(highest: int | None) -> None:
    assert current_priority(Settings(fence=True, offset=7), highest, is_root=False) == 7


@pytest.mark.parametrize("highest", [None, 100])
def test_at_the_root_fence_and_offset_do_nothing(highest: int | None) -> None:
    assert current_priority(Settings(fence=True, offset=7), highest, is_root=True) == highest


def test_an_empty_tally_has_no_top() -> None:
    assert PriorityTally().top() is None


def test_adding_never_looks_for_the_maximum() -> None:
    tally = PriorityTally()
    for priority in (1, 5, 3, 5, 9):
        tally.add(priority)
        tally.top()

    assert tally.top() == 9
    assert tally.recomputations == 0


def test_removing_one_that_is_not_the_top_recomputes_nothing() -> None:
    tally = PriorityTally()
    tally.add(1)
    tally.add(9)
    tally.remove(1)

    assert tally.top() == 9
    assert tally.recomputations == 0


def test_removing_one_of_several_at_the_top_stops_at_the_next() -> None:
    tally = PriorityTally()
    tally.add(9, times=1000)
    for _ in range(999):
        tally.remove(9)
        assert tally.top() == 9

    assert tally.recomputations == 0


def test_removing_the_last_at_the_top_recomputes_once() -> None:
    tally = PriorityTally()
    for priority in range(100):
        tally.add(priority)
    tally.remove(99)

    assert tally.top() == tally.top() == 98
    assert tally.recomputations == 1


def test_a_maximum_that_comes_back_in_time_is_not_looked_for() -> None:
    tally = PriorityTally()
    tally.add(9)
    tally.replace(9, None)
    tally.replace(None, 9)

    assert tally.top() == 9
    assert tally.recomputations == 0


def test_replacing_by_the_same_changes_nothing() -> None:
    tally = PriorityTally()
    tally.replace(None, None)
    tally.add(4)
    tally.replace(4, 4)

    assert tally.top() == 4
    tally.check()


def test_what_comes_and_goes_below_a_lasting_top_leaves_nothing_behind() -> None:
    tally = PriorityTally()
    tally.add(9)
    tracemalloc.start()
    for _ in range(20_000):
        tally.add(5)
        tally.remove(5)
    grown_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert grown_bytes < 20_000


class Tallies(RuleBasedStateMachine):
    """A tally beside a list that is searched anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = PriorityTally()
        self.plain: list[int] = []

    @rule(
        priority=st.sampled_from([MIN_PRIORITY, -1, 0, 1, 2, MAX_PRIORITY]), times=st.integers(1, 3)
    )
    def add(self, priority: int, times: int) -> None:
        self.tally.add(priority, times)
        self.plain += [priority] * times

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        priority = data.draw(st.sampled_from(self.plain))
        self.tally.remove(priority)
        self.plain.remove(priority)

    @precondition(lambda self: self.plain)
    @rule(new=st.none() | st.integers(-3, 3), data=st.data())
    def replace(self, new: int | None, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.plain))
        self.tally.replace(old, new)
        self.plain.remove(old)
        self.plain += [] if new is None else [new]

    @invariant()
    def agrees(self) -> None:
        assert self.tally.top() == max(self.plain, default=None)
        self.tally.check()

    @override
    def teardown(self) -> None:
        for priority in Counter(self.plain).elements():
            self.tally.remove(priority)
        assert self.tally.top() is None


TestTallies = Tallies.TestCase


def test_the_highest_of_priorities_of_which_some_are_none() -> None:
    assert highest([None, -3, None, -5]) == -3
    assert highest([None]) is None
