from __future__ import annotations

import statistics

import pytest
from hypothesis import given, strategies as st

from muster.replay import WaitSummary
from muster.replay._costs import Waits

LISTS = st.lists(st.integers(0, 10**12), min_size=1)


def waits(*waits_us: int) -> Waits:
    noted = Waits()
    for wait_us in waits_us:
        noted.add(wait_us)
    return noted


def test_none() -> None:
    assert waits().summary() == WaitSummary(0, None, None, None, None)


def test_one() -> None:
    assert waits(1_500_000).summary() == WaitSummary(1, 1.5, 1.5, 1.5, 1.5)


def test_two() -> None:
    assert waits(3_000_000, 1_000_000).summary() == WaitSummary(2, 2.0, 2.0, 3.0, 3.0)


@pytest.mark.parametrize(("count", "p95_s"), [(19, 19), (20, 19), (21, 20), (40, 38), (100, 95)])
def test_95_percent_do_not_wait_longer(count: int, p95_s: float) -> None:
    noted = waits(*(number * 1_000_000 for number in range(count, 0, -1)))

    assert noted.summary().p95_s == p95_s


@given(LISTS)
def test_against_the_library(waits_us: list[int]) -> None:
    summary = waits(*waits_us).summary()
    longest_s, p95_s = summary.longest_s, summary.p95_s

    assert summary.count == len(waits_us)
    assert summary.mean_s == pytest.approx(statistics.fmean(waits_us) / 1e6)
    assert summary.median_s == pytest.approx(statistics.median(waits_us) / 1e6)
    assert longest_s == max(waits_us) / 1e6
    assert p95_s is not None
    assert sum(wait_us / 1e6 <= p95_s for wait_us in waits_us) >= 0.95 * len(waits_us)
    assert sum(wait_us / 1e6 < p95_s for wait_us in waits_us) < 0.95 * len(waits_us)


@given(LISTS, LISTS)
def test_of_two_queues_together(first: list[int], second: list[int]) -> None:
    together = waits(*first)
    together.extend(waits(*second))

    assert together.summary() == waits(*first, *second).summary()


def test_a_wait_longer_than_can_be_kept() -> None:
    longest_s = waits(2**64).summary().longest_s

    assert longest_s == (2**63 - 1) / 1_000_000
