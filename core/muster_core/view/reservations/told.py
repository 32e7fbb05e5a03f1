"""Reservations in the forms that leave the view: in snapshots, in the log, in checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.decisions import Decision, Kind
from muster_core.values.snapshots import ReservationSnapshot
from muster_core.view.facts import ReservationFacts
from muster_core.view.gangs.member import Member
from muster_core.view.reservations.party import Party, Reservation, group_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from muster_core.view.reservations.later.rooms import Place
    from muster_core.view.state.view_state import ViewState

Reserved = dict[tuple[str, str], tuple[str, int | None]]
"""The node and the start in microseconds, if that is known, by application and ask."""


# BACKFILL-30
def reserved_by(reservations: Iterable[Reservation]) -> Reserved:
    """Return what is reserved for each ask, in the order of reservations and of placing."""
    # An ask may be in two parties if members of its group are in two scopes: the last counts.
    return {
        (member.app.identity.name, member.ask.name): (node, one.start_us)
        for one in reservations
        for member, node in one.places
    }


# BACKFILL-30
@final
class Told:
    """What the log says of reservations, which tells only what is new or changed."""

    def __init__(self) -> None:
        self._said: Reserved = {}
        #: Those that were in force when the log last told what is new.
        self._heard: Collection[Reservation] | None = None

    def changed(self, reservations: Collection[Reservation]) -> Iterator[Decision]:
        """Return a decision for each node that is reserved newly or otherwise; after a batch."""
        if reservations is self._heard:  # Those of the last round.
            return
        self._heard, now = reservations, reserved_by(reservations)
        for key, (node, start_us) in now.items():
            if self._said.get(key) != (node, start_us):
                app, ask = key
                yield Decision(Kind.RESERVED, app=app, ask=ask, node=node, start_us=start_us)
        self._said = now

    # CHECKPOINT-5
    def load(self, reservations: Iterable[Reservation]) -> None:
        """Record that the log has told what is in force."""
        self._said = reserved_by(reservations)


# EXPECT-15
def snapshot_of(reservations: Sequence[Reservation]) -> dict[str, ReservationSnapshot]:
    """Return what is reserved, by ``app/ask``."""
    found: dict[str, ReservationSnapshot] = {}
    for one in sorted(reservations, key=lambda one: one.scope.config.path):
        for member, node in one.places:
            name = f"{member.app.identity.name}/{member.ask.name}"
            found[name] = ReservationSnapshot(node, one.start_us, one.scope.config.path)
    return found


# CHECKPOINT-4
def facts_of(reservations: Iterable[Reservation]) -> tuple[ReservationFacts, ...]:
    """Return reservations as facts. Between two batches."""
    return tuple(
        ReservationFacts(
            scope=one.scope.key,
            start_us=one.start_us,
            age=one.start[1] if one.start[0] else 0,
            places=tuple(
                (member.app.identity.key, member.ask.name, node) for member, node in one.places
            ),
        )
        for one in reservations
    )


# CHECKPOINT-5
def loaded(state: ViewState, facts: ReservationFacts) -> Reservation:
    """Return a reservation from its facts; everything else is in the view already."""
    places: list[Place] = []
    for key, name, node in facts.places:
        ask = state.apps[key].find(name)
        assert ask is not None, "an ask with a reservation is gone"
        places.append((Member(state.apps[key], ask), node))
    group = group_of(state, places[0][0].ask)
    names = () if group is None else group.names
    party = Party(tuple(member for member, _ in places), names)
    start = (True, facts.age) if facts.start_us is None else (False, facts.start_us)
    return Reservation(state.queues[facts.scope], party, start, tuple(places))
