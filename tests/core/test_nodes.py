"""The nodes in their order, and what fits where."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.config.model import NodeSortPolicy
from muster_core.nodes import Holder, Node, NodeIndex
from muster_core.ranking import BLOCK_SIZE
from muster_core.resources import Resources
from muster_core.shapes import KEPT_IDLE, Shape, ShapeTable
from muster_core.steps import all_at_once
from tests.core.building import shape

EVEN = (("memory", 1.0), ("vcore", 1.0))
ONE = Resources({"vcore": 1})


class Nodes:
    """An index with its table of shapes, told of shapes as the view tells it."""

    def __init__(self) -> None:
        self.shapes = ShapeTable()
        self.index = NodeIndex(self.shapes)

    def add(
        self,
        *names: str,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool = True,
        **capacity: int,
    ) -> None:
        for name in names:
            self.index.add(name, Resources(capacity), attributes or {}, schedulable=schedulable)

    def update(
        self,
        name: str,
        *,
        attributes: Mapping[str, str] | None = None,
        schedulable: bool | None = None,
        **capacity: int,
    ) -> None:
        self.index.update(
            name, Resources(capacity) if capacity else None, attributes, schedulable=schedulable
        )

    def find(self, wanted: Shape) -> str | None:
        bit = self.shapes.find(wanted)
        if bit is None:
            bit = self.shapes.add(wanted)
            self.index.shape_added(bit)
            all_at_once(self.index.place_shapes())
        node = self.index.find(bit)
        return None if node is None else node.name

    def take(self, name: str, holder: Holder = (1, "x"), **amounts: int) -> Node:
        node = self.index.nodes[name]
        self.index.take(node, Resources(amounts), holder)
        return node

    def order(self) -> list[str]:
        self.index.check()
        return [node.name for node in self.index.in_order()]


def test_without_nodes_nothing_is_found() -> None:
    assert Nodes().find(shape(vcore=1)) is None


def test_equal_scores_are_told_apart_by_code_point() -> None:
    nodes = Nodes()
    nodes.add("n10", "n2", "é", "Z", "a", vcore=4)

    assert nodes.order() == ["Z", "a", "n10", "n2", "é"]
    assert nodes.find(shape(vcore=1)) == "Z"


def test_fair_takes_the_least_utilised() -> None:
    nodes = Nodes()
    nodes.add("a", "b", "c", vcore=4)
    nodes.take("a", vcore=2)
    nodes.take("b", vcore=1)

    assert nodes.order() == ["c", "b", "a"]


def test_binpacking_takes_the_most_utilised() -> None:
    nodes = Nodes()
    nodes.add("a", "b", "c", vcore=4)
    nodes.take("b", vcore=3)
    nodes.index.configure(NodeSortPolicy.BINPACKING, EVEN)

    assert nodes.order() == ["b", "a", "c"]
    assert nodes.find(shape(vcore=2)) == "a"


def test_types_that_a_node_lacks_are_not_in_its_average() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4)
    nodes.add("b", vcore=4, memory=4)
    nodes.take("a", vcore=1)
    nodes.take("b", vcore=1)

    assert nodes.order() == ["b", "a"]


def test_weights_make_the_order() -> None:
    nodes = Nodes()
    nodes.add("a", "b", vcore=4, memory=4, gpu=4)
    nodes.take("a", vcore=2)
    nodes.take("b", memory=1, gpu=4)
    assert nodes.order() == ["b", "a"]

    nodes.index.configure(NodeSortPolicy.FAIR, (("gpu", 1.0),))
    assert nodes.order() == ["a", "b"]


def test_with_weights_of_zero_only_the_names_count() -> None:
    nodes = Nodes()
    nodes.add("a", "b", vcore=4)
    nodes.take("a", vcore=4)
    nodes.index.configure(NodeSortPolicy.FAIR, (("memory", 0.0), ("vcore", 0.0)))

    assert nodes.order() == ["a", "b"]
    assert nodes.find(shape(vcore=1)) == "b"


def test_a_node_without_capacity() -> None:
    nodes = Nodes()
    nodes.add("a")

    assert nodes.order() == ["a"]
    assert nodes.find(shape(vcore=1)) is None


def test_the_first_that_fits_is_taken() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=1)
    nodes.add("b", vcore=2, gpu=1)
    nodes.add("c", vcore=4)

    assert nodes.find(shape(vcore=1)) == "a"
    assert nodes.find(shape(vcore=2)) == "b"
    assert nodes.find(shape(vcore=3)) == "c"
    assert nodes.find(shape(vcore=1, gpu=2)) is None


def test_selector_and_required_node() -> None:
    nodes = Nodes()
    nodes.add("a", "b", vcore=4)
    nodes.add("c", vcore=4, attributes={"zone": "x"})

    assert nodes.find(shape("b", vcore=1)) == "b"
    assert nodes.find(shape(selector=[("zone", "x")], vcore=1)) == "c"
    assert nodes.find(shape("b", [("zone", "x")], vcore=1)) is None


def test_new_attributes_change_what_matches() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4, attributes={"zone": "x"})
    wanted = shape(selector=[("zone", "x")], vcore=1)
    assert nodes.find(wanted) == "a"

    nodes.update("a", attributes={"zone": "y"})
    assert nodes.find(wanted) is None
    nodes.index.check()


def test_an_unschedulable_node_takes_nothing_but_counts_in_the_total() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4, schedulable=False)
    assert nodes.find(shape(vcore=1)) is None
    assert nodes.index.total == {"vcore": 4}

    nodes.update("a", schedulable=True)
    assert nodes.find(shape(vcore=1)) == "a"


def test_capacity_below_use_evicts_nobody_and_takes_nothing() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4, memory=4)
    nodes.take("a", vcore=3)
    nodes.update("a", vcore=2, memory=4)

    assert nodes.index.nodes["a"].used == {"vcore": 3}
    assert nodes.find(shape(vcore=1)) is None
    assert nodes.find(shape(memory=4)) == "a"
    assert nodes.index.total == {"vcore": 2, "memory": 4}


def test_a_type_that_goes_while_in_use() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4, gpu=1)
    node = nodes.take("a", gpu=1)
    nodes.update("a", vcore=4)
    assert nodes.index.total == {"vcore": 4}

    nodes.index.give_back(node, Resources({"gpu": 1}), (1, "x"))
    assert nodes.find(shape(gpu=1)) is None
    assert nodes.order() == ["a"]


def test_an_update_of_nothing_changes_nothing() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4, attributes={"zone": "x"})
    before = attrs.asdict(nodes.index.nodes["a"])
    nodes.update("a")

    assert attrs.asdict(nodes.index.nodes["a"]) == before | {"version": 2}


def test_who_is_on_a_node_is_known() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4)
    node = nodes.take("a", (7, "x"), vcore=1)
    nodes.take("a", (7, "y"), vcore=1)
    nodes.take("a", (8, "x"), vcore=1)
    assert list(node.held) == [(7, "x"), (7, "y"), (8, "x")]

    nodes.index.give_back(node, ONE, (7, "x"))
    nodes.index.give_back(node, ONE, (7, "y"))
    assert (list(node.held), node.used) == ([(8, "x")], {"vcore": 1})


def test_a_change_gives_a_node_another_version() -> None:
    nodes = Nodes()
    nodes.add("a", "b", vcore=4)
    a, b = nodes.index.nodes["a"], nodes.index.nodes["b"]
    other, versions = b.version, [a.version]
    nodes.take("a", vcore=1)
    versions.append(a.version)
    nodes.update("a", schedulable=False)
    versions.append(a.version)
    nodes.index.touch(a)
    versions.append(a.version)

    assert len(set(versions)) == 4
    assert b.version == other


def test_which_nodes_have_changed_is_known_until_somebody_takes_note() -> None:
    nodes = Nodes()
    nodes.add("a", "b", "c", vcore=4)
    assert [node.name for node in nodes.index.touched] == ["a", "b", "c"]
    nodes.index.touched.clear()
    node = nodes.take("b", vcore=1)
    assert [node.name for node in nodes.index.touched] == ["b"]
    nodes.index.touched.clear()
    nodes.index.give_back(node, ONE, (1, "x"))
    lost = nodes.index.remove("c")
    assert list(nodes.index.touched) == [node]
    nodes.index.touched.clear()
    nodes.index.put_back(lost)

    assert list(nodes.index.touched) == [lost]


def test_every_change_is_counted() -> None:
    nodes = Nodes()
    counted = [nodes.index.changes]

    def count() -> None:
        counted.append(nodes.index.changes)

    nodes.add("a", vcore=4)
    count()
    node = nodes.take("a", vcore=1)
    count()
    nodes.index.give_back(node, ONE, (1, "x"))
    count()
    nodes.update("a", vcore=5)
    count()
    nodes.index.configure(NodeSortPolicy.BINPACKING, EVEN)
    count()
    nodes.index.put_back(nodes.index.remove("a"))
    count()

    assert counted == sorted(set(counted))
    nodes.find(shape(vcore=1))
    assert nodes.index.changes == counted[-1]


def test_what_was_on_a_lost_node_can_be_given_back() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4)
    nodes.take("a", vcore=1)
    lost = nodes.index.remove("a")
    nodes.index.give_back(lost, ONE, (1, "x"))

    assert not lost.present
    assert (lost.used, nodes.index.total, nodes.order()) == ({}, {}, [])


def test_a_node_that_is_put_back_is_what_it_was() -> None:
    nodes = Nodes()
    nodes.add("n", attributes={"zone": "x"}, vcore=3)
    nodes.take("n", vcore=2)
    assert nodes.find(shape(selector=[("zone", "x")], vcore=1)) == "n"
    lost = nodes.index.remove("n")
    assert nodes.find(shape(vcore=1)) is None
    nodes.index.put_back(lost)
    nodes.index.check()

    assert nodes.find(shape(selector=[("zone", "x")], vcore=1)) == "n"
    assert (lost.present, lost.used, nodes.index.total) == (True, {"vcore": 2}, {"vcore": 3})


def test_a_change_that_is_undone() -> None:
    nodes = Nodes()
    nodes.add("n", attributes={"zone": "x"}, vcore=3)
    undo = nodes.index.save("n")
    nodes.update("n", attributes={}, schedulable=False, vcore=1)
    assert nodes.find(shape(vcore=1)) is None
    undo()
    nodes.index.check()

    assert nodes.find(shape(selector=[("zone", "x")], vcore=3)) == "n"
    assert nodes.index.total == {"vcore": 3}


def test_room_is_counted_anew_for_a_bit_that_has_another_shape() -> None:
    nodes = Nodes()
    nodes.add("n", vcore=8)
    nodes.find(shape(vcore=1))
    bit = nodes.shapes.find(shape(vcore=1))
    assert bit is not None
    assert nodes.index.room_for(bit, 99) == 8
    for amount in range(2 * KEPT_IDLE):
        nodes.find(shape(vcore=100 + amount))
    forgotten = nodes.shapes.forget_idle()
    nodes.index.shapes_forgotten(forgotten)
    assert bit in forgotten
    for amount in forgotten[:0:-1]:  # What was given back last is used first.
        nodes.find(shape(gpu=amount))
    assert nodes.find(shape(vcore=4)) == "n"

    assert nodes.shapes.find(shape(vcore=4)) == bit
    assert nodes.index.room_for(bit, 99) == 2


def test_a_node_of_the_same_name_is_another_one() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=4)
    nodes.take("a", vcore=4)
    lost = nodes.index.remove("a")
    nodes.add("a", vcore=4)
    nodes.index.give_back(lost, Resources({"vcore": 4}), (1, "x"))

    assert nodes.index.nodes["a"].used == {}
    assert nodes.find(shape(vcore=4)) == "a"


def test_a_shape_that_is_forgotten_leaves_no_trace() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=1000)
    for amount in range(2 * KEPT_IDLE):
        nodes.find(shape(vcore=amount + 1))
    forgotten = nodes.shapes.forget_idle()
    nodes.index.shapes_forgotten(forgotten)
    nodes.index.check()

    assert nodes.find(shape(gpu=1)) is None
    assert nodes.shapes.find(shape(gpu=1)) == forgotten[-1]


def test_hundreds_of_nodes_stay_in_order() -> None:
    nodes = Nodes()
    names = [f"n{number:03}" for number in range(5 * BLOCK_SIZE)]
    nodes.add(*reversed(names), vcore=10)
    for number, name in enumerate(names):
        if number % 11:
            nodes.take(name, vcore=number % 11)

    expected = sorted(names, key=lambda name: (int(name[1:]) % 11, name))
    assert nodes.order() == expected


def test_hundreds_of_nodes_fill_up_and_empty_again() -> None:
    nodes = Nodes()
    nodes.add(*(f"n{number:03}" for number in range(3 * BLOCK_SIZE)), vcore=2)
    found: list[str] = []
    while (name := nodes.find(shape(vcore=2))) is not None:
        found.append(name)
        nodes.take(name, vcore=2)
    assert found == sorted(nodes.index.nodes)

    nodes.index.give_back(nodes.index.nodes["n100"], Resources({"vcore": 2}), (1, "x"))
    assert nodes.find(shape(vcore=2)) == "n100"
    for name in found:
        nodes.index.remove(name)
    assert nodes.order() == []


def test_full_nodes_at_the_front_are_passed_over() -> None:
    nodes = Nodes()
    nodes.add(*(f"n{number:03}" for number in range(4 * BLOCK_SIZE)), vcore=1, gpu=1)
    nodes.index.configure(NodeSortPolicy.BINPACKING, EVEN)
    found: list[str] = []
    while (name := nodes.find(shape(vcore=1))) is not None:
        found.append(name)
        nodes.take(name, vcore=1)
        assert nodes.find(shape(gpu=1)) == "n000"
    nodes.index.check()

    assert found == sorted(nodes.index.nodes)


@attrs.define
class PlainNode:
    capacity: dict[str, int]
    attributes: dict[str, str]
    schedulable: bool
    used: dict[str, int] = attrs.field(factory=dict[str, int])

    def fits(self, name: str, wanted: Shape) -> bool:
        return (
            self.schedulable
            and wanted.matches(name, self.attributes)
            and all(
                self.used.get(kind, 0) + amount <= self.capacity.get(kind, 0)
                for kind, amount in wanted.resources.items()
            )
        )

    def room(self, name: str, wanted: Shape) -> int:
        if not self.fits(name, wanted):
            return 0
        return min(
            (self.capacity[kind] - self.used.get(kind, 0)) // amount
            for kind, amount in wanted.resources.items()
        )

    def score(self) -> float:
        kinds = [kind for kind in ("memory", "vcore") if self.capacity.get(kind)]
        parts = [self.used.get(kind, 0) / self.capacity[kind] for kind in kinds]
        return sum(parts) / len(parts) if parts else 0.0


NAMES = st.integers(0, 150).map(lambda number: f"n{number}")
CAPACITIES = st.fixed_dictionaries(
    {}, optional={"vcore": st.integers(1, 4), "memory": st.integers(1, 4), "gpu": st.just(1)}
)
SHAPES = (
    shape(vcore=1),
    shape(vcore=3),
    shape(memory=2),
    shape(vcore=1, gpu=1),
    shape("n1", vcore=1),
    shape(selector=[("zone", "x")], vcore=1),
)
WANTED = st.sampled_from(SHAPES)
ATTRIBUTES = st.sampled_from([{}, {"zone": "x"}, {"zone": "y"}])


class Indexes(RuleBasedStateMachine):
    """An index beside a plain list of nodes that is sorted for each search."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = Nodes()
        self.plain: dict[str, PlainNode] = {}
        self.taken: list[tuple[Node, PlainNode, Shape, Holder]] = []
        self.sign = 1.0
        self.asks = 0
        self.rooms: dict[Shape, int] = {}
        self.grown = -1

    def find(self, wanted: Shape) -> str | None:
        fitting = [name for name, node in self.plain.items() if node.fits(name, wanted)]
        return min(fitting, key=self.rank, default=None)

    def rank(self, name: str) -> tuple[float, str]:
        return (self.sign * self.plain[name].score(), name)

    @rule(name=NAMES, capacity=CAPACITIES, attributes=ATTRIBUTES, schedulable=st.booleans())
    def add(
        self,
        name: str,
        capacity: dict[str, int],
        attributes: dict[str, str],
        schedulable: bool,
    ) -> None:
        if name not in self.plain:
            self.nodes.add(name, attributes=attributes, schedulable=schedulable, **capacity)
            self.plain[name] = PlainNode(capacity, attributes, schedulable)

    @rule(first=st.integers(0, 60), vcore=st.integers(1, 3))
    def add_many(self, first: int, vcore: int) -> None:
        for number in range(first, first + BLOCK_SIZE):
            if f"n{number}" not in self.plain:
                self.nodes.add(f"n{number}", vcore=vcore)
                self.plain[f"n{number}"] = PlainNode({"vcore": vcore}, {}, schedulable=True)

    @precondition(lambda self: self.plain)
    @rule(
        data=st.data(),
        capacity=st.none() | CAPACITIES,
        attributes=st.none() | ATTRIBUTES,
        schedulable=st.none() | st.booleans(),
    )
    def update(
        self,
        data: st.DataObject,
        capacity: dict[str, int] | None,
        attributes: dict[str, str] | None,
        schedulable: bool | None,
    ) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain)))
        node = self.plain[name]
        self.nodes.index.update(
            name,
            None if capacity is None else Resources(capacity),
            attributes,
            schedulable=schedulable,
        )
        node.capacity = node.capacity if capacity is None else capacity
        node.attributes = node.attributes if attributes is None else attributes
        node.schedulable = node.schedulable if schedulable is None else schedulable

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain)))
        self.nodes.index.remove(name)
        del self.plain[name]

    @precondition(lambda self: self.plain)
    @rule(data=st.data(), capacity=CAPACITIES, gone=st.booleans())
    def think_better_of_it(self, data: st.DataObject, capacity: dict[str, int], gone: bool) -> None:
        """Change a node or take it out, and undo that."""
        index = self.nodes.index
        name = data.draw(st.sampled_from(sorted(self.plain)))
        if gone:
            index.put_back(index.remove(name))
        else:
            undo = index.save(name)
            index.update(name, Resources(capacity), {"zone": "other"}, schedulable=False)
            undo()

    @rule(wanted=WANTED, enough=st.integers(1, 9))
    def count_room(self, wanted: Shape, enough: int) -> None:
        self.nodes.find(wanted)  # It is in the table then.
        bit = self.nodes.shapes.find(wanted)
        assert bit is not None
        room = sum(node.room(name, wanted) for name, node in self.plain.items())
        count = self.nodes.index.room_for(bit, enough)
        assert count == room or enough <= count <= room

    @rule(wanted=WANTED, times=st.integers(1, 20))
    def take(self, wanted: Shape, times: int) -> None:
        for _ in range(times):
            name = self.nodes.find(wanted)
            assert name == self.find(wanted)
            if name is None:
                return
            self.asks += 1
            holder = (self.asks % 3, f"ask-{self.asks}")
            node = self.nodes.take(name, holder, **wanted.resources)
            plain = self.plain[name]
            for kind, amount in wanted.resources.items():
                plain.used[kind] = plain.used.get(kind, 0) + amount
            self.taken.append((node, plain, wanted, holder))

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.taken) - 1))
        node, plain, wanted, holder = self.taken.pop(number)
        self.nodes.index.give_back(node, wanted.resources, holder)
        for kind, amount in wanted.resources.items():
            plain.used[kind] -= amount

    @rule(policy=st.sampled_from(NodeSortPolicy))
    def configure(self, policy: NodeSortPolicy) -> None:
        self.sign = 1.0 if policy is NodeSortPolicy.FAIR else -1.0
        self.nodes.index.configure(policy, EVEN)

    @invariant()
    def in_order(self) -> None:
        self.nodes.index.check()
        names = [node.name for node in self.nodes.index.in_order()]
        assert names == sorted(self.plain, key=self.rank)

    @invariant()
    def more_room_is_counted(self) -> None:
        """Whenever there is more room for anything, that has been taken note of."""
        rooms = {
            wanted: sum(node.room(name, wanted) for name, node in self.plain.items())
            for wanted in SHAPES
        }
        grown = self.nodes.index.grown
        if grown == self.grown:
            assert all(rooms[wanted] <= self.rooms[wanted] for wanted in SHAPES)
        self.rooms, self.grown = rooms, grown


Indexes.TestCase.settings = settings(max_examples=25, stateful_step_count=25)
TestIndexes = Indexes.TestCase
