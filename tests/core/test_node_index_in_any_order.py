"""The index of nodes beside a plain list that is sorted for each search."""

from __future__ import annotations

import attrs
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.config.model import NodeSortPolicy
from muster_core.nodes.node import Holder, Node
from muster_core.resources import Resources
from muster_core.structures.ranking import BLOCK_SIZE
from muster_core.structures.shapes import Shape
from tests.core.building import Nodes, shape

EVEN = (("memory", 1.0), ("vcore", 1.0))
ONE = Resources({"vcore": 1})


@attrs.define
class PlainNode:
    capacity: dict[str, int]
    attributes: dict[str, str]
    schedulable: bool
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    kept: bool = False

    def fits(self, name: str, wanted: Shape) -> bool:
        return (
            self.schedulable
            and (wanted.node is not None or not self.kept)
            and wanted.matches(name, self.attributes)
            and all(
                self.used.get(kind, 0) + amount <= self.capacity.get(kind, 0)
                for kind, amount in wanted.resources.items()
            )
        )

    def room(self, name: str, wanted: Shape) -> int:
        if self.kept or not self.fits(name, wanted):
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
        self.by_ask = False
        self.asks = 0
        self.kept: set[str] = set()
        self.rooms: dict[Shape, int] = {}
        self.grown = -1

    def find(self, wanted: Shape) -> str | None:
        fitting = [name for name, node in self.plain.items() if node.fits(name, wanted)]
        return min(fitting, key=lambda name: self.rank_for(name, wanted), default=None)

    def rank(self, name: str) -> tuple[float, str]:
        return (self.sign * self.plain[name].score(), name)

    def rank_for(self, name: str, wanted: Shape) -> tuple[float, str]:
        return (self.leftover(name, wanted), name) if self.by_ask else self.rank(name)

    def leftover(self, name: str, wanted: Shape) -> float:
        left = 0.0
        for kind in ("memory", "vcore"):
            largest = max(node.capacity.get(kind, 0) for node in self.plain.values())
            node = self.plain[name]
            free = node.capacity.get(kind, 0) - node.used.get(kind, 0)
            left += (free - wanted.resources[kind]) / largest if largest else 0.0
        return left

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
            kept = name in self.kept
            self.plain[name] = PlainNode(capacity, attributes, schedulable, kept=kept)

    @rule(first=st.integers(0, 60), vcore=st.integers(1, 3))
    def add_many(self, first: int, vcore: int) -> None:
        for number in range(first, first + BLOCK_SIZE):
            if f"n{number}" not in self.plain:
                self.nodes.add(f"n{number}", vcore=vcore)
                kept = f"n{number}" in self.kept
                self.plain[f"n{number}"] = PlainNode({"vcore": vcore}, {}, True, kept=kept)

    @rule(name=NAMES.filter(lambda name: len(name) == 2))
    def keep(self, name: str) -> None:
        """Keep a node, whether it is there or not, or keep it no longer."""
        kept = name not in self.kept
        self.nodes.index.keep(name, kept=kept)
        self.kept ^= {name}
        if name in self.plain:
            self.plain[name].kept = kept

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
        self.by_ask = policy in {NodeSortPolicy.BESTFIT, NodeSortPolicy.FGD}
        signs = {NodeSortPolicy.FAIR: 1.0, NodeSortPolicy.BINPACKING: -1.0}
        self.sign = signs.get(policy, 0.0)  # Without an ask, its names alone order the nodes.
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
