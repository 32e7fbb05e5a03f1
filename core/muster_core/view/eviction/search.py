"""The search for a plan, as far as it is the same for all nodes.

Sums of queues say how much could be taken from each leaf, and the lowest priority that a
leaf has anywhere whether anything could; so most searches end before a node is looked at.
Of a node, sums over all that stands there say what a plan for it costs at least, whoever
goes; so most nodes are left out without a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.steps import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from muster_core.nodes.node import Node
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Eligibility, Rank, Side
    from muster_core.view.eviction.victim_index import LeafVictims, VictimIndex
    from muster_core.view.eviction.victims import LeafOnNode
    from muster_core.view.state.view_state import ViewState

Worth = tuple["Rank", int]
"""What a plan costs: the highest rank among its victims, and how many they are."""


@final
class Search:
    """What is the same for all nodes.

    Args:
        state: The view.
        victim_index: What stands on the nodes.
        eligibility: Whose plan is looked for.
    """

    def __init__(
        self, state: ViewState, victim_index: VictimIndex, eligibility: Eligibility
    ) -> None:
        self.state = state
        self.victim_index = victim_index
        self.eligibility = eligibility
        #: By how much the headroom of queues above the ask is too small, by key and type.
        self.over: dict[int, dict[str, int]] = {}
        #: The leaves of which something might be taken, and how much of each type at most.
        self.givers: dict[int, Side] = {}
        self._most: dict[int, Mapping[str, int]] = {}
        #: Of them those below queues that lack headroom, with those queues, and who stands there.
        self.helping: dict[int, tuple[int, ...]] = {}
        self.rows: dict[int, LeafVictims] = {}
        #: Whether a good deal of what stands anywhere might not be taken.
        self.partial = False
        #: Whether the places of victims are the same for whatever leaf they are in.
        self.in_one_order = False
        #: A rank that no victim is below.
        self.floor: Rank = ()
        #: The fair shares of leaves before anything is taken.
        self.shares: dict[int, float] = {}
        #: One side of each kind, as far as ranks go, and the lowest rank for priorities.
        self._kinds: dict[tuple[Rank, int, int | None], Side] = {}
        self._ranks: dict[int, Rank] = {}

    def begin(self) -> Steps[bool]:
        """Find out what can be known before a node is looked at.

        Returns:
            Whether there may be a plan.
        """
        for number, leaf in enumerate(self.state.leaves_below(self.eligibility.fence()), 1):
            if leaf.allocated:
                self._ask(self.eligibility.side(leaf.key))
            if number % SIZE == 0:
                yield
        if not self.givers:
            return False
        yield from self.victim_index.refresh()
        if self.eligibility.ranks_by_priority:
            yield from self.victim_index.look()
            self._leave_out_those_beyond()
            if not self.givers:
                return False
        for side in self.givers.values():
            self._kinds.setdefault((side.queue_rank, side.added, side.fixed), side)
        self._find_floor()
        self._find_over()
        self._compare()
        if not self._may_suffice():
            return False
        if self.over:
            yield from self._gather()
        return True

    def _gather(self) -> Steps[None]:
        """Find out who stands anywhere that could go for the sake of headroom."""
        yield from self.victim_index.look()
        for key in self.helping:
            leaf, by_priority = self.givers[key].leaf, self._by_priority(key)
            self.rows[key] = yield from self.victim_index.gather(leaf, by_priority=by_priority)

    def _by_priority(self, leaf: int) -> bool:
        return self.eligibility.sorts_by_priority(self.givers[leaf])

    def _ask(self, side: Side | None) -> None:
        """Find out how much might be taken from a leaf, as far as queues say."""
        if side is None:
            return
        most: Mapping[str, int] = side.leaf.allocated
        if side.guarded:
            most = {
                name: min(amount, surplus)
                for name, amount in most.items()
                if (surplus := side.surplus(name) or 0) > 0
            }
        if most:
            self.givers[side.leaf.key], self._most[side.leaf.key] = side, most

    def _leave_out_those_beyond(self) -> None:
        for key, side in list(self.givers.items()):
            lowest = self.victim_index.lowest_of(key)
            assert lowest is not None, "a leaf that holds something stands on no node"
            if self.eligibility.is_beyond(side, lowest):
                del self.givers[key], self._most[key]

    def _find_floor(self) -> None:
        floors: list[Rank] = []
        for key, side in self.givers.items():
            lowest = (
                self.victim_index.lowest_of(key) if self.eligibility.ranks_by_priority else None
            )
            floors.append(self.eligibility.floor(side, lowest or 0))
        self.floor = min(floors, default=())

    def _find_over(self) -> None:
        """Find the queues above the ask in whose headroom it does not fit."""
        resources = self.eligibility.ask.resources
        for queue in self.eligibility.leaf.upward():
            for name, most in queue.config.max.amounts:
                amount = resources[name]
                over = queue.allocated.get(name, 0) + amount - most
                if amount and over > 0:
                    self.over.setdefault(queue.key, {})[name] = over
        if self.over:
            for key, side in self.givers.items():
                queues = tuple(queue.key for queue in side.leaf.upward() if queue.key in self.over)
                if queues:
                    self.helping[key] = queues

    def _compare(self) -> None:
        """Find out how much of all there is might be taken, and in which order."""
        for name in self.eligibility.ask.resources:
            most = sum(most.get(name, 0) for most in self._most.values())
            self.partial |= 4 * most < 3 * self.state.root.allocated.get(name, 0)
        if self.eligibility.ranks_by_priority and not self.helping:
            kinds = {(side.added, side.fixed) for side in self._kinds.values()}
            self.in_one_order = len(kinds) == 1 and next(iter(kinds))[1] is None

    def _may_suffice(self) -> bool:
        """Say whether it could be enough if all that might be taken went."""
        for name, amount in self.eligibility.ask.resources.items():
            if amount > self.victim_index.capacity.top(name):
                return False
            lack = amount - self.victim_index.free.top(name)
            if lack > 0 and not self._have(self._most, name, lack):
                return False
        for key, names in self.over.items():
            below = [leaf for leaf, queues in self.helping.items() if key in queues]
            for name, over in names.items():
                if not self._have(below, name, over):
                    return False
        return True

    def _have(self, leaves: Iterable[int], name: str, wanted: int) -> bool:
        """Say whether leaves could give so much of a type."""
        for leaf in leaves:
            wanted -= self._most[leaf].get(name, 0)
            if wanted <= 0:
                return True
        return False

    def least(self) -> Worth:
        """Give what no plan costs less than, as far as is known of all nodes."""
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
        """Give how many have to go at least for the sake of headroom, or 1."""
        count = 1
        for names in self.over.values():
            for name, over in names.items():
                largest = self.victim_index.largest(name)
                if largest:
                    count = max(count, -(-over // largest))
        return count

    # Of one node

    def lack(self, node: Node) -> dict[str, int]:
        """Give how much of each type a node lacks for the ask."""
        return lack_on(node, self.eligibility.ask.resources)

    def bound(self, node: Node, lack: Mapping[str, int]) -> Worth | None:
        """Give what no plan for a node that lacks something costs less than.

        Returns:
            None if no plan can work there.
        """
        sums = self.victim_index.on(node).sums()
        level = sums.level_for(lack)
        if level is None:
            return None
        priorities = sums.priorities
        rank = max(self.floor, self.rank_of(priorities[level]))
        # Whoever is not above that rank could be among them, and be a large one.
        while level + 1 < len(priorities) and self.rank_of(priorities[level + 1]) <= rank:
            level += 1
        count = sums.fewest(lack, level)
        return rank, max(count, self._fewest_over()) if self.over else count

    def rank_of(self, priority: int) -> Rank:
        """Give a rank that no victim of a priority is below."""
        rank = self._ranks.get(priority)
        if rank is None:
            eligibility, sides = self.eligibility, self._kinds.values()
            rank = self._ranks[priority] = min(eligibility.floor(side, priority) for side in sides)
        return rank

    def closer_bound(self, node: Node, lack: Mapping[str, int]) -> Worth | None:
        """Give what :meth:`bound` does, with regard to who might give anything."""
        sides = list(self.sides_on(node))
        count = 1
        for name, amount in lack.items():
            most = largest = 0
            for side, standing in sides:
                there = standing.amounts.get(name, 0)
                if there:
                    most += min(there, self._most[side.leaf.key].get(name, 0))
                    largest = max(largest, standing.largest[name])
            if most < amount:
                return None
            count = max(count, -(-amount // largest))
        if self.over:  # Who goes for the sake of headroom may stand anywhere.
            return self.floor, count
        return min(self.eligibility.floor(side, one.lowest()) for side, one in sides), count

    def sides_on(self, node: Node) -> Iterator[tuple[Side, LeafOnNode]]:
        """Give the leaves that might give something and have anything on a node."""
        for key, standing in self.victim_index.on(node).by_leaf().items():
            side = self.givers.get(key)
            if side is not None:
                yield side, standing


def lack_on(node: Node, resources: Mapping[str, int]) -> dict[str, int]:
    """Give how much of each type a node lacks for an ask."""
    lack: dict[str, int] = {}
    for name, amount in resources.items():
        free = node.capacity.get(name, 0) - node.used.get(name, 0)
        if amount > free:
            lack[name] = amount - free
    return lack
