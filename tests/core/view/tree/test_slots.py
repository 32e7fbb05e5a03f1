"""The pending members that gangs have in an application, and how they are offered."""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.owners.asks import Ask, AskOrder
from muster_core.structures.shapes import EVERY_SHAPE, VISIT_BIT
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Offer, Slot
from tests.core.building import ask, identity

VISIT = 1 << VISIT_BIT
TEAM_BIT = 3
VISITS = st.sampled_from([VISIT_BIT, TEAM_BIT, 1])


def member(name: str, gang: str = "g", priority: int = 0) -> Ask:
    return ask(name, priority)._replace(gang=gang, group=gang)


def app_with(*gangs: tuple[str, int]) -> ViewApp:
    """Give an application that has slots of gangs, each with its creation."""
    app = ViewApp(identity())
    for name, creation in gangs:
        app.slots[name] = Slot(app, name, creation)
    return app


def offered(app: ViewApp, mask: int = EVERY_SHAPE) -> list[str]:
    """Try everything that is offered; give it in order."""
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
        """Give what is to be offered, in order, each with its bit."""
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
