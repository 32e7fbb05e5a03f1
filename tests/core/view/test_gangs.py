"""Gangs and groups as a round sees them.

Members, shapes, where they stand, and which gangs belong together.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.events import AddNode, RemoveAsk, RemoveGang
from muster_core.gangs import GangDefinition, GangMode, GangState, Topology
from muster_core.nodes.node import Node
from muster_core.nodes.node_index import NodeIndex
from muster_core.owners.asks import Allocation
from muster_core.resources import MAX_QUANTITY, Resources
from muster_core.structures.shapes import VISIT_BIT, Shape, ShapeTable
from muster_core.structures.steps import all_at_once
from muster_core.view.gang_index import GangIndex, GangShapes
from muster_core.view.gangs import (
    Hold,
    TopologyState,
    ViewGang,
    ViewGroup,
    pending_members,
    topology_of,
    topology_state_of,
)
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Offer, Slot
from tests.core.admission.objects import full_gang_name, gang, members, story, tree_with_app
from tests.core.building import ask, identity, shape
from tests.core.view.sites import (
    AT_MOST_ONE,
    PREFER,
    SAME,
    SPREAD,
    Site,
    cluster,
    gang_of,
    gang_within,
    job,
    racked,
)

STRICT, LOOSE = GangMode.STRICT, GangMode.NON_STRICT
NODE = Node("n", {}, {}, schedulable=True)


def view_gang(
    name: str = "g",
    need: int | None = 2,
    mode: GangMode = STRICT,
    *,
    state: GangState = GangState.GATHERING,
    creation: int = 1,
    **places: int,
) -> ViewGang:
    """Return a gang with so many members in each place that is named."""
    pending, waiting, parked, bound = (
        places.get(place, 0) for place in ("pending", "waiting", "parked", "bound")
    )
    definition = None if need is None else GangDefinition(need, need, mode)
    made = ViewGang(name, 1, definition, creation, state)
    app = ViewApp(identity())
    if pending:
        made.slots[1] = slot = Slot(app, name, creation)
        slot.members.update((f"p{number}", (ask(), 1)) for number in range(pending))
    for number in range(waiting):
        held = Allocation(ask(f"w{number}"), "n", number)
        made.waiting[1, f"w{number}"] = Hold(app, held, NODE, creation * 10 + number)
    made.parked.update(((1, f"k{number}"), None) for number in range(parked))
    made.bound = {(0, f"bound-{number}"): None for number in range(bound)}
    return made


def group(*gangs: ViewGang, more: str = "") -> ViewGroup:
    """Return a group of gangs, and of names for which there is none."""
    return ViewGroup((*(one.name for one in gangs), *more), list(gangs))


# A gang


def test_who_counts_as_what() -> None:
    gang = view_gang(need=7, pending=1, waiting=2, parked=3, bound=4)

    assert (gang.pending, gang.held, gang.children, gang.missing) == (1, 6, 10, 1)


@pytest.mark.parametrize(
    ("gang", "missing"),
    [
        (view_gang(need=None, pending=3), 0),
        (view_gang(need=3), 3),
        (view_gang(need=3, waiting=1, bound=1), 1),
        (view_gang(need=1, waiting=2), 0),
        (view_gang(need=3, state=GangState.SATISFIED), 0),
    ],
)
def test_how_many_are_missing(gang: ViewGang, missing: int) -> None:
    assert gang.missing == missing


@pytest.mark.parametrize(
    ("gang", "admits"),
    [
        (view_gang(need=None, pending=3), False),
        (view_gang(need=3, pending=2), False),
        (view_gang(need=3, pending=1, waiting=1, bound=1), True),
        (view_gang(need=1, parked=1, state=GangState.TIMED_OUT), False),
        (view_gang(need=3, pending=1, state=GangState.SATISFIED), True),
    ],
)
def test_whom_a_gang_lets_through(gang: ViewGang, *, admits: bool) -> None:
    assert gang.admits() == admits


def test_those_that_are_not_defined_are_last_in_the_order_of_creation() -> None:
    gangs = [view_gang("z", creation=1), view_gang("a", creation=2), view_gang("b", creation=2)]
    undefined = view_gang("a", None)
    undefined.creation = None

    assert sorted([undefined, *reversed(gangs)], key=ViewGang.rank) == [*gangs, undefined]


# A group


def test_one_strict_gang_makes_a_group_strict() -> None:
    assert group(view_gang("g", mode=LOOSE), view_gang("h")).strict
    assert not group(view_gang("g", mode=LOOSE), view_gang("h", None)).strict


COMPLETE = view_gang("g", 2, waiting=1, bound=1)
SATISFIED = view_gang("h", 1, bound=1, state=GangState.SATISFIED)
LACKING = view_gang("i", 2, pending=1, waiting=1)
HOPEFUL = view_gang("j", 3, pending=3)


@pytest.mark.parametrize(
    ("one", "complete", "may_complete"),
    [
        (group(COMPLETE), True, True),
        (group(COMPLETE, SATISFIED), True, True),
        (group(COMPLETE, more="x"), False, False),
        (group(COMPLETE, LACKING), False, True),
        (group(COMPLETE, HOPEFUL), False, True),
        (group(COMPLETE, view_gang("k", 1, parked=1, state=GangState.TIMED_OUT)), False, False),
        (group(COMPLETE, view_gang("k", None, bound=1)), False, False),
        (group(COMPLETE, view_gang("k", 9, waiting=8)), False, False),
    ],
)
def test_when_a_group_is_complete(one: ViewGroup, *, complete: bool, may_complete: bool) -> None:
    assert (one.complete(), one.may_complete()) == (complete, may_complete)


def test_who_waits_is_in_the_order_of_waiting() -> None:
    late, early = view_gang("g", creation=2, waiting=2), view_gang("h", creation=1, waiting=1)

    assert [hold.number for hold in group(late, early).holds()] == [10, 20, 21]


def test_who_becomes_satisfied() -> None:
    undefined = view_gang("k", None, bound=1)

    assert group(COMPLETE, SATISFIED, undefined, LACKING).unsatisfied() == [COMPLETE, LACKING]


# How members are offered


def offers_of(
    *gangs: ViewGang, more: str = "", barred: bool = False, hopeless: bool = False
) -> list[Offer]:
    one = group(*gangs, more=more)
    one.barred, one.hopeless = barred, hopeless
    return [one.offer_of(gang) for gang in gangs]


LOOSE_ONE = view_gang("l", 2, LOOSE, pending=2)
NONE, EACH, FIRST = Offer.NONE, Offer.EACH, Offer.FIRST


def test_members_of_a_satisfied_gang_are_plain_asks_whatever_becomes_of_the_group() -> None:
    assert offers_of(SATISFIED, HOPEFUL, barred=True) == [EACH, NONE]


def test_members_of_a_loose_group_are_tried_where_they_fit() -> None:
    assert offers_of(LOOSE_ONE) == [EACH]


def test_members_of_a_strict_group_are_tried_whether_they_fit_or_not() -> None:
    assert offers_of(LOOSE_ONE, HOPEFUL) == [FIRST, FIRST]
    assert offers_of(LOOSE_ONE, HOPEFUL, hopeless=True) == [NONE, NONE]
    assert offers_of(LOOSE_ONE, HOPEFUL, barred=True) == [NONE, NONE]


def test_surplus_members_are_tried_only_while_the_group_may_be_complete() -> None:
    surplus = view_gang("s", 1, LOOSE, pending=2, waiting=1)

    assert offers_of(surplus, LOOSE_ONE) == [FIRST, EACH]
    assert offers_of(surplus, more="x") == [NONE]


def test_who_would_be_refused_is_not_offered() -> None:
    assert offers_of(view_gang(need=3, pending=2)) == [NONE]
    assert offers_of(view_gang(need=None, pending=2)) == [NONE]


# All together


def test_a_gang_that_is_defined_anew_is_behind_the_others() -> None:
    tree = tree_with_app("n", vcore=4)
    for name in "gah":
        tree.enter(gang(name, 2))
    for name in "gah":
        # Both of a gang do not fit on one node, though each of them would.
        tree.enter(members(name, f"{name}x", vcore=2), members(name, f"{name}y", vcore=3))
    assert story(tree.settle()) == []

    more = AddNode("m", Resources({"vcore": 60}))
    lines = story(tree.settle(RemoveGang(full_gang_name("a")), gang("a", 2), more))
    tree.check()
    satisfied = [line for line in lines if line.startswith("gang_satisfied")]
    assert satisfied == [f"gang_satisfied {full_gang_name(name)}" for name in "gha"]


def empty_index() -> GangIndex:
    return ViewState().gang_index


def book_of(**lists: str) -> GangIndex:
    """Return a book of gangs of one-letter names, each with those that it names, in this order."""
    gang_index = empty_index()
    for creation, (name, groups) in enumerate(lists.items(), 1):
        gang_index.redefine(gang_index.touch(name), definition(groups), creation)
    gang_index.refresh()
    return gang_index


def definition(groups: str = "") -> GangDefinition:
    return GangDefinition(1, 1, groups=tuple(groups))


def names(gang_index: GangIndex, name: str) -> str:
    return "".join(gang.name for gang in gang_index.group_of(gang_index.gangs[name]).gangs)


def wait(gang_index: GangIndex, name: str) -> None:
    gang = gang_index.touch(name)
    hold = Hold(ViewApp(identity()), Allocation(ask(), "n", 1), NODE, 1)
    gang.waiting[1, "x"] = hold
    gang_index.waiting[name] = gang


def end_wait(gang_index: GangIndex, name: str) -> None:
    del gang_index.touch(name).waiting[1, "x"], gang_index.waiting[name]


# Groups


def test_a_group_is_in_the_order_of_creation() -> None:
    gang_index = book_of(c="a", b="a", a="", d="")

    assert names(gang_index, "a") == names(gang_index, "b") == names(gang_index, "c") == "cba"
    assert names(gang_index, "d") == "d"


def test_all_of_a_group_have_the_same_one() -> None:
    gang_index = book_of(a="b", b="")

    assert gang_index.group_of(gang_index.gangs["a"]) is gang_index.group_of(gang_index.gangs["b"])


def test_a_name_that_no_gang_has_connects() -> None:
    gang_index = book_of(a="x", b="x")

    group = gang_index.group_of(gang_index.gangs["a"])
    assert (group.names, names(gang_index, "b")) == (("a", "b", "x"), "ab")


def test_a_gang_that_comes_later_joins_its_group() -> None:
    gang_index = book_of(a="b")
    assert names(gang_index, "a") == "a"
    gang_index.touch("b")

    assert names(gang_index, "a") == "ab"


def test_a_definition_that_changes_makes_and_breaks_groups() -> None:
    gang_index = book_of(a="b", b="", c="")
    gang_index.redefine(gang_index.gangs["c"], definition("b"), 3)
    assert names(gang_index, "a") == "abc"
    gang_index.redefine(gang_index.gangs["a"], None, None)

    assert (names(gang_index, "a"), names(gang_index, "b")) == ("a", "bc")


def test_a_gang_that_is_created_anew_has_another_place_in_its_group() -> None:
    gang_index = book_of(a="b", b="")
    assert names(gang_index, "b") == "ab"
    gang_index.redefine(gang_index.gangs["a"], definition("b"), 9)

    assert names(gang_index, "b") == "ba"


def test_a_gang_that_has_ceased_to_exist_is_in_no_group() -> None:
    gang_index = book_of(a="b", b="", c="b")
    gang_index.remove(gang_index.gangs["a"])

    assert names(gang_index, "b") == "bc"
    assert "a" not in gang_index.gangs


def test_each_group_once_in_the_order_of_its_oldest_gang() -> None:
    gang_index = book_of(z="", a="y", b="", y="z")

    groups = gang_index.groups_of(gang_index.gangs)
    assert [group.names for group in groups] == [("a", "y", "z"), ("b",)]


def test_groups_in_which_something_has_changed() -> None:
    gang_index = book_of(a="b", b="", c="")
    assert gang_index.take_changed() == []
    gang_index.touch("b")

    (changed,) = gang_index.take_changed()
    assert changed.names == ("a", "b")


# Cycles


def test_cycles_are_valid_again_in_the_next_round() -> None:
    gang_index = book_of(a="b", b="", c="")
    gang_index.invalidate(gang_index.group_of(gang_index.gangs["a"]))
    assert {name: gang.cycle_valid for name, gang in gang_index.gangs.items()} == {
        "a": False,
        "b": False,
        "c": True,
    }
    gang_index.start_cycles()

    assert all(gang.cycle_valid for gang in gang_index.gangs.values())
    gang_index.check()


# Waits


def test_a_wait_lasts_as_long_as_every_batch_ends_with_one() -> None:
    gang_index = book_of(a="", b="")
    wait(gang_index, "a")
    assert gang_index.set_waits(5) == {"a"}
    wait(gang_index, "b")
    assert gang_index.set_waits(7) == {"b"}
    end_wait(gang_index, "a")
    wait(gang_index, "a")
    assert gang_index.set_waits(8) == set()
    end_wait(gang_index, "a")
    assert gang_index.set_waits(9) == {"a"}
    wait(gang_index, "a")
    gang_index.set_waits(9)

    assert (gang_index.gangs["a"].since_us, gang_index.gangs["b"].since_us) == (9, 7)


def test_what_is_over_when_the_batch_ends_was_no_wait() -> None:
    gang_index = book_of(a="")
    wait(gang_index, "a")
    end_wait(gang_index, "a")

    assert gang_index.set_waits(5) == set()
    assert gang_index.gangs["a"].since_us is None


NAMES = "abcde"
STEPS = st.tuples(
    st.sampled_from(NAMES),
    st.none() | st.lists(st.sampled_from(NAMES), max_size=2).map("".join),
    st.booleans(),
)


@given(st.lists(STEPS))
def test_groups_are_those_of_a_fresh_book(steps: list[tuple[str, str | None, bool]]) -> None:
    """Whatever was looked up, and whichever gangs came and went, in between."""
    gang_index, lists = empty_index(), dict[str, tuple[int, str]]()
    for creation, (name, groups, look) in enumerate(steps):
        if groups is None and name in lists:
            gang_index.redefine(gang_index.gangs[name], None, None)
            gang_index.remove(gang_index.gangs[name])
            del lists[name]
        elif groups is not None:
            known = lists.get(name, (creation, ""))[0]
            gang_index.redefine(gang_index.touch(name), definition(groups), known)
            lists[name] = (known, groups)
        if look:
            gang_index.refresh()
            gang_index.groups_of(gang_index.gangs)
        fresh = empty_index()
        for one, (created, named) in lists.items():
            fresh.redefine(fresh.touch(one), definition(named), created)
        assert groups_in(gang_index) == groups_in(fresh)


def groups_in(gang_index: GangIndex) -> list[tuple[tuple[str, ...], list[str]]]:
    groups = gang_index.groups_of(gang_index.gangs)
    return [(group.names, [gang.name for gang in group.gangs]) for group in groups]


class World:
    """Nodes of some millicores, and teams of members that each need two."""

    def __init__(self, *nodes: int) -> None:
        self.shapes = ShapeTable()
        self.nodes = NodeIndex(self.shapes)
        self.gang_shapes = GangShapes(self.shapes, self.nodes)
        for vcore in nodes:
            self.add(vcore)
        self.member = self.known(shape(vcore=2))

    def add(self, vcore: int) -> None:
        name = f"n{len(self.nodes.nodes)}"
        self.nodes.add(name, Resources({"vcore": vcore}), {}, schedulable=True)

    def known(self, of: Shape) -> int:
        """Return the bit of a shape of which an ask is pending."""
        bit = self.shapes.add(of)
        self.shapes.acquire(bit)
        self.nodes.shape_added(bit)
        all_at_once(self.nodes.place_shapes())
        return bit

    def fits(self, bit: int) -> bool:
        return bool(self.gang_shapes.fitting >> bit & 1)


def test_a_team_fits_if_all_of_its_members_do_on_however_many_nodes() -> None:
    world = World(5, 3, 1)
    three, four = world.gang_shapes.join(world.member, 3), world.gang_shapes.join(world.member, 4)

    assert (world.fits(three), world.fits(four)) == (True, False)
    # No single node is asked for it, however large.
    world.add(100)
    assert world.nodes.find(three) is None
    world.gang_shapes.refresh()
    assert world.fits(four)


def test_a_team_needs_the_headroom_for_all_of_its_members() -> None:
    world = World(9)
    bit = world.gang_shapes.join(world.member, 3)

    assert world.shapes.fitting_headroom({"vcore": 6}) >> bit & 1
    assert not world.shapes.fitting_headroom({"vcore": 5}) >> bit & 1


def test_a_team_of_one_is_its_member() -> None:
    world = World(9)

    assert world.gang_shapes.join(world.member, 1) == world.member
    assert not world.gang_shapes.knows(world.member)


def test_what_no_quantity_can_be_is_no_team() -> None:
    world = World(9)
    huge = world.known(shape(memory=MAX_QUANTITY // 2))

    assert world.gang_shapes.join(huge, 2) != VISIT_BIT
    assert world.gang_shapes.join(huge, 3) == VISIT_BIT


def test_a_team_lasts_as_long_as_it_is_in_use() -> None:
    world = World(9)
    bit = world.gang_shapes.join(world.member, 2)
    assert world.gang_shapes.join(world.member, 2) == bit
    world.gang_shapes.leave(bit)
    assert world.gang_shapes.knows(bit)
    world.gang_shapes.leave(bit)
    world.gang_shapes.leave(world.member)

    assert not world.gang_shapes.knows(bit)
    assert world.gang_shapes.fitting == 0


def test_a_team_that_was_found_not_to_fit_is_out_until_there_is_more_room() -> None:
    world = World(4)
    bit = world.gang_shapes.join(world.member, 2)
    world.nodes.take(world.nodes.nodes["n0"], Resources({"vcore": 1}), (1, "x"))
    assert world.fits(bit)
    assert not world.gang_shapes.has_room(bit)
    world.gang_shapes.exhaust(bit)
    world.gang_shapes.refresh()
    assert not world.fits(bit)

    world.add(2)
    world.gang_shapes.refresh()
    assert world.fits(bit)


def test_an_ask_of_the_same_name_is_another_one() -> None:
    site = Site(1)
    site.tell(job("x", 2))
    before = site.member("a/x").key
    site.tell(RemoveAsk("a", "x"), job("x", 2))

    assert site.member("a/x").key != before


def test_who_is_pending_may_hold_what_is_reserved() -> None:
    site = Site(1)
    site.tell(job("x", 1), job("y", 1))

    assert not site.member("a/x").is_pending()
    assert site.member("a/y").is_pending()


def test_the_pending_members_of_a_gang() -> None:
    site = Site(1)
    site.tell(gang_of(9), job("m", 2, gang="default/g", count=2))
    site.tell(job("n", 2, gang="default/g", app="b"), job("plain", 2))
    found = pending_members(site.state.gangs["default/g"])

    assert sorted(one.ask.name for one in found) == ["m-0", "m-1", "n"]
    assert {one.app.identity.name for one in found} == {"a", "b"}


X, Y = (
    Node("a", {}, {"rack": "x"}, schedulable=True),
    Node("b", {}, {"rack": "y"}, schedulable=True),
)
NOWHERE = Node("c", {}, {}, schedulable=True)


@pytest.mark.parametrize(
    ("topology", "counts", "home", "lets"),
    [
        (SAME, {}, None, (True, True, False)),
        (SAME, {"y": 1}, "y", (False, True, False)),
        (PREFER, {"y": 1}, "y", (True, True, True)),
        (SPREAD, {"y": 9}, "y", (True, True, False)),
        (AT_MOST_ONE, {"y": 1}, "y", (True, False, False)),
    ],
)
def test_where_a_member_may_be(
    topology: Topology, counts: dict[str, int], home: str | None, lets: tuple[bool, ...]
) -> None:
    # TOPOLOGY-12
    standing = TopologyState(topology, counts, home)
    assert tuple(map(standing.lets, (X, Y, NOWHERE))) == lets


@pytest.mark.parametrize(
    ("topology", "counts", "home", "chosen", "places"),
    [
        (SAME, {"x": 1, "y": 2}, "x", None, (0, None, None)),
        (SAME, {}, None, "y", (None, 0, None)),
        (SAME, {}, None, None, (None, None, None)),
        (PREFER, {"x": 1, "y": 2}, "x", None, (0, 0, 1)),
        (PREFER, {}, None, "y", (1, 0, 1)),
        (PREFER, {}, None, None, (1, 1, 1)),
        (SPREAD, {"x": 3, "y": 2}, "x", None, (3, 2, None)),
        (AT_MOST_ONE, {"x": 1}, "x", None, (None, 0, None)),
    ],
)
def test_how_early_a_node_is_taken(
    topology: Topology,
    counts: dict[str, int],
    home: str | None,
    chosen: str | None,
    places: tuple[int | None, ...],
) -> None:
    # TOPOLOGY-4, TOPOLOGY-5, TOPOLOGY-6
    standing = TopologyState(topology, counts, home)
    assert tuple(standing.place(node, chosen) for node in (X, Y, NOWHERE)) == places


def test_waiting_and_bound_members_count_where_they_are_in_a_domain() -> None:
    tree = cluster(racked("a", 1, "x"), racked("b", 1), racked("c", 1, "y"))
    tree.settle(gang_within(PREFER, 1), members("g", "m", 3, vcore=1))
    view = tree.machine.view
    standing = topology_state_of(view.gangs[full_gang_name("g")], view.apps)

    assert standing is not None
    assert (standing.counts, standing.home) == ({"x": 1, "y": 1}, "x")
    tree.settle(gang_within(attrs.evolve(PREFER, attribute="every"), 9, "h"))
    tree.settle(racked("d", 1, "z"), members("h", "n", 9, vcore=1))
    standing = topology_state_of(view.gangs[full_gang_name("h")], view.apps)
    assert standing is not None
    assert (standing.counts, standing.home) == ({"yes": 1}, "yes")


def test_a_gang_that_is_not_defined_has_no_topology() -> None:
    tree = cluster(racked("a", 1, "x"))
    tree.settle(members("g", "m", 1, vcore=1))

    assert topology_of(tree.machine.view.gangs[full_gang_name("g")]) is None
