"""Runs that were read."""

from __future__ import annotations

from muster.importing.slurm.jobs import KnownRuns


def test_runs_are_counted_and_known_again() -> None:
    seen = KnownRuns()
    assert [seen.add(0, 7, run) for run in ("a", "b", "a", "b", "c")] == [1, 2, 0, 0, 3]
    assert [seen.add(0, number, "a") for number in (6, 8, 7 + 64, 10**9)] == [1, 1, 1, 1]
    assert seen.add("another", 7, "a") == 1
    assert seen.has(0, 7)
    assert not seen.has(0, 9)
    assert not seen.has("nothing", 7)
