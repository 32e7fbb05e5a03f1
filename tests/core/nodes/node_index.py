"""An index of nodes as tests see it."""

from __future__ import annotations

from collections.abc import Mapping

from muster_core.nodes.node import Holder, Node
from muster_core.nodes.node_index import NodeIndex
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape, ShapeTable
from muster_core.structures.steps import all_at_once


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
