"""The order of applications, and the best of those that offer a shape."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.structures.ranking import Rank
from muster_core.structures.shapes import EVERY_SHAPE
from muster_core.view.tree.application import AppOrder, Listed


@attrs.define(eq=False)
class Item(Listed):
    """Something to be listed."""

    name: str


def item(name: str, *bits: int) -> Item:
    made = Item(name)
    made.mask = sum(1 << bit for bit in bits)
    return made


def order_of(*listed: tuple[Item, Rank]) -> AppOrder[Item]:
    order = AppOrder[Item]()
    for one, key in listed:
        order.add(one, key)
    order.check([one for one, _ in listed])
    return order


def best(order: AppOrder[Item], *bits: int) -> str | None:
    found = order.best(sum(1 << bit for bit in bits))
    return None if found is None else found.name


def test_an_empty_order() -> None:
    order = order_of()

    assert order.best(EVERY_SHAPE) is None
    assert (list(order), order.mask) == ([], 0)


def test_best_first() -> None:
    order = order_of((item("a", 1), (2.0, 1)), (item("b", 1), (-1.0, 9)), (item("c", 2), (2.0, 0)))

    assert [one.name for one in order] == ["b", "c", "a"]
    assert (best(order, 1), best(order, 2), best(order, 3)) == ("b", "c", None)
    assert best(order, 1, 2) == "b"


def test_keys_with_shares_go_from_the_largest_down() -> None:
    order = order_of(
        (item("a", 1), ((0.5, 0.1), 1)),
        (item("b", 1), ((0.5,), 3)),
        (item("c", 1), ((), 4)),
        (item("d", 1), ((0.5, 0.1), 0)),
    )

    assert [one.name for one in order] == ["c", "b", "d", "a"]


def test_what_offers_nothing_is_listed_all_the_same() -> None:
    order = order_of((item("a"), (1,)))

    assert [one.name for one in order] == ["a"]
    assert order.best(EVERY_SHAPE) is None


def test_the_best_behind_many_that_do_not_offer_it() -> None:
    first = [(item(f"a{number}", 1), (number,)) for number in range(50)]
    rare = item("rare", 2), (99,)
    order = order_of(*first, rare, (item("later", 2), (100,)))

    assert best(order, 2) == "rare"
    assert best(order, 1, 2) == "a0"


def test_an_update_brings_shapes_and_takes_them() -> None:
    one = item("a", 1)
    order = order_of((one, (1,)))
    one.mask = 1 << 2
    order.update(one)
    order.check([one])

    assert (best(order, 1), best(order, 2)) == (None, "a")


def test_what_is_removed_is_found_no_more() -> None:
    one, other = item("a", 1), item("b", 1)
    order = order_of((one, (1,)), (other, (2,)))
    order.remove(one)
    order.check([other])

    assert one.order is None
    assert best(order, 1) == "b"


def test_moving_the_first_far_behind() -> None:
    items = [item(f"a{number}", 1) for number in range(50)]
    order = order_of(*((one, (number,)) for number, one in enumerate(items)))
    for number, one in enumerate(items):
        order.remove(one)
        order.add(one, (number + 100,))
    order.check(items)

    assert best(order, 1) == "a0"


def test_a_shape_that_comes_and_goes_a_thousand_times() -> None:
    items = [item(f"a{number}", 1, 2) for number in range(10)]
    order = order_of(*((one, (number,)) for number, one in enumerate(items)))
    for number in range(1000):
        one = items[number % 10]
        one.mask ^= 1 << 2
        order.update(one)
    order.check(items)

    assert best(order, 2) == "a0"


class Orders(RuleBasedStateMachine):
    """An order beside a plain dictionary that is sorted for each search."""

    def __init__(self) -> None:
        super().__init__()
        self.items = [Item(f"a{number}") for number in range(12)]
        self.keys: dict[int, Rank] = {}
        self.order = AppOrder[Item]()

    @rule(number=st.integers(0, 11), rank=st.integers(-2, 2))
    def place(self, number: int, rank: int) -> None:
        one = self.items[number]
        known = number in self.keys
        self.keys[number] = (rank, number)
        if known and rank >= 0:
            self.order.move(one, self.keys[number])
        else:
            if known:
                self.order.remove(one)
            self.order.add(one, self.keys[number])

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.keys)))
        self.order.remove(self.items[number])
        del self.keys[number]

    @rule(number=st.integers(0, 11), mask=st.integers(0, 7).map(lambda bits: bits << 1))
    def offer(self, number: int, mask: int) -> None:
        self.items[number].mask = mask
        if number in self.keys:
            self.order.update(self.items[number])

    @rule(number=st.integers(0, 11), times=st.integers(1, 100))
    def flicker(self, number: int, times: int) -> None:
        for _ in range(times):
            self.offer(number, self.items[number].mask ^ 2)

    @invariant()
    def agrees(self) -> None:
        ranked = sorted(self.keys, key=lambda number: self.keys[number])
        assert list(self.order) == [self.items[number] for number in ranked]
        for mask in (2, 4, 8, 6, 14):
            offering = [number for number in ranked if self.items[number].mask & mask]
            found = self.order.best(mask)
            assert found is (self.items[offering[0]] if offering else None)
        self.order.check([self.items[number] for number in ranked])


TestOrders = Orders.TestCase
