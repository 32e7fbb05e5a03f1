"""The state of the coordinator.

It is that of the naive model, keeps nothing of what has gone, and runs on in a copy to say when
an ask starts.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sized
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given

from benchmarks import churn
from muster_core.coordinator.plain_scheduler import PlainScheduler, forecast
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddAsk, AddNode, RemoveApp
from muster_core.reasons import UNKNOWN_START, Forecast, Start
from muster_core.resources import Resources
from tests.core.admission.objects import gang
from tests.core.building import configuration, queue
from tests.core.tree import Tree, props
from tests.naive.harness import Scenario, compare, run_plainly
from tests.naive.strategies import scenarios
from tests.share import share

ONE = Resources({"vcore": 1})
S = 1_000_000


def kinds(make_scheduler: PlainScheduler) -> list[tuple[int, Kind]]:
    return [(announced.at_us, announced.decision.kind) for announced in make_scheduler.announced]


@share(0.4)
@given(scenarios())
def test_same_decisions(scenario: Scenario) -> None:
    compare(scenario, run_plainly)


def test_nothing_is_decided_before_the_batch_is_closed() -> None:
    make_scheduler = PlainScheduler()
    make_scheduler.submit(AddNode("n", ONE))
    make_scheduler.submit(AddApp("a", "root.q"))
    make_scheduler.submit(AddAsk("a", "k", ONE))
    assert make_scheduler.announced == []

    make_scheduler.settle()
    assert (0, Kind.BOUND) in kinds(make_scheduler)


def test_timers_go_off_at_their_own_instants() -> None:
    make_scheduler = PlainScheduler()
    make_scheduler.submit(AddNode("n", ONE))
    make_scheduler.submit(AddApp("a", "root.q"))
    make_scheduler.submit(AddAsk("a", "k", ONE, run_for_us=2 * S))
    make_scheduler.submit(RemoveApp("nobody"), at_us=5 * S)
    make_scheduler.finish()

    assert (2 * S, Kind.RELEASED) in kinds(make_scheduler)
    assert kinds(make_scheduler)[-2:] == [(5 * S, Kind.REJECTED), (32 * S, Kind.APP_STATE)]


def test_a_refusal_keeps_its_message_and_its_place() -> None:
    make_scheduler = PlainScheduler()
    make_scheduler.submit("no event at all", index=7)
    make_scheduler.finish()

    (announced,) = make_scheduler.announced
    assert announced.as_map() == {
        "seq": 1,
        "at": 0,
        "kind": "rejected",
        "message": "no event at all",
        "index": 7,
    }


CACHED = {"Resources", "Shape", "_CacheHashWrapper"}
"""Of these a limited number is kept, in case they come again."""

KEPT = 300
"""How many entries may be there of what is remembered for a while, of which there is a limit."""


def counted() -> Counter[str]:
    """Count all objects of the core's own classes."""
    gc.collect()
    kinds: list[type[object]] = [type(one) for one in gc.get_objects()]
    return Counter(
        kind.__qualname__
        for kind in kinds
        if str(kind.__module__).startswith("muster_core") and kind.__name__ not in CACHED
    )


def entries(*owners: object) -> int:
    """Count the entries of all containers below some objects."""
    elsewhere = type | ModuleType | FunctionType | BuiltinFunctionType
    seen: dict[int, object] = {}
    found, number = list(owners), 0
    while found:
        one = found.pop()
        if id(one) not in seen and not isinstance(one, elsewhere):
            seen[id(one)] = one
            number += len(one) if isinstance(one, Sized) and not isinstance(one, str) else 0
            found.extend(gc.get_referents(one))
    return number


def run(last: int) -> Tree:
    """Let applications come for so many seconds, and all of them go."""
    tree = Tree(churn.configuration())
    for at_us, events in churn.seconds(last):
        tree.pass_time(at_us)
        tree.enter(*events)
    tree.pass_time(None)
    tree.check()
    assert not [one for one in tree.log if one.decision.kind is Kind.REJECTED]
    tree.log.clear()
    return tree


