"""What rounds have done, so that they end when a state comes again."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.structures.steps import all_at_once
from muster_core.view.placements import RecordedPlace, StateHistory

WAITS: RecordedPlace = (False, "n")
BOUND: RecordedPlace = (True, "n")


def begun() -> StateHistory:
    seen_states = StateHistory()
    all_at_once(seen_states.start_anew())
    seen_states.start_round()
    return seen_states


def test_a_round_that_does_nothing_is_the_last() -> None:
    assert begun().knows_this()


def test_a_round_that_binds_is_not() -> None:
    seen_states = begun()
    seen_states.note(1, "x", None, BOUND)
    assert not seen_states.knows_this()
    seen_states.start_round()

    assert seen_states.knows_this()


def test_what_is_taken_and_given_back_is_nothing() -> None:
    seen_states = begun()
    seen_states.note(1, "x", None, WAITS)
    seen_states.note(1, "x", WAITS, None)

    assert seen_states.knows_this()


def test_a_state_of_two_rounds_ago_is_known() -> None:
    seen_states = begun()
    seen_states.note(1, "x", WAITS, None)
    assert not seen_states.knows_this()
    seen_states.start_round()
    seen_states.note(1, "x", None, WAITS)

    assert seen_states.knows_this()


def test_another_node_is_another_state() -> None:
    seen_states = begun()
    seen_states.note(1, "x", WAITS, None)
    seen_states.note(1, "x", None, (False, "m"))

    assert not seen_states.knows_this()


def test_the_same_name_in_another_application_is_another_ask() -> None:
    seen_states = begun()
    seen_states.note(1, "x", WAITS, None)
    seen_states.note(2, "x", None, WAITS)

    assert not seen_states.knows_this()


def test_what_was_undone_is_forgotten() -> None:
    seen_states = begun()
    seen_states.note(1, "x", None, BOUND)
    mark = seen_states.mark()
    seen_states.note(1, "y", WAITS, None)
    seen_states.note(1, "y", None, WAITS)
    seen_states.go_back(mark)

    assert seen_states.mark() == mark
    assert not seen_states.knows_this()


def test_it_starts_anew() -> None:
    seen_states = begun()
    seen_states.note(1, "x", WAITS, None)
    all_at_once(seen_states.start_anew())
    seen_states.start_round()
    seen_states.note(1, "x", None, WAITS)

    assert not seen_states.knows_this()


ASKS = st.tuples(st.integers(1, 2), st.sampled_from("xy"))
PLACES = st.sampled_from([None, WAITS, (False, "m"), BOUND])


def possible(before: RecordedPlace, after: RecordedPlace) -> bool:
    """Say whether rounds may move an ask so: what is bound stays so."""
    if before is None:
        return after is not None
    bound, node = before[:2]
    return not bound and after in {None, (True, node)}


@given(st.dictionaries(ASKS, PLACES), st.lists(st.lists(st.tuples(ASKS, PLACES)), max_size=5))
def test_a_state_is_known_that_a_round_has_begun_from(
    now: dict[tuple[int, str], RecordedPlace],
    rounds: list[list[tuple[tuple[int, str], RecordedPlace]]],
) -> None:
    seen_states, known = StateHistory(), list[dict[tuple[int, str], RecordedPlace]]()
    all_at_once(seen_states.start_anew())
    for placements in rounds:
        seen_states.start_round()
        known.append(dict(now))
        for key, place in placements:
            if not possible(now.setdefault(key, None), place):
                continue
            seen_states.note(*key, now[key], place)
            now[key] = place
        pending = {key for state in known for key in state} | now.keys()
        states = [{key: state.get(key) for key in pending} for state in known]
        assert seen_states.knows_this() == ({key: now.get(key) for key in pending} in states)
