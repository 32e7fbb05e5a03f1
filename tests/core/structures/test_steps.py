"""Long work in steps."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest

from muster_core.structures.steps import (
    PART,
    SIZE,
    Driven,
    Steps,
    all_at_once,
    freed,
    in_order,
    in_pieces,
    taken,
)


def test_all_steps_are_taken_and_what_comes_of_them_is_given() -> None:
    done: list[int] = []

    def work() -> Steps[str]:
        for number in range(3):
            done.append(number)
            yield
        return "done"

    assert all_at_once(work()) == "done"
    assert done == [0, 1, 2]


def test_what_a_step_raises_is_raised() -> None:
    def work() -> Steps[None]:
        yield
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - there is nothing to match
        all_at_once(work())


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE])
def test_pieces_are_everything_in_order_and_none_is_empty_or_too_large(size: int) -> None:
    pieces = list(in_pieces(range(size)))

    assert [thing for piece in pieces for thing in piece] == list(range(size))
    assert all(0 < len(piece) <= SIZE for piece in pieces)
    assert len(pieces) == -(-size // SIZE)


@pytest.mark.parametrize("number", [0, 1, PART, PART + 1, 5 * PART])
def test_things_are_sorted_with_a_pause_now_and_then(number: int) -> None:
    names = [str(7 * place % 10007) for place in range(number)]
    steps = Driven(in_order(names, str))
    pauses = sum(1 for _ in steps)

    assert steps.value == sorted(names)
    assert pauses == -(-number // PART) + -(-number // SIZE)


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE])
def test_what_is_taken_from_a_queue_is_not_in_it_any_more(size: int) -> None:
    things = deque(range(size))
    seen: list[int] = []
    for piece in taken(things):
        assert 0 < len(piece) <= SIZE
        seen += piece
        assert [*seen, *things] == list(range(size))

    assert len(seen) == size


@pytest.mark.parametrize("size", [0, 1, SIZE, SIZE + 1, 3 * SIZE])
def test_maps_and_lists_are_freed_in_pieces(size: int) -> None:
    numbers = list(range(size))
    names = {str(number): number for number in numbers}
    sizes = [2 * size, *(len(names) + len(numbers) for _ in freed(names, numbers)), 0]

    assert not names
    assert not numbers
    assert all(0 <= before - after <= SIZE for before, after in pairwise(sizes))
    assert len(sizes) - 2 == 2 * -(-size // SIZE)