def test_no_object_is_left_of_what_has_gone() -> None:
    none = counted()
    few = run(1)
    of_few = counted() - none
    many = run(200)
    of_many = counted() - none - of_few

    assert of_few["Node"] == churn.NODES
    assert of_many == of_few
    assert few.machine.statistics().bound < 20
    assert many.machine.statistics().bound > 600


def test_nor_is_an_entry_but_of_the_names_that_are_remembered() -> None:
    some, more = run(400), run(800)
    names = [len(tree.machine.registry.completed.seen()) for tree in (some, more)]
    there = [entries(one.machine, one.apps, one.queues, one.gangs) for one in (some, more)]

    assert names == [401, 801]
    assert there[1] - there[0] < 2 * (names[1] - names[0]) + KEPT


NEVER = (None, None)


def make_scheduler(**properties: str) -> PlainScheduler:
    """Return a scheduler with one node of four cores, and an application."""
    scheduler = PlainScheduler(configuration(queue("q", properties=props(**properties))))
    scheduler.submit(AddNode("n", Resources({"vcore": 4})))
    scheduler.submit(AddApp("a", "root.q"))
    return scheduler


def ask(name: str, vcore: int, **fields: Any) -> AddAsk:  # noqa: ANN401 - names of fields
    return AddAsk("a", name, Resources({"vcore": vcore}), **fields)


def submit_all(
    scheduler: PlainScheduler, *asks: AddAsk, at_us: int | None = None
) -> PlainScheduler:
    for one in asks:
        scheduler.submit(one, at_us)
    scheduler.settle()
    return scheduler


def foretold(scheduler: PlainScheduler, name: str, **limits: int) -> Forecast:
    """Foretell the start of an ask; the state is as before."""
    before = scheduler.snapshot()
    found = forecast(scheduler.facts(), "a", name, **limits)
    assert scheduler.snapshot() == before
    assert found is not None
    return found


def starts(scheduler: PlainScheduler, name: str, **limits: int) -> tuple[int | None, int | None]:
    """Foretell when an ask is bound, and where the copy was stopped before that."""
    found = foretold(scheduler, name, **limits)
    return found.starts_at_us, found.stopped_us


def fits(scheduler: PlainScheduler, name: str) -> Start:
    return foretold(scheduler, name).fits_at


# OUTLOOK-3
def test_it_starts_when_those_before_it_have_ended() -> None:
    scheduler = submit_all(
        make_scheduler(),
        *(ask("r", 4, run_for_us=60 * S), ask("first", 3, estimate_us=30 * S)),
        *(ask("second", 3, estimate_us=10 * S), ask("beside", 1)),
    )

    assert starts(scheduler, "first") == starts(scheduler, "beside") == (60 * S, None)
    assert starts(scheduler, "second") == (90 * S, None)


# OUTLOOK-3
def test_a_scheduler_that_runs_on_agrees() -> None:
    scheduler = submit_all(
        make_scheduler(),
        *(ask(f"k{number}", 1 + number % 3, run_for_us=number * S) for number in range(1, 20)),
    )
    expected = {name: starts(scheduler, name)[0] for _, name in scheduler.pending()}
    scheduler.announced.clear()
    scheduler.finish()

    bound = [one for one in scheduler.announced if one.decision.kind == "bound"]
    assert len(expected) > 10
    assert expected == {one.decision.ask: one.at_us for one in bound}


# OUTLOOK-3
def test_the_end_is_the_expected_one_and_not_that_of_the_timer() -> None:
    short, long = ask("s", 4, run_for_us=60 * S, estimate_us=20 * S), ask("x", 4)
    assert starts(submit_all(make_scheduler(), short, long), "x") == (20 * S, None)

    short = ask("s", 4, run_for_us=20 * S, estimate_us=60 * S)
    assert starts(submit_all(make_scheduler(), short, long), "x") == (60 * S, None)


