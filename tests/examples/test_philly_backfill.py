"""examples/philly/backfill.py: what backfill brings to the jobs of a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.philly.backfill import ESTIMATES, Trial, replay
from examples.philly.demo import WIDE


@pytest.mark.takes_long
def test_backfill_of_a_real_cluster(tmp_path: Path) -> None:
    """The figures are those of the contract, from a simulator of its own."""
    found = replay(Trial(WIDE, "backfill"), tmp_path)

    assert found.mean_s == pytest.approx(8_752.2, abs=0.05)
    assert found.wide_s == 119_166


def test_estimates() -> None:
    assert {
        name: [estimate(run_s) for run_s in (1, 3600, 3601)] for name, estimate in ESTIMATES.items()
    } == {
        "exact": [1, 3600, 3601],
        "twice as long": [2, 7200, 7202],
        "whole hours": [3600, 3600, 7200],
    }
