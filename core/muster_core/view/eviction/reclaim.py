"""Reclaim: a queue below its ``guaranteed`` gets resources back.

RECLAIM-1 to RECLAIM-12, after Volcano's queue priority and YuniKorn's guaranteed resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from typing_extensions import override

from muster_core.structures.shapes import bits_of
from muster_core.values.decisions import Reason
from muster_core.view.eviction.action import AlikeAsks, EvictionAction, exempt
from muster_core.view.eviction.eligibility import Eligibility, fence_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from muster_core.owners.messages.asks import Ask
    from muster_core.values.resources import Resources
    from muster_core.view.eviction.eligibility import Key, Losses, Rank, Side
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue


@final
class Reclaim(EvictionAction):
    """Reclaim: evictions for queues below their ``guaranteed``.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        #: The leaves and their claimants for which no leaf has a victim.
        self._without_victims: set[tuple[int, int]] = set()

    @override
    def note_without_victims(self, app: ViewApp, ask: Ask) -> None:
        leaf = self.state.leaf_of(app)
        claimant = claimant_of(leaf, ask)
        if claimant is not None:
            self._without_victims.add((leaf.key, claimant.key))

    @override
    def _forget(self) -> None:
        self._without_victims.clear()

    @override
    def leaves(self) -> Iterable[LeafView]:
        found: dict[int, LeafView] = {}
        for queue in self.state.claimants.values():
            if any(queue.pending):
                for leaf in self.state.leaves_below(queue):
                    found[leaf.key] = leaf
        return [leaf for leaf in found.values() if self.claimed(leaf)]

    @staticmethod
    def claimed(leaf: LeafView) -> int:
        """Return the pending shapes of a leaf for which it, or a queue above it, may reclaim."""
        mask = 0
        for queue in leaf.upward():
            mask |= queue.claims
        return mask & leaf.pending_mask

    @override
    def shapes(self, leaf: LeafView) -> int:
        mask = 0
        for bit in bits_of(self.claimed(leaf)):
            if leaf.slots or (
                (leaf.key, bit, 0, "") not in self._without_plan
                and not self._is_without_victims(leaf, bit)
            ):
                mask |= 1 << bit
        return mask

    def _is_without_victims(self, leaf: LeafView, bit: int) -> bool:
        if not self._without_victims:
            return False
        claimant = next(queue for queue in leaf.upward() if queue.claims >> bit & 1)
        return (leaf.key, claimant.key) in self._without_victims

    @override
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        claimant = claimant_of(self.state.leaf_of(app), ask)
        if claimant is None:
            return None
        return ReclaimEligibility(self.state, app, ask, exempt(self.state, ask), claimant)

    @override
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        return (leaf.key, bit, 0, ask.gang or "")

    @override
    def may(self, ask: Ask) -> bool:
        return True


@final
class ReclaimEligibility(Eligibility):
    """The asks that can be victims of reclaim.

    Args:
        state: The view.
        app: The application of the ask.
        ask: The ask.
        exempt: The gangs whose members are no victims.
        claimant: The queue below its ``guaranteed``.
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
        # RECLAIM-6
        self._fence = fence_of(claimant)

    @override
    def relation(self) -> Hashable:
        return (self.leaf.key, self._claimant.key)

    @override
    def fence(self) -> ViewQueue:
        return self._fence

    # RECLAIM-5, RECLAIM-7
    @override
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        return common.depth < self._claimant.depth and leaf.config.settings.reclaimable

    @override
    def deserves(self, side: Side, victim: Victim, losses: Losses) -> bool:
        guaranteed, resources = side.leaf.config.guaranteed, victim.allocation.ask.resources
        if not guaranteed:  # The leaf has every type that the victim has.
            return bool(resources)
        return any(
            amount and losses.left(side.leaf, name) > guaranteed[name]
            for name, amount in resources.items()
        )

    # RECLAIM-9, RECLAIM-10, RECLAIM-11
    @override
    def key(self, side: Side, victim: Victim, losses: Losses) -> Key:
        share = losses.share(side.leaf, self.state.total)
        return (side.queue_rank, -share, *victim.place)

    # RECLAIM-12
    @override
    def rank(self, side: Side, victim: Victim) -> Rank:
        return side.queue_rank

    @override
    def floor(self, side: Side, lowest: int) -> Rank:
        return side.queue_rank

    # RECLAIM-8
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


# RECLAIM-4
def claimant_of(leaf: LeafView, ask: Ask) -> ViewQueue | None:
    """Return the nearest queue above an ask that may reclaim for it, or None."""
    for queue in leaf.upward():
        if queue.parent is not None and _is_owed(queue, ask.resources):
            return queue
    return None


def _is_owed(queue: ViewQueue, resources: Resources) -> bool:
    guaranteed = queue.config.guaranteed
    # RECLAIM-1
    named = [name for name, amount in resources.items() if amount and guaranteed[name]]
    # RECLAIM-2, RECLAIM-3
    return bool(named) and all(
        queue.used(name) + resources[name] <= guaranteed[name] for name in named
    )
