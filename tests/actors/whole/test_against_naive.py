"""The real scheduler decides as the plain algorithm does, whatever comes in, and says why.

Where its state is compared, so is why each ask that is not bound is not running.

The suite tries a modest number of scenarios. Many more, new ones each time::

    MUSTER_EXAMPLES=20000 python -m pytest tests/actors/whole/test_against_naive.py \\
        --hypothesis-profile=thorough -o faulthandler_timeout=0

Without ``MUSTER_EXAMPLES`` it is a part of what the profile says: of each kind of scenario there
are two properties, one in any order of tasks and one without, and each has scenarios of its own.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings, strategies as st

from tests.actors import real
from tests.naive.back_off_strategies import back_offs
from tests.naive.backfill.strategies import backfills
from tests.naive.devices.strategies import devices
from tests.naive.eviction_strategies import evictions
from tests.naive.explained import explain_all, watched
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, compare, compare_with_state
from tests.naive.observed import observe
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.naive.tangles import tangles
from tests.naive.topology.strategies import topologies
from tests.share import share

pytestmark = pytest.mark.starts_early

_EXAMPLES = int(os.environ.get("MUSTER_EXAMPLES", "0")) or share(0.2).max_examples


@settings(max_examples=_EXAMPLES)
@given(scenarios())
def test_same_decisions(scenario: list[Step]) -> None:
    compare(scenario, real.run)


@settings(max_examples=_EXAMPLES)
@given(scenarios(), st.integers(0, 2**16))
def test_same_decisions_under_any_interleaving(scenario: list[Step], seed: int) -> None:
    compare(scenario, lambda steps: real.run(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(gang_scenarios())
def test_same_decisions_with_gangs(scenario: list[Step]) -> None:
    compare_with_state(scenario, observe)


@settings(max_examples=_EXAMPLES)
@given(gang_scenarios(), st.integers(0, 2**16))
def test_same_decisions_with_gangs_under_any_interleaving(scenario: list[Step], seed: int) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(evictions())
def test_same_decisions_with_evictions(scenario: list[Step]) -> None:
    compare_with_state(scenario, observe)


@settings(max_examples=_EXAMPLES)
@given(evictions(), st.integers(0, 2**16))
def test_same_decisions_with_evictions_under_any_interleaving(
    scenario: list[Step], seed: int
) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(operations())
def test_same_decisions_with_limits_rules_and_services(scenario: list[Step]) -> None:
    compare_with_state(scenario, observe)


@settings(max_examples=_EXAMPLES)
@given(operations(), st.integers(0, 2**16))
def test_same_decisions_with_limits_rules_and_services_under_any_interleaving(
    scenario: list[Step], seed: int
) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(back_offs())
def test_same_decisions_with_back_offs(scenario: list[Step]) -> None:
    compare_with_state(scenario, observe)


@settings(max_examples=_EXAMPLES)
@given(back_offs(), st.integers(0, 2**16))
def test_same_decisions_with_back_offs_under_any_interleaving(
    scenario: list[Step], seed: int
) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(topologies() | devices(), st.integers(0, 2**16))
def test_same_decisions_with_topologies_and_devices_under_any_interleaving(
    scenario: list[Step], seed: int
) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(scenarios(lists=3))
def test_same_reasons(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)


@settings(max_examples=_EXAMPLES)
@given(tangles())
def test_same_reasons_where_much_is_pending(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)


@settings(max_examples=_EXAMPLES)
@given(topologies(lists=2) | devices(lists=2))
def test_same_reasons_with_topologies_and_devices(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)


@settings(max_examples=_EXAMPLES)
@given(operations(lists=2))
def test_same_reasons_with_limits_rules_and_services(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)


@settings(max_examples=_EXAMPLES)
@given(back_offs(lists=2))
def test_same_reasons_with_back_offs(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)


@settings(max_examples=_EXAMPLES)
@given(backfills(lists=3), st.integers(0, 2**16))
def test_same_decisions_with_backfill_under_any_interleaving(
    scenario: list[Step], seed: int
) -> None:
    compare_with_state(scenario, lambda steps: observe(steps, seed))


@settings(max_examples=_EXAMPLES)
@given(backfills(lists=2))
def test_same_reasons_with_backfill(scenario: list[Step]) -> None:
    compare_with_state(watched(scenario), explain_all)
