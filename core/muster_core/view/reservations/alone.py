"""The start that a reservation would have if there were no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster_core.values.reasons import UNKNOWN_START
from muster_core.view.reservations.search import Search

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.values.reasons import Start
    from muster_core.view.reservations.reservations import Reservations
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp


# OUTLOOK-2
def start_alone(
    state: ViewState, reservations: Reservations, app: ViewApp, ask: Ask, now_us: int
) -> Start:
    """Return the start that a reservation of a pending ask's party alone would have now.

    Args:
        state: The view, between two batches.
        reservations: Knows the party of an ask.
        app: The application of the ask.
        ask: The ask.
        now_us: The present instant, in microseconds.
    """
    party = reservations.party_of(app, ask)
    found = None if party is None else Search(state, now_us, ()).find(party)
    if found is None:
        return None
    is_unknown, at = found[0]
    return UNKNOWN_START if is_unknown else at
