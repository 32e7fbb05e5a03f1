"""Which gangs belong together: everything connected through their lists.

GANG-6, GANG-7: the group of a gang is all that can be reached from it through the
``groups`` of gangs, whichever side names the other. A name connects even while no gang
of that name is defined.
"""

from __future__ import annotations

from typing import final


@final
class GangLinks:
    """The lists of all gangs that are defined, and the groups that they make."""

    def __init__(self) -> None:
        #: What each gang names, itself left out; only gangs that name others.
        self._lists: dict[str, frozenset[str]] = {}
        #: Who names each name: the lists the other way round.
        self._named_by: dict[str, set[str]] = {}
        #: The group of each name, as far as it was asked for.
        self._groups: dict[str, tuple[str, ...]] = {}

    def group_of(self, name: str) -> tuple[str, ...]:
        """Give the names of the group of a gang, in order; the same tuple to all of them."""
        known = self._groups.get(name)
        if known is None:
            known = tuple(sorted(self._connected(name)))
            for member in known:
                self._groups[member] = known
        return known

    def forget(self, name: str) -> None:
        """Forget what is known of a gang that has ceased to exist and is named by nobody."""
        if self._groups.get(name) == (name,):
            del self._groups[name]

    def relink(self, name: str, named: tuple[str, ...]) -> set[tuple[str, ...]]:
        """Replace the list of a gang.

        Args:
            name: The gang.
            named: Whom it names; empty also for a gang that is not defined.

        Returns:
            The groups that are no longer what they were.
        """
        new = frozenset(named) - {name}
        old = self._lists.get(name, frozenset())
        if new == old:
            return set()
        changed = {self._groups[one] for one in old | new | {name} if one in self._groups}
        for one in old - new:
            self._named_by[one].discard(name)
            if not self._named_by[one]:
                del self._named_by[one]
        for one in new - old:
            self._named_by.setdefault(one, set()).add(name)
        if new:
            self._lists[name] = new
        else:
            del self._lists[name]
        for group in changed:
            for one in group:
                del self._groups[one]
        return changed

    def _connected(self, name: str) -> set[str]:
        found = {name}
        fresh = [name]
        while fresh:
            here = fresh.pop()
            for near in (*self._lists.get(here, ()), *self._named_by.get(here, ())):
                if near not in found:
                    found.add(near)
                    fresh.append(near)
        return found
