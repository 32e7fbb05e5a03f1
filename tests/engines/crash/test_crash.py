"""Small crash runs have no faults, and the verdict finds each kind of fault."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import pytest

from tests.engines.crash.rounds import Options, Target, run
from tests.engines.crash.verdict import Books, BoundMember, Kill, WorkRun, faults_in

ONE = ("alone-1", "m-0")
LEFT, RIGHT = ("gang-2", "m-0"), ("gang-2", "m-1")

GOOD = Books(
    asks=frozenset({ONE, LEFT, RIGHT}),
    completed=Counter([ONE, LEFT, RIGHT]),
    removed=frozenset(),
    reasons=Counter({"completed": 3}),
    evicted_s={},
    bound=(
        BoundMember(ONE, 1, 1, "a", 9.0),
        BoundMember(LEFT, 2, 2, "a", 19.0),
        BoundMember(RIGHT, 2, 2, "b", 19.0),
    ),
    runs=(
        WorkRun(ONE, 1, 10.0, 11.0, has_ended=True),
        WorkRun(LEFT, 2, 20.0, 21.0, has_ended=True),
        WorkRun(RIGHT, 2, 20.1, 21.0, has_ended=True),
    ),
    kills=(),
)


def test_nothing_is_wrong_with_what_went_well() -> None:
    assert faults_in(GOOD) == []


def test_ask_that_ended_twice_or_never_is_found() -> None:
    twice = attrs.evolve(GOOD, completed=Counter([ONE, ONE, LEFT, RIGHT]))
    never = attrs.evolve(GOOD, completed=Counter([LEFT, RIGHT]), removed=frozenset({ONE}))
    unknown = attrs.evolve(GOOD, asks=frozenset({ONE, LEFT}))

    assert faults_in(twice) == ["alone-1/m-0 was completed 2 times"]
    assert faults_in(never) == ["alone-1/m-0 was completed 0 times, and was given up"]
    assert "gang-2/m-1 was completed, and nobody has asked for it" in faults_in(unknown)


def test_ask_that_is_completed_though_its_work_was_cut_short_is_found() -> None:
    cut = attrs.evolve(GOOD.runs[0], has_ended=False)
    (fault,) = faults_in(attrs.evolve(GOOD, runs=(cut, *GOOD.runs[1:])))
    assert fault == "alone-1/m-0 was completed, and no run of it has come to its end"


def test_runs_that_overlap_are_found() -> None:
    before = WorkRun(ONE, 0, 5.0, 10.0, has_ended=False)
    fine = attrs.evolve(before, lived_s=9.9)

    assert faults_in(attrs.evolve(GOOD, runs=(*GOOD.runs, fine))) == []
    (fault,) = faults_in(
        attrs.evolve(GOOD, runs=(*GOOD.runs, before), kills=(Kill(8.0, "raylet", "a"),))
    )
    assert "the run of step 1 began at 10.00, 0.00 s before that of step 0 ended" in fault
    assert "2.0 s after the kill of raylet a" in fault


def test_gang_that_begins_in_part_is_found_unless_it_was_hit() -> None:
    again = (BoundMember(RIGHT, 3, 1, "a", 29.0),)
    late = WorkRun(RIGHT, 3, 30.0, 31.0, has_ended=True)
    part = attrs.evolve(GOOD, bound=GOOD.bound + again, runs=(*GOOD.runs[:2], late))
    (fault,) = faults_in(part)

    assert fault.startswith("gang gang-2, step 2: 1 of 2 began, at 20.00, without m-1 on b")
    assert faults_in(attrs.evolve(part, kills=(Kill(18.0, "raylet", "b"),))) == []
    assert faults_in(attrs.evolve(part, kills=(Kill(20.5, "agent"),))) == []
    assert faults_in(attrs.evolve(part, evicted_s={RIGHT: [20.2]})) == []
    assert len(faults_in(attrs.evolve(part, kills=(Kill(18.0, "raylet", "a"),)))) == 1
    assert len(faults_in(attrs.evolve(part, kills=(Kill(2.0, "agent"),)))) == 1
    assert len(faults_in(attrs.evolve(part, evicted_s={LEFT: [20.2]}))) == 1


def test_gang_that_was_not_bound_as_a_whole_is_found() -> None:
    alone = attrs.evolve(GOOD.bound[1], peers=1)
    (fault,) = faults_in(attrs.evolve(GOOD, bound=(GOOD.bound[0], alone, GOOD.bound[2])))
    assert fault == "gang gang-2 began at 20.00 with step 2, in which 1 of 2 were bound"


@pytest.mark.parametrize(
    ("what", "detached"),
    [("raylet", False), ("agent", False), ("service", True), ("service", False)],
    ids=["raylet", "agent", "service", "service with its work"],
)
def test_kills_leave_everything_right(
    needs_ray: None, tmp_path: Path, what: Target, detached: bool
) -> None:
    options = Options(
        (what,), tasks=20, minutes=0.25, seed=1, detached=detached, every_s=12.0, most=3
    )
    outcome = run(options, tmp_path)
    assert outcome.faults == (), "\n".join(outcome.faults)
