"""Applications as a round sees them: their order, and the pending members that gangs have in them."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.owners.app_messages import Values
from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.ranking import Rank
from muster_core.structures.shapes import EVERY_SHAPE, VISIT_BIT, Shape, bits_of
from muster_core.values.application_states import AppState
from muster_core.view.tree.application import AppOrder, Listed, ViewApp
from muster_core.view.tree.constraints import Offer, Slot
from tests.core.building import ask, identity


def shaped(one: Ask, bit: int) -> Ask:
    """Return an ask whose shape is another one for each bit but the first."""
    return one if bit == 1 else one._replace(shape=Shape(one.resources, (("bit", str(bit)),)))


def view_app(*asks: tuple[Ask, int]) -> ViewApp:
    app = ViewApp(identity())
    for one, bit in asks:
        app.add(shaped(one, bit), bit)
    app.check()
    return app


def in_order(app: ViewApp, mask: int = EVERY_SHAPE) -> list[str]:
    """Try every ask of some shapes; return their names in the order in which they were tried."""
    names: list[str] = []
    while app.mask & mask:
        bit, best = app.best(mask)
        app.tried(best, bit)
        app.check()
        names.append(best.name)
    return names


def test_an_application_without_asks() -> None:
    app = view_app()

    assert app.mask == 0
    assert app.values() == Values(None, {}, {})


def test_the_best_is_by_priority_then_submission_whatever_the_shape() -> None:
    app = view_app(
        (ask("a", 1), 1), (ask("b", 5), 2), (ask("c", 1), 2), (ask("d", 5), 1), (ask("e", 9), 3)
    )

    assert in_order(app) == ["e", "b", "d", "a", "c"]


def test_only_the_shapes_that_are_asked_for_are_offered() -> None:
    app = view_app((ask("a", 9), 1), (ask("b", 5), 2), (ask("c", 1), 4))

    assert set(bits_of(app.mask)) == {1, 2, 4}
    assert in_order(app, 1 << 2 | 1 << 4) == ["b", "c"]
    assert app.mask == 1 << 1


def test_an_ask_that_was_tried_stays_pending_and_counted() -> None:
    app = view_app((ask("a", 9, vcore=3), 1))
    in_order(app)

    assert app.values() == Values(9, {"vcore": 3}, {})


def test_the_next_round_offers_everything_again() -> None:
    app = view_app((ask("a"), 1), (ask("b"), 2), (ask("c"), 1))
    before = in_order(app)
    app.start_round()

    assert in_order(app) == before == ["a", "b", "c"]


def test_an_ask_that_goes_after_it_was_tried_does_not_come_back() -> None:
    gone = ask("a")
    app = view_app((gone, 1), (ask("b"), 1))
    in_order(app)
    app.remove(gone, 1)
    app.start_round()

    assert in_order(app) == ["b"]


def test_a_name_that_comes_again_is_another_ask() -> None:
    old, new = ask("a", 9), ask("a", 1)
    app = view_app((old, 1), (ask("b", 5), 1))
    app.remove(old, 1)
    app.add(new, 1)

    assert in_order(app) == ["b", "a"]
    assert app.pending["a"] is new


def test_an_ask_behind_the_best_that_goes_is_not_offered() -> None:
    behind = ask("b", 5)
    app = view_app((ask("a", 9), 1), (behind, 1), (ask("c", 1), 1))
    app.remove(behind, 1)
    app.check()

    assert in_order(app) == ["a", "c"]


def test_what_comes_and_goes_behind_the_best_is_forgotten() -> None:
    app = view_app((ask("first", 9), 1))
    for _ in range(500):
        passing = ask("x")
        app.add(passing, 1)
        app.remove(passing, 1)
        app.check()

    assert in_order(app) == ["first"]


@pytest.mark.parametrize("state", AppState)
def test_who_counts_as_running(state: AppState) -> None:
    app = view_app()
    app.state = state

    assert app.running is (state in {AppState.STARTING, AppState.RUNNING})


class ViewApps(RuleBasedStateMachine):
    """An application beside a list of asks that is sorted for each look."""

    def __init__(self) -> None:
        super().__init__()
        self.app = ViewApp(identity())
        self.pending: dict[str, tuple[Ask, int]] = {}
        self.tried: set[str] = set()

    def best(self, mask: int) -> Ask | None:
        offered = [
            one
            for one, bit in self.pending.values()
            if one.name not in self.tried and mask >> bit & 1
        ]
        return min(offered, key=lambda one: one.order, default=None)

    @rule(name=st.integers(0, 30), priority=st.integers(-1, 1), bit=st.integers(1, 3))
    def add(self, name: int, priority: int, bit: int) -> None:
        new = shaped(ask(f"x{name}", priority), bit)
        if new.name not in self.pending:
            self.app.add(new, bit)
            self.pending[new.name] = (new, bit)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone, bit = self.pending.pop(data.draw(st.sampled_from(sorted(self.pending))))
        self.tried.discard(gone.name)
        self.app.remove(gone, bit)

    @rule(mask=st.integers(1, 7).map(lambda bits: bits << 1), bind=st.booleans())
    def try_the_best(self, mask: int, bind: bool) -> None:
        expected = self.best(mask)
        assert bool(self.app.mask & mask) == (expected is not None)
        if expected is None:
            return
        bit, best = self.app.best(mask)
        assert (best, bit) == self.pending[expected.name]
        if bind:
            del self.pending[best.name]
            self.app.remove(best, bit)
        else:
            self.tried.add(best.name)
            self.app.tried(best, bit)

    @rule()
    def start_round(self) -> None:
        self.tried.clear()
        self.app.start_round()

    @invariant()
    def agrees(self) -> None:
        self.app.check()
        priorities = [one.priority for one, _ in self.pending.values()]
        assert self.app.tally.top() == max(priorities, default=None)
        assert set(bits_of(self.app.mask)) == {
            bit for one, bit in self.pending.values() if one.name not in self.tried
        }


TestViewApps = ViewApps.TestCase


class Item(Listed):
    """Something to be listed."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


