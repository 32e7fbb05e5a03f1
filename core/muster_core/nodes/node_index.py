"""The index of nodes: the order in which they are tried, and the shapes that fit on them.

ORDER-21 to ORDER-26: nodes are tried by score (``fair``: least utilised first, ``binpacking``: most
utilised first), then by name. The first one that is schedulable, matches and has enough free
resources is used. Scores are always computed from integers, never accumulated, so that the order
does not depend on the history.

The nodes are ranked by score; each has the mask of the shapes that fit on it now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, final

from muster_core.nodes.ask_order import Fragmentation, Leftover, OrderByAsk, TypicalAsks
from muster_core.nodes.node import DeviceUse, Holder, Node, NodeDevices, Weights, how_many_in
from muster_core.structures.amounts import WeightedShare
from muster_core.structures.ranking import Rank, Ranking
from muster_core.structures.shapes import Alike, MaskCounts, Shape, ShapeTable, bits_of
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.affinity import Taint
from muster_core.values.configuration import NodeSortPolicy, TypicalAsk
from muster_core.values.devices import (
    NO_STOCKS,
    DeviceStock,
    TakenDevices,
    with_stocks,
    without_devices,
)
from muster_core.values.resources import Resources

FEW: Final = 8
"""The part of nodes below which candidates are sorted again: one in this many."""


@final
class NodeIndex:
    """All nodes of the partition.

    Args:
        shapes: The table of shapes, shared with the view.
    """

    def __init__(self, shapes: ShapeTable) -> None:
        self._shapes = shapes
        self._is_fair = True
        #: The weight of each type that counts.
        self.weights: Weights = (("memory", 1.0), ("vcore", 1.0))
        #: The order for the ask at hand, or None if one order serves all asks.
        self._by_ask: OrderByAsk | None = None
        self._leftover = Leftover(())
        #: Whether the largest capacities are known.
        self._measured = False
        self._policy = NodeSortPolicy.FAIR
        #: The typical asks that the configuration names, and those that were learned.
        self._named: tuple[TypicalAsk, ...] = ()
        self._learned: tuple[TypicalAsk, ...] = ()
        #: Every node by name.
        self.nodes: dict[str, Node] = {}
        #: The capacity of all nodes, including unschedulable ones.
        self.total: dict[str, int] = {}
        #: All nodes, in the order in which they are tried.
        self._ranking: Ranking[Node] = Ranking()
        #: The names of the nodes with taints that keep asks away.
        self.tainted: set[str] = set()
        #: The names of the nodes that are kept, whether they exist or not.
        self._kept: set[str] = set()
        self._unplaced: list[int] = []  #: New shapes that were not compared with the nodes yet.
        self._counts = MaskCounts()  #: On how many nodes each shape fits now.
        #: A lower bound on the number of asks of a shape that fit now; the exact number for
        #: the shapes in ``_counted``. Both are cleared whenever a node changes.
        self._room: dict[int, int] = {}
        self._counted: set[int] = set()
        #: Goes up whenever a node or a queue has more room.
        self.grown = 0
        #: Goes up whenever anything about a node changes.
        self.changes = 0
        #: The nodes that have changed, until the reader of this clears it.
        self.touched: dict[Node, None] = {}

    @property
    def fitting(self) -> int:
        """The shapes that fit on any node now."""
        return self._counts.mask

    @property
    def keeps_any(self) -> bool:
        """Whether a node service keeps a node, which need not exist."""
        return bool(self._kept)

    def configure(
        self, policy: NodeSortPolicy, weights: Weights, typical: tuple[TypicalAsk, ...] = ()
    ) -> None:
        """Set the order of the nodes.

        Args:
            policy: The order.
            weights: The weight of each type that counts.
            typical: The typical asks for ``fgd``; empty if they are learned.
        """
        self._is_fair, self.weights = policy is NodeSortPolicy.FAIR, weights
        self._policy, self._named = policy, typical
        self._order_by_ask()
        self.changes += 1
        self._ranking = Ranking()
        for node in sorted(self.nodes.values(), key=lambda node: node.name):
            node.weighing = WeightedShare(node.capacity, weights)
            self._ranking.add(node, self._rank(node))

    # DEVICE-18
    def learn(self, typical: tuple[TypicalAsk, ...]) -> None:
        """Take the typical asks of those with devices that came."""
        self._learned = typical
        if self._policy is NodeSortPolicy.FGD and not self._named:
            self.changes += 1
            self._order_by_ask()

    def _order_by_ask(self) -> None:
        """Make the order for the ask at hand, if the policy is such one."""
        self._by_ask, self._leftover, self._measured = None, Leftover(self.weights), False
        if self._policy not in {NodeSortPolicy.BESTFIT, NodeSortPolicy.FGD}:
            return
        typical = self._named or self._learned
        fragments = (
            Fragmentation(TypicalAsks(typical)) if self._policy is NodeSortPolicy.FGD else None
        )
        self._by_ask = OrderByAsk(self._shapes.shapes, self._leftover, fragments)
        for node in self.nodes.values():
            self._by_ask.note(node)

    # FEED-19
    def add(
        self,
        name: str,
        capacity: Resources,
        attributes: Mapping[str, str],
        *,
        schedulable: bool,
        devices: Mapping[str, DeviceStock] = NO_STOCKS,
        taints: tuple[Taint, ...] = (),
    ) -> None:
        """Add a node; its name must be free."""
        node = Node(name, with_stocks(capacity, devices), dict(attributes), schedulable)
        node.taints = taints
        if devices:
            node.devices = NodeDevices(devices)
        self._enter(node)
        self.grown += 1

    # CHECKPOINT-5
    def load(self, node: Node) -> None:
        """Add a node that was loaded, with what is used of it; its name must be free."""
        self._enter(node)

    def _enter(self, node: Node) -> None:
        self.nodes[node.name] = node
        node.weighing = WeightedShare(node.capacity, self.weights)
        node.kept = node.name in self._kept
        if node.taints:
            self._taint(node, node.taints)
        self._count_capacity(node, 1)
        self._match(node)
        self._set_mask(node, self._fitting_on(node))
        self._ranking.add(node, self._rank(node))
        if self._by_ask is not None:
            self._by_ask.note(node)
        self.touch(node)

    # FEED-20, FEED-21, RESERVED-4, RESERVED-7
    def update(
        self,
        name: str,
        capacity: Resources | None,
        attributes: Mapping[str, str] | None,
        *,
        schedulable: bool | None,
        devices: Mapping[str, DeviceStock] | None = None,
        reserved: Mapping[str, int] | None = None,
        taints: tuple[Taint, ...] | None = None,
    ) -> None:
        """Replace the fields of a node that are not None; no ask is evicted.

        Devices are replaced only while none of them is held.
        """
        node = self.nodes[name]
        self.grown += 1
        written = without_devices(node.capacity) if capacity is None else capacity
        if devices is not None:
            node.devices = NodeDevices(devices) if devices else None
        if capacity is not None or devices is not None:
            stocks = NO_STOCKS if node.devices is None else node.devices.stocks
            self._set_capacity(node, with_stocks(written, stocks))
        if reserved is not None:
            node.equip(node.capacity, reserved)
        if attributes is not None:
            node.attributes = dict(attributes)
        if schedulable is not None:
            node.schedulable = schedulable
        if taints is not None:
            self._taint(node, taints)
        self._match(node)
        self._moved(node)

    # AFFINITY-12
    def _taint(self, node: Node, taints: tuple[Taint, ...]) -> None:
        node.taints = taints
        if any(taint.bars for taint in taints):
            self.tainted.add(node.name)
        else:
            self.tainted.discard(node.name)

    def _set_capacity(self, node: Node, capacity: Mapping[str, int]) -> None:
        self._count_capacity(node, -1)
        node.equip(capacity, node.reserved)
        node.weighing = WeightedShare(capacity, self.weights)
        self._count_capacity(node, 1)

    def remove(self, name: str) -> Node:
        """Remove a node and return it; the allocations on it still refer to it."""
        node = self.nodes.pop(name)
        self._count_capacity(node, -1)
        self._ranking.remove(node)
        if self._by_ask is not None:
            self._by_ask.forget(node)
        self._set_mask(node, 0)
        node.present = False
        self.tainted.discard(name)
        self.touch(node)
        del self.touched[node]  # Otherwise removed nodes would pile up if nothing clears it.
        return node

    # SERVICE-10, SERVICE-12
    def keep(self, name: str, *, kept: bool) -> None:
        """Place only asks that require it on the node of this name from now on, or any ask again.

        Args:
            name: The name of a node, which need not exist.
            kept: Whether it is kept from other asks.
        """
        if kept:
            self._kept.add(name)
        else:
            self._kept.remove(name)
            self.grown += 1
        node = self.nodes.get(name)
        if node is not None:
            node.kept = kept
            self._match(node)
            self._moved(node)

    def touch(self, node: Node) -> None:
        """Record that a node has changed."""
        node.version += 1
        self.changes += 1
        self.touched[node] = None

    def touch_allocation(self, node: Node, holder: Holder) -> None:
        """Record that an allocation on a node has changed, but not its resources."""
        self.touch(node)
        if node.changed is not None:
            node.note_change(holder)

    def save(self, name: str) -> Callable[[], None]:
        """Return a function that restores the present fields of a node."""
        node = self.nodes[name]
        before = dict(node.attributes), node.schedulable, node.devices
        amounts = dict(node.capacity), node.reserved
        taints = node.taints

        def restore() -> None:
            node.attributes, node.schedulable, node.devices = before
            capacity, node.reserved = amounts
            self._taint(node, taints)
            self._set_capacity(node, capacity)
            self._match(node)
            self._moved(node)

        return restore

    def put_back(self, node: Node) -> None:
        """Undo :meth:`remove`."""
        node.present = True
        self._enter(node)

    # ORDER-21
    def find(self, bit: int) -> Node | None:
        """Return the first node on which the shape at ``bit`` fits now, or None."""
        wanted = 1 << bit
        if not self.fitting & wanted:
            return None
        if self._by_ask is None:
            return self._ranking.first(wanted)
        self._measure()
        return self._by_ask.first(bit)

    # DEVICE-16
    def _measure(self) -> None:
        """Find the largest capacities, if they may have changed."""
        if not self._measured and self._by_ask is not None:
            self._measured = True
            if self._leftover.measure(self.nodes.values()):
                self._by_ask.forget_scores()

    # DEVICE-19
    def unusable(self, node: Node) -> float | None:
        """Return the amount that typical asks cannot use on a node: see :meth:`OrderByAsk.unusable`."""
        return None if self._by_ask is None else self._by_ask.unusable(node)

    # DEVICE-21
    def in_order_for(self, shape: Shape, some: Collection[Node] | None = None) -> Iterable[Node]:
        """Return nodes in the order in which victims are looked for, for an ask of a shape."""
        if self._by_ask is None and some is None:
            return self.in_order()
        if self._by_ask is None and len(some or ()) * FEW >= len(self.nodes):
            return (node for node in self.in_order() if node in (some or ()))
        nodes = self.nodes.values() if some is None else some
        return sorted(nodes, key=lambda node: self.rank_for(node, shape))

    # DEVICE-21
    def rank_for(self, node: Node, shape: Shape) -> Rank:
        """Return the place of a node when victims are looked for, for an ask of a shape."""
        if self._by_ask is None:
            return node.rank
        self._measure()
        return self._by_ask.leftover_rank(node, shape)

    def fitting_on(self, bit: int, *, beside_victims: bool = False) -> Iterator[Node]:
        """Iterate over the nodes on which the shape at ``bit`` fits now, in order.

        Nodes must not change meanwhile.

        Args:
            bit: The bit of the shape.
            beside_victims: Whether the order is that in which victims are looked for.
        """
        if self._by_ask is None:
            return self._ranking.standing_for(1 << bit)
        if beside_victims:
            there = [node for node in self.nodes.values() if node.mask >> bit & 1]
            return iter(self.in_order_for(self._shapes.shapes[bit], there))
        self._measure()
        return iter(self._by_ask.in_order(bit))

    # ORDER-22, ORDER-23, RESERVED-3
    def score(self, capacity: Mapping[str, int], used: Mapping[str, int]) -> float:
        """Return what decides how early a node with these amounts is tried; lowest first."""
        score = WeightedShare(capacity, self.weights).utilisation(used)
        return score if self._is_fair else -score

    # ORDER-21
    def rank_with(self, node: Node, used: Mapping[str, int]) -> tuple[float, str]:
        """Return the place of a node in the order if these amounts of it were used."""
        score = node.weighing.utilisation(used)
        return (score if self._is_fair else -score, node.name)

    def room_for(self, bit: int, enough: int) -> int:
        """Count how many asks of the shape at ``bit`` fit on the nodes now, all together.

        Nodes that are kept do not count.

        Args:
            bit: The bit of the shape.
            enough: The number at which the count may stop.
        """
        known = self._room.get(bit)
        if known is not None and (known >= enough or bit in self._counted):
            return known
        count = 0
        for node in self._ranking.standing_for(1 << bit):
            if not node.kept:
                count += node.how_many(self._shapes.shapes[bit])
            if count >= enough:
                break
        else:
            self._counted.add(bit)
        self._room[bit] = count
        return count

    def room_on(self, node: Node, shape: Shape) -> int:
        """Count how many asks of a shape fit on a node now; none on one that is kept."""
        may = node.schedulable and not node.kept and node.may_take(shape)
        return node.how_many(shape) if may else 0

    def more_room(self, node: Node, shape: Shape, amounts: Mapping[str, int]) -> int:
        """Count how many more asks of a shape would fit on a node with ``amounts`` more free."""
        may = node.present and node.schedulable and not node.kept
        if not (may and node.may_take(shape)):
            return 0
        free = self._free(node)
        more = {name: amount + amounts.get(name, 0) for name, amount in free.items()}
        # With devices this is at least as many: what is free of them need not be on one.
        return how_many_in(shape.resources, more) - node.how_many(shape)

    @property
    def is_by_ask(self) -> bool:
        """Whether the order of the nodes depends on the ask at hand."""
        return self._by_ask is not None

    # BACKFILL-19
    def rank_ahead(self, node: Node, shape: Shape) -> Rank:
        """Return the place of a node as it would be, for a shape that fits there."""
        assert self._by_ask is not None, "one order serves all asks"
        self._measure()
        rank = self._by_ask.rank_of(node, shape)
        self._forget_ahead(node)
        return rank

    # BACKFILL-19
    def devices_ahead(self, node: Node, shape: Shape) -> TakenDevices:
        """Return the same as :meth:`devices_for` for a node as it would be."""
        taken = self.devices_for(node, shape)
        self._forget_ahead(node)
        return taken

    def _forget_ahead(self, node: Node) -> None:
        """Forget the scores of a node that is not in the index."""
        if self._by_ask is not None and self.nodes.get(node.name) is not node:
            self._by_ask.forget_ahead(node)

    # DEVICE-7, DEVICE-8
    def devices_for(self, node: Node, shape: Shape) -> TakenDevices:
        """Return the devices that an ask of a shape takes on a node, on which it fits."""
        if not shape.devices or node.devices is None:
            return ()
        # DEVICE-20
        if self._by_ask is not None and self._by_ask.fragments is not None:
            return self._by_ask.fragments.pick(node, shape)
        return node.devices.pick(shape.devices)

    def take(
        self, node: Node, resources: Resources, holder: Holder, use: DeviceUse | None = None
    ) -> None:
        """Allocate ``resources`` and devices on a node, on which they must fit, for an ask."""
        if use is not None and node.devices is not None:
            node.devices.take(use)
        held, used = node.held, node.used
        held[holder] = held[holder] + 1 if holder in held else 1
        for name, amount in resources.amounts.items():
            used[name] = used[name] + amount if name in used else amount
        if node.changed is not None:
            node.note_change(holder)
        self._moved(node)

    def give_back(
        self, node: Node, resources: Resources, holder: Holder, use: DeviceUse | None = None
    ) -> None:
        """Release the allocation of an ask on a node, which may be removed already."""
        self.grown += 1
        if use is not None and node.devices is not None:
            node.devices.give_back(use)
        if node.held[holder] == 1:
            del node.held[holder]
        else:
            node.held[holder] -= 1
        for name, amount in resources.amounts.items():
            left = node.used[name] - amount
            if left:
                node.used[name] = left
            else:
                del node.used[name]
        if node.changed is not None:
            node.note_change(holder)
        if node.present:
            self._moved(node)

    def shape_added(self, bit: int) -> None:
        """Record a new shape; :meth:`place_shapes` finds the nodes on which it fits."""
        self._unplaced.append(bit)

    @property
    def has_unplaced(self) -> bool:
        """Whether there are new shapes that were not compared with the nodes yet."""
        return bool(self._unplaced)

    def place_shapes(self) -> Steps[None]:
        """Find the nodes on which the new shapes fit."""
        bits, self._unplaced = self._unplaced, []
        if not bits:
            return
        # Most shapes may use any node, so that they need no match with each node.
        anywhere, choosy = 0, [bit for bit in bits if self._shapes.shapes[bit].is_choosy]
        for bit in set(bits).difference(choosy):
            anywhere |= 1 << bit
        some = self._shapes.alike(choosy)
        every = self._shapes.alike(bits) if self.tainted else some
        for piece in in_pieces(self.nodes.values()):
            yield
            for node in piece:
                if node.schedulable:
                    # AFFINITY-2
                    if node.name in self.tainted:
                        new = self._matching(node, every)
                    else:
                        new = anywhere | self._matching(node, some)
                    node.matching |= new & self._shapes.one_node if node.kept else new
                    self._set_mask(node, self._fitting_on(node))
                    self._ranking.widen(node)

    def shapes_forgotten(self, bits: Iterable[int]) -> None:
        """Remove shapes that no pending ask has."""
        keep = ~sum(1 << bit for bit in bits)
        self._counts.keep_only(keep)
        self._room.clear()
        self._counted.clear()
        if self._by_ask is not None:
            self._by_ask.forget_shapes(bits)
        for node in self.nodes.values():
            node.matching &= keep
            node.mask &= keep
        self._ranking.keep_only(keep)

    def in_order(self) -> Iterator[Node]:
        """Iterate over the nodes in the order in which they are tried."""
        return iter(self._ranking)

    # ORDER-26
    def _count_capacity(self, node: Node, sign: int) -> None:
        self._measured = False
        for name, amount in node.capacity.items():
            total = self.total.get(name, 0) + sign * amount
            if total:
                self.total[name] = total
            else:
                del self.total[name]

    # ORDER-21
    def _match(self, node: Node) -> None:
        """Compute which shapes may use a node: none if it is not schedulable."""
        shapes = self._shapes
        node.matching = 0
        if node.schedulable:
            if node.name in self.tainted:
                node.matching = self._matching(node, shapes.all_alike(choosy=False))
            elif shapes.choosy:
                alike = shapes.all_alike(choosy=True)
                node.matching = shapes.not_choosy | self._matching(node, alike)
            else:
                node.matching = shapes.not_choosy
            if node.kept:
                node.matching &= shapes.one_node

    @staticmethod
    def _matching(node: Node, alike: Alike) -> int:
        mask = 0
        for shape, same in alike:
            if node.may_take(shape):
                mask |= same
        return mask

    @staticmethod
    def _free(node: Node) -> dict[str, int]:
        used = node.used
        return {name: amount - used.get(name, 0) for name, amount in node.room.items()}

    def _fitting_on(self, node: Node) -> int:
        mask = node.matching
        if mask:
            mask &= self._shapes.fitting_node(node.room, node.used)
        if mask and node.devices is not None:
            mask &= self._shapes.fitting_devices(node.devices.free)
        return mask

    def _set_mask(self, node: Node, mask: int) -> None:
        if self._room:
            self._room.clear()
            self._counted.clear()
        self._counts.replace(node.mask, mask)
        node.mask = mask

    # ORDER-23, ORDER-24
    def _rank(self, node: Node) -> tuple[float, str]:
        if self._by_ask is not None:
            return (0.0, node.name)
        score = node.weighing.utilisation(node.used)
        return (score if self._is_fair else -score, node.name)

    def _moved(self, node: Node) -> None:
        """Update the mask and the place of a node after its usage or its capacity has changed."""
        node.version += 1
        self.changes += 1
        self.touched[node] = None
        mask, used = node.matching, node.used
        if mask:
            mask &= self._shapes.fitting_node(node.room, used)
            if mask and node.devices is not None:
                mask &= self._shapes.fitting_devices(node.devices.free)
        if mask != node.mask or self._room:
            self._set_mask(node, mask)
        if self._by_ask is not None:
            self._by_ask.note(node)
            self._ranking.widen(node)
            return
        score = node.weighing.utilisation(used)
        # ORDER-23, ORDER-24
        rank = (score if self._is_fair else -score, node.name)
        if rank == node.rank:
            self._ranking.widen(node)
        else:
            self._ranking.move(node, rank)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        order = list(self.in_order())
        # Every node is in the order once, and the order is by recomputed scores.
        assert sorted(node.name for node in order) == sorted(self.nodes)
        assert [self._rank(node) for node in order] == sorted(node.rank for node in order)
        self._ranking.check()
        assert not self._unplaced
        # The masks are the recomputed ones.
        for node in order:
            free = self._free(node)
            fresh = {
                bit
                for bit, shape in self._shapes.shapes.items()
                if node.schedulable
                and node.may_take(shape)
                and (shape.node is not None or not node.kept)
                and shape.resources.fits_in(free)
                and (node.devices is None or node.devices.has_room(shape.devices))
            }
            assert set(bits_of(node.mask)) == fresh
        self._counts.check(node.mask for node in order)
        assert {node.name for node in order if node.kept} == self._kept & self.nodes.keys()
        barring = {node.name for node in order if any(taint.bars for taint in node.taints)}
        assert self.tainted == barring
        # The total is the sum of the capacities.
        total: dict[str, int] = {}
        for node in order:
            for name, amount in node.capacity.items():
                total[name] = total.get(name, 0) + amount
        assert total == self.total
        if self._by_ask is not None:
            self._by_ask.check(order)
