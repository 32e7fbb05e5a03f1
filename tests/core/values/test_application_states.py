"""The states of an application."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster_core.values.application_states import (
    RUNNING_STATES,
    TIMERS_US,
    TRANSITIONS,
    AppState,
    Trigger,
    next_state,
)

#: How far along an application is; Completing may go back to Running, for an ask that comes.
RANK = {state: rank for rank, state in enumerate(AppState)}


@pytest.mark.parametrize(
    ("triggers", "state"),
    [
        ([], AppState.NEW),
        ([Trigger.ASK_ADDED], AppState.ACCEPTED),
        ([Trigger.ASK_ADDED, Trigger.ASK_ADDED], AppState.ACCEPTED),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND], AppState.STARTING),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND, Trigger.ASK_BOUND], AppState.RUNNING),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND, Trigger.TIME_UP], AppState.RUNNING),
        ([Trigger.ASK_ADDED, Trigger.EMPTIED], AppState.COMPLETING),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND, Trigger.EMPTIED], AppState.COMPLETING),
        ([Trigger.ASK_ADDED, Trigger.EMPTIED, Trigger.TIME_UP], AppState.COMPLETED),
        ([Trigger.ASK_ADDED, Trigger.EMPTIED, Trigger.ASK_ADDED], AppState.RUNNING),
    ],
)
def test_the_way_of_an_application(triggers: list[Trigger], state: AppState) -> None:
    reached = AppState.NEW
    for trigger in triggers:
        reached = next_state(reached, trigger)

    assert reached is state


def test_skipping_starting() -> None:
    assert next_state(AppState.ACCEPTED, Trigger.ASK_BOUND, skip_starting=True) is AppState.RUNNING
    assert next_state(AppState.NEW, Trigger.ASK_ADDED, skip_starting=True) is AppState.ACCEPTED


@given(st.sampled_from(AppState), st.sampled_from(Trigger), st.booleans())
def test_what_is_not_in_the_table_changes_nothing(
    state: AppState,
    trigger: Trigger,
    skip: bool,
) -> None:
    after = next_state(state, trigger, skip_starting=skip)

    assert (after is not state) == ((state, trigger) in TRANSITIONS)


def test_states_never_go_back_but_for_an_ask_that_comes() -> None:
    back = {key for key, after in TRANSITIONS.items() if RANK[after] < RANK[key[0]]}

    assert back == {(AppState.COMPLETING, Trigger.ASK_ADDED)}


def test_nothing_leaves_completed() -> None:
    assert not any(state is AppState.COMPLETED for state, _ in TRANSITIONS)


def test_every_state_with_a_timer_has_an_end() -> None:
    assert {state for state, trigger in TRANSITIONS if trigger is Trigger.TIME_UP} == set(TIMERS_US)
    assert TIMERS_US == {AppState.STARTING: 300_000_000, AppState.COMPLETING: 30_000_000}


def test_who_counts_as_running() -> None:
    assert {AppState.STARTING, AppState.RUNNING} == RUNNING_STATES
