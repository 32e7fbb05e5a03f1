"""The facts of an application: how they are taken, and how its asks are loaded from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from muster_core.owners.ask_rows import shared
from muster_core.owners.messages.from_applications import (
    AppAction,
    Grouped,
    Held,
    InARow,
    Loaded,
    Parked,
    Pending,
    Placed,
    Spoilt,
)
from muster_core.owners.messages.to_applications import AppFacts
from muster_core.structures.steps import PART, in_pieces

if TYPE_CHECKING:
    from muster_core.owners.ask_places import AskPlaces
    from muster_core.owners.bind_failures import BindFailures
    from muster_core.owners.messages.asks import Allocation, AppIdentity
    from muster_core.structures.steps import Steps
    from muster_core.values.application_states import AppState


def facts_of(
    identity: AppIdentity,
    state: AppState,
    group: str | None,
    places: AskPlaces,
    failures: BindFailures,
    guesses: int,
) -> AppFacts:
    """Return the facts of an application; see :class:`AppFacts`. No ask is copied."""
    return AppFacts(
        identity=identity,
        state=state,
        group=group,
        pending=tuple(places.pending.values()),
        parked=tuple(places.parked.values()),
        waiting=tuple(places.waiting.values()),
        bound=tuple(places.bound.values()),
        spoilt=tuple(failures.spoilt.items()),
        in_a_row=tuple(failures.in_a_row.items()),
        guesses=guesses,
    )


# CHECKPOINT-5
def load_asks(facts: AppFacts, places: AskPlaces) -> Steps[list[AppAction]]:
    """Put the asks of an application where they were.

    Args:
        facts: The facts of the application.
        places: Its asks; still empty.

    Returns:
        The actions to report: the application and its asks come as if all were new.
    """
    actions: list[AppAction] = [Loaded(facts.state)]
    if facts.group is not None:
        actions.append(Grouped(facts.group))
    for some in in_pieces(facts.bound, PART):
        yield
        bound = [_shared(allocation) for allocation in some]
        places.load_bound(bound)
        actions.extend(map(Placed, bound))
    for allocation in map(_shared, facts.waiting):
        places.load_waiting(allocation)
        actions.append(Held(allocation))
    for ask in map(shared, facts.parked):
        places.parked[ask.name] = ask
        actions.append(Parked(ask))
    # Before the pending asks: these back off if they failed too recently.
    actions.extend(InARow(name, failed) for name, failed in facts.in_a_row)
    for piece in in_pieces(facts.pending, PART):
        yield
        asks = tuple(map(shared, piece))
        places.pending.update([(ask.name, ask) for ask in asks])
        places.count_pending(asks)
        actions.append(Pending(asks))
    actions.extend(Spoilt(name, times) for name, times in facts.spoilt)
    return actions


def _shared(allocation: Allocation) -> Allocation:
    ask = shared(allocation.ask)
    return allocation if ask is allocation.ask else attrs.evolve(allocation, ask=ask)
