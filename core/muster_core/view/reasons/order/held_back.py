"""Whose reservation an ask that fits would delay (BACKFILL-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.reasons import Code, PendingReason
from muster_core.view.reasons.words import counted, named, seconds

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.party import Reservation
    from muster_core.view.reservations.reservations import Reservations
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_HELD_BACK: Final = Code.HELD_BACK


def held_back(
    state: ViewState, reservations: Reservations, leaf: LeafView, app: ViewApp, ask: Ask
) -> PendingReason | None:
    """Return which reservation a pending ask would delay where it fits, and until when; or None.

    Args:
        state: The view.
        reservations: What the last round has reserved.
        leaf: The leaf of its application.
        app: Its application.
        ask: The ask.
    """
    if not reservations.in_force.reservations or not (
        app.is_within_limits(ask) and leaf.has_room(ask)
    ):
        return None
    backfilling = reservations.backfilling
    node = backfilling.finder.find(leaf, app, ask, state.bit_of(ask))
    delayed = None if node is None else backfilling.delayed_by(leaf, app, ask, node)
    if node is None or delayed is None:
        return None
    may = backfilling.undelayed(leaf, app, ask)
    if backfilling.finder.find(leaf, app, ask, state.bit_of(ask), may) is not None:
        return None
    (first, reserved), *others = delayed.places
    whom = named(first.app, first.ask)
    more = f" and {counted(len(others), 'other member', 'other members')}" if others else ""
    start_us = delayed.start_us
    when = "with an end that is not known" if start_us is None else f"at {seconds(start_us)}"
    message = (
        f"it fits on {node.name} and is held back: it would delay the reservation of {whom}{more} "
        f"on {_nodes(delayed)}, which starts {when}"
    )
    facts = {"node": node.name, "delays": whom, "reserved": reserved, "start_us": start_us}
    return PendingReason(_HELD_BACK, message, facts)


def _nodes(reservation: Reservation) -> str:
    """Name the first node of a reservation, and count the others."""
    names = list(dict.fromkeys(node for _, node in reservation.places))
    more = f" and {counted(len(names) - 1, 'other node', 'other nodes')}" if len(names) > 1 else ""
    return names[0] + more
