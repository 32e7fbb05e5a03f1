"""Reservations, as rounds use them: what is in force, what that allows, and who seeks more."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.reservations.backfilling import Backfilling
from muster_core.view.reservations.in_force import InForce
from muster_core.view.reservations.passing import Passing
from muster_core.view.reservations.repeats import Repeats
from muster_core.view.reservations.seeking import Seeking
from muster_core.view.reservations.told import Told, loaded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.view.facts import ReservationFacts
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.topology.node_finder import NodeFinder


@final
class Reservations:
    """The reservations of all backfill scopes.

    Args:
        state: The view.
        finder: Finds nodes where nothing is reserved.
    """

    def __init__(self, state: ViewState, finder: NodeFinder) -> None:
        self._state = state
        self.in_force = InForce()
        #: Whom the asks of the last batch have passed.
        self.passing = Passing()
        self.backfilling = Backfilling(state, finder, self.in_force, self.passing)
        self.seeking = Seeking(state, self.in_force, self.backfilling)
        self.repeats = Repeats(state, self.in_force)
        self.told = Told()

    @property
    def are_idle(self) -> bool:
        """Whether rounds need not deal with them: there are no scopes, and no more reservations."""
        return not (self._state.scopes or self.in_force.reservations or self.passing)

    # CHECKPOINT-5
    def load(self, facts: Iterable[ReservationFacts], now_us: int) -> None:
        """Take over what was in force; everything else is in the view already.

        Args:
            facts: The reservations, in order.
            now_us: The instant of the last round, in microseconds.
        """
        self.in_force.load((loaded(self._state, one) for one in facts), now_us)
        self.told.load(self.in_force.reservations)
