"""What is reserved for the party of a pending ask, and what it waits for (OUTLOOK-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.reasons import Reserved
from muster_core.view.reasons.words import counted, listed, named, seconds
from muster_core.view.reservations.later.releases import releases, releases_on
from muster_core.view.reservations.party import group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.later.releases import Release
    from muster_core.view.reservations.party import Reservation
    from muster_core.view.reservations.reservations import Reservations
    from muster_core.view.state.view_state import ViewState

_TOLD: Final = 4
"""How many names a sentence lists."""


# OUTLOOK-6
@final
class ReservedFor:
    """Tells what is reserved, between two batches; a new one is needed after each change.

    Args:
        state: The view, which is only read.
        reservations: What the last round has reserved.
    """

    def __init__(self, state: ViewState, reservations: Reservations) -> None:
        self._state = state
        self._reservations = reservations
        #: What was found, by reservation: the members of a gang share it.
        self._found: dict[int, Reserved] = {}

    def ask(self, ask: Ask) -> Reserved | None:
        """Return what is reserved for the party of a pending ask, or for its group; or None."""
        for one in self._in_force():
            if any(member.ask is ask for member, _ in one.places):
                return self._told(one)
        group = group_of(self._state, ask)
        return None if group is None else self.group(group.names)

    def group(self, names: Sequence[str]) -> Reserved | None:
        """Return what is reserved for the missing members of a group of gangs, or None."""
        found = (one for one in self._in_force() if one.party.group == names)
        one = next(found, None)
        return None if one is None else self._told(one)

    def _in_force(self) -> list[Reservation]:
        """Return what is reserved; of an ask in two parties, what a snapshot tells comes first."""
        in_force = self._reservations.in_force.reservations
        return sorted(in_force, key=lambda one: one.scope.config.path, reverse=True)

    def _told(self, one: Reservation) -> Reserved:
        found = self._found.get(id(one))
        if found is None:
            waits_for = [(named(it.app, it.allocation.ask), it.node.name) for it in self._ends(one)]
            places = [(named(member.app, member.ask), node) for member, node in one.places]
            found = Reserved(one.scope.config.path, one.start_us, tuple(places), tuple(waits_for))
            self._found[id(one)] = found
        return found

    def _ends(self, one: Reservation) -> list[Release]:
        """Return the releases with which a reservation starts, in their order."""
        nodes, now_us = self._state.nodes.nodes, self._reservations.in_force.now_us
        names = dict.fromkeys(name for _, name in one.places)
        there = [
            release
            for name in names
            if name in nodes
            for release in releases_on(self._state, nodes[name], now_us)
        ]
        found = self._making(one, there)
        # Elsewhere an ask may give back a quota, a place in a topology, or nothing that matters.
        return found or self._making(one, releases(self._state, now_us))

    def _making(self, one: Reservation, some: Iterable[Release]) -> list[Release]:
        """Return those releases with which a reservation starts."""
        found = [
            release
            for release in some
            if (release.at == one.start or (release.at[0] and release.at < one.start))
            and release.allocation.ask.gang not in one.party.group
        ]
        return sorted(found, key=lambda release: (release.at, release.allocation.age))


def reserved_since(reserved: Reserved, written: Callable[[int], str] = seconds) -> str:
    """Say from when on something is reserved, and what it waits for.

    Args:
        reserved: What is reserved.
        written: Writes an instant, given in microseconds since the origin.
    """
    asks = [f"{ask} on {node}" for ask, node in reserved.waits_for]
    one = len(asks) == 1
    if reserved.start_us is None:
        ends = "has ended, whose" if one else "have ended, whose"
        return f"once {few(asks, 'other', 'others')} {ends} end is not known"
    since = f"from {written(reserved.start_us)}"
    if not asks:
        return since
    are = "is" if one else "are"
    return f"{since}, when {few(asks, 'other', 'others')} {are} expected to end"


def few(names: Sequence[str], other: str, others: str) -> str:
    """List the first of some names, and count the others; there must be one."""
    if len(names) <= _TOLD:
        return listed(names)
    return listed([*names[: _TOLD - 1], counted(len(names) - _TOLD + 1, other, others)])
