"""Evictions: bound or waiting asks that lose their nodes to others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

import attrs

from muster_core.values.decisions import Decision, Kind, Reason
from muster_core.view.placement.placements import say

if TYPE_CHECKING:
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.placement.placements import Placements
    from muster_core.view.state.view_state import ViewState


@final
class Evictions:
    """Evicts asks.

    Args:
        state: The view.
        placements: Releases asks.
    """

    def __init__(self, state: ViewState, placements: Placements) -> None:
        self._state = state
        self._placements = placements
        #: The asks that were evicted in this batch, by application and name.
        self._evicted: set[tuple[int, str]] = set()
        #: Whether one of them was evicted more than once.
        self._twice = False

    def start_batch(self) -> None:
        """Begin a batch without evictions."""
        self._evicted.clear()
        self._twice = False

    def evict(self, victim: Victim, reason: Reason, why: str, now_us: int) -> Decision:
        """Evict an ask, and return the decision.

        Args:
            victim: The ask.
            reason: Reclaimed or preempted.
            why: The message of the decision.
            now_us: The instant of the batch, in microseconds.
        """
        app, ask = victim.app, victim.allocation.ask
        key = (app.identity.key, ask.name)
        self._twice = self._twice or key in self._evicted
        self._evicted.add(key)
        self._state.eviction_history.evicted(app.identity.key, ask)
        if victim.bound:
            self._note_loss(victim, now_us)
        self._placements.release(victim.hold())
        if victim.gang is not None:
            self._placements.lose(victim.gang)
        leaf = self._state.leaf_of(app)
        decision = say(_RELEASED, leaf, app, ask, victim.node.name, reason)
        return attrs.evolve(decision, message=why)

    def _note_loss(self, victim: Victim, now_us: int) -> None:
        """Record that a bound ask is evicted; if it was bound in this batch, undo its effects."""
        app, allocation = victim.app, victim.allocation
        if allocation.ask.gang is not None:
            self._placements.commits.touch(app, allocation.ask, allocation)
        advance = self._placements.commits.evicted(app, allocation)
        # EVICTION-6, EVICTION-41, EVICTION-42, EVICTION-43, GANG-52
        if advance is None:
            app.since_us[allocation.ask.name] = now_us
            # BACKOFF-4
            self._placements.commits.in_a_row(app, allocation.ask, None)
        elif advance.said is not None:
            leaf = self._state.leaf_of(app)
            self._state.undo_entry(app, leaf, advance.state, advance.stay)

    # DECISION-9
    def without_detours(self, decisions: deque[Decision]) -> deque[Decision]:
        """Remove from a batch's decisions what the batch undid and the log need not contain.

        DECISION-9: an assignment that is rolled back at the instant at which it was made may be
        left out, with its release. This is done for an ask that was evicted, got another node and
        lost it too, so that no ask is evicted twice at one instant. Changes of application
        states that followed from such a bind are left out too.
        """
        commits = self._placements.commits
        if not (self._twice or commits.has_unsaid):
            return decisions
        kept = [decision for decision in decisions if not commits.is_unsaid(decision)]
        return deque(leave_out_detours(kept) if self._twice else kept)


_RELEASED = Kind.RELEASED
_EVICTIONS = (Reason.RECLAIMED, Reason.PREEMPTED)
_TAKES = (Kind.ASSIGNED, Kind.WAITING, Kind.BOUND)


# EVICTION-44, DECISION-9
def leave_out_detours(decisions: list[Decision]) -> list[Decision]:
    """Remove each further eviction of an ask, with the assignment that it undoes.

    Args:
        decisions: The decisions of a batch, in order.
    """
    evicted: set[tuple[str | None, str | None]] = set()
    #: For each ask the positions of its decisions since it had no node.
    since: dict[tuple[str | None, str | None], list[int]] = {}
    out: set[int] = set()
    for position, decision in enumerate(decisions):
        key = (decision.app, decision.ask)
        if decision.kind in _TAKES:
            since.setdefault(key, []).append(position)
        elif decision.kind is _RELEASED:
            taken = since.pop(key, [])
            if decision.reason in _EVICTIONS:
                if key in evicted:
                    out.update((*taken, position))
                evicted.add(key)
    return [decision for position, decision in enumerate(decisions) if position not in out]
