r"""Whoever is loaded from facts goes on as if nothing had happened, whatever came in before.

The suite tries a few scenarios of each kind, and loads after every batch of them. More, new ones
each time::

    MUSTER_EXAMPLES=1000 python -m pytest tests/core/test_checkpoints.py \
        --hypothesis-profile=thorough -o faulthandler_timeout=0
"""

from __future__ import annotations

import os

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddNode, Configure, FailBind, RemoveAsk, RemoveNode
from muster_core.resources import Resources
from tests.core.admission.objects import applied, volcano_queue
from tests.core.building import configuration, queue
from tests.naive.aging_strategies import agings
from tests.naive.back_off_strategies import back_offs
from tests.naive.backfill_strategies import backfills
from tests.naive.device_strategies import devices, topologies
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Relay, Step, as_it_is, through_bytes
from tests.naive.operator_strategies import operations
from tests.naive.quota_strategies import quotas
from tests.naive.strategies import scenarios
from tests.naive.time_strategies import time_limits
from tests.naive.usage_strategies import usages
from tests.naive.weight_strategies import weights
from tests.share import share

pytestmark = pytest.mark.starts_early

_EXAMPLES = int(os.environ.get("MUSTER_EXAMPLES", "0")) or share(0.1).max_examples

ONE = Resources({"vcore": 1})
S = 1_000_000
RELAYS = st.builds(Relay, st.sampled_from([as_it_is, through_bytes]), looks=st.booleans())


# CHECKPOINT-6