def item(name: str, *bits: int) -> Item:
    made = Item(name)
    made.mask = sum(1 << bit for bit in bits)
    return made


def order_of(*listed: tuple[Item, Rank]) -> AppOrder[Item]:
    order: AppOrder[Item] = AppOrder()
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
        self.order: AppOrder[Item] = AppOrder()

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


VISIT = 1 << VISIT_BIT
TEAM_BIT = 3
VISITS = st.sampled_from([VISIT_BIT, TEAM_BIT, 1])


def member(name: str, gang: str = "g", priority: int = 0) -> Ask:
    return ask(name, priority)._replace(gang=gang, group=gang)


def app_with(*gangs: tuple[str, int]) -> ViewApp:
    """Return an application that has slots of gangs, each with its creation."""
    app = ViewApp(identity())
    for name, creation in gangs:
        app.slots[name] = Slot(app, name, creation)
    return app


def offered(app: ViewApp, mask: int = EVERY_SHAPE) -> list[str]:
    """Try everything that is offered; return it in order."""
    names: list[str] = []
    while app.mask & mask:
        bit, best = app.best(mask)
        names.append(best.name)
        # What is offered to be visited is tried under the bit of its shape.
        slot = None if best.gang is None else app.slots[best.gang]
        app.tried(best, bit if slot is None else slot.members[best.name][1])
    return names


def test_members_are_not_offered_at_first() -> None:
    app = app_with(("g", 1))
    app.add(member("x"), 1)

    assert app.mask == 0
    app.check()


def test_each_is_offered_as_what_it_needs() -> None:
    app = app_with(("g", 1))
    app.add(member("x"), 1)
    app.slots["g"].set_offer(Offer.EACH)
    app.add(member("y"), 2)
    app.check()

    assert offered(app, 1 << 2) == ["y"]
    assert offered(app) == ["x"]


def test_one_after_the_other_is_the_first() -> None:
    app = app_with(("g", 1))
    app.slots["g"].set_offer(Offer.FIRST)
    app.add(member("x"), 1)
    app.add(member("y", priority=5), 2)
    app.check()

    assert app.mask == VISIT
    assert offered(app) == ["y", "x"]
    app.start_round()
    assert offered(app) == ["y", "x"]


def test_the_first_member_of_a_gang_is_offered_again_after_a_trial() -> None:
    app = app_with(("g", 1), ("h", 2))
    for name in ("g", "h"):
        app.slots[name].set_offer(Offer.FIRST)
    first = member("x", priority=9)
    app.add(first, 1)
    app.add(member("w"), 1)
    app.add(member("y", "h"), 1)

    # The first one gets a node, then the other gang has another first member, then it loses the node.
    app.remove(first, 1)
    app.add(member("z", "h", priority=5), 1)
    app.add(first, 1)
    app.relist()
    app.check()

    assert offered(app) == ["x", "z", "w", "y"]


def test_what_is_offered_no_more() -> None:
    app = app_with(("g", 1))
    app.add(member("x"), 1)
    for offer in (Offer.EACH, Offer.FIRST, Offer.NONE):
        app.slots["g"].set_offer(offer)
        app.check()

    assert app.mask == 0


def test_members_have_the_creation_of_their_gang() -> None:
    app = app_with(("old", -2), ("new", 10**9))
    for slot in app.slots.values():
        slot.set_offer(Offer.EACH)
    app.add(member("first", "new"), 1)
    app.add(ask("plain"), 1)
    app.add(member("last", "old"), 1)

    assert offered(app) == ["last", "plain", "first"]


def test_a_gang_of_another_creation_has_another_place() -> None:
    app = app_with(("before", 1), ("moves", 2), ("after", 3))
    for name, slot in app.slots.items():
        app.add(member(f"of-{name}", name), 1)
        slot.set_offer(Offer.FIRST)
    placements = app.slots["moves"]
    placements.set_offer(Offer.NONE)
    placements.reorder(4)
    placements.set_offer(Offer.FIRST)
    app.check()

    assert offered(app) == ["of-before", "of-after", "of-moves"]


