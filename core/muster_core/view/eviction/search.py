"""The search for a plan: the part that all nodes share.

Sums of queues bound how much could be taken from each leaf, and the lowest priority of a leaf
tells whether anything could, so that most searches end before a node is looked at. Sums of all
victims on a node are a lower bound of the cost of any plan for it, so that most nodes are
excluded without a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.steps import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.nodes.node import Node
    from muster_core.structures.shapes import Shape
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Eligibility, Rank, Side
    from muster_core.view.eviction.victim_index import LeafVictims, VictimIndex
    from muster_core.view.eviction.victims import LeafOnNode
    from muster_core.view.state.view_state import ViewState

Worth = tuple["Rank", int]
"""The cost of a plan: the highest rank of its victims, and their number."""


@final
class Search:
    """The data of one search that all nodes share.

    Args:
        state: The view.
        victim_index: The victims on the nodes.
        eligibility: The eligibility of the preemptor.
    """

    def __init__(
        self, state: ViewState, victim_index: VictimIndex, eligibility: Eligibility
    ) -> None:
        self.state = state
        self.victim_index = victim_index
        self.eligibility = eligibility
        #: How much headroom the queues above the ask lack, by key and type.
        self.over: dict[int, dict[str, int]] = {}
        #: The leaves that may have victims, and the most of each type that can be taken.
        self.sides: dict[int, Side] = {}
        self._most: dict[int, Mapping[str, int]] = {}
        #: The givers below queues that lack headroom, with those queues, and their victims.
        self.helping: dict[int, tuple[int, ...]] = {}
        self.rows: dict[int, LeafVictims] = {}
        #: Whether much of all allocated resources cannot be taken.
        self.partial = False
        #: Whether the order of victims does not depend on their leaf.
        self.in_one_order = False
        #: A lower bound of the ranks of all victims.
        self.floor: Rank = ()
        #: The fair shares of leaves before anything is taken.
        self.shares: dict[int, float] = {}
        #: One side for each effect on ranks, and the lowest rank for each priority.
        self._kinds: dict[tuple[Rank, int, int | None], Side] = {}
        self._ranks: dict[int, Rank] = {}

    def begin(self) -> Steps[bool]:
        """Find what can be known before a node is looked at.

        Returns:
            Whether there may be a plan.
        """
        for number, leaf in enumerate(self.state.leaves_below(self.eligibility.fence()), 1):
            if any(leaf.allocated):
                self._add_side(self.eligibility.side(leaf.key))
            if number % SIZE == 0:
                yield
        if not self.sides:
            return False
        yield from self.victim_index.refresh()
        if self.eligibility.ranks_by_priority:
            yield from self.victim_index.look()
            self._remove_beyond()
            if not self.sides:
                return False
        for side in self.sides.values():
            self._kinds.setdefault((side.queue_rank, side.added, side.fixed), side)
        self._find_floor()
        self._find_over()
        self._compare()
        if not self._may_suffice():
            return False
        if self.over:
            yield from self._gather_helping()
        return True

    # SERVICE-7
    def begin_on(self, node: Node) -> Steps[bool]:
        """Find what can be known before one node is looked at, of an ask that has headroom.

        Args:
            node: The only node that counts, which lacks something for the ask.

        Returns:
            Whether there may be a plan.
        """
        yield from self.victim_index.refresh()
        lack, sums = self.lack(node), self.victim_index.on(node).sums()
        level = sums.level_for(lack)
        if level is None:
            return False
        for key in self.victim_index.on(node).by_leaf():
            side = self.eligibility.side(key)
            if side is not None and not self.eligibility.is_beyond(side, sums.priorities[level]):
                self.sides[key] = side
        return bool(self.sides)

    def _gather_helping(self) -> Steps[None]:
        """Collect the victims on all nodes that could make headroom."""
        yield from self.victim_index.look()
        for key in self.helping:
            leaf, by_priority = self.sides[key].leaf, self._by_priority(key)
            self.rows[key] = yield from self.victim_index.gather(leaf, by_priority=by_priority)

    def _by_priority(self, leaf: int) -> bool:
        return self.eligibility.sorts_by_priority(self.sides[leaf])

    def _add_side(self, side: Side | None) -> None:
        """Compute how much could be taken from a leaf, as its queues allow."""
        if side is None:
            return
        most: Mapping[str, int] = side.leaf.usage()
        if side.guarded:
            most = {
                name: min(amount, surplus)
                for name, amount in most.items()
                if (surplus := side.surplus(name) or 0) > 0
            }
        if most:
            self.sides[side.leaf.key], self._most[side.leaf.key] = side, most

    def _remove_beyond(self) -> None:
        for key, side in list(self.sides.items()):
            lowest = self.victim_index.lowest_of(key)
            assert lowest is not None, "a leaf that holds something stands on no node"
            if self.eligibility.is_beyond(side, lowest):
                del self.sides[key], self._most[key]

    def _find_floor(self) -> None:
        floors: list[Rank] = []
        for key, side in self.sides.items():
            lowest = (
                self.victim_index.lowest_of(key) if self.eligibility.ranks_by_priority else None
            )
            floors.append(self.eligibility.floor(side, lowest or 0))
        self.floor = min(floors, default=())

    # EVICTION-21
    def _find_over(self) -> None:
        """Find the queues above the ask that lack headroom for it."""
        resources = self.eligibility.ask.resources
        for queue in self.eligibility.leaf.upward():
            for name, most in queue.config.max.amounts:
                amount = resources[name]
                over = queue.used(name) + amount - most
                if amount and over > 0:
                    self.over.setdefault(queue.key, {})[name] = over
        if self.over:
            for key, side in self.sides.items():
                queues = tuple(queue.key for queue in side.leaf.upward() if queue.key in self.over)
                if queues:
                    self.helping[key] = queues

    def _compare(self) -> None:
        """Compute how much of all resources could be taken, and whether one order serves all."""
        for name in self.eligibility.ask.resources:
            most = sum(most.get(name, 0) for most in self._most.values())
            self.partial |= 4 * most < 3 * self.state.root.used(name)
        if self.eligibility.ranks_by_priority and not self.helping:
            kinds = {(side.added, side.fixed) for side in self._kinds.values()}
            self.in_one_order = len(kinds) == 1 and next(iter(kinds))[1] is None

    def _may_suffice(self) -> bool:
        """Return whether it could suffice to take everything that may be taken."""
        for name, amount in self.eligibility.ask.resources.items():
            if amount > self.victim_index.capacity.top(name):
                return False
            lack = amount - self.victim_index.free.top(name)
            if lack > 0 and not self._suffice(self._most, name, lack):
                return False
        for key, names in self.over.items():
            below = [leaf for leaf, queues in self.helping.items() if key in queues]
            for name, over in names.items():
                if not self._suffice(below, name, over):
                    return False
        return True

    def _suffice(self, leaves: Iterable[int], name: str, wanted: int) -> bool:
        """Return whether so much of a type can be taken from leaves."""
        for leaf in leaves:
            wanted -= self._most[leaf].get(name, 0)
            if wanted <= 0:
                return True
        return False

    def least(self) -> Worth:
        """Return a lower bound of the cost of all plans, on any node."""
        if self.victim_index.has_unseen:
            return self.floor, 1
        victim_index = self.victim_index
        count = self._fewest_over()
        for name, amount in self.eligibility.ask.resources.items():
            lack = amount - victim_index.free.top(name)
            if lack > 0 and victim_index.largest(name):
                count = max(count, -(-lack // victim_index.largest(name)))
        return self.floor, count

    def _fewest_over(self) -> int:
        """Return a lower bound of the number of victims that make headroom, at least 1."""
        count = 1
        for names in self.over.values():
            for name, over in names.items():
                largest = self.victim_index.largest(name)
                if largest:
                    count = max(count, -(-over // largest))
        return count

    # One node

    def lack(self, node: Node) -> dict[str, int]:
        """Return how much of each type a node lacks for the ask."""
        return lack_on(node, self.eligibility.ask.shape)

    def bound(self, node: Node, lack: Mapping[str, int]) -> Worth | None:
        """Return a lower bound of the cost of a plan for a node that lacks something.

        Returns:
            The bound, or None if no plan is possible there.
        """
        sums = self.victim_index.on(node).sums()
        level = sums.level_for(lack)
        if level is None:
            return None
        priorities = sums.priorities
        rank = max(self.floor, self.rank_of(priorities[level]))
        # Any victim up to this rank could be in the plan, and could be large.
        while level + 1 < len(priorities) and self.rank_of(priorities[level + 1]) <= rank:
            level += 1
        count = sums.fewest(lack, level)
        return rank, max(count, self._fewest_over()) if self.over else count

    def rank_of(self, priority: int) -> Rank:
        """Return a lower bound of the ranks of victims of a priority."""
        rank = self._ranks.get(priority)
        if rank is None:
            eligibility, sides = self.eligibility, self._kinds.values()
            rank = self._ranks[priority] = min(eligibility.floor(side, priority) for side in sides)
        return rank

    def closer_bound(self, node: Node, lack: Mapping[str, int]) -> Worth | None:
        """Return a closer bound than :meth:`bound`, from the leaves that may have victims."""
        sides = list(self.sides_on(node))
        count = 1
        for name, amount in lack.items():
            most = largest = 0
            for side, on_node in sides:
                there = on_node.amounts.get(name, 0)
                if there:
                    most += min(there, self._most[side.leaf.key].get(name, 0))
                    largest = max(largest, on_node.largest(name))
            if most < amount:
                return None
            count = max(count, -(-amount // largest))
        if self.over:  # Victims that make headroom may be on any node.
            return self.floor, count
        return min(self.eligibility.floor(side, one.lowest()) for side, one in sides), count

    def sides_on(self, node: Node) -> Iterator[tuple[Side, LeafOnNode]]:
        """Iterate over the leaves that may have victims and hold something on a node."""
        for key, on_node in self.victim_index.on(node).by_leaf().items():
            side = self.sides.get(key)
            if side is not None:
                yield side, on_node


def lack_on(node: Node, shape: Shape) -> dict[str, int]:
    """Return how much of each type a node lacks for an ask, of devices at least so much."""
    lack: dict[str, int] = {}
    for name, amount in shape.resources.items():
        free = node.capacity.get(name, 0) - node.used.get(name, 0)
        if amount > free:
            lack[name] = amount - free
    # DEVICE-10
    if shape.devices:
        for name, amount in node.lack_of_devices(shape).items():
            lack[name] = max(amount, lack.get(name, 0))
    return lack
