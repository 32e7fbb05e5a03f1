"""The states of a gang; that each row is used is shown where the machine of a gang is."""

from __future__ import annotations

from itertools import product

import pytest

from muster_core.gangs import GANG_TRANSITIONS, GangState, GangTrigger, next_gang_state


def test_every_state_can_be_reached_and_left() -> None:
    reached = {GangState.PLACEHOLDER}
    for _ in GangState:
        reached |= {after for (before, _), after in GANG_TRANSITIONS.items() if before in reached}

    assert reached == set(GangState)
    assert {before for before, _ in GANG_TRANSITIONS} == set(GangState)


def test_everything_that_may_happen_changes_something_somewhere() -> None:
    assert {trigger for _, trigger in GANG_TRANSITIONS} == set(GangTrigger)
    assert all(after is not before for (before, _), after in GANG_TRANSITIONS.items())


@pytest.mark.parametrize(("state", "trigger"), list(product(GangState, GangTrigger)))
def test_what_is_not_in_the_table_changes_nothing(state: GangState, trigger: GangTrigger) -> None:
    after = GANG_TRANSITIONS.get((state, trigger), state)

    assert next_gang_state(state, trigger, defined=True) is after


@pytest.mark.parametrize("state", list(GangState))
def test_whatever_it_was_a_removed_gang_is_a_placeholder(state: GangState) -> None:
    after = next_gang_state(state, GangTrigger.REMOVED, defined=False)

    assert after is GangState.PLACEHOLDER


@pytest.mark.parametrize("state", [GangState.SATISFIED, GangState.TIMED_OUT])
def test_what_came_before_its_gang_gathers_in_a_placeholder(state: GangState) -> None:
    after = next_gang_state(state, GangTrigger.EMPTIED, defined=False)

    assert after is GangState.PLACEHOLDER


@pytest.mark.parametrize("state", list(GangState))
def test_without_members_a_gang_is_as_new(state: GangState) -> None:
    defined = state is not GangState.PLACEHOLDER
    after = next_gang_state(state, GangTrigger.EMPTIED, defined=defined)

    assert after is (GangState.GATHERING if defined else GangState.PLACEHOLDER)
