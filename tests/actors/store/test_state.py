"""The state of a checkpoint comes out of its parts as it went in, whatever came in before.

The suite tries a few scenarios of each kind, and loads what was read after every batch of them.
More, new ones each time::

    MUSTER_EXAMPLES=1000 python -m pytest tests/actors/store/test_state.py \\
        --hypothesis-profile=thorough -o faulthandler_timeout=0
"""

from __future__ import annotations

import os

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from muster.store._codec import PART_BYTES, encode, facts_of, state_in_parts
from muster.store._msgpack import CodecError
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, AddAsk, AddNode, Configure
from muster_core.facts import Facts
from muster_core.resources import Resources
from muster_core.structures.steps import SIZE, all_at_once
from tests.actors.store.program import anatomy
from tests.core.building import configuration, queue
from tests.naive.aging_strategies import agings
from tests.naive.back_off_strategies import back_offs
from tests.naive.device_strategies import devices, topologies
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Relay, Step
from tests.naive.operator_strategies import operations
from tests.naive.quota_strategies import quotas
from tests.naive.strategies import scenarios
from tests.naive.usage_strategies import usages
from tests.naive.weight_strategies import weights
from tests.share import share

pytestmark = pytest.mark.starts_early

_EXAMPLES = int(os.environ.get("MUSTER_EXAMPLES", "0")) or share(0.1).max_examples

ONE = Resources({"vcore": 1})


def written_and_read(facts: Facts) -> Facts:
    """Take facts through the parts of a checkpoint."""
    parts = all_at_once(state_in_parts(facts))
    assert b"".join(parts) == encode(facts)
    found = facts_of(parts)
    assert found == facts
    assert anatomy(found) == anatomy(facts)
    return found


def full(asks: int, name: str = "k") -> PlainScheduler:
    """Return a scheduler with so many asks, of which one is bound."""
    scheduler = PlainScheduler()
    scheduler.submit(Configure(configuration(queue("q"))))
    scheduler.submit(AddNode("n", ONE))
    scheduler.submit(AddApp("a", "root.q"))
    scheduler.submit(AddAsk("a", name, ONE, count=asks))
    scheduler.settle()
    return scheduler


# STORE-10, STORE-13
@settings(max_examples=_EXAMPLES)
@given(
    scenarios(lists=3)
    | gang_scenarios()
    | evictions()
    | operations()
    | tangles()
    | back_offs()
    | topologies()
    | devices()
    | quotas()
    | usages(lists=2)
    | agings(lists=2)
    | weights(),
    st.booleans(),
)
def test_loaded_from_what_was_read_after_every_batch(scenario: list[Step], looks: bool) -> None:
    Relay(written_and_read, looks=looks).take(scenario)


@pytest.mark.parametrize("asks", [SIZE, SIZE + 1, 2 * SIZE + 1])
def test_long_tuples_are_written_as_short_ones_are(asks: int) -> None:
    facts = written_and_read(full(asks).facts())

    (app,) = facts.apps
    assert len(app.pending) == asks - 1
    assert PlainScheduler(facts=facts).snapshot() == full(asks).snapshot()


# STORE-5
def test_a_large_state_has_several_parts_none_of_them_much_larger() -> None:
    parts = all_at_once(state_in_parts(full(20_000, 50 * "k").facts()))

    assert len(parts) > 2
    assert all(PART_BYTES <= len(part) < 2 * PART_BYTES for part in parts[:-1])


def test_a_field_of_a_newer_version_is_refused() -> None:
    facts = PlainScheduler().facts()
    newer = attrs.make_class("Facts", ["coordinator", "tides"])(facts.coordinator, 1)

    with pytest.raises(CodecError, match="tides"):
        facts_of([encode(newer)])