@settings(max_examples=_EXAMPLES)
@given(scenarios(), RELAYS)
def test_loaded_after_every_batch(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(scenarios(lists=3), RELAYS)
def test_loaded_after_every_batch_with_lists_of_objects(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(gang_scenarios(), RELAYS)
def test_loaded_after_every_batch_with_gangs(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(evictions() | quotas(lists=2), RELAYS)
def test_loaded_after_every_batch_with_evictions(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(operations(), RELAYS)
def test_loaded_after_every_batch_with_limits_rules_and_services(
    scenario: list[Step], relay: Relay
) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(tangles(), RELAYS)
def test_loaded_after_every_batch_where_much_is_pending(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(topologies() | devices(), RELAYS)
def test_loaded_after_every_batch_with_topologies_and_devices(
    scenario: list[Step], relay: Relay
) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(backfills(lists=2), RELAYS)
def test_loaded_after_every_batch_with_reservations(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(back_offs(), RELAYS)
def test_loaded_after_every_batch_with_back_offs(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(usages(lists=2), RELAYS)
def test_loaded_after_every_batch_with_usage(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(time_limits(lists=2), RELAYS)
def test_loaded_after_every_batch_with_limits_of_time(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(agings(lists=2), RELAYS)
def test_loaded_after_every_batch_with_aging(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


@settings(max_examples=_EXAMPLES)
@given(weights(), RELAYS)
def test_loaded_after_every_batch_with_shares_by_weight(scenario: list[Step], relay: Relay) -> None:
    relay.take(scenario)


# Loaded once


def reload(scheduler: PlainScheduler) -> PlainScheduler:
    """Save a scheduler, and load another one from bytes."""
    loaded = PlainScheduler(facts=through_bytes(scheduler.facts()))
    loaded.machine.check()
    return loaded


def busy() -> PlainScheduler:
    """Return a scheduler with an ask that runs, one that will fail and one that has no room."""
    scheduler = PlainScheduler()
    for event in (
        AddNode("n", Resources({"vcore": 2})),
        AddApp("a", "root.q"),
        AddAsk("a", "runs", ONE, run_for_us=20 * S),
        AddAsk("a", "large", Resources({"vcore": 5})),
    ):
        scheduler.submit(event)
    scheduler.settle()
    return scheduler


# CHECKPOINT-5
def test_nothing_is_announced_when_it_is_loaded() -> None:
    before = busy()
    loaded = reload(before)
    assert loaded.announced == []

    loaded.settle()
    before.announced.clear()
    before.settle()
    assert loaded.announced == before.announced == []


# CHECKPOINT-4
def test_a_deadline_stays_where_it_was() -> None:
    loaded = reload(busy())
    loaded.submit(RemoveAsk("a", "large"), at_us=3 * S)
    loaded.finish()

    times = [(one.at_us, one.decision.kind, one.decision.state) for one in loaded.announced]
    assert (20 * S, Kind.RELEASED, None) in times
    assert times[-1] == (50 * S, Kind.APP_STATE, "Completed")


# CHECKPOINT-2
def test_a_bind_that_will_fail_fails_once_more() -> None:
    scheduler = busy()
    scheduler.submit(AddNode("m", ONE))
    scheduler.submit(AddAsk("a", "fails", ONE, node="k"))
    scheduler.submit(FailBind("a", "fails", 1))
    scheduler.settle()
    loaded = reload(scheduler)
    loaded.submit(AddNode("k", ONE))
    loaded.settle()

    kinds = [one.decision.kind for one in loaded.announced if one.decision.ask == "fails"]
    assert kinds == [Kind.ASSIGNED, Kind.RELEASED, Kind.ASSIGNED, Kind.BOUND]


# CHECKPOINT-2, CHECKPOINT-3
def test_guesses_that_were_made_count() -> None:
    scheduler = busy()
    for name in ["rums"] * 9:
        scheduler.submit(RemoveAsk("a", name))
    scheduler.settle()
    loaded = reload(scheduler)
    for _ in range(2):
        loaded.submit(RemoveAsk("a", "rums"))
    loaded.settle()

    first, second = (one.decision.message or "" for one in loaded.announced)
    assert first.endswith("; did you mean runs?")
    assert second == first.removesuffix("; did you mean runs?")


# CHECKPOINT-5
def test_equal_asks_share_one_shape_again() -> None:
    scheduler = busy()
    scheduler.submit(AddAsk("a", "more", Resources({"vcore": 9}), count=3))
    scheduler.settle()
    (app,) = reload(scheduler).facts().apps

    shapes = {id(ask.shape) for ask in app.pending if ask.name.startswith("more")}
    resources = {id(ask.resources) for ask in app.pending if ask.name.startswith("more")}
    assert len(shapes) == len(resources) == 1


# CHECKPOINT-5
def test_before_the_first_batch_there_is_only_the_configuration() -> None:
    first = attrs.evolve(configuration(queue("a")), warnings=("mind the gap",))
    kept = PlainScheduler(first)
    loaded = PlainScheduler(facts=kept.facts())
    for one in (kept, loaded):
        one.submit(AddApp("x", "root.a"))
        one.settle()

    assert loaded.announced == kept.announced
    assert loaded.announced[0].decision.message == "mind the gap"
    assert loaded.snapshot() == kept.snapshot()


# CHECKPOINT-3
def test_names_of_completed_applications_and_counts_stay() -> None:
    scheduler = busy()
    scheduler.submit(RemoveAsk("a", "large"))
    scheduler.finish()
    loaded = reload(scheduler)

    assert loaded.snapshot().completed == {"a"}
    assert loaded.machine.statistics() == scheduler.machine.statistics()
    assert "root.q" not in loaded.snapshot().queues


# CHECKPOINT-3
def test_a_queue_of_an_object_outlives_a_configuration() -> None:
    scheduler = busy()
    scheduler.submit(applied(volcano_queue("kept")))
    scheduler.settle()
    loaded = reload(scheduler)
    loaded.submit(Configure(configuration(queue("q"))))
    loaded.settle()

    assert loaded.snapshot().queues.keys() == {"root", "root.q", "root.kept"}


# CHECKPOINT-4
def test_names_of_nodes_are_listed_in_the_same_order() -> None:
    scheduler = PlainScheduler()
    for name in ("aB", "Ab"):
        scheduler.submit(AddNode(name, ONE))
    scheduler.settle()
    loaded = reload(scheduler)
    loaded.submit(RemoveNode("abc"))
    loaded.settle()

    (refusal,) = loaded.announced
    assert (refusal.decision.message or "").endswith("; did you mean aB?")


# CHECKPOINT-4
def test_the_service_that_keeps_its_node_longest_is_named() -> None:
    services = queue("s", properties={"preemption.required.node": "enabled"})
    scheduler = PlainScheduler(configuration(services))
    scheduler.submit(AddNode("n", Resources({"vcore": 2, "gpu": 1})))
    scheduler.submit(AddApp("a", "root.s"))
    scheduler.submit(AddAsk("a", "runs", Resources({"vcore": 2}), priority=9))
    scheduler.settle()
    for priority, name in enumerate(("first", "second")):
        scheduler.submit(AddAsk("a", name, ONE, node="n", priority=priority))
        scheduler.settle()
    scheduler.submit(AddAsk("a", "other", Resources({"gpu": 1})))
    scheduler.settle()
    explanation = reload(scheduler).explain("a", "other")

    assert explanation is not None
    assert {"node": "n", "keeper": "a/first"} in [one.facts for one in explanation.reasons]
