"""Units: the gang members that must be evicted together (EVICTION-28 to EVICTION-33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.eviction.victims import Victim, victim_of

if TYPE_CHECKING:
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.view_state import ViewState

Unit = tuple[Victim, ...]
"""The victims that are taken or spared together; a single one if it has no gang."""


@final
class UnitTracker:
    """The victims that a plan has taken, and the units that it can still take.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._taken: set[tuple[int, str]] = set()
        #: How many bound members of each gang are taken.
        self._counts: dict[str, int] = {}

    def is_taken(self, victim: Victim) -> bool:
        """Return whether a victim is taken."""
        return victim.holder in self._taken

    def take(self, unit: Unit) -> None:
        """Record that a unit is taken."""
        self._taken.update(victim.holder for victim in unit)
        self._count(unit, 1)

    def spare(self, unit: Unit) -> None:
        """Record that a unit is spared."""
        self._taken.difference_update(victim.holder for victim in unit)
        self._count(unit, -1)

    def _count(self, unit: Unit, change: int) -> None:
        for victim in unit:
            if victim.gang is not None and victim.bound:
                name = victim.gang.name
                self._counts[name] = self._counts.get(name, 0) + change

    def unit_of(self, victim: Victim) -> Unit:
        """Return the unit of a gang member that is not taken.

        The unit of a waiting member is all waiting members of its group. A bound member of a
        satisfied gang goes alone while more than ``min_member`` are left; otherwise all go.
        """
        gang = victim.gang
        assert gang is not None, "what is no member of a gang stands for itself"
        # EVICTION-28
        if not victim.bound:
            group = self._state.gang_index.group_of(gang)
            return tuple(self._victim(key) for one in group.gangs for key in one.waiting)
        return self.rest_of(gang) or (victim,)

    # EVICTION-29, EVICTION-30
    def rest_of(self, gang: ViewGang) -> Unit:
        """Return the bound members of a gang that are left, if they are one unit; else nothing."""
        if len(gang.bound) - self._counts.get(gang.name, 0) > _required(gang):
            return ()
        return tuple(self._victim(key) for key in gang.bound if key not in self._taken)

    def _victim(self, key: tuple[int, str]) -> Victim:
        return victim_of(self._state, *key)

    # EVICTION-24
    def would_break(self, unit: Unit) -> bool:
        """Return whether sparing a taken unit would leave a gang in part.

        Such a gang would have fewer bound members than it needs, while others are still taken.
        """
        holders = {victim.holder for victim in unit}
        for gang in {id(victim.gang): victim.gang for victim in unit if victim.bound}.values():
            if gang is None:
                continue
            left = [key for key in gang.bound if key not in self._taken or key in holders]
            if len(left) < len(gang.bound) and len(left) < _required(gang):
                return True
        return False


# EVICTION-34
def _required(gang: ViewGang) -> int:
    """Return how many members of a gang must stay bound, or 0."""
    if gang.definition is None or not gang.satisfied:
        return 0
    return gang.definition.min_member
