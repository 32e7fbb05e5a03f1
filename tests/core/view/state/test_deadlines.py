"""Deadlines in order."""

from __future__ import annotations

from muster_core.structures.steps import all_at_once
from muster_core.view.state.timers import Deadlines


def test_far_off_deadlines_that_no_longer_stand_are_not_kept() -> None:
    standing: list[tuple[int]] = []
    deadlines = Deadlines[tuple[int]](lambda deadline: deadline in standing)
    for number in range(1_000):
        standing[:] = [(10**15 - number,)]
        deadlines.add((10**15 - number,))
        assert deadlines.first() == (10**15 - number,)
        all_at_once(deadlines.tidy())
        assert len(deadlines) < 100


def test_a_deadline_that_no_longer_stands_is_passed_over() -> None:
    standing = {(2,), (3,)}
    deadlines = Deadlines[tuple[int]](lambda deadline: deadline in standing)
    for instant in (3, 1, 2):
        deadlines.add((instant,))

    assert deadlines.first() == (2,)
    deadlines.pop()
    assert deadlines.first() == (3,)
    standing.clear()
    assert deadlines.first() is None
