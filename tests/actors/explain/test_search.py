"""Searching for the smallest number that works."""

from __future__ import annotations

from hypothesis import given, strategies as st

from muster.explain._remedies.case import NumberRange, Smallest, least_above, smallest

_AMOUNT = st.integers(0, 10_000)


@given(_AMOUNT, _AMOUNT, _AMOUNT, st.integers(1, 50))
def test_the_smallest_of_what_works_from_there_on(
    least: int, guess: int, above: int, step: int
) -> None:
    value = max(least, guess) + above

    found = smallest(lambda values: values[0] >= least, [NumberRange(value, guess, step)])

    assert found == Smallest((least,), (least > 0,), proved=True)


@given(st.lists(st.tuples(_AMOUNT, _AMOUNT, _AMOUNT), min_size=1, max_size=3))
def test_several_at_once(wanted: list[tuple[int, int, int]]) -> None:
    least = tuple(one for one, _, _ in wanted)
    knobs = [NumberRange(max(one, guess) + above, guess) for one, guess, above in wanted]

    found = smallest(lambda values: all(a >= b for a, b in zip(values, least, strict=True)), knobs)

    assert found == Smallest(least, tuple(one > 0 for one in least), proved=True)


def test_what_never_works() -> None:
    assert smallest(lambda _: False, [NumberRange(9, 3)]) is None


@given(st.sets(_AMOUNT, min_size=1), st.integers(1, 50))
def test_what_works_here_and_there_ends_where_one_less_does_not(
    working: set[int], step: int
) -> None:
    found = smallest(lambda values: values[0] in working, [NumberRange(max(working), 0, step)])

    assert found is not None
    (value,) = found.values
    assert value in working
    assert value - 1 not in working


@given(_AMOUNT, _AMOUNT, _AMOUNT, _AMOUNT)
def test_nothing_goes_below_its_floor(least: int, floor: int, guess: int, above: int) -> None:
    knob = NumberRange(max(floor + guess, least) + above, floor + guess, floor=floor)

    found = smallest(lambda values: values[0] >= least, [knob])

    assert found == Smallest((max(least, floor),), (least > floor,), proved=True)


def test_a_good_guess_costs_two_trials() -> None:
    tried: list[tuple[int, ...]] = []

    def works(values: tuple[int, ...]) -> bool:
        tried.append(values)
        return values[0] >= 700

    smallest(works, [NumberRange(10**12, 700)])

    assert tried == [(700,), (699,)]


def test_sizes_that_are_multiples_are_found_sooner() -> None:
    tried: list[tuple[int, ...]] = []

    def works(values: tuple[int, ...]) -> bool:
        tried.append(values)
        return values[0] >= 5 * 2**30

    found = smallest(works, [NumberRange(64 * 2**30, 2**30, 2**30)])

    assert found == Smallest((5 * 2**30,), (True,), proved=True)
    assert len(tried) < 16


@given(st.integers(-50, 10_000), st.integers(1, 10_000))
def test_the_least_above(low: int, more: int) -> None:
    assert least_above(lambda number: number >= low + more, low, 2**31 - 1) == low + more


def test_nothing_above() -> None:
    assert least_above(lambda _: False, 0, 100) is None
    assert least_above(lambda _: True, 100, 100) is None


def test_what_is_not_needed_stays_as_it_is_though_a_little_more_of_it_does_harm() -> None:
    def works(values: tuple[int, ...]) -> bool:
        return values[0] >= 5 and values[1] in {2, 9}

    found = smallest(works, [NumberRange(9, 9), NumberRange(9, 9, floor=2)])

    assert found == Smallest((5, 2), (True, False), proved=True)
