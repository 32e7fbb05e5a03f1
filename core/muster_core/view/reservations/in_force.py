"""The reservations that are in force, from round to round (BACKFILL-15, BACKFILL-23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.values.resources import MAX_QUANTITY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.gangs.member import MemberKey
    from muster_core.view.reservations.party import Party, Reservation
    from muster_core.view.tree.queue import ViewQueue


@final
class InForce:
    """The reservations of all backfill scopes."""

    def __init__(self) -> None:
        #: Those in force, in the order in which they were made. None is taken out in a round.
        self.reservations: list[Reservation] = []
        #: The instant of the last round, in microseconds.
        self.now_us = 0
        #: How many rounds there were.
        self.rounds = 0
        #: Those in force at the end of the round before, by party.
        self._before: dict[frozenset[MemberKey], Reservation] = {}
        #: Until when rounds find the same if nothing changes, in microseconds.
        self._until_us = 0
        #: Whether all that was in force at the end of a round was so at the end of that before.
        self._is_steady = False

    # BACKFILL-23
    def start_round(self, now_us: int) -> None:
        """Begin a round at an instant, in microseconds: nothing is reserved."""
        self.now_us, self._until_us = now_us, MAX_QUANTITY
        self.rounds += 1
        self._before = {one.party.keys: one for one in reversed(self.reservations)}
        self.reservations = []

    def end_round(self) -> None:
        """End a round: note whether the next one would find the same, if nothing changes."""
        now = self.reservations
        known = [one.start_us for one in now if one.start_us is not None]
        self._until_us = min(self._until_us, *known, MAX_QUANTITY)
        self._is_steady = len(self._before) == len(now) and all(map(self._was_there, now))

    def _was_there(self, one: Reservation) -> bool:
        before = self.before(one.party)
        return (
            before is not None
            and (before.scope, before.start) == (one.scope, one.start)
            and before.party.group == one.party.group
            and [node for _, node in before.places] == [node for _, node in one.places]
        )

    def repeat(self, now_us: int) -> None:
        """Let what is in force stay so, at an instant in microseconds."""
        self.now_us = now_us

    def holds_at(self, now_us: int) -> bool:
        """Return whether a round at an instant would find the same, if nothing has changed."""
        return self._is_steady and now_us < self._until_us

    def hold_until(self, until_us: int) -> None:
        """Note that a round would find something else from an instant on, in microseconds."""
        self._until_us = min(self._until_us, until_us)

    def before(self, party: Party) -> Reservation | None:
        """Return what was reserved for the same asks at the end of the round before, or None."""
        return self._before.get(party.keys)

    def of(self, scope: ViewQueue) -> list[Reservation]:
        """Return the reservations of a scope, in order."""
        return [one for one in self.reservations if one.scope is scope]

    # BACKFILL-15
    def is_saturated(self, scope: ViewQueue) -> bool:
        """Return whether no more reservations are sought for a scope in this round."""
        return len(self.of(scope)) >= scope.config.settings.backfill_depth

    def has_one_for(self, ask: Ask) -> bool:
        """Return whether something is reserved for an ask itself."""
        return any(member.ask is ask for one in self.reservations for member in one.party.members)

    # CHECKPOINT-5
    def load(self, reservations: Iterable[Reservation], now_us: int) -> None:
        """Take over what was in force at the instant of the last round, in microseconds."""
        self.reservations, self.now_us = list(reservations), now_us
