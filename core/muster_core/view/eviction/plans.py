"""Plans: the node on which an ask could be placed, and the victims that must be evicted.

EVICTION-19, EVICTION-25. The chosen node is the one whose highest victim is the lowest, then the
one with the fewest victims, then the first.

The victims on one node (EVICTION-20 to EVICTION-24): the first useful victim in order is taken, and
so on until the ask fits; then each victim that is not needed is spared, from the last to the first.
All candidates for the next victim are in a heap: of each leaf the next plain one, and the units of
gang members. While a plan is made, positions only move back, a victim that may not be taken may not
be taken later, and a useless one stays useless. So it is enough to look at the top of the heap, and
to put it back if its position has changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, final

import attrs

from muster_core.nodes.node import Holder, Node
from muster_core.owners.asks import Ask
from muster_core.structures.ranking import Rank as Place
from muster_core.structures.steps import SIZE, Steps
from muster_core.view.eviction.eligibility import (
    Eligibility,
    Key,
    LeafRelation,
    LeafRelations,
    Losses,
    Rank,
)
from muster_core.view.eviction.search import PlanCost, PlanSearch, VictimIndex, VictimSearch
from muster_core.view.eviction.victims import (
    LeafOnNode,
    NodeVictims,
    UnitTracker,
    Victim,
    VictimUnit,
)
from muster_core.view.gangs import TopologyState, topology_state_of
from muster_core.view.node_finder import PlanNodeOrder
from muster_core.view.state.view_state import ViewState


@final
@attrs.define(eq=False)
class _Candidates:
    """Victims that are evicted alone, in order.

    Attributes:
        side: Their leaf, or None for those of all leaves.
        anywhere: Whether they are on any node, and make headroom.
        position: The index of the next one.
    """

    side: LeafRelation | None
    victims: Sequence[Victim]
    anywhere: bool
    position: int = 0


@final
@attrs.frozen(eq=False)
class _MemberUnit:
    """The unit of a gang member."""

    member: Victim


_HeapItem = tuple["Key", int, _Candidates | _MemberUnit]


@final
class VictimChoice:
    """The choice of the victims that make room for an ask on one node.

    Args:
        node: The node, or None if nothing is missing but headroom.
    """

    def __init__(self, search: VictimSearch, node: Node | None = None) -> None:
        self._search = search
        self._rules = search.rules
        self._node = node
        self._losses = Losses(search.shares)
        self._units = UnitTracker(search.state)
        #: The units taken so far, in order.
        self._taken: list[VictimUnit] = []
        #: How much is missing on the node, and in the headroom of queues; negative amounts are
        #: more than enough.
        self._lack, self._devices = search.missing_on(node)
        self._over = {key: dict(names) for key, names in search.over.items()}
        #: The types that are missing, on the node and in the headroom of queues.
        self._lacking: list[str] = []
        self._overfull: dict[int, list[str]] = {}
        self._find_lacking()
        self._heap: list[_HeapItem] = []
        self._numbers = 0

    def pick(self, *, partly: bool = False) -> Steps[tuple[Victim, ...] | None]:
        """Choose the victims.

        Args:
            partly: Whether to take all that may be taken if they do not suffice.

        Returns:
            The victims, in the order in which they are taken; None if no choice suffices.
        """
        yield from self._begin()
        compared = 0
        # EVICTION-22
        while self._lacking or self._overfull:
            unit = self._next()
            compared += 1
            if compared % SIZE == 0:
                yield
            if unit is not None:
                self._take(unit)
            elif not self._heap:
                if partly:
                    break
                return None
        for number, unit in enumerate(reversed(list(self._taken)), 1):
            if number % SIZE == 0:
                yield
            self._spare(unit)
        return tuple(victim for unit in self._taken for victim in unit)

    # What is missing

    def _find_lacking(self) -> None:
        self._lacking = [name for name, amount in self._lack.items() if amount > 0]
        # DEVICE-10
        self._lacking += self._devices.lacking()
        if self._over:
            overfull = {
                key: [name for name, amount in names.items() if amount > 0]
                for key, names in self._over.items()
            }
            self._overfull = {key: names for key, names in overfull.items() if names}

    def _change(self, victim: Victim, sign: int) -> None:
        """Record that a victim is taken (-1) or spared (1)."""
        resources = victim.allocation.ask.resources
        if victim.node is self._node:
            for name in self._lack:
                self._lack[name] += sign * resources[name]
            self._devices.change(victim.allocation.use, sign)
        if self._over:
            for key in self._search.helping.get(victim.leaf, ()):
                names = self._over[key]
                for name in names:
                    names[name] += sign * resources[name]

    # EVICTION-33
    def _take(self, unit: VictimUnit) -> None:
        self._taken.append(unit)
        self._units.take(unit)
        for victim in unit:
            self._losses.take(victim, self._side(victim).losing)
            self._change(victim, -1)
        self._find_lacking()
        self._enter_rest(unit)

    # EVICTION-23, EVICTION-33
    def _spare(self, unit: VictimUnit) -> None:
        """Spare a unit, if the ask fits without its eviction."""
        for victim in unit:
            self._change(victim, 1)
        self._find_lacking()
        if not self._lacking and not self._overfull and not self._units.would_break(unit):
            self._taken.remove(unit)
            self._units.spare(unit)
            return
        for victim in unit:
            self._change(victim, -1)
        self._find_lacking()

    def _side(self, victim: Victim) -> LeafRelation:
        side = self._rules.side(victim.leaf)
        assert side is not None, "a victim that cannot be one"
        return side

    # The heap

    def _begin(self) -> Steps[None]:
        """Fill the heap with all candidates, each at its position or before it."""
        search = self._search
        members: dict[Victim, None] = {}
        if search.in_one_order:
            there = self._there()
            members.update((one, None) for one in there.members if one.leaf in search.sides)
            self._enter_candidates(_Candidates(None, there.plain, anywhere=False))
        for side, on_node in self._sides() if self._lacking else ():
            if on_node.members:
                members.update(dict.fromkeys(on_node.members))
            if side.leaf.key not in search.helping:
                self._enter_leaf(side, on_node)
        for key in search.helping:
            self._enter_leaf(search.sides[key], None)
            members.update(search.rows[key].members)
        seen: set[Holder] = set()
        for number, member in enumerate(members, 1):
            if number % SIZE == 0:
                yield
            if member.holder not in seen:
                seen.update(victim.holder for victim in self._enter(member))

    def _sides(self) -> Iterable[tuple[LeafRelation, LeafOnNode]]:
        """Return the leaves whose victims are ordered leaf by leaf, with these victims."""
        return () if self._search.in_one_order else self._search.sides_on(self._there())

    def _there(self) -> NodeVictims:
        """Return the victims on the node, on which something is missing."""
        assert self._node is not None, "something is missing on no node"
        return self._search.victim_index.on(self._node)

    def _enter_leaf(self, side: LeafRelation, on_node: LeafOnNode | None) -> None:
        """Add the plain victims of a leaf to the heap: those on the node, or if None on any."""
        there = self._search.rows[side.leaf.key] if on_node is None else on_node
        victims = there.in_order(by_priority=self._rules.sorts_by_priority(side))
        if victims:
            self._push(self._key(side, victims[0]), _Candidates(side, victims, on_node is None))

    def _enter_candidates(self, candidates: _Candidates) -> None:
        """Add candidates to the heap, at the position of the first possible one."""
        head = self._head(candidates)
        if head is not None:
            self._push(self._key(*head), candidates)

    def _head(self, candidates: _Candidates) -> tuple[LeafRelation, Victim] | None:
        """Return the first possible victim of candidates, and pass over those before it."""
        victims, sides = candidates.victims, self._search.sides
        while candidates.position < len(victims):
            victim = victims[candidates.position]
            side = sides.get(victim.leaf) if candidates.side is None else candidates.side
            if side is not None:
                return side, victim
            candidates.position += 1
        return None

    # EVICTION-32
    def _enter(self, member: Victim) -> VictimUnit:
        """Add the unit of a gang member to the heap, if it may be taken; return the unit."""
        unit = self._units.unit_of(member)
        if len(unit) == 1:
            side = self._rules.side(member.leaf)
            if side is not None:
                self._push(self._key(side, member), _MemberUnit(member))
        elif self._qualifies(unit):
            self._push(min(map(self._key_of, unit)), _MemberUnit(member))
        return unit

    def _push(self, key: Key, what: _Candidates | _MemberUnit) -> None:
        self._numbers += 1
        heappush(self._heap, (key, self._numbers, what))

    def _next(self) -> VictimUnit | None:
        """Return the unit on top of the heap if it is the next victim; else remove or move it."""
        if not self._heap:
            return None
        before, _, what = heappop(self._heap)
        if isinstance(what, _MemberUnit):
            return self._first_unit(before, what)
        return self._first_candidate(before, what)

    def _first_candidate(self, before: Key, candidates: _Candidates) -> VictimUnit | None:
        own = candidates.side
        if candidates.anywhere and own is not None and not self._helps(own.leaf.key):
            # Only victims on the node are useful now.
            on_node = self._there().by_leaf().get(own.leaf.key) if self._lacking else None
            if on_node is not None:
                self._enter_leaf(own, on_node)
            return None
        for _ in range(SIZE):
            head = self._head(candidates)
            if head is None:
                return None
            side, victim = head
            if self._qualifies_alone(side, victim):
                key = self._key(side, victim)
                if key > before:
                    self._push(key, candidates)
                    return None
                candidates.position += 1
                self._enter_candidates(candidates)
                return (victim,)
            if candidates.side is not None and self._rules.is_beyond(side, victim.place[0]):
                return None  # No later one may be taken either.
            candidates.position += 1
        self._push(before, candidates)
        return None

    def _first_unit(self, before: Key, what: _MemberUnit) -> VictimUnit | None:
        if self._units.is_taken(what.member):
            return None
        unit = self._units.unit_of(what.member)
        if not self._qualifies(unit):
            return None
        keyed = sorted(((self._key_of(victim), victim) for victim in unit), key=_victim_key)
        if keyed[0][0] > before:
            self._push(keyed[0][0], what)
            return None
        return tuple(victim for _, victim in keyed)

    def _enter_rest(self, unit: VictimUnit) -> None:
        """Add the rest of a gang as one unit, if one member less would leave too few."""
        if len(unit) == 1 and unit[0].gang is not None and unit[0].bound:
            rest = self._units.rest_of(unit[0].gang)
            if len(rest) > 1 and self._qualifies(rest):
                self._push(min(map(self._key_of, rest)), _MemberUnit(rest[0]))

    # Positions and conditions

    def _key(self, side: LeafRelation, victim: Victim) -> Key:
        return self._rules.key(side, victim, self._losses)

    def _key_of(self, victim: Victim) -> Key:
        return self._rules.key(self._side(victim), victim, self._losses)

    # EVICTION-32
    def _qualifies(self, unit: VictimUnit) -> bool:
        """Return whether a unit that was not taken is useful and may be taken."""
        return any(map(self._is_useful, unit)) and self._rules.may_take(unit, self._losses)

    def _qualifies_alone(self, side: LeafRelation, victim: Victim) -> bool:
        return (
            self._is_useful(victim)
            and not self._units.is_taken(victim)
            and self._rules.may_take_one(side, victim, self._losses)
        )

    def _helps(self, leaf: int) -> bool:
        return any(key in self._overfull for key in self._search.helping.get(leaf, ()))

    # EVICTION-20, EVICTION-21
    def _is_useful(self, victim: Victim) -> bool:
        resources = victim.allocation.ask.resources
        if victim.node is self._node:
            for name in self._lacking:
                if resources[name]:
                    return True
        if not self._overfull:
            return False
        return any(
            resources[name]
            for key in self._search.helping.get(victim.leaf, ())
            for name in self._overfull.get(key, ())
        )


def _victim_key(keyed: tuple[Key, Victim]) -> Key:
    return keyed[0]


NODES: Final = 8
"""How many nodes' bounds are looked at in one step."""

