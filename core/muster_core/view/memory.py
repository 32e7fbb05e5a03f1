"""What was done to the asks, so that a state that comes again is known.

SPEC section 5: rounds go on until one leaves the bound, waiting and pending asks exactly
as it found them, and never twice from the same state. As long as nothing is given up
again, every round that does anything leads to a state that was never there; only when
something was given up do states have to be compared.

Reclaim and preemption need another memory, for as long as nothing new comes in. Three asks
can each have a right to the place of the next: one by what its queue is guaranteed, two by
their priorities. Who has taken something does not take it again from the same state, or
they would take it from one another for ever. Asks of an application that are alike count
as the same there, or each of them would have its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.shapes import Shape

if TYPE_CHECKING:
    from muster_core.messages import Ask

Place = tuple[bool, str] | None
"""Whether an ask is bound, and its node; None while it is pending."""

Alike = tuple[int, Shape, int, bool, str | None]
"""What asks have in common that differ in their names alone: the application, what they need
of a node, their priority, whether they preempt, and their gang."""

Taker = Alike | tuple[str, ...]
"""Who has taken something: an ask like these, or a group of gangs of these names."""


def alike(app: int, ask: Ask) -> Alike:
    """Give what an ask has in common with others of its application."""
    return (app, ask.shape, ask.priority, ask.preempts, ask.gang)


@final
class Memory:
    """The states from which rounds have begun, and from which something was taken."""

    def __init__(self) -> None:
        #: Every move since something new came in: the application, the ask, from where, to where.
        self._moves: list[tuple[int, Ask, Place, Place]] = []
        #: After how many moves each round began, since the memory of rounds began.
        self._rounds: list[int] = []
        #: Whether any of the moves since then gave something up.
        self._gave_up = False
        #: Who took something after how many moves, by a hash of what these amount to.
        self._taken: dict[int, list[tuple[int, Taker]]] = {}
        #: That hash, after so many moves.
        self._hash = 0
        self._hashed = 0

    def start_batch(self, *, is_new: bool) -> None:
        """Begin a batch.

        Args:
            is_new: Something new came in, so that nothing that was before matters.
        """
        if is_new or not self._taken:
            self._moves.clear()
            self._taken.clear()
            self._hash = self._hashed = 0
        self.start_anew()

    def start_anew(self) -> None:
        """Forget from which states rounds have begun."""
        self._rounds.clear()
        self._gave_up = False

    def note(self, app: int, ask: Ask, before: Place, after: Place) -> None:
        """Take note that an ask is in another place now."""
        self._moves.append((app, ask, before, after))
        self._gave_up = self._gave_up or after is None

    def mark(self) -> tuple[int, bool]:
        """Give the place where the memory is now, for :meth:`go_back`."""
        return len(self._moves), self._gave_up

    def go_back(self, mark: tuple[int, bool]) -> None:
        """Forget moves that were all undone."""
        moves, self._gave_up = mark
        del self._moves[moves:]

    # Rounds

    def start_round(self) -> None:
        """Take note that a round begins now."""
        self._rounds.append(len(self._moves))

    def knows_this(self) -> bool:
        """Say whether a round has begun from the state that is now."""
        if not self._gave_up:
            return self._rounds[-1] == len(self._moves)
        now = self._changes(len(self._moves))
        return any(self._changes(moves) == now for moves in self._rounds)

    def _changes(self, moves: int) -> dict[tuple[int, str], Place]:
        """Give what the first moves amount to: who is in another place than at first."""
        first: dict[tuple[int, str], Place] = {}
        last: dict[tuple[int, str], Place] = {}
        for app, ask, before, after in self._moves[:moves]:
            first.setdefault((app, ask.name), before)
            last[app, ask.name] = after
        return {key: place for key, place in last.items() if place != first[key]}

    # Reclaim and preemption

    def takers(self) -> set[Taker]:
        """Give who has taken something from the state that is now, since anything came in."""
        if not self._taken:
            return set()
        candidates = self._taken.get(self._hash_now(), ())
        now = self._amounts(len(self._moves)) if candidates else {}
        return {taker for moves, taker in candidates if self._amounts(moves) == now}

    def take(self, taker: Taker) -> None:
        """Take note that something is taken from the state that is now."""
        self._taken.setdefault(self._hash_now(), []).append((len(self._moves), taker))

    def forget_takers(self) -> None:
        """Forget who has taken something: a bind has failed, which is a change."""
        self._taken.clear()

    def _hash_now(self) -> int:
        """Give a hash of what all moves amount to; equal ones may come of different states."""
        for app, ask, before, after in self._moves[self._hashed :]:
            kind = alike(app, ask)
            self._hash += hash((kind, after)) - hash((kind, before))
        self._hashed = len(self._moves)
        return self._hash

    def _amounts(self, moves: int) -> dict[tuple[Alike, Place], int]:
        """Give what the first moves amount to: how many more asks are where; no zeros."""
        amounts: dict[tuple[Alike, Place], int] = {}
        for app, ask, before, after in self._moves[:moves]:
            kind = alike(app, ask)
            for place, change in ((before, -1), (after, 1)):
                amounts[kind, place] = amounts.get((kind, place), 0) + change
        return {key: amount for key, amount in amounts.items() if amount}
