"""The reasons that follow from evictions (EVICTION-5, RECLAIM-1, PREEMPTION-1, SERVICE-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.eviction.action import first_in_order
from muster_core.view.eviction.reclaim import claimant_of
from muster_core.view.reasons.words import listed, seconds

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.values.reasons import Fact
    from muster_core.view.reasons.turns import Turn, Turns
    from muster_core.view.state.view_state import ViewState

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_PREEMPTION_DELAY: Final = Code.PREEMPTION_DELAY
_RECLAIM_INSUFFICIENT: Final = Code.RECLAIM_INSUFFICIENT


def eviction_reason(
    state: ViewState, turns: Turns, turn: Turn, now_us: int
) -> PendingReason | None:
    """Return why a pending ask that may reclaim or preempt has evicted nothing.

    Args:
        state: The view.
        turns: The order of asks.
        turn: The ask.
        now_us: The present instant, in microseconds.
    """
    leaf, app, ask = turn.leaf, turn.app, turn.ask
    if not _is_looked_at(state, turns, turn):
        return None
    service = state.delays.enabled and state.kept_nodes.node_of(leaf, app, ask) is not None
    if leaf.watched is None:
        return _service_reason(ask) if service else None
    claimant = claimant_of(leaf, ask)
    if claimant is None and not ask.preempts:
        return _service_reason(ask) if service else None
    ways: list[str] = []
    facts: dict[str, Fact] = {"claimant": None, "preempts": ask.preempts}
    if claimant is not None:
        facts["claimant"] = path = claimant.config.path
        ways.append(f"reclaim what {path} is guaranteed")
    if ask.preempts:
        ways.append("preempt asks of lower priority")
    delay_us = leaf.config.settings.preemption_delay_us
    left_us = app.pending_since_us(ask) + delay_us - now_us
    if left_us > 0:
        facts["left_us"] = left_us
        message = f"in {seconds(left_us)} it may {listed(ways)}"
        return PendingReason(_PREEMPTION_DELAY, message, facts)
    if service:
        ways.append(_service_way(ask))
    message = f"it may {listed(ways)}, but no victims that may be taken make room for it"
    return PendingReason(_RECLAIM_INSUFFICIENT, message, facts)


def _service_way(ask: Ask) -> str:
    return f"take room on {ask.shape.node} as a node service"


# SERVICE-7
def _service_reason(ask: Ask) -> PendingReason:
    """Return why a node service that may do nothing else has evicted nothing."""
    message = f"it may {_service_way(ask)}, but no victims that may be taken make room for it"
    return PendingReason(_RECLAIM_INSUFFICIENT, message, {"node": ask.shape.node})


def _is_looked_at(state: ViewState, turns: Turns, turn: Turn) -> bool:
    """Return whether reclaim and preemption consider an ask that does not fit."""
    # LIMIT-11
    if not turns.has(turn) or not turn.app.is_within_limits(turn.ask):
        return False
    # BACKFILL-6
    scope = state.scopes.strict(turn.leaf)
    if scope is not None:
        first_of = first_in_order(state, scope)
        if first_of is None or first_of[2] is not turn.ask:
            return False
    elif turn.leaf.config.settings.blocking:
        first = turns.first_to_block(turn.leaf)
        if first is None or first.ask is not turn.ask:
            return False
    gang = None if turn.ask.gang is None else state.gangs[turn.ask.gang]
    return gang is None or gang.satisfied or state.gang_index.group_of(gang).may_complete()
