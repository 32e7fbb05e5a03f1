"""All gangs of the view, their groups, and gang shapes: Strict gangs offered as one large ask.

A Strict gang that is alone in its group, with equal members in one application, fits exactly if
there is room for as many members as it lacks. So it is offered to a round like one large ask: its
*gang shape* has a bit like any shape. It fits the headroom of a queue if all its members together
do, and it fits the nodes if there is room for all of them, on any number of nodes. Thousands of
such gangs can be pending without a cost for a round, since a round considers only what could be
placed.

A round looks up at its start whether there is room, if there may be more than before. Room only
shrinks during a round, so a gang shape that no longer fits is out until there is more room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

import attrs

from muster_core.gangs import GangDefinition, GangLinks, GangTrigger
from muster_core.nodes.domains import Domains
from muster_core.nodes.node_index import NodeIndex
from muster_core.owners.gang import GangTimeout, MemberKey
from muster_core.structures.shapes import VISIT_BIT, Shape, ShapeTable
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.resources import MAX_QUANTITY, Resources
from muster_core.view.gangs import ViewGang, ViewGroup
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.constraints import Offer, Slot

Defined = tuple[GangDefinition | None, int | None]
"""What defines a gang, and the position of the event that did; None if nothing does."""


@final
class GangShapes:
    """The gang shapes that are offered, and which of them there is room for."""

    def __init__(self, shapes: ShapeTable, nodes: NodeIndex) -> None:
        self._shapes = shapes
        self._nodes = nodes
        #: The gang shapes that the nodes have room for, and perhaps others.
        self.fitting = 0
        #: The shape of a member and their number, for each bit in use.
        self._known: dict[int, tuple[Shape, int]] = {}
        #: The gang shapes in use by the bit of the shape of their members, as masks.
        self._by_member: dict[int, int] = {}
        #: How many slots offer each gang shape; no zeros.
        self._users: dict[int, int] = {}
        #: The value of :attr:`NodeIndex.grown` when room was last looked up.
        self._grown = -1

    def join(self, member: int, count: int) -> int:
        """Return the bit of a gang shape, and count one more use of it.

        Args:
            member: The bit of the shape of its members.
            count: The number of members.

        Returns:
            The bit; the bit of the member's shape if there is only one; :data:`VISIT_BIT` if
            the members together need more than any quantity can be.
        """
        shape = self._shapes.shapes[member]
        if count == 1:
            return member
        if any(amount * count > MAX_QUANTITY for amount in shape.resources.values()):
            return VISIT_BIT
        together = Resources({name: amount * count for name, amount in shape.resources.items()})
        gang_shape = attrs.evolve(shape, resources=together, members=count)
        bit = self._shapes.find(gang_shape)
        if bit is None:
            bit = self._shapes.add(gang_shape)
        self._shapes.acquire(bit)
        self._users[bit] = self._users.get(bit, 0) + 1
        if bit not in self._known:
            self._known[bit] = (shape, count)
            self._by_member[member] = self._by_member.get(member, 0) | 1 << bit
            self._look_up(bit)
        return bit

    def leave(self, bit: int) -> None:
        """Count one use of a gang shape less; other bits are ignored."""
        if bit not in self._known:
            return
        self._shapes.release(bit)
        self._users[bit] -= 1
        if not self._users[bit]:
            del self._users[bit], self._known[bit]
            self.fitting &= ~(1 << bit)
            for member, mask in self._by_member.items():
                if mask >> bit & 1:
                    self._by_member[member] = mask & ~(1 << bit)
                    break

    def without_room(self, mask: int) -> int:
        """Return the gang shapes whose members have a shape that is not in a mask."""
        found = 0
        for member, gangs in self._by_member.items():
            if not mask >> member & 1:
                found |= gangs
        return found

    def refresh(self) -> None:
        """Look up which gang shapes there is room for, if there may be more room than before."""
        if self._grown == self._nodes.grown:
            return
        self._grown = self._nodes.grown
        for bit in self._known:
            self._look_up(bit)

    def _look_up(self, bit: int) -> None:
        if self.has_room(bit):
            self.fitting |= 1 << bit
        else:
            self.fitting &= ~(1 << bit)

    def has_room(self, bit: int) -> bool:
        """Return whether the nodes have room for a gang shape now."""
        shape, count = self._known[bit]
        member = self._shapes.find(shape)
        return member is not None and self._nodes.room_for(member, count) >= count

    def knows(self, bit: int) -> bool:
        """Return whether a bit is that of a gang shape in use."""
        return bit in self._known

    def shape_of(self, bit: int) -> Shape:
        """Return a gang shape in use."""
        return self._shapes.shapes[bit]

    def exhaust(self, bit: int) -> None:
        """Record that there is no more room for a gang shape."""
        self.fitting &= ~(1 << bit)

    def check(self, users: dict[int, int]) -> None:
        """Assert the invariants, given how many slots offer each gang shape; for tests."""
        assert users == self._users
        assert self._known.keys() == users.keys()
        # Every gang shape that there is room for is known to fit.
        for bit in self._known:
            assert self.fitting >> bit & 1 or not self.has_room(bit)


@final
class GangIndex:
    """The gangs of the view.

    Args:
        domains: The domains from which gangs with a topology choose.
        is_blocking: Returns whether an application is in a blocking leaf.
    """

    def __init__(
        self, gang_shapes: GangShapes, domains: Domains, is_blocking: Callable[[ViewApp], bool]
    ) -> None:
        self._gang_shapes = gang_shapes
        self.domains = domains
        self._is_blocking = is_blocking
        #: Tells the registry that a member has left; returns what defines its gang now.
        self.leave: Callable[[str, MemberKey], Defined] = self._keep_definition
        #: Every gang that is defined or has members, by its full name.
        self.gangs: dict[str, ViewGang] = {}
        #: All and only the gangs that have waiting members.
        self.waiting: dict[str, ViewGang] = {}
        #: All and only the gangs that a timeout has marked.
        self.timed_out: dict[str, ViewGang] = {}
        #: All and only the gangs whose cycle is invalid.
        self.invalid: dict[str, ViewGang] = {}
        #: The gangs to whose owners an invalid cycle was reported.
        self._reported_invalid: set[str] = set()
        #: The gangs of Strict groups whose members may be tried.
        self.strict: dict[str, ViewGang] = {}
        #: Those of them that have no gang shape and must be judged one by one.
        self.judged: dict[str, ViewGang] = {}
        #: The gangs whose groups have changed since the last refresh.
        self.stale: dict[str, ViewGang] = {}
        #: The gangs that waited at the end of the last batch.
        self._timed: dict[str, ViewGang] = {}
        #: Increases whenever a gang may have changed.
        self.changes = 0
        self._links = GangLinks()
        #: The groups by their names; only those that were asked for.
        self._groups: dict[tuple[str, ...], ViewGroup] = {}

    def touch(self, name: str) -> ViewGang:
        """Return a gang that is about to change; create it if it is unknown."""
        self.changes += 1
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = ViewGang(name)
            self._dissolve(self._links.group_of(name))
        self.stale[name] = gang
        return gang

    def remove(self, gang: ViewGang) -> None:
        """Remove a gang that no longer exists."""
        self._dissolve(self._links.group_of(gang.name))
        self._link(gang, ())
        self._links.forget(gang.name)
        self.timed_out.pop(gang.name, None)
        for known in (self.gangs, self.stale, self.strict, self.judged, self.invalid):
            known.pop(gang.name, None)
        self._reported_invalid.discard(gang.name)

    def _keep_definition(self, name: str, _member: MemberKey) -> Defined:
        """Return the definition of a gang; no registry knows its members."""
        return self.gangs[name].definition, self.gangs[name].creation

    # GANG-16, GANG-60, ONCE-4
    def empty(
        self, gang: ViewGang, definition: GangDefinition | None, creation: int | None
    ) -> None:
        """Make a gang as new whose last member has left; without a definition it is gone."""
        gang.trigger(GangTrigger.EMPTIED)
        gang.since_us, gang.cycle_valid = None, True
        self.invalid.pop(gang.name, None)
        self.note_timeouts(gang, 0, None)
        if (gang.definition, gang.creation) != (definition, creation):
            self.redefine(gang, definition, creation)
        if definition is None:
            self.remove(gang)

    def redefine(
        self, gang: ViewGang, definition: GangDefinition | None, creation: int | None
    ) -> list[ViewApp]:
        """Record a new definition of a gang.

        Returns:
            The applications whose offered asks have changed.
        """
        # GANG-14
        gang.definition, gang.creation = definition, creation
        self._dissolve(self._links.group_of(gang.name))
        # GANG-7
        self._link(gang, () if definition is None else definition.groups)
        self._dissolve(self._links.group_of(gang.name))
        for slot in gang.slots.values():  # Their members move among the asks.
            self._gang_shapes.leave(slot.visit_bit)
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
                self.stale[name] = self.gangs[name]

    def group_of(self, gang: ViewGang) -> ViewGroup:
        """Return the group of a gang."""
        names = self._links.group_of(gang.name)
        group = self._groups.get(names)
        if group is None:
            gangs = [self.gangs[name] for name in names if name in self.gangs]
            gangs.sort(key=ViewGang.rank)
            group = self._groups[names] = ViewGroup(names, gangs)
        return group

    def groups_of(self, gangs: dict[str, ViewGang]) -> list[ViewGroup]:
        """Return the groups of gangs, each once, in the order of their oldest gangs."""
        groups = {id(group): group for group in map(self.group_of, list(gangs.values()))}
        return sorted(groups.values(), key=lambda group: group.creation)

    def take_changed(self) -> list[ViewGroup]:
        """Return the groups that have changed, and mark them as not hopeless."""
        groups = self.groups_of(self.stale)
        for group in groups:
            group.hopeless = False
        return groups

    def refresh(self) -> dict[int, ViewApp]:
        """Offer the members of changed groups as these groups now allow.

        Returns:
            The applications whose offered asks have changed, by key.
        """
        apps: dict[int, ViewApp] = {}
        if not self.stale:
            return apps
        groups = self.groups_of(self.stale)
        self.stale.clear()
        for group in groups:
            self.offer(group, apps)
        return apps

    def offer(self, group: ViewGroup, apps: dict[int, ViewApp]) -> None:
        """Offer the members of a group as it now allows; add their applications to ``apps``."""
        strict = group.strict
        for gang in group.gangs:
            offer = group.offer_of(gang)
            tries = bool(strict and gang.slots and gang.missing and gang.admits())
            as_gang_shape = tries and self._has_gang_shape(group, gang)
            for key, slot in gang.slots.items():
                bit = VISIT_BIT
                if offer is Offer.FIRST and as_gang_shape:
                    (member,) = slot.bits
                    bit = self._gang_shapes.join(member, gang.missing)
                before = slot.visit_bit
                slot.set_offer(offer, bit)
                self._gang_shapes.leave(before)
                as_gang_shape = as_gang_shape and bit != VISIT_BIT
                apps[key] = slot.app
            _keep(self.strict, gang, there=tries)
            _keep(self.judged, gang, there=tries and not as_gang_shape)

    def _has_gang_shape(self, group: ViewGroup, gang: ViewGang) -> bool:
        """Return whether a Strict gang fits exactly if all members that it lacks have room."""
        if len(group.names) > 1 or len(gang.slots) > 1 or gang.waiting:
            return False
        (slot,) = gang.slots.values()
        # BACKOFF-7
        if gang.backing_off and gang.is_held_back():
            return False
        return len(slot.bits) == 1 and not self._is_blocking(slot.app)

    def gang_shapes(self) -> list[Shape]:
        """Return the gang shape of each slot that is offered as one; for tests."""
        bits = [slot.visit_bit for gang in self.gangs.values() for slot in gang.slots.values()]
        return [self._gang_shapes.shape_of(bit) for bit in bits if self._gang_shapes.knows(bit)]

    def drop(self, slot: Slot[ViewApp]) -> None:
        """Record that a slot has no more members."""
        self._gang_shapes.leave(slot.visit_bit)

    def invalidate(self, group: ViewGroup) -> None:
        """Make the cycles of a group's gangs invalid."""
        for gang in group.gangs:
            gang.cycle_valid = False
            self.invalid[gang.name] = gang

    # GANG-59
    def note_timeouts(self, gang: ViewGang, timeouts: int, timeout: GangTimeout | None) -> None:
        """Record which timeouts have marked a gang."""
        gang.timeouts, gang.timeout = timeouts, timeout
        _keep(self.timed_out, gang, there=timeout is not None)

    def note_cycle(self, gang: ViewGang, *, valid: bool) -> None:
        """Record whether the owner of a gang reports its cycle as valid."""
        if valid == (gang.name not in self._reported_invalid):
            return
        gang.cycle_valid = valid
        if valid:  # It began again, as it had no members.
            self.invalid.pop(gang.name, None)
            self._reported_invalid.discard(gang.name)
        else:  # It was loaded.
            self.invalid[gang.name] = gang
            self._reported_invalid.add(gang.name)

    # CHECKPOINT-4
    def hopeless(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups that were sure not to fit, by the names of their gangs, in order."""
        return tuple(sorted(group.names for group in self._groups.values() if group.hopeless))

    # CHECKPOINT-5
    def load(self, hopeless: Iterable[tuple[str, ...]]) -> Steps[list[ViewApp]]:
        """Offer the members of all gangs after they were loaded, as they were when saved.

        Returns:
            The applications whose offered asks have changed.
        """
        self._timed = dict(self.waiting)
        for names in hopeless:
            known = next(self.gangs[name] for name in names if name in self.gangs)
            self.group_of(known).hopeless = True
        apps: dict[int, ViewApp] = {}
        groups = self.groups_of(self.stale)
        self.stale.clear()
        for piece in in_pieces(groups):
            yield
            for group in piece:
                self.offer(group, apps)
        return list(apps.values())

    def changed_cycles(self) -> set[str]:
        """Return the gangs whose owners do not know yet that their cycle is valid or invalid."""
        invalid = set(self.invalid)
        changed = invalid ^ self._reported_invalid
        self._reported_invalid = invalid
        return changed

    # GANG-25
    def start_cycles(self) -> None:
        """Make every cycle valid."""
        for gang in self.invalid.values():
            gang.cycle_valid = True
        self.invalid.clear()

    # GANG-41
    @property
    def is_unused(self) -> bool:
        """Whether there is no gang, and no owner of one has to get a wait or a cycle."""
        return not (self.gangs or self._timed or self._reported_invalid)

    def set_waits(self, now_us: int) -> set[str]:
        """Begin and end waits, at the end of a batch.

        Returns:
            The gangs whose wait has begun or ended.
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
        assert not self.stale
        users: dict[int, int] = {}
        for gang in self.gangs.values():
            for slot in gang.slots.values():
                if self._gang_shapes.knows(slot.visit_bit):
                    users[slot.visit_bit] = users.get(slot.visit_bit, 0) + 1
        self._gang_shapes.check(users)
        assert self._reported_invalid == set(self.invalid)
        assert self.waiting == {name: gang for name, gang in self.gangs.items() if gang.waiting}
        assert self.timed_out == {name: gang for name, gang in self.gangs.items() if gang.timeout}
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
            # No group is partly bound before it is satisfied, and no complete group waits.
            assert not (gang.waiting and group.complete())


def _keep(gangs: dict[str, ViewGang], gang: ViewGang, *, there: bool) -> None:
    if there:
        gangs[gang.name] = gang
    else:
        gangs.pop(gang.name, None)
