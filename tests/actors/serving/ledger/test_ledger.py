"""The ledger knows of everything that exists, and of nothing else (REST-26)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster.service.ledger.ledger import Ledger
from muster_core.structures.steps import all_at_once
from tests.actors.serving.ledger.heard import (
    HeardScheduler,
    in_ledger,
    in_state,
    look_again,
    play,
    whole,
)
from tests.naive.back_off_strategies import back_offs
from tests.naive.devices.strategies import devices
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import share

_ANY = scenarios() | gang_scenarios() | evictions() | operations() | back_offs() | devices()


def _agrees(heard: HeardScheduler) -> None:
    assert in_ledger(heard.ledger) == in_state(heard.plain.snapshot())
    assert not heard.ledger.book.is_stale
    assert not heard.ledger.book.ended
    assert not heard.ledger.book.leaving


def _runs(heard: HeardScheduler) -> None:
    snapshot, history = heard.plain.snapshot(), heard.ledger.book.history
    running = [app for app in snapshot.apps.values() if app.state in ("Starting", "Running")]
    held = [ask for app in snapshot.apps.values() for ask in app.asks if ask.node is not None]
    assert (history.apps, history.containers) == (len(running), len(held))


@share(0.3)
@given(scenarios())
def test_it_knows_what_exists(scenario: list[Step]) -> None:
    play(scenario, _agrees)


@share(0.3)
@given(gang_scenarios())
def test_it_knows_what_exists_with_gangs_and_objects(scenario: list[Step]) -> None:
    play(scenario, _agrees)


@share(0.3)
@given(evictions() | operations() | back_offs())
def test_it_knows_what_exists_with_evictions_operators_and_retries(scenario: list[Step]) -> None:
    play(scenario, _agrees)


@share(0.3)
@given(_ANY)
def test_it_counts_what_runs(scenario: list[Step]) -> None:
    play(scenario, _runs)


@share(0.3)
@given(_ANY, st.floats(0, 1))
def test_saved_and_loaded_it_goes_on_as_if_never_saved(scenario: list[Step], part: float) -> None:
    heard = play(scenario, lambda _: None)
    first, second = Ledger(), Ledger()
    place = round(part * len(heard.heard))
    for one in heard.heard[:place]:
        all_at_once(first.hear(*one))
    all_at_once(second.load(all_at_once(first.save())))
    assert whole(second) == whole(first)
    for one in heard.heard[place:]:
        all_at_once(second.hear(*one))
    assert whole(second) == whole(heard.ledger)


@share(0.3)
@given(_ANY, st.floats(0, 1))
def test_what_it_never_heard_of_it_finds_in_the_state(scenario: list[Step], part: float) -> None:
    heard = play(scenario[: round(part * len(scenario))], lambda _: None)
    late = Ledger()
    look_again(heard, late)
    known, state = in_ledger(late), in_state(heard.plain.snapshot())
    asks = [key for key in state if key[0] == "ask"]
    # Whether an ask is bound shows in an instant that nobody knows.
    assert [late.ask(*key[1:]) is not None for key in asks] == [True] * len(asks)
    for key in asks:
        del known[key], state[key]
    assert known == state
