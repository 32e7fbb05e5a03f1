"""Who could be taken: allocations by leaf and node, in the order of victims, and what is kept of
them while they come and go.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from muster_core.events import AddNode, Release, RemoveNode, UpdateNode
from muster_core.nodes.node import Node
from muster_core.owners.asks import Allocation
from muster_core.resources import Resources
from muster_core.structures.amounts import WeightedShare
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import all_at_once
from muster_core.view.eviction.search import VictimIndex
from muster_core.view.eviction.victims import (
    LeafOnNode,
    NodeMaxima,
    NodeVictims,
    NumberCounts,
    PrioritySums,
    Victim,
    victim_of,
)
from muster_core.view.gangs import ViewGang
from muster_core.view.tree.application import ViewApp
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import ask, identity, wish
from tests.core.view.eviction.contest import Contest, contest, names, share

APP = ViewApp(identity())
NODE = Node("n", {}, {}, schedulable=True)


def victim(
    name: str, priority: int = 0, number: int = 1, *, member: bool = False, **amounts: int
) -> Victim:
    held = Allocation(
        ask(name, priority, of=Shape(Resources(amounts or {"vcore": 1}))), "n", number
    )
    return Victim(APP, held, NODE, ViewGang("default/g") if member else None, bound=True)


def standing(*victims: Victim) -> LeafOnNode:
    leaf = LeafOnNode()
    for one in sorted(victims, key=lambda one: one.place):
        leaf.put(one)
    return leaf


def look(victim_index: VictimIndex) -> None:
    all_at_once(victim_index.refresh())
    all_at_once(victim_index.look())


def row_of(
    tree: Contest, victim_index: VictimIndex, leaf: str, *, by_priority: bool
) -> list[Victim]:
    row = all_at_once(victim_index.gather(tree.leaf(leaf), by_priority=by_priority))
    return list(row.in_order(by_priority=by_priority))


def members_of(tree: Contest, victim_index: VictimIndex, leaf: str) -> list[Victim]:
    return list(all_at_once(victim_index.gather(tree.leaf(leaf), by_priority=True)).members)


def asks_of(victims: list[Victim]) -> list[str]:
    return [one.allocation.ask.name for one in victims]


# One victim


def test_the_lowest_priority_has_the_first_place_then_the_newest() -> None:
    found = [victim("a", 1, 9), victim("b", 0, 2), victim("c", 0, 5), victim("d", -1, 1)]

    assert asks_of(sorted(found, key=lambda one: one.place)) == ["d", "c", "b", "a"]
    assert asks_of(sorted(found, key=lambda one: one.age)) == ["a", "c", "b", "d"]


def test_a_member_is_as_old_as_its_wait() -> None:
    held = Allocation(ask(), "n", number=9, assigned=2)

    assert Victim(APP, held, NODE, None, bound=True).place == (0, -2)


def test_a_victim_that_is_bound() -> None:
    tree = contest(share("b"), n=2)
    tree.tell(wish("b", "x"), wish("b", "y"))
    found = tree.victim("b/y")

    assert (found.app, found.node.name, found.gang) == (tree.app("b"), "n", None)
    assert found.allocation is tree.app("b").bound["y"][0]
    assert found.bound
    assert found.hold().bound


def test_a_victim_that_waits() -> None:
    tree = contest(share("b"), n=1)
    tree.tell(gang("g", 2, mode=LOOSE), members("g", "x", 2, app="b"))
    found = tree.victim("b/x-0")

    assert not found.bound
    assert found.gang is tree.state.gangs["default/g"]
    assert found.gang is not None
    hold = found.hold()
    kept = found.gang.waiting[found.app.identity.key, "x-0"]
    assert (hold.app, hold.allocation, hold.node) == (kept.app, kept.allocation, kept.node)
    assert (hold.number, hold.bound) == (kept.number, False)


def test_a_member_of_a_gang_that_has_timed_out_is_parked() -> None:
    tree = contest(share("b"), n=1)
    tree.tell(gang("g", 1), members("g", "x", app="b"))
    assert not tree.state.is_timed_out(tree.victim("b/x").allocation.ask)
    tree.tell(gang("h", 1), members("h", "y", app="b", timed_out=True))

    assert tree.state.is_timed_out(tree.app("b").parked["y"])


# Victims on one node


def test_what_stands_there_is_in_order() -> None:
    tree = standing(victim("a", 5, 1), victim("b", 0, 2), victim("c", 0, 3), victim("d", 9, 4))

    assert asks_of(tree.in_order(by_priority=True)) == ["c", "b", "a", "d"]
    assert asks_of(tree.in_order(by_priority=False)) == ["d", "c", "b", "a"]


def test_members_of_gangs_stand_by_themselves() -> None:
    tree = standing(victim("a", 1, member=True), victim("b"), victim("c", member=True))

    assert asks_of(tree.plain) == asks_of(tree.in_order(by_priority=False)) == ["b"]
    assert asks_of(tree.members) == ["c", "a"]


@pytest.mark.parametrize("member", [False, True])
def test_the_lowest_priority_of_plain_asks_and_members(member: bool) -> None:
    tree = standing(victim("a", 5), victim("b", 3, member=member), victim("c", 7, member=True))

    assert tree.lowest() == 3


def test_how_much_there_is_and_the_most_of_one() -> None:
    tree = standing(victim("a", vcore=3, memory=1), victim("b", member=True, vcore=2))

    assert tree.amounts == {"vcore": 5, "memory": 1}
    assert [tree.largest(name) for name in ("vcore", "memory", "gpu")] == [3, 1, 0]


# Victims on all nodes


def test_a_node_that_nobody_stands_on() -> None:
    tree = contest(share("b"), n=1)

    assert tree.victim_index().on(tree.state.nodes.nodes["n"]).by_leaf() == {}


def test_each_leaf_stands_for_itself() -> None:
    tree = contest(share("a"), share("b"), n=3)
    tree.tell(wish("a", "x"), wish("b", "y"), wish("b", "z", 1))
    there = tree.victim_index().on(tree.state.nodes.nodes["n"]).by_leaf()

    assert {key: asks_of(one.plain) for key, one in there.items()} == {
        tree.leaf("a").key: ["x"],
        tree.leaf("b").key: ["y", "z"],
    }


def test_those_of_a_leaf_on_all_nodes_in_one_order() -> None:
    tree = contest(share("b"), m=2, n=2)
    for name, priority, node in (("w", 1, "n"), ("x", 0, "m"), ("y", 1, "m"), ("z", 0, "n")):
        tree.tell(wish("b", name, priority, node=node))
    victim_index = tree.victim_index()

    assert asks_of(row_of(tree, victim_index, "b", by_priority=True)) == ["z", "x", "y", "w"]
    assert asks_of(row_of(tree, victim_index, "b", by_priority=False)) == ["z", "y", "x", "w"]


def test_members_of_a_leaf_on_all_nodes() -> None:
    tree = contest(share("a"), share("b"), m=1, n=3)
    tree.tell(gang("g", 2), members("g", "x", 2, app="b"), wish("b", "y"), wish("a", "z"))
    victim_index = tree.victim_index()

    assert set(asks_of(members_of(tree, victim_index, "b"))) == {"x-0", "x-1"}
    assert members_of(tree, victim_index, "a") == []


def test_only_nodes_that_have_changed_are_looked_at_again() -> None:
    tree = contest(share("b"), m=1, n=1)
    tree.tell(wish("b", "x", node="m"), wish("b", "y", node="n"))
    victim_index, nodes, key = VictimIndex(tree.state), tree.state.nodes.nodes, tree.leaf("b").key
    look(victim_index)
    before = [victim_index.on(nodes[name]).by_leaf()[key] for name in "mn"]
    tree.tell(Release("b", "y"), wish("b", "z", node="n"))
    look(victim_index)

    after = [victim_index.on(nodes[name]).by_leaf()[key] for name in "mn"]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False]
    assert asks_of(after[1].plain) == ["z"]


def test_a_member_that_waited_and_is_bound_now() -> None:
    tree = contest(share("b"), m=1)
    tree.tell(gang("g", 2, mode=LOOSE), members("g", "x", 2, app="b"))
    victim_index, key = VictimIndex(tree.state), tree.leaf("b").key
    node = tree.state.nodes.nodes["m"]
    look(victim_index)
    assert [one.bound for one in victim_index.on(node).by_leaf()[key].members] == [False]
    tree.tell(AddNode("n", Resources({"vcore": 1})))
    look(victim_index)

    assert [one.bound for one in victim_index.on(node).by_leaf()[key].members] == [True]


def test_if_changes_are_not_recorded_all_are_compared() -> None:
    tree = contest(share("b"), m=5)
    tree.tell(wish("b", "v"), wish("b", "w"), wish("b", "x"))
    victim_index, node = VictimIndex(tree.state), tree.state.nodes.nodes["m"]
    look(victim_index)
    kept = victim_index.on(node).held[tree.app("b").identity.key, "v"]
    tree.tell(Release("b", "w"), Release("b", "x"), wish("b", "x", 1), wish("b", "y"))
    assert node.changed
    node.changed = None
    look(victim_index)

    there = victim_index.on(node)
    assert {name: one.place[0] for (_, name), one in there.held.items()} == {
        "v": 0,
        "x": 1,
        "y": 0,
    }
    assert kept in there.plain
    victim_index.check()


def test_a_node_that_is_lost_is_forgotten() -> None:
    tree = contest(share("b"), n=1)
    tree.tell(wish("b"))
    victim_index, key = VictimIndex(tree.state), tree.leaf("b").key
    look(victim_index)
    assert victim_index.lowest_of(key) == 0
    tree.tell(RemoveNode("n"))
    look(victim_index)

    assert victim_index.lowest_of(key) is None
    assert row_of(tree, victim_index, "b", by_priority=True) == []


NODES = st.sampled_from("lmn")
LEAVES = st.sampled_from("ab")
PRIORITIES = st.integers(-1, 2)

Shown = Mapping[tuple[str, int], tuple[list[str], list[str], list[str], int]]


class Histories(RuleBasedStateMachine):
    """What is kept of the nodes beside a fresh look at every application."""

    room = 4

    def __init__(self) -> None:
        super().__init__()
        self.tree: Contest = contest(share("a"), share("b"), l=3, m=self.room)
        self.victim_index = VictimIndex(self.tree.state)
        self.numbers = 0

    @rule(app=LEAVES, priority=PRIORITIES, vcore=st.integers(1, 2), node=st.none() | NODES)
    def add(self, app: str, priority: int, vcore: int, node: str | None) -> None:
        self.numbers += 1
        event = wish(app, f"x{self.numbers}", priority, node=node, vcore=vcore)
        self.tree.settle(event)

    @rule(app=LEAVES, priority=PRIORITIES, need=st.integers(1, 3), count=st.integers(1, 3))
    def add_gang(self, app: str, priority: int, need: int, count: int) -> None:
        self.numbers += 1
        name = f"g{self.numbers}"
        event = members(name, name, count, app=app, priority=priority)
        self.tree.settle(gang(name, need, mode=LOOSE), event)

    @precondition(lambda self: any(app.bound for app in self.tree.state.apps.values()))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        apps = self.tree.state.apps.values()
        bound = [(app.identity.name, name) for app in apps for name in app.bound]
        self.tree.settle(Release(*data.draw(st.sampled_from(bound))))

    @rule(name=NODES, vcore=st.integers(0, 4))
    def change_node(self, name: str, vcore: int) -> None:
        """Add a node, change it, or take it away with everything on it."""
        capacity = Resources({"vcore": vcore})
        if name not in self.tree.state.nodes.nodes:
            self.tree.settle(AddNode(name, capacity))
        elif vcore:
            self.tree.settle(UpdateNode(name, capacity))
        else:
            self.tree.settle(RemoveNode(name))

    @rule()
    def check(self) -> None:
        state = self.tree.state
        look(self.victim_index)
        self.victim_index.check()
        everything = [
            victim_of(state, key, name)
            for key, app in state.apps.items()
            for name in (*app.bound, *app.waiting)
        ]
        assert self.shown() == self.fresh(everything)
        for leaf in "ab":
            key = self.tree.leaf(leaf).key
            on_leaf = [one for one in everything if one.app.identity.leaf == key]
            plain = sorted((one for one in on_leaf if one.gang is None), key=lambda one: one.place)
            found = tuple(row_of(self.tree, self.victim_index, leaf, by_priority=True))
            assert names(found) == names(tuple(plain))
            newest = tuple(row_of(self.tree, self.victim_index, leaf, by_priority=False))
            assert names(newest) == names(tuple(sorted(plain, key=lambda one: one.age)))
            assert {names((one,)) for one in members_of(self.tree, self.victim_index, leaf)} == {
                names((one,)) for one in on_leaf if one.gang is not None
            }
            lowest = min((one.place[0] for one in on_leaf), default=None)
            assert self.victim_index.lowest_of(key) == lowest
        amounts = [one.allocation.ask.resources["vcore"] for one in everything]
        assert self.victim_index.largest("vcore") == max(amounts, default=0)
        nodes = state.nodes.nodes.values()
        capacity = [node.capacity.get("vcore", 0) for node in nodes]
        assert self.victim_index.room.top("vcore") == max(0, 0, *capacity)
        used = [node.used.get("vcore", 0) for node in nodes]
        free = [most - there for most, there in zip(capacity, used, strict=True)]
        assert self.victim_index.free.top("vcore") == max(0, 0, *free)
        for node in nodes:
            self.check_ladder(node, [one for one in everything if one.node is node])

    def check_ladder(self, node: Node, there: list[Victim]) -> None:
        """Compare what a node could give with sums that are made anew."""
        for wanted in (*range(1, 8), *range(8, 64, 5)):
            sums = self.victim_index.on(node).sums()
            level = sums.level_for({"vcore": wanted})
            found = None
            if level is not None:
                found = (sums.priorities[level], sums.fewest({"vcore": wanted}, level))
            enough: list[tuple[int, int]] = []
            for priority in sorted({one.place[0] for one in there}):
                amounts = [
                    one.allocation.ask.resources["vcore"]
                    for one in there
                    if one.place[0] <= priority
                ]
                if sum(amounts) >= wanted:
                    enough.append((priority, -(-wanted // max(amounts))))
            assert found == (enough[0] if enough else None)

    def shown(self) -> Shown:
        return {
            (node.name, leaf): (
                asks_of(one.plain),
                asks_of(one.in_order(by_priority=False)),
                [f"{two.allocation.ask.name} {two.bound}" for two in one.members],
                one.amounts["vcore"],
            )
            for node in self.tree.state.nodes.in_order()
            for leaf, one in self.victim_index.on(node).by_leaf().items()
        }

    @staticmethod
    def fresh(everything: list[Victim]) -> Shown:
        groups: dict[tuple[str, int], list[Victim]] = {}
        for one in sorted(everything, key=lambda one: one.place):
            groups.setdefault((one.node.name, one.app.identity.leaf), []).append(one)
        return {
            key: (
                asks_of([one for one in there if one.gang is None]),
                asks_of(
                    sorted((one for one in there if one.gang is None), key=lambda one: one.age)
                ),
                [f"{one.allocation.ask.name} {one.bound}" for one in there if one.gang],
                sum(one.allocation.ask.resources["vcore"] for one in there),
            )
            for key, there in groups.items()
        }


class CrowdedHistories(Histories):
    """The same with so many victims on a node that few of them change at a time."""

    room = 60

    def __init__(self) -> None:
        super().__init__()
        for at in range(30):
            self.add("ab"[at % 2], at % 4 - 1, 1 + at % 3 // 2, "m")
        self.add_gang("a", 0, 2, 2)
        self.add_gang("b", 0, 3, 2)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=30, stateful_step_count=30)
TestCrowded = CrowdedHistories.TestCase
TestCrowded.settings = settings(max_examples=20, stateful_step_count=20)


def test_nodes_that_are_gone_are_forgotten() -> None:
    tree = contest(share("a"), m=1, n=1)
    tree.tell(wish("a", "x", node="m"), wish("a", "y", 5, node="n"))
    leaf, victim_index = tree.leaf("a"), VictimIndex(tree.state)
    look(victim_index)
    assert victim_index.lowest_of(leaf.key) == 0
    tree.tell(RemoveNode("m"))
    look(victim_index)

    assert victim_index.lowest_of(leaf.key) == 5


GANG = ViewGang("default/g")
APPS = [ViewApp(attrs.evolve(identity(key), leaf=key)) for key in (1, 2, 3)]
TYPES = ("vcore", "memory")

Kind = tuple[ViewApp, int, dict[str, int], bool]

KINDS = st.tuples(
    st.sampled_from(APPS),
    st.integers(-1, 2),
    st.dictionaries(st.sampled_from(TYPES), st.integers(1, 4)),
    st.booleans(),
)
CHANGES = st.tuples(
    st.lists(st.integers(0, 100), max_size=3),
    st.lists(KINDS, max_size=3),
    st.sets(st.sampled_from(["sums", "leaves", "newest", *TYPES])),
)


def victim_of_kind(kind: Kind, number: int) -> Victim:
    app, priority, amounts, member = kind
    held = Allocation(ask(f"x{number}", priority, of=Shape(Resources(amounts))), "n", number)
    return Victim(app, held, NODE, GANG if member else None, bound=True)


def read(on_node: NodeVictims, what: str) -> None:
    """Let a node compute something, which it then keeps."""
    if what == "sums":
        on_node.sums()
        return
    for one in on_node.by_leaf().values():
        if what == "newest":
            one.in_order(by_priority=False)
        elif what in TYPES:
            one.largest(what)


@given(st.lists(KINDS, max_size=10) | st.lists(KINDS, min_size=50), st.lists(CHANGES, max_size=6))
def test_what_is_kept_is_what_would_be_made_anew(
    kinds: list[Kind], changes: list[tuple[list[int], list[Kind], set[str]]]
) -> None:
    on_node, there = NodeVictims(), [victim_of_kind(kind, at) for at, kind in enumerate(kinds)]
    on_node.change((), there)
    numbers = len(there)
    for leaving, coming, wanted in changes:
        for what in sorted(wanted):
            read(on_node, what)
        gone = [there.pop(at % len(there)) for at in leaving if there]
        come = [victim_of_kind(kind, numbers + at) for at, kind in enumerate(coming)]
        numbers += len(come)
        there += come
        on_node.change(gone, come)

        assert set(on_node.held.values()) == set(there)
        assert on_node.lowest() == min((one.place[0] for one in there), default=None)
        on_node.check()


def test_a_few_changes_leave_what_is_kept_in_place() -> None:
    on_node = NodeVictims()
    there = [victim_of_kind((APPS[at % 2], at % 3, {"vcore": at}, False), at) for at in range(24)]
    on_node.change((), there)
    sums, leaves = on_node.sums(), on_node.by_leaf()
    one = leaves[1]
    assert (sums.level_for({"vcore": 92}), one.largest("vcore")) == (1, 22)
    on_node.change([there[22]], [victim_of_kind((APPS[2], 0, {"memory": 1}, False), 24)])

    assert on_node.sums() is sums
    assert on_node.by_leaf() is leaves
    assert (leaves[1] is one, one.largest("vcore"), one.amounts) == (True, 20, {"vcore": 110})
    assert leaves[3].amounts == {"memory": 1}
    assert sums.level_for({"vcore": 92, "memory": 1}) == 1
    on_node.change(
        [on_node.held[3, "x24"]], [victim_of_kind((APPS[0], 0, {"vcore": 40}, True), 25)]
    )

    assert leaves.keys() == {1, 2}
    assert (one.largest("vcore"), on_node.members) == (40, one.members)
    assert sums.level_for({"memory": 1}) is None


def test_if_many_change_everything_is_made_anew() -> None:
    on_node = NodeVictims()
    there = [victim_of_kind((APPS[0], at, {"vcore": 1}, at > 2), at) for at in range(4)]
    on_node.change((), there)
    sums = on_node.sums()
    on_node.change(there[:1], ())

    assert on_node.sums() is not sums
    assert (on_node.plain, on_node.members) == (there[1:3], there[3:])
    on_node.check()


def test_the_last_of_a_priority_takes_its_priority_away() -> None:
    there = [victim_of_kind((APPS[0], at, {"vcore": 2}, False), at) for at in range(3)]
    sums = PrioritySums(there)
    assert sums.priorities == [0, 1, 2]
    sums.change(there[:1], ())

    assert sums.priorities == [1, 2]
    assert (sums.level_for({"vcore": 3}), sums.fewest({"vcore": 3}, 1)) == (1, 2)


WEIGHED_NODES = [
    Node(name, {}, {}, schedulable=True, weighing=WeightedShare({}, ())) for name in "lmn"
]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 5) | st.none()), max_size=400))
def test_the_peak_is_the_most_of_all_nodes(changes: list[tuple[int, int | None]]) -> None:
    peaks = NodeMaxima()
    now: dict[int, int] = {}
    for number, amount in changes:
        if amount is None:
            peaks.forget(WEIGHED_NODES[number])
            now.pop(number, None)
        else:
            peaks.set(WEIGHED_NODES[number], "vcore", amount)
            now[number] = amount

        assert peaks.top("vcore") == max(0, *now.values(), 0)
    assert peaks.top("memory") == 0


def test_types_do_not_mix_however_often_they_change() -> None:
    peaks = NodeMaxima()
    for number in range(500):
        for node in WEIGHED_NODES:
            peaks.set(node, "vcore", number % 3)
            peaks.set(node, "memory", number % 2)

        assert (peaks.top("vcore"), peaks.top("memory")) == (number % 3, number % 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_the_ends_are_those_of_what_is_there(changes: list[tuple[bool, int]]) -> None:
    counts = NumberCounts()
    now: list[int] = []
    for is_added, number in changes:
        if is_added:
            counts.add(number)
            now.append(number)
        elif number in now:
            counts.remove(number)
            now.remove(number)

        assert bool(counts) is bool(now)
        assert counts.total == sum(now)
        if now:
            assert counts.ends() == (min(now), max(now))
