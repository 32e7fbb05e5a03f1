"""Plans: the node on which an ask could be placed, and the victims that must be evicted.

EVICTION-19, EVICTION-25. The chosen node is the one whose highest victim is the lowest, then the one
with the fewest victims, then the first.
"""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.view.eviction.search import Search
from muster_core.view.eviction.victim_choice import VictimChoice
from muster_core.view.gangs.standing import standing_in
from muster_core.view.topology.node_order import NodeOrder

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.ranking import Rank as Place
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Eligibility, Rank, Sides
    from muster_core.view.eviction.search import Worth
    from muster_core.view.eviction.victim_index import VictimIndex
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.gangs.standing import Standing
    from muster_core.view.state.view_state import ViewState

NODES: Final = 8
"""How many nodes' bounds are looked at in one step."""

RELATIONS: Final = 256
"""For how many preemptors' queues the relations of leaves are kept."""


@final
@attrs.frozen(eq=False)
class Plan:
    """A way to place an ask.

    Attributes:
        eligibility: The eligibility of the preemptor.
        node: The node.
        victims: The victims, in the order in which they are taken.
        rank: The highest rank among them.
    """

    eligibility: Eligibility
    node: Node
    victims: tuple[Victim, ...]
    rank: Rank

    # EVICTION-25
    @property
    def worth(self) -> Worth:
        """The cost of the plan."""
        return self.rank, len(self.victims)


@final
class _Best:
    """The best plan so far."""

    __slots__ = ("_order", "plan")

    def __init__(self, order: NodeOrder) -> None:
        self.plan: Plan | None = None
        self._order = order

    # EVICTION-25
    def is_beaten_by(self, worth: Worth, node: Node) -> bool:
        """Return whether a plan with this cost for a node would be better."""
        plan = self.plan
        if plan is None or worth != plan.worth:
            return plan is None or worth < plan.worth
        return self._order.rank(node) < self._order.rank(plan.node)

    def put(self, plan: Plan | None) -> None:
        """Keep a plan, if it is better."""
        if plan is not None and self.is_beaten_by(plan.worth, plan.node):
            self.plan = plan


@final
class Planner:
    """Finds the best plan for an ask that does not fit without evictions.

    Args:
        state: The view.
        victim_index: The victims on the nodes.
    """

    def __init__(self, state: ViewState, victim_index: VictimIndex) -> None:
        self._state = state
        self._victim_index = victim_index
        #: The relations of leaves to the queues of preemptors, with the current settings.
        self._sides: dict[Hashable, Sides] = {}
        self._settings = -1
        #: Whether the last search found no possible victim, for any resources.
        self.found_no_victims = False

    def find(self, eligibility: Eligibility, bit: int) -> Steps[Plan | None]:
        """Find the best plan.

        Args:
            eligibility: The eligibility of the preemptor.
            bit: The bit of the shape of the ask.
        """
        eligibility.sides = self._sides_of(eligibility)
        search = Search(self._state, self._victim_index, eligibility)
        if not (yield from search.begin()):
            self.found_no_victims = not search.sides
            return None
        order = NodeOrder(
            self._state.nodes, eligibility.ask.shape, self._standing_of(eligibility.ask)
        )
        best = _Best(order)
        if not search.in_one_order:
            yield from self._look_at(search, order, order.every(), bit, best)
            return best.plan
        for priority, some in self._victim_index.levels():
            floor = search.rank_of(priority)
            if best.plan is not None and best.plan.rank < floor:
                break
            search.floor = max(search.floor, floor)
            yield from self._look_at(search, order, order.some(some), bit, best)
        return best.plan

    # SERVICE-7
    def find_on(self, eligibility: Eligibility, node: Node) -> Steps[Plan | None]:
        """Find the plan for one node, on which an ask lacks nothing but room.

        Args:
            eligibility: The eligibility of the ask.
            node: The node.
        """
        eligibility.sides = self._sides_of(eligibility)
        search = Search(self._state, self._victim_index, eligibility)
        if not (yield from search.begin_on(node)):
            return None
        return (yield from self._plan_on(search, node))

    def _standing_of(self, ask: Ask) -> Standing | None:
        """Return where the members of an ask's gang stand; None without a topology."""
        state = self._state
        return None if ask.gang is None else standing_in(state.gangs[ask.gang], state.apps)

    def _look_at(
        self, search: Search, order: NodeOrder, nodes: Iterable[Node], bit: int, best: _Best
    ) -> Steps[None]:
        """Search nodes, given in order, for a better plan."""
        left: list[tuple[Worth, Place, Node]] = []
        least, is_free = search.least(), False
        candidates = self._candidates(search.eligibility, order, nodes, bit)
        for number, node in enumerate(candidates):
            if number % NODES == 0:
                yield
            if not best.is_beaten_by(least, node):  # No later node can be better either.
                return
            lack = search.lack(node)
            bound: Worth | None
            if lack:
                bound = search.bound(node, lack)
            elif search.over and not is_free:
                # The plan is the same for all nodes that lack nothing.
                bound, is_free = least, True
            else:
                continue
            if bound is None or not best.is_beaten_by(bound, node):
                continue
            if bound > least and self._victim_index.has_unseen:
                yield from self._victim_index.look()
                least = search.least()
            if bound > least:
                left.append((bound, order.rank(node), node))
                continue
            best.put((yield from self._plan_on(search, node)))
        yield from self._look_at_rest(search, left, best)

    def _look_at_rest(
        self, search: Search, left: list[tuple[Worth, Place, Node]], best: _Best
    ) -> Steps[None]:
        """Search nodes that may be better, in the order of their bounds."""
        heapify(left)
        while left:
            yield
            bound, _, node = heappop(left)
            if not best.is_beaten_by(bound, node):
                return
            if search.partial:
                closer = search.closer_bound(node, search.lack(node))
                if closer is None or not best.is_beaten_by(closer, node):
                    continue
            best.put((yield from self._plan_on(search, node)))

    # EVICTION-19, TOPOLOGY-12
    def _candidates(
        self, eligibility: Eligibility, order: NodeOrder, nodes: Iterable[Node], bit: int
    ) -> Iterator[Node]:
        """Return the given nodes that match the ask, and on which it may evict."""
        app, ask, eviction_history = (
            eligibility.app.identity.key,
            eligibility.ask,
            self._state.eviction_history,
        )
        lost = eviction_history.has_lost(app, ask)
        kept_nodes, leaf = self._state.kept_nodes, eligibility.leaf
        for node in nodes:
            if not node.matching >> bit & 1 or (
                lost and eviction_history.lost_on(app, ask, node.name)
            ):
                continue
            # SERVICE-10
            if node.kept and not kept_nodes.is_service(leaf, ask):
                continue
            if order.lets(node):
                yield node

    def _sides_of(self, eligibility: Eligibility) -> Sides:
        """Return the known relations of leaves to the queue of an eligibility."""
        if self._settings != self._state.reconfigured or len(self._sides) > RELATIONS:
            self._settings = self._state.reconfigured
            self._sides.clear()
        return self._sides.setdefault((type(eligibility), eligibility.relation()), {})

    @staticmethod
    def _plan_on(search: Search, node: Node) -> Steps[Plan | None]:
        victims = yield from VictimChoice(search, node).pick()
        if not victims:
            return None
        eligibility = search.eligibility
        ranks: list[Rank] = []
        for victim in victims:
            side = eligibility.side(victim.leaf)
            assert side is not None, "a victim that cannot be one"
            ranks.append(eligibility.rank(side, victim))
        return Plan(eligibility, node, victims, max(ranks))
