"""What was done to the asks, so that a state that comes again is known."""

from __future__ import annotations

from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from muster_core.view.memory import Memory, Place

WAITS: Place = (False, "n")
BOUND: Place = (True, "n")


def begun() -> Memory:
    memory = Memory()
    memory.start_anew()
    memory.start_round()
    return memory


def test_a_round_that_does_nothing_is_the_last() -> None:
    assert begun().knows_this()


def test_a_round_that_binds_is_not() -> None:
    memory = begun()
    memory.note(1, "x", None, BOUND)
    assert not memory.knows_this()
    memory.start_round()

    assert memory.knows_this()


def test_what_is_taken_and_given_back_is_nothing() -> None:
    memory = begun()
    memory.note(1, "x", None, WAITS)
    memory.note(1, "x", WAITS, None)

    assert memory.knows_this()


def test_a_state_of_two_rounds_ago_is_known() -> None:
    memory = begun()
    memory.note(1, "x", WAITS, None)
    assert not memory.knows_this()
    memory.start_round()
    memory.note(1, "x", None, WAITS)

    assert memory.knows_this()


def test_another_node_is_another_state() -> None:
    memory = begun()
    memory.note(1, "x", WAITS, None)
    memory.note(1, "x", None, (False, "m"))

    assert not memory.knows_this()


def test_the_same_name_in_another_application_is_another_ask() -> None:
    memory = begun()
    memory.note(1, "x", WAITS, None)
    memory.note(2, "x", None, WAITS)

    assert not memory.knows_this()


def test_what_was_undone_is_forgotten() -> None:
    memory = begun()
    memory.note(1, "x", None, BOUND)
    mark = memory.mark()
    memory.note(1, "y", WAITS, None)
    memory.note(1, "y", None, WAITS)
    memory.go_back(mark)

    assert memory.mark() == mark
    assert not memory.knows_this()


def test_it_starts_anew() -> None:
    memory = begun()
    memory.note(1, "x", WAITS, None)
    memory.start_anew()
    memory.start_round()
    memory.note(1, "x", None, WAITS)

    assert not memory.knows_this()


ASKS = st.tuples(st.integers(1, 2), st.sampled_from("xy"))
PLACES = st.sampled_from([None, WAITS, (False, "m"), BOUND])


def possible(before: Place, after: Place) -> bool:
    """Say whether rounds may move an ask so: what is bound stays so."""
    if before is None:
        return after is not None
    bound, node = before
    return not bound and after in {None, (True, node)}


@given(st.dictionaries(ASKS, PLACES), st.lists(st.lists(st.tuples(ASKS, PLACES)), max_size=5))
def test_a_state_is_known_that_a_round_has_begun_from(
    now: dict[tuple[int, str], Place], rounds: list[list[tuple[tuple[int, str], Place]]]
) -> None:
    memory, known = Memory(), list[dict[tuple[int, str], Place]]()
    memory.start_anew()
    for moves in rounds:
        memory.start_round()
        known.append(dict(now))
        for key, place in moves:
            if not possible(now.setdefault(key, None), place):
                continue
            memory.note(*key, now[key], place)
            now[key] = place
        pending = {key for state in known for key in state} | now.keys()
        states = [{key: state.get(key) for key in pending} for state in known]
        assert memory.knows_this() == ({key: now.get(key) for key in pending} in states)


# What was taken


def fresh() -> Memory:
    memory = Memory()
    memory.start_batch(is_new=True)
    return memory


def test_from_each_state_something_is_taken_once() -> None:
    memory = fresh()
    assert [memory.may_take(), memory.may_take()] == [True, True]
    memory.take()

    assert not memory.may_take()


def test_from_another_state_something_may_be_taken() -> None:
    memory = fresh()
    memory.take()
    memory.note(1, "x", None, BOUND)

    assert memory.may_take()


def test_a_state_that_comes_again_though_rounds_began_anew() -> None:
    memory = fresh()
    memory.take()
    memory.note(1, "x", BOUND, None)
    memory.start_anew()
    memory.take()
    memory.note(1, "x", None, BOUND)
    memory.start_anew()

    assert not memory.may_take()


def test_two_that_take_the_same_node_from_one_another_stop() -> None:
    memory, taken = fresh(), 0
    owner, other = "x", "y"
    while memory.may_take():
        memory.take()
        taken += 1
        memory.note(1, owner, BOUND, None)
        memory.note(1, other, None, BOUND)
        owner, other = other, owner

    assert taken == 2


def test_what_was_taken_is_remembered_until_something_new_comes_in() -> None:
    memory = fresh()
    memory.take()
    memory.start_batch(is_new=False)
    assert not memory.may_take()
    memory.start_batch(is_new=True)

    assert memory.may_take()


def test_a_bind_that_fails_lets_it_be_taken_again() -> None:
    memory = fresh()
    memory.take()
    memory.forget_taken()

    assert memory.may_take()


class Takes(RuleBasedStateMachine):
    """The memory of what was taken beside the list of all states from which it was."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = fresh()
        self.now: dict[tuple[int, str], Place] = {}
        self.taken: list[dict[tuple[int, str], Place]] = []

    @rule(key=ASKS, place=PLACES)
    def move(self, key: tuple[int, str], place: Place) -> None:
        before = self.now.get(key)
        if before != place:
            self.memory.note(*key, before, place)
            self.now[key] = place

    @rule(key=ASKS, other=ASKS)
    def change_places(self, key: tuple[int, str], other: tuple[int, str]) -> None:
        place = self.now.get(other)
        if place is not None and self.now.get(key) is None:
            self.move(other, None)
            self.move(key, place)

    @rule(key=ASKS, place=PLACES)
    def try_without_effect(self, key: tuple[int, str], place: Place) -> None:
        mark, before = self.memory.mark(), self.now.get(key)
        self.memory.note(*key, before, place)
        self.memory.note(*key, place, before)
        self.memory.go_back(mark)

    def state(self) -> dict[tuple[int, str], Place]:
        return {key: place for key, place in self.now.items() if place is not None}

    @rule()
    def take(self) -> None:
        self.memory.take()
        self.taken.append(self.state())

    @rule()
    def start_anew(self) -> None:
        self.memory.start_anew()

    @rule()
    def forget(self) -> None:
        self.memory.forget_taken()
        self.taken.clear()

    @rule(is_new=st.booleans())
    def next_batch(self, is_new: bool) -> None:
        self.memory.start_batch(is_new=is_new)
        if is_new:
            self.taken.clear()

    @rule()
    def ask(self) -> None:
        assert self.memory.may_take() == (self.state() not in self.taken)


TestTakes = Takes.TestCase
