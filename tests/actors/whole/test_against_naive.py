"""The real scheduler decides as the plain algorithm does, whatever comes in, and says why.

Where its state is compared, so is why each ask that is not bound is not running.

``make test`` tries a modest number of scenarios of all themes, in any order of tasks: what the core
decides of each theme is compared in ``tests/naive``. ``make test-long`` tries each theme by itself,
in any order of tasks and without one. Many more, new ones each time::

    MUSTER_EXAMPLES=20000 python -m pytest tests/actors/whole/test_against_naive.py \\
        --hypothesis-profile=thorough -o faulthandler_timeout=0

Without ``MUSTER_EXAMPLES`` it is a part of what the profile says.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from tests.actors import real
from tests.naive.aging_strategies import agings
from tests.naive.back_off_strategies import back_offs
from tests.naive.backfill_strategies import backfills
from tests.naive.device_strategies import devices, topologies
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.explained import explain_all, observe, watched
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, compare, compare_with_state
from tests.naive.operator_strategies import operations
from tests.naive.quota_strategies import quotas
from tests.naive.strategies import scenarios
from tests.naive.time_strategies import time_limits
from tests.naive.usage_strategies import usages
from tests.naive.weight_strategies import weights
from tests.share import share

pytestmark = pytest.mark.starts_early

_EXAMPLES: Final = int(os.environ.get("MUSTER_EXAMPLES", "0"))

THEMES: Final = {
    "plain": scenarios(),
    "gangs": gang_scenarios(),
    "evictions": evictions(),
    "limits, rules and services": operations(),
    "back-offs": back_offs(),
    "limits of time": time_limits(),
    "usage": usages(lists=3),
    "aging": agings(),
    "quotas": quotas(),
    "shares by weight": weights(),
    "topologies and devices": topologies() | devices(),
    "backfill": backfills(lists=3),
}
EXPLAINED: Final = {
    "plain": scenarios(lists=3),
    "much is pending": tangles(),
    "limits, rules and services": operations(lists=2),
    "back-offs": back_offs(lists=2),
    "limits of time": time_limits(lists=2),
    "usage": usages(lists=2),
    "aging": agings(lists=2),
    "quotas": quotas(lists=2),
    "shares by weight": weights(),
    "topologies and devices": topologies(lists=2) | devices(lists=2),
    "backfill": backfills(lists=2),
}
"""Of these it is compared why asks are not running; there are fewer lists of what comes in."""


def part_of_profile(part: float) -> settings:
    """Let Hypothesis try a part of the examples of the profile, or as many as are wanted."""
    return settings(max_examples=_EXAMPLES) if _EXAMPLES else share(part)


@part_of_profile(0.5)
@given(st.one_of(*THEMES.values()), st.integers(0, 2**16))
def test_same_decisions_under_any_interleaving(scenario: list[Step], seed: int) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@part_of_profile(0.4)
@given(st.one_of(*EXPLAINED.values()))
def test_same_reasons(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)


@pytest.mark.takes_long
@pytest.mark.parametrize("theme", THEMES)
def test_same_decisions_of_a_theme(theme: str) -> None:
    @part_of_profile(0.2)
    @given(THEMES[theme])
    def run(scenario: list[Step]) -> None:
        compare(scenario, real.run)
        compare_with_state(scenario, observe)

    run()


@pytest.mark.takes_long
@pytest.mark.parametrize("theme", THEMES)
def test_same_decisions_of_a_theme_under_any_interleaving(theme: str) -> None:
    @part_of_profile(0.2)
    @given(THEMES[theme], st.integers(0, 2**16))
    def run(scenario: list[Step], seed: int) -> None:
        compare_with_state(scenario, lambda steps: observe(steps, seed))

    run()


@pytest.mark.takes_long
@pytest.mark.parametrize("theme", EXPLAINED)
def test_same_reasons_of_a_theme(theme: str) -> None:
    @part_of_profile(0.2)
    @given(EXPLAINED[theme])
    def run(scenario: list[Step]) -> None:
        compare_with_state(watched(scenario), explain_all)

    run()
