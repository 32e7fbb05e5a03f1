"""Things in order: ranks, shares of queues, applications and nodes, priorities.

And long work in steps.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import fsum, inf

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from typing_extensions import override

from muster_core.config.model import QueueConfig, Settings
from muster_core.structures.amounts import (
    NOTHING_THERE,
    Divisors,
    WeightedShare,
    both_shares,
    queue_divisors,
    share,
    total_divisors,
    usage_key,
)
from muster_core.structures.ranking import BLOCK_SIZE, PriorityTally, Rank, Ranked, Ranking
from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.structures.steps import (
    PART,
    SIZE,
    Steps,
    all_at_once,
    freed,
    in_order,
    in_pieces,
    taken,
)
from muster_core.values.priority import (
    BUILT_IN_CLASSES,
    MAX_PRIORITY,
    MIN_PRIORITY,
    clamp,
    current_priority,
    highest,
)
from tests.core.building import queue_config


class Item(Ranked):
    """Something to be ranked."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def item(name: str, mask: int = 1) -> Item:
    made = Item(name)
    made.mask = mask
    return made


def ranking_of(*ranked: tuple[Item, Rank]) -> Ranking[Item]:
    ranking: Ranking[Item] = Ranking()
    for one, rank in ranked:
        ranking.add(one, rank)
    ranking.check()
    return ranking


def many(number: int) -> tuple[Ranking[Item], list[Item]]:
    items = [item(f"a{at}") for at in range(number)]
    return ranking_of(*((one, (at,)) for at, one in enumerate(items))), items


def test_an_empty_ranking() -> None:
    ranking = ranking_of()

    assert ranking.first(EVERY_SHAPE) is None
    assert list(ranking) == list(ranking.standing_for(EVERY_SHAPE)) == []


def test_the_first_of_those_that_stand_for_a_shape() -> None:
    one, two, three = item("one", 0b100), item("two", 0b010), item("three", 0b110)
    ranking = ranking_of((three, (3,)), (one, (1,)), (two, (2,)))

    assert [ranking.first(mask) for mask in (0b010, 0b100, 0b110, 0b001)] == [two, one, one, None]
    assert list(ranking.standing_for(0b010)) == [two, three]


def test_what_stands_for_more_than_before_is_found_once_that_is_said() -> None:
    ranking, items = many(3 * BLOCK_SIZE)
    assert ranking.first(0b10) is None
    items[100].mask = 0b11
    ranking.widen(items[100])
    ranking.check()

    assert ranking.first(0b10) is items[100]


def test_what_stands_for_less_is_found_no_more() -> None:
    ranking, items = many(3 * BLOCK_SIZE)
    for one in items[:-1]:
        one.mask = 0
    assert ranking.first(1) is items[-1]
    items[-1].mask = 0
    ranking.keep_only(~1)
    ranking.check()
    assert ranking.first(1) is None


def test_moving_everything_from_the_front_to_the_back() -> None:
    ranking, items = many(5 * BLOCK_SIZE)
    for at, one in enumerate(items):
        ranking.move(one, (at + 1_000,))
        ranking.check()

    assert list(ranking) == items


def test_a_move_that_changes_no_neighbour() -> None:
    ranking, items = many(5 * BLOCK_SIZE)
    for at, one in enumerate(items):
        ranking.move(one, (at + 0.5,))
        ranking.check()

    assert list(ranking) == items


def test_taking_out_everything() -> None:
    ranking, items = many(5 * BLOCK_SIZE)
    for one in items[::2] + items[1::2]:
        ranking.remove(one)
        ranking.check()
    ranking.add(items[7], (7,))

    assert list(ranking) == [items[7]]


class Rankings(RuleBasedStateMachine):
    """A ranking beside a dictionary that is sorted for each search."""

    def __init__(self) -> None:
        super().__init__()
        self.ranking: Ranking[Item] = Ranking()
        self.ranks: dict[Item, int] = {}

    @rule(rank=st.integers(0, 300), mask=st.integers(0, 7))
    def add(self, rank: int, mask: int) -> None:
        if rank not in self.ranks.values():
            one = item(f"a{rank}", mask)
            self.ranks[one] = rank
            self.ranking.add(one, (rank,))

    @rule(first=st.integers(0, 300), mask=st.integers(0, 7))
    def add_many(self, first: int, mask: int) -> None:
        for rank in range(first, first + 2 * BLOCK_SIZE):
            self.add(rank, mask)

    @precondition(lambda self: self.ranks)
    @rule(data=st.data(), rank=st.integers(0, 300), mask=st.integers(0, 7))
    def move(self, data: st.DataObject, rank: int, mask: int) -> None:
        one = data.draw(st.sampled_from(sorted(self.ranks, key=lambda one: one.name)))
        one.mask = mask
        if rank in self.ranks.values():
            self.ranking.widen(one)
        else:
            self.ranks[one] = rank
            self.ranking.move(one, (rank,))

    @precondition(lambda self: self.ranks)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(sorted(self.ranks, key=lambda one: one.name)))
        del self.ranks[one]
        self.ranking.remove(one)

    @rule(mask=st.integers(1, 7))
    def search(self, mask: int) -> None:
        found = [one for one in sorted(self.ranks, key=self.ranks.__getitem__) if one.mask & mask]
        assert self.ranking.first(mask) is (found[0] if found else None)
        assert list(self.ranking.standing_for(mask)) == found

    @invariant()
    def agrees(self) -> None:
        self.ranking.check()
        assert list(self.ranking) == sorted(self.ranks, key=self.ranks.__getitem__)


