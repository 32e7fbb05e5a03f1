"""The two claims that an ask can have on what others hold: reclaim and preemption.

RECLAIM-1 to RECLAIM-12, PREEMPTION-1 to PREEMPTION-9. Reclaim (after Volcano's queue priority and YuniKorn's guaranteed shares)
goes by what queues have and are guaranteed, preemption (after YuniKorn's priority offsets
and fences) by what asks are worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from typing_extensions import override

from muster_core.values.configuration import PreemptionPolicy
from muster_core.values.decisions import Reason
from muster_core.view.eviction.eligibility import Eligibility

if TYPE_CHECKING:
    from collections.abc import Hashable

    from muster_core.owners.messages.asks import Ask
    from muster_core.values.resources import Resources
    from muster_core.view.eviction.eligibility import Key, Losses, Rank, Side
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue


@final
class ReclaimEligibility(Eligibility):
    """Who can be a victim of reclaim.

    Args:
        state: The view.
        app: The application of the ask.
        ask: The ask.
        exempt: The gangs whose members are no victims.
        claimant: The queue that has less than it is guaranteed.
    """

    reason = Reason.RECLAIMED
    ranks_by_priority = False

    def __init__(
        self,
        state: ViewState,
        app: ViewApp,
        ask: Ask,
        exempt: frozenset[str],
        claimant: ViewQueue,
    ) -> None:
        super().__init__(state, app, ask, exempt)
        self._claimant = claimant
        self._fence = _fence_of(claimant)

    @override
    def relation(self) -> Hashable:
        return (self.leaf.key, self._claimant.key)

    @override
    def fence(self) -> ViewQueue:
        return self._fence

    @override
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        return common.depth < self._claimant.depth and leaf.config.settings.reclaimable

    @override
    def deserves(self, side: Side, victim: Victim, losses: Losses) -> bool:
        guaranteed, resources = side.leaf.config.guaranteed, victim.allocation.ask.resources
        if not guaranteed:  # It has what the victim has.
            return bool(resources)
        return any(
            amount and losses.left(side.leaf, name) > guaranteed[name]
            for name, amount in resources.items()
        )

    @override
    def key(self, side: Side, victim: Victim, losses: Losses) -> Key:
        share = losses.share(side.leaf, self.state.total)
        return (side.queue_rank, -share, *victim.place)

    @override
    def rank(self, side: Side, victim: Victim) -> Rank:
        return side.queue_rank

    @override
    def floor(self, side: Side, lowest: int) -> Rank:
        return side.queue_rank

    @override
    def is_beyond(self, side: Side, priority: int) -> bool:
        return False

    @override
    def sorts_by_priority(self, side: Side) -> bool:
        return True

    @override
    def why(self, victim: Victim) -> str:
        path = self._claimant.config.path
        return f"for {self.app.identity.name}/{self.ask.name}: {path} is below its guaranteed"


@final
class PreemptionEligibility(Eligibility):
    """Who can be a victim of priority preemption.

    Args:
        state: The view.
        app: The application of the ask.
        ask: The ask.
        exempt: The gangs whose members are no victims.
    """

    reason = Reason.PREEMPTED
    ranks_by_priority = True

    def __init__(self, state: ViewState, app: ViewApp, ask: Ask, exempt: frozenset[str]) -> None:
        super().__init__(state, app, ask, exempt)
        self._fence = _fence_of(self.leaf)

    @override
    def relation(self) -> Hashable:
        return self.leaf.key

    @override
    def fence(self) -> ViewQueue:
        return self._fence

    @override
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        return True

    @override
    def deserves(self, side: Side, victim: Victim, losses: Losses) -> bool:
        return not self.is_beyond(side, victim.allocation.ask.priority)

    @override
    def key(self, side: Side, victim: Victim, losses: Losses) -> Key:
        return ((side.effective(victim.place[0]),), 0.0, 0, victim.place[1])

    @override
    def rank(self, side: Side, victim: Victim) -> Rank:
        return (side.effective(victim.allocation.ask.priority),)

    @override
    def floor(self, side: Side, lowest: int) -> Rank:
        return (side.effective(lowest),)

    @override
    def is_beyond(self, side: Side, priority: int) -> bool:
        return side.effective(priority) >= side.worth(self.ask.priority)

    @override
    def sorts_by_priority(self, side: Side) -> bool:
        return side.fixed is None

    @override
    def why(self, victim: Victim) -> str:
        side = self.side(victim.app.identity.leaf)
        assert side is not None, "a victim that cannot be one"
        worth, theirs = side.worth(self.ask.priority), side.effective(victim.place[0])
        name = f"{self.app.identity.name}/{self.ask.name}"
        return f"for {name}: its effective priority {worth} is above {theirs}"


def claimant_of(leaf: LeafView, ask: Ask) -> ViewQueue | None:
    """Give the nearest queue above an ask that may reclaim for it, or None."""
    for queue in leaf.upward():
        if queue.parent is not None and _is_owed(queue, ask.resources):
            return queue
    return None


def _is_owed(queue: ViewQueue, resources: Resources) -> bool:
    guaranteed = queue.config.guaranteed
    named = [name for name, amount in resources.items() if amount and guaranteed[name]]
    return bool(named) and all(
        queue.allocated.get(name, 0) + resources[name] <= guaranteed[name] for name in named
    )


def _fence_of(queue: ViewQueue) -> ViewQueue:
    """Give the nearest queue with a fence for preemption, the queue itself included, or root."""
    fence = queue
    while fence.parent is not None and not _is_fence(fence):
        fence = fence.parent
    return fence


def _is_fence(queue: ViewQueue) -> bool:
    return queue.config.settings.preemption_policy is PreemptionPolicy.FENCE
