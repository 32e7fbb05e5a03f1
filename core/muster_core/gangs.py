"""Gangs: what defines one, its topology, its states, and the groups that gangs form.

This module knows no members, nodes or queues, and imports no other module of the core.

GANG-1 to GANG-10, after Koordinator's gang scheduling proposal. The fields of a gang come from an
object (a PodGroup, an ``add_gang`` event) and from annotations on its members. Annotations
override the object field by field.

TOPOLOGY-1, TOPOLOGY-2. The nodes with one value of a node attribute are a *domain*, such as a rack.
The rules are in :mod:`muster_core.view.node_finder`.

GANG-42 to GANG-51: :data:`GANG_TRANSITIONS` has a row for each change of the state of a gang;
nothing else changes it. The owner of a gang applies the table to events, and the coordinator's view
applies it to the decisions of rounds.

GANG-6, GANG-7: the group of a gang is everything that can be reached from it through the
``groups`` of gangs, in both directions. A name connects gangs even if no gang of that name is
defined.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, final

import attrs
from typing_extensions import override

from muster_core.enumerations import quick_members


@final
@quick_members
class TopologyRule(StrEnum):
    """How the members of a gang are placed in the domains of an attribute."""

    SAME = "same"
    PREFER = "prefer"
    SPREAD = "spread"


@final
@attrs.frozen
class Topology:
    """A rule on the domains in which the members of a gang hold nodes.

    Attributes:
        rule: ``same`` for one domain only, ``prefer`` for one domain if possible, ``spread`` for
            as many domains as possible.
        attribute: The node attribute whose values are the domains.
        max: How many members one domain may hold at most; only with ``spread``, and None for any
            number.
    """

    rule: TopologyRule
    attribute: str
    max: int | None = None

    def written(self) -> dict[str, str | int]:
        """Return it as a feed has it."""
        written: dict[str, str | int] = {self.rule.value: self.attribute}
        return written if self.max is None else written | {"max": self.max}

    @override
    def __str__(self) -> str:
        """Return it as messages show it, such as ``same: rack``."""
        return ", ".join(f"{name}: {value}" for name, value in self.written().items())


@final
@quick_members
class GangMode(StrEnum):
    """What happens to the waiting members when one member fits nowhere."""

    STRICT = "Strict"
    NON_STRICT = "NonStrict"


@final
@attrs.frozen
class GangFields:
    """The fields of a gang that one source gives; None if it does not give a field.

    Attributes:
        min_member: How many members must hold a node before any member is bound.
        total: How many members there will be; it is only reported.
        wait_us: How long members may wait, in microseconds.
        groups: The full names of the gangs of its group.
        topology: Which domains its members may or should take; only ``add_gang`` gives it.
        user: Whose gang it is; only an object gives it, and no decision depends on it.
    """

    min_member: int | None = None
    total: int | None = None
    mode: GangMode | None = None
    wait_us: int | None = None
    groups: tuple[str, ...] | None = None
    topology: Topology | None = None
    # GANG-53
    user: str | None = None

    # GANG-3, GANG-13
    def lacks_total(self) -> bool:
        """Return whether ``total`` is below ``min_member``."""
        if self.total is None or self.min_member is None:
            return False
        return self.total < self.min_member

    # GANG-10
    def over(self, other: GangFields) -> GangFields:
        """Merge the fields with those of another source, which these override field by field."""
        return GangFields(
            min_member=other.min_member if self.min_member is None else self.min_member,
            total=other.total if self.total is None else self.total,
            mode=other.mode if self.mode is None else self.mode,
            wait_us=other.wait_us if self.wait_us is None else self.wait_us,
            groups=other.groups if self.groups is None else self.groups,
            topology=other.topology if self.topology is None else self.topology,
            user=other.user if self.user is None else self.user,
        )


NO_FIELDS = GangFields()
"""The fields of a source that gives none."""


@final
@attrs.frozen
class GangDefinition:
    """The definition of a gang, with defaults filled in.

    Attributes:
        min_member: How many members must hold a node before any member is bound; 1 or more.
        total: How many members there will be; it is only reported.
        wait_us: How long members may wait, in microseconds; None for the ``gang.wait.time``
            of the present configuration.
        groups: The full names of the gangs of its group.
        topology: Which domains its members may or should take, or None.
    """

    min_member: int
    total: int
    mode: GangMode = GangMode.STRICT
    wait_us: int | None = None
    groups: tuple[str, ...] = ()
    topology: Topology | None = None


# GANG-2, GANG-3, GANG-4
def define(fields: GangFields) -> GangDefinition | None:
    """Return the definition with defaults filled in, or None without ``min_member``."""
    if fields.min_member is None:
        return None
    return GangDefinition(
        min_member=fields.min_member,
        total=fields.min_member if fields.total is None else fields.total,
        mode=fields.mode or GangMode.STRICT,
        wait_us=fields.wait_us,
        groups=fields.groups or (),
        topology=fields.topology,
    )


@final
@quick_members
class GangState(StrEnum):
    """The state of a gang."""

    PLACEHOLDER = "Placeholder"
    GATHERING = "Gathering"
    WAITING = "Waiting"
    SATISFIED = "Satisfied"
    TIMED_OUT = "TimedOut"


@final
@quick_members
class GangTrigger(StrEnum):
    """What can change the state of a gang."""

    DEFINED = "it is defined"
    REMOVED = "it is removed"
    FIRST_WAITS = "a first member waits"
    NONE_WAITS = "no member waits any more"
    GROUP_BOUND = "its group is complete, or a member comes bound"
    TIMED_OUT = "a wait of its group is over, or a member says so"
    RETRIED = "it is tried again after a timeout"
    ALL_LOST = "its last bound member is lost"
    EMPTIED = "no member is left"


# GANG-14
GANG_TRANSITIONS: Final[dict[tuple[GangState, GangTrigger], GangState]] = {
    (GangState.PLACEHOLDER, GangTrigger.DEFINED): GangState.GATHERING,
    (GangState.PLACEHOLDER, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.PLACEHOLDER, GangTrigger.TIMED_OUT): GangState.TIMED_OUT,
    (GangState.GATHERING, GangTrigger.FIRST_WAITS): GangState.WAITING,
    (GangState.GATHERING, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.GATHERING, GangTrigger.TIMED_OUT): GangState.TIMED_OUT,
    (GangState.GATHERING, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.WAITING, GangTrigger.NONE_WAITS): GangState.GATHERING,
    (GangState.WAITING, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.WAITING, GangTrigger.TIMED_OUT): GangState.TIMED_OUT,
    (GangState.WAITING, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.WAITING, GangTrigger.EMPTIED): GangState.GATHERING,
    # GANG-50, GANG-51
    (GangState.SATISFIED, GangTrigger.ALL_LOST): GangState.GATHERING,
    # GANG-19
    (GangState.SATISFIED, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.SATISFIED, GangTrigger.EMPTIED): GangState.GATHERING,
    # GANG-45
    (GangState.TIMED_OUT, GangTrigger.GROUP_BOUND): GangState.SATISFIED,
    (GangState.TIMED_OUT, GangTrigger.REMOVED): GangState.PLACEHOLDER,
    (GangState.TIMED_OUT, GangTrigger.EMPTIED): GangState.GATHERING,
    # GANG-59
    (GangState.TIMED_OUT, GangTrigger.RETRIED): GangState.GATHERING,
}
"""The next state, by the present state and what happens."""


# GANG-15
def next_gang_state(state: GangState, trigger: GangTrigger, *, defined: bool) -> GangState:
    """Return the state after ``trigger``, which is the same one without a row in the table.

    Args:
        state: The present state.
        trigger: What happens.
        defined: Whether the gang is defined; without a definition, Gathering is Placeholder.
    """
    after = GANG_TRANSITIONS.get((state, trigger), state)
    return GangState.PLACEHOLDER if after is GangState.GATHERING and not defined else after


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
            current = fresh.pop()
            for neighbour in (*self._lists.get(current, ()), *self._named_by.get(current, ())):
                if neighbour not in found:
                    found.add(neighbour)
                    fresh.append(neighbour)
        return found
