"""Search for the smallest numbers that work, if trying is the only way to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

import attrs

_PASSES: Final = 6
"""The most passes over all numbers; after them the result may not be the smallest."""


@final
@attrs.frozen
class Knob:
    """A number that the search may lower.

    Attributes:
        value: The number to begin with.
        guess: The likely result, never more than ``value``.
        step: The likely result is a multiple of it.
        floor: The lowest number allowed, usually the current setting; never more than ``guess``.
    """

    value: int
    guess: int
    step: int = 1
    floor: int = 0


@final
@attrs.frozen
class Smallest:
    """The result of a search.

    Attributes:
        values: A number for each knob; together they work.
        raised: Whether each is above its floor.
        proved: Whether trials have shown that none of them can be one less.
    """

    values: tuple[int, ...]
    raised: tuple[bool, ...]
    proved: bool


def smallest(works: Callable[[tuple[int, ...]], bool], knobs: Sequence[Knob]) -> Smallest | None:
    """Lower numbers as far as possible, one after the other.

    Larger numbers do not always work: another ask may take the surplus. So the result is the
    lower end of *a* range of numbers that work.

    If there are several knobs, each is first tried at its floor: a change that is not needed is
    left out, even if a small one would do harm.

    Args:
        works: Whether these numbers work.
        knobs: The numbers to begin with.

    Returns:
        The result; None if neither the guesses nor the numbers to begin with work.
    """
    known: dict[tuple[int, ...], bool] = {}

    def tried(values: tuple[int, ...]) -> bool:
        if values not in known:
            known[values] = works(values)
        return known[values]

    values = before = tuple(knob.value for knob in knobs)
    guesses = tuple(knob.guess for knob in knobs)
    if tried(guesses):
        values = guesses
    elif not tried(values):
        return None
    for _ in range(_PASSES):
        before = values
        for place, knob in enumerate(knobs):

            def one(value: int, place: int = place, values: tuple[int, ...] = values) -> bool:
                return tried((*values[:place], value, *values[place + 1 :]))

            if len(knobs) > 1 and values[place] > knob.floor and one(knob.floor):
                lowered = knob.floor
            else:
                lowered = _lowest(one, values[place], knob)
            values = (*values[:place], lowered, *values[place + 1 :])
        if values == before:
            break
    raised = tuple(value > knob.floor for value, knob in zip(values, knobs, strict=True))
    return Smallest(values, raised, proved=values == before)


def _lowest(works: Callable[[int], bool], value: int, knob: Knob) -> int:
    """Return a number, at most ``value``, that works while one less does not."""
    low = knob.floor - 1  # A number that does not work, or is not allowed.
    if knob.guess < value:
        if works(knob.guess):
            value = knob.guess
        else:
            low = knob.guess
    while value > low + 1:
        if not works(value - 1):
            return value
        value -= 1
        if low < knob.floor:
            if works(knob.floor):
                return knob.floor
            low = knob.floor
        value = _bisect(works, low, value, knob.step)
    return value


def _bisect(works: Callable[[int], bool], low: int, high: int, step: int) -> int:
    """Narrow the range from a number that does not work to a higher one that does."""
    while high - low > 1:
        middle = (low + high) // 2
        on_grid = middle - middle % step
        if low < on_grid < high:
            middle = on_grid
        elif low < on_grid + step < high:
            middle = on_grid + step
        elif high % step == 0:
            return high
        if works(middle):
            high = middle
        else:
            low = middle
    return high


def least_above(works: Callable[[int], bool], low: int, high: int) -> int | None:
    """Find a number that works while the one before it does not, in ever longer steps.

    Args:
        works: Whether a number works.
        low: A number that does not work.
        high: The highest number allowed.

    Returns:
        The number; None if the highest does not work either.
    """
    if high <= low or not works(high):
        return None
    gap = 1
    while low + gap < high:
        if works(low + gap):
            high = low + gap
            break
        low += gap
        gap *= 2
    return _bisect(works, low, high, 1)
