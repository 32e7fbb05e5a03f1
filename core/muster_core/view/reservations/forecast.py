"""When the party of a pending ask could start, if nothing were reserved for others."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.reservations.party import group_of, party_of
from muster_core.view.reservations.search import Search

if TYPE_CHECKING:
    from collections.abc import Generator

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.placement.placements import Placements
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp


# BACKFILL-18
@final
@attrs.frozen
class Forecast:
    """Looks ahead between two batches; it changes nothing.

    Args:
        state: The view.
        placements: Releases members of Strict gangs for a while.
    """

    _state: ViewState
    _placements: Placements

    def start(self, app: ViewApp, ask: Ask, now_us: int) -> Instant | None:
        """Return the start that a reservation of an ask's party alone would have now.

        Args:
            app: Its application.
            ask: The pending ask, of any queue.
            now_us: The present instant, in microseconds.

        Returns:
            The start; None if there is none, or the ask has no party.
        """
        with self._rolled_back(ask):
            party = party_of(self._state, app, ask)
            found = None if party is None else Search(self._state, now_us, ()).find(party)
        return None if found is None else found[0]

    # OUTLOOK-7
    def fits_now(self, app: ViewApp, ask: Ask) -> bool:
        """Return whether the party of a pending ask alone fits as things are.

        Args:
            app: Its application.
            ask: The pending ask, of any queue.
        """
        with self._rolled_back(ask):
            party = party_of(self._state, app, ask)
            return party is not None and Search(self._state, 0, ()).fits_now(party)

    # BACKFILL-17
    @contextmanager
    def _rolled_back(self, ask: Ask) -> Generator[None]:
        """Let the Strict group of an ask hold nothing for a while."""
        state, placements = self._state, self._placements
        group = group_of(state, ask)
        holds = group.holds() if group is not None and group.strict else []
        mark, grown = placements.seen_states.mark(), state.nodes.grown
        for hold in reversed(holds):
            placements.release(hold)
        yield
        for hold in holds:
            placements.restore(hold)
        if holds:
            placements.list_apps()
            state.refresh()
            placements.seen_states.go_back(mark)
            state.nodes.grown = grown
