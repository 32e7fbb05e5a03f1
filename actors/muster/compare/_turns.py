"""Why an ask was tried before another one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Final

from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Announced, Kind
from muster_core.events import BindFailed, UpdateNode
from muster_core.reasons import Code

_PLACEMENTS: Final = frozenset({Kind.ASSIGNED, Kind.BOUND})
_UNDOABLE: Final = _PLACEMENTS | {
    Kind.WAITING,
    Kind.GANG_SATISFIED,
    Kind.APP_STATE,
    Kind.QUEUE_PRIORITY,
    Kind.RESERVED,
}


def why_first(
    scheduler: PlainScheduler, undone: Sequence[Announced], app: str, ask: str
) -> str | None:
    """Return why another ask was placed before the given one was tried.

    After a batch, the asks that it placed no longer compete, and the nodes are taken. So this
    works on a copy of the scheduler: it undoes the binds from that decision on, and makes all
    nodes unschedulable. Both asks are then pending, as they were.

    Args:
        scheduler: The scheduler, between two batches; it does not change.
        undone: The decisions of the last batch, from the one that placed the other ask.
        app: The application of the ask that was not placed.
        ask: Its name.

    Returns:
        The code, a colon, and a sentence that names the other ask and what puts it first; None
        if the other ask was not before it, or the batch has decisions that cannot be undone.
    """
    placed = undone[0].decision
    if placed.kind not in _PLACEMENTS or {one.decision.kind for one in undone} - _UNDOABLE:
        return None
    bound = _named(undone, Kind.BOUND)
    if not set(_named(undone, Kind.WAITING)) <= set(bound):
        return None
    before = pickle.loads(pickle.dumps(scheduler, pickle.HIGHEST_PROTOCOL))
    assert isinstance(before, PlainScheduler)
    for node in scheduler.machine.view.nodes.nodes:
        before.submit(UpdateNode(node, schedulable=False))
    for name in bound:
        before.submit(BindFailed(*name))
    before.settle()
    explanation = before.explain(app, ask)
    if explanation is None or explanation.first != f"{placed.app}/{placed.ask}":
        return None
    return next(
        (str(reason) for reason in explanation.reasons if reason.code is Code.NOT_YOUR_TURN), None
    )


def _named(decisions: Sequence[Announced], kind: Kind) -> list[tuple[str, str]]:
    """Return the asks of all decisions of a kind."""
    return [
        (one.decision.app, one.decision.ask)
        for one in decisions
        if one.decision.kind is kind
        and one.decision.app is not None
        and one.decision.ask is not None
    ]
