"""Whoever is loaded from facts goes on as if nothing had happened, whatever came in before."""

from __future__ import annotations

import os

from hypothesis import given, settings, strategies as st

from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.relay import Relay
from tests.naive.strategies import scenarios
from tests.naive.tangles import tangles
from tests.share import share

_EXAMPLES = int(os.environ.get("MUSTER_EXAMPLES", "0")) or share(0.1).max_examples

LOOKS = st.booleans()


@settings(max_examples=_EXAMPLES)
@given(scenarios(), LOOKS)
def test_loaded_after_every_batch(scenario: list[Step], looks: bool) -> None:
    Relay(looks=looks).take(scenario)


@settings(max_examples=_EXAMPLES)
@given(gang_scenarios(), LOOKS)
def test_loaded_after_every_batch_with_gangs(scenario: list[Step], looks: bool) -> None:
    Relay(looks=looks).take(scenario)


@settings(max_examples=_EXAMPLES)
@given(evictions(), LOOKS)
def test_loaded_after_every_batch_with_evictions(scenario: list[Step], looks: bool) -> None:
    Relay(looks=looks).take(scenario)


@settings(max_examples=_EXAMPLES)
@given(operations(), LOOKS)
def test_loaded_after_every_batch_with_limits_rules_and_services(
    scenario: list[Step], looks: bool
) -> None:
    Relay(looks=looks).take(scenario)


@settings(max_examples=_EXAMPLES)
@given(tangles(), LOOKS)
def test_loaded_after_every_batch_where_much_is_pending(scenario: list[Step], looks: bool) -> None:
    Relay(looks=looks).take(scenario)
