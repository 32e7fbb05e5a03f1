"""Units: which members of gangs have to go together if one of them is taken (EVICTION-28 to EVICTION-33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.eviction.victims import Victim, victim_of

if TYPE_CHECKING:
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.state.view_state import ViewState

Unit = tuple[Victim, ...]
"""What is taken or spared as a whole; of one victim that stands for itself, that one."""


@final
class UnitTracker:
    """What a plan has taken, and what it can still take as one.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._taken: set[tuple[int, str]] = set()
        #: How many bound members of each gang were taken.
        self._counts: dict[str, int] = {}

    @staticmethod
    def name(victim: Victim) -> tuple[int, str]:
        """Give which ask a victim is."""
        return (victim.app.identity.key, victim.allocation.ask.name)

    def is_taken(self, victim: Victim) -> bool:
        """Say whether a victim was taken."""
        return self.name(victim) in self._taken

    def take(self, unit: Unit) -> None:
        """Take note that a unit was taken."""
        self._taken.update(map(self.name, unit))
        self._count(unit, 1)

    def spare(self, unit: Unit) -> None:
        """Take note that a unit need not go."""
        self._taken.difference_update(map(self.name, unit))
        self._count(unit, -1)

    def _count(self, unit: Unit, change: int) -> None:
        for victim in unit:
            if victim.gang is not None and victim.bound:
                name = victim.gang.name
                self._counts[name] = self._counts.get(name, 0) + change

    def unit_of(self, victim: Victim) -> Unit:
        """Give who goes with a member of a gang that was not taken.

        A waiting member takes all that wait of its group with it. A bound one of a gang that
        is satisfied goes alone while more than ``min_member`` are left, else all of them go.
        """
        gang = victim.gang
        assert gang is not None, "what is no member of a gang stands for itself"
        if not victim.bound:
            group = self._state.gang_index.group_of(gang)
            return tuple(self._victim(key) for one in group.gangs for key in one.waiting)
        return self.rest_of(gang) or (victim,)

    def rest_of(self, gang: ViewGang) -> Unit:
        """Give the bound members of a gang that are left, if they go as one; else nothing."""
        if len(gang.bound) - self._counts.get(gang.name, 0) > _least(gang):
            return ()
        return tuple(self._victim(key) for key in gang.bound if key not in self._taken)

    def _victim(self, key: tuple[int, str]) -> Victim:
        return victim_of(self._state, *key)

    def would_break(self, unit: Unit) -> bool:
        """Say whether sparing a unit that was taken would leave a part of a gang.

        That is one with some members but fewer than it needs, of which others are taken.
        """
        names = set(map(self.name, unit))
        for gang in {id(victim.gang): victim.gang for victim in unit if victim.bound}.values():
            if gang is None:
                continue
            left = [key for key in gang.bound if key not in self._taken or key in names]
            if len(left) < len(gang.bound) and len(left) < _least(gang):
                return True
        return False


def _least(gang: ViewGang) -> int:
    """Give how many members of a gang have to be bound, or none."""
    if gang.definition is None or not gang.satisfied:
        return 0
    return gang.definition.min_member
