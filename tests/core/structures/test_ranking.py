"""Things in order, and the first of them that stands for a shape."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.structures.ranking import BLOCK_SIZE, Rank, Ranked, Ranking
from muster_core.structures.shapes import EVERY_SHAPE


@attrs.define(eq=False)
class Item(Ranked):
    """Something to be ranked."""

    name: str


def item(name: str, mask: int = 1) -> Item:
    made = Item(name)
    made.mask = mask
    return made


def ranking_of(*ranked: tuple[Item, Rank]) -> Ranking[Item]:
    ranking = Ranking[Item]()
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
        self.ranking = Ranking[Item]()
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
