"""Priority preemption: an ask whose class allows it evicts asks of lower priority.

PREEMPTION-1 to PREEMPTION-9, after YuniKorn's priority offsets and fences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from typing_extensions import override

from muster_core.values.decisions import Reason
from muster_core.view.eviction.action import AlikeAsks, EvictionAction, exempt
from muster_core.view.eviction.eligibility import Eligibility, fence_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.eligibility import Key, Losses, Rank, Side
    from muster_core.view.eviction.victim_index import VictimIndex
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue


@final
class Preemption(EvictionAction):
    """Priority preemption: evictions for asks whose class allows it.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        super().__init__(state)
        #: Asks of this priority or a lower one have no victims; None if that is unknown.
        self._least: int | None = None
        #: The same for single leaves, by key.
        self._leasts: dict[int, int] = {}

    @override
    def note_without_victims(self, app: ViewApp, ask: Ask) -> None:
        leaf = app.identity.leaf
        self._leasts[leaf] = max(ask.priority, self._leasts.get(leaf, ask.priority))

    @override
    def _forget(self) -> None:
        self._leasts.clear()

    @override
    def prepare(self, victim_index: VictimIndex, now_us: int) -> Steps[None]:
        self._least = None
        leaves = self.state.preempting.values()
        if any(self._may_have(leaf, now_us) for leaf in leaves) and self._compares_plainly():
            yield from victim_index.refresh()
            yield from victim_index.look()
            self._least = victim_index.lowest()

    def _compares_plainly(self) -> bool:
        """Return whether priorities are compared unchanged in all queues."""
        settings = (queue.config.settings for queue in self.state.queues.values())
        return not any(one.offset or one.fence for one in settings)

    @override
    def leaves(self) -> Iterable[LeafView]:
        return list(self.state.preempting.values())

    @override
    def shapes(self, leaf: LeafView) -> int:
        mask, least = 0, self._leasts.get(leaf.key, self._least)
        for bit, priority, gang in leaf.preempting:
            if (least is None or priority > least) and (
                (leaf.key, bit, priority, gang) not in self._without_plan
            ):
                mask |= 1 << bit
        return mask

    @override
    def eligibility(self, app: ViewApp, ask: Ask) -> Eligibility | None:
        return PreemptionEligibility(self.state, app, ask, exempt(self.state, ask))

    @override
    def alike(self, leaf: LeafView, ask: Ask, bit: int) -> AlikeAsks:
        return (leaf.key, bit, ask.priority, ask.gang or "")

    # PREEMPTION-1, PREEMPTION-2
    @override
    def may(self, ask: Ask) -> bool:
        return ask.preempts


@final
class PreemptionEligibility(Eligibility):
    """The asks that can be victims of priority preemption.

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
        # PREEMPTION-3
        self._fence = fence_of(self.leaf)

    @override
    def relation(self) -> Hashable:
        return self.leaf.key

    @override
    def fence(self) -> ViewQueue:
        return self._fence

    # PREEMPTION-3, PREEMPTION-7
    @override
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        return True

    @override
    def deserves(self, side: Side, victim: Victim, losses: Losses) -> bool:
        return not self.is_beyond(side, victim.allocation.ask.priority)

    # PREEMPTION-8
    @override
    def key(self, side: Side, victim: Victim, losses: Losses) -> Key:
        return ((side.effective(victim.place[0]),), 0.0, 0, victim.place[1])

    # PREEMPTION-9
    @override
    def rank(self, side: Side, victim: Victim) -> Rank:
        return (side.effective(victim.allocation.ask.priority),)

    @override
    def floor(self, side: Side, lowest: int) -> Rank:
        return (side.effective(lowest),)

    # PREEMPTION-4
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