RELATIONS: Final = 256
"""For how many preemptors' queues the relations of leaves are kept."""


@final
@attrs.frozen(eq=False)
class Plan:
    """A way to place an ask.

    Attributes:
        victims: The victims, in the order in which they are taken.
        rank: The highest rank among them.
    """

    eligibility: Eligibility
    node: Node
    victims: tuple[Victim, ...]
    rank: Rank

    # EVICTION-25
    @property
    def worth(self) -> PlanCost:
        """The cost of the plan."""
        return self.rank, len(self.victims)


@final
class _BestPlan:
    """The best plan so far."""

    __slots__ = ("_order", "plan")

    def __init__(self, order: PlanNodeOrder) -> None:
        self.plan: Plan | None = None
        self._order = order

    # EVICTION-25
    def is_beaten_by(self, worth: PlanCost, node: Node) -> bool:
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
    """Finds the best plan for an ask that does not fit without evictions."""

    def __init__(self, state: ViewState, victim_index: VictimIndex) -> None:
        self._state = state
        self._victim_index = victim_index
        #: The relations of leaves to the queues of preemptors, with the current settings.
        self._sides: dict[Hashable, LeafRelations] = {}
        self._settings = -1
        #: Whether the last search found no possible victim, for any resources.
        self.found_no_victims = False

    def find(self, eligibility: Eligibility, bit: int) -> Steps[Plan | None]:
        """Find the best plan."""
        eligibility.sides = self._sides_of(eligibility)
        search = PlanSearch(self._state, self._victim_index, eligibility)
        if not (yield from search.begin()):
            self.found_no_victims = not search.sides
            return None
        order = PlanNodeOrder(
            self._state.nodes, eligibility.ask.shape, self._standing_of(eligibility.ask)
        )
        best = _BestPlan(order)
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
        """Find the plan for one node, on which an ask lacks nothing but room."""
        eligibility.sides = self._sides_of(eligibility)
        search = PlanSearch(self._state, self._victim_index, eligibility)
        if not (yield from search.begin_on(node)):
            return None
        return (yield from self._plan_on(search, node))

    def _standing_of(self, ask: Ask) -> TopologyState | None:
        """Return the domains of the members of an ask's gang; None without a topology."""
        state = self._state
        return None if ask.gang is None else topology_state_of(state.gangs[ask.gang], state.apps)

    def _look_at(
        self,
        search: PlanSearch,
        order: PlanNodeOrder,
        nodes: Iterable[Node],
        bit: int,
        best: _BestPlan,
    ) -> Steps[None]:
        """Search nodes, given in order, for a better plan."""
        left: list[tuple[PlanCost, Place, Node]] = []
        least, is_free = search.least(), False
        candidates = self._candidates(search.eligibility, order, nodes, bit)
        for number, node in enumerate(candidates):
            if number % NODES == 0:
                yield
            if not best.is_beaten_by(least, node):  # No later node can be better either.
                return
            lack = search.lack(node)
            bound: PlanCost | None
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
        self, search: PlanSearch, left: list[tuple[PlanCost, Place, Node]], best: _BestPlan
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
        self, eligibility: Eligibility, order: PlanNodeOrder, nodes: Iterable[Node], bit: int
    ) -> Iterator[Node]:
        """Return the given nodes that match the ask, and on which it may evict."""
        app, ask = eligibility.app.identity.key, eligibility.ask
        history = self._state.eviction_history
        lost = history.has_lost(app, ask)
        kept_nodes, leaf = self._state.kept_nodes, eligibility.leaf
        for node in nodes:
            if not node.matching >> bit & 1 or (lost and history.lost_on(app, ask, node.name)):
                continue
            # SERVICE-10
            if node.kept and not kept_nodes.is_service(leaf, ask):
                continue
            if order.lets(node):
                yield node

    def _sides_of(self, eligibility: Eligibility) -> LeafRelations:
        """Return the known relations of leaves to the queue of an eligibility."""
        if self._settings != self._state.reconfigured or len(self._sides) > RELATIONS:
            self._settings = self._state.reconfigured
            self._sides.clear()
        return self._sides.setdefault((type(eligibility), eligibility.relation), {})

    @staticmethod
    def _plan_on(search: PlanSearch, node: Node) -> Steps[Plan | None]:
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