TestRankings = Rankings.TestCase


AMOUNTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2**63 - 1))


def test_a_share_of_nothing() -> None:
    assert share(0, 0) == 0.0
    assert share(1, 0) == inf


@given(st.integers(0, 2**80), st.integers(1, 2**80))
def test_a_share_is_the_nearest_double(used: int, whole: int) -> None:
    assert share(used, whole) == float(Fraction(used, whole))


def test_sums_that_are_huge_are_not_rounded_first() -> None:
    # As doubles both of these amounts are 2**63.
    assert share(2**63 - 1, 2**63 + 1) == 1.0
    assert share(3 * (2**63 - 1), 2**63 - 1) == 3.0


def largest_share(row: list[int], divisors: Divisors) -> float:
    """Return the largest share, and check that what is pending has it as well."""
    both = tuple((number, divisor, divisor) for number, divisor in divisors)
    found, _ = both_shares(row, row, both)
    assert both_shares([0] * len(row), row, both) == (0.0, found)
    return found


def test_the_largest_share_over_all_types() -> None:
    divisors = ((0, 2), (1, 4))

    assert largest_share([1, 3], divisors) == 0.75
    assert largest_share([0, 0], divisors) == 0.0
    assert largest_share([], ()) == 0.0


@given(st.integers(0, 2**80), st.integers(0, 2**80))
def test_the_share_of_one_type(used: int, whole: int) -> None:
    assert largest_share([used], total_divisors({"a": whole}, ["a"])) == share(used, whole)


def test_the_total_of_the_partition_by_the_numbers_of_the_types() -> None:
    found = total_divisors({"a": 2, "b": 5}, ["b", "c", "a"])

    assert found == ((0, 5), (1, NOTHING_THERE), (2, 2))


def divisors(path: list[QueueConfig], **total: int) -> list[float]:
    found = queue_divisors(path, total, ["a", "b"])
    assert [number for number, _ in found] == [0, 1]
    return [divisor for _, divisor in found]


def test_guaranteed_is_the_first_to_compare_with() -> None:
    path = [queue_config(guaranteed={"a": 4}, max={"a": 2}), queue_config(max={"a": 1})]

    assert divisors(path, a=100, b=7) == [4, 7]


def test_then_the_smallest_max_on_the_path() -> None:
    path = [queue_config(max={"a": 7}), queue_config(max={"a": 5, "b": 9}), queue_config()]

    assert divisors(path, a=100) == [5, 9]


def test_a_guaranteed_of_an_ancestor_does_not_count() -> None:
    path = [queue_config(), queue_config(guaranteed={"a": 4})]

    assert divisors(path, a=100, b=7) == [100, 7]


def test_then_the_total_of_the_partition() -> None:
    assert divisors([queue_config()], a=100) == [100, NOTHING_THERE]


def test_a_guaranteed_of_zero_is_not_named_but_a_max_of_zero_is() -> None:
    path = [queue_config(guaranteed={"a": 0}, max={"a": 0})]

    assert divisors(path, a=100, b=7) == [NOTHING_THERE, 7]


def test_fair_share_is_the_largest_over_the_types_in_use() -> None:
    found = queue_divisors([queue_config(guaranteed={"a": 4, "c": 1})], {"b": 10}, ["a", "b"])
    only_a = queue_divisors([queue_config()], {"a": 100}, ["a", "b"])

    assert largest_share([1, 5], found) == 0.5
    assert largest_share([0, 0], found) == 0.0
    assert largest_share([0, 1], only_a) == inf


def test_usage_goes_from_the_largest_share_down() -> None:
    assert usage_key({"a": 1, "b": 3}, {"a": 2}, {"a": 100, "b": 4}) == (0.75, 0.5)
    assert usage_key({"a": 0}, {}, {"a": 1}) == ()
    assert usage_key({"z": 1, "a": 1}, {}, {"a": 1}) == (inf, 1.0)


