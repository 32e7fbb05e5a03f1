"""The order of nodes in a search for a plan, with and without a topology."""

from __future__ import annotations

from typing import Final

import pytest

from muster_core.resources import Resources
from muster_core.structures.shapes import Shape
from muster_core.view.gangs import TopologyState
from muster_core.view.node_finder import PlanNodeOrder
from tests.core.nodes.node_index import Nodes
from tests.core.view.topology.racks import PREFER, SAME, SPREAD

ANY: Final = Shape(Resources({"vcore": 1}))


def nodes() -> Nodes:
    made = Nodes()
    for name, rack in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")):
        made.add(name, vcore=4, attributes={"rack": rack})
    made.take("a", vcore=1)
    return made


@pytest.mark.parametrize(
    ("standing", "order"),
    [
        (None, "bcda"),
        (TopologyState(SAME, {"y": 1}, "y"), "bd"),
        (TopologyState(PREFER, {"x": 1}, "x"), "cabd"),
        (TopologyState(PREFER, {}, None), "bcda"),
        (TopologyState(SPREAD, {"x": 1, "y": 2}, "x"), "cabd"),
    ],
)
def test_the_topology_comes_before_the_order_of_nodes(
    standing: TopologyState | None, order: str
) -> None:
    # TOPOLOGY-13
    found = PlanNodeOrder(nodes().index, ANY, standing)
    assert "".join(node.name for node in found.every() if found.lets(node)) == order


def test_some_nodes_are_in_the_same_order() -> None:
    index = nodes().index
    for standing in (None, TopologyState(PREFER, {"x": 1}, "x")):
        found = PlanNodeOrder(index, ANY, standing)
        every = list(found.every())
        assert [*found.some({*every[1:]})] == every[1:]
        assert [*found.some({})] == []