@attrs.define
class PlainGang:
    creation: int
    offer: Offer = Offer.NONE
    visit_bit: int = VISIT_BIT


class Slots(RuleBasedStateMachine):
    """An application beside a plain list of its asks and of how gangs have them offered."""

    def __init__(self) -> None:
        super().__init__()
        self.app = app_with(("g", 1), ("h", 2), ("i", 3))
        self.gangs = {"g": PlainGang(1), "h": PlainGang(2), "i": PlainGang(3)}
        self.pending: dict[str, tuple[Ask, int]] = {}
        self.tried: set[str] = set()

    def order(self, one: Ask) -> AskOrder:
        if one.gang is None:
            return one.order
        return (one.rank, self.gangs[one.gang].creation, one.group, one.seq, one.number)

    def untried(self) -> list[tuple[Ask, int]]:
        left = [pair for name, pair in self.pending.items() if name not in self.tried]
        return sorted(left, key=lambda pair: self.order(pair[0]))

    def on_offer(self) -> list[tuple[Ask, int]]:
        """Return the asks that should be on offer, in order, each with its bit."""
        found: list[tuple[Ask, int]] = []
        listed: set[str] = set()
        for one, bit in self.untried():
            offer = Offer.EACH if one.gang is None else self.gangs[one.gang].offer
            if offer is Offer.EACH:
                found.append((one, bit))
            elif offer is Offer.FIRST and one.gang not in listed:
                found.append((one, self.gangs[one.gang or ""].visit_bit))
                listed.add(one.gang or "")
        return found

    @rule(
        name=st.integers(0, 8),
        priority=st.integers(0, 1),
        bit=st.integers(1, 2),
        gang=st.sampled_from([None, "g", "h", "i"]),
    )
    def add(self, name: int, priority: int, bit: int, gang: str | None) -> None:
        new = ask(f"x{name}", priority, vcore=bit)  # Each bit stands for a shape of its own.
        if gang is not None:
            new = new._replace(gang=gang, group=gang)
        if new.name not in self.pending:
            self.app.add(new, bit)
            self.pending[new.name] = (new, bit)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone, bit = self.pending.pop(data.draw(st.sampled_from(sorted(self.pending))))
        self.tried.discard(gone.name)
        self.app.remove(gone, bit)

    @precondition(lambda self: len(self.pending) > 1)
    @rule(data=st.data())
    def remove_several(self, data: st.DataObject) -> None:
        """Remove asks and add some of them again, before a round reads what is offered."""
        names = data.draw(st.lists(st.sampled_from(sorted(self.pending)), unique=True))
        gone = {name: self.pending.pop(name) for name in names}
        for one, bit in gone.values():
            self.tried.discard(one.name)
            self.app.remove(one, bit)
        for name in data.draw(st.lists(st.sampled_from(names), unique=True)) if names else ():
            self.pending[name] = gone[name]
            self.app.add(*gone[name])

    @precondition(lambda self: self.untried())
    @rule(data=st.data())
    def try_one(self, data: st.DataObject) -> None:
        """Try an ask, also one that is not the best: activation does so."""
        one, bit = data.draw(st.sampled_from(self.untried()))
        self.tried.add(one.name)
        self.app.tried(one, bit)

    @rule()
    def start_round(self) -> None:
        self.tried.clear()
        self.app.start_round()

    @rule(name=st.sampled_from("ghi"), offer=st.sampled_from(Offer), visit_bit=VISITS)
    def offer(self, name: str, offer: Offer, visit_bit: int) -> None:
        self.gangs[name] = PlainGang(self.gangs[name].creation, offer, visit_bit)
        self.app.slots[name].set_offer(offer, visit_bit)

    @rule(
        name=st.sampled_from("ghi"),
        creation=st.integers(1, 5),
        offer=st.sampled_from(Offer),
        visit_bit=VISITS,
    )
    def define(self, name: str, creation: int, offer: Offer, visit_bit: int) -> None:
        self.gangs[name] = PlainGang(creation, offer, visit_bit)
        slot = self.app.slots[name]
        slot.set_offer(Offer.NONE)
        slot.reorder(creation)
        slot.set_offer(offer, visit_bit)

    @invariant()
    def agrees(self) -> None:
        self.app.relist()
        self.app.check()
        for name, slot in self.app.slots.items():
            slot.check()
            of_gang = [one for one, _ in self.untried() if one.gang == name]
            assert slot.first() is (of_gang[0] if of_gang else None)
        for mask in (VISIT, 1 << 1, 1 << 2, 1 << TEAM_BIT, EVERY_SHAPE):
            found = [(bit, one) for one, bit in self.on_offer() if mask >> bit & 1]
            assert bool(self.app.mask & mask) == bool(found)
            if found:
                assert self.app.best(mask) == found[0]


TestSlots = Slots.TestCase
