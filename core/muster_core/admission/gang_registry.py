"""The registry of gangs: their definitions and their members.

Requests are admitted one after the other, and whether a new member is valid depends on the
annotations of the present members. So the registry knows all gangs, as the directory knows all
queues and applications. It does not know the places of members, which the gangs own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final, TypeGuard, final

import attrs

from muster_core.admission.routes import (
    AdmissionFacts,
    GangEntryFacts,
    GangRoute,
    StartGang,
    TellGang,
)
from muster_core.gangs import NO_FIELDS, GangDefinition, GangFields, GangLinks, GangState, define
from muster_core.owners.asks import Origin
from muster_core.owners.gang import DefineGang, GangFacts, JoinGang, MemberKey, UndefineGang
from muster_core.structures.steps import Steps, in_pieces
from muster_core.values.errors import RefusedError
from muster_core.values.names import Guesses
from muster_core.values.records import MAP
from muster_core.values.snapshots import AskPlace

WRITTEN: Final = {
    "min_member": "min-available",
    "total": "total-number",
    "mode": "mode",
    "wait_us": "waiting-time",
    "groups": "groups",
}
"""The names of the fields in annotations on members."""

_GANG_FIELDS: Final = tuple(WRITTEN)


@final
@attrs.define(eq=False)
class GangEntry:
    """A gang in the registry.

    Attributes:
        given: The fields of its object, or None if it has no object.
        annotated: The fields from all annotations since it last had no members.
        forgotten: Whether its definition was removed, so that earlier annotations do not count.
        timed_out: Whether it has timed out, so that new members are parked.
        counted: For each field, the value in the annotations of members, and how many have it.
        linked: Its lists of gangs as the links of the registry have them.
    """

    key: int
    name: str
    given: GangFields | None = None
    annotated: GangFields = NO_FIELDS
    members: dict[MemberKey, GangFields] = attrs.field(factory=MAP)
    definition: GangDefinition | None = None
    creation: int = 0
    forgotten: bool = False
    timed_out: bool = False
    counted: dict[str, tuple[object, int]] = attrs.field(factory=MAP)
    linked: tuple[object, ...] = (None, None, None)

    def add(self, member: MemberKey, says: GangFields) -> None:
        """Add a member."""
        self.members[member] = says
        if says is not NO_FIELDS:
            for field in _GANG_FIELDS:
                value = getattr(says, field)
                if value is not None:
                    self.counted[field] = (value, self.counted.get(field, (value, 0))[1] + 1)

    def remove(self, member: MemberKey) -> None:
        """Remove a member."""
        says = self.members.pop(member)
        for field in _GANG_FIELDS:
            if getattr(says, field) is not None:
                value, count = self.counted[field]
                self.counted[field] = (value, count - 1)
                if count == 1:
                    del self.counted[field]

    def annotated_value(self, field: str) -> object | None:
        """Return the value of a field in the annotations of the present members, or None."""
        return self.counted.get(field, (None, 0))[0]

    # GANG-20
    def noted(self) -> GangFields:
        """Return the annotated fields that count if the gang is defined now."""
        return self.annotated.over(self.present()) if self.forgotten else self.annotated

    # GANG-54
    def lists(self) -> tuple[object, ...]:
        """Return the lists of gangs of its object and its annotations, each a tuple or None.

        One that does not count now, since the gang is not defined or another source overrides it,
        may count later without any event about the gangs that it names.
        """
        given = None if self.given is None else self.given.groups
        return given, self.annotated.groups, self.annotated_value("groups")

    def present(self) -> GangFields:
        """Return the fields from the annotations of all present members."""
        together = NO_FIELDS
        for says in set(self.members.values()):
            together = says.over(together)  # They do not contradict: the order does not matter.
        return together


@final
class GangRegistry:
    """All gangs that are defined or have members."""

    def __init__(self) -> None:
        #: Every gang by its full name.
        self.gangs: dict[str, GangEntry] = {}
        #: The key of the gang that was made last.
        self.last_key = 0
        #: Guesses for unknown names of gangs.
        self.guesses = Guesses()
        #: Which gangs name which in any list.
        self._links = GangLinks()

    def save(self, name: str, members: tuple[MemberKey, ...] = ()) -> Callable[[], None]:
        """Return a function that restores a gang, and removes ``members`` that are added next."""
        entry = self.gangs.get(name)
        if entry is None:
            return lambda: self.gone(name)
        before = attrs.evolve(entry)

        def restore() -> None:
            for member in members:
                if member in entry.members:
                    entry.remove(member)
            entry.given, entry.annotated = before.given, before.annotated
            entry.definition, entry.creation = before.definition, before.creation
            entry.forgotten, entry.timed_out = before.forgotten, before.timed_out
            self._link(entry)

        return restore

    def save_member(self, entry: GangEntry, member: MemberKey) -> Callable[[], None]:
        """Return a function that restores a gang and a member that is removed next."""
        says, restore = entry.members[member], self.save(entry.name)

        def bring_back() -> None:
            entry.add(member, says)
            restore()

        return bring_back

    # GANG-54
    def tied_to(self, name: str) -> list[GangEntry]:
        """Return the other gangs that lists connect with a name, the one that came first first."""
        if not self._links.has(name):
            return []
        names = self._links.group_of(name)
        found = [self.gangs[one] for one in names if one != name and one in self.gangs]
        return sorted(found, key=attrgetter("key"))

    def _link(self, entry: GangEntry) -> None:
        """Record the lists of a gang that may have changed."""
        lists = entry.lists()
        if lists != entry.linked:
            entry.linked = lists
            named = [name for one in lists if _is_list(one) for name in one]
            self._links.relink(entry.name, tuple(named))

    def check_join(self, name: str, says: GangFields, field: str) -> None:
        """Check that members can be added to a gang.

        Args:
            name: The full name of the gang.
            says: The fields in the annotations on the members.
            field: The field of the event that has the annotations, for messages.

        Raises:
            RefusedError: If they contradict the present members, or the ``total`` would be
                below ``min_member``.
        """
        entry = self.gangs.get(name)
        if says == NO_FIELDS or entry is None:
            return
        # GANG-11
        for one in _GANG_FIELDS:
            value, present = getattr(says, one), entry.annotated_value(one)
            # GANG-12
            if value is not None and present is not None and value != present:
                msg = (
                    f"{field}: {WRITTEN[one]} {_shown(value)} disagrees with {_shown(present)}, "
                    f"which a member of gang {name!r} that is there says"
                )
                raise RefusedError(msg)
        sticky = entry.noted()
        _check_total(name, says.over(sticky).over(entry.given or NO_FIELDS), field)

    def join(
        self,
        name: str,
        members: tuple[MemberKey, ...],
        place: AskPlace,
        says: GangFields,
        origin: Origin,
    ) -> Iterator[GangRoute]:
        """Add members, which :meth:`check_join` has accepted.

        Args:
            name: The full name of the gang.
            members: The members.
            place: Their place.
            says: The fields in the annotations on them.
            origin: The origin of the request that adds them.

        Yields:
            The messages to the gang.
        """
        entry = self.gangs.get(name)
        if entry is None:
            entry = self._enter(name)
            yield StartGang(entry.key, name)
        for member in members:
            entry.add(member, says)
        # GANG-20
        if entry.forgotten and says.min_member is not None:
            entry.annotated, entry.forgotten = entry.noted(), False
        # GANG-12
        entry.annotated = says.over(entry.annotated)
        self._link(entry)
        yield from self._define(entry, origin.creation)
        # In the log, it is satisfied before its member is bound.
        yield TellGang(entry.key, JoinGang(members, place, (origin.seq, -1, 0)))

    # GANG-9, OBJECT-11
    def define(
        self, name: str, says: GangFields, creation: int, field: str, *, update: bool
    ) -> Iterator[GangRoute]:
        """Set the object of a gang.

        Args:
            name: The full name of the gang.
            says: The fields of the object.
            creation: The position of the event.
            field: The field that has the name, for messages.
            update: Whether it may replace an object.

        Yields:
            The messages to the gang.

        Raises:
            RefusedError: If the gang has an object already, or its ``total`` would be below
                ``min_member``.
        """
        entry = self.gangs.get(name)
        if entry is None:
            entry = self._enter(name)
            yield StartGang(entry.key, name)
        elif entry.given is not None and not update:
            msg = f"{field}: {name!r} is already a gang"
            raise RefusedError(msg)
        annotated = entry.noted()
        _check_total(name, annotated.over(says), field)
        entry.given, entry.annotated, entry.forgotten = says, annotated, False
        self._link(entry)
        yield from self._define(entry, creation)

    # GANG-18
    def remove(self, name: str, field: str) -> Iterator[GangRoute]:
        """Remove the definition of a gang.

        Raises:
            RefusedError: If it is not defined.
        """
        entry = self.gangs.get(name)
        if entry is None or entry.definition is None:
            defined = (one for one, known in self.gangs.items() if known.definition is not None)
            guess = self.guesses.about(name, defined)
            msg = f"{field}: {name!r} is no gang that is defined{guess}"
            raise RefusedError(msg)
        entry.given, entry.annotated, entry.definition = None, NO_FIELDS, None
        entry.forgotten = True
        self._link(entry)
        yield TellGang(entry.key, UndefineGang())

    def leave(self, name: str, member: MemberKey) -> Iterator[GangRoute]:
        """Remove a member that has ended."""
        entry = self.gangs[name]
        entry.remove(member)
        # GANG-16, GANG-17
        if not entry.members:  # Without members, earlier annotations no longer count.
            entry.annotated, entry.timed_out = NO_FIELDS, False
            yield from self._define(entry, entry.creation)
        self._link(entry)

    def gone(self, name: str) -> None:
        """Remove a gang that no longer exists."""
        if self.gangs.pop(name, None) is not None:
            self._links.relink(name, ())
            self._links.forget(name)

    def _enter(self, name: str) -> GangEntry:
        self.last_key += 1
        entry = self.gangs[name] = GangEntry(self.last_key, name)
        return entry

    @staticmethod
    def _define(entry: GangEntry, creation: int) -> Iterator[GangRoute]:
        """Compute the definition of a gang, and yield a message if it has changed."""
        fields = NO_FIELDS
        if not entry.forgotten:
            # GANG-9, GANG-10
            fields = entry.annotated.over(entry.given or NO_FIELDS)
        definition = define(fields)
        if definition == entry.definition:
            return
        # ORDER-19
        if entry.definition is None:
            entry.creation = creation
        entry.definition = definition
        if definition is None:
            yield TellGang(entry.key, UndefineGang())
        else:
            yield TellGang(entry.key, DefineGang(definition, entry.creation))

    # CHECKPOINT-3
    def facts(self) -> Steps[tuple[GangEntryFacts, ...]]:
        """Return the facts that define each gang. Between two batches."""
        found: list[GangEntryFacts] = []
        for entry in self.gangs.values():
            yield
            given, annotated = entry.given, entry.annotated
            members = tuple(entry.members.items())
            found.append(GangEntryFacts(entry.key, given, annotated, members, entry.forgotten))
        return tuple(found)

    # CHECKPOINT-5
    def load(self, facts: AdmissionFacts, gangs: Iterable[GangFacts]) -> Steps[None]:
        """Replace all gangs."""
        owned = {gang.key: gang for gang in gangs}
        for one in facts.gangs:
            gang = owned[one.key]
            entry = self.gangs[gang.name] = GangEntry(
                key=one.key,
                name=gang.name,
                given=one.given,
                annotated=one.annotated,
                definition=gang.definition,
                creation=gang.creation or 0,
                forgotten=one.forgotten,
                timed_out=gang.state is GangState.TIMED_OUT,
            )
            for piece in in_pieces(one.members):
                yield
                for member, says in piece:
                    entry.add(member, NO_FIELDS if says == NO_FIELDS else says)
            self._link(entry)
        self.last_key, self.guesses.left = facts.last_gang, facts.guesses.gangs

    def check(self) -> None:
        """Assert the invariants; for tests."""
        keys = [entry.key for entry in self.gangs.values()]
        assert len(keys) == len(set(keys))
        for name, entry in self.gangs.items():
            assert entry.name == name
            # Each gang is defined or has members.
            assert entry.definition is not None or entry.members
            # The links know its lists.
            assert entry.linked == entry.lists()
            # The members do not contradict each other.
            for field in _GANG_FIELDS:
                values = [getattr(says, field) for says in entry.members.values()]
                found = {value for value in values if value is not None}
                assert found == ({entry.annotated_value(field)} - {None})


# GANG-13
def _check_total(name: str, fields: GangFields, field: str) -> None:
    if fields.lacks_total():
        msg = (
            f"{field}: of gang {name!r} total {fields.total} would be below "
            f"min_member {fields.min_member}"
        )
        raise RefusedError(msg)


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if _is_list(value) else str(value)


def _is_list(value: object) -> TypeGuard[tuple[str, ...]]:
    return isinstance(value, tuple)