@given(AMOUNTS, AMOUNTS)
def test_types_that_are_not_used_change_no_comparison(
    one: dict[str, int], two: dict[str, int]
) -> None:
    total = dict.fromkeys("abc", 1000)
    padded = [
        sorted((share(used.get(name, 0), total[name]) for name in total), reverse=True)
        for used in (one, two)
    ]

    assert (usage_key(one, {}, total) < usage_key(two, {}, total)) == (padded[0] < padded[1])


def utilisation(
    used: Mapping[str, int], capacity: Mapping[str, int], weights: Sequence[tuple[str, float]]
) -> float:
    return WeightedShare(capacity, weights).utilisation(used)


def test_utilisation_is_the_weighted_average() -> None:
    weights = (("a", 3.0), ("b", 1.0), ("c", 5.0))

    assert utilisation({"a": 1, "c": 9}, {"a": 2, "b": 2}, weights) == 1.5 / 4.0


@pytest.mark.parametrize("weights", [(), (("z", 1.0),), (("a", 0.0), ("b", 0.0))])
def test_without_anything_to_weigh_it_is_zero(weights: tuple[tuple[str, float], ...]) -> None:
    assert utilisation({"a": 1}, {"a": 2, "b": 2}, weights) == 0.0


def test_a_type_of_weight_zero_is_in_the_average_without_effect() -> None:
    assert utilisation({"a": 1, "b": 2}, {"a": 2, "b": 2}, (("a", 1.0), ("b", 0.0))) == 0.5


def test_more_used_than_there_is() -> None:
    assert utilisation({"a": 6}, {"a": 2}, (("a", 1.0),)) == 3.0


def test_sums_are_rounded_once() -> None:
    weights = tuple((name, 0.1) for name in "abcdefghij")
    capacity = dict.fromkeys("abcdefghij", 1)

    assert utilisation(capacity, capacity, weights) == fsum([0.1] * 10) / fsum([0.1] * 10) == 1.0


def test_weights_too_large_to_be_averaged_make_it_infinite() -> None:
    weights = (("a", 8e307), ("b", 8e307))

    assert utilisation({"a": 2, "b": 2}, {"a": 1, "b": 1}, weights) == inf


@given(
    st.lists(st.tuples(st.integers(0, 2**63), st.integers(1, 2**63)), min_size=1, max_size=3),
    st.lists(st.floats(0, 1e300), min_size=3, max_size=3),
)
def test_utilisation_is_rounded_as_the_sum_is(
    parts: list[tuple[int, int]], weights: list[float]
) -> None:
    named = dict(zip("abc", parts, strict=False))
    used = {name: part[0] for name, part in named.items()}
    capacity = {name: part[1] for name, part in named.items()}
    weighted = dict(zip(named, weights, strict=False))
    shares = [weight * share(used[name], capacity[name]) for name, weight in weighted.items()]
    whole = fsum(weighted.values())

    wanted = fsum(shares) / whole if whole else 0.0
    assert utilisation(used, capacity, list(weighted.items())) == wanted


def test_the_classes_that_are_built_in() -> None:
    assert {known.name: known.value for known in BUILT_IN_CLASSES} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    assert all(known.preempts for known in BUILT_IN_CLASSES)


@pytest.mark.parametrize(
    ("priority", "clamped"),
    [
        (2**31 - 1, 2**31 - 1),
        (2**31, 2**31 - 1),
        (-(2**31), -(2**31)),
        (-(2**31) - 1, -(2**31)),
        (2**80, 2**31 - 1),
        (0, 0),
    ],
)
def test_clamped_to_int32(priority: int, clamped: int) -> None:
    assert clamp(priority) == clamped


def test_the_offset_is_added() -> None:
    assert current_priority(Settings(offset=-3), 5, is_root=False) == 2


@pytest.mark.parametrize(
    ("offset", "highest", "expected"),
    [
        (MAX_PRIORITY, MAX_PRIORITY, MAX_PRIORITY),
        (MAX_PRIORITY, 1, MAX_PRIORITY),
        (MIN_PRIORITY, MIN_PRIORITY, MIN_PRIORITY),
        (MIN_PRIORITY, MAX_PRIORITY, -1),
    ],
)
def test_the_sum_is_clamped(offset: int, highest: int, expected: int) -> None:
    assert current_priority(Settings(offset=offset), highest, is_root=False) == expected


def test_no_offset_applies_to_nothing() -> None:
    assert current_priority(Settings(offset=7), None, is_root=False) is None


@pytest.mark.parametrize("highest", [None, 100, -100])
def test_a_fence_is_exactly_its_offset(highest: int | None) -> None:
    assert current_priority(Settings(fence=True, offset=7), highest, is_root=False) == 7


