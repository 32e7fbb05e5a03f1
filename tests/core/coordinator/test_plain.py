"""The machines in one loop decide what the naive model does, and so what the tasks do."""

from __future__ import annotations

from hypothesis import given

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddNode, RemoveApp
from muster_core.resources import Resources
from tests.naive.harness import Scenario, compare
from tests.naive.plain import run_plainly
from tests.naive.strategies import scenarios
from tests.share import share

ONE = Resources({"vcore": 1})
S = 1_000_000


def kinds(scheduler: PlainScheduler) -> list[tuple[int, Kind]]:
    return [(announced.at_us, announced.decision.kind) for announced in scheduler.announced]


@share(0.4)
@given(scenarios())
def test_same_decisions(scenario: Scenario) -> None:
    compare(scenario, run_plainly)


def test_nothing_is_decided_before_the_batch_is_closed() -> None:
    scheduler = PlainScheduler()
    scheduler.submit(AddNode("n", ONE))
    scheduler.submit(AddApp("a", "root.q"))
    scheduler.submit(AddAsk("a", "k", ONE))
    assert scheduler.announced == []

    scheduler.settle()
    assert (0, Kind.BOUND) in kinds(scheduler)


def test_timers_go_off_at_their_own_instants() -> None:
    scheduler = PlainScheduler()
    scheduler.submit(AddNode("n", ONE))
    scheduler.submit(AddApp("a", "root.q"))
    scheduler.submit(AddAsk("a", "k", ONE, run_for_us=2 * S))
    scheduler.submit(RemoveApp("nobody"), at_us=5 * S)
    scheduler.finish()

    assert (2 * S, Kind.RELEASED) in kinds(scheduler)
    assert kinds(scheduler)[-2:] == [(5 * S, Kind.REJECTED), (32 * S, Kind.APP_STATE)]


def test_a_refusal_keeps_its_message_and_its_place() -> None:
    scheduler = PlainScheduler()
    scheduler.submit("no event at all", index=7)
    scheduler.finish()

    (announced,) = scheduler.announced
    assert announced.as_map() == {
        "seq": 1,
        "at": 0,
        "kind": "rejected",
        "message": "no event at all",
        "index": 7,
    }