# OUTLOOK-3
def test_an_estimate_that_is_over_counts_twice_and_four_times() -> None:
    scheduler = submit_all(make_scheduler(), ask("r", 4, estimate_us=10 * S), ask("x", 4))

    assert starts(scheduler, "x") == (10 * S, None)
    assert starts(scheduler, "x", now_us=10 * S) == (20 * S, None)
    scheduler.settle(39 * S)
    assert starts(scheduler, "x") == (40 * S, None)


# OUTLOOK-3
def test_the_estimate_of_the_leaf_holds_for_asks_without_one() -> None:
    scheduler = submit_all(
        make_scheduler(estimate_default="15s"), ask("r", 4), ask("w", 4), ask("x", 4)
    )

    assert starts(scheduler, "w") == (15 * S, None)
    assert starts(scheduler, "x") == (30 * S, None)


# OUTLOOK-3
def test_it_never_starts_behind_an_end_that_is_not_known_or_without_room() -> None:
    scheduler = submit_all(make_scheduler(), ask("r", 4), ask("x", 4), ask("large", 5))

    assert starts(scheduler, "x") == starts(scheduler, "large") == NEVER


def test_there_is_none_for_what_is_not_pending() -> None:
    facts = submit_all(make_scheduler(), ask("r", 4)).facts()

    assert forecast(facts, "a", "r") is None
    assert forecast(facts, "a", "unknown") is None
    assert forecast(facts, "unknown", "r") is None


# OUTLOOK-4
def test_a_copy_stops_after_so_many_batches_or_so_much_work() -> None:
    scheduler = submit_all(
        make_scheduler(), *(ask(f"k{number}", 4, run_for_us=S) for number in range(9))
    )

    assert starts(scheduler, "k8") == (8 * S, None)
    assert starts(scheduler, "k8", most_batches=3) == (None, 3 * S)
    assert starts(scheduler, "k1", most_batches=3) == (S, None)
    assert starts(scheduler, "k8", most_work=3) == (None, S)


# OUTLOOK-2
def test_alone_it_fits_at_the_first_end_that_makes_room() -> None:
    scheduler = submit_all(
        make_scheduler(),
        *(ask("r", 3, run_for_us=60 * S), ask("s", 1, estimate_us=20 * S)),
        *(ask("large", 4), ask("small", 1), ask("too-large", 5)),
    )

    assert fits(scheduler, "large") == 60 * S
    assert fits(scheduler, "small") == 20 * S
    assert fits(scheduler, "too-large") is None
    assert starts(scheduler, "small") == (20 * S, None)
    assert starts(scheduler, "large") == NEVER


# OUTLOOK-2
def test_alone_it_fits_at_an_end_that_is_not_known() -> None:
    scheduler = submit_all(
        make_scheduler(), ask("r", 3), ask("s", 1, estimate_us=20 * S), ask("x", 4)
    )

    assert fits(scheduler, "x") == UNKNOWN_START


# OUTLOOK-2
@pytest.mark.parametrize("order", ["greedy", "strict", "backfill"])
def test_reservations_of_others_take_no_part(order: str) -> None:
    scheduler = submit_all(
        make_scheduler(scheduling_order=order),
        *(ask("r", 4, run_for_us=60 * S), ask("first", 4, run_for_us=5 * S), ask("x", 2)),
    )

    assert fits(scheduler, "first") == fits(scheduler, "x") == 60 * S
    assert starts(scheduler, "x") == (65 * S, None)


# OUTLOOK-2
def test_the_members_of_a_gang_fit_together() -> None:
    scheduler = submit_all(
        make_scheduler(), ask("r", 2, run_for_us=60 * S), ask("s", 2, run_for_us=20 * S)
    )
    scheduler.submit(gang("g", 2))
    submit_all(scheduler, ask("m", 2, gang="default/g", count=2), ask("x", 2))

    assert fits(scheduler, "m-0") == fits(scheduler, "m-1") == 60 * S
    assert fits(scheduler, "x") == 20 * S
