"""What keeps an ask from starting at all: its case in a copy of the state without all other asks.

A change with which the ask starts there is one with which it starts when the others have ended. Its
amounts are the smallest of that kind, however full the cluster is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.explain._remedies.case import Case
from muster.explain._trials import Trials, node_of
from muster.explain._writing import Written
from muster_core.coordinator.plain import PlainScheduler
from muster_core.snapshots import AskPlace

_BOUND: Final = AskPlace.BOUND

_BATCHES: Final = 100
"""How many batches the copy runs on: a back-off of the ask may end meanwhile."""


# OUTLOOK-30
def alone(case: Case) -> Case | None:
    """Return the case of an ask without all others, apart from those with which it starts.

    Args:
        case: The case of the ask.

    Returns:
        The case; None if the ask starts there, or if that was not found out.
    """
    app, ask = case.event.app, case.event.ask
    after = case.trials.after(list(_without_others(case)))
    explanation = None if after is None else after.explain(app, ask)
    if after is None or explanation is None:
        return None
    trials = Trials(after, case.at_us, app, ask)
    if _starts(trials.copy(), app, ask):
        return None
    return Case(after, trials, case.event, explanation, case.at_us, real=case)


def _starts(copy: PlainScheduler, app: str, ask: str) -> bool:
    """Return whether an ask starts if nothing but time passes."""
    for _ in range(_BATCHES):
        due_us = copy.machine.next_deadline_us()
        if due_us is None:
            break
        copy.pass_until(due_us)
        if node_of(copy, app, ask) is not None:
            return True
    return False


def _without_others(case: Case) -> Iterator[Written]:
    """Yield the events that end all asks but those of the group of the ask."""
    kept = {(case.event.app, case.event.ask)}
    for gang in case.group:
        if not gang.satisfied:
            found = case.snapshot.gangs[gang.name]
            kept.update((*found.pending, *found.parked, *found.waiting, *found.bound))
    apps = {app for app, _ in kept}
    for app in case.snapshot.apps.values():
        if app.name not in apps:
            yield {"op": "remove_app", "app": app.name}
            continue
        for ask in app.asks:
            if (app.name, ask.name) not in kept:
                op = "release" if ask.place is _BOUND else "remove_ask"
                yield {"op": op, "app": app.name, "ask": ask.name}
