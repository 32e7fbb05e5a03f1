"""The benchmark of Kubernetes runs, at a small share of its size; ``make bench`` runs all of it."""

from __future__ import annotations

import pytest

from benchmarks.kubernetes import CASES, measure_case


@pytest.mark.takes_long
@pytest.mark.parametrize("name", CASES)
def test_it_measures(name: str) -> None:
    figures = measure_case(name, 0.01)

    assert figures != []
    assert all(one.value > 0 for one in figures), figures