@pytest.mark.parametrize("highest", [None, 100])
def test_at_the_root_fence_and_offset_do_nothing(highest: int | None) -> None:
    assert current_priority(Settings(fence=True, offset=7), highest, is_root=True) == highest


def test_an_empty_tally_has_no_top() -> None:
    assert PriorityTally().top() is None


def test_adding_never_looks_for_the_maximum() -> None:
    tally = PriorityTally()
    for priority in (1, 5, 3, 5, 9):
        tally.add(priority)
        tally.top()

    assert tally.top() == 9
    assert tally.recomputations == 0


def test_removing_one_that_is_not_the_top_recomputes_nothing() -> None:
    tally = PriorityTally()
    tally.add(1)
    tally.add(9)
    tally.remove(1)

    assert tally.top() == 9
    assert tally.recomputations == 0


def test_removing_one_of_several_at_the_top_stops_at_the_next() -> None:
    tally = PriorityTally()
    tally.add(9, times=1000)
    for _ in range(999):
        tally.remove(9)
        assert tally.top() == 9

    assert tally.recomputations == 0


def test_removing_the_last_at_the_top_recomputes_once() -> None:
    tally = PriorityTally()
    for priority in range(100):
        tally.add(priority)
    tally.remove(99)

    assert tally.top() == tally.top() == 98
    assert tally.recomputations == 1


def test_a_maximum_that_comes_back_in_time_is_not_looked_for() -> None:
    tally = PriorityTally()
    tally.add(9)
    tally.replace(9, None)
    tally.replace(None, 9)

    assert tally.top() == 9
    assert tally.recomputations == 0


def test_replacing_by_the_same_changes_nothing() -> None:
    tally = PriorityTally()
    tally.replace(None, None)
    tally.add(4)
    tally.replace(4, 4)

    assert tally.top() == 4
    tally.check()


def test_what_comes_and_goes_below_a_lasting_top_leaves_nothing_behind() -> None:
    tally = PriorityTally()
    tally.add(9)
    tracemalloc.start()
    for _ in range(20_000):
        tally.add(5)
        tally.remove(5)
    grown_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert grown_bytes < 20_000


class Tallies(RuleBasedStateMachine):
    """A tally beside a list that is searched anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.tally = PriorityTally()
        self.plain: list[int] = []

    @rule(
        priority=st.sampled_from([MIN_PRIORITY, -1, 0, 1, 2, MAX_PRIORITY]), times=st.integers(1, 3)
    )
    def add(self, priority: int, times: int) -> None:
        self.tally.add(priority, times)
        self.plain += [priority] * times

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        priority = data.draw(st.sampled_from(self.plain))
        self.tally.remove(priority)
        self.plain.remove(priority)

    @precondition(lambda self: self.plain)
    @rule(new=st.none() | st.integers(-3, 3), data=st.data())
    def replace(self, new: int | None, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.plain))
        self.tally.replace(old, new)
        self.plain.remove(old)
        self.plain += [] if new is None else [new]

    @invariant()
    def agrees(self) -> None:
        assert self.tally.top() == max(self.plain, default=None)
        self.tally.check()

    @override
    def teardown(self) -> None:
        for priority in Counter(self.plain).elements():
            self.tally.remove(priority)
        assert self.tally.top() is None


TestTallies = Tallies.TestCase


def test_the_highest_of_priorities_of_which_some_are_none() -> None:
    assert highest([None, -3, None, -5]) == -3
    assert highest([None]) is None


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

    assert [item for piece in pieces for item in piece] == list(range(size))
    assert all(0 < len(piece) <= SIZE for piece in pieces)
    assert len(pieces) == -(-size // SIZE)


@pytest.mark.parametrize("number", [0, 1, PART, PART + 1, 5 * PART])
def test_things_are_sorted_with_a_pause_now_and_then(number: int) -> None:
    names = [str(7 * place % 10007) for place in range(number)]
    pauses = 0

    def counted() -> Steps[list[str]]:
        nonlocal pauses
        steps = in_order(names, str)
        while True:
            try:
                yield next(steps)
            except StopIteration as end:
                found: list[str] = end.value
                return found
            pauses += 1

    assert all_at_once(counted()) == sorted(names)
    assert pauses == (0 if number < PART else number // PART + -(-number // SIZE))


@pytest.mark.parametrize("size", [0, 1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE])
def test_what_is_taken_from_a_queue_is_not_in_it_any_more(size: int) -> None:
    items = deque(range(size))
    seen: list[int] = []
    for piece in taken(items):
        assert 0 < len(piece) <= SIZE
        seen += piece
        assert [*seen, *items] == list(range(size))

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
