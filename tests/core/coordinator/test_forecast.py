"""When an ask starts in a copy of the state that runs on."""

from __future__ import annotations

from typing import Any

from muster_core.coordinator.forecast import forecast
from muster_core.coordinator.plain import PlainScheduler
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.reasons import Forecast
from muster_core.resources import Resources
from tests.core.building import configuration, queue
from tests.core.view.helpers import props

S = 1_000_000
NEVER = Forecast(None)


def scheduler(**properties: str) -> PlainScheduler:
    """Give a scheduler with one node of four cores, and an application."""
    made = PlainScheduler(configuration(queue("q", properties=props(**properties))))
    made.submit(AddNode("n", Resources({"vcore": 4})))
    made.submit(AddApp("a", "root.q"))
    return made


def ask(name: str, vcore: int, **fields: Any) -> AddAsk:  # noqa: ANN401 - names of fields
    return AddAsk("a", name, Resources({"vcore": vcore}), **fields)


def settled(here: PlainScheduler, *asks: AddAsk, at_us: int | None = None) -> PlainScheduler:
    for one in asks:
        here.submit(one, at_us)
    here.settle()
    return here


def starts(here: PlainScheduler, name: str, **limits: int) -> Forecast:
    """Foretell the start of an ask; the state is as before."""
    before = here.snapshot()
    found = forecast(here.facts(), "a", name, **limits)
    assert here.snapshot() == before
    return found


# OUTLOOK-3
def test_it_starts_when_those_before_it_have_ended() -> None:
    here = settled(
        scheduler(),
        *(ask("r", 4, run_for_us=60 * S), ask("first", 3, estimate_us=30 * S)),
        *(ask("second", 3, estimate_us=10 * S), ask("beside", 1)),
    )

    assert starts(here, "first") == starts(here, "beside") == Forecast(60 * S)
    assert starts(here, "second") == Forecast(90 * S)


# OUTLOOK-3
def test_a_scheduler_that_runs_on_agrees() -> None:
    here = settled(
        scheduler(),
        *(ask(f"k{number}", 1 + number % 3, run_for_us=number * S) for number in range(1, 20)),
    )
    told = {name: starts(here, name).starts_at_us for app, name in here.pending()}
    here.announced.clear()
    here.finish()

    bound = [one for one in here.announced if one.decision.kind == "bound"]
    assert len(told) > 10
    assert told == {one.decision.ask: one.at_us for one in bound}


# OUTLOOK-3
def test_the_end_is_the_expected_one_and_not_that_of_the_timer() -> None:
    short, long = ask("s", 4, run_for_us=60 * S, estimate_us=20 * S), ask("x", 4)
    assert starts(settled(scheduler(), short, long), "x") == Forecast(20 * S)

    short = ask("s", 4, run_for_us=20 * S, estimate_us=60 * S)
    assert starts(settled(scheduler(), short, long), "x") == Forecast(60 * S)


# OUTLOOK-3
def test_an_estimate_that_is_over_counts_twice_and_four_times() -> None:
    here = settled(scheduler(), ask("r", 4, estimate_us=10 * S), ask("x", 4))

    assert starts(here, "x") == Forecast(10 * S)
    assert starts(here, "x", now_us=10 * S) == Forecast(20 * S)
    here.settle(39 * S)
    assert starts(here, "x") == Forecast(40 * S)


# OUTLOOK-3
def test_the_estimate_of_the_leaf_holds_for_asks_without_one() -> None:
    here = settled(scheduler(estimate_default="15s"), ask("r", 4), ask("w", 4), ask("x", 4))

    assert starts(here, "w") == Forecast(15 * S)
    assert starts(here, "x") == Forecast(30 * S)


# OUTLOOK-3
def test_it_never_starts_behind_an_end_that_is_not_known_or_without_room() -> None:
    here = settled(scheduler(), ask("r", 4), ask("x", 4), ask("large", 5))

    assert starts(here, "x") == starts(here, "large") == NEVER


# OUTLOOK-4
def test_a_copy_stops_after_so_many_batches_or_so_much_work() -> None:
    here = settled(scheduler(), *(ask(f"k{number}", 4, run_for_us=S) for number in range(9)))

    assert starts(here, "k8") == Forecast(8 * S)
    assert starts(here, "k8", most_batches=3) == Forecast(None, 3 * S)
    assert starts(here, "k1", most_batches=3) == Forecast(S)
    assert starts(here, "k8", most_work=3) == Forecast(None, S)
