"""Quota preemption: queues that have had more than their ``max`` for too long lose asks.

QUOTA-5 to QUOTA-12, after YuniKorn's quota preemption. Nobody is placed by it, and nothing need be
pending. Victims are chosen as for an ask that lacks nothing but headroom: those that are useful are
below the queue that is over, on whatever node; but those that do not suffice go as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs
from typing_extensions import override

from muster_core.structures.steps import Steps
from muster_core.values.decisions import Reason
from muster_core.view.eviction.actions import changes_so_far
from muster_core.view.eviction.eligibility import LeafRelation, VictimRules
from muster_core.view.eviction.plans import VictimChoice
from muster_core.view.eviction.search import VictimIndex, VictimSearch
from muster_core.view.eviction.victims import Victim
from muster_core.view.state.history import excess
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ViewQueue


@final
class QuotaVictims(VictimRules):
    """The asks that can be victims because a queue has more than its ``max``.

    Args:
        over: How much more it has of each type.
    """

    reason = Reason.PREEMPTED

    def __init__(self, state: ViewState, queue: ViewQueue, over: Mapping[str, int]) -> None:
        super().__init__(state, frozenset())
        self._queue = queue
        self._over = over
        self.over_max = queue.config.path

    # QUOTA-8, QUOTA-9
    @override
    def _find_side(self, leaf: LeafView) -> LeafRelation | None:
        depth = self._queue.depth
        if self._queue not in leaf.line:
            return None
        guards = [queue for queue in leaf.line if queue.depth >= depth]
        return self._relation(leaf, guards, guards[:-1])

    @override
    def why(self, victim: Victim) -> str:
        return f"{self.over_max} has more than its max of {', '.join(sorted(self._over))}"


@final
@attrs.frozen(eq=False)
class QuotaPlan:
    """What a queue loses that has more than its ``max``.

    Attributes:
        victims: The victims, in the order in which they are taken.
    """

    rules: QuotaVictims
    victims: tuple[Victim, ...]


@final
class QuotaPreemption:
    """Finds what queues lose that have had more than their ``max`` for too long."""

    def __init__(self, state: ViewState, victim_index: VictimIndex) -> None:
        self._state = state
        self._victim_index = victim_index
        #: The keys of the queues in which there is nobody to take, in the current state.
        self._exhausted: set[int] = set()
        self._known: tuple[int, ...] = ()

    # QUOTA-5, QUOTA-7
    def find(self, now_us: int) -> Steps[QuotaPlan | None]:
        """Find what the first queue loses of which an ask can be taken."""
        over = self._state.timers.over_max
        if not over.since:
            return None
        now = changes_so_far(self._state)
        if self._known != now:
            self._known = now
            self._exhausted.clear()
        for queue in over.due(now_us):
            if queue.key in self._exhausted:
                continue
            yield
            plan = yield from self._plan_for(queue)
            if plan is not None:
                return plan
            self._exhausted.add(queue.key)
        return None

    def _plan_for(self, queue: ViewQueue) -> Steps[QuotaPlan | None]:
        over = excess(queue)
        rules = QuotaVictims(self._state, queue, over)
        search = VictimSearch(self._state, self._victim_index, rules)
        if not (yield from search.begin_below(queue, over)):
            return None
        # QUOTA-11, QUOTA-12
        victims = yield from VictimChoice(search).pick(partly=True)
        return QuotaPlan(rules, victims) if victims else None
