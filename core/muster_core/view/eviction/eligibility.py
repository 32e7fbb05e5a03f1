"""The asks that can be victims: what reclaim, preemption and quota preemption share.

EVICTION-13 to EVICTION-18. An eligibility belongs to one preemptor, or to a queue that is over its
``max``. It says how each leaf is related to that, and which asks of the leaf may be evicted. Every
queue below the common ancestor keeps what it deserves: its ``guaranteed``, or what its weight gives
it; and so does the queue that is over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import final

import attrs
from typing_extensions import override

from muster_core.owners.asks import Ask
from muster_core.structures.amounts import add_to, take_from
from muster_core.values.configuration import PreemptionPolicy
from muster_core.values.decisions import Reason
from muster_core.view.eviction.victims import Victim
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue

Rank = tuple[int, ...]
"""The rank of a victim, compared with victims of other queues; () is the lowest."""

Key = tuple[Rank, float, int, int]
"""The position of a victim; the lowest is taken first."""


@final
class Losses:
    """The resources that queues lose to a plan.

    Args:
        shares: The fair shares of leaves that have lost nothing; only those that were asked
            for. Plans share them as long as nothing changes.
    """

    __slots__ = ("_lost", "_own", "_shares")

    def __init__(self, shares: dict[int, float] | None = None) -> None:
        self._lost: dict[int, dict[str, int]] = {}
        self._shares: dict[int, float] = {} if shares is None else shares
        #: The fair shares of leaves that have lost something, until they lose more.
        self._own: dict[int, float] = {}

    def take(self, victim: Victim, path: Iterable[ViewQueue]) -> None:
        """Subtract a victim from queues that contain it."""
        self._own.pop(victim.leaf, None)
        for queue in path:
            lost = self._lost.get(queue.key)
            if lost is None:
                lost = self._lost[queue.key] = {}
            add_to(lost, victim.allocation.ask.resources)

    def spare(self, victim: Victim, path: Iterable[ViewQueue]) -> None:
        """Add a victim again to queues from which it was subtracted."""
        self._own.pop(victim.leaf, None)
        for queue in path:
            take_from(self._lost[queue.key], victim.allocation.ask.resources)

    def left(self, queue: ViewQueue, name: str) -> int:
        """Return how much of a type is left in a queue."""
        lost = self._lost.get(queue.key)
        there = queue.used(name)
        return there if lost is None else there - lost.get(name, 0)

    # RECLAIM-10
    def share(self, leaf: LeafView, total: Mapping[str, int]) -> float:
        """Return the fair share of a leaf after its losses."""
        if not self._lost.get(leaf.key):
            share = self._shares.get(leaf.key)
            if share is None:
                share = self._shares[leaf.key] = leaf.share_of(leaf.allocated, total)
            return share
        share = self._own.get(leaf.key)
        if share is None:
            left = [self.left(leaf, name) for name in leaf.types.names]
            share = self._own[leaf.key] = leaf.share_of(left, total)
        return share


@final
@attrs.frozen(eq=False)
class LeafRelation:
    """The relation of a leaf to the leaf of a preemptor.

    Attributes:
        guards: The leaf and its ancestors below the common ancestor; empty if nothing that
            they deserve protects the leaf.
        guarded: The guards that deserve something.
        losing: The queues whose losses must be counted: these, and the leaf.
        queue_rank: The ``queue.priority`` of the guards from above, without zeros at the end.
        added: The number added to a priority in the leaf to make it effective.
        fixed: The effective priority of all asks of the leaf, if a fence sets it.
        raised: The number added to the priority of the preemptor to make it effective.
        replaced: The effective priority of the preemptor, if a fence sets it.
        services: Whether asks of the leaf can be node services, which are no victims.
        min_runtime_us: For how long an ask of the leaf is no victim after it was bound.
    """

    leaf: LeafView
    guards: tuple[ViewQueue, ...]
    guarded: tuple[ViewQueue, ...]
    losing: tuple[ViewQueue, ...]
    queue_rank: Rank
    added: int
    fixed: int | None
    raised: int
    replaced: int | None
    services: bool = False
    min_runtime_us: int = 0

    # PREEMPTION-5
    def effective(self, priority: int) -> int:
        """Return the effective priority of an ask in the leaf."""
        return priority + self.added if self.fixed is None else self.fixed

    def worth(self, priority: int) -> int:
        """Return the effective priority of the preemptor."""
        return priority + self.raised if self.replaced is None else self.replaced

    def surplus(self, name: str) -> int | None:
        """Return the most of a type that can be taken from the leaf; None if all of it."""
        return min(
            (queue.used(name) - queue.deserved[name] for queue in self.guards),
            default=None,
        )


LeafRelations = dict[int, tuple["LeafView", LeafRelation | None]]
"""The relations of leaves to one queue, by key; each with the leaf for which it was found."""


class VictimRules(ABC):
    """The asks that can be victims: unless a class says otherwise, by queues and their shares.

    Args:
        exempt: The gangs whose members are no victims.

    Attributes:
        reason: The reason with which victims are released.
        ranks_by_priority: Whether the choice of the node depends on the priorities of victims.
        over_max: The path of the queue that has more than its ``max``, if that is why; or None.
    """

    reason: Reason
    ranks_by_priority: bool = False
    over_max: str | None = None

    def __init__(self, state: ViewState, exempt: frozenset[str]) -> None:
        self.state = state
        self._exempt = exempt
        #: The relations of leaves; only those that were asked for.
        self.sides: LeafRelations = {}

    def deserves(self, side: LeafRelation, victim: Victim, losses: Losses) -> bool:
        """Return whether a victim may be taken, regardless of the protection of its queues."""
        return not self.is_beyond(side, victim.place[0])

    # RECLAIM-9, RECLAIM-10, RECLAIM-11, QUOTA-10
    def key(self, side: LeafRelation, victim: Victim, losses: Losses) -> Key:
        """Return the position of a victim."""
        share = losses.share(side.leaf, self.state.total)
        return (side.queue_rank, -share, *victim.place)

    def rank(self, side: LeafRelation, victim: Victim) -> Rank:
        """Return the rank of a victim, for the choice of the node."""
        return self.floor(side, victim.place[0])

    # RECLAIM-12
    def floor(self, side: LeafRelation, lowest: int) -> Rank:
        """Return a lower bound of the ranks of a leaf's victims.

        Args:
            side: The leaf.
            lowest: A lower bound of the priorities of the victims.
        """
        return side.queue_rank

    # RECLAIM-8
    def is_beyond(self, side: LeafRelation, priority: int) -> bool:
        """Return whether no ask of a leaf with this priority or a higher one may be taken."""
        return False

    def sorts_by_priority(self, side: LeafRelation) -> bool:
        """Return whether priorities order the victims of a leaf, or only their age."""
        return True

    @abstractmethod
    def why(self, victim: Victim) -> str:
        """Return why a victim is taken, for the log."""

    def side(self, key: int) -> LeafRelation | None:
        """Return the relation of a leaf; None if no ask there can be a victim."""
        leaf = self.state.queues[key]
        found = self.sides.get(key)
        if found is None or found[0] is not leaf:
            assert isinstance(leaf, LeafView), "an application in a parent queue"
            found = self.sides[key] = (leaf, self._find_side(leaf))
        return found[1]

    @abstractmethod
    def _find_side(self, leaf: LeafView) -> LeafRelation | None:
        """Find what :meth:`side` returns."""

    @staticmethod
    def _relation(
        leaf: LeafView, guards: Sequence[ViewQueue], ranked: Sequence[ViewQueue]
    ) -> LeafRelation | None:
        """Return the relation of a leaf, without priorities; None if the leaf gives nothing.

        Args:
            leaf: The leaf.
            guards: The leaf and those above it that keep their ``guaranteed``, from below.
            ranked: Those of which the ``queue.priority`` counts, from below.
        """
        settings = leaf.config.settings
        # EVICTION-15
        if settings.preemption_policy is PreemptionPolicy.DISABLED:
            return None
        # RECLAIM-9
        ranks = [queue.config.settings.queue_priority for queue in reversed(ranked)]
        while ranks and not ranks[-1]:
            ranks.pop()
        # SHARE-15
        guarded = tuple(queue for queue in guards if queue.by_weight or queue.deserved)
        return LeafRelation(
            leaf,
            guards=tuple(guards),
            guarded=guarded,
            losing=guarded if leaf in guarded else (leaf, *guarded),
            queue_rank=tuple(ranks),
            added=0,
            fixed=None,
            raised=0,
            replaced=None,
            services=settings.required_node,
            min_runtime_us=settings.min_runtime_us,
        )

    def _is_protected(self, side: LeafRelation, victim: Victim) -> bool:
        """Return whether an ask is no victim whatever its queues lose."""
        ask = victim.allocation.ask
        # SERVICE-3
        if side.services and self.state.kept_nodes.is_service(side.leaf, ask):
            return True
        # RUNTIME-2
        return (
            side.min_runtime_us > 0
            and victim.bound
            and not self.state.timers.protections.is_over(victim.allocation, side.min_runtime_us)
        )

    def may_take_one(self, side: LeafRelation, victim: Victim, losses: Losses) -> bool:
        """Return whether a victim may be taken alone, given the losses so far."""
        ask = victim.allocation.ask
        if ask.gang in self._exempt or not self.deserves(side, victim, losses):
            return False
        if (side.services or side.min_runtime_us) and self._is_protected(side, victim):
            return False
        # EVICTION-16
        for queue in side.guarded:
            deserved = queue.deserved
            for name, amount in ask.resources.items():
                if losses.left(queue, name) - amount < deserved[name]:
                    return False
        return True

    # EVICTION-31, RUNTIME-3
    def may_take(self, unit: Sequence[Victim], losses: Losses) -> bool:
        """Return whether victims may be taken together, given the losses so far."""
        falls: dict[int, dict[str, int]] = {}
        for victim in unit:
            side = self.side(victim.leaf)
            if side is None or victim.allocation.ask.gang in self._exempt:
                return False
            if not self.deserves(side, victim, losses) or self._is_protected(side, victim):
                return False
            for queue in side.guarded:
                add_to(falls.setdefault(queue.key, {}), victim.allocation.ask.resources)
        # EVICTION-16
        for key, amounts in falls.items():
            queue = self.state.queues[key]
            deserved = queue.deserved
            for name, amount in amounts.items():
                if amount and losses.left(queue, name) - amount < deserved[name]:
                    return False
        return True


class Eligibility(VictimRules):
    """The asks that can be victims for one ask.

    Args:
        exempt: The gangs whose members are no victims.

    Attributes:
        fence: The queue outside which no ask is a victim.
        relation: A key; eligibilities with equal keys have equal sides until settings change.
    """

    def __init__(self, state: ViewState, app: ViewApp, ask: Ask, exempt: frozenset[str]) -> None:
        super().__init__(state, exempt)
        self.app = app
        self.ask = ask
        self.leaf = state.leaf_of(app)
        self.fence = state.root
        self.relation: Hashable = None
        self._path = {queue.key: queue for queue in self.leaf.upward()}

    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        """Return whether settings and the tree allow asks of a leaf to be victims.

        Args:
            leaf: The leaf.
            common: The lowest common ancestor of both leaves, which is inside the fence.
        """
        return True

    @override
    def _find_side(self, leaf: LeafView) -> LeafRelation | None:
        common: ViewQueue = next(queue for queue in leaf.upward() if queue.key in self._path)
        # EVICTION-14
        if common.depth < self.fence.depth or not self.reaches(leaf, common):
            return None
        # EVICTION-17, PREEMPTION-7
        below = tuple(queue for queue in leaf.upward() if queue.depth > common.depth)
        relation = self._relation(leaf, below, below)
        if relation is None:
            return None
        # PREEMPTION-5
        mine = [queue for queue in self.leaf.upward() if queue.depth > common.depth]
        (added, fixed), (raised, replaced) = _offsets(below), _offsets(mine)
        return attrs.evolve(relation, added=added, fixed=fixed, raised=raised, replaced=replaced)

    def lacking(self, losses: Losses) -> dict[int, set[str]]:
        """Return the queues above the ask that lack headroom for it, and the types."""
        lacks: dict[int, set[str]] = {}
        resources = self.ask.resources
        for queue in self._path.values():
            for name, most in queue.config.max.amounts:
                amount = resources[name]
                if amount and losses.left(queue, name) + amount > most:
                    lacks.setdefault(queue.key, set()).add(name)
        return lacks


# PREEMPTION-5, PREEMPTION-6
def _offsets(path: Iterable[ViewQueue]) -> tuple[int, int | None]:
    """Return what queues on a path, from below, add to a priority, or replace it with."""
    added, fixed = 0, None
    for queue in path:
        settings = queue.config.settings
        if settings.fence:
            fixed = settings.offset
        elif fixed is not None:
            fixed += settings.offset
        else:
            added += settings.offset
    return added, fixed


# EVICTION-14
def fence_of(queue: ViewQueue) -> ViewQueue:
    """Return the nearest queue with a preemption fence, which may be the queue itself, or root."""
    fence = queue
    while fence.parent is not None and not _is_fence(fence):
        fence = fence.parent
    return fence


def _is_fence(queue: ViewQueue) -> bool:
    return queue.config.settings.preemption_policy is PreemptionPolicy.FENCE
