"""The nodes in their order, and what fits where; domains, and searches by ask."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, strategies as st

from muster_core.config.model import NodeSortPolicy
from muster_core.nodes.domains import Domains
from muster_core.nodes.node_index import NodeIndex
from muster_core.resources import Resources
from muster_core.structures.ranking import BLOCK_SIZE
from muster_core.structures.shapes import KEPT_IDLE, Shape, ShapeTable
from muster_core.structures.steps import SIZE
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock, with_needs
from tests.core.building import Nodes, shape

EVEN = (("memory", 1.0), ("vcore", 1.0))
ONE = Resources({"vcore": 1})


def test_without_nodes_nothing_is_found() -> None:
    assert Nodes().find(shape(vcore=1)) is None


def test_nodes_with_equal_scores_are_ordered_by_code_point() -> None:
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
    node = nodes.index.nodes["a"]
    before = (node.capacity, node.attributes, node.used, node.matching, node.mask, node.rank)
    nodes.update("a")

    assert node.version == 2
    after = (node.capacity, node.attributes, node.used, node.matching, node.mask, node.rank)
    assert (after, node.schedulable) == (before, True)


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


def test_changed_nodes_are_known_until_they_are_taken() -> None:
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


def test_which_allocations_have_changed_is_known_to_who_asks() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=100)
    node = nodes.take("a", vcore=1)
    assert node.changed is None
    node.changed = {}
    nodes.update("a", schedulable=False)
    assert node.changed == {}
    nodes.index.take(node, ONE, (2, "x"))
    nodes.index.give_back(node, ONE, (2, "x"))
    nodes.index.take(node, ONE, (2, "y"))
    nodes.index.touch_allocation(node, (1, "x"))

    assert node.changed == dict.fromkeys([(2, "x"), (2, "y"), (1, "x")])
    assert nodes.index.touched == {node: None}


def test_changes_of_allocations_do_not_pile_up_if_nobody_reads_them() -> None:
    nodes = Nodes()
    nodes.add("a", vcore=1)
    node = nodes.index.nodes["a"]
    node.changed = {}
    for number in range(SIZE + 1):
        assert node.changed is not None
        nodes.index.take(node, ONE, (1, f"{number}"))
        nodes.index.give_back(node, ONE, (1, f"{number}"))

    assert node.changed is None


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


def test_a_kept_node_is_for_those_that_require_it() -> None:
    nodes = Nodes()
    nodes.add("m", "n", vcore=2)
    assert nodes.find(shape(vcore=1)) == "m"
    nodes.index.keep("m", kept=True)

    assert nodes.find(shape(vcore=1)) == "n"
    assert nodes.find(shape(vcore=2)) == "n"
    assert nodes.find(shape("m", vcore=1)) == "m"
    nodes.index.keep("m", kept=False)
    assert nodes.find(shape(vcore=2)) == "m"


def test_a_node_is_kept_before_it_comes_and_when_it_comes_back() -> None:
    nodes = Nodes()
    nodes.index.keep("n", kept=True)
    nodes.add("n", vcore=2)
    assert nodes.find(shape(vcore=1)) is None
    nodes.index.remove("n")
    nodes.add("n", vcore=2)
    assert nodes.find(shape(vcore=1)) is None
    nodes.index.keep("n", kept=False)

    assert nodes.find(shape(vcore=1)) == "n"


def test_there_is_no_room_for_members_on_a_kept_node() -> None:
    nodes = Nodes()
    nodes.add("m", "n", vcore=2)
    nodes.find(shape(vcore=1))
    nodes.index.keep("m", kept=True)

    assert nodes.index.room_for(nodes.shapes.find(shape(vcore=1)) or 0, 9) == 2
    assert nodes.index.more_room(nodes.index.nodes["m"], shape(vcore=1), {"vcore": 5}) == 0


ONE_SHAPE = shape(vcore=1)
TWO = shape(vcore=2, selector=(("disk", "ssd"),))


def racks() -> Nodes:
    made = Nodes()
    made.add("a", vcore=4, attributes={"rack": "x"})
    made.add("b", vcore=4, attributes={"rack": "y", "disk": "ssd"})
    made.add("c", vcore=8, attributes={"rack": "y"}, schedulable=False)
    made.add("d", vcore=9)
    return made


def test_domains_are_ordered_like_nodes_with_the_sums_of_those_that_are_schedulable() -> None:
    # TOPOLOGY-10
    made = racks()
    domains = Domains(made.index)
    assert domains.in_order("rack") == ("x", "y")
    made.take("a", vcore=1)
    assert domains.in_order("rack") == ("y", "x")
    made.index.configure(NodeSortPolicy.BINPACKING, (("vcore", 1.0),))
    assert domains.in_order("rack") == ("x", "y")
    assert domains.in_order("zone") == ()


def test_the_order_that_domains_would_have_if_more_or_less_were_used() -> None:
    # TOPOLOGY-10, BACKFILL-19
    made = racks()
    made.take("a", vcore=2)
    domains = Domains(made.index)
    assert domains.in_order("rack") == ("y", "x")

    assert domains.in_order("rack", {"a": {"vcore": -2000}}) == ("x", "y")
    assert domains.in_order("rack", {"b": {"vcore": 3000}, "gone": {"vcore": 1}}) == ("x", "y")
    # What is closed, or in no domain, does not count.
    assert domains.in_order("rack", {"c": {"vcore": 8000}, "d": {"vcore": 9000}}) == ("y", "x")
    assert domains.in_order("rack") == ("y", "x")


def test_room_counts_what_matches_and_is_schedulable() -> None:
    made = racks()
    domains = Domains(made.index)
    assert domains.rooms("rack", ONE_SHAPE) == {"x": 4, "y": 4}
    assert domains.rooms("rack", TWO) == {"y": 2}
    made.index.keep("a", kept=True)
    assert domains.rooms("rack", ONE_SHAPE).get("x", 0) == 0


_CHANGES: tuple[Callable[[Nodes, str, int], object], ...] = (
    lambda made, name, number: made.take(name, (number, name), vcore=1),
    lambda made, name, number: made.update(name, vcore=number + 1),
    lambda made, name, number: made.update(name, attributes={"rack": "xyz"[number % 3]}),
    lambda made, name, number: made.update(name, attributes={}),
    lambda made, name, number: made.update(name, schedulable=number % 2 == 0),
    lambda made, name, number: made.index.remove(name),
    lambda made, name, number: made.add(f"n{number}", vcore=3, attributes={"rack": "z"}),
)


@given(st.lists(st.tuples(st.sampled_from(_CHANGES), st.integers(0, 9), st.booleans()), max_size=9))
def test_what_is_kept_equals_what_is_found_anew(
    changes: list[tuple[Callable[[Nodes, str, int], object], int, bool]],
) -> None:
    made = racks()
    kept = Domains(made.index)
    for change, number, reads in changes:
        names = sorted(made.index.nodes)
        if names and f"n{number}" not in names:
            change(made, names[number % len(names)], number)
        if reads:
            kept.in_order("rack")
            kept.rooms("rack", ONE_SHAPE)
    fresh = Domains(made.index)

    assert kept.in_order("rack") == fresh.in_order("rack")
    rooms = {domain: room for domain, room in kept.rooms("rack", ONE_SHAPE).items() if room}
    assert rooms == fresh.rooms("rack", ONE_SHAPE)


WEIGHTS = (("device/gpu", 0.5), ("vcore", 0.5))
SHARE = (("gpu", DeviceNeed(milli=300)),)


class Index:
    """An index of nodes with a shape that is looked up."""

    def __init__(self, policy: NodeSortPolicy, typical: tuple[TypicalAsk, ...] = ()) -> None:
        self.shapes = ShapeTable()
        self.nodes = NodeIndex(self.shapes)
        self.nodes.configure(policy, WEIGHTS, typical)
        self.shape = Shape(with_needs(Resources({"vcore": 1}), SHARE), devices=SHARE)
        self.bit = self.shapes.add(self.shape)
        self.nodes.shape_added(self.bit)
        list(self.nodes.place_shapes())
        self.asks = 0

    def add(self, name: str, vcore: int, gpus: int) -> None:
        there = {"gpu": DeviceStock(gpus)} if gpus else {}
        self.nodes.add(name, Resources({"vcore": vcore}), {}, schedulable=True, devices=there)

    def find(self) -> str | None:
        found = self.nodes.find(self.bit)
        self.nodes.check()
        return None if found is None else found.name

    def take(self) -> str:
        node = self.nodes.find(self.bit)
        assert node is not None
        use = (self.shape.devices, self.nodes.devices_for(node, self.shape))
        self.asks += 1
        self.nodes.take(node, self.shape.resources, (1, f"{self.asks}"), use)
        return node.name


# DEVICE-14
def test_the_least_left_is_first_then_the_name() -> None:
    index = Index(NodeSortPolicy.BESTFIT)
    index.add("c", 4, 1)
    index.add("b", 4, 1)
    index.add("a", 8, 1)
    assert index.find() == "b"
    assert [index.take() for _ in range(7)] == ["b", "b", "b", "c", "c", "c", "a"]


def test_nodes_come_and_go_and_change() -> None:
    index = Index(NodeSortPolicy.BESTFIT)
    assert index.find() is None
    index.add("a", 4, 1)
    assert index.find() == "a"
    index.add("b", 2, 1)
    assert index.find() == "b"
    node = index.nodes.remove("b")
    assert index.find() == "a"
    index.nodes.put_back(node)
    assert index.find() == "b"
    index.nodes.update("b", None, None, schedulable=False)
    assert index.find() == "a"
    index.nodes.update("b", Resources({"vcore": 9}), None, schedulable=True)
    assert index.find() == "a"
    index.nodes.update("a", None, None, schedulable=None, devices={})
    assert index.find() == "b"


def test_a_larger_node_changes_what_shares_are_of() -> None:
    """The many processors of the new node make those of the others count less."""
    index = Index(NodeSortPolicy.BESTFIT)
    index.add("a", 2, 2)
    index.add("b", 3, 1)
    assert index.find() == "b"
    index.nodes.add("c", Resources({}), {}, schedulable=False, devices={"gpu": DeviceStock(64)})
    assert index.find() == "a"


# DEVICE-15
def test_a_used_device_is_used_up_where_that_spoils_less() -> None:
    typical = TypicalAsk((("gpu", DeviceNeed(count=1)),), weight=1)
    index = Index(NodeSortPolicy.FGD, (typical,))
    index.add("a", 2, 1)
    index.add("b", 8, 4)
    first = index.take()
    assert [index.take(), index.find()] == [first, index.find()]


# DEVICE-18
def test_what_is_learned_counts_unless_it_is_named() -> None:
    large = TypicalAsk((("gpu", DeviceNeed(milli=900)),), weight=1)
    index = Index(NodeSortPolicy.FGD)
    index.add("b", 4, 1)
    index.add("a", 8, 1)
    assert index.find() == "b"  # nothing is typical
    index.take()
    index.nodes.learn((large,))
    assert index.find() == "b"  # it is spoilt already
    before = index.nodes.changes
    index.nodes.configure(NodeSortPolicy.FAIR, WEIGHTS)
    index.nodes.learn((large,))
    assert index.nodes.changes == before + 1


def test_shapes_that_are_forgotten_leave_nothing_behind() -> None:
    index = Index(NodeSortPolicy.BESTFIT)
    index.add("a", 4, 1)
    assert index.find() == "a"
    index.nodes.shapes_forgotten([index.bit])
    assert index.nodes.find(index.bit) is None
