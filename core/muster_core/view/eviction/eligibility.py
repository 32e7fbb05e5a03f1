"""Who can be a victim for an ask: what reclaim and preemption have in common.

EVICTION-13 to EVICTION-18. A scope belongs to one ask that wants something. It says of each leaf how
that stands to the ask, and of asks there whether they may be taken. Every queue below the
common ancestor is left with what it is guaranteed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.totals import add_to, take_from
from muster_core.values.configuration import PreemptionPolicy
from muster_core.values.decisions import Reason
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

Rank = tuple[int, ...]
"""How high a victim stands among those of other queues; () is lower than all."""

Key = tuple[Rank, float, int, int]
"""The place of a victim, the first to be taken lowest."""


@final
class Losses:
    """What queues have lost to a plan.

    Args:
        shares: The fair shares of leaves that have lost nothing, as far as they were asked
            for; several plans have them in common as long as nothing changes.
    """

    __slots__ = ("_lost", "_own", "_shares")

    def __init__(self, shares: dict[int, float] | None = None) -> None:
        self._lost: dict[int, dict[str, int]] = {}
        self._shares: dict[int, float] = {} if shares is None else shares
        #: The fair shares of leaves that have lost anything, as long as nothing changes.
        self._own: dict[int, float] = {}

    def take(self, victim: Victim, path: Iterable[ViewQueue]) -> None:
        """Take a victim from queues that it is in."""
        self._own.pop(victim.leaf, None)
        for queue in path:
            lost = self._lost.get(queue.key)
            if lost is None:
                lost = self._lost[queue.key] = {}
            add_to(lost, victim.allocation.ask.resources)

    def spare(self, victim: Victim, path: Iterable[ViewQueue]) -> None:
        """Give a victim back to queues from which it was taken."""
        self._own.pop(victim.leaf, None)
        for queue in path:
            take_from(self._lost[queue.key], victim.allocation.ask.resources)

    def left(self, queue: ViewQueue, name: str) -> int:
        """Give what a queue has left of a type."""
        lost = self._lost.get(queue.key)
        there = queue.allocated.get(name, 0)
        return there if lost is None else there - lost.get(name, 0)

    def share(self, leaf: LeafView, total: Mapping[str, int]) -> float:
        """Give the fair share of a leaf with what it has left."""
        if not self._lost.get(leaf.key):
            share = self._shares.get(leaf.key)
            if share is None:
                share = self._shares[leaf.key] = leaf.share_of(leaf.allocated, total)
            return share
        share = self._own.get(leaf.key)
        if share is None:
            left = {name: self.left(leaf, name) for name in leaf.allocated}
            share = self._own[leaf.key] = leaf.share_of(left, total)
        return share


@final
@attrs.frozen(eq=False)
class Side:
    """How a leaf stands to a queue from which something is wanted, whatever that is.

    Attributes:
        leaf: The leaf.
        guards: The leaf and the queues above it below the common ancestor; none if nothing
            is protected by ``guaranteed``.
        guarded: Those of them that are guaranteed anything.
        losing: The queues of which it has to be known what they lose: those, and the leaf.
        queue_rank: The ``queue.priority`` of the guards from above, without zeros at the end.
        added: What is to be added to a priority in the leaf to compare it.
        fixed: With what everything in the leaf is compared, if a fence replaces it.
        raised: What is to be added to the priority of who wants something in that comparison.
        replaced: What they are all worth in it, if a fence replaces that.
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

    def effective(self, priority: int) -> int:
        """Give the effective priority of an ask in the leaf."""
        return priority + self.added if self.fixed is None else self.fixed

    def worth(self, priority: int) -> int:
        """Give the effective priority of who wants something."""
        return priority + self.raised if self.replaced is None else self.replaced

    def surplus(self, name: str) -> int | None:
        """Give how much of a type can be taken from the leaf at most; None if all of it."""
        return min(
            (queue.allocated.get(name, 0) - queue.config.guaranteed[name] for queue in self.guards),
            default=None,
        )


Sides = dict[int, tuple["LeafView", Side | None]]
"""How leaves stand to one queue, by key; each with the leaf for which that was found."""


