"""All gangs as a round sees them, and which of them belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.gangs.groups import GangLinks
from muster_core.view.gangs import ViewGang, ViewGroup
from muster_core.view.slots import Offer

if TYPE_CHECKING:
    from muster_core.gangs.definition import GangDefinition
    from muster_core.view.apps import ViewApp


@final
class GangBook:
    """The gangs of the view."""

    def __init__(self) -> None:
        #: Every gang that is defined or has members, by its full name.
        self.gangs: dict[str, ViewGang] = {}
        #: All and only the gangs that have waiting members.
        self.waiting: dict[str, ViewGang] = {}
        #: All and only the gangs whose cycle is invalid.
        self.invalid: dict[str, ViewGang] = {}
        #: The gangs whose owners have been told that their cycle is invalid.
        self._told_invalid: set[str] = set()
        #: At least the gangs of Strict groups of which members would be tried if they may fit.
        self.strict: dict[str, ViewGang] = {}
        #: The gangs in whose groups something has changed since the last refresh.
        self._stale: dict[str, ViewGang] = {}
        #: The gangs that waited at the end of the last batch.
        self._timed: dict[str, ViewGang] = {}
        self._links = GangLinks()
        #: The groups by the names in them, as far as they were asked for.
        self._groups: dict[tuple[str, ...], ViewGroup] = {}

    def touch(self, name: str) -> ViewGang:
        """Give a gang of which something changes, also one that was not known."""
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = ViewGang(name)
            self._dissolve(self._links.group_of(name))
        self._stale[name] = gang
        return gang

    def remove(self, gang: ViewGang) -> None:
        """Forget a gang that has ceased to exist."""
        self._dissolve(self._links.group_of(gang.name))
        self._link(gang, ())
        for known in (self.gangs, self._stale, self.strict, self.invalid):
            known.pop(gang.name, None)
        self._told_invalid.discard(gang.name)

    def redefine(
        self, gang: ViewGang, definition: GangDefinition | None, creation: int | None
    ) -> list[ViewApp]:
        """Take note that a gang is defined in another way.

        Returns:
            The applications of which other asks are offered now.
        """
        gang.definition, gang.creation = definition, creation
        self._dissolve(self._links.group_of(gang.name))
        self._link(gang, () if definition is None else definition.groups)
        self._dissolve(self._links.group_of(gang.name))
        for slot in gang.slots.values():  # Their members have another place among the asks.
            slot.set_offer(Offer.NONE)
            slot.reorder(creation)
        return [slot.app for slot in gang.slots.values()]

    def _link(self, gang: ViewGang, named: tuple[str, ...]) -> None:
        for names in self._links.relink(gang.name, named):
            self._dissolve(names)

    def _dissolve(self, names: tuple[str, ...]) -> None:
        self._groups.pop(names, None)
        for name in names:
            if name in self.gangs:
                self._stale[name] = self.gangs[name]

    def group_of(self, gang: ViewGang) -> ViewGroup:
        """Give the group of a gang."""
        names = self._links.group_of(gang.name)
        group = self._groups.get(names)
        if group is None:
            gangs = [self.gangs[name] for name in names if name in self.gangs]
            gangs.sort(key=ViewGang.rank)
            group = self._groups[names] = ViewGroup(names, gangs)
        return group

    def groups_of(self, gangs: dict[str, ViewGang]) -> list[ViewGroup]:
        """Give the groups of gangs, each once, in the order of their oldest gangs."""
        groups = {id(group): group for group in map(self.group_of, list(gangs.values()))}
        return sorted(groups.values(), key=lambda group: group.creation)

    def take_changed(self) -> list[ViewGroup]:
        """Give the groups in which something has changed, for which nothing is known now."""
        groups = self.groups_of(self._stale)
        for group in groups:
            group.hopeless = False
        return groups

    def refresh(self) -> dict[int, ViewApp]:
        """Offer members as their gangs have it now.

        Returns:
            The applications of which other asks are offered now, by key.
        """
        apps: dict[int, ViewApp] = {}
        if not self._stale:
            return apps
        groups = self.groups_of(self._stale)
        self._stale.clear()
        for group in groups:
            self.offer(group, apps)
        return apps

    def offer(self, group: ViewGroup, apps: dict[int, ViewApp]) -> None:
        """Offer the members of a group as it has it now, and note of which applications."""
        strict = group.strict
        for gang in group.gangs:
            offer = group.offer_of(gang)
            for key, slot in gang.slots.items():
                slot.set_offer(offer)
                apps[key] = slot.app
            tries = strict and gang.slots and gang.missing and gang.admits()
            if tries and not gang.satisfied:
                self.strict[gang.name] = gang
            else:
                self.strict.pop(gang.name, None)

    def invalidate(self, group: ViewGroup) -> None:
        """Let the cycles of a group's gangs be invalid."""
        for gang in group.gangs:
            gang.cycle_valid = False
            self.invalid[gang.name] = gang

    def renew(self, gang: ViewGang) -> None:
        """Take note that a gang has no members left, and is as new; its owner knows."""
        gang.cycle_valid, gang.since_us = True, None
        self.invalid.pop(gang.name, None)
        self._told_invalid.discard(gang.name)

    def changed_cycles(self) -> set[str]:
        """Give the gangs whose owners do not know yet whether their cycle is valid."""
        invalid = set(self.invalid)
        changed = invalid ^ self._told_invalid
        self._told_invalid = invalid
        return changed

    def start_cycles(self) -> None:
        """Let every cycle be valid."""
        for gang in self.invalid.values():
            gang.cycle_valid = True
        self.invalid.clear()

    def set_waits(self, now_us: int) -> set[str]:
        """Let waits begin and end, at the end of a batch.

        Args:
            now_us: The instant of the batch, in microseconds.

        Returns:
            The gangs of which a wait has begun or ended.
        """
        changed: set[str] = set()
        for name, gang in self._timed.items():
            if not gang.waiting and gang.since_us is not None:
                gang.since_us = None
                changed.add(name)
        for name, gang in self.waiting.items():
            if gang.since_us is None:
                gang.since_us = now_us
                changed.add(name)
        self._timed = dict(self.waiting)
        return changed

    def check(self) -> None:
        """Assert the invariants between two batches; for tests."""
        assert not self._stale
        assert self._told_invalid == set(self.invalid)
        assert self.waiting == {name: gang for name, gang in self.gangs.items() if gang.waiting}
        assert self.invalid == {
            name: gang for name, gang in self.gangs.items() if not gang.cycle_valid
        }
        for name, gang in self.gangs.items():
            assert gang.name == name
            assert gang.definition is not None or gang.children
            assert (gang.since_us is not None) == bool(gang.waiting)
            group = self.group_of(gang)
            assert gang in group.gangs
            assert not group.barred
            for slot in gang.slots.values():
                assert slot.members
                assert slot.offer is group.offer_of(gang)
                assert slot.app.slots[name] is slot
                assert slot.creation == gang.creation
            # No group is partly bound before it is satisfied, and none waits in vain.
            assert not (gang.waiting and group.complete())
