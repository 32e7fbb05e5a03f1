from __future__ import annotations

from muster_core.config.model import NodeSortPolicy
from muster_core.nodes.node_index import NodeIndex
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape, ShapeTable
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock, with_needs

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