class Eligibility(ABC):
    """Who can be a victim for one ask.

    Args:
        state: The view.
        app: The application of the ask.
        ask: The ask.
        exempt: The gangs whose members are no victims.

    Attributes:
        reason: With which reason victims are released.
        ranks_by_priority: Whether the choice of the node goes by the priorities of victims.
    """

    reason: Reason
    ranks_by_priority: bool

    def __init__(self, state: ViewState, app: ViewApp, ask: Ask, exempt: frozenset[str]) -> None:
        self.state = state
        self.app = app
        self.ask = ask
        self.leaf = state.leaf_of(app)
        self._exempt = exempt
        self._path = {queue.key: queue for queue in self.leaf.upward()}
        #: As far as they were asked for.
        self.sides: Sides = {}

    @abstractmethod
    def relation(self) -> Hashable:
        """Give what scopes have in common to which leaves stand alike, until settings change."""

    @abstractmethod
    def fence(self) -> ViewQueue:
        """Give the queue outside of which nobody is a victim."""

    @abstractmethod
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        """Say whether asks of a leaf can be victims, as far as settings and places go.

        Args:
            leaf: The leaf.
            common: The lowest queue above both, which is inside the fence.
        """

    @abstractmethod
    def deserves(self, side: Side, victim: Victim, losses: Losses) -> bool:
        """Say whether a victim may be taken for its own sake, its queues left aside."""

    @abstractmethod
    def key(self, side: Side, victim: Victim, losses: Losses) -> Key:
        """Give the place of a victim."""

    @abstractmethod
    def rank(self, side: Side, victim: Victim) -> Rank:
        """Give how high a victim stands, for the choice of the node."""

    @abstractmethod
    def floor(self, side: Side, lowest: int) -> Rank:
        """Give a rank that no victim of a leaf is below.

        Args:
            side: The leaf.
            lowest: A priority that no victim is below.
        """

    @abstractmethod
    def is_beyond(self, side: Side, priority: int) -> bool:
        """Say whether no ask of a leaf with this priority or a higher one may be taken."""

    @abstractmethod
    def sorts_by_priority(self, side: Side) -> bool:
        """Say whether priorities count among the victims of a leaf, or only their age."""

    @abstractmethod
    def why(self, victim: Victim) -> str:
        """Say why a victim is taken, for the log."""

    def side(self, key: int) -> Side | None:
        """Say how a leaf stands to the ask; None if nobody there can be a victim."""
        leaf = self.state.queues[key]
        found = self.sides.get(key)
        if found is None or found[0] is not leaf:
            assert isinstance(leaf, LeafView), "an application in a parent queue"
            found = self.sides[key] = (leaf, self._find_side(leaf))
        return found[1]

    def _find_side(self, leaf: LeafView) -> Side | None:
        common: ViewQueue = next(queue for queue in leaf.upward() if queue.key in self._path)
        if leaf.config.settings.preemption_policy is PreemptionPolicy.DISABLED:
            return None
        if common.depth < self.fence().depth or not self.reaches(leaf, common):
            return None
        below = tuple(queue for queue in leaf.upward() if queue.depth > common.depth)
        added, fixed = _offsets(below)
        mine, replaced = _offsets(
            queue for queue in self.leaf.upward() if queue.depth > common.depth
        )
        ranks = [queue.config.settings.queue_priority for queue in reversed(below)]
        while ranks and not ranks[-1]:
            ranks.pop()
        guarded = tuple(queue for queue in below if queue.config.guaranteed)
        losing = guarded if leaf in guarded else (leaf, *guarded)
        return Side(leaf, below, guarded, losing, tuple(ranks), added, fixed, mine, replaced)

    def may_take_one(self, side: Side, victim: Victim, losses: Losses) -> bool:
        """Say whether a victim may be taken by itself, with what is lost already."""
        ask = victim.allocation.ask
        if ask.gang in self._exempt or not self.deserves(side, victim, losses):
            return False
        for queue in side.guarded:
            guaranteed = queue.config.guaranteed
            for name, amount in ask.resources.items():
                if losses.left(queue, name) - amount < guaranteed[name]:
                    return False
        return True

    def may_take(self, unit: Sequence[Victim], losses: Losses) -> bool:
        """Say whether victims may be taken together, with what is lost already."""
        falls: dict[int, dict[str, int]] = {}
        for victim in unit:
            side = self.side(victim.leaf)
            if side is None or victim.allocation.ask.gang in self._exempt:
                return False
            if not self.deserves(side, victim, losses):
                return False
            for queue in side.guarded:
                add_to(falls.setdefault(queue.key, {}), victim.allocation.ask.resources)
        for key, amounts in falls.items():
            queue = self.state.queues[key]
            guaranteed = queue.config.guaranteed
            for name, amount in amounts.items():
                if amount and losses.left(queue, name) - amount < guaranteed[name]:
                    return False
        return True

    def lacking(self, losses: Losses) -> dict[int, set[str]]:
        """Give the queues above the ask in whose headroom it does not fit, and for which types."""
        lacks: dict[int, set[str]] = {}
        resources = self.ask.resources
        for queue in self._path.values():
            for name, most in queue.config.max.amounts:
                amount = resources[name]
                if amount and losses.left(queue, name) + amount > most:
                    lacks.setdefault(queue.key, set()).add(name)
        return lacks


def _offsets(path: Iterable[ViewQueue]) -> tuple[int, int | None]:
    """Give what queues on a path, from below, make of a priority: added, or replaced by."""
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


def fence_of(queue: ViewQueue) -> ViewQueue:
    """Give the nearest queue with a fence for preemption, the queue itself included, or root."""
    fence = queue
    while fence.parent is not None and not _is_fence(fence):
        fence = fence.parent
    return fence


def _is_fence(queue: ViewQueue) -> bool:
    return queue.config.settings.preemption_policy is PreemptionPolicy.FENCE
