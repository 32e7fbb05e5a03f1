"""Gang groups: the gangs that are connected by their ``groups`` fields.

GANG-6, GANG-7: the group of a gang is everything that can be reached from it through the
``groups`` of gangs, in both directions. A name connects gangs even if no gang of that name is
defined.
"""

from __future__ import annotations

from typing import final


@final
class GangLinks:
    """The ``groups`` lists of gangs, and the resulting groups."""

    def __init__(self) -> None:
        #: The other gangs that each gang names; only gangs that name others.
        self._lists: dict[str, frozenset[str]] = {}
        #: The gangs that name each name: the inverse of ``_lists``.
        self._named_by: dict[str, set[str]] = {}
        #: A cache of the group of each name.
        self._groups: dict[str, tuple[str, ...]] = {}

    def group_of(self, name: str) -> tuple[str, ...]:
        """Return the sorted names of the group of a gang: one tuple for the whole group."""
        known = self._groups.get(name)
        if known is None:
            known = tuple(sorted(self._connected(name)))
            for member in known:
                self._groups[member] = known
        return known

    def has(self, name: str) -> bool:
        """Return whether a gang names others, or others name it."""
        return name in self._lists or name in self._named_by

    def forget(self, name: str) -> None:
        """Remove a gang that no longer exists from the cache, if it is a group of its own."""
        if self._groups.get(name) == (name,):
            del self._groups[name]

    def relink(self, name: str, named: tuple[str, ...]) -> set[tuple[str, ...]]:
        """Replace the list of a gang.

        Args:
            name: The gang.
            named: The gangs that it names; empty also for a gang that is not defined.

        Returns:
            The former groups that may have changed, as far as they were in the cache.
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

    # GANG-6, GANG-7
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
